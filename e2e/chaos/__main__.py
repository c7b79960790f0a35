"""``python -m e2e.chaos``: injects faults for some minutes and prints a table of the results."""

import sys
from pathlib import Path

import click

from e2e.chaos.faults import CATALOGUE, Fault
from e2e.chaos.harness import Harness, Report
from e2e.chaos.page import CHECKOUT_PAGE, table, write
from e2e.chaos.replicas import Kind
from e2e.chaos.world import Size
from e2e.support.go_programs import BuildError
from e2e.support.processes import ProgramError


@click.command()
@click.option(
    "--seed", default=1, show_default=True, help="Seed of order, load and random choices."
)
@click.option("--minutes", type=float, help="Duration; by default each fault is injected once.")
@click.option("--only", multiple=True, help="Faults whose name contains this; may be repeated.")
@click.option(
    "--scheduler", type=click.Choice([each.value for each in Kind]), default=Kind.STOWAGE.value
)
@click.option("--rate", default=8, show_default=True, help="Pods created per second.")
@click.option("--population", default=200, show_default=True, help="Pods at a time.")
@click.option("--combine/--no-combine", default=True, help="Sometimes inject two faults at once.")
@click.option(
    "--keep", type=click.Path(path_type=Path), help="Folder for the logs, which are kept."
)
@click.option("--list", "show", is_flag=True, help="List the faults.")
@click.option("--write", "page", is_flag=True, help=f"Write the table into {CHECKOUT_PAGE.name}.")
def main(
    *,
    seed: int,
    minutes: float | None,
    only: tuple[str, ...],
    scheduler: str,
    rate: int,
    population: int,
    combine: bool,
    keep: Path | None,
    show: bool,
    page: bool,
) -> None:
    """Run two replicas under load and inject faults; exits with 1 if an invariant was violated."""
    faults = _chosen(only)
    if show:
        for fault in faults:
            print(fault.name)
        return
    size = Size(rate, population)
    harness = Harness(kind=Kind(scheduler), seed=seed, faults=faults, size=size, directory=keep)
    report = harness.run(minutes, combine=combine)
    print(table(report))
    if page:
        write(report, _command())
    _end(report)


def _chosen(only: tuple[str, ...]) -> list[type[Fault]]:
    chosen = [fault for fault in CATALOGUE if not only or any(part in fault.name for part in only)]
    if not chosen:
        raise click.UsageError(f"no fault is called like {', '.join(only)}; see --list")
    return chosen


def _command() -> str:
    words = [word for word in sys.argv[1:] if word != "--write"]
    return " ".join(["python -m e2e.chaos", *words])


def _end(report: Report) -> None:
    for violation in report.violations[:50]:
        print(f"BROKEN: {violation.promise}: {violation.what}")
    raise SystemExit(int(bool(report.violations)))


if __name__ == "__main__":
    try:
        main()
    except (BuildError, ProgramError) as error:
        sys.exit(f"error: {error}")
