"""Where all waiting pods would go: the real queue, the real decisions, nothing bound."""

import msgspec

from scheduler.engine.events import Allowed, Bound, Decide, Event, ObjectSet, PreBound, Tick
from scheduler.engine.instructions import Bind, RunPreBind
from scheduler.offline.cluster import Cluster


class Placement(msgspec.Struct, frozen=True, rename="camel"):
    """What becomes of one pod.

    Attributes:
        pod: namespace/name.
        node: where it goes, or None.
        nominated_node: where room is made for it; None, as nobody is evicted in this version.
        victims: who is evicted for it; empty in this version.
        message: why it stays pending.
    """

    pod: str
    node: str | None = None
    nominated_node: str | None = None
    victims: tuple[str, ...] = ()
    message: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """What becomes of all pods: placed ones in the order of their placement, then pending ones."""

    placements: tuple[Placement, ...]


def simulate(cluster: Cluster) -> Outcome:
    """Schedule all waiting pods, each decision building on those before it.

    The cluster is afterwards as it would be. A rejected pod is tried again when a later placement
    may help it, as in the daemon.
    """
    return _Simulation(cluster).run()


class _Simulation:
    """A driver that does at once whatever the engine wants."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._engine = cluster.engine
        self._now = cluster.engine.core.now
        self._placed: dict[str, Placement] = {}

    def run(self) -> Outcome:
        """Empty the queue, and see who is left."""
        while self._engine.has_ready:
            self._handle(Decide())
            self._allow_held_pods()
        self._handle(Tick())
        messages = {entry["uid"]: str(entry["message"]) for entry in self._engine.core.queue.dump()}
        pending = (
            Placement(pod.key, message=messages.get(pod.uid, ""))
            for pod in self._cluster.waiting
            if pod.uid not in self._placed
        )
        return Outcome((*self._placed.values(), *pending))

    def _handle(self, event: Event) -> None:
        for instruction in self._engine.handle(event, self._now):
            if isinstance(instruction, RunPreBind):
                self._handle(PreBound(instruction.attempt))
            elif isinstance(instruction, Bind):
                self._bind(instruction)

    def _bind(self, bind: Bind) -> None:
        attempt = self._engine.attempts.get(bind.attempt)
        if attempt is None:
            return
        pod = attempt.pod
        self._placed[pod.uid] = Placement(pod.key, bind.node)
        self._handle(Bound(bind.attempt))
        # The API server would confirm it, and those who wait for such a pod would be woken.
        self._handle(ObjectSet("pods", pod))

    def _allow_held_pods(self) -> None:
        """Nobody waits in a simulation, so Wait counts as yes."""
        for waiting in self._engine.core.waiting:
            for plugin in waiting.pending_plugins:
                self._handle(Allowed(waiting.pod.uid, plugin))
