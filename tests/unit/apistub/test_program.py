"""The sandbox as a program of its own."""

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from apistub.__main__ import main


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_it_serves_until_it_is_told_to_end(number: signal.Signals, tmp_path: Path) -> None:
    """It says what it is and where it listens, serves, and ends with status 0."""
    command = [sys.executable, "-m", "apistub", "--port", "0", "--nodes", "4"]
    config = tmp_path / "config"
    with subprocess.Popen(
        [*command, "--kubeconfig", str(config)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            notice = process.stdout.readline()
            written = process.stdout.readline()
            url = process.stdout.readline().removeprefix("listening on ").strip()
            with urllib.request.urlopen(f"{url}/api/v1/nodes") as response:  # noqa: S310 - ours
                nodes = json.load(response)["items"]
        finally:
            process.send_signal(number)
        code = process.wait(timeout=60)

    assert "stand-in for a Kubernetes API server" in notice
    assert written == f"kubeconfig written to {config}\n"
    assert url in config.read_text()
    assert code == 0
    zones = [node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes]
    assert zones == ["sandbox-a", "sandbox-b", "sandbox-c", "sandbox-a"]


def test_a_port_in_use_is_one_clear_message() -> None:
    """No traceback when it cannot listen."""
    with subprocess.Popen(
        [sys.executable, "-m", "apistub", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        port = process.stdout.readline().strip().rpartition(":")[2]

        second = CliRunner().invoke(main, ["--port", port])

        process.terminate()
    assert second.exit_code == 1
    assert f"Error: cannot listen on 127.0.0.1 port {port}: " in second.output
