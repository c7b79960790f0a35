"""What attempts do on their way: each state is entered by one method, and left by one row.

Source: kubernetes pkg/scheduler/schedule_one.go (ScheduleOne, schedulingCycle, bindingCycle,
handleBindingCycleError) v1.36.
"""

import traceback
from collections.abc import Callable, Iterator
from typing import Final

from scheduler.api.limits import exceeded_limit
from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.algorithm import NoNodesAvailable, ScheduleResult, Unschedulable
from scheduler.kernel.engine.attempt import (
    PLACED,
    TAKEN,
    UNDECIDED,
    Attempt,
    AttemptEvent,
    AttemptState,
    Taken,
)
from scheduler.kernel.engine.batch import MAX_BATCH, Batch
from scheduler.kernel.engine.core import TRACE_LINES, Core
from scheduler.kernel.engine.events import Rejected
from scheduler.kernel.engine.failure import (
    Failure,
    failed_scheduling,
    failure_like,
    failure_of,
    no_nodes,
    nomination,
    rejected_by,
    scheduled,
    status_patch,
    unexpected,
)
from scheduler.kernel.engine.held import Settled
from scheduler.kernel.engine.instructions import (
    Bind,
    Cancel,
    LogError,
    ReadPod,
    RunPreBind,
    SetTimer,
)
from scheduler.kernel.engine.outcome import choice_of, outcome_of
from scheduler.kernel.engine.pending_extender_calls import PendingExtenderCalls
from scheduler.kernel.extender import Answer, ExtenderCalls, ExtenderError
from scheduler.kernel.framework.events import ASSIGNED_POD_DELETE
from scheduler.kernel.framework.interface import PostFilterResult
from scheduler.kernel.framework.runtime import PluginError
from scheduler.kernel.framework.status import Code, unschedulable
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue import PUT_LAST_SECONDS, Rejection

PLUGIN_METRICS_EVERY: Final = 10
"""Of so many cycles one has its plugin calls timed. Source: pluginMetricsSamplePercent."""

OUTCOMES_END: Final = "Error recording a decision; recording no more"

SCHEDULING_FAILED: Final = "Error scheduling pod; retrying"

MAX_CALLS: Final = 4
"""How often extenders are asked from the beginning about one attempt."""
NODES_CHANGE: Final = "the nodes that fit have changed each time extenders were asked about them"

CONFIRM_SECONDS: Final = 30.0
"""How long the watch may take to tell of a bound pod before the API server is asked."""
ASK_AGAIN_SECONDS: Final = 5.0
"""How long to wait before the API server is asked again about the same pod."""
MAX_QUESTIONS: Final = 16
"""Pods that the API server is asked about at a time."""


