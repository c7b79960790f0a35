"""A start that fails says why in one line, and leaves nothing open."""

import asyncio
import base64
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.scenario.test_what_if_of_daemons import kubeconfig
from tests.scenario.world import LIMIT_SECONDS, World, play
from tests.support.forked import VARIABLES, Outcome, outcomes, words_of

HELLO = base64.b64encode(b"hello").decode()
Words = Callable[[Path, int], list[str]]
"""The words of a command, from a folder and from a port that is taken."""


def extender(**tls: str) -> Words:
    """A daemon with an extender whose certificates are none."""

    def words(folder: Path, _: int) -> list[str]:
        path = folder / "config.yaml"
        entry: dict[str, Any] = {"urlPrefix": "https://x", "filterVerb": "f", "tlsConfig": tls}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(folder / "kubeconfig")},
            "extenders": [{**entry, "enableHTTPS": True}],
        }
        path.write_text(yaml.safe_dump(document))
        return ["run", f"--config={path}", "--secure-port=0"]

    return words


def with_flags(command: str, *flags: str) -> Words:
    """A command with flags in which the port may be named."""

    def words(folder: Path, port: int) -> list[str]:
        named = [flag.format(port=port) for flag in flags]
        return [command, f"--kubeconfig={folder / 'kubeconfig'}", *named]

    return words


def plugin(name: str) -> Words:
    """A daemon with a plugin that cannot be used."""

    def words(folder: Path, _: int) -> list[str]:
        path = folder / "config.yaml"
        enabled = {"enabled": [{"name": name}]}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(folder / "kubeconfig")},
            "profiles": [{"schedulerName": "a", "plugins": {"filter": enabled}}],
        }
        path.write_text(yaml.safe_dump(document))
        return ["run", f"--config={path}", "--secure-port=0"]

    return words


def install_broken_plugin(packages: Path) -> None:
    """A package as pip installs it."""
    info = packages / "broken_plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[stowage.plugins]\nBroken = broken_plugin:Broken\nEventless = broken_plugin:Eventless\n"
    )
    (packages / "broken_plugin.py").write_text(
        "from scheduler.plugin import SUCCESS, NodeFilterPlugin\n"
        "class Broken(NodeFilterPlugin):\n"
        "    NAME = 'Broken'\n"
        "    def __init__(self, args, handle): raise ValueError('no racks')\n"
        "    def filter(self, state, pod, node): return SUCCESS\n"
        "class Eventless(NodeFilterPlugin):\n"
        "    NAME = 'Eventless'\n"
        "    def filter(self, state, pod, node): return SUCCESS\n"
        "    def events_to_register(self): return None\n"
    )


STARTS: dict[str, tuple[Words, str]] = {
    "no kubeconfig": (lambda *_: ["run", "--kubeconfig=/none"], "the file does not exist"),
    "no configuration": (lambda *_: ["run", "--config=/none"], "/none: cannot be read"),
    "authority of an extender": (
        extender(caData=HELLO),
        "extenders[0].tlsConfig: certificate authority data: expected PEM certificates",
    ),
    "certificate of an extender": (
        extender(certData=HELLO, keyData=HELLO),
        "extenders[0].tlsConfig: client certificate data with key data: expected a PEM",
    ),
    "events of a plugin": (
        plugin("Eventless"),
        'running EventsToRegister plugin \\"Eventless\\": returned None, expected a sequence',
    ),
    "plugin": (
        plugin("Broken"),
        'profile \\"a\\": plugin \\"Broken\\" cannot be built: ValueError: no racks',
    ),
    "port": (with_flags("run", "--secure-port={port}"), "--secure-port={port}: cannot be listened"),
    "certificate": (
        with_flags("run", "--tls-cert-file=/none", "--tls-private-key-file=/none"),
        "TLS certificate: /none does not exist",
    ),
    "folder for certificates": (with_flags("run", "--cert-dir=/proc/x"), "--cert-dir=/proc/x: "),
    "recordings": (
        with_flags("run", "--secure-port=0", "--record=/proc/x"),
        "--record /proc/x: No such file or directory",
    ),
    "decisions": (
        with_flags("run", "--secure-port=0", "--decisions=/proc/x"),
        "--decisions /proc/x: No such file or directory",
    ),
    "configuration to write": (
        with_flags("run", "--write-config-to=/proc/x"),
        "--write-config-to=/proc/x: No such file or directory",
    ),
    "kubeconfig of the operator": (
        lambda *_: ["operator", "--kubeconfig=/none"],
        "the file does not exist",
    ),
    "context of the operator": (
        with_flags("operator", "--context=none"),
        "contexts has no entry named 'none'",
    ),
    "context of a question": (
        with_flags("explain", "--context=none"),
        "contexts has no entry named 'none'",
    ),
    "port of the operator": (
        with_flags("operator", "--health-port={port}"),
        "--health-port={port}: ",
    ),
    "port of the shadow": (
        with_flags("shadow", "--secure-port={port}", "--serve-without-authorization"),
        "--secure-port={port}: cannot be listened",
    ),
}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Outcome, int]]:
    """How each start ended, and the port that was taken."""
    folders = {name: tmp_path_factory.mktemp("start") for name in STARTS}
    ended: dict[str, tuple[Outcome, int]] = {}
    packages = tmp_path_factory.mktemp("packages")
    install_broken_plugin(packages)
    path = os.pathsep.join([str(packages), *filter(None, [os.environ.get("PYTHONPATH")])])

    async def story(world: World) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            starts = {}
            for name, (make, _) in STARTS.items():
                kubeconfig(world, folders[name])
                starts[name] = make(folders[name], port)
            process = await asyncio.create_subprocess_exec(
                sys.executable, *words_of(starts), stdout=asyncio.subprocess.PIPE,
                env={**os.environ, **VARIABLES, "PYTHONPATH": path},
            )  # fmt: skip
            async with asyncio.timeout(LIMIT_SECONDS * len(starts)):
                printed, _ = await process.communicate()
        ended.update((name, (told, port)) for name, told in outcomes(printed).items())

    play(story)
    return ended


@pytest.mark.parametrize("name", STARTS)
def test_why_it_does_not_start(name: str, started: dict[str, tuple[Outcome, int]]) -> None:
    """The last line says it, and the status; no traceback, and no library complains."""
    _, expected = STARTS[name]
    told, port = started[name]

    assert told.status == 2
    assert expected.format(port=port) in told.err.splitlines()[-1]
    assert "Traceback" not in told.err
    assert "Message of a library" not in told.err
