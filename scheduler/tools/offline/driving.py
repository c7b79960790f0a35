"""A driver that carries out instructions at once, without API server, clock and failures."""

from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import (
    Answered,
    Bound,
    Event,
    Evicted,
    ObjectGone,
    ObjectSet,
    PreBound,
)
from scheduler.kernel.engine.instructions import Ask, Bind, Evict, Instruction, RunPreBind
from scheduler.kernel.framework.results import Write
from scheduler.tools.offline.asking import OfflineExtenders
from scheduler.tools.offline.resource_claims import (
    events_of_pod_gone,
    events_of_pre_bind,
    events_of_write,
)


class Driving:
    """Carries out instructions that change the cluster; PreBind and Bind plugins are not run.

    Attributes:
        engine: the engine to drive.
        now: the time of events, in seconds.
    """

    def __init__(self, engine: Engine, asker: OfflineExtenders | None = None) -> None:
        self.engine = engine
        self._asker = asker
        self.now = engine.core.now

    def handle(self, event: Event) -> None:
        """Pass an event to the engine, and carry out its instructions."""
        for instruction in self.engine.handle(event, self.now):
            self.carry_out(instruction)

    def carry_out(self, instruction: Instruction) -> None:
        """Carry out one instruction; ignore those that only write logs, events or status."""
        if isinstance(instruction, RunPreBind):
            self.prepare(instruction)
        elif isinstance(instruction, Bind):
            self.bind(instruction)
        elif isinstance(instruction, Evict):
            self.evict(instruction)
        elif isinstance(instruction, Ask):
            self.ask(instruction)
        elif isinstance(instruction, Write):
            for event in events_of_write(self.engine, instruction):
                self.handle(event)

    def ask(self, ask: Ask) -> None:
        """Ask an extender synchronously, and submit its answer."""
        found = self.engine.extender_calls.question(ask.question)
        if found is not None and self._asker is not None:
            question, pod = found
            self.handle(Answered(ask.question, self._asker.ask(question, pod.uid)))

    def prepare(self, run: RunPreBind) -> None:
        """Update claims as PreBind would."""
        attempt = self.engine.attempts.get(run.attempt)
        if attempt is not None:
            for event in events_of_pre_bind(self.engine, attempt.pod):
                self.handle(event)
        self.handle(PreBound(run.attempt))

    def bind(self, bind: Bind) -> None:
        """Bind the pod, and submit it as the watch would, which may requeue other pods."""
        attempt = self.engine.attempts.get(bind.attempt)
        if attempt is not None:
            pod = attempt.pod
            self.handle(Bound(bind.attempt))
            self.handle(ObjectSet("pods", pod))

    def evict(self, evict: Evict) -> None:
        """Delete the victim at once."""
        self.handle(Evicted(evict.uid))
        self.delete(evict.namespace, evict.name, evict.uid)

    def delete(self, namespace: str, name: str, uid: str) -> None:
        """Delete a pod at once, and free its claims."""
        self.handle(ObjectGone("pods", namespace, name, uid))
        for event in events_of_pod_gone(self.engine, uid):
            self.handle(event)
