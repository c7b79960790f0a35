"""Measures the cost of decision rows: the same pods with and without, alternating in one process.

    python -m bench.outcomes                  # plain pods, 5,000 nodes
    python -m bench.outcomes --workload spread-zone-hard --nodes 500

It measures the CPU time of the whole process, including the writer thread, for all events of a pod:
its arrival, Decide, Bound, and its confirmation.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.decisions.timing import HEADER, TURN, WARM_UP, Timed
from bench.workload import chosen, load_workloads
from scheduler.daemon.recording.decision_log import DecisionLog, RotatedFile
from scheduler.daemon.recording.decisions import Rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, and print microseconds per pod."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workload", default="plain")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=5000, help="pods with rows; as many without")
    options = parser.parse_args(arguments)
    [workload] = chosen(load_workloads(), (options.workload,))
    count = WARM_UP + options.pods
    lost: list[int] = []
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "decisions.jsonl"
        log = DecisionLog(RotatedFile(file), Rows(HEADER), on_lost=lost.append, on_end=print)
        off = Timed(workload, options.nodes, count)
        on = Timed(workload, options.nodes, count, take_outcome=log.take, log=log)
        for timed in (off, on):
            timed.turn(WARM_UP)
        without, with_rows = [], []
        for _ in range(options.pods // TURN):
            without.append(off.turn(TURN))
            with_rows.append(on.turn(TURN))
        log.close()
        written = file.read_bytes()
    before, after = statistics.median(without), statistics.median(with_rows)
    print(f"{workload.name}, {options.nodes} nodes: {before:.1f} us per pod, {after:.1f} with rows")
    print(f"a row: {after - before:.1f} us ({(after - before) / before:.1%}), ", end="")
    rows = written.count(b"\n")
    print(f"{len(written) / rows:.0f} bytes; {rows} written, {sum(lost)} lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
