"""The sandbox as a program: `python -m apistub --port 8001`."""

import asyncio
import gc
import signal
from pathlib import Path
from typing import Final

import click
import uvloop

from apistub.samples import sample_node
from apistub.sandbox import Sandbox, Settings
from apistub.storage.timestamps import time_text
from scheduler.clock import SystemClock
from scheduler.tools.cli.echo import echo

NOTICE: Final = (
    "This is Stowage's stand-in for a Kubernetes API server. It lives in memory, "
    "grants everything and forgets everything when it ends. Not for production."
)
LISTENING: Final = "listening on "
# The objects are bytes; what the collector would walk through is garbage of single requests.
_GC_THRESHOLDS: Final = (50_000, 20, 50)


@click.command(name="python -m apistub")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8001, show_default=True, help="0 lets the system choose.")
@click.option(
    "--kubeconfig",
    "kubeconfig_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a kubeconfig to this file.",
)
@click.option("--nodes", default=0, show_default=True, help="Nodes to begin with.")
def main(host: str, port: int, kubeconfig_path: Path | None, nodes: int) -> None:
    """Serve a Kubernetes API from memory until SIGTERM or SIGINT."""
    gc.set_threshold(*_GC_THRESHOLDS)
    settings = Settings(host=host, port=port, run_kubelet=True, run_workloads=True)
    uvloop.run(_serve(settings, kubeconfig_path, nodes))


async def _serve(settings: Settings, kubeconfig_path: Path | None, nodes: int) -> None:
    echo(NOTICE)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    try:
        sandbox = await Sandbox.start(settings)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}"
        ) from error
    async with sandbox:
        now = time_text(SystemClock().wall())
        sandbox.create(*(sample_node(index, ready_since=now) for index in range(nodes)))
        if kubeconfig_path is not None:
            sandbox.write_kubeconfig(kubeconfig_path)
            echo(f"kubeconfig written to {kubeconfig_path}")
        echo(f"{LISTENING}{sandbox.url}")
        await ended.wait()


if __name__ == "__main__":
    main()
