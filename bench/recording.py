"""Measures the cost of recording: the flight recorder, and `stowage run --record`.

    python -m bench.recording                             # 1,000 nodes, 5,000 pods
    python -m bench.recording --pods 500                  # small: shows that it works

One process schedules the same pods without recording, with the flight recorder, and with recording
to files, alternating. It measures the CPU time of the whole process, including the compression
thread. Then a recording daemon binds as many pods on a real API server. The cost of recording is
compared with that daemon's CPU time per pod, since a CPU-bound daemon loses that share of its
throughput. The recording is replayed.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.decisions.timing import HEADER, TURN, WARM_UP, Timed
from bench.processor import wait_until_idle
from bench.progress import scheduled
from bench.workload import chosen, load_workloads
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.objects import make_nodes, make_pods
from e2e.support.stowage import start_stowage
from e2e.support.waiting import wait_for
from scheduler.daemon.recording.directory import DirectoryRecorder
from scheduler.daemon.recording.flight import FlightRecorder
from scheduler.kernel.engine.events import Event
from scheduler.kernel.engine.instructions import Instruction

MOST: Final = 0.03
"""Maximum cost as a share of the daemon's CPU time per pod."""
KINDS: Final = ("flight recorder", "flight recorder and --record")
_NAMESPACE: Final = "load"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit status says whether the cost is within the limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument(
        "--pods", type=int, default=5000, help="pods for each engine, and for the daemon"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        costs = keeping(options.nodes, options.pods, Path(name))
        whole, is_identical = _daemon(options.nodes, options.pods, Path(name))
    print(f"the daemon: {whole:.0f} us of processor time a pod, keeping included")
    without = whole - costs[-1]
    for kind, cost in zip(KINDS, costs, strict=True):
        print(f"{kind}: {cost:.1f} us, {cost / without:+.1%} (target: at most {MOST:.0%})")
    return 0 if is_identical and max(costs) <= MOST * without else 1


class _Both:
    def __init__(self, *logs: FlightRecorder | DirectoryRecorder) -> None:
        self._logs = logs

    def note(self, event: Event, now: float, instructions: Sequence[Instruction]) -> None:
        for log in self._logs:
            log.note(event, now, instructions)


def keeping(nodes: int, pods: int, directory: Path) -> tuple[float, ...]:
    """Return the microseconds per pod of each of `KINDS`."""
    files = DirectoryRecorder(directory, HEADER, lambda why, _: print(why, file=sys.stderr))
    logs = None, FlightRecorder(HEADER), _Both(FlightRecorder(HEADER), files)
    [workload] = chosen(load_workloads(), ("plain",))
    engines = [Timed(workload, nodes, WARM_UP + pods, log=log) for log in logs]
    for timed in engines:
        timed.turn(WARM_UP)
    turns = [[timed.turn(TURN) for timed in engines] for _ in range(pods // TURN)]
    files.close()
    nothing, *kept = (statistics.median(taken) for taken in zip(*turns, strict=True))
    return tuple(each - nothing for each in kept)


def _daemon(nodes: int, pods: int, directory: Path) -> tuple[float, bool]:
    """Return a daemon's microseconds per pod, and whether its recording replays identically."""
    recording = directory / "recording"
    with (
        ControlPlane() as own,
        Cluster("own", own.kubeconfig, directory, control_plane=own) as cluster,
    ):
        cluster.create_nodes(make_nodes(nodes, allocatable={"pods": "1000", "cpu": "64"}))
        program = start_stowage(
            own.kubeconfig,
            directory,
            arguments=["--serve-without-authorization", f"--record={recording}"],
        )
        try:
            wait_until_idle([program])
            before = program.cpu_seconds()
            bodies = make_pods(pods, namespace=_NAMESPACE, requests={"cpu": "10m"})
            cluster.create_pods(bodies)
            wait_for(lambda: scheduled(program) >= pods, "the pods to be bound", 600, 0.3)
            # Include pending writes in the cost.
            wait_until_idle([program])
            used = program.cpu_seconds() - before
        finally:
            program.stop()
    words = [sys.executable, "-m", "scheduler", "replay", str(recording)]
    return 1e6 * used / pods, subprocess.run(words, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
