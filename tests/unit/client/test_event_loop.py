"""The event loop: a connection that fails takes no descriptor from another."""

import asyncio
import socket
import ssl
import struct
from contextlib import suppress
from pathlib import Path

import pytest

from scheduler.daemon.client import event_loop
from scheduler.daemon.client.event_loop import run

_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing resets the connection."""
_STEPS = range(4)
"""Steps of the loop in which a connection begins its handshake."""


class _Connecting:
    """A connection whose handshake is under way; the test is its peer."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.sock = socket.create_connection(listener.getsockname())
            self.peer, _ = listener.accept()
        self.sock.setblocking(False)
        context = ssl.create_default_context()
        self.task = asyncio.create_task(
            asyncio.get_running_loop().create_connection(
                asyncio.Protocol, sock=self.sock, ssl=context, server_hostname="x"
            )
        )


async def _reset_after(steps: int) -> int:
    """The descriptor of a connection that its peer resets so many steps after its begin."""
    connecting = _Connecting()
    for _ in range(steps):
        await asyncio.sleep(0)
    connecting.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    connecting.peer.close()
    with pytest.raises(ConnectionResetError):
        await connecting.task
    return connecting.sock.fileno()


async def _cancelled_after(steps: int) -> int:
    """The descriptor of a connection that is given up so many steps after its begin."""
    connecting = _Connecting()
    for _ in range(steps):
        await asyncio.sleep(0)
    connecting.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting.task
    connecting.peer.close()
    return connecting.sock.fileno()


def test_a_reset_within_the_handshake_leaves_no_descriptor() -> None:
    """Its number may be another connection's, or a file's, when the socket is collected."""

    async def scenario() -> list[int]:
        return [await _reset_after(steps) for steps in _STEPS]

    assert set(run(scenario())) == {-1}


def test_a_connection_given_up_within_the_handshake_leaves_no_descriptor() -> None:
    """As when a time limit ends."""

    async def scenario() -> list[int]:
        return [await _cancelled_after(steps) for steps in _STEPS if steps]

    assert set(run(scenario())) == {-1}


def test_the_descriptors_are_closed() -> None:
    """By the transports that have taken them over."""

    async def scenario() -> tuple[int, int]:
        await _reset_after(1)
        before = _descriptors()
        for steps in _STEPS:
            await _reset_after(steps)
            await _cancelled_after(1 + steps)
        await asyncio.sleep(0.05)
        return before, _descriptors()

    before, after = run(scenario())

    assert after <= before


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def _ignoring() -> None:
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)


async def _cleaning_up(done: list[str]) -> None:
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.01)
        done.append("cleaned up")


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_task_that_ignores_its_cancellation_keeps_no_process_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plugin may do so, and no signal but SIGKILL would end the process."""
    # A machine that stands still for a while must not take the time to clean up away.
    monkeypatch.setattr(event_loop, "END_SECONDS", 1.0)
    done: list[str] = []
    left = []

    async def main() -> str:
        left.append(asyncio.create_task(_ignoring()))
        left.append(asyncio.create_task(_cleaning_up(done)))
        await asyncio.sleep(0)
        return "result"

    assert run(main()) == "result"
    assert done == ["cleaned up"]
    assert [task.done() for task in left] == [False, True]


def test_the_error_of_the_main_coroutine_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop is stopped by an error of its own."""
    monkeypatch.setattr(event_loop, "END_SECONDS", 0.05)
    left = []

    async def main() -> None:
        left.append(asyncio.create_task(_ignoring()))
        await asyncio.sleep(0)
        raise LookupError

    with pytest.raises(LookupError):
        run(main())
