"""Runs tasks on a pool of processes or on Dask, by futures of the standard library.

A dead worker breaks a pool of processes: a new pool runs the remaining tasks. Dask itself gives the
tasks of a dead worker to others. A task that a dead worker may have finished runs again, with the
same result.
"""

import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
)
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing import get_context
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

import msgspec

from scheduler.tools.offline.reading import InputError
from scheduler.tools.sweep.run import Task, TaskResult, carry_out

MAX_VAIN_ROUNDS: Final = 3
"""Pools at most that break in a row without a finished task."""
PATIENCE_SECONDS: Final = 60.0
"""Time without a finished task after which running tasks are named, and again when it doubles."""

Silence: TypeAlias = Callable[[float, list[Task]], None]
"""Called with the seconds without a finished task, and with the running tasks, oldest first."""


class Workers(msgspec.Struct, frozen=True):
    """The workers that run tasks.

    Attributes:
        opened: opens an executor as a context, whose end cancels the tasks that wait.
        lost: the exceptions that a future raises when a worker has died.
    """

    opened: Callable[[], AbstractContextManager[Executor]]
    lost: tuple[type[BaseException], ...] = (BrokenExecutor, CancelledError)


def processes(jobs: int) -> Workers:
    """Return workers in `jobs` processes of this machine.

    They are spawned: a fork would copy threads and open connections of this process.
    """

    @contextmanager
    def opened() -> Iterator[Executor]:
        # Ctrl-C reaches the workers as well: they end at once, and start no other run.
        at_interrupt = signal.SIGINT, signal.SIG_DFL
        spawn = get_context("spawn")
        executor = ProcessPoolExecutor(
            jobs, spawn, initializer=signal.signal, initargs=at_interrupt
        )
        try:
            yield executor
        finally:
            executor.shutdown(cancel_futures=True)

    return Workers(opened)


def carry_out_all(
    tasks: Iterable[Task],
    workers: Workers,
    take: Callable[[TaskResult], None],
    *,
    on_silence: Silence = lambda _seconds, _tasks: None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> None:
    """Run all tasks, in any order; pass each result once to `take`.

    Args:
        tasks: the tasks.
        workers: the workers.
        take: called with each result.
        on_silence: called after `patience_seconds` without a finished task: a worker may hang.
        patience_seconds: see `PATIENCE_SECONDS`.

    Raises:
        InputError: workers die repeatedly, and no task is finished; or one has another version.
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
    """Run tasks until all are done, or a dead worker breaks the pool."""
    done: SimpleQueue[Future[TaskResult]] = SimpleQueue()
    futures: dict[Future[TaskResult], Task] = {}
    with workers.opened() as executor:
        # A worker may die while tasks are submitted: the next round runs the remaining ones.
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
            future = next_done()
            try:
                result = future.result()
            except workers.lost:
                # Other futures that are done have results, and are handled by this loop too.
                continue
            digest = futures[future].digest
            if result.task != digest:
                raise InputError("a worker runs another version of Stowage")
            take(result)
            del left[digest]
