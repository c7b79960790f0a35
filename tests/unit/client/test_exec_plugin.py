"""Exec plugins are foreign programs: they hang, flood, and leave children behind."""

import asyncio
import sys
from pathlib import Path

import pytest
import uvloop
from kubernetes.aio.config.kube_config import ConfigNode

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


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["too slow", "nobody waits any more"])
def test_a_hanging_plugin_is_killed_with_its_children(tmp_path: Path, is_cancelled: bool) -> None:
    """Nothing is left running, whyever we go on without it."""
    pids = tmp_path / "pids"

    async def scenario() -> None:
        timeout = 60.0 if is_cancelled else 1.5
        task = asyncio.create_task(run_plugin(plugin(tmp_path, LINGERS), timeout))
        await until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        if is_cancelled:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with pytest.raises(ConnectionConfigError, match="no answer within 2 s"):
                await task
        left = [int(pid) for pid in pids.read_text().split()]
        await until(lambda: not any(is_running(pid) for pid in left))

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
            await run_plugin(plugin(tmp_path, code), 20.0)

    uvloop.run(scenario())
