"""The expected end of a running pod: one rule, and its sources in order.

1. A pod that is being deleted ends when its grace period is over.
2. Else its annotations count: `stowage.dev/expected-end`, a time, before
   `stowage.dev/expected-duration`, which counts from the start of the pod.
3. Else the durations of earlier runs of its controller count (`run_durations`).
4. A deadline (`spec.activeDeadlineSeconds`) bounds 2 and 3, and stands alone without them.

Ends from annotations and runs count only while they lie ahead: a pod that runs longer than expected
has no known end. A pod that is to be killed may be a little late.
"""

from enum import StrEnum
from math import inf
from typing import Final

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.config.duration import MAX_LENGTH, parse_duration
from scheduler.kernel.ends.run_durations import RunDurations
from scheduler.kernel.ends.times import seconds_of

OVERDUE_SECONDS: Final = 300.0
"""A pod that is overdue for longer than this may never be killed."""


class EndSource(StrEnum):
    """The source of an expected end."""

    DELETION = "deletion"
    ANNOTATION = "annotation"
    RUNS = "runs"
    DEADLINE = "deadline"


class ExpectedEnd(msgspec.Struct, frozen=True):
    """The expected end of a pod.

    Attributes:
        time: the end, in seconds since 1970. For a deadline and a deletion: the latest end.
        source: the source of this time.
        runs: number of runs that it was learned from.
    """

    time: float
    source: EndSource
    runs: int = 0


def never_ends(pod: PodInfo) -> bool:
    """Whether a pod ends only with its node, unless it is deleted."""
    return pod.is_tied_to_node and not pod.is_terminating


def expected_end(
    pod: PodInfo, now: float, durations: RunDurations | None = None
) -> ExpectedEnd | None:
    """The expected end of a pod that has a node; None where unknown.

    Args:
        pod: the pod.
        now: the time, in seconds since 1970.
        durations: the run times of ended pods.
    """
    meta = pod.pod.metadata
    if meta.deletion_timestamp is not None:
        return _kept(seconds_of(meta.deletion_timestamp), EndSource.DELETION, now)
    if never_ends(pod):
        return None
    start = seconds_of(pod.pod.start_time)
    found = _stated(pod, start, now) or _learned(pod, start, now, durations)
    seconds = pod.spec.active_deadline_seconds
    if start is None or seconds is None:
        return found
    deadline = _kept(start + seconds, EndSource.DEADLINE, now)
    if found is None or (deadline is not None and deadline.time < found.time):
        return deadline
    return found


def end_if_started(pod: PodInfo, now: float, durations: RunDurations | None = None) -> float:
    """The time at which a pod without a node would end if it started now; infinite where unknown.

    Args:
        pod: the pod.
        now: the time, in seconds since 1970.
        durations: the run times of ended pods.
    """
    if never_ends(pod):
        return inf
    found = _stated(pod, now, now) or _learned(pod, now, now, durations)
    seconds = pod.spec.active_deadline_seconds
    deadline = inf if seconds is None else now + seconds
    return deadline if found is None else min(deadline, found.time)


def unread_annotation(pod: PodInfo) -> str:
    """The annotation about the end of a pod that cannot be parsed; empty if there is none."""
    annotations = pod.pod.metadata.annotations
    if annotations.expected_end and seconds_of(annotations.expected_end) is None:
        return f"stowage.dev/expected-end: {annotations.expected_end}"
    text = annotations.expected_duration
    if text and parse_duration(text) is None:
        cut = f"{text[:MAX_LENGTH]}... (longer than {MAX_LENGTH} characters)"
        return f"stowage.dev/expected-duration: {text if len(text) <= MAX_LENGTH else cut}"
    return ""


def _stated(pod: PodInfo, start: float | None, now: float) -> ExpectedEnd | None:
    annotations = pod.pod.metadata.annotations
    end = seconds_of(annotations.expected_end)
    if end is None and start is not None and annotations.expected_duration:
        seconds = parse_duration(annotations.expected_duration)
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
    """An enforced end; None if it is overdue for too long."""
    return None if end is None or end < now - OVERDUE_SECONDS else ExpectedEnd(end, source)
