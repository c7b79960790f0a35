"""Starts programs, each in its own process group and with its output in a file.

Programs are signalled by process group, never by name. They end if the harness is killed.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from e2e.support.waiting import PATIENCE_SECONDS

STOP_SECONDS = 40
"""Time between SIGTERM and SIGKILL: the grace period of the manifests."""

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


class ProgramError(RuntimeError):
    """A program did not become ready, or ended early; the message has the end of its log."""


class Program:
    """One running program.

    Invariant: the process leads its own process group, so signals reach its children too.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self.url = ""
        """URL of the program's server; set by the caller."""
        with log.open("ab") as output:
            # The process ends with the thread that started it, so start programs from the main
            # thread.
            self.process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                cwd=directory,
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def is_running(self) -> bool:
        return self.process.poll() is None

    def tail(self, lines: int = 40) -> str:
        """Return the last ``lines`` of its output."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as output:
            output.seek(max(0, self.log.stat().st_size - 400 * lines))
            text = output.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def wait_ready(
        self, is_ready: Callable[[], bool], timeout_seconds: float = PATIENCE_SECONDS
    ) -> None:
        """Wait until ``is_ready`` returns True.

        Raises:
            ProgramError: the program ended, or the timeout expired.
        """
        deadline = time.monotonic() + timeout_seconds
        while not is_ready():
            if not self.is_running():
                raise ProgramError(
                    f"{self.name} ended with status {self.process.returncode}:\n{self.tail()}"
                )
            if time.monotonic() > deadline:
                raise ProgramError(
                    f"{self.name} was not ready after {timeout_seconds:g} s:\n{self.tail()}"
                )
            time.sleep(0.05)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process group; do nothing if the process has ended."""
        if self.is_running():
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """Kill the process group with SIGKILL."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> int:
        """Send SIGTERM, then SIGKILL after ``timeout_seconds``; return the exit status."""
        self.signal(signal.SIGTERM)
        # A stopped process handles SIGTERM only after SIGCONT.
        self.signal(signal.SIGCONT)
        try:
            return self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.process.returncode

    def cpu_seconds(self) -> float:
        """Return the user and system CPU time of its running processes."""
        ticks = 0
        for pid in _group_members(self.pid):
            fields = _stat_fields(pid)
            # utime, stime, and the times of children that were waited for.
            ticks += sum(int(field) for field in fields[11:15])
        return ticks / os.sysconf("SC_CLK_TCK")

    def peak_memory_bytes(self) -> int:
        """Return the sum of the peak resident set sizes of its running processes."""
        total = 0
        for pid in _group_members(self.pid):
            for line in _read_proc(pid, "status").splitlines():
                if line.startswith("VmHWM:"):
                    total += int(line.split()[1]) * 1024
        return total

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def raise_open_file_limit() -> None:
    """Raise the soft limit of open files to the hard limit, for this process and its children."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _group_members(group: int) -> list[int]:
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat_fields(int(entry.name))
            if fields and int(fields[2]) == group:
                members.append(int(entry.name))
    return members


def _stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the program name; empty if the process is gone."""
    return _read_proc(pid, "stat").rpartition(")")[2].split()


def _read_proc(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
