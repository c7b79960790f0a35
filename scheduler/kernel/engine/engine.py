"""The engine: takes one event at a time, with its time, and returns instructions."""

import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.config.types import MAX_IN_UNSCHEDULABLE_SECONDS, Extender
from scheduler.errors import SchedulerError, encodable
from scheduler.kernel.cache import MANY_CHANGES
from scheduler.kernel.ends import end_if_started
from scheduler.kernel.engine import events
from scheduler.kernel.engine.algorithm import SchedulingAlgorithm
from scheduler.kernel.engine.attempt import Attempts, Entry
from scheduler.kernel.engine.binding_cycle import BindingCycle
from scheduler.kernel.engine.engine_state import (
    TRACE_LINES,
    EngineProfiles,
    EngineState,
    EventTime,
    ProfilesOf,
)
from scheduler.kernel.engine.event_handlers import NodeEventHandlers, PodEventHandlers
from scheduler.kernel.engine.events import Event, ObjectGone, ObjectSet, PluginEvent
from scheduler.kernel.engine.failure import reference
from scheduler.kernel.engine.held import WaitingPod, WaitingPods
from scheduler.kernel.engine.instructions import Configured, Instruction, RecordEvent
from scheduler.kernel.engine.other_event_handlers import NamespaceEventHandlers, OtherEventHandlers
from scheduler.kernel.engine.outcome import TakeOutcome
from scheduler.kernel.engine.pending_extender_calls import PendingExtenderCalls
from scheduler.kernel.engine.preemption_executor import PreemptionExecutor
from scheduler.kernel.engine.schedule_one import SchedulingLoop
from scheduler.kernel.engine.scheduling_failure import FailureHandler
from scheduler.kernel.extender import Extenders
from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.runtime.shared_states import SharedStates
from scheduler.kernel.framework.services import PluginServices
from scheduler.kernel.framework.types import Failure
from scheduler.kernel.groups import PodGroups
from scheduler.kernel.preemption.kept_room import KeptRoom
from scheduler.kernel.queue import QueueingHints, SchedulingQueue
from scheduler.observability.engine_metrics import EngineMetrics
from scheduler.observability.queue_metrics import QueueMetrics
from scheduler.observability.tracing import CycleTracer

SETTLED_AT_ONCE: Final = 16
"""The most settled pods that continue after one event; each may run hints for 256 events."""


Handlers: TypeAlias = (
    PodEventHandlers | NodeEventHandlers | NamespaceEventHandlers | OtherEventHandlers
)
"""The handlers of the objects of one kind."""


class EngineSettings(msgspec.Struct, frozen=True):
    """The settings with which an engine starts.

    Attributes:
        seed: the seed of the random generator that breaks ties.
        max_in_unschedulable_seconds: after this time a rejected pod is tried without an event.
        extenders: webhooks that take part in decisions.
    """

    seed: int = 0
    max_in_unschedulable_seconds: float = MAX_IN_UNSCHEDULABLE_SECONDS
    extenders: tuple[Extender, ...] = ()


