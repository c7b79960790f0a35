"""Pods whose decisions took long: for a while all other pods go before them."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from scheduler.clock import MonotonicClock
from scheduler.kernel.framework.types import QueuedPodInfo

PUT_LAST_SECONDS: Final = 300.0
"""A pod with slow decisions goes after all other pods for this long."""


class SlowPods:
    """Such pods, and until when."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self._until: OrderedDict[str, float] = OrderedDict()

    def note(self, queued: QueuedPodInfo) -> bool:
        """A decision took long; says whether the pod is put last, as it did twice in a row."""
        in_a_row = queued.slow_attempt == queued.attempts - 1
        queued.slow_attempt = queued.attempts
        if in_a_row:
            uid = queued.pod_info.uid
            self._until[uid] = self._clock.monotonic() + PUT_LAST_SECONDS
            self._until.move_to_end(uid)
            queued.is_slow = True
        return in_a_row

    def forgiven(self) -> Iterator[str]:
        """The UIDs of the pods that were put last long enough ago."""
        now = self._clock.monotonic()
        while self._until and next(iter(self._until.values())) <= now:
            yield self._until.popitem(last=False)[0]
