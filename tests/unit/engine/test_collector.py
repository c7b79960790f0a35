"""What the daemon holds for long is not for the garbage collector to walk through."""

import gc

from bench.decisions.timing import HEADER, Timed
from bench.workload import load_workloads
from scheduler.recording.flight import FlightRecorder


def test_pods_that_went_by_leave_nothing_to_collect() -> None:
    """Neither the engine nor what is kept of the last minutes: each walk would stop the loop."""
    timed = Timed(load_workloads()["plain"], 100, 1000, log=FlightRecorder(HEADER))
    left = []
    for _ in range(2):
        for _ in range(500):
            assert timed.schedule(next(timed.pods)) is not None
        gc.collect()
        gc.collect()
        left.append(len(gc.get_objects()))

    assert left[1] - left[0] < 50
