"""Linux namespaces held by one process; when it ends, the kernel ends all processes in them.

Each node of the lab has its own namespaces, nested in those of the lab.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from e2e.support.go_programs import PAUSE, build
from e2e.support.processes import Program
from e2e.support.waiting import wait_for

_TIMEOUT_SECONDS = 300


class CommandError(RuntimeError):
    """A command failed; the message has the command and its output."""


def run(
    command: Sequence[str],
    *,
    stdin: str = "",
    timeout: float = _TIMEOUT_SECONDS,
    directory: Path | None = None,
) -> str:
    """Run a command and return its output.

    Raises:
        CommandError: the exit status is not 0, or the timeout expired.
    """
    try:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            cwd=directory,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"{' '.join(command)} took longer than {timeout:g} s") from error
    if done.returncode:
        output = f"{done.stdout}{done.stderr}"[-4000:]
        raise CommandError(f"{' '.join(command)} ended with {done.returncode}:\n{output}")
    return done.stdout


class Namespaces:
    """New mount, network, process and host name namespaces.

    Invariant: mounts inside are invisible outside. All processes inside end with ``kill``, and when
    the process that created the namespaces ends or is killed.
    """

    def __init__(self, name: str, directory: Path) -> None:
        self._directory = directory
        words = ["unshare", "--mount", "--net", "--pid", "--uts", "--fork", "--kill-child"]
        words += ["--mount-proc", "--propagation=private", str(build(PAUSE))]
        self._holder = Program(f"{name}-holder", words, directory / f"{name}-holder.log")
        self.pid: int = wait_for(self._first_process, f"the first process of {name}")
        self.run("hostname", name)
        self.run("ip", "link", "set", "lo", "up")

    def command(self, *words: str) -> list[str]:
        """Return the command line that runs a command inside."""
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--net", "--pid", "--uts"]
        return [*enter, "--", *words]

    def run(self, *words: str, stdin: str = "") -> str:
        """Run a command inside and return its output."""
        return run(self.command(*words), stdin=stdin)

    def start(self, name: str, *words: str) -> Program:
        """Start a program inside; it ends with the namespaces at the latest."""
        return Program(name, self.command(*words), self._directory / f"{name}.log")

    def kill(self) -> None:
        """Kill every process inside at once, like a power failure."""
        self._holder.kill()
        wait_for(lambda: not Path(f"/proc/{self.pid}").exists(), "the namespaces to end")

    def _first_process(self) -> int:
        """Return the outer process id of the first process; 0 until its /proc is mounted."""
        pid = self._holder.pid
        if not self._holder.is_running():
            raise CommandError(f"no namespaces could be made:\n{self._holder.tail()}")
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        # unshare's child becomes the holder after all namespaces are set up.
        if not children or Path(f"/proc/{children[0]}/comm").read_text().strip() != PAUSE.name:
            return 0
        return int(children[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
