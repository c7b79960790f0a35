"""Composes the daemon of client, informers, engine, elector, metrics and endpoints.

Source: kubernetes cmd/kube-scheduler/app/server.go (Setup, Run) v1.36.
"""

import asyncio
import random
import signal
import socket
from collections.abc import Mapping
from time import thread_time
from typing import Any, Final

import numpy.ma  # noqa: F401 - numpy.unique would import it, in the middle of a decision
from prometheus_client import CollectorRegistry

from scheduler.clock import Clock
from scheduler.config.options import RunOptions
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.config.write import to_object
from scheduler.daemon.bootstrap.dumping import Dumper
from scheduler.daemon.bootstrap.electing import leader_elector
from scheduler.daemon.bootstrap.engine import build_engine
from scheduler.daemon.bootstrap.explaining import LiveExplainer
from scheduler.daemon.bootstrap.frameworks import FrameworkBuilder
from scheduler.daemon.bootstrap.installed import out_of_tree_plugins
from scheduler.daemon.bootstrap.measuring import counted, watch_sizes
from scheduler.daemon.bootstrap.other_leader import warn_of_another
from scheduler.daemon.bootstrap.plugin_failures import PluginFailureLog
from scheduler.daemon.bootstrap.recording import Recorders, without_secrets
from scheduler.daemon.bootstrap.reloading import Reloader
from scheduler.daemon.bootstrap.time_limit import PluginTimeLimit
from scheduler.daemon.client.connection import Connection
from scheduler.daemon.client.extenders import ExtenderClient
from scheduler.daemon.client.reviews import REVIEW_BURST, REVIEW_QPS, ApiReviews
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.client.writes import PodWrites
from scheduler.daemon.driver.daemon import Daemon, LeaseLostError, NotDrainedError
from scheduler.daemon.driver.driver import Driver
from scheduler.daemon.driver.event_broadcaster import DROPPED
from scheduler.daemon.driver.feeding import Feed, listen_in_order
from scheduler.daemon.driver.lanes import OutboxSettings
from scheduler.daemon.driver.outbox import Outbox
from scheduler.daemon.driver.plugin_api import PluginApi
from scheduler.daemon.informers.doubts import Doubts
from scheduler.daemon.informers.informer import InformerOptions
from scheduler.daemon.informers.informers import Informers
from scheduler.daemon.informers.kinds import (
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    WRITTEN,
    Kind,
    group_sources,
    pods_kind,
    watched_kind,
)
from scheduler.daemon.informers.whole_objects import kept_for
from scheduler.daemon.leader_election.elector import LeaderElector
from scheduler.daemon.serving.endpoints import EndpointSources
from scheduler.daemon.serving.health import scheduler_checks
from scheduler.daemon.serving.server import Server
from scheduler.errors import SchedulerError
from scheduler.kernel.cache import CacheComparer
from scheduler.kernel.engine import Engine
from scheduler.kernel.framework.interface import Plugin
from scheduler.kernel.framework.runtime.shared_states import kinds_to_watch
from scheduler.observability.logs import get_logger
from scheduler.observability.loop_shares import LoopShares
from scheduler.observability.metrics import SchedulerMetrics
from scheduler.observability.tracing import CycleTracer, SpanExporter

MASTER_STATUS_NAME: Final = "kube-scheduler"
"""The `name` label of leader_election_master_status, for any name of the Lease."""

log = get_logger(__name__)


