"""``python -m bench``: runs the same workloads with stowage and kube-scheduler, interleaved.

Every run starts a new control plane from a copy of the same data. Results are printed and, except
for the short form, saved in ``bench/results/``; ``python -m bench.page`` generates
``docs/performance.md`` from them.
"""

import compileall
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

import scheduler
from bench.contestants import IN_FLIGHT, WALL_WITH_EVENTS, contestants
from bench.machine import DirtyTreeError, Machine
from bench.results import Results, default_path
from bench.run import Kinds, Run, best_in_flight
from bench.tables import print_results
from bench.workload import SHORT, Workload, WorkloadError, chosen, load_workloads
from e2e.support.go_programs import CONTROL_PLANE, BuildError, build
from e2e.support.processes import ProgramError

_SIZES: Final = ("500", "5000", "15000", "50000")
_ROUNDS: Final = 5


@click.command()
@click.option("--workload", "names", multiple=True, help="Workload to run; may be repeated.")
@click.option(
    "--size",
    "sizes",
    multiple=True,
    help=f"{', '.join(_SIZES)} or short; by default all but short.",
)
@click.option(
    "--only", multiple=True, type=click.Choice(list(contestants())), help="Contestant to run."
)
@click.option("--rounds", type=int, help=f"Rounds; by default {_ROUNDS}, 1 with --short.")
@click.option(
    "--in-flight", type=int, help="Concurrent requests of a wall; by default the fastest."
)
@click.option("--pods", type=int, help="Maximum number of measured pods.")
@click.option("--short", is_flag=True, help="Run few workloads at a small size; save no results.")
@click.option("--latency/--no-latency", default=True, help="Measure the time to binding.")
@click.option("--throughput/--no-throughput", default=True, help="Measure pods/s.")
@click.option("--dirty", is_flag=True, help="Allow uncommitted changes; mark the results as dirty.")
@click.option("--output", type=click.Path(path_type=Path), help="File for the results.")
@click.option("--list", "show", is_flag=True, help="List the workloads.")
def main(
    *,
    names: tuple[str, ...],
    sizes: tuple[str, ...],
    only: tuple[str, ...],
    rounds: int | None,
    in_flight: int | None,
    pods: int | None,
    short: bool,
    latency: bool,
    throughput: bool,
    dirty: bool,
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
    machine = Machine.here()
    if not (short or dirty):
        machine.refuse_dirty()
    build(CONTROL_PLANE)
    # An installed package is already compiled; a checkout may not be.
    compileall.compile_dir(Path(scheduler.__file__).parent, quiet=1)
    results = Results(machine)
    path = output or (None if short else default_path(machine, "cluster"))
    if in_flight is None and not short and (not only or WALL_WITH_EVENTS in only):
        in_flight = best_in_flight()
    run = Run(
        results,
        path,
        contestants(in_flight or IN_FLIGHT),
        only=only,
        rounds=rounds or (1 if short else _ROUNDS),
        kinds=Kinds(throughput=throughput, latency=latency),
    )
    _measure_all(run, [each.at_most(pods) for each in wanted], sizes or _SIZES)
    if run.failures:
        sys.exit("error: " + "\n".join(run.failures))


def _measure_all(run: Run, workloads: Sequence[Workload], sizes: Sequence[str]) -> None:
    try:
        for size in sizes:
            for workload in workloads:
                if size in workload.sizes:
                    run.measure(workload, size)
    finally:
        print_results(run.results)
        if run.path is not None:
            print(f"kept in {run.path}")


if __name__ == "__main__":
    try:
        main()
    except (BuildError, DirtyTreeError, ProgramError, WorkloadError) as error:
        sys.exit(f"error: {error}")
