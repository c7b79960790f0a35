"""``python -m bench.decisions``: microseconds per decision, for each workload and cluster size."""

import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from bench.decisions.timing import time_decisions
from bench.machine import Machine
from bench.results import Decision, Results, default_path
from bench.summary import growth_of
from bench.workload import WorkloadError, chosen, load_workloads

_SIZES = (1000, 2000, 5000, 20000)
_SHORT_SIZES = (100, 400)
_DECISIONS = 2000
_SHORT_DECISIONS = 100


@click.command()
@click.option("--workload", "names", multiple=True, help="Only this one; may be given again.")
@click.option("--nodes", "sizes", multiple=True, type=int, help="Nodes; may be given again.")
@click.option("--decisions", default=_DECISIONS, show_default=True, help="How many to time.")
@click.option("--short", is_flag=True, help="Small, nothing is kept.")
@click.option("--output", type=click.Path(path_type=Path), help="Where to keep the results.")
def main(
    *,
    names: tuple[str, ...],
    sizes: tuple[int, ...],
    decisions: int,
    short: bool,
    output: Path | None,
) -> None:
    """Time decisions without any I/O."""
    workloads = [each for each in chosen(load_workloads(), names) if names or each.decisions]
    sizes = sizes or (_SHORT_SIZES if short else _SIZES)
    results = Results(Machine.here())
    path = output or (None if short else default_path(results.machine, "decisions"))
    try:
        for workload in workloads:
            for nodes in sizes:
                count = _SHORT_DECISIONS if short else decisions
                decision = time_decisions(workload, nodes, count)
                results.decisions.append(decision)
                print(
                    f"{workload.name}, {nodes} nodes: {decision.median_us:.0f} us {decision.note}",
                    file=sys.stderr,
                    flush=True,
                )
            if path is not None:
                results.save(path)
    finally:
        Console(width=120).print(_table(results.decisions, sorted(set(sizes))))
        if path is not None:
            print(f"kept in {path}")


def _table(decisions: list[Decision], sizes: list[int]) -> Table:
    table = Table(title="microseconds per decision: median (99th percentile), by number of nodes")
    table.add_column("workload", no_wrap=True)
    for nodes in sizes:
        table.add_column(f"{nodes}", justify="right")
    table.add_column(f"growth {sizes[0]} to {sizes[-1]}", justify="right")
    for name in dict.fromkeys(each.workload for each in decisions):
        found = {each.nodes: each for each in decisions if each.workload == name}
        growth = growth_of(decisions, name, sizes[0], sizes[-1])
        table.add_row(
            name,
            *(_cell(found.get(nodes)) for nodes in sizes),
            "" if growth is None else f"{growth:.1f}",
        )
    return table


def _cell(decision: Decision | None) -> str:
    if decision is None:
        return ""
    mark = "!" if decision.note else ""
    return f"{decision.median_us:.0f} ({decision.p99_us:.0f}){mark}"


if __name__ == "__main__":
    try:
        main()
    except WorkloadError as error:
        sys.exit(f"error: {error}")
