"""Detects replaced files: mounted ConfigMaps and Secrets, certificates."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

Stamp: TypeAlias = tuple[int, int, int] | None


class FollowedFiles:
    """Files that are checked for replacement.

    Args:
        paths: the files; they need not exist.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = tuple(paths)
        self._seen = self._stamps()

    def have_changed(self) -> bool:
        """Return whether a file was replaced, created or deleted since the last call."""
        before, self._seen = self._seen, self._stamps()
        return before != self._seen

    def _stamps(self) -> tuple[Stamp, ...]:
        return tuple(_stamp(path) for path in self._paths)


async def look_again_and_again(
    look: Callable[[], object], every_seconds: float, on_failed: Callable[[Exception], object]
) -> None:
    """Call `look` periodically until cancelled, and `on_failed` with its errors; run as a task."""
    while True:
        await asyncio.sleep(every_seconds)
        try:
            look()
        except Exception as error:  # noqa: BLE001 - files hold anything; the program goes on
            on_failed(error)


def _stamp(path: Path) -> Stamp:
    """Return values that change when a file, or a symlink on its path (as in volumes), changes."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
