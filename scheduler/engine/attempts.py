"""What attempts do on their way: each state is entered by one method, and left by one row.

Source: kubernetes pkg/scheduler/schedule_one.go (ScheduleOne, schedulingCycle, bindingCycle,
handleBindingCycleError) v1.36.
"""

import traceback
from collections.abc import Callable, Iterator
from typing import Final

from scheduler.api.limits import exceeded_limit
from scheduler.api.pods import PodInfo
from scheduler.engine.algorithm import NoNodesAvailable, ScheduleResult, Unschedulable
from scheduler.engine.attempt import (
    TAKEN,
    UNDECIDED,
    Attempt,
    AttemptEvent,
    AttemptState,
    Taken,
)
from scheduler.engine.core import TRACE_LINES, Core
from scheduler.engine.failure import (
    Failure,
    failed_scheduling,
    failure_of,
    no_nodes,
    rejected_by,
    scheduled,
    status_patch,
    unexpected,
)
from scheduler.engine.instructions import (
    Bind,
    Cancel,
    ReadPod,
    Report,
    RunPreBind,
    WakeMeAt,
)
from scheduler.framework.events import ASSIGNED_POD_DELETE
from scheduler.framework.interface import PostFilterResult
from scheduler.framework.runtime import PluginError
from scheduler.framework.status import Code, unschedulable
from scheduler.framework.types import QueuedPodInfo

PLUGIN_METRICS_EVERY: Final = 10
"""Of so many cycles one has its plugin calls timed. Source: pluginMetricsSamplePercent."""

SCHEDULING_FAILED: Final = "Error scheduling pod; retrying"

CONFIRM_SECONDS: Final = 30.0
"""How long the watch may take to tell of a bound pod before the API server is asked."""
ASK_AGAIN_SECONDS: Final = 5.0
"""How long to wait before the API server is asked again about the same pod."""
MAX_QUESTIONS: Final = 16
"""Pods that the API server is asked about at a time."""


