"""Work queues are told of as client-go tells of its own."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from scheduler.observability.instruments import Instruments
from scheduler.observability.work_queues import WorkQueue, WorkQueueMetrics
from tests.support.clock import FakeClock


def test_an_item_waits_is_worked_on_and_done() -> None:
    """Gauges are asked for at each scrape, so what hangs shows while it hangs."""
    registry, clock, waiting = CollectorRegistry(), FakeClock(), ["b"]
    queue = WorkQueue(WorkQueueMetrics(Instruments(registry)), "binds", waiting, clock.monotonic)

    def shown(*names: str) -> dict[str, float]:
        samples = generate_latest(registry).decode().splitlines()
        values = dict(line.rsplit(" ", 1) for line in samples if not line.startswith("#"))
        return {name: float(values[f'workqueue_{name}{{name="binds"}}']) for name in names}

    async def story() -> None:
        since = queue.added()
        clock.advance(2)
        done = asyncio.Event()
        working = [asyncio.create_task(queue.work(since, done.wait()))]
        await asyncio.sleep(0)
        clock.advance(3)
        working.append(asyncio.create_task(queue.work(since, done.wait())))
        await asyncio.sleep(0)
        clock.advance(1)
        assert shown("depth", "unfinished_work_seconds", "longest_running_processor_seconds") == {
            "depth": 1,
            "unfinished_work_seconds": 5,
            "longest_running_processor_seconds": 4,
        }
        done.set()
        await asyncio.gather(*working)

    asyncio.run(story())
    queue.retried()

    names = "adds_total", "retries_total", "queue_duration_seconds_sum", "work_duration_seconds_sum"
    assert list(shown(*names).values()) == [1, 1, 7, 5]
    idle = shown("unfinished_work_seconds", "longest_running_processor_seconds")
    assert set(idle.values()) == {0}


def test_work_that_fails_is_done_as_well() -> None:
    """Its time counts, and it hangs no longer."""
    metrics, clock = WorkQueueMetrics(Instruments()), FakeClock()
    queue = WorkQueue(metrics, "binds", [], clock.monotonic)

    async def fail() -> None:
        clock.advance(1)
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        asyncio.run(queue.work(clock.monotonic(), fail()))

    assert metrics.worked["binds"].sum == 1
