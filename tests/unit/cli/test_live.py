"""What is asked of a running daemon, where it has more to say than fits."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from scheduler.daemon.client.direct import MAX_ANSWER_BYTES
from scheduler.tools.cli.live import ClusterAddress, DaemonAddress, LiveError, read_daemon

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
        """Nobody reads it."""


@pytest.fixture
def full_daemon() -> Iterator[str]:
    """The URL of one whose recording is a byte longer than is fetched."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Full) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


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
