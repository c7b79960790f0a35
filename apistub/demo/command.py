"""`stowage demo`: a cluster in memory, the real daemon, and a load to watch."""

import asyncio
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import click
import uvloop
from rich.console import Console

from apistub.demo.cluster import Cluster
from apistub.demo.connection import Connection
from apistub.demo.keeping import how_to_go_on, stay
from apistub.demo.load import URGENT, Load, make_load
from apistub.demo.processes import DemoError, Program, died, start_daemon, start_sandbox
from apistub.demo.screen import LineScreen, LiveScreen, Screen
from apistub.demo.story import NODES, PODS, Story
from apistub.demo.verdict import judge, speed
from apistub.storage.timestamps import time_text
from scheduler.api.objects import Node, Pod
from scheduler.clock import Clock, SystemClock
from scheduler.tools.cli.echo import echo

_FEWEST_NODES: Final = 12
_MOST_NODES: Final = 5_000
_FEWEST_PODS: Final = 120
_PODS_PER_NODE: Final = 60
_FRAME_SECONDS: Final = 0.125
_FRAME_SECONDS_PER_POD: Final = 50e-6
_LIMIT_SECONDS: Final = 27.0
_PATIENCE_SECONDS: Final = 20.0
_START_LIMIT_SECONDS: Final = 60.0
_INTERRUPTED: Final = 130
_TERMINATED: Final = 143


