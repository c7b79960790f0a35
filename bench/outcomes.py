"""What rows of decisions cost: the same pods, with rows and without, in turns in one process.

    python -m bench.outcomes                  # plain pods, 5,000 nodes
    python -m bench.outcomes --workload spread-zone-hard --nodes 500

Timed is the processor time of the whole process, the thread that writes included, for all that the
engine is told of a pod: that it is there, Decide, Bound, and the pod on its node.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import process_time_ns
from typing import Final

from bench.decisions.timing import WARM_UP, Timed
from bench.workload import chosen, load_workloads
from scheduler.engine.events import Tick
from scheduler.recording.decision_log import DecisionLog, RotatedFile
from scheduler.recording.decisions import Rows
from scheduler.recording.records import Header

_BLOCK: Final = 100
"""Pods in a turn."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print microseconds per pod."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", default="plain")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=5000, help="with rows; as many without")
    options = parser.parse_args(arguments)
    [workload] = chosen(load_workloads(), (options.workload,))
    count = WARM_UP + options.pods
    lost: list[int] = []
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "decisions.jsonl"
        header = Header(
            recording="bench",
            version="",
            configuration={},
            seed=0,
            max_in_unschedulable_seconds=300.0,
            started=1e9,
            clock=0.0,
        )
        log = DecisionLog(RotatedFile(file), Rows(header), on_lost=lost.append, on_end=print)
        off = Timed(workload, options.nodes, count)
        on = Timed(workload, options.nodes, count, take_outcome=log.take)
        for timed in (off, on):
            _turn(timed, WARM_UP)
        without, with_rows = [], []
        for _ in range(options.pods // _BLOCK):
            without.append(_turn(off, _BLOCK))
            with_rows.append(_turn(on, _BLOCK, log))
        log.close()
        written = file.read_bytes()
    before, after = statistics.median(without), statistics.median(with_rows)
    print(f"{workload.name}, {options.nodes} nodes: {before:.1f} us per pod, {after:.1f} with rows")
    print(f"a row: {after - before:.1f} us ({(after - before) / before:.1%}), ", end="")
    rows = written.count(b"\n")
    print(f"{len(written) / rows:.0f} bytes; {rows} written, {sum(lost)} lost")
    return 0


def _turn(timed: Timed, pods: int, log: DecisionLog | None = None) -> float:
    """Microseconds per pod; what goes to the disk once a second goes once a turn."""
    start = process_time_ns()
    for _ in range(pods):
        timed.schedule(next(timed.pods))
    if log is not None:
        log.note(Tick(), 0.0, ())
    return (process_time_ns() - start) / 1000 / pods


if __name__ == "__main__":
    sys.exit(main())
