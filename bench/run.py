"""Runs every contestant with every workload, in interleaved rounds."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import msgspec

from bench.contestants import (
    FOLLOWING_WALLS,
    KUBE_SCHEDULER,
    STOWAGE,
    WALL,
    WALL_WITH_EVENTS,
    WALLS,
    Contestant,
    contestants,
)
from bench.latency import measure_latency
from bench.results import Results, Throughput
from bench.rounds import orders
from bench.states import Prepared, prepared_state
from bench.throughput import Patience, measure_throughput
from bench.workload import SHORT, Size, Workload, load_workloads
from e2e.support.processes import ProgramError

_LATENCY_SECONDS: Final = 15.0
_SHORT_LATENCY_SECONDS: Final = 3.0
_TOO_MANY_REQUESTS: Final = 429
_IN_FLIGHT: Final = (16, 32, 64, 128)
_TRIAL: Final = Size(nodes=100, pods=3000)


class Kinds(NamedTuple):
    """Kinds of measurements to run."""

    throughput: bool = True
    latency: bool = True


class Run:
    """Runs measurements, and saves the results after each workload.

    Args:
        results: collected results.
        path: file for the results; None saves nothing.
        known: contestants by name.
        only: contestants to measure; empty for all of a workload.
        rounds: number of rounds.
        kinds: kinds of measurements.

    Attributes:
        failures: failed programs, and contestants that were prevented from running.
    """

    def __init__(
        self,
        results: Results,
        path: Path | None,
        known: Mapping[str, Contestant],
        *,
        only: Sequence[str] = (),
        rounds: int = 1,
        kinds: Kinds,
    ) -> None:
        self.results = results
        self.path = path
        self.failures: list[str] = []
        self._known = known
        self._only = only
        self._rounds = rounds
        self._kinds = kinds

    def measure(self, workload: Workload, size: str) -> None:
        """Measure one workload at one size."""
        print(f"{workload.name}, size {size}: preparing", file=sys.stderr, flush=True)
        try:
            self._measure(workload, size)
        finally:
            # An interrupted run keeps its results so far.
            if self.path is not None:
                self.results.save(self.path)

    def _measure(self, workload: Workload, size: str) -> None:
        with_quiet = self._kinds.latency and workload.latency is not None
        with prepared_state(workload, workload.sizes[size], with_quiet=with_quiet) as prepared:
            if self._kinds.throughput:
                names = self._names(workload, WALL, WALL_WITH_EVENTS)
                for number, order in enumerate(orders(names, self._rounds)):
                    for name in order:
                        self._run_throughput(prepared, size, name, number)
            if with_quiet:
                speeds = self._speeds(workload, size)
                for order in orders(self._names(workload, *FOLLOWING_WALLS), self._rounds):
                    for name in order:
                        self._run_latency(prepared, size, name, speeds.get(name))

    def _names(self, workload: Workload, *walls: str) -> list[str]:
        """Return the contestants to measure; walls only if the workload includes them."""
        if self._only:
            return [each for each in self._only if each not in WALLS or each in walls]
        return [*(walls if workload.wall else ()), KUBE_SCHEDULER, STOWAGE]

    def _speeds(self, workload: Workload, size: str) -> dict[str, float]:
        """Return each contestant's median throughput; following walls get stowage's."""
        runs: dict[str, list[float]] = {}
        for run in self.results.throughput:
            if (run.workload, run.size) == (workload.name, size):
                runs.setdefault(run.contestant, []).append(run.pods_per_second)
        speeds = {name: median(values) for name, values in runs.items()}
        if STOWAGE in speeds:
            # The walls show whether the API server can sustain stowage's rate.
            speeds |= dict.fromkeys(FOLLOWING_WALLS, speeds[STOWAGE])
        return speeds

    def _run_throughput(self, prepared: Prepared, size: str, name: str, number: int) -> None:
        patience = Patience(total_seconds=prepared.workload.patience_seconds)
        try:
            run = measure_throughput(prepared, size, self._known[name], patience, number=number)
        except ProgramError as problem:
            self._fail(prepared, size, name, problem)
            return
        self.results.throughput.append(run)
        _say(run)
        if held_back := run.refused.get(_TOO_MANY_REQUESTS):
            self._fail(prepared, size, name, f"{held_back} binds refused: too many requests")

    def _run_latency(self, prepared: Prepared, size: str, name: str, speed: float | None) -> None:
        load = prepared.workload.latency
        if load is None:
            return
        seconds = _SHORT_LATENCY_SECONDS if size == SHORT else _LATENCY_SECONDS
        rates = [(load.pods_per_second, False)]
        if load.half and speed:
            rates.append((speed / 2, True))
        for rate, half in rates:
            try:
                result = measure_latency(prepared, size, self._known[name], rate, seconds)
            except ProgramError as problem:
                self._fail(prepared, size, name, problem)
                return
            self.results.latency.append(msgspec.structs.replace(result, half=half))
            print(
                f"  {name}: at {rate:.0f} pods/s p50 {result.p50_ms:.1f} ms, "
                f"p99 {result.p99_ms:.1f} ms",
                file=sys.stderr,
                flush=True,
            )

    def _fail(self, prepared: Prepared, size: str, name: str, problem: object) -> None:
        """Record a failure and continue, to keep the other results of a long run."""
        self.failures.append(f"{prepared.workload.name}, size {size}, {name}: {problem}")
        print(f"  {name} failed:\n{problem}", file=sys.stderr, flush=True)


def best_in_flight() -> int:
    """Return the number of concurrent requests with which a wall is fastest."""
    plain = load_workloads()["plain"]
    speeds: dict[int, float] = {}
    with prepared_state(plain, _TRIAL, with_quiet=False) as prepared:
        for in_flight in _IN_FLIGHT:
            wall = contestants(in_flight)[WALL_WITH_EVENTS]
            run = measure_throughput(prepared, "trial", wall, Patience())
            speeds[in_flight] = run.pods_per_second
            print(f"wall with {in_flight} in flight: {run.pods_per_second:.0f} pods/s")
    return max(speeds, key=lambda each: speeds[each])


def _say(run: Throughput) -> None:
    print(
        f"  {run.contestant} {run.round}: {run.bound}/{run.pods} pods, {run.events} events, "
        f"{run.pods_per_second:.0f} pods/s, {run.binds_per_second:.0f} binds/s, "
        f"{run.cpu_ms_per_pod_ready:.2f} ms/pod, others {100 * run.foreign_share:.0f} %"
        + (f" [{run.note}]" if run.note else ""),
        file=sys.stderr,
        flush=True,
    )
