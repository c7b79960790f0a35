"""Carries tasks out on a pool of processes or on Dask, through the futures of the standard library.

A worker that dies breaks a pool of processes: a new pool carries out the remaining tasks. Dask
gives the tasks of a dead worker to others by itself. A task that a dead worker may have finished is
carried out again; its result is the same.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
)
from contextlib import AbstractContextManager, suppress
from multiprocessing import get_context
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

import msgspec

from scheduler.tools.offline.reading import InputError
from scheduler.tools.sweep.run import Task, TaskResult, carry_out

MAX_VAIN_ROUNDS: Final = 3
"""So often workers may die in a row without one task finished."""
PATIENCE_SECONDS: Final = 60.0
"""After so long without a finished task those under way are named, and again when it doubles."""

Silence: TypeAlias = Callable[[float, list[Task]], None]
"""Called with the seconds without a finished task, and with the tasks under way, oldest first."""


class Workers(msgspec.Struct, frozen=True):
    """The workers that carry tasks out.

    Attributes:
        opened: opens an executor, and closes it at the end.
        lost: the exceptions that a future raises when a worker has died.
    """

    opened: Callable[[], AbstractContextManager[Executor]]
    lost: tuple[type[BaseException], ...] = (BrokenExecutor, CancelledError)


def processes(jobs: int) -> Workers:
    """Return workers in so many processes of this machine.

    They are spawned: a fork would copy threads and open connections of this process.
    """

    def opened() -> AbstractContextManager[Executor]:
        return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))

    return Workers(opened)


def carry_out_all(
    tasks: Iterable[Task],
    workers: Workers,
    take: Callable[[TaskResult], None],
    *,
    on_silence: Silence = lambda _seconds, _tasks: None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> None:
    """Carry out all tasks, in any order; each result is taken once.

    Args:
        tasks: the tasks.
        workers: the workers.
        take: called with each result.
        on_silence: called when no task has finished for long: a worker may hang.
        patience_seconds: so long.

    Raises:
        InputError: workers die and nothing gets done.
    """
    left = {task.digest: task for task in tasks}
    vain = 0
    while left:
        before = len(left)
        _one_round(left, workers, take, on_silence, patience_seconds)
        vain = vain + 1 if len(left) == before else 0
        if vain == MAX_VAIN_ROUNDS:
            raise InputError(
                f"workers died {vain} times in a row without a finished run; "
                f"{len(left)} runs are left: out of memory? Try fewer --jobs"
            )


def _one_round(
    left: dict[str, Task],
    workers: Workers,
    take: Callable[[TaskResult], None],
    on_silence: Silence,
    patience_seconds: float,
) -> None:
    """Carry tasks out until all are done, or a dead worker breaks the pool."""
    done: SimpleQueue[Future[TaskResult]] = SimpleQueue()
    with workers.opened() as executor:
        futures: dict[Future[TaskResult], Task] = {}
        # A worker may die while tasks are still given out: those left are the next round's.
        with suppress(*workers.lost):
            for task in left.values():
                future = executor.submit(carry_out, task)
                futures[future] = task
                future.add_done_callback(done.put)

        def next_done() -> Future[TaskResult]:
            waited, seconds = 0.0, patience_seconds
            while True:
                try:
                    return done.get(timeout=seconds)
                except Empty:
                    waited, seconds = waited + seconds, waited + seconds
                    on_silence(waited, [futures[each] for each in futures if each.running()])

        for _ in range(len(futures)):
            try:
                result = next_done().result()
            except workers.lost:
                # Futures that are done already keep their results: all of them come by here.
                continue
            take(result)
            del left[result.task]
