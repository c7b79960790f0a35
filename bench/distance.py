"""``python -m bench.distance``: an API server that is far away, on a machine where nothing is.

Connections to the port given here go on to the server of a kubeconfig; what is sent arrives half of
the milliseconds later, in both directions and in order, however much is on its way.
"""

import asyncio
from asyncio import BaseTransport, Transport
from pathlib import Path
from typing import cast

import click
import uvloop
from typing_extensions import override
from yarl import URL

from e2e.support.api import Credentials


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path), required=True)
@click.option("--port", type=int, required=True, help="Where to listen, on the loopback.")
@click.option("--milliseconds", type=float, required=True, help="There and back together.")
def main(kubeconfig: Path, port: int, milliseconds: float) -> None:
    """Forward connections until ended."""
    uvloop.run(_serve(kubeconfig, port, milliseconds / 2000))


async def _serve(kubeconfig: Path, port: int, seconds: float) -> None:
    server = URL((await Credentials.load(kubeconfig)).server)
    assert server.host is not None
    assert server.port is not None
    async with await listen((server.host, server.port), port, seconds) as listening:
        await listening.serve_forever()


async def listen(server: tuple[str, int], port: int, seconds: float) -> asyncio.Server:
    """Gives what forwards connections to a server, and holds back each way for so long.

    Args:
        server: host and port.
        port: on the loopback; 0 for any.
        seconds: what each direction takes.
    """
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: _Near(server, seconds), "127.0.0.1", port)


class _End(asyncio.Protocol):
    """One end of a connection; what comes here leaves at the other one later."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.transport: Transport | None = None
        self.other: _End | None = None

    @override
    def connection_made(self, transport: BaseTransport) -> None:
        self.transport = cast("Transport", transport)

    @override
    def data_received(self, data: bytes) -> None:
        asyncio.get_running_loop().call_later(self._seconds, self._forward, data)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        asyncio.get_running_loop().call_later(self._seconds, self._close_other)

    def _forward(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def _close_other(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class _Near(_End):
    """The end of somebody who connects."""

    def __init__(self, server: tuple[str, int], seconds: float) -> None:
        super().__init__(seconds)
        self._server = server
        self._reaching: asyncio.Task[None] | None = None

    @override
    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        # Nothing is read before there is somewhere to send it.
        cast("Transport", transport).pause_reading()
        self._reaching = asyncio.create_task(self._reach())

    async def _reach(self) -> None:
        assert self.transport is not None
        self.other = far = _End(self._seconds)
        far.other = self
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: far, *self._server)
        except OSError:
            self.transport.close()
        else:
            self.transport.resume_reading()


if __name__ == "__main__":
    main()
