"""An engine whose invariants are checked after every event."""

from collections.abc import Sequence

from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import Event
from scheduler.kernel.engine.instructions import Instruction
from scheduler.testing.validation import validate_engine


def validating(engine: Engine) -> Engine:
    """Have the engine check itself; to be called before any event."""
    handle = engine.handle

    def checked(event: Event, now: float) -> Sequence[Instruction]:
        instructions = handle(event, now)
        validate_engine(engine)
        return instructions

    engine.handle = checked  # type: ignore[method-assign]
    return engine
