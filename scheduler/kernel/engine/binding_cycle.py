"""The binding cycle: from Permit to the pod that the watch shows on its node.

Source: kubernetes pkg/scheduler/schedule_one.go (bindingCycle,
handleBindingCycleError) v1.36.
"""

from collections.abc import Mapping
from typing import Final

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.attempt import Attempt, AttemptEvent, AttemptState
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.events import Rejected
from scheduler.kernel.engine.failure import nomination, rejected_by, scheduled
from scheduler.kernel.engine.held import WaitingPod
from scheduler.kernel.engine.instructions import Bind, ReadPod, RunPreBind, SetTimer
from scheduler.kernel.engine.pending_extender_calls import PendingExtenderCalls
from scheduler.kernel.engine.scheduling_failure import FailureHandler
from scheduler.kernel.framework.status import Code, Status, unschedulable
from scheduler.kernel.framework.types import Failure, PreBindWork

CONFIRM_SECONDS: Final = 30.0
"""Time for the watch to show a bound pod on its node, before `ReadPod` is sent."""
ASK_AGAIN_SECONDS: Final = 5.0
"""Time between two `ReadPod` of the same pod."""
MAX_QUESTIONS: Final = 16
"""The most pods in doubt that one tick may read from the API server."""

_BEFORE_BIND: Final = frozenset({AttemptState.RESERVED, AttemptState.HELD, AttemptState.PREBINDING})
_NOT_HELD: Final = _BEFORE_BIND - {AttemptState.HELD}


