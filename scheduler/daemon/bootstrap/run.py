"""``stowage run``: connect, and run a daemon until its end."""

import asyncio
import os

from scheduler.clock import Clock
from scheduler.config.options import RunOptions
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.daemon.bootstrap.daemon import RunningDaemon
from scheduler.daemon.client.connection import load_connection
from scheduler.observability import tracing
from scheduler.observability.logs import get_logger
from scheduler.observability.tracing import SpanExporter

log = get_logger(__name__)


async def run_daemon(options: RunOptions, config: KubeSchedulerConfiguration, clock: Clock) -> None:
    """Connect to the API server and run the daemon until it ends.

    Raises:
        ConnectionConfigError: the configuration of the connection is wrong.
        SchedulerError: the daemon cannot run; the message names the reason.
        LeaseLostError: the lease was lost.
    """
    connection = await load_connection(
        kubeconfig=config.client_connection.kubeconfig, master=options.master, clock=clock
    )
    log.info(
        "Starting",
        server=connection.access.server,
        profiles=[p.scheduler_name for p in config.profiles],
    )
    spans = _spans(clock)
    try:
        await RunningDaemon(options, config, connection, clock, spans).run()
    finally:
        if spans is not None:
            # Sending the remaining spans may wait for a collector that does not answer.
            await asyncio.to_thread(spans.close)


def _spans(clock: Clock) -> SpanExporter | None:
    """Set up tracing if environment variables of OpenTelemetry name an exporter of spans."""
    if not tracing.is_wanted(os.environ):
        return None
    try:
        return tracing.open_telemetry(clock)
    except tracing.TracingUnavailableError as problem:
        log.warning("No spans are sent", reason=str(problem))
        return None
