"""Measures how fast a scheduler binds waiting pods and writes their events, and the CPU it uses."""

import time
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

import msgspec

from bench.access import access_kubeconfig
from bench.churn import churning
from bench.contestants import SILENT, STOWAGE, WALLS, Contestant
from bench.devices import device_violations
from bench.groups import group_violations, scheduler_arguments
from bench.placements import violations_in
from bench.processor import Usage, wait_until_idle
from bench.request_log import RequestLog
from bench.results import Throughput
from bench.stalls import longest_stall, scrape_stalls
from bench.states import Prepared, running_cluster
from bench.storage import storage_violations
from bench.workload import MEASURED
from e2e.support.cluster import Cluster
from e2e.support.processes import Program

_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeouts of a measurement.

    Attributes:
        idle_seconds: limit without a binding.
        silent_seconds: limit without an event, after all pods are bound.
        total_seconds: limit from the start of the scheduler.
    """

    idle_seconds: float = 60
    silent_seconds: float = 15
    total_seconds: float = 1200


def measure_throughput(
    prepared: Prepared,
    size_name: str,
    contestant: Contestant,
    patience: Patience,
    *,
    number: int = 0,
) -> Throughput:
    """Run one contestant until it has bound all measured pods; ``number`` is the round."""
    with running_cluster(prepared.workload, prepared.loaded) as cluster:
        run = _measure(cluster, prepared, size_name, contestant, patience)
        return msgspec.structs.replace(run, round=number)


def _measure(
    cluster: Cluster, prepared: Prepared, size_name: str, contestant: Contestant, patience: Patience
) -> Throughput:
    workload, size = prepared.workload, prepared.size
    control_plane = cluster.control_plane
    assert control_plane is not None
    assert control_plane.audit_log is not None
    log = RequestLog(control_plane.audit_log)
    servers = list(control_plane.programs)
    kubeconfig = access_kubeconfig(cluster)
    at_start = Usage.now(servers)
    started = time.time()
    program = contestant.start(control_plane, kubeconfig, scheduler_arguments(workload))
    programs = [*servers, program]
    log.read()
    at_ready, bound_at_ready = Usage.now(programs), len(log.bound)
    stalls = scrape_stalls(program) if contestant.name == STOWAGE else None
    beside = AsyncExitStack()
    cluster.run(beside.enter_async_context(churning(cluster.api, workload, size)))
    note = wait_until_bound(log, size.pods, program, patience)
    if not note and contestant.name not in SILENT:
        wait_until_events(log, size.pods, program, patience)
    at_end = Usage.now(programs)
    cluster.run(beside.aclose())
    # Include pending events in the CPU time per pod.
    wait_until_idle([program])
    settled = Usage.now(programs)
    stall = None if stalls is None else longest_stall(scrape_stalls(program), stalls)
    memory = program.peak_memory_bytes()
    control_plane.stop_program(program)
    log.read()
    events = event_times(cluster, log)
    done = log.bound if contestant.name in SILENT else latest(log.bound, events)
    # With preemption, the measurement starts at the first eviction.
    evicted = sorted(log.deleted.values())[:1]
    first = min([*evicted, *log.bound.values()], default=started)
    return Throughput(
        workload=workload.name,
        size=size_name,
        contestant=contestant.name,
        nodes=size.nodes,
        running=size.running,
        pods=size.pods,
        bound=len(log.bound),
        refused=dict(log.refused),
        pods_per_second=rate([first, *done.values()], 0.0),
        pods_per_second_middle=rate(done.values(), 0.1),
        binds_per_second=rate([*evicted, *log.bound.values()], 0.0),
        first_bind_seconds=min(log.bound.values(), default=started) - started,
        cpu_ms_per_pod=_ms_per_pod(settled.programs[program.name], len(log.bound)),
        cpu_ms_per_pod_ready=_ms_per_pod(
            settled.programs[program.name] - at_ready.programs[program.name],
            len(log.bound) - bound_at_ready,
        ),
        peak_memory_bytes=memory,
        events=len(events),
        server_cpu_ms_per_pod=_ms_per_pod(
            sum(settled.programs[each.name] - at_start.programs[each.name] for each in servers),
            len(log.bound),
        ),
        foreign_share=at_end.foreign_share(at_ready),
        loop_stall_ms=None if stall is None else stall.ms,
        loop_stall_work="" if stall is None else stall.work,
        violations=(
            *cluster.run(violations_in(cluster.api)),
            # Walls check neither volumes nor groups.
            *(() if contestant.name in WALLS else cluster.run(storage_violations(cluster.api))),
            *cluster.run(device_violations(cluster.api)),
            *(
                ()
                if contestant.name in WALLS
                else cluster.run(group_violations(cluster.api, workload))
            ),
        ),
        note=note,
    )


def wait_until_bound(log: RequestLog, count: int, program: Program, patience: Patience) -> str:
    """Wait until ``count`` pods are bound; return the reason if it gives up earlier."""
    start = last_bind = time.monotonic()
    bound = done = 0
    while bound < count:
        time.sleep(_POLL_SECONDS)
        log.read()
        now = time.monotonic()
        if len(log.bound) + len(log.deleted) > done:
            bound, done, last_bind = len(log.bound), len(log.bound) + len(log.deleted), now
        elif not program.is_running():
            return f"{program.name} ended:\n{program.tail(10)}"
        elif now - last_bind > patience.idle_seconds:
            return f"no bind for {patience.idle_seconds:g} s"
        elif now - start > patience.total_seconds:
            return f"not done after {patience.total_seconds:g} s"
    return ""


def wait_until_events(log: RequestLog, count: int, program: Program, patience: Patience) -> None:
    """Wait until ``count`` events are written, or no more follow; some schedulers lose events."""
    last_event = time.monotonic()
    events = 0
    while events < count and program.is_running():
        time.sleep(_POLL_SECONDS)
        log.read()
        now = time.monotonic()
        if len(log.event_created) > events:
            events, last_event = len(log.event_created), now
        elif now - last_event > patience.silent_seconds:
            return


def event_times(cluster: Cluster, log: RequestLog) -> dict[str, float]:
    """Return the time of each pod's Scheduled event."""
    events: dict[str, float] = {}
    for event in cluster.events(MEASURED, "Scheduled"):
        moment = log.event_created.get(event["metadata"]["name"])
        if moment is not None:
            events[event["regarding"]["name"]] = moment
    return events


def latest(bound: Mapping[str, float], events: Mapping[str, float]) -> dict[str, float]:
    """Return the time at which both binding and event were written, for pods that have both."""
    return {name: max(bound[name], events[name]) for name in bound.keys() & events.keys()}


def rate(moments: Iterable[float], cut: float) -> float:
    """Return the rate per second, without the first and last ``cut`` (a share) of the times."""
    moments = sorted(moments)
    beyond = int(len(moments) * cut)
    kept = moments[beyond : len(moments) - beyond]
    if len(kept) < 2 or kept[-1] <= kept[0]:
        return 0.0
    return (len(kept) - 1) / (kept[-1] - kept[0])


def _ms_per_pod(seconds: float, pods: int) -> float:
    return 1000 * seconds / pods if pods > 0 else 0.0
