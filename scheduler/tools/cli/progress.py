"""The progress bar of a command: on a terminal, and only if the command takes long."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress as Bar,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from scheduler.clock import MonotonicClock, SystemClock
from scheduler.tools.offline.progress import Progress, no_progress

PATIENCE_SECONDS: Final = 2.0
"""A command that ends earlier shows no progress."""


@contextmanager
def shown_progress(
    what: str, console: Console | None = None, clock: MonotonicClock | None = None
) -> Iterator[Progress]:
    """Show a bar with the time left on standard error, if that is a terminal that can show one.

    Args:
        what: the work, in a word or two.
        console: the console to use instead of standard error.
        clock: measures whether the work takes long.
    """
    console, clock = console or Console(stderr=True), clock or SystemClock()
    if not console.is_terminal or console.is_dumb_terminal:
        yield no_progress
        return
    began = clock.monotonic()
    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
        transient=True,
    )
    task = bar.add_task(what, total=1.0)

    def progress(share: float) -> None:
        if share >= 1:
            bar.stop()
        elif bar.live.is_started:
            bar.update(task, completed=share)
        elif clock.monotonic() - began >= PATIENCE_SECONDS:
            bar.start()
            bar.update(task, completed=share)

    try:
        yield progress
    finally:
        bar.stop()
