"""``python -m bench.decisions.start``: what a daemon takes for its start, and what it keeps.

Pages of lists, as an API server sends them, go through informers and driver to an engine, with the
flight recorder beside; then the pods that wait are decided about. There is no network, so the
processor time is what the daemon takes beside its transport. Memory is of the whole process.

    python -m bench.decisions.start --nodes 50000 --pods 500000
"""

import asyncio
from pathlib import Path
from random import Random
from resource import RUSAGE_SELF, getpagesize, getrusage
from statistics import median
from time import process_time, thread_time_ns
from typing import Any, Final, cast

import click

from bench.decisions.served import Amounts, Server, served
from bench.decisions.timing import HEADER
from bench.objects import SCHEDULER_NAME
from scheduler.clock import SystemClock
from scheduler.config.load import default_configuration
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.driver.daemon import return_large_blocks, spare_collector
from scheduler.daemon.driver.driver import Driver
from scheduler.daemon.driver.feeding import Feed
from scheduler.daemon.informers.informers import Informers
from scheduler.daemon.informers.kinds import NAMESPACES, NODES, PODS, Kind, watched_kind
from scheduler.daemon.recording.flight import FlightRecorder
from scheduler.kernel.engine.events import Decide, Tick
from scheduler.kernel.engine.instructions import Bind
from scheduler.kernel.framework.runtime.shared_states import kinds_to_watch
from scheduler.observability.client_metrics import InformerMetrics
from scheduler.observability.instruments import Instruments
from scheduler.observability.loop_shares import LoopMetrics, LoopShares
from scheduler.tools.offline.cluster import Profiles

_MIB: Final = 2**20


@click.command()
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=150_000, show_default=True, help="Those that run.")
@click.option("--waiting", default=500, show_default=True, help="Those that are decided about.")
@click.option("--bare", is_flag=True, help="Pods without owners and what kubelets say.")
def main(*, nodes: int, pods: int, waiting: int, bare: bool) -> None:
    """Time a start, and weigh what is kept."""
    return_large_blocks()
    profiles = Profiles(default_configuration(SCHEDULER_NAME))
    driver = Driver(profiles.engine(0), SystemClock(), event_logs=[FlightRecorder(HEADER)])
    with served(Amounts(nodes, pods, waiting, bare)) as server:
        before, memory = process_time(), _resident_mib()
        informers = asyncio.run(_sync(driver, server))
        seconds = process_time() - before
    kept, peak = _resident_mib(), getrusage(RUSAGE_SELF).ru_maxrss / 1024
    taken = f"{len(informers.of(NODES).store):,} nodes, {len(informers.of(PODS).store):,} pods"
    print(f"{taken} taken in: {seconds:.2f} s of processor time")
    print(f"memory: {memory:.0f} MiB before, {kept:.0f} after, {peak:.0f} at most")
    first, *others = [_decide(driver) for _ in range(waiting)]
    print(f"first decision: {first / 1000:.1f} ms, then {median(others):.0f} us (median)")


async def _sync(driver: Driver, server: Server) -> Informers:
    """What the daemon does until it may lead."""
    kinds = _kinds(driver)
    clock, instruments = SystemClock(), Instruments()
    shares = LoopShares(LoopMetrics(instruments), clock.monotonic, process_time)
    informers = Informers(
        cast("ApiSession", server),
        kinds,
        clock=clock,
        rng=Random(0),
        metrics=InformerMetrics(instruments),
        shares=shares,
    )
    for kind in kinds:
        informers.of(kind).add_handler(Feed(kind, driver.submit))
    running = asyncio.create_task(informers.run())
    await informers.wait_synced()
    driver.submit(Tick())
    spare_collector()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return informers


def _kinds(driver: Driver) -> list[Kind[Any]]:
    declared = kinds_to_watch(driver.engine.core.frameworks.values())
    return list(dict.fromkeys((PODS, NODES, NAMESPACES, *map(watched_kind, declared))))


def _decide(driver: Driver) -> float:
    """Microseconds of processor time for one decision."""
    engine = driver.engine
    start = thread_time_ns()
    told = engine.handle(Decide(), engine.core.now)
    seconds = (thread_time_ns() - start) / 1000
    if not any(isinstance(each, Bind) for each in told):
        raise SystemExit("a pod was not placed")
    return seconds


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * getpagesize() / _MIB


if __name__ == "__main__":
    main()