class BindingCycle:
    """Takes reserved pods through the wait in Permit, PreBind and Bind."""

    def __init__(
        self, core: EngineState, calls: PendingExtenderCalls, failures: FailureHandler
    ) -> None:
        self._core = core
        self._extender_calls = calls
        self._attempts = core.attempts
        self._failures = failures

    def permitted(self, attempt: Attempt, status: Status, timeouts: Mapping[str, float]) -> None:
        """Go on after Reserve and Permit: hold the pod, start its binding cycle, or fail it.

        `timeouts` has seconds for each plugin that asked to wait.
        """
        if timeouts:
            self._hold(attempt, timeouts)
        elif status.is_success:
            self.start(attempt)
        else:
            self._failures.handle_scheduling_failure(attempt, rejected_by(status))

    def _hold(self, attempt: Attempt, timeouts: Mapping[str, float]) -> None:
        """Add the pod to the waiting pods, and set a timer for its first Permit timeout."""
        core = self._core
        self._attempts.advance(attempt, AttemptEvent.WAIT)
        self._nominate(attempt)
        waiting = core.waiting.add(attempt.pod, attempt.id, timeouts, core.now)
        core.out.append(SetTimer(waiting.deadline))

    def plugins_changed(self) -> None:
        """Reject waiting pods whose profile is gone, or lacks a Permit plugin that they wait for.

        The plugin could not allow them, so they would occupy their nodes until the timeout.
        """
        for waiting in self._core.waiting:
            framework = self._core.frameworks.get(waiting.pod.spec.scheduler_name)
            permit = () if framework is None else framework.plugins.permit
            present = {plugin.name for plugin in permit}
            for name in waiting.pending_plugins:
                if name not in present:
                    why = Rejected(waiting.pod.uid, name, f"{name} is no longer enabled")
                    self._core.waiting.settle(why.uid, why)

    def go_on(self, settled: WaitingPod) -> None:
        """Start the binding cycle of a settled pod, or fail its attempt."""
        attempt = self._attempts[settled.attempt]
        rejection = settled.rejection
        if isinstance(rejection, Failure):
            self._failures.handle_scheduling_failure(attempt, rejection)
        elif rejection is None:
            self._failures.end_waiting(settled.pod.uid, Code.SUCCESS)
            self._failures.guarded(attempt, lambda: self.start(attempt))
        else:
            status = unschedulable(rejection.message).by(rejection.plugin)
            self._failures.handle_scheduling_failure(attempt, rejected_by(status))

    def start(self, attempt: Attempt) -> None:
        """Start PreBind, or else Bind; a rejection after this point is retried after back-off."""
        pod = attempt.pod
        self._core.queue.in_flight.stop_collecting(pod.uid)
        work = attempt.framework.pre_bind_work(attempt.cycle_state, pod)
        asks = work is not PreBindWork.NOTHING or not attempt.framework.plugins.binds_plainly
        if asks and attempt.order is None:
            # Requests of plugins wait in this order.
            attempt.order = self._core.order_of(attempt.queued)
        if work is PreBindWork.NOTHING:
            self._bind(attempt)
            return
        self._attempts.advance(attempt, AttemptEvent.PREPARE)
        if work is PreBindWork.ANYTHING:
            self._nominate(attempt)
        self._core.out.append(RunPreBind(attempt.id))

    def _nominate(self, attempt: Attempt) -> None:
        """Write nominatedNodeName for a pod that is not bound at once, for an autoscaler, say.

        Source: schedule_one.go bindingCycle, with NominatedNodeNameForExpectation.
        Differs: upstream nominates every pod for which PreBind has work, even if that only
        writes claims and takes no longer than a binding.
        """
        if attempt.is_nominated:
            return
        attempt.is_nominated = True
        patch = nomination(attempt.pod)
        if patch is not None:
            self._core.out.append(patch)

    def _bind(self, attempt: Attempt) -> None:
        """Send the binding; in BINDING again, without the extender that has failed to bind."""
        if attempt.state is not AttemptState.BINDING:
            self._attempts.advance(attempt, AttemptEvent.BIND)
            if self._core.extenders.all:
                attempt.binder = self._extender_calls.binder(attempt)
        pod, binder = attempt.pod.pod, attempt.binder
        meta, plugins = pod.metadata, attempt.framework.plugins
        by_plugins = binder is None and not plugins.binds_plainly
        self._core.out.append(
            Bind(attempt.id, meta.namespace, meta.name, meta.uid, pod.node_name, by_plugins, binder)
        )

    def pre_bound(self, attempt_id: int, failure: Failure | None) -> None:
        """Bind a pod after PreBind, or fail its attempt."""
        attempt = self._attempts.in_state(attempt_id, AttemptState.PREBINDING)
        if attempt is None:
            return
        if failure is not None:
            self._failures.handle_scheduling_failure(attempt, failure)
        else:
            self._bind(attempt)

    def bound(self, attempt_id: int) -> None:
        """Handle a binding that succeeded."""
        attempt = self._attempts.in_state(attempt_id, AttemptState.BINDING, AttemptState.UNSURE)
        if attempt is not None:
            self._report_bind(attempt, Code.SUCCESS)
            self._attempts.advance(attempt, AttemptEvent.ACCEPT)
            self._attempts.doubtful.pop(attempt.id, None)
            self._attempts.bound[attempt.id] = attempt
            self._finish(attempt)

    def bind_failed(self, attempt_id: int, failure: Failure, *, is_certain: bool) -> None:
        """Handle a binding that failed for certain, or whose outcome is unknown."""
        attempt = self._attempts.in_state(attempt_id, AttemptState.BINDING)
        if attempt is None:
            return
        binder, extenders = attempt.binder, self._core.extenders
        if binder is not None and extenders.all[binder].config.ignorable:
            self._extender_calls.went_on_without(attempt, binder, failure.message)
            attempt.binder = None
            self._bind(attempt)
            return
        self._report_bind(attempt, Code.ERROR)
        if is_certain:
            self._failures.handle_scheduling_failure(attempt, failure)
            return
        attempt.doubt = failure
        self._attempts.advance(attempt, AttemptEvent.DOUBT)
        self._ask(attempt)

    def _report_bind(self, attempt: Attempt, code: Code) -> None:
        if attempt.framework.plugins.binds_plainly:
            attempt.framework.bound_plainly(code, self._core.now - attempt.since)

    def _finish(self, attempt: Attempt) -> None:
        """Report a bound pod in metrics and an event, take it off the queue, and run PostBind."""
        core, queued, pod = self._core, attempt.queued, attempt.pod
        self._failures.ended(attempt, "scheduled")
        began = queued.initial_attempt_timestamp
        core.metrics.pod_bound(
            queued.attempts,
            None if began is None else core.now - began,
            was_flushed=queued.was_flushed,
        )
        core.out.append(scheduled(pod))
        core.queue.done(pod.uid)
        if attempt.framework.plugins.post_bind:
            for problem in attempt.framework.run_post_bind_plugins(attempt.cycle_state, pod):
                core.report("PostBind failed", pod.key, problem)

    def confirmed(self, attempt: Attempt) -> None:
        """End an attempt whose pod the API server shows on the node of its binding."""
        was_told = attempt.state is AttemptState.BOUND
        self._attempts.advance(attempt, AttemptEvent.CONFIRM)
        self._attempts.forget(attempt)
        if not was_told:
            self._finish(attempt)

    def not_bound(self, attempt: Attempt, pod: PodInfo) -> None:
        """Fail an attempt in doubt whose pod has no node; abandon one with an accepted binding.

        A pod that is being deleted is not retried: the API server refuses to bind it.
        An extender or Bind plugin that reports a binding without making it may do so every time.
        So the pod is requeued with backoff, and its event and status name that extender or plugin.
        Differs: in kube-scheduler such a pod is not retried, and keeps its room.
        """
        if pod.is_terminating:
            self._failures.abandon(attempt, "being deleted")
            return
        if attempt.state is AttemptState.UNSURE:
            self._failures.handle_scheduling_failure(attempt, attempt.doubt)
            return
        binder = self._binder_in_words(attempt)
        if not binder:
            self._failures.abandon(attempt, "not bound after all", is_retried=True)
            return
        problem = f"{binder} reported the pod as bound, but the pod has no node"
        self._failures.abandon(attempt, problem, is_retried=True)
        self._failures.retry_unbound(attempt, Failure(problem))

    def _binder_in_words(self, attempt: Attempt) -> str:
        """Name the extender or Bind plugins of the pod; empty if the engine sends the binding."""
        if attempt.binder is not None:
            extender = self._core.extenders.all[attempt.binder]
            return f"extender at URL {extender.url(extender.config.bind_verb)}"
        plugins = attempt.framework.plugins
        if plugins.binds_plainly:
            return ""
        return f"Bind plugin {' or '.join(plugin.name for plugin in plugins.bind)}"

    def node_gone(self, name: str) -> None:
        """Fail the attempts in RESERVED, HELD or PREBINDING whose node was deleted.

        A new node of the same name is another node. A binding that was sent may succeed.
        Differs: upstream binds the pods to a node that is gone, where they are deleted.
        """
        waiting = [each for each in self._attempts if each.state in _BEFORE_BIND]
        for attempt in waiting:
            if attempt.pod.node_name == name:
                failure = Failure(f'node "{name}" not found')
                self._failures.stop(attempt, failure)

    def set_back(self, message: str) -> None:
        """Fail the attempts without a bind request after the API server was set back.

        Restored pods may use their nodes. An attempt that asks extenders fails too: it would decide
        before the relist is complete.
        """
        failure, asks = Failure(message), self._extender_calls.asks
        self._core.waiting.fail_all(failure)
        for attempt in list(self._attempts):
            if attempt.state in _NOT_HELD or asks(attempt):
                self._failures.stop(attempt, failure, was_seen=True)
            elif attempt.state is AttemptState.BINDING:
                # If the extender fails after this, the engine must not send a binding itself.
                attempt.binder = None

    def tick(self) -> None:
        """Reject pods at the end of their Permit timeouts, and check unconfirmed bindings.

        The API server is asked about a pod if its binding is in doubt, or if the watch has not
        confirmed the binding within `CONFIRM_SECONDS`.
        """
        core = self._core
        for waiting in core.waiting:
            late = waiting.timed_out(core.now)
            if late is not None:
                core.waiting.settle(late.uid, late)
        for attempt in self._attempts.bound.values():
            if attempt.since + CONFIRM_SECONDS > core.now:
                break
            self._attempts.doubtful.setdefault(attempt.id, attempt)
        for attempt in list(self._attempts.doubtful.values())[:MAX_QUESTIONS]:
            if attempt.asked_at + ASK_AGAIN_SECONDS <= core.now:
                self._ask(attempt)

    def _ask(self, attempt: Attempt) -> None:
        """Send `ReadPod` for an attempt, and move the attempt to the end of `doubtful`."""
        attempt.asked_at = self._core.now
        self._attempts.doubtful[attempt.id] = self._attempts.doubtful.pop(attempt.id, attempt)
        pod = attempt.pod
        self._core.out.append(ReadPod(attempt.id, pod.namespace, pod.name, pod.uid))
