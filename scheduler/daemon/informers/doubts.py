"""Kinds whose stores may show a state of the API server that a restore has undone.

A decision on such a store may use room that restored pods have: bindings wait for a new list.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from scheduler.observability.logs import get_logger

LIMIT_SECONDS: Final = 30.0
"""Bindings wait no longer for one kind: its requests may fail for ever while others succeed."""

log = get_logger(__name__)


class Doubts:
    """The kinds whose stores may be obsolete.

    Attributes:
        on_cleared: called when no kind is in doubt any more; set once.
        on_set_back: called when the API server was found to be set back; set once.
        is_away: returns whether no kind has an answer; set once.
    """

    def __init__(self) -> None:
        self.on_cleared: Callable[[], None] = lambda: None
        self.on_set_back: Callable[[], None] = lambda: None
        self.is_away: Callable[[], bool] = lambda: False
        self._limits: dict[str, asyncio.TimerHandle] = {}
        self._tolerated: set[str] = set()
        """Kinds in doubt for longer than `LIMIT_SECONDS`, for which bindings do not wait."""

    def are_open(self) -> bool:
        """Return whether bindings wait for a list of any kind."""
        return bool(self._limits)

    def begin(self, kind: str) -> None:
        """Hold bindings for a kind whose store may be obsolete, at most `LIMIT_SECONDS`."""
        if kind not in self._limits and kind not in self._tolerated:
            self._set_limit(kind)

    def _set_limit(self, kind: str) -> None:
        loop = asyncio.get_running_loop()
        self._limits[kind] = loop.call_later(LIMIT_SECONDS, self._tolerate, kind)

    def tolerate_nothing(self) -> None:
        """Let bindings wait for each kind again, whether or not they have waited for it before."""
        self._tolerated.clear()

    def end(self, kind: str) -> None:
        """Note that a kind's store equals the objects of the API server."""
        self._tolerated.discard(kind)
        self._forget(kind)

    def _tolerate(self, kind: str) -> None:
        if self.is_away():
            # No binding would arrive; and a restore that lasts shows only when the server is back.
            self._set_limit(kind)
            return
        log.warning("Objects may be obsolete; binding all the same", kind=kind)
        self._tolerated.add(kind)
        self._forget(kind)

    def _forget(self, kind: str) -> None:
        limit = self._limits.pop(kind, None)
        if limit is not None:
            limit.cancel()
            if not self._limits:
                self.on_cleared()
