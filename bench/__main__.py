"""``python -m bench``: stowage and kube-scheduler do the same work, one after the other.

Every run begins with a control plane of its own over a copy of the same data. Results are printed
and, unless the form is short, kept in ``bench/results/``; ``python -m bench.page`` makes
``docs/performance.md`` from them.
"""

import compileall
import sys
from pathlib import Path

import click
import msgspec

import scheduler
from bench.contestants import (
    CONTESTANTS,
    FOLLOWING_WALL,
    KUBE_SCHEDULER,
    STOWAGE,
    WALL,
    WALL_WITH_EVENTS,
    WALLS,
)
from bench.latency import measure_latency
from bench.machine import Machine
from bench.results import Results, Throughput, default_path
from bench.states import Prepared, prepared_state
from bench.tables import print_results
from bench.throughput import Patience, measure_throughput
from bench.workload import SHORT, Workload, WorkloadError, chosen, load_workloads
from e2e.support.go_programs import CONTROL_PLANE, BuildError, build
from e2e.support.processes import ProgramError

_LATENCY_SECONDS = 15.0
_SHORT_LATENCY_SECONDS = 3.0


@click.command()
@click.option("--workload", "names", multiple=True, help="Only this one; may be given again.")
@click.option("--size", "sizes", multiple=True, help="500, 5000 (the default), 15000 or short.")
@click.option("--only", multiple=True, type=click.Choice(list(CONTESTANTS)), help="Only this one.")
@click.option("--repeat", default=1, show_default=True, help="How often to measure each.")
@click.option("--short", is_flag=True, help="Small, few workloads, nothing is kept.")
@click.option("--latency/--no-latency", default=True, help="Measure creation to bind too.")
@click.option("--throughput/--no-throughput", default=True, help="Measure pods/s.")
@click.option("--output", type=click.Path(path_type=Path), help="Where to keep the results.")
@click.option("--list", "show", is_flag=True, help="Say which workloads there are.")
def main(
    *,
    names: tuple[str, ...],
    sizes: tuple[str, ...],
    only: tuple[str, ...],
    repeat: int,
    short: bool,
    latency: bool,
    throughput: bool,
    output: Path | None,
    show: bool,
) -> None:
    """Compare stowage with kube-scheduler on this machine."""
    workloads = load_workloads()
    if show:
        for workload in workloads.values():
            print(f"{workload.name:45} {', '.join(workload.sizes):30} {workload.title}")
        return
    wanted = chosen(workloads, names)
    if short:
        sizes = (SHORT,)
        wanted = wanted if names else [workload for workload in wanted if workload.short]
    build(CONTROL_PLANE)
    # An installed package is compiled; a checkout may not be.
    compileall.compile_dir(Path(scheduler.__file__).parent, quiet=1)
    results = Results(Machine.here())
    path = output or (None if short else default_path(results.machine, "cluster"))
    run = Run(results, path, only, repeat, throughput=throughput, latency=latency)
    try:
        for size in sizes or ("5000",):
            for workload in wanted:
                if size in workload.sizes:
                    run.measure(workload, size)
    finally:
        print_results(results)
        if path is not None:
            print(f"kept in {path}")
    if run.failures:
        sys.exit("error: " + "\n".join(run.failures))


class Run:
    """One run of the benchmark; keeps what it has after each workload."""

    def __init__(
        self,
        results: Results,
        path: Path | None,
        only: tuple[str, ...],
        repeat: int,
        *,
        throughput: bool,
        latency: bool,
    ) -> None:
        self.failures: list[str] = []
        self._results = results
        self._path = path
        self._only = only
        self._repeat = repeat
        self._throughput = throughput
        self._latency = latency

    def measure(self, workload: Workload, size: str) -> None:
        """Measures one workload at one size."""
        print(f"{workload.name}, size {size}: preparing", file=sys.stderr, flush=True)
        with_quiet = self._latency and workload.latency is not None
        with prepared_state(workload, workload.sizes[size], with_quiet=with_quiet) as prepared:
            for _ in range(self._repeat):
                speeds: dict[str, float] = {}
                if self._throughput:
                    for contestant in self._contestants(workload, WALL, WALL_WITH_EVENTS):
                        speeds[contestant] = self._run_throughput(prepared, size, contestant)
                if STOWAGE in speeds:
                    # Whether anybody at all could do what is asked of stowage.
                    speeds[FOLLOWING_WALL] = speeds[STOWAGE]
                if self._latency:
                    for contestant in self._contestants(workload, FOLLOWING_WALL):
                        self._run_latency(prepared, size, contestant, speeds.get(contestant))
            if self._path is not None:
                self._results.save(self._path)

    def _contestants(self, workload: Workload, *walls: str) -> list[str]:
        """Those to measure; the walls only where the workload asks for them."""
        if self._only:
            return [each for each in self._only if each not in WALLS or each in walls]
        return [*(walls if workload.wall else ()), KUBE_SCHEDULER, STOWAGE]

    def _run_throughput(self, prepared: Prepared, size: str, contestant: str) -> float:
        try:
            result = measure_throughput(prepared, size, contestant, Patience())
        except ProgramError as problem:
            self._fail(prepared, size, contestant, problem)
            return 0.0
        self._results.throughput.append(result)
        _say(result)
        return result.pods_per_second_middle

    def _fail(self, prepared: Prepared, size: str, contestant: str, problem: Exception) -> None:
        """Notes that a program failed; the other figures of a long run are not lost for that."""
        where = f"{prepared.workload.name}, size {size}, {contestant}"
        self.failures.append(f"{where}: {problem}")
        print(f"  {contestant} failed:\n{problem}", file=sys.stderr, flush=True)

    def _run_latency(
        self, prepared: Prepared, size: str, contestant: str, speed: float | None
    ) -> None:
        load = prepared.workload.latency
        if load is None:
            return
        seconds = _SHORT_LATENCY_SECONDS if size == SHORT else _LATENCY_SECONDS
        rates = [(load.pods_per_second, False)]
        if load.half and speed:
            rates.append((speed / 2, True))
        for rate, half in rates:
            try:
                result = measure_latency(prepared, size, contestant, rate, seconds)
            except ProgramError as problem:
                self._fail(prepared, size, contestant, problem)
                return
            self._results.latency.append(msgspec.structs.replace(result, half=half))
            print(
                f"  {contestant}: at {rate:.0f} pods/s p50 {result.p50_ms:.1f} ms, "
                f"p99 {result.p99_ms:.1f} ms",
                file=sys.stderr,
                flush=True,
            )


def _say(result: Throughput) -> None:
    print(
        f"  {result.contestant}: {result.bound}/{result.pods} pods, "
        f"{result.pods_per_second:.0f} pods/s, {result.cpu_ms_per_pod:.2f} ms/pod"
        + (f" [{result.note}]" if result.note else ""),
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    try:
        main()
    except (BuildError, ProgramError, WorkloadError) as error:
        sys.exit(f"error: {error}")
