"""``python -m bench.page``: makes ``docs/performance.md`` and its picture from kept results.

Only what lies between the two marks is replaced; the rest of the page is written by people.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import click

from bench.machine import Machine
from bench.plot import draw_throughput
from bench.results import FOLDER, Results, ResultsError, load_results
from bench.tables import Table, problems_of, tables_of, target_table
from bench.targets import SIZE, verdicts
from bench.workload import load_workloads
from e2e.support.go_programs import CHECKOUT

T = TypeVar("T")

PAGE: Final = CHECKOUT / "docs" / "performance.md"

_BEGIN: Final = "<!-- begin: made by python -m bench.page -->"
_END: Final = "<!-- end: made by python -m bench.page -->"
_FRAME: Final = f"# Performance\n\n{_BEGIN}\n{_END}\n"


@click.command()
@click.option("--page", type=click.Path(path_type=Path), default=PAGE, help="Where to put it.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
def main(page: Path, files: tuple[Path, ...]) -> None:
    """Make the page from FILES; without any from the newest results of each kind.

    Where several files have figures of one workload, the last file counts.
    """
    paths = files or _newest()
    if not paths:
        sys.exit(f"error: there are no results in {FOLDER}; `make bench` makes some")
    parts = {path.name: load_results(path) for path in paths}
    picture = page.with_suffix(".svg")
    page.parent.mkdir(exist_ok=True)
    titles = {name: workload.title for name, workload in load_workloads().items()}
    everything = _together(parts.values())
    measured = [run for run in everything.throughput if run.size == SIZE]
    picture.write_text(draw_throughput(measured, titles))
    before = page.read_text() if page.exists() else _FRAME
    page.write_text(_replaced(before, "\n".join(_lines(parts, everything, picture.name))))
    print(f"wrote {page} and {picture}")


def _newest() -> tuple[Path, ...]:
    kinds = (sorted(FOLDER.glob(f"{kind}-*.json")) for kind in ("cluster", "decisions"))
    return tuple(files[-1] for files in kinds if files)


def _replaced(page: str, text: str) -> str:
    if _BEGIN not in page or _END not in page:
        raise ResultsError(f"the page has no marks {_BEGIN} and {_END}")
    before, rest = page.split(_BEGIN, 1)
    after = rest.split(_END, 1)[1]
    return f"{before}{_BEGIN}\n\n{text}\n\n{_END}{after}"


def _lines(parts: dict[str, Results], everything: Results, picture: str) -> Iterator[str]:
    seen: set[str] = set()
    for name, part in parts.items():
        names = {run.workload for run in part.throughput}
        yield _source(name, part.machine, sorted(seen & names))
        seen |= names
    yield from _markdown(target_table(verdicts(everything, load_workloads())))
    yield from ("", f"![pods per second of each workload]({picture})")
    for table in tables_of(everything):
        yield from _markdown(table)
    problems = list(problems_of(everything))
    if problems:
        yield from ("", "What went wrong:", "")
        yield from (f"- {' '.join(problem.split())}" for problem in problems)


def _together(parts: Iterable[Results]) -> Results:
    """Puts results into one; of figures about the same the last ones stay."""
    first, *others = parts
    for part in others:
        first = Results(
            first.machine,
            _replace(first.throughput, part.throughput, lambda run: (run.workload, run.size)),
            _replace(first.latency, part.latency, lambda run: (run.workload, run.size)),
            _replace(first.decisions, part.decisions, lambda each: each.workload),
        )
    return first


def _replace(old: list[T], new: list[T], about: Callable[[T], object]) -> list[T]:
    replaced = {about(each) for each in new}
    return [each for each in old if about(each) not in replaced] + new


def _source(name: str, machine: Machine, again: list[str]) -> str:
    libraries = ", ".join(f"{name} {version}" for name, version in machine.libraries.items())
    return (
        f"- `{name}`: {machine.started}, commit `{machine.commit}`; {machine.cores} cores of "
        f"{machine.processor}, {machine.memory_bytes / 2**30:.0f} GiB, {machine.system}, load "
        f"{machine.load:.1f} before; Kubernetes {machine.kubernetes}; "
        f"Python {machine.python}, {libraries}."
    ) + (f" It replaces the figures of {', '.join(again)}." if again else "")


def _markdown(table: Table) -> Iterator[str]:
    sides = ["---" if number < table.words else "--:" for number in range(len(table.columns))]
    yield from ("", f"### {table.title}", "")
    for cells in (table.columns, sides, *table.rows):
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    try:
        main()
    except ResultsError as error:
        sys.exit(f"error: {error}")
