"""An engine of the default profile in a cluster whose answers are given at once."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from scheduler.api.pods import PodInfo
from scheduler.config.load import default_configuration
from scheduler.kernel.engine.events import (
    Bound,
    Decide,
    Event,
    Evicted,
    ObjectGone,
    ObjectSet,
    Tick,
)
from scheduler.kernel.engine.instructions import Bind, Evict, Instruction
from scheduler.tools.offline.cluster import DEFAULT_PROFILE, Profiles
from scheduler.tools.offline.reading import ClusterObjects
from tests.support.builders import make_pod_info


class AnsweredCluster:
    """What an engine is told, and what comes of it.

    Attributes:
        engine: it is told.
        now: the time.
        pods: by UID, as the API server has them.
    """

    def __init__(self, seed: int = 0, feature_gates: Collection[str] = ()) -> None:
        self.profiles = Profiles(
            default_configuration(DEFAULT_PROFILE, feature_gates), is_named=False
        )
        self.engine = self.profiles.load(ClusterObjects(), seed=seed).engine
        self.now = 1000.0
        self.pods: dict[str, PodInfo] = {}

    def handle(self, event: Event) -> None:
        """One event; its instructions are carried out at once."""
        for told in self.engine.handle(event, self.now):
            self.carry_out(told)

    def carry_out(self, told: Instruction) -> None:
        """What an instruction asks of the API server is done."""
        if isinstance(told, Bind):
            attempt = self.engine.attempts.get(told.attempt)
            assert attempt is not None
            self.pods[told.uid] = attempt.pod
            self.handle(Bound(told.attempt))
            self.handle(ObjectSet("pods", self.pods[told.uid]))
        elif isinstance(told, Evict):
            self.handle(Evicted(told.uid))
            self.end(told.uid)

    def tell(self, events: Iterable[Event]) -> None:
        """Several events, one after the other."""
        for event in events:
            self.handle(event)

    def set(self, *pods: PodInfo) -> None:
        """Pods are new, or are now like this."""
        for pod in pods:
            self.pods[pod.uid] = pod
            self.handle(ObjectSet("pods", pod))

    def add(self, name: str, **fields: Any) -> PodInfo:
        """A pod of the default profile comes."""
        pod = make_pod_info(name, uid=name, scheduler_name=DEFAULT_PROFILE, **fields)
        self.set(pod)
        return pod

    def end(self, uid: str) -> None:
        """A pod is gone."""
        pod = self.pods.pop(uid)
        self.handle(ObjectGone("pods", pod.namespace, pod.name, uid))

    def run(self) -> None:
        """Decide about all pods that are ready."""
        while self.engine.has_ready:
            self.handle(Decide())

    def pass_time(self, seconds: int) -> None:
        """Let time pass, a tick each second; what becomes ready is decided."""
        for _ in range(seconds):
            self.now += 1.0
            self.handle(Tick())
            self.run()

    def waiting(self) -> list[str]:
        """The names of the pods that have no node."""
        return [pod.name for pod in self.pods.values() if not pod.node_name]

    def forgotten(self) -> Iterator[str]:
        """Pods that wait although they fit."""
        core = self.engine.core
        core.catch_up()
        for pod in self.pods.values():
            if not pod.node_name:
                framework = self.profiles.framework_of(pod)
                found = framework.filtering.find_nodes_that_fit(
                    pod, core.snapshot, core.queue.nominator
                )
                if len(found.feasible_rows()):
                    yield pod.name
