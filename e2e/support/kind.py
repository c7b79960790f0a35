"""Creates a kind cluster with the scheduler's image; requires docker and kind."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.support.go_programs import CHECKOUT

IMAGE = "stowage:e2e"
"""Name of the image, built from the checkout, on the cluster's nodes."""


class KindError(RuntimeError):
    """docker or kind failed; the message has its output."""


def is_available() -> bool:
    """Report whether kind is installed and a docker daemon answers."""
    docker = shutil.which("docker")
    if docker is None or shutil.which("kind") is None:
        return False
    try:
        info = subprocess.run(
            [docker, "info"],
            capture_output=True,
            timeout=20,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return info.returncode == 0


@contextmanager
def kind_cluster(directory: Path) -> Iterator[Path]:
    """Create a cluster, load the image into it, and yield its kubeconfig.

    The cluster is deleted at the end, even if creating it fails.

    Raises:
        KindError: a command failed.
    """
    name = f"stowage-e2e-{os.getpid()}"
    kubeconfig = directory / "kind.kubeconfig"
    try:
        _run("docker", "build", "--tag", IMAGE, str(CHECKOUT))
        _run(
            "kind",
            "create",
            "cluster",
            f"--name={name}",
            f"--kubeconfig={kubeconfig}",
            f"--config={CHECKOUT / 'e2e' / 'kind' / 'cluster.yaml'}",
            "--wait=180s",
        )
        _run("kind", "load", "docker-image", IMAGE, f"--name={name}")
        yield kubeconfig
    finally:
        _run("kind", "delete", "cluster", f"--name={name}", f"--kubeconfig={kubeconfig}")


def _run(*command: str) -> None:
    result = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if result.returncode != 0:
        raise KindError(f"{' '.join(command)} failed:\n{result.stdout[-4000:]}")
