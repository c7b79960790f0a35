"""The expected ends of running pods, as far as they are known."""

from scheduler.kernel.ends.expected_ends import (
    EndSource,
    ExpectedEnd,
    end_if_started,
    expected_end,
    never_ends,
    unread_annotation,
)
from scheduler.kernel.ends.run_durations import RunDurations

__all__ = [
    "EndSource",
    "ExpectedEnd",
    "RunDurations",
    "end_if_started",
    "expected_end",
    "never_ends",
    "unread_annotation",
]
