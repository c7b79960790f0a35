"""The asyncio event loop of all commands that send requests."""

import asyncio
import socket
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

import uvloop
from typing_extensions import override

R = TypeVar("R")

END_SECONDS: Final = 5.0
"""Time limit for remaining tasks to clean up."""


class EventLoop(uvloop.Loop):
    """uvloop's loop without its second close of the descriptor of a failed connection.

    If the peer resets a connection within the TLS handshake, uvloop closes the descriptor and
    leaves its number in the socket object. The garbage collector closes the number again when
    another connection or file may have it.
    """

    @override
    async def create_connection(
        self, *args: Any, sock: socket.socket | None = None, **kwargs: Any
    ) -> Any:
        """See `asyncio.loop.create_connection`; the loop takes ownership of `sock`."""
        try:
            return await super().create_connection(*args, sock=sock, **kwargs)
        except BaseException:
            if sock is not None:
                # The transport has closed the descriptor, or will close it.
                sock.detach()
            raise


def run(main: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine in a new loop, cancel the remaining tasks, and close the loop.

    A task that ignores its cancellation, such as a plugin's, does not keep the process alive.
    """
    runner = asyncio.Runner(loop_factory=EventLoop)
    try:
        return runner.run(main)
    finally:
        loop = runner.get_loop()
        loop.call_later(END_SECONDS, loop.stop)
        # Raised if the loop is stopped while it waits for a task.
        with suppress(RuntimeError):
            runner.close()
