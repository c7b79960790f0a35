"""``python -m bench.unrecorded FLAG...``: ``stowage run`` without its flight recorder.

For comparisons only. FLAGS are those of ``stowage run``.
"""

import click
import uvloop

from scheduler.bootstrap.daemon import RunningDaemon
from scheduler.client.connection import load_connection
from scheduler.clock import SystemClock
from scheduler.config.command_line import CONTEXT_SETTINGS, FlagCommand, flag_options
from scheduler.config.options import RunOptions, effective_configuration
from scheduler.observability import logs


@click.command(cls=FlagCommand, context_settings=CONTEXT_SETTINGS)
@flag_options
def main(options: RunOptions) -> None:
    """Schedule, and keep nothing of it."""
    uvloop.run(_run(options))


async def _run(options: RunOptions) -> None:
    clock = SystemClock()
    logs.configure(clock, options.v, options.logging_format)
    config, _ = effective_configuration(options, {})
    kubeconfig = config.client_connection.kubeconfig
    connection = await load_connection(kubeconfig=kubeconfig, master=options.master, clock=clock)
    daemon = RunningDaemon(options, config, connection, clock)
    daemon.driver._event_logs = ()
    await daemon.run()


if __name__ == "__main__":
    main()
