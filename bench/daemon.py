"""``python -m bench.daemon CONCURRENCY MAX_OWED FLAG...``: ``stowage run`` with another outbox.

For comparisons with another number of concurrent requests, or without a bound on pending writes
(0). FLAGS are those of ``stowage run``.
"""

import socket
import sys

import click

from scheduler.clock import SystemClock
from scheduler.config.command_line import CONTEXT_SETTINGS, FlagCommand, flag_options
from scheduler.config.options import RunOptions, effective_configuration
from scheduler.daemon.bootstrap.daemon import RunningDaemon
from scheduler.daemon.client import event_loop
from scheduler.daemon.client.connection import load_connection
from scheduler.daemon.driver.daemon import return_large_blocks
from scheduler.daemon.driver.lanes import OutboxSettings
from scheduler.observability import logs


@click.command(cls=FlagCommand, context_settings=CONTEXT_SETTINGS)
@flag_options
def main(options: RunOptions) -> None:
    """Run the scheduler with the outbox in the click context."""
    settings = click.get_current_context().find_object(OutboxSettings)
    return_large_blocks()
    event_loop.run(_run(options, settings))


async def _run(options: RunOptions, settings: OutboxSettings | None) -> None:
    clock = SystemClock()
    logs.configure(clock, options.v, options.logging_format)
    config, _ = effective_configuration(options, {})
    kubeconfig = config.client_connection.kubeconfig
    connection = await load_connection(kubeconfig=kubeconfig, master=options.master, clock=clock)
    await RunningDaemon(options, config, connection, clock, outbox_settings=settings).run()


if __name__ == "__main__":
    concurrency, max_owed, *flags = sys.argv[1:]
    main(args=flags, obj=OutboxSettings(socket.gethostname(), int(concurrency), int(max_owed)))
