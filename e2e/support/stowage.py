"""Starts the daemon under test with its command line."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from e2e.support.go_programs import CHECKOUT
from e2e.support.probing import status_of, unverified
from e2e.support.processes import Program
from tests.support.ports import free_port


def start_stowage(
    kubeconfig: Path,
    directory: Path,
    *,
    name: str = "stowage",
    configuration: Mapping[str, Any] | None = None,
    leader_elect: bool = False,
    arguments: Sequence[str] = (),
    wait: bool = True,
    command: Sequence[str] = (sys.executable, "-m", "scheduler", "run"),
    checkout: Path = CHECKOUT,
) -> Program:
    """Start ``stowage run`` and wait until it is ready.

    Args:
        kubeconfig: cluster and credentials.
        directory: folder for its log and configuration file.
        name: name of the log and configuration files.
        configuration: fields of a KubeSchedulerConfiguration; None starts without ``--config``.
        leader_elect: whether leader election is enabled.
        arguments: additional command line flags.
        wait: False returns before the daemon is ready.
        command: the command that runs the daemon.
        checkout: folder with the daemon's modules.
    """
    port = free_port()
    words = [*command, f"--kubeconfig={kubeconfig}"]
    if configuration is not None:
        file = directory / f"{name}.yaml"
        document = _document(configuration, kubeconfig)
        file.write_text(yaml.safe_dump(document, sort_keys=False))
        words.append(f"--config={file}")
    words += [
        f"--secure-port={port}",
        f"--leader-elect={str(leader_elect).lower()}",
        *arguments,
    ]
    path = os.pathsep.join(filter(None, (str(checkout), os.environ.get("PYTHONPATH"))))
    program = Program(name, words, directory / f"{name}.log", {"PYTHONPATH": path}, directory)
    program.url = f"https://127.0.0.1:{port}"
    if wait:
        try:
            program.wait_ready(lambda: is_ready(program))
        except BaseException:
            program.stop()
            raise
    return program


def is_ready(program: Program) -> bool:
    """Report whether ``/readyz`` returns 200."""
    return status_of(f"{program.url}/readyz", unverified()) == 200


def _document(configuration: Mapping[str, Any], kubeconfig: Path) -> dict[str, Any]:
    """Add the kubeconfig to the configuration; ``--kubeconfig`` is ignored with ``--config``."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        **configuration,
    }
