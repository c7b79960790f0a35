"""What it costs to keep what was decided: the flight recorder, and `stowage run --record`.

    python -m bench.recording                             # 1,000 nodes, 5 rounds of 5,000 pods
    python -m bench.recording --pods 500 --rounds 1       # small: shows that it works

Against a real API server: in each round a daemon that keeps nothing, one with its flight recorder
and one that also records into files bind the same pods, in an order that turns round. What is held
against each other is the processor time of the whole daemon per pod, the thread that compresses
included: where the processor is what is short, so much fewer pods are bound. The last recording is
replayed.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final

from bench.processor import wait_until_idle
from bench.progress import scheduled
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.objects import make_nodes, make_pods
from e2e.support.processes import Program
from e2e.support.stowage import start_stowage
from e2e.support.waiting import wait_for

MOST: Final = 0.03
"""Of what a daemon takes that keeps nothing."""
_NAMESPACE: Final = "load"


class Kept(StrEnum):
    """What a daemon keeps of its decisions."""

    NOTHING = "nothing"
    FLIGHT = "flight recorder"
    FILES = "flight recorder and --record"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and say by the exit status whether it costs too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000, help="bound by each in a round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    found: dict[Kept, list[tuple[float, float]]] = {kept: [] for kept in Kept}
    with (
        tempfile.TemporaryDirectory() as name,
        ControlPlane() as own,
        Cluster("own", own.kubeconfig, Path(name), control_plane=own) as cluster,
    ):
        cluster.create_nodes(make_nodes(options.nodes, allocatable={"pods": "1000", "cpu": "64"}))
        order = list(Kept)
        for number in range(options.rounds):
            for kept in order:
                directory = Path(name) / f"{number}-{kept.name.lower()}"
                directory.mkdir()
                measured = _measured(cluster, own, kept, directory, options.pods)
                found[kept].append(measured)
                print(f"{kept}: {measured[0]:.0f} us a pod, {measured[1]:.0f} pods/s", flush=True)
            order.reverse()
        identical = _replayed(next(Path(name).glob("*-files/recording")))
    return _judge(found, is_identical=identical)


def _measured(
    cluster: Cluster, own: ControlPlane, kept: Kept, directory: Path, count: int
) -> tuple[float, float]:
    """Microseconds of processor time a pod, and pods a second."""
    bodies = make_pods(count, namespace=_NAMESPACE, requests={"cpu": "10m"})
    with _daemon(own.kubeconfig, kept, directory) as program:
        wait_until_idle([program])
        before, start = program.cpu_seconds(), time.monotonic()
        cluster.create_pods(bodies)
        wait_for(lambda: scheduled(program) >= count, "the pods to be bound", 600, 0.3)
        seconds = time.monotonic() - start
        # What is still to be written belongs to the price.
        wait_until_idle([program])
        used = program.cpu_seconds() - before
    cluster.delete_pods(_NAMESPACE)
    wait_for(lambda: not cluster.pods(_NAMESPACE), "the pods to be gone", 300, 0.5)
    return 1e6 * used / count, count / seconds


@contextmanager
def _daemon(kubeconfig: Path, kept: Kept, directory: Path) -> Iterator[Program]:
    arguments = ["--serve-without-authorization"]
    if kept is Kept.FILES:
        arguments.append(f"--record={directory / 'recording'}")
    module = ("bench.unrecorded",) if kept is Kept.NOTHING else ("scheduler", "run")
    command = (sys.executable, "-m", *module)
    program = start_stowage(kubeconfig, directory, arguments=arguments, command=command)
    try:
        yield program
    finally:
        program.stop()


def _replayed(directory: Path) -> bool:
    words = [sys.executable, "-m", "scheduler", "replay", str(directory)]
    done = subprocess.run(words, check=False)
    return done.returncode == 0


def _judge(found: dict[Kept, list[tuple[float, float]]], *, is_identical: bool) -> int:
    """Medians of what each round says about its own daemons."""
    costs = {
        kept: statistics.median(
            measured[0] / nothing[0] - 1
            for measured, nothing in zip(found[kept], found[Kept.NOTHING], strict=True)
        )
        for kept in (Kept.FLIGHT, Kept.FILES)
    }
    for kept, measured in found.items():
        used, speed = (statistics.median(values) for values in zip(*measured, strict=True))
        cost = f", {costs[kept]:+.1%} (target: at most {MOST:.0%})" if kept in costs else ""
        print(f"{kept}: {used:.0f} us of processor time a pod, {speed:.0f} pods/s{cost}")
    return 0 if is_identical and all(cost <= MOST for cost in costs.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