class Attempts:
    """All attempts that have not come to their end.

    Attributes:
        decided: UID of the pod that was scheduled last; empty if the last step was about none.
        scheduled: how many pods the last step was about.
    """

    def __init__(self, core: Core, make_room: Callable[[PodInfo, PostFilterResult], None]) -> None:
        self._core = core
        self._make_room = make_room
        self._attempts: dict[int, Attempt] = {}
        self._by_uid: dict[str, Attempt] = {}
        self._doubtful: dict[int, Attempt] = {}
        """Those in UNSURE, or long in BOUND: the API server must be asked, the first one first."""
        self._bound: dict[int, Attempt] = {}
        """Those in BOUND in the order in which they came there."""
        self._last_id = 0
        self.decided = ""
        self.scheduled = 0
        self._extender_calls = PendingExtenderCalls(core, self._advance)
        self.question = self._extender_calls.question
        self.is_in_line = self._extender_calls.is_in_line
        self.sort_anew = self._extender_calls.sort_anew
        self.extender_call_counts = self._extender_calls.counts

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

    @property
    def has_turn(self) -> bool:
        """Whether an attempt may go on: Permit holds it no longer, or it may ask extenders."""
        return bool(self._core.waiting.settled) or self._extender_calls.has_turn

    def decide(self, limit: int) -> None:
        """Let an attempt go on that waited to ask extenders, or schedule the next ready pods.

        Args:
            limit: how many equal pods at most; the first one that is not placed is the last.
        """
        core = self._core
        self.decided, self.scheduled = "", 0
        if core.waiting.settled:
            return  # Their turn comes after each event; what they give back is there for the next.
        batch = Batch(core, min(limit, MAX_BATCH))
        attempt = self._extender_calls.next_in_line()
        if attempt is not None:
            self._cycle(attempt, lambda each: self._decide_on(each, batch))
            return
        queued = core.queue.pop()
        while queued is not None:
            batch.left -= 1
            attempt = self._schedule_one(queued, batch)
            is_placed = attempt is not None and attempt.state in PLACED
            if not is_placed:
                reason = "pod_failed"
            elif not batch.left or self._must_make_way:
                reason = "expired"
            else:
                queued, reason = core.queue.pop_equal(queued.pod_info), "pod_incompatible"
                if queued is not None:
                    continue
            batch.end(reason, is_placed=is_placed)
            return

    @property
    def _must_make_way(self) -> bool:
        """Whether something is to be done before the next pod is scheduled."""
        return bool(self._core.inbox) or self.has_turn

    def _schedule_one(self, queued: QueuedPodInfo, batch: Batch) -> Attempt | None:
        """Schedule a pod that was popped; None if that took no attempt."""
        core = self._core
        pod = queued.pod_info
        uid = pod.uid
        self.scheduled += 1
        if pod.is_terminating or core.cache.is_assumed_pod(uid):
            self._skip(pod)
            return None
        rejection = core.queue.valid_rejection(queued, lambda: core.cluster_version)
        if rejection is not None:
            core.metrics.attempt_ended("unschedulable", pod.spec.scheduler_name, 0.0)
            failure = failure_like(rejection)
            self._requeue(queued, failure, rejection)
            self._tell_outcome(queued, "unschedulable", failure=failure)
            return None
        framework = core.frameworks[pod.spec.scheduler_name]
        self._last_id += 1
        attempt = Attempt(self._last_id, framework, (queued,), core.time.now)
        self._attempts[self._last_id] = self._by_uid[uid] = attempt
        self._cycle(attempt, lambda each: self._find_node(each, batch))
        return attempt

    def _cycle(self, attempt: Attempt, step: Callable[[Attempt], None]) -> None:
        """A step in which plugins are asked, measured."""
        core, calls, pod = self._core, attempt.framework.calls, attempt.pod
        self.decided = core.waiting.deciding = pod.uid
        calls.begin_cycle(sampled=attempt.id % PLUGIN_METRICS_EVERY == 0)
        start = core.stopwatch()
        self._guarded(attempt, step)
        core.waiting.deciding = ""
        if core.tracer is not None:
            core.tracer.cycle_done(pod.key, start, core.stopwatch(), calls.steps)

    def _skip(self, pod: PodInfo) -> None:
        """A pod that needs no node any more, or has one already."""
        if pod.is_terminating:
            note = f"skip schedule deleting pod: {pod.key}"
            self._core.out.append(failed_scheduling(pod, note))
        self._core.queue.done(pod.uid)

    def _find_node(self, attempt: Attempt, batch: Batch) -> None:
        calls, pod, start = self._extender_calls, attempt.pod, self._core.stopwatch()
        following = batch.next_result(attempt.framework, pod)
        if following is not None:
            self._decided(attempt, following, start)
            self._place(attempt, following)
            return
        too_much = exceeded_limit(pod.shape)
        if too_much:
            self.fail(attempt, Failure(too_much, is_rejection=True))
        elif not calls.about_nodes(pod) or calls.take_turn(attempt):
            self._decide_on(attempt, batch)

    def _decide_on(self, attempt: Attempt, batch: Batch) -> None:
        """Look at the cluster as it is now, with what extenders have said if they were asked."""
        core = self._core
        start = core.stopwatch()
        batch.catch_up()
        attempt.framework.calls.step("Snapshot")
        calls = attempt.extender_calls
        if (calls is None or not calls.begun) and self._extender_calls.ask_about_nodes(
            attempt, tries_nominated=True
        ):
            return
        decision = self._decision(attempt)
        self._decided(attempt, decision, start)
        if isinstance(decision, ScheduleResult):
            batch.looked_at(attempt.framework, attempt.pod, decision)
            self._place(attempt, decision)
        elif isinstance(decision, NoNodesAvailable):
            self.fail(attempt, no_nodes(decision))
        elif decision.unasked and calls is not None and not calls.is_sample:
            self._ask_anew(attempt, calls, batch)
        else:
            failure = self._after_filters(attempt, decision)
            if failure is not None:
                self.fail(attempt, failure)

    def _decided(
        self,
        attempt: Attempt,
        decision: ScheduleResult | Unschedulable | NoNodesAvailable,
        start: float,
    ) -> None:
        """Take note of what was decided, and how long that took."""
        core = self._core
        thought = (
            core.stopwatch() - start if attempt.extender_calls is None else core.now - attempt.start
        )
        attempt.deciding_seconds = thought
        core.metrics.scheduling_algorithm_duration.observe(thought)
        if core.take_outcome is not None:
            attempt.choice = choice_of(decision, core.snapshot)

    def _decision(self, attempt: Attempt) -> ScheduleResult | Unschedulable | NoNodesAvailable:
        core, calls = self._core, attempt.extender_calls
        about = attempt.framework, attempt.pod, core.snapshot, core.queue.nominator
        advice = None if calls is None else calls.advice()
        if advice is None:
            return core.algorithm.schedule_pod(*about)
        return core.algorithm.schedule_advised(*about, advice)

    def _after_filters(self, attempt: Attempt, decision: Unschedulable) -> Failure | None:
        """No node fits: PostFilter plugins may make room; nothing if extenders are asked first."""
        framework = attempt.framework
        excess = decision.diagnosis.excess(self._core.snapshot)
        if not framework.plugins.post_filter:
            return failure_of(
                decision.diagnosis,
                excess=excess,
                has_extender_results=attempt.extender_calls is not None,
            )
        if attempt.extender_calls is not None:
            decision.diagnosis.reviewed = attempt.extender_calls.reviewed
        result, status = framework.run_post_filter_plugins(
            decision.state, attempt.pod, self._core.snapshot, decision.diagnosis
        )
        if result is not None:
            self._core.out.extend(result.writes)
        if status.is_success and result is not None:
            if self._extender_calls.ask_about_candidates(attempt, result.candidates):
                return None
            self._make_room(attempt.pod, result)
        decision.diagnosis.post_filter_message = status.message
        return failure_of(
            decision.diagnosis,
            None if result is None else result.nominated_node_name,
            excess,
            has_extender_results=attempt.extender_calls is not None,
        )

    # --- extenders ------------------------------------------------------------------------------

    def _ask_anew(self, attempt: Attempt, calls: ExtenderCalls, batch: Batch) -> None:
        """What was asked about does not fit any more, and other nodes do."""
        if calls.begun >= MAX_CALLS:
            self.fail(attempt, Failure(NODES_CHANGE))
        elif not self._extender_calls.ask_about_nodes(attempt, tries_nominated=False):
            self._decide_on(attempt, batch)

    def answered(self, number: int, answer: Answer) -> None:
        """An extender has answered a question, or has not."""
        self.decided = ""
        attempt = self._extender_calls.asked_by(number)
        if attempt is not None and attempt.extender_calls is not None:
            calls = attempt.extender_calls
            self._cycle(attempt, lambda asker: self._take(asker, calls, number, answer))

    def _take(self, attempt: Attempt, calls: ExtenderCalls, number: int, answer: Answer) -> None:
        if self._extender_calls.take(attempt, calls, number, answer):
            self._decide_on(attempt, Batch(self._core))

    # --- reserving ------------------------------------------------------------------------------

    def _place(self, attempt: Attempt, result: ScheduleResult) -> None:
        """POPPED to ASSUMED to RESERVED to HELD or beyond."""
        core, framework, state = self._core, attempt.framework, result.state
        node_name = result.suggested_host
        pod = attempt.pod.on_node(node_name)
        attempt.placed, attempt.cycle_state = (pod,), state
        self._advance(attempt, AttemptEvent.FIT)
        self._extender_calls.forget(attempt)
        core.cache.assume_pod(pod)
        self._tell_states(core.states.reserved, pod)
        core.queue.found_place(pod.uid)
        self._advance(attempt, AttemptEvent.RESERVE)
        status = framework.run_reserve_plugins(state, pod, node_name)
        if not status.is_success:
            self.fail(attempt, rejected_by(status))
            return
        status, timeouts = framework.run_permit_plugins(state, pod, node_name)
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
        self._nominate(attempt)
        waiting = core.waiting.add(attempt.pod, attempt.id, timeouts, core.now)
        core.out.append(SetTimer(waiting.deadline))

    def allowed(self, uid: str, plugin: str) -> None:
        """One plugin lets a held pod go; the last one sets it free."""
        waiting = self._core.waiting.get(uid)
        if waiting is None:
            return
        waiting.deadlines.pop(plugin, None)
        if not waiting.deadlines:
            self._core.waiting.settle(uid)

    def rejected(self, rejection: Rejected) -> None:
        """A held pod may not be bound."""
        self._core.waiting.settle(rejection.uid, rejection)

    def go_on(self, settled: Settled) -> None:
        """Have a pod bound that Permit no longer holds, or give it back."""
        attempt = self._attempts[settled.waiting.attempt]
        rejection = settled.rejection
        if rejection is None:
            self._end_waiting(settled.waiting.pod.uid, Code.SUCCESS)
            self._guarded(attempt, self._begin_binding)
        else:
            status = unschedulable(rejection.message).by(rejection.plugin)
            self.fail(attempt, rejected_by(status))

    def _end_waiting(self, uid: str, code: Code) -> None:
        core = self._core
        waiting = core.waiting.remove(uid)
        if waiting is not None:
            core.metrics.permit_wait_duration[code.upstream_name].observe(core.now - waiting.since)

    # --- binding --------------------------------------------------------------------------------

    def _begin_binding(self, attempt: Attempt) -> None:
        """Permit is over: from here on a failure is never a rejection."""
        pod = attempt.pod
        self._core.queue.done_scheduling_cycle(pod.uid)
        if attempt.framework.needs_pre_bind(attempt.state_of_plugins, pod, pod.node_name):
            self._advance(attempt, AttemptEvent.PREPARE)
            self._nominate(attempt)
            self._core.out.append(RunPreBind(attempt.id))
        else:
            self._bind(attempt)

    def _nominate(self, attempt: Attempt) -> None:
        """Tell others, such as an autoscaler, where a pod is to go that is not bound at once.

        Source: schedule_one.go bindingCycle, with NominatedNodeNameForExpectation.
        """
        if not attempt.is_nominated:
            attempt.is_nominated = True
            self._core.out.extend(filter(None, map(nomination, attempt.placed)))

    def _bind(self, attempt: Attempt) -> None:
        self._advance(attempt, AttemptEvent.BIND)
        attempt.binder = self._extender_calls.binder(attempt)
        self._send_bind(attempt)

    def _send_bind(self, attempt: Attempt) -> None:
        out, binder = self._core.out, attempt.binder
        by_plugins = binder is None and not attempt.framework.plugins.binds_plainly
        for each in attempt.placed:
            pod, meta = each.pod, each.pod.metadata
            bind = Bind(
                attempt.id, meta.namespace, meta.name, meta.uid, pod.node_name, by_plugins, binder
            )
            out.append(bind)

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
        """The binding failed for certain, or its outcome is unknown."""
        attempt = self._in(attempt_id, AttemptState.BINDING)
        if attempt is None:
            return
        binder, extenders = attempt.binder, self._extender_calls.extenders
        if binder is not None and extenders.all[binder].config.ignorable:
            self._extender_calls.went_on_without(attempt, binder, message)
            attempt.binder = None
            self._send_bind(attempt)
            return
        self._report_bind(attempt, Code.ERROR)
        if is_certain:
            self.fail(attempt, Failure(message))
            return
        attempt.doubt = message
        self._advance(attempt, AttemptEvent.DOUBT)
        self._ask(attempt)

    def _report_bind(self, attempt: Attempt, code: Code) -> None:
        if attempt.framework.plugins.binds_plainly:
            attempt.framework.bound_plainly(code, self._core.now - attempt.since)

    def _finish(self, attempt: Attempt) -> None:
        """The pod is bound, whether we know it by an answer or by the watch."""
        core, queued = self._core, attempt.queued
        self._ended(attempt, "scheduled")
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
        if attempt.state is not AttemptState.BOUND:
            self._tell_outcome(attempt.queued, "gone", attempt, Failure(why))
        freed = self._undo(attempt, AttemptEvent.LEAVE, why)
        for queued in attempt.members:
            self._core.queue.done(queued.pod_info.uid)
        self._free(attempt, freed=freed)

    def node_gone(self, name: str) -> None:
        """Fail the attempts that run PreBind for a node that is gone.

        Their pods do not need what PreBind prepares there. A binding that was sent may succeed.
        """
        preparing = [each for each in self if each.state is AttemptState.PREBINDING]
        for attempt in preparing:
            if attempt.pod.node_name == name:
                self.fail(attempt, Failure(f'node "{name}" not found'))

    def in_doubt(self, attempt_id: int) -> Attempt | None:
        """The attempt, if it is still to be found out whether its pod is bound."""
        return self._in(attempt_id, AttemptState.UNSURE, AttemptState.BOUND)

    def not_bound(self, attempt: Attempt) -> None:
        """The pod of an attempt in doubt has no node; one that was said to have is let go."""
        if attempt.state is AttemptState.UNSURE:
            self.fail(attempt, Failure(attempt.doubt))
        else:
            self.leave(attempt, "not bound after all")

    def took_long(self, uid: str, seconds: float) -> None:
        """A decision took long: the second time in a row the pod is put last, and says so."""
        queued = self._core.queue.took_long(uid)
        if queued is None:
            return
        message = (
            f"{queued.last_failure} Tried last for {PUT_LAST_SECONDS // 60:.0f} minutes: "
            f"deciding took {seconds:.1f} s of processor time, for the second time in a row."
        )
        rejected = bool(queued.unschedulable_plugins or queued.pending_plugins)
        failure = Failure(message, is_rejection=rejected, nominated_node_name=None)
        self._patch(queued.pod_info, failure)

    # --- time -----------------------------------------------------------------------------------

    def tick(self) -> None:
        """Reject pods at the end of their Permit timeouts, and check unconfirmed bindings.

        The API server is asked about a pod if its binding is in doubt, or if the watch has not
        confirmed the binding within `CONFIRM_SECONDS`.
        """
        core = self._core
        for waiting in core.waiting:
            late = waiting.timed_out(core.now)
            if late is not None:
                self.rejected(late)
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
        comes after it is back in the queue, and leaves it alone. Until then no code of others runs
        that may raise: the pod would be lost.
        """
        core = self._core
        decided = attempt.state not in UNDECIDED
        freed = self._undo(attempt, AttemptEvent.FAIL, failure.message) and decided
        if freed and not failure.is_rejection:
            self._free(attempt, freed=freed)
        if not failure.is_rejection:
            core.out.append(LogError(SCHEDULING_FAILED, attempt.pod.key, failure.message))
        rejection = None
        if failure.fits_nowhere:
            rejection = Rejection(
                failure.message,
                failure.unschedulable_plugins,
                failure.excess,
                core.cluster_version,
                core.now,
            )
        for queued in attempt.members:
            self._requeue(queued, failure, rejection, is_nominated=attempt.is_nominated)
        if freed and failure.is_rejection:
            self._free(attempt, freed=freed)
        self._ended(attempt, "unschedulable" if failure.is_rejection else "error", failure)

    def _ended(self, attempt: Attempt, result: str, failure: Failure | None = None) -> None:
        """Count an attempt that came to a result."""
        core, profile = self._core, attempt.framework.profile_name
        core.metrics.attempt_ended(result, profile, core.now - attempt.start)
        self._tell_outcome(attempt.queued, result, attempt, failure)

    def _tell_outcome(
        self,
        queued: QueuedPodInfo,
        result: str,
        attempt: Attempt | None = None,
        failure: Failure | None = None,
    ) -> None:
        """Give the outcome to be recorded; the pod must not suffer if that raises."""
        core = self._core
        if core.take_outcome is None:
            return
        try:
            core.take_outcome(
                outcome_of(queued, result, core.now, attempt=attempt, failure=failure)
            )
        except Exception as problem:  # noqa: BLE001 - see above
            core.take_outcome = None
            core.report(OUTCOMES_END, queued.pod_info.key, problem)

    def _requeue(
        self,
        queued: QueuedPodInfo,
        failure: Failure,
        rejection: Rejection | None,
        *,
        is_nominated: bool = False,
    ) -> None:
        core = self._core
        queued.unschedulable_plugins = failure.unschedulable_plugins
        queued.pending_plugins = failure.pending_plugins
        queued.last_failure = failure.message
        queued.excess = failure.excess
        if not core.queue.add_unschedulable_if_not_present(queued, rejection):
            return
        pod = queued.pod_info
        if failure.nominated_node_name is not None:
            core.queue.add_nominated_pod(pod, failure.nominated_node_name)
        core.out.append(failed_scheduling(pod, failure.message))
        self._patch(pod, failure, is_nominated=is_nominated)

    def _patch(self, pod: PodInfo, failure: Failure, *, is_nominated: bool = False) -> None:
        patch = status_patch(pod, failure, is_nominated=is_nominated)
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
        failures, writes = attempt.framework.run_unreserve_plugins(
            attempt.state_of_plugins, pod, pod.node_name
        )
        for problem in failures:
            self._core.report("Unreserve failed", pod.key, problem)
        self._core.out.extend(writes)
        self._tell_states(self._core.states.unreserved, pod)

    def _tell_states(self, tell: Callable[[PodInfo], list[PluginError]], pod: PodInfo) -> None:
        for problem in tell(pod):
            self._core.report("Plugin failed", pod.key, problem)

    # --- helpers --------------------------------------------------------------------------------

    def _advance(self, attempt: Attempt, event: AttemptEvent, detail: str = "") -> None:
        core = self._core
        core.story.tell(attempt.advance(event, core.time.now, detail))

    def _guarded(self, attempt: Attempt, step: Callable[[Attempt], None]) -> None:
        """Whatever goes wrong in a step fails this attempt, and nothing else."""
        try:
            step(attempt)
        except (PluginError, ExtenderError) as problem:
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
        self._extender_calls.forget(attempt)
        for queued in attempt.members:
            del self._by_uid[queued.pod_info.uid]
        self._bound.pop(attempt.id, None)
        self._doubtful.pop(attempt.id, None)
