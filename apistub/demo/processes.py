"""The two processes of the demo: the sandbox and the daemon, started as by a user.

Each is in a session of its own, so that Ctrl-C reaches only the demo. The demo then ends them; see
`child` for a demo that is killed.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, Self

import yaml

from apistub.__main__ import LISTENING
from apistub.demo.load import SCHEDULER
from scheduler.errors import SchedulerError

_START_SECONDS: Final = 60.0
_CONSOLE: Final = "Stowage console: "
_STOP_SECONDS: Final = 30.0
_LAST_LINES: Final = 15


class DemoError(SchedulerError):
    """The demo cannot go on."""


class Program:
    """A child process."""

    def __init__(self, name: str, process: Process, log: Path | None) -> None:
        self.name = name
        self._process = process
        self._log = log

    def last_lines(self) -> str:
        """The end of its output."""
        if self._log is None:
            return ""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-_LAST_LINES:])

    async def wait(self) -> int:
        """Its exit status, once it has ended."""
        return await self._process.wait()

    async def stop(self) -> int:
        """Asks it to end; the answer is its exit status."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                return await self._process.wait()
        except TimeoutError:
            self._process.kill()
            return await self._process.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.stop()


async def died(daemon: Program) -> None:
    """Waits for the daemon's end, which is none of the story.

    Raises:
        DemoError: always, with its last words.
    """
    status = await daemon.wait()
    raise DemoError(
        f"`{daemon.name}` ended with status {status}; its last words:\n{daemon.last_lines()}"
    )


async def start_sandbox(kubeconfig: Path) -> tuple[Program, str]:
    """The sandbox in a process of its own, and where it listens.

    Raises:
        DemoError: it does not start.
    """
    arguments = ("apistub", "--port", "0", "--kubeconfig", str(kubeconfig))
    return await _started("sandbox", arguments, LISTENING)


async def start_console(kubeconfig: Path) -> tuple[Program, str]:
    """`stowage console`, and its address.

    Raises:
        DemoError: it does not start.
    """
    arguments = ("scheduler", "console", "--port", "0", f"--kubeconfig={kubeconfig}")
    return await _started("console", arguments, _CONSOLE)


async def _started(name: str, arguments: Sequence[str], before: str) -> tuple[Program, str]:
    """A program in a process of its own, and the address that it says after some words."""
    process = await _child(arguments, PIPE)
    program = Program(name, process, None)
    said: list[str] = []
    try:
        async with asyncio.timeout(_START_SECONDS):
            url = await _url(process, said, before)
    except TimeoutError:
        url = ""
    if not url:
        await program.stop()
        raise DemoError(f"the {name} did not start; it said:\n" + "".join(said))
    return program, url


async def _child(arguments: Sequence[str], output: int | IO[bytes]) -> Process:
    """A module in a process of its own, which ends with this one."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "apistub.demo.child", *arguments,
        stdout=output, stderr=STDOUT, stdin=PIPE, start_new_session=True,
    )  # fmt: skip


async def _url(process: Process, said: list[str], before: str) -> str:
    if process.stdout is None:
        return ""
    async for line in process.stdout:
        said.append(line.decode(errors="replace"))
        if said[-1].startswith(before):
            return said[-1].removeprefix(before).split()[0]
    return ""


async def start_daemon(kubeconfig: Path, log: Path) -> Program:
    """The daemon, with the command line it has in a cluster.

    No other scheduler places pods here. So the daemon also owns the pods of `kubectl run`, which
    name no scheduler.
    """
    configuration = log.with_name("config.yaml")
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "profiles": [{"schedulerName": name} for name in (SCHEDULER, "default-scheduler")],
    }
    configuration.write_text(yaml.safe_dump(document))
    with log.open("wb") as output:
        arguments = ("scheduler", "run", "--config", str(configuration),
                     "--leader-elect=false", "--secure-port", "0")  # fmt: skip
        process = await _child(arguments, output)
    return Program("stowage run", process, log)
