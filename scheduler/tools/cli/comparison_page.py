"""Builds the data of the page "Replay" from a replay with another configuration."""

from collections.abc import Collection, Iterable
from typing import Any, Final

import msgspec

from scheduler.api.resources import PODS
from scheduler.daemon.recording.comparison import Side
from scheduler.daemon.recording.records import Header, Record
from scheduler.kernel.engine.outcome import TakeOutcome
from scheduler.tools.cli.comparing import Compared, compared_with, notices_of

_POINTS: Final = 300
"""A long curve has between this number of points and twice as many."""


class Curves(msgspec.Struct):
    """The curves of one engine over time.

    Attributes:
        waiting: number of pending pods.
        oldest: seconds for which the oldest of them has waited.
        victims: number of pods evicted so far.
        use: by resource, the share of all nodes' capacity that is requested.
    """

    waiting: list[int] = []
    oldest: list[float] = []
    victims: list[int] = []
    use: dict[str, list[float]] = {}

    def add(self, time: float, side: Side, about: Collection[str]) -> None:
        """Add a point; `about` has the UIDs of the pods that may be pending."""
        pods = (side.pods[uid] for uid in about if uid in side.pods)
        came = [pod.came for pod in pods if not (pod.node or pod.is_gone)]
        before = len(self.waiting)
        self.waiting.append(len(came))
        self.oldest.append(round(time - min(came), 3) if came else 0.0)
        self.victims.append(len(side.victims))
        for name, share in side.meter.shares.items():
            if name != PODS:
                self.use.setdefault(name, [0.0] * before).append(round(share, 4))

    def thin(self) -> None:
        """Drop every second point."""
        del self.waiting[1::2]
        del self.oldest[1::2]
        del self.victims[1::2]
        for shares in self.use.values():
            del shares[1::2]


class BothCurves(msgspec.Struct):
    """The curves of both engines at the same times, in seconds since the start.

    Attributes:
        step: the least time between two points.
    """

    times: list[float]
    recorded: Curves
    now: Curves
    step: float = 0.0

    def look(self, seconds: float, time: float, recorded: Side, now: Side) -> None:
        """Add a point, unless the last one is less than `step` before."""
        if self.times and seconds - self.times[-1] < self.step:
            return
        self.times.append(round(seconds, 3))
        self.recorded.add(time, recorded, now.pods)
        self.now.add(time, now, now.pods)
        if len(self.times) > 2 * _POINTS:
            del self.times[1::2]
            self.recorded.thin()
            self.now.thin()
            self.step = self.times[-1] / _POINTS


def comparison_page(
    header: Header,
    records: Iterable[Record],
    asked: Compared,
    take_outcome: TakeOutcome | None = None,
) -> dict[str, Any]:
    """Build the output of `stowage replay --config FILE -o json`, with `curves` and `notices`.

    Raises:
        SchedulerError: the recording is damaged.
    """
    curves = BothCurves([], Curves(), Curves())

    def looked(time: float, recorded: Side, now: Side) -> None:
        curves.look(time - header.clock, time, recorded, now)

    answer: dict[str, Any] = msgspec.to_builtins(
        compared_with(header, records, asked, take_outcome, looked)
    )
    notices = notices_of(asked, answer["reconfigured"])
    return {**answer, "curves": curves, "notices": notices}
