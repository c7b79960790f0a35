"""The demo itself, small: two more processes, the real daemon, a real exit status."""

import json
import os
import select
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.error import URLError

import pytest
import yaml


def run_demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scheduler", "demo", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def server_of(kubeconfig: Path) -> str:
    return str(yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"])


def node_of_a_new_pod(server: str) -> str:
    """Create a pod that names no scheduler, and wait until it has a node."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "mine"}, "spec": spec}
    pods = f"{server}/api/v1/namespaces/default/pods"
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(pods, json.dumps(pod).encode(), headers)  # noqa: S310 - loopback
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - loopback
        version = json.load(answer)["metadata"]["resourceVersion"]
    watch = f"{pods}?watch=1&resourceVersion={version}"
    with urllib.request.urlopen(watch, timeout=60) as events:  # noqa: S310 - loopback
        nodes = (json.loads(line)["object"]["spec"].get("nodeName", "") for line in events)
        return next(node for node in nodes if node)


def test_the_demo_keeps_its_promises() -> None:
    """It ends by itself with status 0, plain text, and a summary without complaints."""
    demo = run_demo("--nodes", "12", "--pods", "120")

    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "all 118 pods that fit got a node" in demo.stdout
    assert "ok  the urgent pod took the place of one less important pod" in demo.stdout
    assert "pending giant: 0/" in demo.stdout
    assert "NOT" not in demo.stdout
    assert "\x1b" not in demo.stdout
    summary = demo.stdout[demo.stdout.index("pods bound within") :].splitlines()
    assert all(len(line) <= 80 for line in summary)
    assert "stowage demo --keep" in demo.stdout
    assert "your cluster in pages, http://127.0.0.1:10280/" in demo.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["SIGTERM", "SIGHUP"])
def test_a_pod_that_names_no_scheduler_is_served(number: signal.Signals) -> None:
    """As `kubectl run` makes one: it gets a node, in the cluster of `--keep` too.

    A closed terminal ends that cluster as well.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "scheduler", "demo", "--nodes", "12", "--pods", "120", "--keep"],
        stdout=subprocess.PIPE,
        text=True,
    ) as demo:
        try:
            assert demo.stdout is not None
            console = next(
                line.rpartition(" ")[2].strip() for line in demo.stdout if "In a browser" in line
            )
            kubeconfig = next(
                line.partition("KUBECONFIG=")[2].strip()
                for line in demo.stdout
                if "KUBECONFIG=" in line
            )
            with urllib.request.urlopen(f"{console}api/about", timeout=60) as answer:  # noqa: S310 - loopback
                about = json.load(answer)
            server = server_of(Path(kubeconfig))
            node = node_of_a_new_pod(server)
        finally:
            demo.send_signal(number)
    for url in (console, server):
        with pytest.raises(URLError, match="refused"):
            urllib.request.urlopen(url, timeout=60)  # noqa: S310 - loopback
    assert node.startswith("node-")
    assert about["title"].startswith("http://127.0.0.1:")


def test_a_demo_that_is_killed_leaves_no_child_behind() -> None:
    """It cannot stop them; they end by themselves."""
    with subprocess.Popen(
        [sys.executable, "-m", "scheduler", "demo", "--nodes", "12", "--pods", "120"],
        stdout=subprocess.PIPE,
        text=True,
    ) as demo:
        try:
            assert demo.stdout is not None
            next(line for line in demo.stdout if "an API server in memory" in line)
            children = Path(f"/proc/{demo.pid}/task/{demo.pid}/children").read_text().split()
            running = {os.pidfd_open(int(child)): child for child in children}
        finally:
            demo.kill()
    assert len(running) == 2
    poll = select.poll()
    for ended in running:
        poll.register(ended, select.POLLIN)
    left = {*running}
    while left and (found := poll.poll(120_000)):
        for ended, _ in found:
            poll.unregister(ended)
            left.discard(ended)
    for ended in left:
        signal.pidfd_send_signal(ended, signal.SIGKILL)
    for ended in running:
        os.close(ended)
    assert not left


def test_too_many_pods_for_the_nodes_are_refused() -> None:
    """One clear message instead of pods that wait for ever."""
    demo = run_demo("--nodes", "12", "--pods", "721")

    assert demo.returncode == 2
    assert "--pods 721: 12 nodes take at most 720 pods here, give more --nodes" in demo.stderr
