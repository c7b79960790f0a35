"""``python -m bench.decisions``: microseconds per decision, for each workload and cluster size."""

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import click

from bench.decisions.timing import time_decisions
from bench.machine import DirtyTreeError, Machine
from bench.results import Decision, Results, default_path
from bench.tables import print_results
from bench.workload import Workload, WorkloadError, chosen, load_workloads
from scheduler.kernel.engine.placing import MAX_BATCH

_SIZES = (500, 5000, 15_000, 50_000)
_SHORT_SIZES = (100, 400)
_SHORT_DECISIONS = 100


@click.command()
@click.option("--workload", "names", multiple=True, help="Only this one; may be given again.")
@click.option("--nodes", "sizes", multiple=True, type=int, help="Nodes; may be given again.")
@click.option("--decisions", type=int, help="How many to time, not as many as a workload says.")
@click.option("--batch", default=MAX_BATCH, show_default=True, help="Pods that wait at a time.")
@click.option("--short", is_flag=True, help="Small, nothing is kept.")
@click.option("--dirty", is_flag=True, help="Measure a tree that is no commit; its name says so.")
@click.option("--output", type=click.Path(path_type=Path), help="Where to keep the results.")
def main(
    *,
    names: tuple[str, ...],
    sizes: tuple[int, ...],
    decisions: int | None,
    batch: int,
    short: bool,
    dirty: bool,
    output: Path | None,
) -> None:
    """Time decisions without any I/O."""
    workloads = [each for each in chosen(load_workloads(), names) if names or each.decisions]
    sizes = sizes or (_SHORT_SIZES if short else _SIZES)
    machine = Machine.here()
    if not (short or dirty):
        machine.refuse_dirty()
    results = Results(machine)
    path = output or (None if short else default_path(results.machine, "decisions"))
    try:
        for workload in workloads:
            for nodes in sizes:
                count = decisions or (_SHORT_DECISIONS if short else workload.decisions)
                decision = _in_its_own_process(workload, nodes, count, batch)
                results.decisions.append(decision)
                print(
                    f"{workload.name}, {nodes} nodes: {decision.median_us:.0f} us, "
                    f"other events {decision.rest_us:.0f} us {decision.note}",
                    file=sys.stderr,
                    flush=True,
                )
            if path is not None:
                results.save(path)
    finally:
        print_results(results)
        if path is not None:
            print(f"kept in {path}")


def _in_its_own_process(workload: Workload, nodes: int, count: int, batch: int) -> Decision:
    """Nothing of the cluster before is in its memory."""
    with ProcessPoolExecutor(1, get_context("spawn")) as processes:
        return processes.submit(time_decisions, workload, nodes, count, batch).result()


if __name__ == "__main__":
    try:
        main()
    except (DirtyTreeError, WorkloadError) as error:
        sys.exit(f"error: {error}")
