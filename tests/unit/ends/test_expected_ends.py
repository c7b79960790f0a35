"""When running pods end, by each source and by several of them."""

from math import inf
from typing import Any

import pytest

from scheduler.api.objects import NO_ANNOTATIONS, OwnerReference, PodAnnotations
from scheduler.daemon.informers.kinds import PODS
from scheduler.kernel.ends import (
    EndSource,
    ExpectedEnd,
    RunDurations,
    end_if_started,
    expected_end,
    never_ends,
    unread_annotation,
)
from scheduler.kernel.ends.times import seconds_of, text_of
from tests.support.builders import make_pod_info

START = "2026-01-01T00:00:00Z"
BEGAN = 1767225600.0
JOB = OwnerReference(kind="Job", name="train", uid="j", controller=True)
DAEMON_SET = OwnerReference(kind="DaemonSet", name="d", uid="d", controller=True)


def running(name: str = "pod", **fields: Any) -> Any:
    return make_pod_info(name, **{"node_name": "n", "start_time": START, **fields})


def learned(*seconds: float) -> RunDurations:
    durations = RunDurations()
    for number, length in enumerate(seconds):
        durations.note_end(running(f"run-{number}", owner_references=(JOB,)), BEGAN + length)
    return durations


def test_times_are_read_and_written() -> None:
    assert seconds_of(START) == seconds_of("2026-01-01T01:00:00+01:00") == BEGAN
    assert seconds_of("2026-01-01T00:00:00") == BEGAN
    assert seconds_of(None) is seconds_of("") is seconds_of("soon") is None
    assert text_of(BEGAN) == START
    assert text_of(1e18) == ""


@pytest.mark.parametrize(
    ("fields", "end", "source"),
    [
        ({"deletion_timestamp": "2026-01-01T00:00:40Z"}, 40, EndSource.DELETION),
        ({"expected_end": "2026-01-01T00:10:00Z"}, 600, EndSource.ANNOTATION),
        ({"expected_duration": "1h30m"}, 5400, EndSource.ANNOTATION),
        (
            {"expected_duration": "1h", "expected_end": "2026-01-01T00:10:00Z"},
            600,
            EndSource.ANNOTATION,
        ),
        ({"expected_duration": "5m", "owner_references": (JOB,)}, 300, EndSource.ANNOTATION),
        ({"owner_references": (JOB,)}, 120, EndSource.RUNS),
        ({"owner_references": (JOB,), "active_deadline_seconds": 60}, 60, EndSource.DEADLINE),
        ({"owner_references": (JOB,), "active_deadline_seconds": 600}, 120, EndSource.RUNS),
        ({"expected_duration": "1h", "active_deadline_seconds": 90}, 90, EndSource.DEADLINE),
        ({"active_deadline_seconds": 90}, 90, EndSource.DEADLINE),
    ],
)
def test_the_first_source_counts_and_a_deadline_bounds_it(
    fields: dict[str, Any], end: int, source: EndSource
) -> None:
    found = expected_end(running(**fields), BEGAN + 1, learned(110, 120, 100))

    assert found == ExpectedEnd(BEGAN + end, source, 3 if source is EndSource.RUNS else 0)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"expected_duration": "some hours"},
        {"expected_end": "tomorrow"},
        {"expected_duration": "1h", "start_time": None},
        {"active_deadline_seconds": 60, "start_time": None},
        {"active_deadline_seconds": 60, "start_time": "yesterday"},
        {"owner_references": (OwnerReference(kind="Job", name="x", uid="x", controller=True),)},
    ],
)
def test_an_end_may_be_unknown(fields: dict[str, Any]) -> None:
    assert expected_end(running(**fields), BEGAN + 1, learned(110, 120, 100)) is None


@pytest.mark.parametrize(
    ("fields", "unread"),
    [
        ({}, ""),
        ({"expected_duration": "90m", "expected_end": START}, ""),
        ({"expected_duration": "2 h"}, "stowage.dev/expected-duration: 2 h"),
        ({"expected_end": "soon"}, "stowage.dev/expected-end: soon"),
        (
            {"expected_duration": "1" * 262144},
            f"stowage.dev/expected-duration: {'1' * 128}... (longer than 128 characters)",
        ),
    ],
)
def test_an_annotation_that_cannot_be_read_is_named(fields: dict[str, Any], unread: str) -> None:
    assert unread_annotation(running(**fields)) == unread


def test_what_was_expected_counts_while_it_lies_ahead() -> None:
    """A pod that runs longer ends at its deadline; what must be over may be a little late."""
    pod = running(expected_duration="1m", active_deadline_seconds=600)
    ends = [expected_end(pod, BEGAN + now) for now in (59, 60, 800, 901)]

    assert [None if end is None else end.time - BEGAN for end in ends] == [60, 600, 600, None]


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, inf),
        ({"expected_duration": "1m"}, 60),
        ({"expected_duration": "1m", "active_deadline_seconds": 50}, 50),
        ({"active_deadline_seconds": 50}, 50),
        ({"expected_end": "2026-01-01T00:00:30Z", "expected_duration": "1m"}, 30),
        ({"owner_references": (JOB,)}, 120),
        ({"owner_references": (DAEMON_SET,), "expected_duration": "1m"}, inf),
    ],
)
def test_a_pod_that_waits_is_thought_to_start_now(fields: dict[str, Any], seconds: float) -> None:
    """What it states, what was learned and its deadline count from now on."""
    pod = make_pod_info("p", **fields)

    assert end_if_started(pod, BEGAN, learned(110, 120, 100)) == BEGAN + seconds


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_pods_of_a_node_do_not_end(kind: str) -> None:
    owner = OwnerReference(kind=kind, name="d", uid="d", controller=True)
    fields: dict[str, Any] = {"owner_references": (owner,)}

    assert never_ends(running(**fields))
    assert expected_end(running(expected_duration="1h", **fields), BEGAN) is None
    assert not never_ends(running(deletion_timestamp=START, **fields))
    assert expected_end(running(deletion_timestamp=START, **fields), BEGAN) is not None


def test_of_the_annotations_of_pods_two_are_kept() -> None:
    """Pods without them share one empty struct."""
    raw = b'{"metadata":{"name":"p","annotations":{"a":"b"%s}},"spec":{}}'
    stating = PODS.decode(raw % b',"stowage.dev/expected-duration":"90m"').pod.metadata
    others = PODS.decode(raw % b"").pod.metadata

    assert stating.annotations == PodAnnotations(expected_duration="90m")
    assert others.annotations is NO_ANNOTATIONS
