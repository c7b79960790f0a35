"""Loads a cluster into an engine in memory, with the profiles of a configuration."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.clock import SystemClock
from scheduler.config.args import DefaultPreemptionArgs
from scheduler.config.load import default_configuration
from scheduler.config.types import (
    MAX_IN_UNSCHEDULABLE_SECONDS,
    KubeSchedulerConfiguration,
    PluginConfig,
)
from scheduler.daemon.bootstrap import FrameworkBuilder, build_engine
from scheduler.daemon.informers.kinds import POD_GROUPS, TAINT_RULES, watched_kind
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import ObjectSet, Tick
from scheduler.kernel.engine.outcome import TakeOutcome
from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.handle import StateT
from scheduler.kernel.framework.interface import Plugin
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.runtime.shared_states import kinds_to_watch
from scheduler.kernel.plugins.default_preemption import DefaultPreemption
from scheduler.kernel.snapshot import Snapshot
from scheduler.tools.offline.asking import OfflineExtenders, WrittenObjects
from scheduler.tools.offline.progress import Progress, no_progress
from scheduler.tools.offline.reading import ClusterObjects

DEFAULT_PROFILE: Final = "default-scheduler"
OWN_PROFILE: Final = "stowage"
_BEHIND_GATES: Final = frozenset({POD_GROUPS.name, TAINT_RULES.name})
"""Kinds that an engine knows only if a plugin of its profiles declares them."""
ARRIVAL_SECONDS: Final = 0.001
"""Seconds between the arrivals of two objects."""


def zero_clock() -> float:
    """Return 0: offline no time passes."""
    return 0.0


class ClusterState(msgspec.Struct, frozen=True):
    """A cluster loaded into an engine.

    Attributes:
        engine: the engine with the objects; it has made no decision.
        waiting: the pending pods of the profiles, by namespace and name.
        others: the pending pods without a profile.
        asker: calls extenders; None if there are none, or they must not be called.
    """

    engine: Engine
    waiting: list[PodInfo]
    others: list[PodInfo]
    asker: OfflineExtenders | None = None

    @property
    def snapshot(self) -> Snapshot:
        """The cluster in columns."""
        return self.engine.core.snapshot

    @property
    def nominator(self) -> NominatedPods:
        """The nominated pods and their nodes."""
        return self.engine.core.queue.nominator


class Profiles:
    """The frameworks of a configuration, by their scheduler names.

    A profile may have no name, such as the default one without a configuration. Then it is reported
    as `default-scheduler`, and used for that name and `stowage`. As no cluster is changed, no pods
    of kube-scheduler are scheduled by mistake.

    Attributes:
        config: the effective configuration.
        frameworks: the frameworks by scheduler name.
        is_named: False if the only profile has no name.
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
            config: the configuration; None for the default profile.
            out_of_tree: the out-of-tree plugins by name.
            tries_all_nodes: whether preemption tries all potential nodes as candidates.
            is_named: False if the only profile of the configuration has no name.

        Raises:
            SchedulerError: a profile cannot be built.
        """
        self.config = config or default_configuration(DEFAULT_PROFILE)
        if tries_all_nodes:
            self.config = _with_all_candidates(self.config)
        self._builder = FrameworkBuilder(zero_clock, out_of_tree=out_of_tree)
        # Used only to compare times in objects with the present time.
        self._builder.services.epoch = SystemClock().wall().timestamp()
        self.frameworks: dict[str, Framework] = self._builder.build(self.config)
        if config is None or not is_named:
            self.frameworks[OWN_PROFILE] = self.frameworks[DEFAULT_PROFILE]
        self._out_of_tree = out_of_tree
        self.is_named = config is not None and is_named

    @property
    def watched(self) -> tuple[ObjectKind, ...]:
        """The kinds that the plugins declare, except pods, nodes and namespaces."""
        return kinds_to_watch(self.frameworks.values())

    def beside(self, others: "Sequence[Profiles]", *, tries_all_nodes: bool = False) -> "Profiles":
        """Return these profiles, profiles of others with other names, and kube-scheduler's.

        Settings outside of profiles, such as extenders, are those of this configuration.

        Raises:
            SchedulerError: a profile cannot be built.
        """
        default = default_configuration(DEFAULT_PROFILE).profiles
        by_name = {
            profile.scheduler_name: profile
            for profiles in (default, *(o.config.profiles for o in reversed(others)))
            for profile in profiles
        }
        mine = {profile.scheduler_name for profile in self.config.profiles}
        more = (profile for name, profile in by_name.items() if name not in mine)
        config = msgspec.structs.replace(self.config, profiles=(*self.config.profiles, *more))
        return Profiles(config, self._out_of_tree, tries_all_nodes=tries_all_nodes)

    def again(self) -> "Profiles":
        """Build the same profiles for another cluster: plugins keep state about one cluster.

        Raises:
            SchedulerError: a profile cannot be built.
        """
        return Profiles(self.config, self._out_of_tree, is_named=self.is_named)

    def without_extenders(self) -> "Profiles":
        """Build the same profiles for a command that calls no extender.

        Raises:
            SchedulerError: a profile cannot be built.
        """
        config = msgspec.structs.replace(self.config, extenders=())
        return Profiles(config, self._out_of_tree, is_named=self.is_named)

    def load(
        self,
        objects: ClusterObjects,
        seed: int = 0,
        *,
        with_extenders: bool = True,
        progress: Progress = no_progress,
    ) -> ClusterState:
        """Load objects into a new engine, once; pods are added in the order of their creation.

        `seed` is that of the random numbers that break ties between nodes.

        Raises:
            SchedulerError: the address or a certificate of an extender cannot be used.
        """
        engine = self.engine(seed, with_extenders=with_extenders, epoch=objects.time)
        engine.core.durations = objects.durations.copy()
        count = max(1, len(objects.nodes) + len(objects.pods))
        declared = {watched_kind(kind).name for kind in self.watched}
        for number, event in enumerate(events_of(objects)):
            if event.kind in _BEHIND_GATES and event.kind not in declared:
                continue
            progress(min(1.0, number / count))
            engine.handle(event, number * ARRIVAL_SECONDS)
        engine.handle(Tick(), engine.core.now)
        pending = [pod for pod in objects.pods if not pod.node_name and not pod.is_terminating]
        return ClusterState(
            engine,
            [pod for pod in pending if pod.spec.scheduler_name in self.frameworks],
            [pod for pod in pending if pod.spec.scheduler_name not in self.frameworks],
            self._asker(objects, engine),
        )

    def _asker(self, objects: ClusterObjects, engine: Engine) -> OfflineExtenders | None:
        extenders = engine.core.extenders
        if not extenders:
            return None
        written = WrittenObjects(objects.written_pods, objects.written_nodes)
        return OfflineExtenders(extenders, written, SystemClock())

    def shared(self, state_type: type[StateT]) -> StateT:
        """Return a shared state of the plugins, for the cluster loaded last."""
        return self._builder.states.shared(state_type, "")

    def engine(
        self,
        seed: int,
        max_in_unschedulable_seconds: float = MAX_IN_UNSCHEDULABLE_SECONDS,
        *,
        with_extenders: bool = True,
        take_outcome: TakeOutcome | None = None,
        epoch: float | None = None,
    ) -> Engine:
        """Return a fresh engine; use only one at a time, since all share their plugins.

        `epoch` is the time of day at 0 of the events' clock, in seconds since 1970; None for now.
        """
        config = self.config
        if epoch is not None:
            self._builder.services.epoch = epoch
        if not with_extenders:
            config = msgspec.structs.replace(config, extenders=())
        return build_engine(
            config,
            self._builder,
            self.frameworks,
            seed=seed,
            max_in_unschedulable_seconds=max_in_unschedulable_seconds,
            take_outcome=take_outcome,
        )

    def framework_of(self, pod: PodInfo) -> Framework:
        """Return the framework of the pod's profile; for other schedulers' pods, the first one."""
        own = self.frameworks.get(pod.spec.scheduler_name)
        return next(iter(self.frameworks.values())) if own is None else own


def scheduler_names(pods: Iterable[PodInfo]) -> str:
    """Return the names of the schedulers of some pods, each with the number of its pods."""
    counts = Counter(pod.spec.scheduler_name for pod in pods)
    return ", ".join(f"{name} ({count})" for name, count in sorted(counts.items()))


def events_of(objects: ClusterObjects) -> Iterator[ObjectSet]:
    """Yield the events that add objects to an engine; pods come in the order of their creation."""
    yield from (ObjectSet("namespaces", namespace) for namespace in objects.namespaces)
    yield from (ObjectSet("nodes", node) for node in objects.nodes)
    yield from (ObjectSet(watched_kind(kind).name, obj) for kind, obj in objects.watched)
    yield from (ObjectSet("pods", pod) for pod in sorted(objects.pods, key=_creation))


def _creation(pod: PodInfo) -> str:
    """Return a key that sorts pods by creation; those without a time come last."""
    return pod.pod.metadata.creation_timestamp or "~"


def _with_all_candidates(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Return the configuration in which preemption tries all potential nodes."""
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
