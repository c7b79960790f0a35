"""A watch that is open, so that tests can break it."""

import asyncio

from apistub.http.watching import Watch
from apistub.storage.kinds import Kind


class WatchSession:
    """One open watch connection.

    Args:
        kind: what it watches.
        watch: where its events come from.
    """

    def __init__(self, kind: Kind, watch: Watch) -> None:
        self.kind = kind
        self.watch = watch
        self.wake = asyncio.Event()
        """Set whenever there may be something to do for the connection."""
        self.is_closed = False
        self.is_aborted = False
        """Whether the connection is cut without an end of the answer."""
        self.is_silent = False
        """Whether it never sends anything again, without ending, as a half-open connection."""
        self._injected: list[bytes] = []

    def close(self, *, abort: bool = False) -> None:
        """Ends the answer, or cuts the connection."""
        self.is_closed, self.is_aborted = True, abort
        self.wake.set()

    def expire(self) -> None:
        """Ends the watch with the error event 410."""
        self.watch.expire()
        self.wake.set()

    def inject(self, line: bytes) -> None:
        """Sends a line of any content between the events."""
        self._injected.append(line)
        self.wake.set()

    def take_injected(self) -> bytes:
        """The injected lines that are not sent yet."""
        lines, self._injected = self._injected, []
        return b"".join(lines)
