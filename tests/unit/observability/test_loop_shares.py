"""What the loop's time goes to."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from scheduler.observability.instruments import Instruments
from scheduler.observability.loop_shares import (
    BINDS,
    DECISIONS,
    NOT_RUNNING,
    OTHER,
    WATCHES,
    LoopMetrics,
    LoopShares,
)


class World:
    """Time that only work takes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.registry = CollectorRegistry()
        self.kept = 0.0
        """How long of that the thread did not run."""
        self.shares = LoopShares(
            LoopMetrics(Instruments(self.registry)),
            now=lambda: self.now,
            ran=lambda: self.now - self.kept,
        )

    def busy(self, work: str) -> float | None:
        return self.registry.get_sample_value("stowage_loop_busy_seconds_total", {"work": work})

    def stalls(self, work: str) -> float | None:
        return self.registry.get_sample_value("stowage_loop_stall_seconds_sum", {"work": work})


def run(story: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(story)


def test_only_steps_count_and_not_what_is_waited_for() -> None:
    """While one waits, others work."""
    world = World()
    answered = asyncio.Event()

    async def bind() -> str:
        world.now += 1
        await answered.wait()
        world.now += 2
        return "bound"

    async def answer() -> None:
        world.now += 40
        answered.set()

    async def story() -> str:
        beside = asyncio.create_task(answer())
        done = await world.shares.timed(BINDS, bind())
        await beside
        return done

    assert run(story()) == "bound"
    assert world.busy(BINDS) == 3
    assert world.busy(WATCHES) == 0


def test_errors_go_both_ways() -> None:
    """Whoever is timed fails, and is cancelled, as if he were not."""
    world = World()
    diary: list[str] = []

    async def fails() -> None:
        world.now += 1
        raise ValueError("no")

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            diary.append("cancelled")
            world.now += 5
            raise

    async def story() -> None:
        with pytest.raises(ValueError, match="no"):
            await world.shares.timed(BINDS, fails())

        async def waiting() -> None:
            await world.shares.timed(DECISIONS, hangs())

        task = asyncio.create_task(waiting())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(story())
    assert diary == ["cancelled"]
    assert (world.busy(BINDS), world.busy(DECISIONS)) == (1, 5)


async def _spend(world: World, seconds: float) -> None:
    world.now += seconds


async def _watch(world: World, seconds: float) -> None:
    await world.shares.timed(WATCHES, _spend(world, seconds))


@pytest.mark.parametrize(
    ("late", "work"),
    [
        pytest.param(0.75, WATCHES, id="two steps of one work are most of it"),
        pytest.param(1.0, WATCHES, id="one work is half of it"),
        pytest.param(1.125, OTHER, id="no work explains it"),
    ],
)
def test_a_stall_says_what_it_was(late: float, work: str) -> None:
    """Of the steps since the last look."""
    world = World()
    steps = ((DECISIONS, 0.375), (WATCHES, 0.25), (BINDS, 0.125), (WATCHES, 0.25))

    async def story() -> None:
        for kind, seconds in steps:
            await world.shares.timed(kind, _spend(world, seconds))

    run(story())
    world.now += 1.0
    told = world.shares.stalled(late)
    assert (told[DECISIONS], told[WATCHES], told[BINDS], told[NOT_RUNNING]) == (
        0.375,
        0.5,
        0.125,
        0,
    )
    assert world.stalls(work) == late
    world.now += late
    assert not any(world.shares.stalled(late).values())
    assert world.stalls(OTHER) == late + late * (work == OTHER)


@pytest.mark.parametrize(("kept", "work"), [(0.375, OTHER), (0.5, WATCHES), (0.875, WATCHES)])
def test_what_a_stall_took_is_told_from_what_the_machine_took(kept: float, work: str) -> None:
    """Where the thread did not run nothing of ours took the time; the rest is ours all the same."""
    world = World()
    run(_watch(world, 0.25))
    world.now += 0.75
    world.kept = kept

    assert world.shares.stalled(1.0)[NOT_RUNNING] == kept
    assert (world.stalls(work), world.stalls(NOT_RUNNING)) == (1.0 - kept, kept)


def test_a_thread_that_ran_all_the_time_was_not_kept_from_it() -> None:
    """It also worked before the timer was due."""
    world = World()
    run(_watch(world, 1.5))

    assert world.shares.stalled(1.0)[NOT_RUNNING] == 0
    assert (world.stalls(WATCHES), world.stalls(NOT_RUNNING)) == (1.0, None)
