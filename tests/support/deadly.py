"""Runs of a sweep in which workers die as by SIGKILL.

A worker imports the module that its function is in: the tests' own would take it two seconds.
"""

import os
import signal

from scheduler.tools.sweep.run import Task, TaskResult, carry_out


def die(task: Task) -> TaskResult:
    """Every worker dies."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError(task)


def die_once(mark: str, task: Task) -> TaskResult:
    """The first worker that comes by dies; the others work."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return carry_out(task)
    return die(task)
