"""Exec plugins are foreign programs: they hang, flood, and leave children behind."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop
from kubernetes.aio.config.kube_config import ConfigNode

from scheduler.daemon.client import exec_plugin
from scheduler.daemon.client.errors import ConnectionConfigError
from scheduler.daemon.client.exec_plugin import run_plugin
from tests.unit.client.scripted_server import until

LINGERS = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(sys.argv[1]).write_text(f"{os.getpid()} {child.pid}")
time.sleep(600)
"""


def plugin(folder: Path, code: str) -> ConfigNode:
    script = folder / "plugin.py"
    script.write_text(code)
    return ConfigNode(
        "exec",
        {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": ["-IS", str(script), str(folder / "pids")],
        },
    )


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def is_written(pids: Path) -> bool:
    return pids.exists() and len(pids.read_text().split()) == 2


def any_runs(pids: Path) -> bool:
    """Whether the plugin or its child is left."""
    return any(is_running(int(pid)) for pid in pids.read_text().split())


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["too slow", "nobody waits any more"])
def test_a_hanging_plugin_is_killed_with_its_children(
    tmp_path: Path, is_cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left running, whyever we go on without it."""
    pids = tmp_path / "pids"
    limits: list[asyncio.Timeout] = []

    def noted(seconds: float) -> asyncio.Timeout:
        limits.append(asyncio.timeout(seconds))
        return limits[-1]

    theirs = SimpleNamespace(**{**vars(asyncio), "timeout": noted})
    monkeypatch.setattr(exec_plugin, "asyncio", theirs)

    async def scenario() -> None:
        task = asyncio.create_task(run_plugin(plugin(tmp_path, LINGERS), 60.0))
        await until(lambda: is_written(pids))
        if is_cancelled:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            # It has begun, however long that took: now its time is over.
            limits[0].reschedule(asyncio.get_running_loop().time())
            with pytest.raises(ConnectionConfigError, match="no answer within 60 s"):
                await task
        await until(lambda: not any_runs(pids))

    uvloop.run(scenario())


def test_a_plugin_that_runs_before_the_loop_knows_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the machine is busy it may have begun long before."""
    pids, known = tmp_path / "pids", asyncio.Event()

    async def started_unseen(*words: str, **options: Any) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(*words, **options)
        await known.wait()
        return process

    theirs = SimpleNamespace(**{**vars(asyncio), "create_subprocess_exec": started_unseen})
    monkeypatch.setattr(exec_plugin, "asyncio", theirs)

    async def scenario() -> None:
        task = asyncio.create_task(run_plugin(plugin(tmp_path, LINGERS)))
        await until(lambda: is_written(pids))
        task.cancel()
        await asyncio.sleep(0)
        known.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not any_runs(pids))

    uvloop.run(scenario())


@pytest.mark.parametrize(
    ("code", "message"),
    [
        pytest.param(
            "import sys\nwhile True: sys.stdout.write('x' * 65536)", "wrote more than", id="flood"
        ),
        pytest.param("print('[' * 100000)", "failed to decode process output", id="deep"),
        pytest.param("import sys; sys.stdout.buffer.write(b'\\xff')", "failed to decode", id="raw"),
        pytest.param("print('[]')", "failed to decode process output", id="no mapping"),
        pytest.param(
            'print(\'{"apiVersion":"client.authentication.k8s.io/v1","kind":"x","status":1}\')',
            "status: Expected `object`",
            id="status of no shape",
        ),
        pytest.param("print('{}')", "missing key 'apiVersion'", id="empty"),
    ],
)
def test_what_a_plugin_may_write_is_one_clear_message(
    tmp_path: Path, code: str, message: str
) -> None:
    """Never a crash, and bounded."""

    async def scenario() -> None:
        with pytest.raises(ConnectionConfigError, match=message):
            await run_plugin(plugin(tmp_path, code), 60.0)

    uvloop.run(scenario())
