"""Workers of a sweep: one that hangs is visible, one that dies loses nothing."""

from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager
from typing import Any

import pytest
from typing_extensions import override

from scheduler.tools.offline.reading import InputError
from scheduler.tools.sweep.candidates import RECORDED
from scheduler.tools.sweep.executors import Workers, carry_out_all
from scheduler.tools.sweep.run import Task, TaskResult


class Hanging(Executor):
    """Begins the first task, and answers nothing until it is told to."""

    def __init__(self) -> None:
        self.futures: list[tuple[Future[TaskResult], Task]] = []

    @override
    def submit(self, _fn: Callable[..., Any], /, *args: Any, **_: Any) -> Any:
        future: Future[TaskResult] = Future()
        if not self.futures:
            future.set_running_or_notify_cancel()
        self.futures.append((future, args[0]))
        return future

    def answer(self) -> None:
        for future, task in self.futures:
            future.set_result(TaskResult(task.digest))


def test_runs_that_hang_are_named_again_and_again() -> None:
    """With the time since the last finished run, less and less often; then their results count."""
    tasks = [Task(RECORDED, (), name) for name in ("hangs", "waits")]
    executor, taken = Hanging(), list[TaskResult]()
    told: list[tuple[float, list[str]]] = []

    @contextmanager
    def opened() -> Iterator[Executor]:
        yield executor

    def tell(seconds: float, under_way: list[Task]) -> None:
        told.append((seconds, [task.recording for task in under_way]))
        if len(told) == 3:
            executor.answer()

    carry_out_all(tasks, Workers(opened), taken.append, on_silence=tell, patience_seconds=0.01)

    assert told == [(0.01, ["hangs"]), (0.02, ["hangs"]), (0.04, ["hangs"])]
    assert {result.task for result in taken} == {task.digest for task in tasks}


def test_a_worker_of_another_version_ends_the_sweep() -> None:
    """Its digests are others, so its results may be others."""
    taken = list[TaskResult]()

    class Older(Executor):
        @override
        def submit(self, _fn: Callable[..., Any], /, *_args: Any, **_: Any) -> Any:
            future: Future[TaskResult] = Future()
            future.set_result(TaskResult("of another version"))
            return future

    @contextmanager
    def opened() -> Iterator[Executor]:
        yield Older()

    with pytest.raises(InputError, match="a worker runs another version of Stowage"):
        carry_out_all([Task(RECORDED, (), "a")], Workers(opened), taken.append)

    assert taken == []


def test_a_worker_that_cannot_read_a_task_ends_the_sweep() -> None:
    """As one without this program, or of a version with other tasks."""

    class Foreign(Executor):
        @override
        def submit(self, _fn: Callable[..., Any], /, *_args: Any, **_: Any) -> Any:
            future: Future[TaskResult] = Future()
            future.set_exception(ModuleNotFoundError("No module named 'scheduler'"))
            return future

    @contextmanager
    def opened() -> Iterator[Executor]:
        yield Foreign()

    with pytest.raises(InputError, match=r"another version.*No module named 'scheduler'"):
        carry_out_all([Task(RECORDED, (), "a")], Workers(opened), list[TaskResult]().append)


def test_a_task_that_is_said_to_kill_workers_fails_alone() -> None:
    """As by Dask, which has tried it several times: it is not tried again."""

    class KilledError(Exception):
        pass

    tasks, taken, tried = [Task(RECORDED, (), name) for name in "abc"], list[TaskResult](), []

    class Deadly(Executor):
        @override
        def submit(self, _fn: Callable[..., Any], /, *args: Any, **_: Any) -> Any:
            future: Future[TaskResult] = Future()
            tried.append(args[0])
            if args[0] == tasks[1]:
                future.set_exception(KilledError())
            else:
                future.set_result(TaskResult(args[0].digest))
            return future

    @contextmanager
    def opened() -> Iterator[Executor]:
        yield Deadly()

    carry_out_all(tasks, Workers(opened, deadly=(KilledError,)), taken.append)

    assert tried == tasks
    assert [bool(result.problem) for result in taken] == [False, True, False]


class Breaking(Executor):
    """Takes one task, then its workers are dead."""

    def __init__(self) -> None:
        self.has_taken = False

    @override
    def submit(self, _fn: Callable[..., Any], /, *args: Any, **_: Any) -> Any:
        if self.has_taken:
            raise BrokenExecutor
        self.has_taken = True
        future: Future[TaskResult] = Future()
        future.set_result(TaskResult(args[0].digest))
        return future


def test_workers_may_die_while_tasks_are_given_out() -> None:
    """Another pool takes the rest; each result is taken once."""
    tasks = [Task(RECORDED, (), name) for name in ("a", "b", "c")]
    taken = list[TaskResult]()

    @contextmanager
    def opened() -> Iterator[Executor]:
        yield Breaking()

    carry_out_all(tasks, Workers(opened), taken.append)

    assert sorted(result.task for result in taken) == sorted(task.digest for task in tasks)


def test_workers_that_take_no_task_end_the_sweep() -> None:
    """With one message: no round after the third."""
    opens = 0

    @contextmanager
    def opened() -> Iterator[Executor]:
        nonlocal opens
        opens += 1
        executor = Breaking()
        executor.has_taken = True
        yield executor

    with pytest.raises(InputError, match="workers died 3 times in a row"):
        carry_out_all([Task(RECORDED, (), "a")], Workers(opened), lambda _: None)

    assert opens == 3
