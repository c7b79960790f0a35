"""The performance targets, compared with the results."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from bench.contestants import (
    FOLLOWING_WALL,
    FOLLOWING_WALL_WITH_EVENTS,
    FOLLOWING_WALLS,
    KUBE_SCHEDULER,
    STOWAGE,
    WALL_WITH_EVENTS,
)
from bench.results import Decision, Latency, Results, Throughput
from bench.summary import median_of
from bench.workload import Workload

SIZE: Final = "5000"
"""Size that targets refer to by default."""

_RATIOS: Final[Mapping[str, float]] = {
    "plain": 2.5,
    "shapes": 3.0,
    "node-affinity": 3.0,
    "extended-resources": 3.0,
    "spread": 6.0,
    "inter-pod": 6.0,
    "unschedulable-churn": 2.0,
    "volumes": 4.0,
    "preemption": 5.0,
    "devices": 6.0,
}
"""Minimum pods/s including events, as a multiple of kube-scheduler's, by workload family."""

_CPU_SHARES: Final[Mapping[str, float]] = {"preemption": 0.2, "devices": 0.05}
"""Maximum CPU time per pod as a share of kube-scheduler's, for families without a limit in ms."""

_START: Final = "start-150000"
_WITH_CLAIMS: Final = "start-30000-claims"
_WITHOUT_CLAIMS: Final = "start-30000"
_CLAIMS_MB: Final = 300.0
_CLAIMS_US: Final = 5000.0
_WALL_SHARE: Final = 0.9
_DEVICE_WALL_SHARE: Final = 0.8
_PLAIN_CPU_MS: Final = 0.35
_CPU_MS: Final = 0.5
_MEMORY_MB: Final = 220.0
_START_SECONDS: Final = 6.0
_START_SHARE: Final = 0.4
_STALL_MS: Final = 20.0
_P99_MS: Final = 20.0
_P99_TO_WALL: Final = 1.5
_RUN_NODES: Final = 5000
_RUN_US: Final = 25.0
_LARGE_NODES: Final = 50_000
_LARGE_PLAIN_US: Final = 120.0
_LARGE_US: Final = 1000.0
_LARGE_MB: Final = 1000.0
_LARGEST: Final = 130_000
_LARGEST_PLAIN_US: Final = 300.0
_LARGEST_US: Final = 3000.0


class Verdict(NamedTuple):
    """Result of one target.

    Attributes:
        about: the measured quantity.
        wanted: the limit as text.
        measured: the figure as text; empty if not measured.
        met: whether the figure is within the limit; None if not measured.
    """

    about: str
    wanted: str
    measured: str = ""
    met: bool | None = None


def verdicts(results: Results, workloads: Mapping[str, Workload]) -> list[Verdict]:
    """Compare every target with ``results``."""
    return [
        _wall(results),
        *_speeds(results, workloads),
        *_cpu(results, workloads),
        *_start(results),
        _stall(results),
        _half(results),
        *_waits(results, workloads),
        *_decisions(results, workloads),
    ]


def _wall(results: Results) -> Verdict:
    ours, theirs = (
        _figure(results, "plain", who, lambda run: run.pods_per_second)
        for who in (STOWAGE, WALL_WITH_EVENTS)
    )
    about = f"plain pods: pods/s to {WALL_WITH_EVENTS}"
    return _at_least(about, _WALL_SHARE, _quotient(ours, theirs), "x")


def _speeds(results: Results, workloads: Mapping[str, Workload]) -> Iterator[Verdict]:
    for workload in workloads.values():
        ratio = _RATIOS.get(workload.family)
        if ratio is not None:
            ours, theirs = (
                _figure(results, workload.name, who, lambda run: run.pods_per_second)
                for who in (STOWAGE, KUBE_SCHEDULER)
            )
            about = f"{workload.title}: pods/s to kube-scheduler's"
            found = _at_least(about, ratio, _quotient(ours, theirs), "x")
            yield found if workload.family == "plain" else _to_wall(found, results, workload)
        if workload.devices is not None:
            ours, wall = (
                _figure(results, workload.name, who, lambda run: run.pods_per_second)
                for who in (STOWAGE, WALL_WITH_EVENTS)
            )
            about = f"{workload.title}: pods/s to {WALL_WITH_EVENTS}, which writes as much"
            yield _at_least(about, _DEVICE_WALL_SHARE, _quotient(ours, wall), "x")


def _to_wall(found: Verdict, results: Results, workload: Workload) -> Verdict:
    """Add the ratio to the wall; with claims, 90 % of the wall's rate also meets the target."""
    ours, wall = (
        _figure(results, workload.name, who, lambda run: run.pods_per_second)
        for who in (STOWAGE, WALL_WITH_EVENTS)
    )
    share = _quotient(ours, wall)
    if share is None or not found.measured:
        return found
    found = found._replace(measured=f"{found.measured} ({share:.2f} x {WALL_WITH_EVENTS}'s)")
    if workload.storage is None:
        return found
    return found._replace(
        wanted=f"{found.wanted}, or {_WALL_SHARE:g} x {WALL_WITH_EVENTS}'s",
        met=found.met or share >= _WALL_SHARE,
    )


