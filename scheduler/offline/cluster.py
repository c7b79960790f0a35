"""A cluster in memory, and the profiles that decide about its pods."""

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Final

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.bootstrap import FrameworkBuilder
from scheduler.cache import Cache
from scheduler.config.args import DefaultPreemptionArgs
from scheduler.config.load import default_configuration
from scheduler.config.types import KubeSchedulerConfiguration, PluginConfig
from scheduler.framework.interface import Plugin
from scheduler.framework.runtime import Framework
from scheduler.offline.reading import ClusterObjects
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.queue import Nominator
from scheduler.snapshot import Snapshot

DEFAULT_PROFILE: Final = "default-scheduler"
OWN_PROFILE: Final = "stowage"


def no_time() -> float:
    """Time stands still where nothing takes time."""
    return 0.0


class Cluster(msgspec.Struct, frozen=True):
    """Objects, placed.

    Attributes:
        cache: what runs where.
        snapshot: the same in columns.
        waiting: the pods that the profiles are to place, by namespace and name.
        nominator: which of them are nominated to which nodes.
        others: waiting pods that the profiles do not answer to, by scheduler name.
    """

    cache: Cache
    snapshot: Snapshot
    waiting: list[PodInfo]
    nominator: Nominator
    others: Counter[str]


class Profiles:
    """The frameworks of a configuration, and which pods they answer to.

    A profile without a name (such as the default one, when there is no configuration) is reported
    as `default-scheduler` and answers to that and to `stowage`: no cluster is touched, so nobody's
    pods are taken by mistake.

    Attributes:
        config: what is in effect.
        frameworks: by scheduler name.
    """

    def __init__(
        self,
        config: KubeSchedulerConfiguration | None,
        out_of_tree: Mapping[str, type[Plugin]] | None = None,
        *,
        is_named: bool = True,
        tries_all_nodes: bool = False,
    ) -> None:
        """Build the profiles.

        Args:
            config: what they are; None for the default profile.
            out_of_tree: plugins beside the in-tree ones, by name.
            tries_all_nodes: whether preemption has every node that may help for a candidate.
            is_named: False when the only profile of the configuration was given no name.

        Raises:
            SchedulerError: a profile cannot be built.
        """
        self.config = config or default_configuration(DEFAULT_PROFILE)
        if tries_all_nodes:
            self.config = _with_all_candidates(self.config)
        self._builder = FrameworkBuilder(no_time, out_of_tree=out_of_tree)
        self.frameworks: dict[str, Framework] = self._builder.build(self.config)
        if config is None or not is_named:
            self.frameworks[OWN_PROFILE] = self.frameworks[DEFAULT_PROFILE]

    def load(self, objects: ClusterObjects) -> Cluster:
        """Put the objects into a fresh cache and snapshot."""
        cache, snapshot = Cache(no_time), Snapshot()
        for namespace in objects.namespaces:
            cache.set_namespace(namespace.metadata.name, namespace.metadata.labels)
        for node in objects.nodes:
            cache.set_node(node)
        for kind, workload in objects.workloads:
            self._builder.states.object_changed(kind, None, workload)
        cluster = Cluster(cache, snapshot, [], Nominator(), Counter())
        self._builder.backing.snapshot = snapshot
        self._builder.backing.nominator = cluster.nominator
        self._builder.backing.random = Random(0)  # noqa: S311 - which node is tried first
        for pod in objects.pods:
            self._place(pod, cluster)
        cache.update_snapshot(snapshot)
        return cluster

    def framework_of(self, pod: PodInfo) -> Framework:
        """The profile that decides about the pod."""
        return self.frameworks[pod.spec.scheduler_name]

    def _place(self, pod: PodInfo, cluster: Cluster) -> None:
        if pod.node_name:
            cluster.cache.add_pod(pod)
            return
        if pod.spec.scheduler_name not in self.frameworks:
            if not pod.is_terminating:
                cluster.others[pod.spec.scheduler_name] += 1
            return
        if self._is_nominated(pod):
            cluster.nominator.add_nominated_pod(pod)
        if not pod.is_terminating:
            cluster.waiting.append(pod)

    def _is_nominated(self, pod: PodInfo) -> bool:
        """Whether room must be left for the pod; a gated one has to wait for its gates first."""
        if not pod.pod.status.nominated_node_name:
            return False
        return self.framework_of(pod).run_pre_enqueue_plugins(pod).is_success


def _with_all_candidates(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """The configuration with preemption that leaves out no node."""
    name = DefaultPreemption.NAME
    profiles = []
    for profile in config.profiles:
        args = msgspec.structs.replace(
            profile.args(DefaultPreemptionArgs), min_candidate_nodes_percentage=100
        )
        others = tuple(each for each in profile.plugin_config if each.name != name)
        profiles.append(
            msgspec.structs.replace(profile, plugin_config=(*others, PluginConfig(name, args)))
        )
    return msgspec.structs.replace(config, profiles=tuple(profiles))
