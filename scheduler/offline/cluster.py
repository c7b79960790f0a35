"""A cluster in memory, and the profiles that decide about its pods."""

from collections.abc import Mapping
from typing import Final

from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.bootstrap import FrameworkBuilder
from scheduler.cache import Cache
from scheduler.config.load import default_configuration
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.framework.runtime import Framework
from scheduler.framework.status import Status
from scheduler.offline.reading import ClusterObjects
from scheduler.plugins.default_binder import Binder
from scheduler.snapshot import Snapshot

DEFAULT_PROFILE: Final = "default-scheduler"
OWN_PROFILE: Final = "stowage"


class NoBinder(Binder):
    """Nothing is bound where there is no API server."""

    @override
    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Refuse."""
        raise NotImplementedError(f"{namespace}/{name} ({uid}) cannot be bound to {node}")


def no_time() -> float:
    """Time stands still where nothing takes time."""
    return 0.0


class Profiles:
    """The frameworks of a configuration, and which pods they answer to.

    Without a configuration one default profile answers to `default-scheduler` and to `stowage`.
    """

    def __init__(self, config: KubeSchedulerConfiguration | None) -> None:
        self.config = config or default_configuration(DEFAULT_PROFILE)
        self._builder = FrameworkBuilder(NoBinder(), no_time)
        self.frameworks: dict[str, Framework] = self._builder.build(self.config)
        if config is None:
            self.frameworks[OWN_PROFILE] = self.frameworks[DEFAULT_PROFILE]

    def load(self, objects: ClusterObjects) -> tuple[Cache, Snapshot]:
        """Put the objects into a fresh cache and snapshot."""
        cache, snapshot = Cache(no_time), Snapshot()
        for namespace in objects.namespaces:
            cache.set_namespace(namespace.metadata.name, namespace.metadata.labels)
        for node in objects.nodes:
            cache.set_node(node)
        for pod in objects.pods:
            if pod.node_name:
                cache.add_pod(pod)
        for kind, workload in objects.workloads:
            self._builder.workloads.set(kind, workload)
        cache.update_snapshot(snapshot)
        return cache, snapshot

    def waiting(self, objects: ClusterObjects) -> list[PodInfo]:
        """The pods these profiles are to place."""
        return [
            pod
            for pod in objects.pods
            if not pod.node_name
            and not pod.is_terminating
            and pod.spec.scheduler_name in self.frameworks
        ]

    def framework_of(self, pod: PodInfo) -> Framework:
        """The profile that decides about the pod."""
        return self.frameworks[pod.spec.scheduler_name]

    def gate(self, pod: PodInfo) -> Status:
        """Success, or what keeps the pod out of the queue."""
        return self.framework_of(pod).run_pre_enqueue_plugins(pod)

    def nominated(self, waiting: list[PodInfo], judged: PodInfo) -> Mapping[str, list[PodInfo]]:
        """By node, the waiting pods that are to be thought of as running there."""
        found: dict[str, list[PodInfo]] = {}
        for pod in waiting:
            node = pod.pod.status.nominated_node_name
            counts = pod.uid != judged.uid and pod.priority >= judged.priority
            if node and counts and self.gate(pod).is_success:
                found.setdefault(node, []).append(pod)
        return found
