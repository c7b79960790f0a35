"""When a running pod will end: one rule, and its sources in order.

1. A pod that is being deleted ends when its grace period is over.
2. Else what its annotations state: `stowage.dev/expected-end`, a time, before
   `stowage.dev/expected-duration`, which counts from the start of the pod.
3. Else what the runs before it took that its controller has made (`run_durations`).
4. A deadline (`spec.activeDeadlineSeconds`) bounds 2 and 3, and stands alone without them.

What is stated or learned counts only while it lies ahead: a pod that runs longer than expected has
no known end. One that is to be killed may be a little late.
"""

from enum import StrEnum
from math import inf
from typing import Final

import msgspec

from scheduler.api.objects import controller_of
from scheduler.api.pods import PodInfo
from scheduler.config.duration import parse_duration
from scheduler.kernel.ends.run_durations import RunDurations
from scheduler.kernel.ends.times import seconds_of

OVERDUE_SECONDS: Final = 300.0
"""A pod that should have been killed so long ago may stay for ever."""
_STAYING: Final = frozenset({"DaemonSet", "Node"})
"""Controllers whose pods stay as long as their node; static pods are of the node itself."""


class EndSource(StrEnum):
    """What an end is known by."""

    DELETION = "deletion"
    ANNOTATION = "annotation"
    RUNS = "runs"
    DEADLINE = "deadline"


class ExpectedEnd(msgspec.Struct, frozen=True):
    """When a pod is expected to end.

    Attributes:
        time: in seconds since 1970. Of a deadline and a deletion: at the latest.
        source: what that is known by.
        runs: of how many runs that was learned.
    """

    time: float
    source: EndSource
    runs: int = 0


def never_ends(pod: PodInfo) -> bool:
    """Whether a pod goes with its node only, unless it is deleted."""
    owner = controller_of(pod.pod.metadata)
    return owner is not None and owner.kind in _STAYING and not pod.is_terminating


def expected_end(
    pod: PodInfo, now: float, durations: RunDurations | None = None
) -> ExpectedEnd | None:
    """When a pod that has a node will end; None where that is not known.

    Args:
        pod: the pod.
        now: in seconds since 1970.
        durations: what was learned.
    """
    meta, status = pod.pod.metadata, pod.pod.status
    if meta.deletion_timestamp is not None:
        return _kept(seconds_of(meta.deletion_timestamp), EndSource.DELETION, now)
    if never_ends(pod):
        return None
    start = seconds_of(status.start_time)
    found = _stated(pod, start, now) or _learned(pod, start, now, durations)
    seconds = pod.spec.active_deadline_seconds
    if start is None or seconds is None:
        return found
    deadline = _kept(start + seconds, EndSource.DEADLINE, now)
    if found is None or (deadline is not None and deadline.time < found.time):
        return deadline
    return found


def end_if_started(pod: PodInfo, now: float, durations: RunDurations | None = None) -> float:
    """When a pod without a node would end if it started now; infinite where that is not known.

    Args:
        pod: the pod.
        now: in seconds since 1970.
        durations: what was learned.
    """
    if never_ends(pod):
        return inf
    found = _stated(pod, now, now) or _learned(pod, now, now, durations)
    seconds = pod.spec.active_deadline_seconds
    deadline = inf if seconds is None else now + seconds
    return deadline if found is None else min(deadline, found.time)


def unread_annotation(pod: PodInfo) -> str:
    """The annotation that shall say when a pod ends and cannot be read; empty if there is none."""
    said = pod.pod.metadata.annotations
    if said.expected_end and seconds_of(said.expected_end) is None:
        return f"stowage.dev/expected-end: {said.expected_end}"
    if said.expected_duration and parse_duration(said.expected_duration) is None:
        return f"stowage.dev/expected-duration: {said.expected_duration}"
    return ""


def _stated(pod: PodInfo, start: float | None, now: float) -> ExpectedEnd | None:
    said = pod.pod.metadata.annotations
    end = seconds_of(said.expected_end)
    if end is None and start is not None and said.expected_duration:
        seconds = parse_duration(said.expected_duration)
        end = None if seconds is None else start + seconds
    return None if end is None or end <= now else ExpectedEnd(end, EndSource.ANNOTATION)


def _learned(
    pod: PodInfo, start: float | None, now: float, durations: RunDurations | None
) -> ExpectedEnd | None:
    found = None if start is None or durations is None else durations.of(pod)
    if found is None or start is None:
        return None
    seconds, runs = found
    end = start + seconds
    return None if end <= now else ExpectedEnd(end, EndSource.RUNS, runs)


def _kept(end: float | None, source: EndSource, now: float) -> ExpectedEnd | None:
    """An end that something enforces."""
    return None if end is None or end < now - OVERDUE_SECONDS else ExpectedEnd(end, source)