class Engine:
    """All state that changes over time, and the rules of its changes.

    The same events, times and seed give the same instructions.

    Attributes:
        core: the state; for reading.
        attempts: the attempts under way; for reading.
        extender_calls: the calls to extenders under way; for reading.
        scheduler: the loop that pops and schedules pods; for reading.
        preemption_executor: the evictions under way; for reading.
        services: the services that plugins see; to run plugins on a fork.
        from_outside: takes the events that plugins post while the engine handles none (PreBind,
            Bind); the driver passes them to `handle`.
    """

    def __init__(  # noqa: PLR0913 - what differs between a daemon, a file and a test
        self,
        profiles: EngineProfiles,
        settings: EngineSettings,
        *,
        services: PluginServices,
        states: SharedStates,
        rules_of: ProfilesOf,
        kinds: Mapping[str, ObjectKind] | None = None,
        tracer: CycleTracer | None = None,
        take_outcome: TakeOutcome | None = None,
        stopwatch: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Make an engine that knows no cluster yet.

        Args:
            profiles: the profiles to begin with.
            settings: what no other configuration changes.
            services: the services that plugins see; filled in here.
            states: the shared states and listers of plugins.
            rules_of: builds the profiles of another configuration.
            kinds: the kinds that plugins read, by plural.
            tracer: receives each cycle.
            take_outcome: takes a row of data for each attempt that ends.
            stopwatch: a running clock to measure with; no decision depends on it.
        """
        time = EventTime()
        self._inbox: deque[Event] = deque()
        self._is_handling = False
        self.from_outside: Callable[[Event], None] = self._inbox.append
        self._rules_of = rules_of
        self.services = services
        random = Random(settings.seed)  # noqa: S311 - breaks ties, keeps no secret
        self.core = EngineState(
            frameworks=profiles.frameworks,
            queue=SchedulingQueue(
                QueueingHints(profiles.frameworks),
                time,
                backoff=profiles.backoff,
                max_in_unschedulable_seconds=settings.max_in_unschedulable_seconds,
                metrics=QueueMetrics(services.metrics),
            ),
            states=states,
            services=services,
            waiting=WaitingPods(self._post),
            algorithm=SchedulingAlgorithm(random, profiles.percentage_of_nodes_to_score),
            extenders=Extenders(settings.extenders),
            metrics=EngineMetrics(services.metrics),
            tracer=tracer,
            take_outcome=take_outcome,
            stopwatch=stopwatch,
            time=time,
            attempts=Attempts(time),
            inbox=self._inbox,
        )
        self.attempts = self.core.attempts
        self.extender_calls = calls = PendingExtenderCalls(self.core)
        failures = FailureHandler(self.core, calls)
        self.preemption_executor = executor = PreemptionExecutor(self.core, failures)
        self._binding = binding = BindingCycle(self.core, calls, failures)
        self.scheduler = SchedulingLoop(self.core, calls, failures, binding, executor)
        self._pods = pods = PodEventHandlers(self.core, failures, binding, executor)
        others = {name: OtherEventHandlers(self.core, kind) for name, kind in (kinds or {}).items()}
        self._answered: list[PodEventHandlers | OtherEventHandlers] = [pods, *others.values()]
        self._changes: dict[str, Handlers] = {
            **others,
            # These replace `OtherEventHandlers` for kinds that plugins declared: they pass changes
            # to the plugins as well.
            "pods": pods,
            "nodes": NodeEventHandlers(self.core, binding),
            "namespaces": NamespaceEventHandlers(self.core),
        }

        def object_read(event: events.ObjectRead) -> None:
            if event.kind in others:  # else no plugin watches the kind
                others[event.kind].read(event.object)

        states.begin(self.attempts.assumed)
        self._introduce(services, random)
        self._handlers: dict[type, Callable[[Any], None]] = {
            events.ObjectSet: lambda e: self._changes[e.kind].set(e.object),
            events.ObjectGone: lambda e: self._changes[e.kind].gone(e),
            events.Decide: lambda e: self.scheduler.schedule(e.limit),
            events.Tick: self._tick,
            events.Bound: lambda e: binding.bound(e.attempt),
            events.BindFailed: lambda e: binding.bind_failed(
                e.attempt,
                Failure(e.message, is_rejection=e.is_rejection),
                is_certain=e.is_certain,
            ),
            events.Answered: lambda e: self.scheduler.answered(e.question, e.answer),
            events.PreBound: lambda e: pods.pre_bound(
                e.attempt,
                Failure(e.problem, is_rejection=e.is_rejection) if e.problem else None,
            ),
            events.PodRead: lambda e: pods.read(e.attempt, e.pod),
            events.ReadFailed: lambda _: None,
            events.ObjectRead: object_read,
            events.Allowed: lambda e: self.core.waiting.allowed(e.uid, e.plugin),
            events.Rejected: lambda e: self.core.waiting.settle(e.uid, e),
            events.Evicted: lambda e: self.preemption_executor.evicted(
                e.uid, was_there=e.was_there
            ),
            events.EvictFailed: lambda e: self.preemption_executor.failed(e.uid, e.message),
            events.WriteFailed: lambda e: failures.write_failed(e.uid, e.message),
            events.GroupStatusFailed: self._forget_condition,
            events.Activate: lambda e: self.core.queue.activate(e.uids),
            events.PluginEvent: lambda e: self.core.out.append(e.instruction),
            events.SetBack: self._set_back,
            events.SlowDecision: lambda e: failures.put_last(e.uid, e.seconds),
            events.Configure: lambda e: self._configure(e.configuration),
        }

    def _forget_condition(self, event: events.GroupStatusFailed) -> None:
        if self.core.groups is not None:
            self.core.groups.forget_written((event.namespace, event.name), event.uid)

    def _set_back(self, event: events.SetBack) -> None:
        self._binding.set_back(event.message)
        for handlers in self._answered:
            handlers.set_back()

    def _introduce(self, services: PluginServices, random: Random) -> None:
        """Fill in the services that plugins see."""
        self._show_profiles()
        services.snapshot = self.core.snapshot
        services.nominator = nominator = self.core.queue.nominator
        nominator.end_if_started = lambda pod: end_if_started(
            pod, self.core.wall(), self.core.durations
        )
        services.waiting = self.core.waiting
        services.activate = lambda pods: self._post(events.Activate(tuple(pod.uid for pod in pods)))
        services.record_event = self._record_event
        services.random = random
        services.now = lambda: self.core.time.now

    def handle(self, event: Event, now: float) -> Sequence[Instruction]:
        """Handle one event, and return the instructions that follow from it.

        Never raises: errors are returned as `LogError` instructions. `now` is the time of the
        event, in seconds of a clock that never goes back.
        """
        core = self.core
        core.time.now = now
        out: list[Instruction] = []
        core.out = out
        self._is_handling = True
        self._call(self._handlers[type(event)], event)
        if core.groups is not None:
            self._call(lambda _: self.scheduler.waking.some(), event)
        settled = core.waiting.settled
        turns = SETTLED_AT_ONCE
        while self._inbox or (settled and turns):
            if self._inbox:
                posted = self._inbox.popleft()
                self._call(self._handlers[type(posted)], posted)
            else:
                turns -= 1
                self._call(self._binding.go_on, next(iter(settled.values())))
        self._is_handling = False
        if len(core.cache.changes) >= MANY_CHANGES:
            core.catch_up()
        return out

    def _call(self, handler: Callable[[Any], None], about: Event | WaitingPod) -> None:
        try:
            handler(about)
        except Exception as problem:  # noqa: BLE001 - one object must never stop the others
            trace = traceback.format_exc(-TRACE_LINES)
            kind = about.kind if isinstance(about, ObjectSet | ObjectGone) else ""
            message = f"Error handling {type(about).__name__}"
            core = self.core
            core.report(message, kind, problem, trace=trace)

    # --- looking in -----------------------------------------------------------------------------

    @property
    def has_ready(self) -> bool:
        """Whether `Decide` would schedule a pod, or continue other work."""
        if self.scheduler.has_turn:
            return True
        return self.core.queue.has_ready and not self.scheduler.group_cycle.members

    def story(self, uid: str) -> list[Entry]:
        """The latest entries about a pod, oldest first; takes about a millisecond."""
        return [entry for entry in self.attempts.story if entry.uid == uid]

    def _post(self, event: Event) -> None:
        """Post an event of a plugin; the engine handles it after the current event.

        On a fork only Kubernetes events pass: the decisions of plugins there are hypothetical.
        """
        if self.services.is_on_fork and not isinstance(event, PluginEvent):
            return
        if self._is_handling:
            self._inbox.append(event)
        else:
            self.from_outside(event)

    def _record_event(self, pod: PodInfo, event_type: str, reason: str, note: str) -> None:
        """Post a Kubernetes event of a plugin about a pod."""
        controller = pod.spec.scheduler_name
        event = RecordEvent(
            reference(pod),
            encodable(reason),
            "Scheduling",
            encodable(note),
            controller,
            event_type=encodable(event_type),
        )
        self._post(PluginEvent(event))

    # --- events ---------------------------------------------------------------------------------

    def _configure(self, configuration: dict[str, Any]) -> None:
        """Use another configuration from the next attempt on; an invalid one changes nothing.

        Attempts under way keep their profile; those that wait for a removed Permit plugin fail.
        Queued pods keep their history. The queue drops the pods of removed profiles; the driver
        must send the pods of new profiles again.
        """
        core = self.core
        try:
            rules = self._rules_of(configuration)
            hints = QueueingHints(rules.frameworks)
        except SchedulerError as problem:
            core.out.append(Configured(str(problem)))
            return
        gone = core.frameworks.keys() - rules.frameworks.keys()
        self._pods.profiles_gone(gone)
        self.preemption_executor.drop_all()
        self.scheduler.room_keeper.drop_all()
        core.frameworks = rules.frameworks
        core.algorithm.percentage_of_nodes_to_score = rules.percentage_of_nodes_to_score
        self._show_profiles()
        core.queue.configure(hints, rules.backoff)
        self._binding.plugins_changed()
        self.extender_calls.sort_anew()
        core.out.append(Configured())

    def _show_profiles(self) -> None:
        """Give the filters of the current profiles to plugins, and their names to `PodGroups`."""
        frameworks, groups = self.core.frameworks, self.core.states.known(PodGroups)
        self.core.groups = groups
        self.services.filters = {
            name: each.filtering.run_filters for name, each in frameworks.items()
        }
        if groups is not None:
            groups.profiles = frozenset(frameworks)
        kept = self.core.states.known(KeptRoom)
        if kept is not None:
            kept.durations, kept.groups = lambda: self.core.durations, groups
            kept.holds_more = self.scheduler.room_keeper.holds_more
            kept.keeps_for = self.scheduler.room_keeper.keeps_for
            kept.equal_to = self.core.queue.equal_to

    def _tick(self, tick: events.Tick) -> None:
        """Flush the queue, handle timeouts, and update the snapshot ahead of the next attempt.

        Backoff ends at whole seconds of the clock, as upstream. An error in one of these
        parts, which end most waits, stops no other.
        """
        core = self.core
        for part in (
            core.queue.flush_backoff_completed,
            core.queue.flush_unschedulable_leftover,
            self._binding.tick,
            self.preemption_executor.tick,
            self.scheduler.room_keeper.tick,
            core.catch_up,
            core.audit,
        ):
            self._call(lambda _: part(), tick)  # noqa: B023 - called at once
