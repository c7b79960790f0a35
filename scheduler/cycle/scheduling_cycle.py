"""`schedule_one`: one pod from the queue to a node in the cache.

Source: kubernetes pkg/scheduler/schedule_one.go (ScheduleOne, schedulingCycle) v1.36.
"""

from random import Random
from typing import Final

from scheduler.api.pods import PodInfo
from scheduler.cycle.algorithm import (
    NoNodesAvailable,
    ScheduleResult,
    SchedulingAlgorithm,
    Unschedulable,
)
from scheduler.cycle.attempt import Attempt
from scheduler.cycle.binding_cycle import BindingCycles
from scheduler.cycle.engine import Engine
from scheduler.cycle.failure import (
    Failure,
    FailureHandler,
    failure_of,
    no_nodes,
    rejected_by,
)
from scheduler.framework.runtime import Framework, PluginError
from scheduler.framework.status import Code, Status
from scheduler.framework.types import QueuedPodInfo
from scheduler.observability.logs import get_logger, verbose

PLUGIN_METRICS_SAMPLE: Final = 0.1
"""The share of cycles whose plugin calls are timed. Source: pluginMetricsSamplePercent."""

log = get_logger(__name__)


class Scheduler:
    """Runs scheduling cycles; one at a time, each without waiting for anything."""

    def __init__(
        self,
        engine: Engine,
        algorithm: SchedulingAlgorithm,
        binding: BindingCycles,
        failures: FailureHandler,
        random: Random,
    ) -> None:
        self._engine = engine
        self._algorithm = algorithm
        self._binding = binding
        self._failures = failures
        self._random = random

    def schedule_one(self) -> bool:
        """Schedule the most important ready pod; says whether there was one."""
        # 1. Take the next pod, unless it needs no node any more.
        queued = self._engine.queue.pop()
        if queued is None:
            return False
        if self._skip_pod_schedule(queued):
            self._engine.queue.done(queued.pod_info.uid)
            return True
        start = self._engine.now()
        framework = self._engine.frameworks[queued.pod_info.spec.scheduler_name]
        framework.calls.begin_cycle(sampled=self._random.random() < PLUGIN_METRICS_SAMPLE)
        if verbose(3):
            log.info("Attempting to schedule pod", v=3, pod=queued.pod_info.key)
        try:
            # 2. Decide on a frozen view.
            self._engine.cache.update_snapshot(self._engine.snapshot)
            framework.calls.step("Snapshot")
            decision = self._decide(framework, queued.pod_info, start)
            if isinstance(decision, ScheduleResult):
                # 3. Take the place in memory and hand the rest over to the binding cycle.
                self._assume_and_bind(framework, queued, decision, start)
            else:
                self._reject(framework, queued, decision, start)
        except PluginError as problem:
            self._failures.handle(framework, queued, Failure(str(problem)), start)
        except Exception as problem:
            log.exception("Error selecting node for pod", pod=queued.pod_info.key)
            failure = Failure(f"{type(problem).__name__}: {problem}")
            self._failures.handle(framework, queued, failure, start)
        self._engine.recorder.cycle_done(
            queued.pod_info, start, self._engine.now(), framework.calls.steps
        )
        return True

    def catch_up(self) -> None:
        """Take over what changed in the cluster, so that the next attempt need not."""
        try:
            self._engine.cache.update_snapshot(self._engine.snapshot)
        except Exception:
            log.exception("Error updating the snapshot")

    def _skip_pod_schedule(self, queued: QueuedPodInfo) -> bool:
        pod = queued.pod_info
        if pod.is_terminating:
            self._engine.writer.failed_scheduling(pod, f"skip schedule deleting pod: {pod.key}")
            return True
        # A pod that was updated between its last cycle and being assumed may come twice.
        return self._engine.cache.is_assumed_pod(pod.uid)

    def _decide(
        self, framework: Framework, pod: PodInfo, start: float
    ) -> ScheduleResult | Unschedulable | NoNodesAvailable:
        nominated = self._engine.queue.nominator
        decision = self._algorithm.schedule_pod(framework, pod, self._engine.snapshot, nominated)
        self._engine.recorder.algorithm_done(self._engine.now() - start)
        return decision

    def _assume_and_bind(
        self, framework: Framework, queued: QueuedPodInfo, result: ScheduleResult, start: float
    ) -> None:
        pod = queued.pod_info.on_node(result.suggested_host)
        attempt = Attempt(
            framework,
            queued,
            pod,
            result.state,
            start,
            None,
            result.evaluated_nodes,
            result.feasible_nodes,
        )
        self._engine.cache.assume_pod(pod)
        if len(self._engine.queue.nominator):
            self._engine.queue.nominator.delete_nominated_pod_if_exists(pod.uid)
        try:
            status = self._reserve_and_permit(attempt)
        except PluginError as problem:
            self._binding.roll_back(attempt, Failure(str(problem)))
            return
        if status.is_success:
            self._binding.submit(attempt)
        else:
            self._binding.roll_back(attempt, rejected_by(status))

    def _reserve_and_permit(self, attempt: Attempt) -> Status:
        framework = attempt.framework
        status = framework.run_reserve_plugins(attempt.state, attempt.pod, attempt.node_name)
        if not status.is_success:
            return status
        status, timeouts = framework.run_permit_plugins(
            attempt.state, attempt.pod, attempt.node_name
        )
        if status.code is Code.WAIT:
            attempt.waiting = self._engine.waiting.add(attempt.pod, timeouts)
            return Status()
        return status

    def _reject(
        self,
        framework: Framework,
        queued: QueuedPodInfo,
        decision: Unschedulable | NoNodesAvailable,
        start: float,
    ) -> None:
        if isinstance(decision, NoNodesAvailable):
            self._failures.handle(framework, queued, no_nodes(decision), start)
            return
        nominated: str | None = ""
        if framework.plugins.post_filter:
            result, status = framework.run_post_filter_plugins(
                decision.state, queued.pod_info, self._engine.snapshot, decision.diagnosis
            )
            decision.diagnosis.post_filter_message = status.message
            nominated = None if result is None else result.nominated_node_name
        failure = failure_of(decision.diagnosis)
        self._failures.handle(framework, queued, failure, start, nominated_node_name=nominated)
