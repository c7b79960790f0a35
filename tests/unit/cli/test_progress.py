"""Progress of commands: for people, on a terminal, and only of what takes long."""

import io

import pytest
from rich.console import Console

from scheduler.tools.cli.progress import PATIENCE_SECONDS, shown_progress
from scheduler.tools.offline.progress import part, with_progress
from tests.support.clock import FakeClock


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def shown(seconds: float, *, is_terminal: bool) -> str:
    """What is written about something that is half done after some seconds."""
    text, clock = io.StringIO(), FakeClock()
    console = Console(file=text, force_terminal=is_terminal, width=100)
    with shown_progress("replaying", console, clock) as progress:
        progress(0.0)
        clock.advance(seconds)
        progress(0.5)
        progress(0.5)
    return text.getvalue()


def test_what_takes_long_shows_how_far_it_is() -> None:
    """With a share, and the time that is left."""
    text = shown(PATIENCE_SECONDS, is_terminal=True)

    assert "replaying" in text
    assert "50%" in text
    assert "left" in text


def test_what_is_soon_over_shows_nothing() -> None:
    """A bar that flashes up tells nothing."""
    assert shown(PATIENCE_SECONDS / 2, is_terminal=True) == ""


def test_nothing_is_written_to_a_terminal_that_cannot_show_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The shell of an editor, for example, which cannot move the cursor."""
    monkeypatch.setenv("TERM", "dumb")

    assert shown(60.0, is_terminal=True) == ""


def test_nothing_is_written_without_a_terminal() -> None:
    """Logs and pipes stay as they are."""
    assert shown(60.0, is_terminal=False) == ""


def test_items_are_told_of_before_they_are_worked_on_and_at_the_end() -> None:
    """A part of the whole begins and ends within it."""
    heard: list[float] = []

    items = list(with_progress([(0.0, "a"), (0.5, "b")], part(heard.append, 0.5, 1.0)))

    assert items == ["a", "b"]
    assert heard == [0.5, 0.75, 1.0]
