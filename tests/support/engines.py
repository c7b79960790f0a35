"""Engines that check themselves after every event, and that keep their configuration."""

from collections.abc import Sequence
from typing import Any

from scheduler.errors import SchedulerError
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.engine_state import EngineProfiles
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


def no_other_profiles(_: dict[str, Any]) -> EngineProfiles:
    """Refuse another configuration.

    Raises:
        SchedulerError: always.
    """
    raise SchedulerError("this engine keeps its configuration")
