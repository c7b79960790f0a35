"""Where all waiting pods would go: the real queue, the real decisions, nothing bound."""

from typing import Final

import msgspec

from scheduler.engine.events import (
    Allowed,
    Answered,
    Bound,
    Decide,
    Event,
    Evicted,
    ObjectGone,
    ObjectSet,
    PreBound,
    Tick,
)
from scheduler.engine.instructions import Ask, Bind, Evict, RunPreBind
from scheduler.offline.cluster import Cluster

EVICTED: Final = "evicted for a more important pod"


class Placement(msgspec.Struct, frozen=True, rename="camel"):
    """What becomes of one pod.

    Attributes:
        pod: namespace/name.
        node: where it goes, or None.
        nominated_node: where room is made for it.
        victims: who is evicted for it.
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
        self._victims: dict[str, list[str]] = {}
        """By the UID of the pod that they made room for."""

    def run(self) -> Outcome:
        """Empty the queue, and see who is left."""
        while self._engine.has_ready:
            self._handle(Decide())
            self._allow_held_pods()
        self._handle(Tick())
        messages = {entry["uid"]: str(entry["message"]) for entry in self._engine.core.queue.dump()}
        nominator = self._engine.core.queue.nominator
        nominated = {
            pod.uid: node for node in nominator for pod in nominator.nominated_pods_for_node(node)
        }
        pending = (
            Placement(
                pod.key,
                nominated_node=nominated.get(pod.uid),
                victims=tuple(self._victims.get(pod.uid, ())),
                message=messages.get(pod.uid, EVICTED),
            )
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
            elif isinstance(instruction, Evict):
                self._evict(instruction)
            elif isinstance(instruction, Ask):
                self._ask(instruction)

    def _ask(self, ask: Ask) -> None:
        found, asker = self._engine.attempts.question(ask.question), self._cluster.asker
        if found is not None and asker is not None:
            question, pod = found
            self._handle(Answered(ask.question, asker.ask(question, pod.uid)))

    def _evict(self, evict: Evict) -> None:
        """The victim is gone at once; what it was given before is taken back."""
        self._placed.pop(evict.uid, None)
        self._victims.setdefault(evict.preemptor, []).append(f"{evict.namespace}/{evict.name}")
        self._handle(Evicted(evict.uid))
        self._handle(ObjectGone("pods", evict.namespace, evict.name, evict.uid))

    def _bind(self, bind: Bind) -> None:
        attempt = self._engine.attempts.get(bind.attempt)
        if attempt is None:
            return
        pod = attempt.pod
        self._placed[pod.uid] = Placement(
            pod.key, bind.node, victims=tuple(self._victims.get(pod.uid, ()))
        )
        self._handle(Bound(bind.attempt))
        # The API server would confirm it, and those who wait for such a pod would be woken.
        self._handle(ObjectSet("pods", pod))

    def _allow_held_pods(self) -> None:
        """Nobody waits in a simulation, so Wait counts as yes."""
        for waiting in self._engine.core.waiting:
            for plugin in waiting.pending_plugins:
                self._handle(Allowed(waiting.pod.uid, plugin))
