"""The limit of requests in flight, found by trials against the API server.

Pure: no I/O, no clock, no knowledge of the requests. The outbox counts them and passes the time.
"""

from typing import Final

FEWEST: Final = 4
"""Binds, events and other changes have one each."""
MOST: Final = 128
"""Each has a connection: a file here, memory at the server. What is begun with."""
LOOK_SECONDS: Final = 0.1

_STEP: Final = 2
"""From one number to the next that is tried."""
_WORTH: Final = 1 / 16
"""A step down is kept if it brings so much more, a step up if it brings no more than that less."""
_ANSWERS: Final = 256
"""In a window, or two for each request at a time: by chance alone windows differ by a sixteenth."""
_LONGEST_SECONDS: Final = 3.0
"""A window ends then, whatever has been answered."""
_PATIENCE: Final = 2.0
"""A trial ends when it has taken so many times as long as it should have."""
_CHANGED: Final = 0.8
"""A rate that differs more from that which the last trials began with says: try again."""
_SMOOTHING: Final = 0.25
_LONGEST_PAUSE: Final = 32
"""Windows between two trials, at most: a trial may cost all that is answered meanwhile."""


class ConcurrencyLimit:
    """As many requests at a time as bring the most answers per second.

    Answers are counted over a window, then over one with the next greater or smaller number, a
    trial. Less is kept if it brought more, more if it brought as much: an API server answers 3 to
    5 % more for twice as many, and a window is too short to show that. The same way is tried on
    until it is not worth it. Trials that change nothing become rare. How long an answer takes, and
    how often the server refused before (429), counts for nothing by itself: both take a place for
    longer, and show in the rate. A window in which nothing waited to be sent says nothing.

    Attributes:
        limit: so many requests may be under way.
        workers: so many are, or are about to be; the outbox counts.
        answered: requests that were carried out in this window; the outbox counts.
        ran_dry: whether more requests could have been sent than waited; the outbox sets it.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.workers = 0
        self.answered = 0
        self.ran_dry = True
        self._kept = limit
        """The best number known; another is on trial."""
        self._rate = self._known_rate = 0.0
        """Answers per second at `_kept`: of late, and when trials began to become rare."""
        self._is_upwards = False
        """The next trial is with more."""
        self._pause = self._left = 1
        """Windows without a trial after the next one in vain, and from now on."""
        self._since = 0.0
        self._is_settling = True
        """Answers still come to what was sent at the number before."""

    def look(self, now: float) -> None:
        """See what the window says, if it is over; `limit` may be another then.

        Args:
            now: seconds of a clock that never goes back, every `LOOK_SECONDS`.
        """
        if self.ran_dry:
            self.ran_dry = False
            self._begin(now, is_settling=True)
            return
        seconds, longest = now - self._since, self._longest_seconds()
        if seconds < longest:
            if self.answered < (self.limit if self._is_settling else self._enough()):
                return
            if self._is_settling:
                self._begin(now, is_settling=False)
                return
        if seconds <= 0:
            return
        before = self.limit
        if before == self._kept:
            self._stay(self.answered / seconds)
        else:
            self._compare(self.answered / seconds)
        self._begin(now, is_settling=self.limit != before)

    def _begin(self, now: float, *, is_settling: bool) -> None:
        self._since = now
        self._is_settling = is_settling
        self.answered = 0

    def _enough(self) -> int:
        return max(_ANSWERS, 2 * self.limit)

    def _longest_seconds(self) -> float:
        if self.limit == self._kept or not self._rate:
            return _LONGEST_SECONDS
        expected = self._enough() / self._rate
        return min(_LONGEST_SECONDS, max(2 * LOOK_SECONDS, _PATIENCE * expected))

    def _stay(self, rate: float) -> None:
        self._rate += (rate - self._rate) * _SMOOTHING
        self._left -= 1
        self._notice_change(rate)
        if self._left <= 0:
            self._try_next()

    def _compare(self, rate: float) -> None:
        if rate > self._rate * (1 - _WORTH if self._is_upwards else 1 + _WORTH):
            self._kept, self._rate = self.limit, rate
            self._notice_change(rate)
            self._try_next()
        else:
            self.limit = self._kept
            self._is_upwards = not self._is_upwards
            self._left = self._pause
            self._pause = min(_LONGEST_PAUSE, 2 * self._pause)

    def _notice_change(self, rate: float) -> None:
        known = self._known_rate
        if not known * _CHANGED <= self._rate <= known / _CHANGED:
            self._rate = self._known_rate = rate
            self._pause, self._left = 1, 0

    def _try_next(self) -> None:
        if self._next() == self._kept:
            self._is_upwards = not self._is_upwards
        self.limit = self._next()

    def _next(self) -> int:
        """The number beside the one that is kept."""
        if self._is_upwards:
            return min(MOST, self._kept * _STEP)
        return max(FEWEST, self._kept // _STEP)
