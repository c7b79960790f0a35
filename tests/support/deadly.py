"""Runs of a sweep in which workers die as by SIGKILL, or leave files.

A worker imports the module that its function is in: the tests' own would take it two seconds.
"""

import os
import signal
from pathlib import Path

from scheduler.tools.sweep.run import Task, TaskResult, carry_out


def die(task: Task) -> TaskResult:
    """Every worker dies."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError(task)


def note(directory: str, task: Task) -> TaskResult:
    """The worker works, and leaves a file."""
    (Path(directory) / task.digest).touch()
    return carry_out(task)


def die_once(mark: str, task: Task) -> TaskResult:
    """The first worker that comes by dies; the others work."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return carry_out(task)
    return die(task)


def die_at(change: str, task: Task) -> TaskResult:
    """The run of one what-if kills its worker, whenever it runs."""
    return die(task) if task.what_if.name == change else carry_out(task)
