"""``python -m bench.distance``: simulates latency to the API server."""

import asyncio
import signal
from pathlib import Path

import click
from yarl import URL

from e2e.support.api import Credentials
from e2e.support.tcp_relay import TcpRelay


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path), required=True)
@click.option("--port", type=int, required=True, help="Loopback port to listen on.")
@click.option("--milliseconds", type=float, required=True, help="Round-trip latency.")
def main(kubeconfig: Path, port: int, milliseconds: float) -> None:
    """Relay connections to the API server of a kubeconfig until terminated."""
    server_port = URL(asyncio.run(Credentials.load(kubeconfig)).server).port
    assert server_port is not None
    with TcpRelay(server_port, port, lag_seconds=milliseconds / 2000):
        signal.pause()


if __name__ == "__main__":
    main()
