"""The daemon under test, started as a user would start it."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from e2e.support.go_programs import CHECKOUT
from e2e.support.probing import status_of, unverified
from e2e.support.processes import Program, free_port


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
    """Starts ``stowage run`` and waits until it says it is ready.

    Args:
        kubeconfig: whom it schedules for, and as whom.
        directory: where its log and configuration file go.
        name: tells several instances apart.
        configuration: fields of a KubeSchedulerConfiguration; without any no file is given.
        leader_elect: whether it has to win a lease first.
        arguments: further command line arguments.
        wait: false returns at once, for instances that do not become ready.
        command: what runs the daemon.
        checkout: where its modules are.
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
    """Tells whether a started instance reports that it is ready."""
    return status_of(f"{program.url}/readyz", unverified()) == 200


def _document(configuration: Mapping[str, Any], kubeconfig: Path) -> dict[str, Any]:
    """With a file, kube-scheduler's --kubeconfig does not count; the file must name it."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        **configuration,
    }
