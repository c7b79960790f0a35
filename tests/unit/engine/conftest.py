"""Fails a test of the engine in which an exception outside every contract was only reported.

The engine survives such exceptions, and the next attempt often succeeds: a fault would hide.
"""

from collections.abc import Iterator

import pytest

from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.framework.types import Failure


@pytest.fixture(autouse=True)
def unexpected_errors(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Exception]]:
    """Exceptions that the engine did not expect; a test that causes some clears the list."""
    errors: list[Exception] = []
    report = EngineState.unexpected

    def unexpected(state: EngineState, about: str, problem: Exception) -> Failure:
        errors.append(problem)
        return report(state, about, problem)

    monkeypatch.setattr(EngineState, "unexpected", unexpected)
    yield errors
    assert errors == []
