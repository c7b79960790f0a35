"""What is learned of the runs of a controller, and what is not."""

from typing import Any

import pytest

from scheduler.api.objects import OwnerReference
from scheduler.api.pods import PodInfo
from scheduler.kernel.ends import RunDurations
from scheduler.kernel.ends.run_durations import MAX_CONTROLLERS, RUNS_KEPT
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.driven import DrivenEngine

START = "2026-01-01T00:00:00Z"
BEGAN = 1767225600.0


def run(owner: str = "train", kind: str = "Job", **fields: Any) -> PodInfo:
    reference = OwnerReference(kind=kind, name=owner, uid=owner, controller=True)
    kept = {"node_name": "n", "start_time": START, "owner_references": (reference,), **fields}
    return make_pod_info("run", **kept)


def learned(pods: list[PodInfo], *seconds: float) -> RunDurations:
    durations = RunDurations()
    for pod in pods:
        for length in seconds:
            durations.note_end(pod, BEGAN + length)
    return durations


def test_nine_of_ten_runs_are_over() -> None:
    assert learned([run()], *range(1, 11)).of(run()) == (9.0, 10)
    assert learned([run()], 5.0, 7.0, 6.0).of(run()) == (7.0, 3)
    assert learned([run()], 5.0, 7.0).of(run()) is None


def test_only_the_last_runs_count() -> None:
    found = learned([run()], *[1000.0] * RUNS_KEPT, *[10.0] * RUNS_KEPT)

    assert found.of(run()) == (10.0, RUNS_KEPT)


def test_the_jobs_of_a_cron_job_are_one_controller() -> None:
    """Other names that end in numbers are those of different controllers."""
    found = learned([run("nightly-29000001"), run("nightly-29000002")], 60.0, 61.0)

    assert found.of(run("nightly-29000003")) == (61.0, 4)
    assert found.of(run("nightly-3")) is None
    assert found.of(run("nightly-29000003", namespace="other")) is None
    assert learned([run("train-1")], 1.0, 2.0, 3.0).of(run("train-2")) is None


@pytest.mark.parametrize(
    "pod",
    [
        run(kind="ReplicaSet"),
        run(kind="StatefulSet"),
        run(deletion_timestamp=START),
        run(start_time=None),
        run(start_time="2027-01-01T00:00:00Z"),
        run(node_name=""),
        make_pod_info("alone", node_name="n", start_time=START),
    ],
)
def test_nothing_is_learned_of_what_did_not_end_by_itself(pod: PodInfo) -> None:
    assert len(learned([pod], 1.0, 2.0, 3.0)) == 0


def test_what_is_remembered_is_bounded() -> None:
    """The controller whose last run is longest ago is forgotten."""
    pods = [run(f"job-{number}") for number in range(MAX_CONTROLLERS)]
    durations = learned(pods, 1.0, 2.0, 3.0)
    durations.note_end(pods[0], BEGAN + 4.0)
    durations.note_end(run("new"), BEGAN + 1.0)

    assert len(durations) == MAX_CONTROLLERS
    assert durations.of(pods[0]) is not None
    assert durations.of(pods[1]) is None


def test_a_copy_learns_by_itself() -> None:
    durations = learned([run()], 1.0, 2.0, 3.0)
    copy = durations.copy()
    copy.note_end(run(), BEGAN + 9.0)

    assert durations.of(run()) == (3.0, 3)
    assert copy.of(run()) == (9.0, 4)


def test_the_engine_learns_from_the_watch() -> None:
    """From pods that are gone without having been deleted, by the time of day."""
    driven = DrivenEngine(nodes=(make_node("n"),))
    driven.engine.services.epoch = BEGAN
    for number in range(4):
        pod = run(uid=f"run-{number}", scheduler_name="test")
        driven.set(pod)
        driven.tick(30.0 if number else 0.0)
        if number == 3:
            driven.set(run(uid="run-3", scheduler_name="test", deletion_timestamp=START))
        driven.gone(pod)

    found = driven.engine.core.durations.of(run())
    assert found is not None
    assert found[1] == 3
