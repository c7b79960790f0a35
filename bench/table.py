"""Results as tables for a terminal."""

from statistics import median

from rich.console import Console
from rich.table import Table

from bench.contestants import KUBE_SCHEDULER
from bench.results import Latency, Results, Throughput
from bench.summary import latency_groups, throughput_groups


def print_results(results: Results) -> None:
    """Prints what a run has measured."""
    console = Console(width=190)
    if results.throughput:
        console.print(_throughput_table(results))
    if results.latency:
        console.print(_latency_table(results))
    records: list[Throughput | Latency] = [*results.throughput, *results.latency]
    for record in records:
        for problem in _problems(record):
            print(f"{record.workload} {record.size} {record.contestant}: {problem}")


def _throughput_table(results: Results) -> Table:
    table = Table(title="pods that wait, from the first bind to the last")
    for column in ("workload", "nodes", "pods", "who"):
        table.add_column(column, no_wrap=True)
    for column in (
        "pods/s",
        "middle 80 %",
        "ratio",
        "CPU ms/pod",
        "once ready",
        "peak MB",
        "first bind s",
        "events",
        "server ms/pod",
        "stall ms <=",
        "others %",
    ):
        table.add_column(column, justify="right")
    for group in throughput_groups(results.throughput):
        reference = group.get(KUBE_SCHEDULER)
        for runs in group.values():
            table.add_row(*_throughput_row(runs, reference))
        table.add_section()
    return table


def _throughput_row(runs: list[Throughput], reference: list[Throughput] | None) -> list[str]:
    first = runs[0]
    speed = median(run.pods_per_second for run in runs)
    ratio = ""
    if reference and reference is not runs:
        base = median(run.pods_per_second for run in reference)
        ratio = f"{speed / base:.2f}" if base else ""
    stalls = [run.loop_stall_ms for run in runs if run.loop_stall_ms is not None]
    return [
        first.workload,
        f"{first.nodes}",
        f"{min(run.bound for run in runs)}/{first.pods}",
        first.contestant,
        f"{speed:.0f}",
        f"{median(run.pods_per_second_middle for run in runs):.0f}",
        ratio,
        f"{median(run.cpu_ms_per_pod for run in runs):.2f}",
        f"{median(run.cpu_ms_per_pod_ready for run in runs):.2f}",
        f"{max(run.peak_memory_bytes for run in runs) / 1e6:.0f}",
        f"{median(run.first_bind_seconds for run in runs):.1f}",
        f"{min(run.events for run in runs)}",
        f"{median(run.server_cpu_ms_per_pod for run in runs):.2f}",
        f"{max(stalls):.0f}" if stalls else "",
        f"{100 * max(run.foreign_share for run in runs):.0f}",
    ]


def _latency_table(results: Results) -> Table:
    table = Table(title="pods that come at a fixed rate, from creation to bind")
    for column in ("workload", "size", "who", "rate"):
        table.add_column(column, no_wrap=True)
    for column in (
        "pods/s",
        "bound",
        "p50 ms",
        "p99 ms",
        "longest ms",
        "p99 ratio",
        "CPU ms/pod",
        "stall ms <=",
        "others %",
    ):
        table.add_column(column, justify="right")
    for group in latency_groups(results.latency):
        reference = group.get(KUBE_SCHEDULER)
        for runs in group.values():
            table.add_row(*_latency_row(runs, reference))
        table.add_section()
    return table


def _latency_row(runs: list[Latency], reference: list[Latency] | None) -> list[str]:
    first = runs[0]
    p99 = median(run.p99_ms for run in runs)
    ratio = ""
    if reference and reference is not runs and p99:
        ratio = f"{median(run.p99_ms for run in reference) / p99:.2f}"
    stalls = [run.loop_stall_ms for run in runs if run.loop_stall_ms is not None]
    return [
        first.workload,
        first.size,
        first.contestant,
        "half of its own" if first.half else "the same for all",
        f"{median(run.offered_per_second for run in runs):.0f}",
        f"{min(run.bound for run in runs)}/{first.created}",
        f"{median(run.p50_ms for run in runs):.1f}",
        f"{p99:.1f}",
        f"{max(run.longest_ms for run in runs):.0f}",
        ratio,
        f"{median(run.cpu_ms_per_pod for run in runs):.2f}",
        f"{max(stalls):.0f}" if stalls else "",
        f"{100 * max(run.foreign_share for run in runs):.0f}",
    ]


def _problems(record: Throughput | Latency) -> list[str]:
    problems = [record.note] if record.note else []
    if isinstance(record, Throughput):
        problems += record.violations
        if record.refused:
            problems.append(f"{record.refused} bindings were refused")
    return problems