class Attempts:
    """All attempts that have not come to their end."""

    def __init__(self, core: Core, make_room: Callable[[PodInfo, PostFilterResult], None]) -> None:
        """Begin without any.

        Args:
            core: the engine's state.
            make_room: does what PostFilter has decided.
        """
        self._core = core
        self._make_room = make_room
        self._attempts: dict[int, Attempt] = {}
        self._by_uid: dict[str, Attempt] = {}
        self._doubtful: dict[int, Attempt] = {}
        """Those in UNSURE, or long in BOUND: the API server must be asked, the first one first."""
        self._bound: dict[int, Attempt] = {}
        """Those in BOUND in the order in which they came there."""
        self._last_id = 0
        self._last_uid = ""

    def __len__(self) -> int:
        return len(self._attempts)

    def __iter__(self) -> Iterator[Attempt]:
        return iter(self._attempts.values())

    def get(self, attempt_id: int) -> Attempt | None:
        """The attempt, if it has not ended."""
        return self._attempts.get(attempt_id)

    def of(self, uid: str) -> Attempt | None:
        """The attempt that a pod is part of, if there is one."""
        return self._by_uid.get(uid)

    # --- from the queue to a node ---------------------------------------------------------------

    def decide(self) -> None:
        """Try the most important ready pod, if there is one."""
        core = self._core
        queued = core.queue.pop()
        if queued is None:
            return
        pod = queued.pod_info
        self._last_uid = pod.uid
        if pod.is_terminating or core.cache.is_assumed_pod(pod.uid):
            self._skip(pod)
            return
        framework = core.frameworks[pod.spec.scheduler_name]
        self._last_id += 1
        framework.calls.begin_cycle(sampled=self._last_id % PLUGIN_METRICS_EVERY == 0)
        start = core.stopwatch()
        attempt = Attempt(self._last_id, framework, (queued,), core.now)
        self._attempts[attempt.id] = self._by_uid[pod.uid] = attempt
        self._guarded(attempt, self._find_node)
        if core.tracer is not None:
            core.tracer.cycle_done(pod.key, start, core.stopwatch(), framework.calls.steps)

    def _skip(self, pod: PodInfo) -> None:
        """A pod that needs no node any more, or has one already."""
        if pod.is_terminating:
            note = f"skip schedule deleting pod: {pod.key}"
            self._core.out.append(failed_scheduling(pod, note))
        self._core.queue.done(pod.uid)

    def _find_node(self, attempt: Attempt) -> None:
        core, framework, pod = self._core, attempt.framework, attempt.pod
        start = core.stopwatch()
        too_much = exceeded_limit(pod.shape)
        if too_much:
            self.fail(attempt, Failure(too_much, is_rejection=True))
            return
        core.catch_up()
        framework.calls.step("Snapshot")
        nominated = core.queue.nominator
        decision = core.algorithm.schedule_pod(framework, pod, core.snapshot, nominated)
        core.metrics.scheduling_algorithm_duration.observe(core.stopwatch() - start)
        if isinstance(decision, ScheduleResult):
            self._place(attempt, decision)
        elif isinstance(decision, NoNodesAvailable):
            self.fail(attempt, no_nodes(decision))
        else:
            self.fail(attempt, self._after_filters(attempt, decision))

    def _after_filters(self, attempt: Attempt, decision: Unschedulable) -> Failure:
        """No node fits: PostFilter plugins may make room."""
        framework = attempt.framework
        if not framework.plugins.post_filter:
            return failure_of(decision.diagnosis)
        result, status = framework.run_post_filter_plugins(
            decision.state, attempt.pod, self._core.snapshot, decision.diagnosis
        )
        if status.is_success and result is not None:
            self._make_room(attempt.pod, result)
        decision.diagnosis.post_filter_message = status.message
        return failure_of(
            decision.diagnosis, None if result is None else result.nominated_node_name
        )

    def _place(self, attempt: Attempt, result: ScheduleResult) -> None:
        """POPPED to ASSUMED to RESERVED to HELD or beyond."""
        core, framework = self._core, attempt.framework
        pod = attempt.pod.on_node(result.suggested_host)
        attempt.placed, attempt.cycle_state = (pod,), result.state
        attempt.feasible_nodes = result.feasible_nodes
        self._advance(attempt, AttemptEvent.FIT)
        core.cache.assume_pod(pod)
        self._tell_states(core.states.reserved, pod)
        if len(core.queue.nominator):
            core.queue.nominator.delete_nominated_pod_if_exists(pod.uid)
        self._advance(attempt, AttemptEvent.RESERVE)
        status = framework.run_reserve_plugins(result.state, pod, pod.node_name)
        if not status.is_success:
            self.fail(attempt, rejected_by(status))
            return
        status, timeouts = framework.run_permit_plugins(result.state, pod, pod.node_name)
        if status.code is Code.WAIT:
            self._hold(attempt, timeouts)
        elif status.is_success:
            self._begin_binding(attempt)
        else:
            self.fail(attempt, rejected_by(status))

    # --- Permit ---------------------------------------------------------------------------------

    def _hold(self, attempt: Attempt, timeouts: dict[str, float]) -> None:
        core = self._core
        self._advance(attempt, AttemptEvent.WAIT)
        waiting = core.waiting.add(attempt.pod, attempt.id, timeouts, core.now)
        core.out.append(WakeMeAt(waiting.deadline))

    def allowed(self, uid: str, plugin: str) -> None:
        """One plugin lets a held pod go; the last one sets it free."""
        waiting = self._core.waiting.get(uid)
        if waiting is None:
            return
        waiting.deadlines.pop(plugin, None)
        if waiting.deadlines:
            return
        attempt = self._attempts[waiting.attempt]
        self._end_waiting(uid, Code.SUCCESS)
        self._guarded(attempt, self._begin_binding)

    def rejected(self, uid: str, plugin: str, message: str) -> None:
        """A held pod may not be bound."""
        waiting = self._core.waiting.get(uid)
        if waiting is not None:
            self.fail(
                self._attempts[waiting.attempt], rejected_by(unschedulable(message).by(plugin))
            )

    def _end_waiting(self, uid: str, code: Code) -> None:
        core = self._core
        waiting = core.waiting.remove(uid)
        if waiting is not None:
            core.metrics.permit_wait_duration[code.upstream_name].observe(core.now - waiting.since)

    # --- binding --------------------------------------------------------------------------------

    def _begin_binding(self, attempt: Attempt) -> None:
        """Permit is over: from here on a failure is never a rejection."""
        self._core.queue.done_scheduling_cycle(attempt.pod.uid)
        if attempt.framework.needs_pre_bind(
            attempt.state_of_plugins, attempt.pod, attempt.pod.node_name
        ):
            self._advance(attempt, AttemptEvent.PREPARE)
            self._core.out.append(RunPreBind(attempt.id))
        else:
            self._bind(attempt)

    def _bind(self, attempt: Attempt) -> None:
        self._advance(attempt, AttemptEvent.BIND)
        by_plugins = not attempt.framework.binds_plainly
        self._core.out.extend(
            Bind(attempt.id, pod.namespace, pod.name, pod.uid, pod.node_name, by_plugins)
            for pod in attempt.placed
        )

    def pre_bound(self, attempt_id: int, problem: str) -> None:
        """PreBind plugins are done."""
        attempt = self._in(attempt_id, AttemptState.PREBINDING)
        if attempt is None:
            return
        if problem:
            self.fail(attempt, Failure(problem))
        else:
            self._bind(attempt)

    def bound(self, attempt_id: int) -> None:
        """The binding was accepted."""
        attempt = self._in(attempt_id, AttemptState.BINDING, AttemptState.UNSURE)
        if attempt is not None:
            self._report_bind(attempt, Code.SUCCESS)
            self._advance(attempt, AttemptEvent.ACCEPT)
            self._doubtful.pop(attempt.id, None)
            self._bound[attempt.id] = attempt
            self._finish(attempt)

    def bind_failed(self, attempt_id: int, message: str, *, is_certain: bool) -> None:
        """The binding was refused, or nobody knows."""
        attempt = self._in(attempt_id, AttemptState.BINDING)
        if attempt is None:
            return
        self._report_bind(attempt, Code.ERROR)
        if is_certain:
            self.fail(attempt, Failure(message))
            return
        attempt.doubt = message
        self._advance(attempt, AttemptEvent.DOUBT)
        self._ask(attempt)

    def _report_bind(self, attempt: Attempt, code: Code) -> None:
        if attempt.framework.binds_plainly:
            attempt.framework.bound_plainly(code, self._core.now - attempt.since)

    def _finish(self, attempt: Attempt) -> None:
        """The pod is bound, whether we know it by an answer or by the watch."""
        core = self._core
        profile, queued = attempt.framework.profile_name, attempt.queued
        core.metrics.attempt_ended("scheduled", profile, core.now - attempt.start)
        began = queued.initial_attempt_timestamp
        core.metrics.pod_bound(
            queued.attempts,
            None if began is None else core.now - began,
            was_flushed=queued.was_flushed,
        )
        for pod in attempt.placed:
            core.out.append(scheduled(pod))
            core.queue.done(pod.uid)
        if attempt.framework.plugins.post_bind:
            for pod in attempt.placed:
                for problem in attempt.framework.run_post_bind_plugins(
                    attempt.state_of_plugins, pod, pod.node_name
                ):
                    core.report("PostBind failed", pod.key, problem)

    # --- what the cluster says ------------------------------------------------------------------

    def confirmed(self, attempt: Attempt) -> None:
        """The API server says that the pod runs on the node it was to be bound to."""
        was_told = attempt.state is AttemptState.BOUND
        self._advance(attempt, AttemptEvent.CONFIRM)
        self._forget(attempt)
        if not was_told:
            self._finish(attempt)

    def leave(self, attempt: Attempt, why: str) -> None:
        """The pod needs nothing from this attempt any more: its room is free for others."""
        freed = self._undo(attempt, AttemptEvent.LEAVE, why)
        for queued in attempt.members:
            self._core.queue.done(queued.pod_info.uid)
        self._free(attempt, freed=freed)

    def in_doubt(self, attempt_id: int) -> Attempt | None:
        """The attempt, if it is still to be found out whether its pod is bound."""
        return self._in(attempt_id, AttemptState.UNSURE, AttemptState.BOUND)

    def not_bound(self, attempt: Attempt) -> None:
        """The pod of an attempt in doubt has no node; one that was said to have is let go."""
        if attempt.state is AttemptState.UNSURE:
            self.fail(attempt, Failure(attempt.doubt))
        else:
            self.leave(attempt, "not bound after all")

    def took_long(self, seconds: float) -> None:
        """The last decision took so long that its pod has to wait for others from now on."""
        queued = self._core.queue.put_last(self._last_uid)
        if queued is None:
            return
        message = f"{queued.last_failure} Tried last from now on: deciding took {seconds:.1f} s."
        rejected = bool(queued.unschedulable_plugins or queued.pending_plugins)
        failure = Failure(message, is_rejection=rejected, nominated_node_name=None)
        self._patch(queued.pod_info, failure)

    # --- time -----------------------------------------------------------------------------------

    def tick(self) -> None:
        """End the patience of Permit plugins, and question what nobody confirms."""
        core = self._core
        for waiting in core.waiting:
            late = waiting.timed_out(core.now)
            if late is not None:
                self.rejected(late.uid, late.plugin, late.message)
        for attempt in self._bound.values():
            if attempt.since + CONFIRM_SECONDS > core.now:
                break
            self._doubtful.setdefault(attempt.id, attempt)
        for attempt in list(self._doubtful.values())[:MAX_QUESTIONS]:
            if attempt.asked_at + ASK_AGAIN_SECONDS <= core.now:
                self._ask(attempt)

    def _ask(self, attempt: Attempt) -> None:
        """Ask the API server; the next time it is the others' turn first."""
        attempt.asked_at = self._core.now
        self._doubtful[attempt.id] = self._doubtful.pop(attempt.id, attempt)
        pod = attempt.pod
        self._core.out.append(ReadPod(attempt.id, pod.namespace, pod.name, pod.uid))

    # --- failing --------------------------------------------------------------------------------

    def fail(self, attempt: Attempt, failure: Failure) -> None:
        """Give everything back, put the pods into the queue again, and say why.

        A pod that was rejected must not be woken by the end of its own reservation: the event then
        comes after it is back in the queue, and leaves it alone.
        """
        core = self._core
        decided = attempt.state not in UNDECIDED
        freed = self._undo(attempt, AttemptEvent.FAIL, failure.message) and decided
        if freed and not failure.is_rejection:
            self._free(attempt, freed=freed)
        result = "unschedulable" if failure.is_rejection else "error"
        core.metrics.attempt_ended(result, attempt.framework.profile_name, core.now - attempt.start)
        if not failure.is_rejection:
            core.out.append(Report(SCHEDULING_FAILED, attempt.pod.key, failure.message))
        for queued in attempt.members:
            self._requeue(queued, failure)
        if freed and failure.is_rejection:
            self._free(attempt, freed=freed)

    def _requeue(self, queued: QueuedPodInfo, failure: Failure) -> None:
        core = self._core
        queued.unschedulable_plugins = failure.unschedulable_plugins
        queued.pending_plugins = failure.pending_plugins
        queued.last_failure = failure.message
        if not core.queue.add_unschedulable_if_not_present(queued):
            return
        pod = queued.pod_info
        if failure.nominated_node_name is not None:
            core.queue.add_nominated_pod(pod, failure.nominated_node_name)
        core.out.append(failed_scheduling(pod, failure.message))
        self._patch(pod, failure)

    def _patch(self, pod: PodInfo, failure: Failure) -> None:
        patch = status_patch(pod, failure)
        if patch is not None:
            self._core.out.append(patch)

    def _free(self, attempt: Attempt, *, freed: bool) -> None:
        """Room that others waited for is there again."""
        if freed:
            for pod in attempt.placed:
                self._core.queue.move_all_to_active_or_backoff_queue(
                    ASSIGNED_POD_DELETE, pod, None, but=pod.uid
                )

    def _undo(self, attempt: Attempt, event: AttemptEvent, why: str) -> bool:
        """Give back what the state had taken; says whether room was among it."""
        core, freed = self._core, False
        taken = TAKEN[attempt.state]
        self._advance(attempt, event, why)
        self._forget(attempt)
        for what in taken:
            if what is Taken.WORK:
                core.out.append(Cancel(attempt.id))
            for pod in attempt.placed:
                if what is Taken.HOLD:
                    self._end_waiting(pod.uid, Code.UNSCHEDULABLE)
                elif what is Taken.RESERVATIONS:
                    self._unreserve(attempt, pod)
                elif what is Taken.ROOM:
                    freed = core.cache.forget_pod(pod) or freed
        return freed

    def _unreserve(self, attempt: Attempt, pod: PodInfo) -> None:
        for problem in attempt.framework.run_unreserve_plugins(
            attempt.state_of_plugins, pod, pod.node_name
        ):
            self._core.report("Unreserve failed", pod.key, problem)
        self._tell_states(self._core.states.unreserved, pod)

    def _tell_states(self, tell: Callable[[PodInfo], list[PluginError]], pod: PodInfo) -> None:
        for problem in tell(pod):
            self._core.report("Plugin failed", pod.key, problem)

    # --- helpers --------------------------------------------------------------------------------

    def _advance(self, attempt: Attempt, event: AttemptEvent, detail: str = "") -> None:
        core = self._core
        attempt.state, attempt.since = attempt.next_state(event), core.time.now
        core.story.tell(
            core.time.now,
            attempt.queued.pod_info.uid,
            attempt.id,
            attempt.state.value,
            detail or attempt.pod.node_name,
        )

    def _guarded(self, attempt: Attempt, step: Callable[[Attempt], None]) -> None:
        """Whatever goes wrong in a step fails this attempt, and nothing else."""
        try:
            step(attempt)
        except PluginError as problem:
            self.fail(attempt, Failure(str(problem)))
        except Exception as problem:  # noqa: BLE001 - one pod must never stop the others
            trace = traceback.format_exc(-TRACE_LINES)
            self._core.report("Unexpected error", attempt.pod.key, problem, trace=trace)
            self.fail(attempt, unexpected(problem))

    def _in(self, attempt_id: int, *states: AttemptState) -> Attempt | None:
        """The attempt if it is in one of the states: answers may come too late."""
        attempt = self._attempts.get(attempt_id)
        return attempt if attempt is not None and attempt.state in states else None

    def _forget(self, attempt: Attempt) -> None:
        del self._attempts[attempt.id]
        for queued in attempt.members:
            del self._by_uid[queued.pod_info.uid]
        self._bound.pop(attempt.id, None)
        self._doubtful.pop(attempt.id, None)
