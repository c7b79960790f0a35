"""`stowage console`: the command."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Final, NoReturn

import click

from scheduler.clock import Clock, SystemClock
from scheduler.daemon.client import event_loop
from scheduler.errors import SchedulerError
from scheduler.observability import logs
from scheduler.tools.cli.echo import echo
from scheduler.tools.cli.inputs import refuse
from scheduler.tools.cli.live import ClusterAddress, check_lists
from scheduler.tools.cli.options import command
from scheduler.tools.cli.recordings import seconds_at
from scheduler.tools.cli.sources import InputSource, recorded_options, source_options
from scheduler.tools.cli.watching import watching
from scheduler.tools.console.scenes import ClusterScene, FileScene, RecordingScene, Scene
from scheduler.tools.console.server import Console, check_address
from scheduler.tools.offline.reading import InputError

PORT: Final = 10280
_EVERYWHERE: Final = (
    "every client that reaches this address sees the cluster with your rights: put it behind a "
    "proxy that asks for a login"
)


@command()
@source_options
@recorded_options
@click.option(
    "--address",
    default="127.0.0.1",
    show_default=True,
    help="Where to listen. Pages have no login: on another address than loopback others see them.",
)
@click.option(
    "--port",
    default=PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="0 lets the system choose.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Another name under which the pages are asked for, as behind a proxy. May be given "
    "several times.",
)
def console(*, source: InputSource, address: str, port: int, hosts: tuple[str, ...]) -> None:
    """Serve pages for a browser: what waits and why, what would help, what if, and replay.

    They show the cluster of the kubeconfig (rights to read are enough), files, or a recording, so
    that a ticket can be looked at without a cluster. Nothing is changed.

    \b
      stowage console
      stowage console -f cluster.json
      stowage console --recording DIR --at 2026-01-31T02:00:00Z
      kubectl -n stowage port-forward deploy/stowage 10259 &
      stowage console --daemon https://localhost:10259 --insecure-skip-tls-verify

    Events of a pod show where they may be listed. The exit status is 2 when the cluster, files, the
    recording or the configuration cannot be used.
    """  # noqa: D301 - \b is click's mark for lines to keep
    clock = SystemClock()
    logs.configure(clock, 0)
    try:
        event_loop.run(check_address(address, port))
        # Outside of the event loop, where Ctrl-C ends it: a recording may take minutes.
        scene, notices = _opened(source, clock)
        made = partial(
            Console,
            scene,
            clock,
            notices=notices,
            hosts=hosts,
            admission_of=source.admission_beside,
        )
        place = ClusterAddress(source.kubeconfig, source.context)
        event_loop.run(_serve(_watched(scene, place, clock, made), address, port))
    except SchedulerError as problem:
        refuse("console", problem)


async def _serve(opening: AbstractAsyncContextManager[Console], address: str, port: int) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with opening as pages:
        url = await pages.start(address, port)
        echo(f"Stowage console: {url}  (Ctrl-C ends it)")
        if not address.startswith("127.") and address not in ("localhost", "::1"):
            echo(f"note: {_EVERYWHERE}", err=True)
        try:
            await ended.wait()
        finally:
            await pages.stop()


@asynccontextmanager
async def _watched(
    scene: Scene, place: ClusterAddress, clock: Clock, made: Callable[..., Console]
) -> AsyncIterator[Console]:
    """Make the console of a scene, and watch the cluster of a `ClusterScene` meanwhile."""
    if not isinstance(scene, ClusterScene):
        yield made()
        return
    async with watching(place, scene.profiles, scene.submit, clock) as watched:
        scene.watch(watched)
        yield made(session=watched.session)


def _opened(source: InputSource, clock: Clock) -> tuple[Scene, tuple[str, ...]]:
    """Open the scene of a source, with its notices; a cluster is not watched yet."""
    recorded = source.recorded
    if recorded is None and not source.files:
        check_lists(ClusterAddress(source.kubeconfig, source.context))
        profiles, notices = source.profiles()
        return ClusterScene(profiles, clock), notices
    if recorded is None:
        objects, profiles, notices = source.read()
        title = ", ".join(source.files)
        return FileScene(objects, profiles, title, clock), (*objects.warnings, *notices)
    recorded.check()
    if source.files:
        _refuse_both()
    if source.config_file is not None or source.feature_gates or source.instances:
        raise InputError(
            "--daemon and --recording show the recorded profiles: leave out --config, "
            "--feature-gates and --instance"
        )
    with recorded.opened(source.kubeconfig, source.context) as recording:
        at = recorded.moment
        moment = None if at is None else seconds_at(recording, at)
        title = recorded.daemon or f"recording {recording.paths[0].parent}"
        return RecordingScene(recording, title, moment), ()


def _refuse_both() -> NoReturn:
    raise click.UsageError("-f asks files, --daemon and --recording a daemon: give one")
