"""What comes after the demo: how to go on, and with `--keep` its cluster in `stowage top`."""

import asyncio
import os
import shutil
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from rich.console import Console

from apistub.demo.processes import Program, died, start_console

_NEXT: Final = """
Next:
  {stowage} demo --keep   the same cluster, in a browser and for kubectl
  {stowage} console       your cluster in pages, http://127.0.0.1:10280/
  {stowage} explain       why pods of your own cluster wait; only reads
  {stowage} run           place its pods that say schedulerName: stowage
"""
_KEPT: Final = """
Still running, until Ctrl-C. In a browser: {console}
Try in another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get pods -n demo -o wide
  kubectl describe pod -n demo giant
  kubectl run mine --image=nginx && kubectl get pod mine -o wide
  {stowage} explain demo/giant
  {stowage} top
"""
_LEFT: Final = "The cluster of the demo is still there, until Ctrl-C."


def how_to_go_on(console: Console) -> None:
    """Prints commands that work from here."""
    console.print(_NEXT.format(stowage=_stowage()), highlight=False)


def _stowage() -> str:
    """How the command is called here: it need not be on the PATH."""
    ours = Path(sys.executable).with_name("stowage")
    found = shutil.which("stowage")
    if not ours.exists() or (found and Path(found).samefile(ours)):
        return "stowage"
    below = os.path.relpath(ours)
    return str(ours) if below.startswith(os.pardir) else below


async def stay(console: Console, kubeconfig: Path, daemon: Program, *, show: bool) -> None:
    """Waits for Ctrl-C, or for the daemon to end.

    Args:
        console: where to say what can be done.
        kubeconfig: leads to the cluster.
        daemon: schedules in it.
        show: whether `stowage top` comes first, where there is a screen for it.

    Raises:
        DemoError: the daemon ended, or the console does not start.
    """
    pages, url = await start_console(kubeconfig)
    async with pages:
        told = _KEPT.format(kubeconfig=kubeconfig, stowage=_stowage(), console=url)
        console.print(told, highlight=False, soft_wrap=True)
        await _until_ended(console, kubeconfig, daemon, show=show)


async def _until_ended(console: Console, kubeconfig: Path, daemon: Program, *, show: bool) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    waiting = asyncio.create_task(ended.wait())
    if show and console.is_terminal and sys.stdin.isatty() and find_spec("textual"):
        await _top(kubeconfig, waiting)
        console.print(_LEFT)
    dying = asyncio.create_task(died(daemon))
    await asyncio.wait([waiting, dying], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if dying.done():
        dying.result()
    dying.cancel()


async def _top(kubeconfig: Path, ended: asyncio.Task[bool]) -> None:
    """Gives the terminal to `stowage top` until it is left, or the demo is to end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "scheduler", "top", f"--kubeconfig={kubeconfig}"
    )
    leaving = asyncio.create_task(process.wait())
    await asyncio.wait([leaving, ended], return_when=asyncio.FIRST_COMPLETED)
    if not leaving.done():
        # It gives the screen back as it was.
        process.send_signal(signal.SIGINT)
    await leaving