@click.command()
@click.option(
    "--nodes",
    default=60,
    show_default=True,
    type=click.IntRange(_FEWEST_NODES, _MOST_NODES),
    help="Nodes at the beginning.",
)
@click.option(
    "--pods",
    default=600,
    show_default=True,
    type=click.IntRange(min=_FEWEST_PODS),
    help=f"Pods to submit, at most {_PODS_PER_NODE} for each node.",
)
@click.option("--seed", default=1, show_default=True, help="Another seed gives another load.")
@click.option(
    "--keep",
    is_flag=True,
    help="Stay up afterwards, in a browser, in `stowage top` and for kubectl, until Ctrl-C.",
)
def demo(nodes: int, pods: int, seed: int, *, keep: bool) -> None:
    """Show the scheduler at work, without any cluster.

    Starts an API server in memory (a stand-in: it forgets everything when it ends), fills it with
    nodes, starts `stowage run` against it over HTTP exactly as in a cluster, and submits pods of
    several workloads. On the way it cordons nodes, adds some, and removes a scheduling gate; at
    last an important pod takes the place of another one. One pod fits nowhere, one is for another
    scheduler.

    The exit status is 0 when every pod that can be bound is bound, no other one was touched and no
    node was promised more than it has.
    """
    if pods > nodes * _PODS_PER_NODE:
        raise click.UsageError(
            f"--pods {pods}: {nodes} nodes take at most {nodes * _PODS_PER_NODE} pods here, "
            "give more --nodes"
        )
    try:
        sys.exit(uvloop.run(_run(nodes, pods, seed, SystemClock(), keep=keep)))
    except DemoError as problem:
        echo(f"stowage demo: {problem}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except asyncio.CancelledError:
        sys.exit(_TERMINATED)


async def _run(nodes: int, pods: int, seed: int, clock: Clock, *, keep: bool) -> int:
    start = clock.monotonic()

    def seconds() -> float:
        return clock.monotonic() - start

    _end_on_signals()
    console = Console()
    load = make_load(nodes, pods, seed, time_text(clock.wall()))
    cluster = Cluster()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stowage-demo-")))
        kubeconfig = folder / "kubeconfig"
        sandbox, url = await start_sandbox(kubeconfig)
        await stack.enter_async_context(sandbox)
        daemon = await start_daemon(kubeconfig, folder / "stowage.log")
        await stack.enter_async_context(daemon)
        connection = Connection(await stack.enter_async_context(Connection.session(url)))
        kind = LiveScreen if console.is_terminal else LineScreen
        screen = kind(console, cluster, len(load.expected), seconds)
        stage = _Stage(seconds, connection, cluster, load, screen)
        with screen:
            screen.tell(f"an API server in memory (the sandbox, a stand-in) listens on {url}")
            await stage.play(daemon)
        is_good = _report(console, stage)
        if keep:
            await stay(console, kubeconfig, daemon, show=is_good)
        else:
            how_to_go_on(console)
        return await _end(console, daemon, is_good=is_good)


def _end_on_signals() -> None:
    """Lets SIGTERM and a closed terminal end the demo with its children, as Ctrl-C does."""
    task = asyncio.current_task()
    if task is None:
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


class _Stage:
    """One run of the demo."""

    def __init__(
        self,
        seconds: Callable[[], float],
        connection: Connection,
        cluster: Cluster,
        load: Load,
        screen: Screen,
    ) -> None:
        self.seconds = seconds
        self._connection = connection
        self._screen = screen
        self._is_performed = False
        # Every frame looks at all pods.
        self._frame_seconds = max(_FRAME_SECONDS, len(load.pods) * _FRAME_SECONDS_PER_POD)
        self.cluster = cluster
        self.load = load
        self.story = Story(connection, cluster, load, screen.tell)

    async def play(self, daemon: Program) -> None:
        """Performs the story and waits until all is settled, or takes too long.

        Raises:
            DemoError: the daemon ends, or the API server refuses something.
        """
        await self.story.prepare()
        activities: tuple[Coroutine[Any, Any, None], ...] = (
            self._connection.follow(NODES, Node, self._node_event),
            self._connection.follow(PODS, Pod, self._pod_event),
            died(daemon),
            self._act(),
            self._draw_until_finished(),
        )
        tasks = [asyncio.create_task(activity) for activity in activities]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _act(self) -> None:
        await self.story.perform()
        self._is_performed = True
        await asyncio.Event().wait()

    async def _draw_until_finished(self) -> None:
        while not self._has_finished():
            self._screen.show()
            await asyncio.sleep(self._frame_seconds)

    def _has_finished(self) -> bool:
        """Whether all that fits has a node, or nothing happens any more though it is late."""
        if self._is_performed and not self.cluster.without_node({*self.load.expected, URGENT}):
            return True
        seconds = self.seconds()
        if self.cluster.first_bound_at is None:
            # On a busy machine Python itself may take long to start.
            return seconds > _START_LIMIT_SECONDS
        is_late = seconds > _LIMIT_SECONDS
        return is_late and seconds - self.cluster.last_bound_at > _PATIENCE_SECONDS

    def _node_event(self, kind: str, node: Node) -> None:
        if kind in {"ADDED", "MODIFIED"}:
            self.cluster.node_changed(node)

    def _pod_event(self, kind: str, pod: Pod) -> None:
        if kind == "DELETED":
            self.cluster.pod_gone(pod.metadata.name)
        else:
            self.cluster.pod_changed(pod, self.seconds())


def _report(console: Console, stage: _Stage) -> bool:
    """Prints how it went; whether every promise was kept."""
    console.print()
    console.print(f"{speed(stage.cluster)}. The demo took {stage.seconds():.1f}s.", highlight=False)
    promises = judge(stage.cluster, stage.load, stage.story.cordoned)
    for promise in promises:
        mark = "[green]ok [/]" if promise.is_kept else "[red]NOT[/]"
        console.print(f"{mark} {promise.text}", highlight=False)
        if not promise.is_kept and promise.detail:
            console.print(f"    {promise.detail}", highlight=False, markup=False, soft_wrap=True)
    return all(promise.is_kept for promise in promises)


async def _end(console: Console, daemon: Program, *, is_good: bool) -> int:
    status = await daemon.stop()
    if status:
        console.print(f"[red]NOT[/] `{daemon.name}` was told to end and gave status {status}")
        console.print(daemon.last_lines(), markup=False, highlight=False)
    return int(bool(status) or not is_good)
