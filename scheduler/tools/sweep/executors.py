"""Runs tasks on a pool of processes or on Dask, by futures of the standard library.

A dead worker breaks a pool of processes: a new pool runs the remaining tasks. If no task is
finished before that, those that it ran at once run alone, one after the other. A task that then
kills its worker fails. Dask itself gives the tasks of a dead worker to others, and names a task
that kills several. A task that a dead worker may have finished runs again, with the same result.
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
from functools import partial
from multiprocessing import get_context
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from scheduler.tools.offline.reading import InputError
from scheduler.tools.sweep.run import Task, TaskResult, carry_out

MAX_VAIN_ROUNDS: Final = 3
"""Pools at most that break in a row before they take a task."""
_TRIES_ALONE: Final = 2
"""Times at most that a task runs alone; then it fails."""
_DIED: Final = "its worker died several times: out of memory?"
PATIENCE_SECONDS: Final = 60.0
"""Time without a finished task after which running tasks are named, and again when it doubles."""

Silence: TypeAlias = Callable[[float, list[Task]], None]
"""Called with the seconds without a finished task, and with the running tasks, oldest first."""


class Workers(msgspec.Struct, frozen=True):
    """The workers that run tasks.

    Attributes:
        opened: opens an executor as a context, whose end cancels the tasks that wait.
        lost: the exceptions that a future raises when a worker has died.
        deadly: those of a future whose task has killed several workers.
        at_once: number of lost tasks, in the order of submission, that may have killed a worker.
        alone: opens an executor for one task at a time; `opened` if None.
    """

    opened: Callable[[], AbstractContextManager[Executor]]
    lost: tuple[type[BaseException], ...] = (BrokenExecutor, CancelledError)
    deadly: tuple[type[BaseException], ...] = ()
    at_once: int = 1
    alone: Callable[[], AbstractContextManager[Executor]] | None = None

    def for_one(self) -> "Workers":
        """Return the workers that run one task at a time."""
        return replace(self, opened=self.alone or self.opened)


def processes(jobs: int) -> Workers:
    """Return workers in `jobs` processes of this machine."""
    return Workers(partial(_pool, jobs), at_once=jobs, alone=partial(_pool, 1))


@contextmanager
def _pool(jobs: int) -> Iterator[Executor]:
    """Open a pool of spawned processes: a fork would copy threads and open connections."""
    # Ctrl-C reaches the workers as well: they end at once, and start no other run.
    at_interrupt = signal.SIGINT, signal.SIG_DFL
    spawn = get_context("spawn")
    executor = ProcessPoolExecutor(jobs, spawn, initializer=signal.signal, initargs=at_interrupt)
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)


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
        InputError: workers die repeatedly before they take a task; or one has another version.
    """
    left = {task.digest: task for task in tasks}
    vain = 0
    while left:
        before = len(left)
        lost = _one_round(left, workers, take, on_silence, patience_seconds)
        if len(left) < before:
            vain = 0
            continue
        for task in lost[: workers.at_once]:
            _alone(task, workers.for_one(), take, on_silence, patience_seconds)
            del left[task.digest]
        vain = 0 if lost else vain + 1
        if vain == MAX_VAIN_ROUNDS:
            raise InputError(
                f"workers died {vain} times in a row without a finished run; "
                f"{len(left)} runs are left: out of memory? Try fewer --jobs"
            )


def _alone(
    task: Task,
    workers: Workers,
    take: Callable[[TaskResult], None],
    on_silence: Silence,
    patience_seconds: float,
) -> None:
    """Run one task; it fails if it kills its workers."""
    left = {task.digest: task}
    for _ in range(_TRIES_ALONE):
        _one_round(left, workers, take, on_silence, patience_seconds)
        if not left:
            return
    take(TaskResult(task.digest, problem=_DIED))


def _one_round(
    left: dict[str, Task],
    workers: Workers,
    take: Callable[[TaskResult], None],
    on_silence: Silence,
    patience_seconds: float,
) -> list[Task]:
    """Run tasks until all are done, or a dead worker breaks the pool; return those it had taken."""
    lost: set[Future[TaskResult]] = set()
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
            task = futures[future]
            result = _result_of(future, task, workers)
            # Other futures that are done have results, and are handled by this loop too.
            if result is None:
                lost.add(future)
            else:
                take(result)
                del left[task.digest]
    return [task for future, task in futures.items() if future in lost]


def _result_of(future: Future[TaskResult], task: Task, workers: Workers) -> TaskResult | None:
    """Return the result of a task; None if its worker has died.

    Raises:
        InputError: the worker has another version, or none.
    """
    try:
        result = future.result()
    except workers.lost:
        return None
    except workers.deadly:
        return TaskResult(task.digest, problem=_DIED)
    except Exception as problem:
        # A run returns its own errors: this one is about passing the task, or its result.
        told = f"{type(problem).__name__}: {problem}"
        raise InputError(f"a worker cannot take a run; has it another version? {told}") from problem
    if result.task != task.digest:
        raise InputError("a worker runs another version of Stowage")
    return result
