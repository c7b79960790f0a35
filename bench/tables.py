"""Results as tables, independent of the output format."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table as RichTable

from bench.bounds import OTHERS_LIMIT, STEP_LIMIT_MS, holds
from bench.contestants import KUBE_SCHEDULER, SILENT
from bench.results import Bound, Decision, Latency, Results, Throughput
from bench.summary import growth_of, latency_groups, throughput_groups
from bench.targets import Verdict

_WORDS = {True: "met", False: "MISSED", None: "not measured"}


class Table(NamedTuple):
    """A title and cells; the first ``words`` columns contain text, the others figures."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    words: int


def tables_of(results: Results) -> Iterator[Table]:
    """Yield a table for each kind of results."""
    if results.throughput:
        for size in dict.fromkeys(run.size for run in results.throughput):
            runs = [run for run in results.throughput if run.size == size]
            yield _throughput_table(size, runs)
    if results.latency:
        yield _latency_table(results.latency)
    if results.decisions:
        yield from _decision_tables(results.decisions)
    if results.bounds:
        yield _bound_table(results.bounds)


def target_table(found: list[Verdict]) -> Table:
    """Return the table of the targets and the measured values."""
    rows = [[each.about, each.wanted, each.measured, _WORDS[each.met]] for each in found]
    return Table("Targets", ["target", "wanted", "measured", ""], rows, 4)


def problems_of(results: Results) -> Iterator[str]:
    """Yield a message for each error in a run."""
    runs: list[Throughput | Latency] = [*results.throughput, *results.latency]
    for run in runs:
        found = [run.note] if run.note else []
        if isinstance(run, Throughput):
            found += run.violations
            if run.contestant not in SILENT and run.events < run.bound:
                found.append(f"{run.bound - run.events} Scheduled events are missing")
            found += [
                f"refused with status {code}: {count} bindings"
                for code, count in run.refused.items()
            ]
        for problem in found:
            yield f"{run.workload}, size {run.size}, {run.contestant}: {problem}"
    for decision in results.decisions:
        if decision.note:
            yield f"{decision.workload}, {decision.nodes} nodes: {decision.note}"


def print_results(results: Results) -> None:
    """Print all results, in lines of 190 characters."""
    console = Console(width=190)
    for table in tables_of(results):
        shown = RichTable(title=table.title)
        for number, column in enumerate(table.columns):
            is_word = number < table.words
            shown.add_column(column, justify="left" if is_word else "right", no_wrap=is_word)
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)
    for problem in problems_of(results):
        print(problem)


def _throughput_table(size: str, runs: list[Throughput]) -> Table:
    columns = [
        "workload",
        "who",
        "nodes",
        "runs",
        "pods bound",
        "events",
        "pods/s",
        "binds/s",
        "ratio",
        "CPU ms/pod",
        "once ready",
        "peak MB",
        "first bind s",
        "server ms/pod",
        "stall ms",
        "others %",
    ]
    rows = []
    for group in throughput_groups(runs):
        speeds = {name: median(run.pods_per_second for run in same) for name, same in group.items()}
        rows += [
            _throughput_row(same, _ratio(speeds, name, KUBE_SCHEDULER))
            for name, same in group.items()
        ]
    title = f"Pods that wait, from the first bind until the last event is in; size {size}"
    return Table(title, columns, rows, 2)


def _throughput_row(runs: list[Throughput], ratio: str) -> list[str]:
    first = runs[0]
    bound = min(run.bound for run in runs)
    return [
        first.workload,
        first.contestant,
        f"{first.nodes}",
        f"{len(runs)}",
        f"{bound}" if bound == first.pods else f"{bound} of {first.pods}",
        f"{min(run.events for run in runs)}",
        spread((run.pods_per_second for run in runs), 0),
        spread((run.binds_per_second for run in runs), 0),
        ratio,
        f"{median(run.cpu_ms_per_pod for run in runs):.2f}",
        spread((run.cpu_ms_per_pod_ready for run in runs), 2),
        f"{max(run.peak_memory_bytes for run in runs) / 1e6:.0f}",
        spread((run.first_bind_seconds for run in runs), 1),
        f"{median(run.server_cpu_ms_per_pod for run in runs):.2f}",
        _stall(runs),
        f"{100 * max(run.foreign_share for run in runs):.0f}",
    ]


