"""When running pods will end, as far as that is known."""

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