def _cpu(results: Results, workloads: Mapping[str, Workload]) -> Iterator[Verdict]:
    for workload in workloads.values():
        if workload.family in _RATIOS and workload.storage is None:
            ours, theirs = (
                _figure(results, workload.name, who, lambda run: run.cpu_ms_per_pod_ready)
                for who in (STOWAGE, KUBE_SCHEDULER)
            )
            share = _CPU_SHARES.get(workload.family)
            if share is not None:
                about = f"{workload.title}: CPU per pod once ready, to kube-scheduler's"
                yield _at_most(about, share, _quotient(ours, theirs), "x")
                continue
            limit = _PLAIN_CPU_MS if workload.family == "plain" else _CPU_MS
            found = _at_most(f"{workload.title}: CPU per pod once ready", limit, ours, "ms")
            yield _beside(found, theirs, KUBE_SCHEDULER)


def _start(results: Results) -> Iterator[Verdict]:
    ours, theirs = (
        _figure(results, _START, who, lambda run: run.first_bind_seconds)
        for who in (STOWAGE, KUBE_SCHEDULER)
    )
    about = f"{_START}: start to first bind"
    yield _at_most(about, _START_SECONDS, ours, "s")
    share = _quotient(ours, theirs)
    yield _at_most(f"{about}, to kube-scheduler's", _START_SHARE, share, "x")
    used = _figure(results, _START, STOWAGE, lambda run: run.peak_memory_bytes / 1e6)
    yield _at_most(f"{_START}: peak memory", _MEMORY_MB, used, "MB")
    more, less = (
        _figure(results, name, STOWAGE, lambda run: run.peak_memory_bytes / 1e6)
        for name in (_WITH_CLAIMS, _WITHOUT_CLAIMS)
    )
    about = f"{_WITH_CLAIMS}: peak memory beyond {_WITHOUT_CLAIMS}"
    yield _at_most(about, _CLAIMS_MB, None if more is None or less is None else more - less, "MB")


def _stall(results: Results) -> Verdict:
    runs: list[Throughput | Latency] = [*results.throughput, *results.latency]
    stalls = [(ms, run.loop_stall_work) for run in runs if (ms := run.loop_stall_ms) is not None]
    longest, work = max(stalls, default=(None, ""))
    found = _at_most("longest stall of the loop", _STALL_MS, longest, "ms")
    return found._replace(measured=f"{found.measured} ({work})") if work else found


def _half(results: Results) -> Verdict:
    ours, without_events, with_events = (
        _longest_wait(results, "plain", who, half=True) for who in (STOWAGE, *FOLLOWING_WALLS)
    )
    about = f"plain pods at half of maximum: p99 creation to bind, to {FOLLOWING_WALL_WITH_EVENTS}"
    found = _at_most(about, _P99_TO_WALL, _quotient(ours, with_events), "x")
    share = _quotient(ours, without_events)
    if share is None or not found.measured:
        return found
    return found._replace(measured=f"{found.measured} ({share:.2f} x {FOLLOWING_WALL}'s)")


def _waits(results: Results, workloads: Mapping[str, Workload]) -> Iterator[Verdict]:
    for workload in workloads.values():
        if workload.latency is not None:
            rate = workload.latency.pods_per_second
            ours, theirs = (
                _longest_wait(results, workload.name, who, half=False)
                for who in (STOWAGE, KUBE_SCHEDULER)
            )
            about = f"{workload.title} at {rate:g}/s: p99 creation to bind"
            yield _beside(_at_most(about, _P99_MS, ours, "ms"), theirs, KUBE_SCHEDULER)


def _longest_wait(results: Results, workload: str, contestant: str, *, half: bool) -> float | None:
    wanted = (workload, SIZE, contestant, half)
    waits = [
        run.p99_ms
        for run in results.latency
        if (run.workload, run.size, run.contestant, run.half) == wanted
    ]
    return max(waits, default=None)


def _decisions(results: Results, workloads: Mapping[str, Workload]) -> Iterator[Verdict]:
    found = {(each.workload, each.nodes): each for each in results.decisions}
    plain = _median(found.get(("plain", _RUN_NODES)))
    about = f"plain pods: one decision of equal pods in a row, {_RUN_NODES:,} nodes"
    yield _at_most(about, _RUN_US, plain, "us")
    for workload in workloads.values():
        if workload.decisions:
            has_claims = workload.storage is not None or workload.devices is not None
            nodes = _RUN_NODES if has_claims else _LARGE_NODES
            limit = _LARGE_PLAIN_US if workload.family == "plain" else _LARGE_US
            limit = limit if workload.storage is None else _CLAIMS_US
            about = f"{workload.title}: one decision, {nodes:,} nodes"
            median = _median(found.get((workload.name, nodes)))
            yield _at_most(about, limit, median, "us")
    largest = {each.workload: each.median_us for each in found.values() if each.nodes == _LARGEST}
    about = f"plain pods: one decision, {_LARGEST:,} nodes, a million pods"
    yield _at_most(about, _LARGEST_PLAIN_US, largest.pop("plain", None), "us")
    about = f"the slowest other decision that was measured, {_LARGEST:,} nodes, a million pods"
    yield _at_most(about, _LARGEST_US, max(largest.values(), default=None), "us")
    sizes = [each.peak_memory_bytes / 1e6 for each in results.decisions if _is_large(each)]
    about = f"memory with {_LARGE_NODES:,} nodes, 500,000 pods"
    yield _at_most(about, _LARGE_MB, max(sizes, default=None), "MB")


def _is_large(decision: Decision) -> bool:
    return decision.nodes == _LARGE_NODES and decision.peak_memory_bytes > 0


def _median(decision: Decision | None) -> float | None:
    return None if decision is None else decision.median_us


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
    """Add the figure that another contestant reached under the same conditions."""
    if milliseconds is None or not found.measured:
        return found
    return found._replace(measured=f"{found.measured} ({who}: {milliseconds:.3g} ms)")
