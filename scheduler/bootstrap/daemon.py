"""The daemon, put together: client, informers, engine, elector, metrics, endpoints.

Source: kubernetes cmd/kube-scheduler/app/server.go (Setup, Run) v1.36.
"""

import asyncio
import os
import random
import signal
import socket
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry

from scheduler.bootstrap.engine import (
    Core,
    FrameworkBuilder,
    Recorders,
    Surroundings,
    build_core,
    implemented_plugins,
    out_of_tree_plugins,
)
from scheduler.bootstrap.measuring import (
    WATCH_ENDS,
    HandlerTimes,
    InformerCounts,
    counted,
    watch_sizes,
)
from scheduler.cache import CacheComparer
from scheduler.client.binding import PodClient
from scheduler.client.connection import Connection, load_connection
from scheduler.client.event_recorder import EventRecorder
from scheduler.client.events import NORMAL, ObjectReference
from scheduler.client.leases import LeaseLock
from scheduler.client.reviews import Reviews
from scheduler.client.session import ApiSession
from scheduler.clock import Clock
from scheduler.config.notices import not_in_effect
from scheduler.config.options import RunOptions
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.config.write import to_object
from scheduler.daemon import Cycles, Daemon
from scheduler.event_handlers import NamespaceHandler, NodeHandler, ObjectHandler, PodHandler
from scheduler.framework.events import EventResource
from scheduler.framework.interface import Plugin
from scheduler.informers.informer import InformerOptions
from scheduler.informers.informers import Informers
from scheduler.informers.kinds import (
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    Kind,
)
from scheduler.leader_election.election import LeaderElectionSettings
from scheduler.leader_election.elector import ElectionCallbacks, LeaderElector, unique_identity
from scheduler.observability import tracing
from scheduler.observability.dumps import in_full
from scheduler.observability.logs import get_logger
from scheduler.observability.metrics import SchedulerMetrics
from scheduler.observability.recorders import (
    CycleMetrics,
    PluginMetrics,
    QueueMetrics,
    RequestMetrics,
)
from scheduler.observability.tracing import CycleTracer, SpanExporter
from scheduler.reporting import StatusReporter
from scheduler.serving.endpoints import Shown
from scheduler.serving.health import scheduler_checks
from scheduler.serving.server import Server

LAST_WORDS_SECONDS: Final = 5.0
"""How long events and status patches may take after the last bind."""

MASTER_STATUS_NAME: Final = "kube-scheduler"
"""What dashboards select leader_election_master_status by, whatever the Lease is called."""

WORKLOAD_KINDS: Final[tuple[tuple[Kind[Any], str, EventResource | None], ...]] = (
    (SERVICES, "Service", EventResource.SERVICE),
    (REPLICATION_CONTROLLERS, "ReplicationController", None),
    (REPLICA_SETS, "ReplicaSet", None),
    (STATEFUL_SETS, "StatefulSet", None),
)
"""Kinds whose selectors say which pods belong together."""

BUSY_BINDS: Final = 4
"""More binds in flight than this, and events make way: the API server is behind."""

log = get_logger(__name__)


class Client(msgspec.Struct, frozen=True):
    """What speaks to the API server."""

    session: ApiSession
    pods: PodClient
    recorder: EventRecorder
    reporter: StatusReporter
    elector: LeaderElector | None


