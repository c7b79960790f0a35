"""What has to be reached, beside what was measured."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from bench.contestants import FOLLOWING_WALL, KUBE_SCHEDULER, STOWAGE, WALL, WALL_WITH_EVENTS
from bench.results import Latency, Results, Throughput
from bench.summary import growth_of, median_of
from bench.workload import Workload

SIZE: Final = "5000"
"""Targets are about this size."""

_RATIOS: Final[Mapping[str, float]] = {
    "plain": 2.0,
    "shapes": 3.0,
    "node-affinity": 3.0,
    "extended-resources": 3.0,
    "spread": 4.0,
    "inter-pod": 4.0,
    "unschedulable-churn": 2.0,
}
"""By family of workloads: at least so many times kube-scheduler's pods/s."""

_WALL_SHARE: Final = 0.85
_CPU_MS: Final = 0.6
_MEMORY_MB: Final[Mapping[str, float]] = {"start-30000": 350, "start-150000": 1500}
_START_SECONDS: Final = 30.0
_STALL_MS: Final = 20.0
_P99_MS: Final = 50.0
_GROWTH: Final = (2000, 20000, 5.0)
_DECISION_NODES: Final = 5000
_DECISION_US: Final = 400.0
_PLAIN_DECISION_US: Final = 150.0


class Verdict(NamedTuple):
    """One target.

    Attributes:
        about: what is measured.
        wanted: the limit, in words.
        measured: the figure, or nothing when there is none.
        met: whether the figure keeps the limit; unknown without a figure.
    """

    about: str
    wanted: str
    measured: str = ""
    met: bool | None = None


def verdicts(results: Results, workloads: Mapping[str, Workload]) -> list[Verdict]:
    """Gives every target with what ``results`` say about it."""
    return [
        *_speeds(results, workloads),
        *_walls(results),
        *_cpu(results),
        *_memory(results),
        _start(results),
        _stall(results),
        _waiting(results),
        *_decisions(results, workloads),
        *_growths(results, workloads),
    ]


def _speeds(results: Results, workloads: Mapping[str, Workload]) -> Iterator[Verdict]:
    for workload in workloads.values():
        ratio = _RATIOS.get(workload.family)
        if ratio is not None:
            ours = _figure(results, workload.name, STOWAGE, lambda run: run.pods_per_second)
            theirs = _figure(
                results, workload.name, KUBE_SCHEDULER, lambda run: run.pods_per_second
            )
            yield _at_least(
                f"{workload.title}: pods/s to kube-scheduler's", ratio, _quotient(ours, theirs), "x"
            )


def _walls(results: Results) -> Iterator[Verdict]:
    ours = _figure(results, "plain", STOWAGE, lambda run: run.pods_per_second)
    for wall, what in ((WALL, "raw binding"), (WALL_WITH_EVENTS, "raw binding and events")):
        theirs = _figure(results, "plain", wall, lambda run: run.pods_per_second)
        yield _at_least(f"plain pods: pods/s to {what}", _WALL_SHARE, _quotient(ours, theirs), "x")


def _cpu(results: Results) -> Iterator[Verdict]:
    figures: list[tuple[str, Callable[[Throughput], float]]] = [
        ("its start included", lambda run: run.cpu_ms_per_pod),
        ("once ready", lambda run: run.cpu_ms_per_pod_ready),
    ]
    for what, figure in figures:
        ours = _figure(results, "plain", STOWAGE, figure)
        theirs = _figure(results, "plain", KUBE_SCHEDULER, figure)
        found = _at_most(f"plain pods: scheduler CPU per pod, {what}", _CPU_MS, ours, "ms")
        yield _beside(found, theirs, "kube-scheduler")


def _memory(results: Results) -> Iterator[Verdict]:
    for name, limit in _MEMORY_MB.items():
        used = _figure(results, name, STOWAGE, lambda run: run.peak_memory_bytes / 1e6)
        yield _at_most(f"{name}: peak memory", limit, used, "MB")


def _start(results: Results) -> Verdict:
    took = _figure(results, "start-150000", STOWAGE, lambda run: run.first_bind_seconds)
    return _at_most("start-150000: start to first bind", _START_SECONDS, took, "s")


def _stall(results: Results) -> Verdict:
    stalls = [
        run.loop_stall_ms for run in _latencies(results, STOWAGE) if run.loop_stall_ms is not None
    ]
    longest = max(stalls, default=None)
    return _at_most("longest stall of the loop while pods come", _STALL_MS, longest, "ms")


def _waiting(results: Results) -> Verdict:
    about = "plain pods at half of maximum: p99 creation to bind"
    found = _at_most(about, _P99_MS, _longest_wait(results, STOWAGE), "ms")
    return _beside(found, _longest_wait(results, FOLLOWING_WALL), "without any scheduling")


def _longest_wait(results: Results, contestant: str) -> float | None:
    runs = _latencies(results, contestant)
    waits = [run.p99_ms for run in runs if run.workload == "plain" and run.half]
    return max(waits, default=None)


def _decisions(results: Results, workloads: Mapping[str, Workload]) -> Iterator[Verdict]:
    medians = {
        each.workload: each.median_us for each in results.decisions if each.nodes == _DECISION_NODES
    }
    for workload in _decided(workloads):
        limit = _PLAIN_DECISION_US if workload.family == "plain" else _DECISION_US
        about = f"{workload.title}: one decision at {_DECISION_NODES} nodes"
        yield _at_most(about, limit, medians.get(workload.name), "us")


def _growths(results: Results, workloads: Mapping[str, Workload]) -> Iterator[Verdict]:
    few, many, limit = _GROWTH
    for workload in _decided(workloads):
        growth = growth_of(results.decisions, workload.name, few, many)
        about = f"{workload.title}: growth of a decision from {few} to {many} nodes"
        yield _at_most(about, limit, growth, "x")


def _decided(workloads: Mapping[str, Workload]) -> Iterator[Workload]:
    return (workload for workload in workloads.values() if workload.decisions)


def _latencies(results: Results, contestant: str) -> Iterator[Latency]:
    return (run for run in results.latency if (run.size, run.contestant) == (SIZE, contestant))


def _figure(
    results: Results, workload: str, contestant: str, figure: Callable[[Throughput], float]
) -> float | None:
    wanted = (workload, SIZE, contestant)
    runs = [run for run in results.throughput if (run.workload, run.size, run.contestant) == wanted]
    return median_of(runs, figure)


def _quotient(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or not theirs else ours / theirs


def _at_least(about: str, limit: float, value: float | None, unit: str) -> Verdict:
    wanted = f"at least {limit:g} {unit}"
    if value is None:
        return Verdict(about, wanted)
    return Verdict(about, wanted, f"{value:.2f} {unit}", value >= limit)


def _at_most(about: str, limit: float, value: float | None, unit: str) -> Verdict:
    wanted = f"at most {limit:g} {unit}"
    if value is None:
        return Verdict(about, wanted)
    return Verdict(about, wanted, f"{value:.3g} {unit}", value <= limit)


def _beside(found: Verdict, milliseconds: float | None, who: str) -> Verdict:
    """Adds what somebody else reached under the same conditions."""
    if milliseconds is None or not found.measured:
        return found
    return found._replace(measured=f"{found.measured} ({who}: {milliseconds:.3g} ms)")
