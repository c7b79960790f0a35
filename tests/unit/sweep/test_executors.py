"""Workers of a sweep: one that hangs is visible."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

from typing_extensions import override

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