class RunningDaemon:
    """One daemon and everything around it.

    Attributes:
        core: what decides.
        daemon: what keeps it going.
        metrics: what is counted.
        comparer: holds cache and queue against the informers.
    """

    def __init__(
        self,
        options: RunOptions,
        config: KubeSchedulerConfiguration,
        connection: Connection,
        clock: Clock,
        spans: SpanExporter | None = None,
        *,
        out_of_tree: Mapping[str, type[Plugin]] | None = None,
        informer_options: InformerOptions | None = None,
    ) -> None:
        """Put everything together; nothing runs yet.

        Args:
            options: flags.
            config: profiles and the rest.
            connection: the way to the API server.
            clock: the time.
            spans: where traces go, if anywhere.
            out_of_tree: plugin classes by name; by default those that installed packages announce.
            informer_options: times of lists and watches.
        """
        self._spans = spans
        self.metrics = SchedulerMetrics(CollectorRegistry())
        self._options = options
        self._config = config
        self._connection = connection
        self._clock = clock
        self._rng = random.Random()  # noqa: S311 - spreads load, keeps no secret
        self._ready = asyncio.Event()
        self._client = self._connect()
        builder = FrameworkBuilder(
            self._client.pods,
            clock.monotonic,
            observer=lambda profile: PluginMetrics(self.metrics, profile),
            out_of_tree=out_of_tree_plugins() if out_of_tree is None else out_of_tree,
        )
        self.core = self._build_core(builder)
        self._informers = Informers(
            self._client.session,
            clock=clock,
            rng=self._rng,
            hooks=InformerCounts(self.metrics),
            options=informer_options,
        )
        self._listen(builder)
        self.daemon = Daemon(
            Cycles(self.core.scheduler, self.core.binding, self.core.engine.queue, self._ready),
            informers=self._informers,
            leadership=self._client.elector,
            clock=clock,
            on_stall=self.metrics.loop_stall.observe,
        )
        self.comparer = self._comparer()
        watch_sizes(self.core, self.metrics)

    # --- running --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until a signal, or until the lease is lost.

        Raises:
            LeaseLostError: another instance may lead now.
        """
        self._handle_signals()
        background: list[Coroutine[Any, Any, None]] = [
            self._client.recorder.run(),
            self._client.reporter.run(),
            self._connection.keep_fresh(
                lambda problem: log.warning("Credentials not renewed", reason=str(problem))
            ),
        ]
        server = self._server()
        try:
            if server is not None:
                await server.start()
            await self.daemon.run(background, self._last_words)
        finally:
            if server is not None:
                await server.stop()
            await self._client.session.close()

    async def _last_words(self) -> None:
        """Send the events and patches that still wait."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._client.reporter.drain(LAST_WORDS_SECONDS))
            group.create_task(self._client.recorder.drain(LAST_WORDS_SECONDS))

    def _server(self) -> Server | None:
        """The secure port, unless it is switched off by `--secure-port=0`."""
        if not self._options.secure_port:
            return None
        elector, health = self._client.elector, self.daemon.health
        shown = Shown(
            metrics=self.metrics.registry,
            reset_metrics=self.metrics.reset,
            configuration=lambda: to_object(self._config),
            flags=self._options.given,
            checks=scheduler_checks(
                leader_election=None if elector is None else elector.check_healthy,
                is_shutting_down=lambda: health.shutting_down,
                is_synced=lambda: health.handlers_synced,
                blind_kinds=lambda: self._informers.blind(self._clock.monotonic()),
            ),
            debug={"cache": self.comparer.dump, "queue": self.core.engine.queue.rows},
            level_can_be_set=bool(self._config.enable_profiling),
        )
        return Server(self._options, shown, Reviews(self._client.session), self._clock)

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.daemon.stop)
        loop.add_signal_handler(signal.SIGUSR2, self._compare_and_dump)

    def _compare_and_dump(self) -> None:
        """SIGUSR2. Source: pkg/scheduler/backend/cache/debugger v1.36."""
        log.info("Cache comparer started")
        comparison = self.comparer.compare()
        if not comparison.agrees:
            log.warning("Cache mismatch", **msgspec.to_builtins(comparison))
        log.info("Cache comparer finished")
        log.info("Dump of cached NodeInfo", **in_full(self.comparer.dump()))
        log.info("Dump of scheduling queue", pods=self.core.engine.queue.dump())

    # --- building -------------------------------------------------------------------------------

    def _connect(self) -> Client:
        connection_config = self._config.client_connection
        session = ApiSession(
            self._connection,
            clock=self._clock,
            qps=max(0.0, connection_config.qps),
            burst=connection_config.burst,
            observer=RequestMetrics(self.metrics),
        )
        hostname = socket.gethostname()
        recorder = EventRecorder(
            session,
            self._clock,
            hostname=hostname,
            makes_way=lambda: self._client.pods.binds_in_flight > BUSY_BINDS,
            on_dropped=lambda _reason: self.metrics.events_dropped.inc(),
        )
        elector = self._elector(session, recorder)
        fence = None if elector is None else elector.is_leading
        pods = PodClient(session, fence=fence)
        reporter = StatusReporter(pods, recorder, self._clock)
        return Client(session, pods, recorder, reporter, elector)

    def _elector(self, session: ApiSession, recorder: EventRecorder) -> LeaderElector | None:
        election = self._config.leader_election
        if not election.leader_elect:
            return None
        name, namespace = election.resource_name, election.resource_namespace
        status = self.metrics.leader_election_master_status[MASTER_STATUS_NAME]
        profile = self._config.profiles[0].scheduler_name

        def report(text: str) -> None:
            recorder.record(
                ObjectReference(
                    kind="Lease",
                    api_version="coordination.k8s.io/v1",
                    namespace=namespace,
                    name=name,
                ),
                reason="LeaderElection",
                action="LeaderElection",
                note=text,
                reporting_controller=profile,
                event_type=NORMAL,
            )

        status.set(0)
        return LeaderElector(
            LeaseLock(session, namespace, name),
            LeaderElectionSettings(
                identity=unique_identity(),
                lease_duration_seconds=election.lease_duration_seconds,
                renew_deadline_seconds=election.renew_deadline_seconds,
                retry_period_seconds=election.retry_period_seconds,
            ),
            clock=self._clock,
            rng=self._rng,
            callbacks=ElectionCallbacks(
                on_started_leading=lambda: status.set(1),
                on_stopped_leading=lambda: status.set(0),
                on_event=report,
            ),
        )

    def _build_core(self, builder: FrameworkBuilder) -> Core:
        frameworks = builder.build(self._config)
        for name, framework in frameworks.items():
            self.metrics.declare_plugins(name, counted(framework.plugins))
        return build_core(
            self._config,
            frameworks,
            Surroundings(
                clock=self._clock,
                random=self._rng,
                writer=self._client.reporter,
                recorders=Recorders(
                    CycleMetrics(self.metrics, CycleTracer(log, self._spans)),
                    QueueMetrics(self.metrics),
                ),
                on_ready=self._ready.set,
                max_in_unschedulable_seconds=self._options.pod_max_in_unschedulable_pods_duration,
            ),
        )

    def _listen(self, builder: FrameworkBuilder) -> None:
        engine = self.core.engine
        times, now = HandlerTimes(self.metrics), self._clock.monotonic
        self._informers.of(PODS).add_handler(
            PodHandler(
                engine.cache, engine.queue, engine.waiting, engine.frameworks.keys(), times, now
            )
        )
        self._informers.of(NODES).add_handler(NodeHandler(engine.cache, engine.queue, times, now))
        self._informers.of(NAMESPACES).add_handler(NamespaceHandler(engine.cache, engine.queue))
        self.metrics.declare_kinds(
            (PODS.name, NODES.name, NAMESPACES.name, *(kind.name for kind, _, _ in WORKLOAD_KINDS)),
            WATCH_ENDS,
        )
        for kind, name, resource in WORKLOAD_KINDS:
            self._informers.of(kind).add_handler(
                ObjectHandler(
                    resource,
                    engine.queue,
                    _bound(builder.workloads.set, name),
                    _bound(builder.workloads.remove, name),
                )
            )

    def _comparer(self) -> CacheComparer:
        queue = self.core.engine.queue
        return CacheComparer(
            self.core.engine.cache,
            self._informers.of(NODES).store.values,
            lambda: [
                pod
                for pod in self._informers.of(PODS).store.values()
                if pod.node_name or pod.spec.scheduler_name in self.core.engine.frameworks
            ],
            lambda: (pod.uid for pod in queue.pending_pods()[0]),
        )


def _bound(method: Callable[[Any, Any], Any], name: str) -> Callable[[object], None]:
    def call(obj: object) -> None:
        method(name, obj)

    return call


async def run_daemon(options: RunOptions, config: KubeSchedulerConfiguration, clock: Clock) -> None:
    """Connect and run until the end.

    Raises:
        ConnectionConfigError: the way to the API server cannot be worked out.
        SchedulerError: something a person can act on.
        LeaseLostError: another instance may lead now.
    """
    for notice in not_in_effect(config, implemented_plugins(out_of_tree_plugins()).keys()):
        log.warning("Not in effect", notice=notice)
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
            # Sending what is left may wait for a collector that is not there.
            await asyncio.to_thread(spans.close)


def _spans(clock: Clock) -> SpanExporter | None:
    """Tracing, when OpenTelemetry's variables say where spans go."""
    if not tracing.is_wanted(os.environ):
        return None
    try:
        return tracing.open_telemetry(clock)
    except tracing.TracingUnavailableError as problem:
        log.warning("No spans are sent", reason=str(problem))
        return None
