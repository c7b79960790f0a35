"""The scheduling cycle: from the head of the queue to a node with all reservations.

Source: kubernetes pkg/scheduler/schedule_one.go (ScheduleOne, schedulingCycle) v1.36.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from scheduler.kernel.engine.algorithm import Found, ScheduleResult
from scheduler.kernel.engine.attempt import PLACED, Attempt
from scheduler.kernel.engine.binding_cycle import BindingCycle
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.pending_extender_calls import PendingExtenderCalls
from scheduler.kernel.engine.placing import MAX_BATCH, Batch, Placing
from scheduler.kernel.engine.pod_group_cycle import PodGroupCycle
from scheduler.kernel.engine.preemption_executor import PreemptionExecutor
from scheduler.kernel.engine.room_keeper import RoomKeeper
from scheduler.kernel.engine.scheduling_failure import FailureHandler
from scheduler.kernel.engine.waking_groups import GroupWaking
from scheduler.kernel.extender import Answer
from scheduler.kernel.framework.runtime import AttemptDiagnosis
from scheduler.kernel.framework.types import Failure, QueuedPodInfo

PLUGIN_METRICS_EVERY: Final = 10
"""One of this many cycles has its plugin calls timed. Source: pluginMetricsSamplePercent."""


class SchedulingLoop:
    """Takes pods off the queue and finds nodes for them.

    Attributes:
        decided: UID of the pod, or of one group member, of the last step; empty for none.
        scheduled: number of pods in the last step.
        group_cycle: the cycle of pod groups; for reading.
        room_keeper: keeps room for pods and groups that wait long.
        waking: activates the members of groups.
    """

    def __init__(
        self,
        core: EngineState,
        calls: PendingExtenderCalls,
        failures: FailureHandler,
        binding: BindingCycle,
        executor: PreemptionExecutor,
    ) -> None:
        self._core = core
        self.waking = GroupWaking(core, executor)
        self._attempts = core.attempts
        self._extender_calls = calls
        self._failures = failures
        self._binding = binding
        self._placing = placing = Placing(core, calls)
        self.room_keeper = keeper = RoomKeeper(core, executor)
        self.group_cycle = PodGroupCycle(core, failures, binding, placing, executor, keeper)
        self._preemption_executor = executor
        self.decided = ""
        self.scheduled = 0

    @property
    def has_turn(self) -> bool:
        """Whether members are to be activated, or an attempt continues before the next pop.

        Such an attempt is of the group under way, was settled by Permit, or may ask extenders now.
        """
        calls = self._extender_calls
        return bool(
            self.waking.asleep
            or self._core.waiting.settled
            or self.group_cycle.has_turn
            or (calls.waiting and calls.has_turn)
        )

    def schedule(self, limit: int) -> None:
        """Continue the group under way or an attempt that may ask extenders, or else pop pods.

        At most `limit` equal pods are scheduled; the step ends after a pod that gets no node.
        """
        core, groups = self._core, self.group_cycle
        self.decided, self.scheduled = "", 0
        if core.waiting.settled or self.waking.asleep:
            return  # `Engine.handle` serves these first: they may free room for the next pod.
        if groups.has_turn:
            self.scheduled = groups.go_on()
            self.decided = groups.decided
            return
        batch = Batch(core, min(limit, MAX_BATCH))
        attempt = self._extender_calls.next_in_line()
        if attempt is not None and attempt.framework.is_member(attempt.pod):
            self.decided = attempt.pod.uid
            groups.asking.ask(attempt)
            return
        if attempt is not None:
            self._measured(attempt, lambda: self._scheduling_cycle(attempt, batch))
            return
        # A member of the group under way may wait for an extender: then no other pod is popped.
        queued = None if groups.members else core.queue.pop()
        if queued is not None and core.is_member(queued.pod_info):
            self.decided = queued.pod_info.uid
            self.scheduled = groups.schedule(queued)
        elif queued is not None:
            self._schedule_batch(queued, batch)

    def _schedule_batch(self, first: QueuedPodInfo, batch: Batch) -> None:
        """Schedule a popped pod, then pop and schedule the equal pods at the head of the queue."""
        core, queued = self._core, first
        while True:
            batch.left -= 1
            is_placed = self._schedule_one(queued, batch)
            if not is_placed:
                reason = "pod_failed"
            elif not batch.left or core.inbox or self.has_turn:
                reason = "expired"
            else:
                following, reason = core.queue.pop_equal(queued.pod_info), "pod_incompatible"
                if following is not None:
                    queued = following
                    continue
            batch.end(reason, is_placed=is_placed)
            return

    def answered(self, number: int, answer: Answer) -> None:
        """Handle the answer of an extender to a question, or its failure to answer."""
        self.decided, self.scheduled = "", 0
        attempt = self._extender_calls.asked_by(number)
        if attempt is None:
            return
        if attempt.framework.is_member(attempt.pod):
            self.decided = attempt.pod.uid
            self.group_cycle.asking.answered(attempt, number, answer)
        else:
            self._measured(attempt, lambda: self._take(attempt, number, answer))

    # --- one pod --------------------------------------------------------------------------------

    def _schedule_one(self, queued: QueuedPodInfo, batch: Batch) -> bool:
        """Schedule a popped pod; return whether it has a node."""
        core, pod = self._core, queued.pod_info
        self.scheduled += 1
        if self._placing.skips(pod):
            return False
        failure = core.queue.valid_rejection(queued, lambda: core.cluster_version)
        if failure is not None:
            core.metrics.attempt_ended("unschedulable", pod.spec.scheduler_name, 0.0)
            self._failures.requeue(queued, failure)
            self._failures.record_outcome(queued, "unschedulable", None, failure)
            return False
        attempt = self._attempts.begin(core.frameworks, queued)
        self._measured(attempt, lambda: self._scheduling_cycle(attempt, batch))
        return attempt.state in PLACED

    def _scheduling_cycle(self, attempt: Attempt, batch: Batch) -> None:
        """Run the scheduling cycle of an attempt, or continue it after answers of extenders."""
        core, framework, pod = self._core, attempt.framework, attempt.pod
        start = core.stopwatch()
        # 1. The result of an equal pod earlier in the batch may hold for this pod.
        found: Found | None = batch.next_result(framework, pod)
        if found is None:
            calls = self._extender_calls
            asks = core.extenders.all and core.extenders.about_nodes(pod)
            if asks and not calls.take_turn(attempt):
                return
            # 2. Update the snapshot from the cache.
            batch.catch_up()
            framework.calls.step("Snapshot")
            # 3. Filter, with extenders where there are any. 4. Score, and pick a node.
            is_first = attempt.extender_calls is None or not attempt.extender_calls.begun
            if asks and is_first and calls.ask_about_nodes(attempt, tries_nominated=True):
                return
            found = calls.search(attempt)
            if found is None:
                return
            batch.looked_at(framework, pod, found)
        self._placing.note(attempt, found, start)
        if not isinstance(found, ScheduleResult):
            # 5. PostFilter, where no node fits.
            failure = found if isinstance(found, Failure) else self._run_post_filter(attempt, found)
            if failure is not None:
                self._failures.handle_scheduling_failure(attempt, failure)
            return
        # 6. Assume the pod on its node.
        self._placing.assume(attempt, found.suggested_host, found.state)
        # 7. Run Reserve and Permit, then start the binding cycle.
        self._binding.permitted(attempt, *self._placing.reserve(attempt))

    def _run_post_filter(self, attempt: Attempt, diagnosis: AttemptDiagnosis) -> Failure | None:
        """Run PostFilter; return the failure, or None while extenders or a search delay it."""
        result, status = self._placing.post_filter(attempt, diagnosis)
        if result is None:
            nominated = None if attempt.framework.plugins.post_filter else ""
            failure = self._placing.fit_error(attempt, diagnosis, nominated)
        else:
            # The profile of the pod may have been removed while extenders were asked.
            if status.is_success and self._core.queue.get(attempt.pod.uid) is not None:
                if self._extender_calls.ask_about_candidates(attempt, result.candidates):
                    return None
                self._preemption_executor.begin(attempt.pod, result)
            failure = self._placing.fit_error(attempt, diagnosis, result.nominated_node_name)
            failure = replace(failure, needed_at=result.needed_at)
        is_helped = result is not None and bool(result.nominated_node_name or result.writes)
        is_free = status.is_rejection and not is_helped and not self.group_cycle.members
        if is_free and self.room_keeper.searches_for(attempt):
            self.group_cycle.keep_room(attempt, failure)
            return None
        return failure

    # --- extenders ------------------------------------------------------------------------------

    def _take(self, attempt: Attempt, number: int, answer: Answer) -> None:
        if self._extender_calls.take(number, answer):
            self._scheduling_cycle(attempt, Batch(self._core))

    # --- measuring ------------------------------------------------------------------------------

    def _measured(self, attempt: Attempt, cycle: Callable[[], None]) -> None:
        """Run a cycle with metrics and traces; an exception in it fails only this attempt."""
        core, calls, pod = self._core, attempt.framework.calls, attempt.pod
        self.decided = core.waiting.deciding = pod.uid
        calls.begin_cycle(sampled=attempt.id % PLUGIN_METRICS_EVERY == 0)
        start = core.stopwatch()
        try:
            cycle()
        except Exception as problem:  # noqa: BLE001 - one pod must never stop the others
            self._failures.raised(attempt, problem)
        core.waiting.deciding = ""
        if core.tracer is not None:
            core.tracer.cycle_done(pod.key, start, core.stopwatch(), calls.steps)
