"""The relay of bytes that ``make chaos`` puts between replicas and API server does what it says."""

import socket
import threading
from collections.abc import Iterator

import pytest

from e2e.support.tcp_relay import Mode, TcpRelay
from scheduler.clock import SystemClock
from tests.support.ports import free_port

LINE = b"x" * 100


@pytest.fixture
def relay() -> Iterator[TcpRelay]:
    """A relay to a server that sends back what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_echo_for_ever, args=(listener,), daemon=True).start()
        with TcpRelay(listener.getsockname()[1]) as running:
            yield running


def _echo_for_ever(listener: socket.socket) -> None:
    while True:
        try:
            caller, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_echo, args=(caller,), daemon=True).start()


def _echo(caller: socket.socket) -> None:
    with caller:
        try:
            while data := caller.recv(4096):
                caller.sendall(data)
        except OSError:
            pass


def connected(relay: TcpRelay, timeout: float = 60) -> socket.socket:
    return socket.create_connection(("127.0.0.1", relay.port), timeout=timeout)


def everything(caller: socket.socket) -> bytes:
    """What arrives until the connection ends, however it does."""
    got = b""
    try:
        while data := caller.recv(4096):
            got += data
    except ConnectionError:
        pass
    return got


def test_it_passes_what_nothing_is_wrong_with(relay: TcpRelay) -> None:
    with connected(relay) as caller:
        caller.sendall(LINE)

        assert caller.recv(4096) == LINE
    assert len(relay.accepted) == 1


def test_an_answer_is_cut_in_the_middle(relay: TcpRelay) -> None:
    """On a connection that was fine before."""
    with connected(relay) as caller:
        caller.sendall(LINE)
        caller.recv(4096)
        relay.disturb(Mode.TRUNCATE)
        caller.sendall(LINE)

        assert everything(caller) in (LINE[:50], b"")


def test_what_is_swallowed_is_gone_and_the_connection_with_it_later(relay: TcpRelay) -> None:
    """While it lasts nothing is closed."""
    with connected(relay, timeout=0.2) as caller:
        relay.disturb(Mode.DISCARD)
        caller.sendall(LINE)
        with pytest.raises(TimeoutError):
            caller.recv(1)
        caller.settimeout(60)

        relay.restore()

        assert everything(caller) == b""
    with connected(relay) as caller:
        caller.sendall(LINE)
        assert caller.recv(4096) == LINE


def test_bytes_come_one_by_one(relay: TcpRelay) -> None:
    relay.disturb(Mode.THROTTLE)
    with connected(relay) as caller:
        caller.sendall(b"ab")

        assert caller.recv(4096) == b"a"


def test_noise_is_no_handshake(relay: TcpRelay) -> None:
    """Old connections are gone."""
    with connected(relay) as old:
        old.sendall(LINE)
        old.recv(4096)
        relay.disturb(Mode.NOT_TLS)

        assert everything(old) == b""
    with connected(relay) as caller:
        caller.sendall(b"\x16\x03\x01")
        assert everything(caller).startswith(b"HTTP/1.1 400")


def test_what_is_long_on_its_way_arrives_whole_and_in_order(relay: TcpRelay) -> None:
    """Both ways, many pieces at once."""
    relay.lag_seconds, clock = 0.25, SystemClock()
    pieces = [b"%d " % number for number in range(100)]
    with connected(relay) as caller:
        start = clock.monotonic()
        for piece in pieces:
            caller.sendall(piece)
            threading.Event().wait(0.001)
        got = caller.recv(4096)
        first = clock.monotonic() - start
        while len(got) < len(b"".join(pieces)):
            got += caller.recv(4096)

    assert got == b"".join(pieces)
    assert first >= 2 * relay.lag_seconds
    assert clock.monotonic() - start < len(pieces) * relay.lag_seconds


def test_a_server_that_is_not_there(relay: TcpRelay) -> None:
    """Is told as what it is: a connection that does not come about."""
    relay.server_port = free_port()
    with connected(relay) as caller:
        assert everything(caller) == b""
