"""The event loop of all commands that talk to a server."""

import socket
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop
from typing_extensions import override

R = TypeVar("R")


class EventLoop(uvloop.Loop):
    """uvloop's loop, in which a connection that fails leaves no descriptor to be closed twice.

    If the peer resets a connection within the TLS handshake, uvloop closes the descriptor and
    leaves its number in the socket object. The garbage collector would close the number again when
    another connection or file has it.
    """

    @override
    async def create_connection(
        self, *args: Any, sock: socket.socket | None = None, **kwargs: Any
    ) -> Any:
        """See `asyncio.loop.create_connection`; a socket that is passed in is taken over."""
        try:
            return await super().create_connection(*args, sock=sock, **kwargs)
        except BaseException:
            if sock is not None:
                # The transport has closed the descriptor, or will.
                sock.detach()
            raise


def run(main: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine in a new loop, and close the loop at its end."""
    return uvloop.run(main, loop_factory=EventLoop)
