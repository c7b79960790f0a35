"""Aggregates results: the runs of one table row, and the figures that targets need."""

from collections.abc import Callable, Iterable
from statistics import median

from bench.results import Decision, Latency, Throughput

ThroughputGroup = dict[str, list[Throughput]]
LatencyGroup = dict[str, list[Latency]]


def throughput_groups(records: Iterable[Throughput]) -> list[ThroughputGroup]:
    """Group repeated runs by contestant, for each workload and size."""
    groups: dict[tuple[str, str], ThroughputGroup] = {}
    for record in records:
        group = groups.setdefault((record.workload, record.size), {})
        group.setdefault(record.contestant, []).append(record)
    return list(groups.values())


def latency_groups(records: Iterable[Latency]) -> list[LatencyGroup]:
    """Group repeated runs by contestant, for each workload, size and kind of rate."""
    groups: dict[tuple[str, str, bool], LatencyGroup] = {}
    for record in records:
        group = groups.setdefault((record.workload, record.size, record.half), {})
        group.setdefault(record.contestant, []).append(record)
    return list(groups.values())


def median_of(runs: Iterable[Throughput], figure: Callable[[Throughput], float]) -> float | None:
    """Return the median of a figure over repeated runs; None without runs."""
    values = [figure(run) for run in runs]
    return median(values) if values else None


def growth_of(decisions: Iterable[Decision], workload: str, few: int, many: int) -> float | None:
    """Return the decision time with ``many`` nodes as a multiple of that with ``few``."""
    medians = {each.nodes: each.median_us for each in decisions if each.workload == workload}
    if few not in medians or many not in medians or not medians[few]:
        return None
    return medians[many] / medians[few]
