"""Measures the time from creation to binding at a fixed rate of new pods."""

import asyncio
import math
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

from bench.access import access_kubeconfig
from bench.churn import churning
from bench.contestants import STOWAGE, Contestant
from bench.groups import scheduler_arguments
from bench.processor import Usage, wait_until_idle
from bench.request_log import RequestLog
from bench.results import Latency
from bench.stalls import longest_stall, scrape_stalls
from bench.states import Prepared, measured_pods, running_cluster
from bench.throughput import Patience, wait_until_bound
from bench.workload import MEASURED
from e2e.support.api import Api, Call
from e2e.support.cluster import Cluster

_WARM_UP = 0.1
"""Share of pods at the start that does not count, while connections are opened."""


def measure_latency(
    prepared: Prepared,
    size_name: str,
    contestant: Contestant,
    pods_per_second: float,
    seconds: float,
) -> Latency:
    """Create pods at a fixed rate while one contestant schedules.

    The rate is independent of the scheduler, so a slow one builds up a backlog.
    """
    with running_cluster(prepared.workload, prepared.quiet) as cluster:
        return _measure(cluster, prepared, size_name, contestant, (pods_per_second, seconds))


def _measure(
    cluster: Cluster,
    prepared: Prepared,
    size_name: str,
    contestant: Contestant,
    load: tuple[float, float],
) -> Latency:
    pods_per_second, seconds = load
    workload, size = prepared.workload, prepared.size
    control_plane = cluster.control_plane
    assert control_plane is not None
    assert control_plane.audit_log is not None
    log = RequestLog(control_plane.audit_log)
    program = contestant.start(
        control_plane, access_kubeconfig(cluster), scheduler_arguments(workload)
    )
    wait_until_idle([program])
    programs = [*control_plane.programs]
    stalls = scrape_stalls(program) if contestant.name == STOWAGE else None
    before = Usage.now(programs)
    beside = AsyncExitStack()
    cluster.run(beside.enter_async_context(churning(cluster.api, workload, size)))
    count = min(size.pods, math.ceil(pods_per_second * seconds))
    factory = measured_pods(workload, size)
    bodies = [factory.waiting(size.running + index) for index in range(count)]
    cluster.run(_offer(cluster.api, bodies, pods_per_second))
    note = wait_until_bound(log, count, program, Patience(10, 60))
    after = Usage.now(programs)
    cluster.run(beside.aclose())
    stall = None if stalls is None else longest_stall(scrape_stalls(program), stalls)
    control_plane.stop_program(program)
    waits = waiting_times_ms(log)
    return Latency(
        workload=workload.name,
        size=size_name,
        contestant=contestant.name,
        offered_per_second=pods_per_second,
        created=len(log.created),
        bound=len(log.bound),
        p50_ms=percentile(waits, 0.5),
        p99_ms=percentile(waits, 0.99),
        longest_ms=max(waits, default=0.0),
        cpu_ms_per_pod=1000
        * (after.programs[program.name] - before.programs[program.name])
        / max(1, len(log.bound)),
        foreign_share=after.foreign_share(before),
        loop_stall_ms=None if stall is None else stall.ms,
        loop_stall_work="" if stall is None else stall.work,
        note=note,
    )


async def _offer(api: Api, bodies: Sequence[object], pods_per_second: float) -> None:
    """Create pods on schedule, without waiting for responses."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    path = f"/api/v1/namespaces/{MEASURED}/pods"
    async with asyncio.TaskGroup() as group:
        for index, body in enumerate(bodies):
            await asyncio.sleep(start + index / pods_per_second - loop.time())
            group.create_task(api.call_all([Call("POST", path, body)], 1))


def waiting_times_ms(log: RequestLog) -> list[float]:
    """Return each pod's time from creation to binding, without the warm-up.

    Unbound pods count as waiting until now.
    """
    created = sorted(log.created.items(), key=lambda item: item[1])
    counted = created[int(len(created) * _WARM_UP) :]
    now = time.time()
    # A scheduler may bind a pod before its creator receives the response.
    return [1000 * max(0.0, log.bound.get(name, now) - moment) for name, moment in counted]


def percentile(values: list[float], share: float) -> float:
    """Return the smallest value that at least ``share`` of all values do not exceed."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
