"""A simulation that places all waiting pods: the real queue, the real decisions, nothing bound."""

from math import inf
from typing import Final

import msgspec
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.events import Decide, Tick
from scheduler.kernel.engine.instructions import Bind, Evict
from scheduler.tools.offline.cluster import ClusterState
from scheduler.tools.offline.driving import Driving
from scheduler.tools.offline.progress import Progress, no_progress

EVICTED: Final = "evicted for a more important pod"
HELD: Final = "has a place, and is held by"


class Placement(msgspec.Struct, frozen=True, rename="camel"):
    """The outcome for one pod.

    Attributes:
        pod: namespace/name.
        node: the node it is placed on, or None.
        nominated_node: the node on which room is made for it.
        victims: the pods that are evicted for it, or for its group: the first member names them.
        message: the reason why it stays pending.
    """

    pod: str
    node: str | None = None
    nominated_node: str | None = None
    victims: tuple[str, ...] = ()
    message: str = ""


class SimulationResult(msgspec.Struct, frozen=True):
    """The outcome for all pods: placed ones in the order of placement, then pending ones."""

    placements: tuple[Placement, ...]


def simulate(cluster: ClusterState, progress: Progress = no_progress) -> SimulationResult:
    """Schedule all waiting pods, each decision building on those before it.

    The cluster is afterwards as it would be. A rejected pod is tried again when a later placement
    may help it, as in the daemon.
    """
    return _Simulation(cluster, progress).run()


class _Simulation(Driving):
    """A simulation that records the node of each pod."""

    def __init__(self, cluster: ClusterState, progress: Progress) -> None:
        super().__init__(cluster.engine, cluster.asker)
        self._cluster = cluster
        self._progress = progress
        self._placed: dict[str, Placement] = {}
        self._victims: dict[str, list[str]] = {}
        """By the UID of the pod or group that they made room for."""
        self._given_up: set[str] = set()

    def run(self) -> SimulationResult:
        """Empty the queue, and collect the pods that are left."""
        pods = max(1, len(self._cluster.waiting))
        decisions = 0
        while self.engine.has_ready or self._give_up_on_held_pods():
            self._progress(min(1.0, decisions / pods))
            self.handle(Decide())
            decisions += 1
        self._progress(1.0)
        self.handle(Tick())
        messages = {entry["uid"]: str(entry["message"]) for entry in self.engine.core.queue.dump()}
        messages.update(
            (held.pod.uid, f"{HELD} {', '.join(held.pending_plugins)}")
            for held in self.engine.core.waiting
        )
        nominator = self.engine.core.queue.nominator
        nominated = {
            pod.uid: node for node in nominator for pod in nominator.nominated_pods_for_node(node)
        }
        pending = (
            Placement(
                pod.key,
                nominated_node=nominated.get(pod.uid),
                victims=self._victims_of(pod),
                message=messages.get(pod.uid, EVICTED),
            )
            for pod in self._cluster.waiting
            if pod.uid not in self._placed
        )
        return SimulationResult((*self._placed.values(), *pending))

    @override
    def evict(self, evict: Evict) -> None:
        """Evict a victim; its placement in this simulation, if any, is withdrawn."""
        self._placed.pop(evict.uid, None)
        self._victims.setdefault(evict.preemptor, []).append(f"{evict.namespace}/{evict.name}")
        super().evict(evict)

    @override
    def bind(self, bind: Bind) -> None:
        attempt = self.engine.attempts.get(bind.attempt)
        if attempt is not None:
            pod = attempt.pod
            victims = self._victims_of(pod)
            self._placed[pod.uid] = Placement(pod.key, bind.node, victims=victims)
        super().bind(bind)

    def _victims_of(self, pod: PodInfo) -> tuple[str, ...]:
        """Return the victims of a pod; a group's victims are returned once, with one member."""
        known = self.engine.core.group_of(pod)
        group = None if known is None else known.group
        of_group = [] if group is None else self._victims.pop(group.uid, [])
        return (*self._victims.get(pod.uid, ()), *of_group)

    def _give_up_on_held_pods(self) -> bool:
        """Time out each held pod once: no pod comes any more that could let it go.

        Their room is free then. Return whether a pod is to be tried again.
        """
        for held in self.engine.core.waiting:
            late = held.timed_out(inf)
            if late is not None and held.pod.uid not in self._given_up:
                self._given_up.add(held.pod.uid)
                self.handle(late)
        return self.engine.has_ready
