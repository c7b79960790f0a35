"""What is asked of a running daemon, where it has more to say than fits."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner

from scheduler.daemon.client.http_connection import MAX_ANSWER_BYTES
from scheduler.observability import logs
from scheduler.tools.cli.explain import explain
from scheduler.tools.cli.live import (
    ClusterAddress,
    DaemonAddress,
    LiveError,
    check_lists,
    read_daemon,
)
from scheduler.tools.console.command import console

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


class _Full(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(MAX_ANSWER_BYTES + 1))
        self.end_headers()
        try:
            self.wfile.write(bytes(MAX_ANSWER_BYTES + 1))
        except OSError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Answering(BaseHTTPRequestHandler):
    """Gives one answer to every request."""

    status = 200
    content_type = "application/json"
    body = b""

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Type", self.content_type)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Forbidding(_Answering):
    status = 403
    body = b'{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no rights"}'


class _NotKnowing(_Forbidding):
    body = json.dumps(
        {"message": 'User "system:anonymous" cannot get path "/debug/recording"'}
    ).encode()


class _Page(_Answering):
    content_type = "text/html"
    body = b"<html>please log in</html>"


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The URL of a server that answers, within this context."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_missing_right_is_told_before_a_cluster_is_watched(tmp_path: Path) -> None:
    """One message with all kinds that may not be listed."""
    kubeconfig = tmp_path / "config"
    with serving(_Forbidding) as url:
        kubeconfig.write_text(KUBECONFIG.replace("http://127.0.0.1:1", url))
        with pytest.raises(LiveError) as caught:
            check_lists(ClusterAddress(str(kubeconfig)))

    assert str(caught.value) == (
        f"{url} does not let you list pods, nodes, which decisions depend on: no rights"
    )


def test_the_console_ends_where_no_server_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pages would wait for pods and nodes for ever."""
    monkeypatch.setattr(logs, "configure", lambda *_: None)  # It is the whole process's.
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(KUBECONFIG)

    result = CliRunner().invoke(console, ["--kubeconfig", str(kubeconfig), "--port", "0"])

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("stowage console: http://127.0.0.1:1 cannot be reached: ")
    assert result.stderr.count("\n") == 1


def test_the_console_asks_no_cluster_if_its_port_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message: watches that were just being opened would end with traces of their own."""
    monkeypatch.setattr(logs, "configure", lambda *_: None)  # It is the whole process's.
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(KUBECONFIG)

    with serving(_Forbidding) as url:
        port = url.rpartition(":")[2]
        result = CliRunner().invoke(console, ["--kubeconfig", str(kubeconfig), "--port", port])

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"stowage console: cannot listen on 127.0.0.1 port {port}: ")
    assert result.stderr.count("\n") == 1


def test_an_interrupt_ends_a_console_that_still_reads(tmp_path: Path) -> None:
    """A server that takes the connection and says nothing holds it for half a minute."""
    kubeconfig = tmp_path / "config"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        kubeconfig.write_text(KUBECONFIG.replace("127.0.0.1:1", address))
        words = ("console", f"--kubeconfig={kubeconfig}", "--port=0")
        process = subprocess.Popen(
            [sys.executable, "-m", "scheduler", *words],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            connection, _ = silent.accept()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=10)
        finally:
            process.kill()
            process.wait()
        connection.close()

    assert (process.returncode, errors.strip()) == (130, "")


def test_a_page_of_a_proxy_in_place_of_a_server_is_one_message(tmp_path: Path) -> None:
    """In place of the API server, also to what watches it, and of a daemon."""
    kubeconfig = tmp_path / "config"
    with serving(_Page) as url:
        kubeconfig.write_text(KUBECONFIG.replace("http://127.0.0.1:1", url))
        result = CliRunner().invoke(explain, ["--kubeconfig", str(kubeconfig)])
        asked = ["ns/pod", "--daemon", url, "--kubeconfig", str(kubeconfig)]
        of_daemon = CliRunner().invoke(explain, asked)
        with pytest.raises(LiveError, match=f"^{url} cannot be reached: .*not a list") as caught:
            check_lists(ClusterAddress(str(kubeconfig)))

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1].startswith(f"stowage explain: {url} cannot be reached: ")
    assert "not a list" in result.stderr
    assert (of_daemon.exit_code, of_daemon.stdout) == (2, "")
    assert "\n" not in str(caught.value)
    told = f"stowage explain: --daemon {url}: it is no recording of Stowage"
    assert of_daemon.stderr.splitlines() == [told]


def test_a_daemon_that_takes_no_certificate_is_said_with_what_to_do(tmp_path: Path) -> None:
    """Administrators often have a client certificate, which the daemon by default ignores."""
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(KUBECONFIG)

    with serving(_NotKnowing) as url, pytest.raises(LiveError) as caught:
        read_daemon(ClusterAddress(str(kubeconfig)), DaemonAddress(url))

    assert str(caught.value).endswith(
        'User "system:anonymous" cannot get path "/debug/recording"; it takes a client certificate '
        "only with --client-ca-file: use a kubeconfig with a token"
    )


@pytest.fixture
def full_daemon() -> Iterator[str]:
    """The URL of one whose recording is a byte longer than is fetched."""
    with serving(_Full) as url:
        yield url


def test_a_recording_that_is_too_long_is_said_with_what_to_do(
    full_daemon: str, tmp_path: Path
) -> None:
    """One line: where it is, how much is fetched, and the way around."""
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(KUBECONFIG)

    with pytest.raises(LiveError) as caught:
        read_daemon(ClusterAddress(str(kubeconfig)), DaemonAddress(full_daemon))

    assert str(caught.value) == (
        f"{full_daemon} has kept more than can be asked about this way "
        f"(the answer is longer than {MAX_ANSWER_BYTES} bytes): fetch /debug/recording into a "
        "file, with curl, and name that with --recording"
    )