def _latency_table(runs: list[Latency]) -> Table:
    columns = [
        "workload",
        "who",
        "size",
        "offered pods/s",
        "bound",
        "p50 ms",
        "p99 ms",
        "longest ms",
        "p99 ratio",
        "CPU ms/pod",
        "stall ms",
        "others %",
    ]
    rows = []
    for group in latency_groups(runs):
        waits = {name: median(run.p99_ms for run in same) for name, same in group.items()}
        rows += [
            _latency_row(same, _ratio(waits, KUBE_SCHEDULER, name)) for name, same in group.items()
        ]
    return Table("Pods that come at a fixed rate, from creation to bind", columns, rows, 2)


def _latency_row(runs: list[Latency], ratio: str) -> list[str]:
    first = runs[0]
    bound = min(run.bound for run in runs)
    rate = f"{median(run.offered_per_second for run in runs):.0f}"
    return [
        first.workload,
        first.contestant,
        first.size,
        f"{rate} (half of its maximum)" if first.half else rate,
        f"{bound}" if bound == first.created else f"{bound} of {first.created}",
        spread((run.p50_ms for run in runs), 1),
        spread((run.p99_ms for run in runs), 1),
        f"{max(run.longest_ms for run in runs):.0f}",
        "" if first.half else ratio,
        f"{median(run.cpu_ms_per_pod for run in runs):.2f}",
        _stall(runs),
        f"{100 * max(run.foreign_share for run in runs):.0f}",
    ]


def _bound_table(bounds: list[Bound]) -> Table:
    title = (
        f"What one pod can cost, {bounds[0].nodes} nodes: its step at most {STEP_LIMIT_MS} ms, "
        f"others' decisions at most {OTHERS_LIMIT:g} times as long afterwards"
    )
    rows = [
        [
            each.case,
            each.remark,
            _WORDS[holds(each)],
            f"{each.step_ms:.1f}",
            "" if each.others is None else f"{each.others:.2f}",
        ]
        for each in bounds
    ]
    return Table(title, ["the pod", "what becomes of it", "", "step ms", "others x"], rows, 3)


def _decision_tables(decisions: list[Decision]) -> Iterator[Table]:
    title = (
        "Microseconds of one decision, median (99th percentile); six pods run on each node, "
        "ten with 50,000 nodes, eight with 130,000; equal pods that wait are scheduled together"
    )
    table = _by_nodes(title, decisions, _decision_cell)
    sizes = [each.nodes for each in decisions]
    few, many = min(sizes), max(sizes)
    found = [growth_of(decisions, name, few, many) for name, *_ in table.rows]
    shown = ("" if growth is None else f"{growth:.1f}" for growth in found)
    yield table._replace(
        columns=[*table.columns, f"growth {few} to {many}"],
        rows=[[*row, growth] for row, growth in zip(table.rows, shown, strict=True)],
    )
    title = (
        "Microseconds of all events of one pod, medians: it comes, is decided, its claims are "
        "written, it is bound and seen"
    )
    yield _by_nodes(title, decisions, lambda each: f"{each.median_us + each.rest_us:.0f}")


def _by_nodes(title: str, decisions: list[Decision], cell: Callable[[Decision], str]) -> Table:
    sizes = sorted({each.nodes for each in decisions})
    rows = []
    for name in dict.fromkeys(each.workload for each in decisions):
        found = {each.nodes: each for each in decisions if each.workload == name}
        rows.append([name, *(cell(found[nodes]) if nodes in found else "" for nodes in sizes)])
    return Table(title, ["workload", *(f"{nodes} nodes" for nodes in sizes)], rows, 1)


def _decision_cell(decision: Decision) -> str:
    return f"{decision.median_us:.0f} ({decision.p99_us:.0f})"


def _ratio(figures: dict[str, float], above: str, below: str) -> str:
    """Format the quotient of two contestants' figures; empty for the same contestant twice."""
    if above == below or above not in figures or not figures.get(below):
        return ""
    return f"{figures[above] / figures[below]:.2f}"


def spread(values: Iterable[float], digits: int) -> str:
    """Format the median, followed by minimum and maximum if there are several values."""
    known = sorted(values)
    middle = f"{median(known):.{digits}f}"
    if len(known) == 1:
        return middle
    return f"{middle} ({known[0]:.{digits}f}..{known[-1]:.{digits}f})"


def _stall(runs: Sequence[Throughput | Latency]) -> str:
    known = [(run.loop_stall_ms, run.loop_stall_work) for run in runs if run.loop_stall_ms]
    longest, work = max(known, default=(0.0, ""))
    return f"<= {longest:.0f} {work}".rstrip() if known else ""
