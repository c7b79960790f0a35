"""Promise: the daemon reports errors of its environment clearly, and recovers where possible."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.faults import Answer
from e2e.support.go_programs import CHECKOUT
from e2e.support.kubeconfig import write_kubeconfig
from e2e.support.objects import make_node, make_pod
from e2e.support.processes import Program
from e2e.support.proxy import FaultProxy
from e2e.support.rights import scheduler_kubeconfig
from e2e.support.stowage import is_ready
from e2e.support.waiting import PATIENCE_SECONDS, wait_for

EXIT_SECONDS = 40
"""Limit for the daemon's shutdown when the API server does not respond: the manifests' grace."""


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[FaultProxy]:
    with FaultProxy(scheduler_kubeconfig(cluster)) as running:
        yield running


@pytest.fixture
def through(proxy: FaultProxy, tmp_path: Path) -> Path:
    """A kubeconfig with the proxy as its server."""
    return proxy.kubeconfig(tmp_path / "through.kubeconfig")


def test_an_api_server_that_is_down_is_waited_for(
    cluster: Cluster, proxy: FaultProxy, through: Path, namespace: str, run_stowage: StartStowage
) -> None:
    """The daemon logs this, is alive but not ready, and schedules when the server responds."""
    cluster.create_nodes([make_node("node")])
    cluster.create_pods([make_pod("early", namespace=namespace)])
    proxy.cut()
    daemon = run_stowage(through, wait=False, leader_elect=True)
    wait_for(lambda: "Waiting for caches to sync" in daemon.tail(200), "it to say so")
    assert daemon.is_running()
    assert not is_ready(daemon)
    assert "Traceback" not in daemon.tail(400)

    proxy.restore()

    cluster.wait_until_bound(namespace)
    wait_for(lambda: is_ready(daemon), "it to be ready")


def test_it_ends_in_time_when_the_api_server_is_gone(
    cluster: Cluster, proxy: FaultProxy, through: Path, namespace: str, run_stowage: StartStowage
) -> None:
    """The daemon gives up pending events and patches after some seconds."""
    daemon = run_stowage(through, leader_elect=True)
    cluster.create_nodes([make_node("node")])
    cluster.create_pods([make_pod("first", namespace=namespace)])
    cluster.wait_until_bound(namespace)
    proxy.cut()
    # The daemon cannot see this pod any more.
    cluster.create_pods([make_pod("second", namespace=namespace)])

    assert daemon.stop(EXIT_SECONDS) == 0, daemon.tail()

    assert "Traceback" not in daemon.tail(400)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(Answer(401, "Unauthorized"), "401"), (Answer(403, "Forbidden"), "403")],
)
def test_refused_credentials_are_named_and_tried_again(
    cluster: Cluster,
    proxy: FaultProxy,
    through: Path,
    namespace: str,
    run_stowage: StartStowage,
    answer: Answer,
    expected: str,
) -> None:
    """The daemon logs one line for each kind, however often it retries."""
    proxy.add(answer)
    daemon = run_stowage(through, wait=False)
    wait_for(lambda: proxy.count("GET", "/nodes") >= 3, "three attempts")

    lines = wait_for(lambda: complaints(daemon, "nodes"), "a complaint")

    assert len(lines) == 1
    assert expected in lines[0]
    assert daemon.is_running()
    proxy.clear()
    wait_for(lambda: is_ready(daemon), "it to be ready")


def test_a_token_nobody_knows_is_a_clear_message(
    cluster: Cluster, tmp_path: Path, run_stowage: StartStowage
) -> None:
    """The token never appears in the log, even with -v=9."""
    token = "not-a-token-of-this-cluster"  # noqa: S105 - made up
    credentials = cluster.api.credentials
    kubeconfig = write_kubeconfig(
        tmp_path / "wrong.kubeconfig",
        credentials.server,
        authority=credentials.authority,
        token=token,
    )

    daemon = run_stowage(kubeconfig, wait=False, arguments=["-v=9"])
    wait_for(lambda: complaints(daemon, "nodes"), "a complaint")

    assert "401 Unauthorized" in complaints(daemon, "nodes")[0]
    assert token not in daemon.log.read_text()


def test_a_broken_configuration_ends_it_at_once(tmp_path: Path) -> None:
    """The daemon exits with 2 and names every problem with its line."""
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "paralelism: 16\n"
        "leaderElection: {leaseDuration: 15}\n"
    )

    done = run_to_end(f"--config={file}")

    assert done.returncode == 2
    assert "2 problems" in done.stderr
    assert re.search(r"line 3: paralelism: unknown field", done.stderr)
    assert re.search(r"line 4: leaderElection.leaseDuration: ", done.stderr)
    assert "Traceback" not in done.stderr


def test_a_missing_kubeconfig_ends_it_at_once(tmp_path: Path) -> None:
    """The message names the path."""
    missing = tmp_path / "none"

    done = run_to_end(f"--kubeconfig={missing}")

    assert done.returncode == 2
    assert f"kubeconfig {missing}: the file does not exist" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_certificate_ends_it_at_once(cluster: Cluster, tmp_path: Path) -> None:
    """The daemon closes everything it opened, and prints nothing but the message."""
    missing = tmp_path / "tls.crt"

    done = run_to_end(
        f"--kubeconfig={scheduler_kubeconfig(cluster)}",
        "--leader-elect=false",
        f"--tls-cert-file={missing}",
        f"--tls-private-key-file={missing}",
    )

    assert done.returncode == 2
    assert f"{missing} does not exist" in done.stderr
    for words in ("never awaited", "Unclosed", "Traceback"):
        assert words not in done.stderr


def complaints(daemon: Program, kind: str) -> list[str]:
    """Return the log lines about the watch of a kind."""
    lines = daemon.log.read_text().splitlines()
    return [line for line in lines if "Cannot list or watch" in line and f'kind="{kind}"' in line]


def run_to_end(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scheduler", "run", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=CHECKOUT,
        timeout=PATIENCE_SECONDS,
    )
