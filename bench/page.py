"""``python -m bench.page``: generates ``docs/performance.md`` and its figure from saved results.

The page has two generated parts: the results, and the missed targets with the reasons from
``bench/reasons.yaml``. Only text between the markers is replaced.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import click
import msgspec

from bench.machine import Machine
from bench.plot import draw_throughput
from bench.results import FOLDER, Results, ResultsError, load_results
from bench.tables import Table, problems_of, tables_of, target_table
from bench.targets import SIZE, Verdict, verdicts
from bench.workload import load_workloads
from e2e.support.go_programs import CHECKOUT

T = TypeVar("T")

PAGE: Final = CHECKOUT / "docs" / "performance.md"

REASONS: Final = Path(__file__).parent / "reasons.yaml"

_MARK: Final = "<!-- {}: {} made by python -m bench.page -->"
_MISSED: Final = "what is missed,"
_RESULTS: Final = "results,"


def _marks(part: str) -> tuple[str, str]:
    return _MARK.format("begin", part), _MARK.format("end", part)


_FRAME: Final = "\n".join(["# Performance\n", *_marks(_MISSED), "", *_marks(_RESULTS), ""])


@click.command()
@click.option("--page", type=click.Path(path_type=Path), default=PAGE, help="Page to write.")
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
    found = verdicts(everything, load_workloads())
    text = _replaced(before, _MISSED, "\n".join(_missed_lines(found, _reasons())))
    lines = _lines(parts, everything, found)
    page.write_text(_replaced(text, _RESULTS, "\n".join(lines)))
    print(f"wrote {page} and {picture}")


def _newest() -> tuple[Path, ...]:
    kinds = (sorted(FOLDER.glob(f"{kind}-*.json")) for kind in ("cluster", "decisions", "bounds"))
    return tuple(files[-1] for files in kinds if files)


def _replaced(page: str, part: str, text: str) -> str:
    begin, end = _marks(part)
    if begin not in page or end not in page:
        raise ResultsError(f"the page has no marks {begin} and {end}")
    before, rest = page.split(begin, 1)
    after = rest.split(end, 1)[1]
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def _reasons() -> dict[str, str]:
    reasons: dict[str, str] = msgspec.yaml.decode(REASONS.read_bytes(), type=dict[str, str])
    return reasons


def _missed_lines(found: list[Verdict], reasons: dict[str, str]) -> Iterator[str]:
    """Yield the missed targets with their reasons; name those without a reason."""
    missed = [each for each in found if each.met is False]
    unknown = sum(each.met is None for each in found)
    yield f"Of {len(found)} targets {len(missed)} are missed, and {unknown} were not measured."
    if missed:
        yield from ("", "## What is missed, and why", "")
    for each in missed:
        reason = " ".join(reasons.get(each.about, "No reason is known.").split())
        yield f"- **{each.about}**: {each.measured}, wanted {each.wanted}. {reason}"


def _lines(parts: dict[str, Results], everything: Results, found: list[Verdict]) -> Iterator[str]:
    for table in tables_of(everything):
        yield from _markdown(table)
    yield from _markdown(target_table(found))
    yield from ("", "### Result files", "")
    seen: set[str] = set()
    for name, part in parts.items():
        names = {run.workload for run in part.throughput}
        yield _source(name, part.machine, sorted(seen & names))
        seen |= names
    problems = list(problems_of(everything))
    if problems:
        yield from ("", "What went wrong:", "")
        yield from (f"- {' '.join(problem.split())}" for problem in problems)


def _together(parts: Iterable[Results]) -> Results:
    """Merge results; later results replace earlier ones of the same workload."""
    first, *others = parts
    for part in others:
        first = Results(
            first.machine,
            _replace(first.throughput, part.throughput, lambda run: (run.workload, run.size)),
            _replace(first.latency, part.latency, lambda run: (run.workload, run.size)),
            _replace(first.decisions, part.decisions, lambda each: (each.workload, each.nodes)),
            _replace(first.bounds, part.bounds, lambda each: each.case),
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