class RunningDaemon:
    """One daemon with its client, informers, engine, elector, recorders and endpoints.

    Attributes:
        driver: passes events to the engine, and carries out its instructions.
        daemon: runs the driver.
        metrics: all metrics.
        doubts: the kinds whose stores may be obsolete after a restore of the API server.
        comparer: compares cache and queue with the informers.
        reloader: reloads the configuration when its file changes.
    """

    def __init__(  # noqa: PLR0913, PLR0915 - what differs between a cluster, a test and a benchmark; the parts in their order
        self,
        options: RunOptions,
        config: KubeSchedulerConfiguration,
        connection: Connection,
        clock: Clock,
        spans: SpanExporter | None = None,
        *,
        out_of_tree: Mapping[str, type[Plugin]] | None = None,
        informer_options: InformerOptions | None = None,
        outbox_settings: OutboxSettings | None = None,
    ) -> None:
        """Compose the daemon without starting it.

        `out_of_tree` has plugin classes by name, by default those of installed packages.
        """
        self._spans = spans
        self.metrics = SchedulerMetrics(CollectorRegistry(), config.feature_gates)
        self._options = options
        self._config = config
        self._connection = connection
        self._clock = clock
        self._extenders: ExtenderClient | None = None
        self._shares = LoopShares(self.metrics.loop, clock.monotonic, thread_time)
        self._rng = random.Random()  # noqa: S311 - spreads load, keeps no secret
        seed = self._rng.getrandbits(32)
        plugins = out_of_tree_plugins() if out_of_tree is None else out_of_tree
        self._recorders = Recorders(
            config,
            clock,
            options,
            seed=seed,
            out_of_tree=plugins,
            on_lost=self.metrics.decisions_lost.inc,
        )
        self._session = self._open_session()
        self._review_session = ApiSession(
            connection, clock=clock, qps=REVIEW_QPS, burst=REVIEW_BURST, metrics=self.metrics.client
        )
        self._elector = self._candidate()
        writes = PodWrites(
            self._session, fence=None if self._elector is None else self._elector.may_write
        )
        builder = FrameworkBuilder(
            clock.monotonic,
            instruments=self.metrics.instruments,
            time_limit=PluginTimeLimit,
            on_failed=PluginFailureLog(clock).note,
            out_of_tree=plugins,
        )
        builder.services.epoch = self._recorders.epoch
        engine = self._build_engine(builder, seed)
        self.driver = Driver(engine, clock, event_logs=self._recorders.logs)
        self.driver.plugin_api = PluginApi(writes, WRITTEN, self.driver.submit)
        builder.services.api = self.driver.plugin_api
        self._pods = pods_kind(options.pod_group_apis)
        self._kept = kept_for(engine.core.extenders, self._pods)
        if engine.core.extenders:
            self.driver.extenders = self._extenders = ExtenderClient(
                engine.core.extenders.all,
                self._kept,
                clock=clock,
                fence=None if self._elector is None else self._elector.may_write,
                metrics=self.metrics.extenders,
            )
        for reason in DROPPED:
            self.metrics.events_dropped[reason].inc(0)
        self.doubts = Doubts()
        self.driver.outbox = Outbox(
            writes,
            clock,
            outbox_settings or OutboxSettings(socket.gethostname()),
            answer=self.driver.submit,
            ask_others=self.driver.bind_by_others,
            shares=self._shares,
            queues=self.metrics.work_queues,
            on_sent=self.driver.sent,
            on_dropped=lambda reason: self.metrics.events_dropped[reason].inc(),
            is_held=self.doubts.are_open,
            pods=self._pods,
        )
        self.doubts.on_cleared = self.driver.outbox.resume
        self.doubts.on_set_back = self.driver.set_back
        self._informers = self._listen(informer_options)
        self.daemon = Daemon(
            self.driver,
            informers=self._informers,
            leadership=self._elector,
            clock=clock,
            shares=self._shares,
        )
        self.comparer = self._comparer()
        self._dumper = Dumper(self.comparer, engine.core.queue.rows)
        self.reloader = Reloader(
            options,
            config,
            plugins,
            driver=self.driver,
            pods=self._informers.of(PODS).store,
            metrics=self.metrics,
            clock=clock,
            lease_uid=lambda: "" if self._elector is None else self._elector.lease_uid,
        )
        watch_sizes(self.driver, self.metrics)

    # --- running --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until a signal, or until the lease is lost.

        Raises:
            LeaseLostError: the lease was lost.
            NotDrainedError: the process received a second signal.
        """
        self._handle_signals()
        server = None
        try:
            server = self._server()
            if server is not None:
                await server.start()
            await self._run_daemon()
        finally:
            self._recorders.close()
            if server is not None:
                await server.stop()
            if self._extenders is not None:
                await self._extenders.close()
            await self._review_session.close()
            await self._session.close()

    async def _run_daemon(self) -> None:
        """Run the daemon; after an unexpected error, write a recording of the last minutes."""
        renewing = self._connection.keep_fresh(
            lambda problem: log.warning("Credentials not renewed", reason=str(problem))
        )
        try:
            await self.daemon.run(
                [renewing, self.reloader.follow(), self._look_around(), self._dumper.run()]
            )
        except (LeaseLostError, NotDrainedError):
            raise
        except Exception as problem:
            # A SchedulerError before the sync explains itself; there are no decisions to replay.
            if self.daemon.health.handlers_synced or not isinstance(problem, SchedulerError):
                self._recorders.crashed()
            raise

    async def _look_around(self) -> None:
        """Warn of a deployed instance if this process was started by hand, without --config."""
        if self._options.config:
            await asyncio.Event().wait()
        await warn_of_another(self._session, self._config.leader_election, self._clock)

    def _server(self) -> Server | None:
        """Build the server of the secure port; None with `--secure-port=0`."""
        if not self._options.secure_port:
            return None
        elector, health = self._elector, self.daemon.health
        is_leading = (lambda: True) if elector is None else elector.is_leading
        explainer = LiveExplainer(
            self.driver.engine,
            self._informers.of(PODS).store,
            is_leading,
            self._clock,
        )
        sources = EndpointSources(
            metrics=self.metrics.registry,
            reset_metrics=self.metrics.instruments.reset,
            configuration=lambda: to_object(without_secrets(self.reloader.in_force)),
            pods=self._informers.of(PODS).store,
            is_leading=is_leading,
            flags=self._options.given,
            checks=scheduler_checks(
                leader_election=None if elector is None else elector.check_healthy,
                is_shutting_down=lambda: health.shutting_down,
                is_synced=lambda: health.handlers_synced,
                blind_kinds=lambda: self._informers.blind(self._clock.monotonic()),
                port=lambda: server.check_healthy(),  # noqa: PLW0108 - the server comes later
            ),
            explain=explainer.explain,
            recording=lambda: self._recorders.flight.copy().dump,
            debug={"cache": self.comparer.dump, "queue": self.driver.engine.core.queue.rows},
            level_can_be_set=bool(self._config.enable_profiling),
        )
        server = Server(self._options, sources, self._reviews(), self._clock)
        return server

    def _reviews(self) -> ApiReviews:
        return ApiReviews(self._review_session, self.metrics.reviews, self._clock)

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.daemon.stop)
        loop.add_signal_handler(signal.SIGUSR2, self._dumper.ask)

    # --- building -------------------------------------------------------------------------------

    def _open_session(self, home: asyncio.AbstractEventLoop | None = None) -> ApiSession:
        connection_config = self._config.client_connection
        return ApiSession(
            self._connection,
            clock=self._clock,
            qps=max(0.0, connection_config.qps),
            burst=connection_config.burst,
            metrics=self.metrics.client,
            home=home,
        )

    def _candidate(self) -> LeaderElector | None:
        if not self._config.leader_election.leader_elect:
            return None
        return leader_elector(
            self._config,
            self._session,
            self._open_session,
            clock=self._clock,
            rng=self._rng,
            status=self.metrics.leader_election_master_status[MASTER_STATUS_NAME],
            record_event=lambda event: self.driver.outbox.record_event(event),  # noqa: PLW0108 - comes later
        )

    def _build_engine(self, builder: FrameworkBuilder, seed: int) -> Engine:
        frameworks = builder.build(self._config)
        for name, framework in frameworks.items():
            self.metrics.declare_plugins(name, counted(framework.plugins))
        return build_engine(
            self._config,
            builder,
            frameworks,
            seed=seed,
            max_in_unschedulable_seconds=self._options.pod_max_in_unschedulable_pods_duration,
            tracer=CycleTracer(log, self._spans),
            take_outcome=self._recorders.take_outcome,
            stopwatch=self._clock.monotonic,
        )

    def _listen(self, options: InformerOptions | None) -> Informers:
        """Build the informers of the kinds that the engine needs."""
        frameworks = self.driver.engine.core.frameworks.values()
        kept = self._kept if self.driver.engine.core.extenders else None
        pods, nodes = (self._pods, NODES) if kept is None else (kept.pods_kind, kept.nodes_kind)
        kinds: list[Kind[Any]] = [pods, nodes, NAMESPACES]
        kinds.extend(map(watched_kind, kinds_to_watch(frameworks)))
        groups = group_sources(kinds, self._options.pod_group_apis)
        kinds = list(dict.fromkeys([*kinds, *groups]))
        self.metrics.informers.begin(kind.name for kind in kinds)
        informers = Informers(
            self._session,
            kinds,
            clock=self._clock,
            rng=self._rng,
            metrics=self.metrics.informers,
            shares=self._shares,
            options=options,
            doubts=self.doubts,
        )
        for kind in kinds:
            if kind not in groups:
                informers.of(kind).add_handler(Feed(kind, self.driver.submit))
        listen_in_order([informers.of(kind) for kind in groups], POD_GROUPS, self.driver.submit)
        if kept is not None:
            informers.of(PODS).add_handler(kept.pods_handler)
            informers.of(NODES).add_handler(kept.nodes_handler)
        return informers

    def _comparer(self) -> CacheComparer:
        core = self.driver.engine.core
        return CacheComparer(
            core.cache,
            self._informers.of(NODES).store,
            self._informers.of(PODS).store,
            is_wanted=lambda pod: bool(pod.node_name or pod.spec.scheduler_name in core.frameworks),
            is_queued=lambda uid: core.queue.get(uid) is not None,
        )
