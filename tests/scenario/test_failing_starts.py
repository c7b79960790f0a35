"""A start that fails says why in one line, and leaves nothing open."""

import asyncio
import base64
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.scenario.test_what_if_of_daemons import kubeconfig
from tests.scenario.world import LIMIT_SECONDS, World, play

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
    "port of the operator": (
        with_flags("operator", "--health-port={port}"),
        "--health-port={port}: ",
    ),
    "port of the shadow": (
        with_flags("shadow", "--secure-port={port}", "--serve-without-authorization"),
        "--secure-port={port}: cannot be listened",
    ),
}


@pytest.mark.parametrize("name", STARTS)
def test_why_it_does_not_start(name: str, tmp_path: Path) -> None:
    """The last line says it; there is no traceback, and no library complains."""
    make, expected = STARTS[name]

    async def story(world: World) -> None:
        kubeconfig(world, tmp_path)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            words = [sys.executable, "-m", "scheduler", *make(tmp_path, port)]
            process = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.PIPE)
            async with asyncio.timeout(LIMIT_SECONDS):
                _, err = await process.communicate()
        told = err.decode()
        assert process.returncode in (1, 2)
        assert expected.format(port=port) in told.splitlines()[-1]
        assert "Traceback" not in told
        assert "Message of a library" not in told

    play(story)
