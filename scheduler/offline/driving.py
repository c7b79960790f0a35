"""A driver that does at once whatever an engine wants: no API server, no time, nothing refused."""

from scheduler.engine import Engine
from scheduler.engine.events import Bound, Event, Evicted, ObjectGone, ObjectSet, PreBound
from scheduler.engine.instructions import Bind, Evict, Instruction, RunPreBind


class Driving:
    """Carries out what changes the cluster; PreBind and Bind plugins are not run.

    Attributes:
        engine: what is driven.
        now: the time of events, in seconds.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.now = engine.core.now

    def handle(self, event: Event) -> None:
        """Tell the engine, and do as it says."""
        for instruction in self.engine.handle(event, self.now):
            self.carry_out(instruction)

    def carry_out(self, instruction: Instruction) -> None:
        """Do one thing; what people would be told is nothing."""
        if isinstance(instruction, RunPreBind):
            self.handle(PreBound(instruction.attempt))
        elif isinstance(instruction, Bind):
            self.bind(instruction)
        elif isinstance(instruction, Evict):
            self.evict(instruction)

    def bind(self, bind: Bind) -> None:
        """The pod is bound, and the watch says so: those who wait for such a pod are woken."""
        attempt = self.engine.attempts.get(bind.attempt)
        if attempt is not None:
            pod = attempt.pod
            self.handle(Bound(bind.attempt))
            self.handle(ObjectSet("pods", pod))

    def evict(self, evict: Evict) -> None:
        """The victim is gone at once."""
        self.handle(Evicted(evict.uid))
        self.handle(ObjectGone("pods", evict.namespace, evict.name, evict.uid))
