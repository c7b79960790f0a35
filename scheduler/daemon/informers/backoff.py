"""The pause before a request is repeated."""

import random
from typing import Final

BASE_SECONDS: Final = 0.5
CAP_SECONDS: Final = 4.0
_FACTOR: Final = 2.0


class Backoff:
    """Exponential backoff from 0.5 s to 4 s; each pause is drawn between half the limit and all.

    The cap is lower than client-go's 30 s. Without a watch of every kind no decision is safe, so
    scheduling resumes after the longest of all pauses. A server that does not answer gets five
    requests a second from a replica; an overloaded one answers with Retry-After.
    """

    def __init__(
        self,
        rng: random.Random,
        base_seconds: float = BASE_SECONDS,
        cap_seconds: float = CAP_SECONDS,
    ) -> None:
        self._rng = rng
        self._base_seconds = base_seconds
        self._cap_seconds = cap_seconds
        self._limit_seconds = base_seconds

    def pause(self, at_least: float | None = None) -> float:
        """Return the seconds to wait after one more failure, at least the server's Retry-After."""
        seconds = self._limit_seconds * self._rng.uniform(0.5, 1.0)
        self._limit_seconds = min(self._cap_seconds, self._limit_seconds * _FACTOR)
        return max(seconds, at_least or 0.0)

    def reset(self) -> None:
        """Return to the shortest pause, after a success."""
        self._limit_seconds = self._base_seconds
