"""From a node in the cache to a binding at the API server, many pods at a time.

A fixed number of workers binds pods that need nothing else; a pod that Permit holds, or that has
PreBind work to do, gets a task of its own, so that it keeps nobody waiting.

Source: kubernetes pkg/scheduler/schedule_one.go (bindingCycle, handleBindingCycleError) v1.36.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from scheduler.cycle.attempt import Attempt
from scheduler.cycle.engine import Engine
from scheduler.cycle.failure import Failure, FailureHandler, rejected_by
from scheduler.framework.events import ASSIGNED_POD_DELETE
from scheduler.framework.runtime import PluginError
from scheduler.framework.status import Status
from scheduler.observability.logs import get_logger, verbose

DEFAULT_CONCURRENCY: Final = 32
_BACKLOG_PER_WORKER: Final = 4

log = get_logger(__name__)


class BindingCycles:
    """Binds assumed pods; whatever fails is rolled back in one place.

    Attributes:
        in_flight: attempts handed over and not ended.
    """

    def __init__(
        self,
        engine: Engine,
        failures: FailureHandler,
        *,
        on_room: Callable[[], None] = lambda: None,
        concurrency: int = DEFAULT_CONCURRENCY,
    ) -> None:
        self._engine = engine
        self._failures = failures
        self._on_room = on_room
        self._concurrency = concurrency
        self._is_waited_for = False
        self._backlog: deque[Attempt] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._own_tasks: set[asyncio.Task[None]] = set()
        self._drained = asyncio.Event()
        self.in_flight = 0

    # --- handing over ---------------------------------------------------------------------------

    def ask_for_room(self) -> bool:
        """Whether another pod should be decided now.

        When binding is too far behind, `on_room` is called once it has caught up: a decision made
        early is made on an old view.
        """
        if len(self._backlog) < self._concurrency * _BACKLOG_PER_WORKER:
            return True
        self._is_waited_for = True
        return False

    def submit(self, attempt: Attempt) -> None:
        """Take over a pod that is assumed, reserved and permitted (or held by Permit)."""
        self.in_flight += 1
        if attempt.waiting is not None or attempt.framework.plugins.pre_bind:
            task = asyncio.get_running_loop().create_task(self._run(attempt))
            self._own_tasks.add(task)
            task.add_done_callback(self._own_tasks.discard)
            return
        self._backlog.append(attempt)
        if self._idle:
            self._idle.popleft().set_result(None)

    async def run(self) -> None:
        """Bind until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work())

    async def drain(self) -> None:
        """Wait until nothing is in flight but pods that Permit holds; nobody knows for how long."""
        while not self._is_drained:
            self._drained.clear()
            await self._drained.wait()

    @property
    def _is_drained(self) -> bool:
        return self.in_flight <= len(self._engine.waiting)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while self._backlog:
                attempt = self._backlog.popleft()
                if self._is_waited_for and len(self._backlog) < self._concurrency:
                    self._is_waited_for = False
                    self._on_room()
                await self._run(attempt)
            idle: asyncio.Future[None] = loop.create_future()
            self._idle.append(idle)
            await idle

    # --- one binding cycle ----------------------------------------------------------------------

    async def _run(self, attempt: Attempt) -> None:
        try:
            failure = await self._bind(attempt)
            if failure is None:
                self._finish(attempt)
            else:
                self._undo(attempt, failure)
        except Exception as problem:
            # One pod must never stop the workers.
            log.exception("Binding cycle failed", pod=attempt.pod.key, node=attempt.node_name)
            self._undo(attempt, Failure(f"{type(problem).__name__}: {problem}"))
        finally:
            self.in_flight -= 1
            if self._is_drained:
                self._drained.set()

    async def _bind(self, attempt: Attempt) -> Failure | None:
        """None when the pod is bound, else why it is not."""
        framework, pod, node_name = attempt.framework, attempt.pod, attempt.node_name
        # 1. Wait until Permit plugins let the pod go. Later failures are never rejections.
        if attempt.waiting is not None:
            status = await self._wait_on_permit(attempt)
            if not status.is_success:
                return rejected_by(status)
        self._engine.queue.done_scheduling_cycle(pod.uid)
        try:
            # 2. PreBind, then 3. Bind.
            if framework.plugins.pre_bind:
                status = await framework.run_pre_bind_plugins(attempt.state, pod, node_name)
                if not status.is_success:
                    return Failure(status.message)
            status = await framework.run_bind_plugins(attempt.state, pod, node_name)
        except PluginError as problem:
            return Failure(str(problem))
        return None if status.is_success else Failure(status.message)

    async def _wait_on_permit(self, attempt: Attempt) -> Status:
        waiting = attempt.waiting
        if waiting is None:
            return Status()
        start = self._engine.now()
        try:
            status = await waiting.decision()
        finally:
            self._engine.waiting.remove(attempt.pod.uid)
        self._engine.recorder.permit_waited(status.code.upstream_name, self._engine.now() - start)
        return status

    def _finish(self, attempt: Attempt) -> None:
        pod = attempt.pod
        self._engine.cache.finish_binding(pod)
        now = self._engine.now()
        self._engine.recorder.pod_bound(
            attempt.framework.profile_name, attempt.queued, now - attempt.start, now
        )
        self._engine.writer.scheduled(pod)
        if verbose(2):
            log.info(
                "Successfully bound pod to node",
                v=2,
                pod=pod.key,
                node=pod.node_name,
                evaluatedNodes=attempt.evaluated_nodes,
                feasibleNodes=attempt.feasible_nodes,
            )
        if attempt.framework.plugins.post_bind:
            for problem in attempt.framework.run_post_bind_plugins(
                attempt.state, pod, attempt.node_name
            ):
                log.warning("PostBind failed", pod=pod.key, err=str(problem))
        self._engine.queue.done(pod.uid)

    # --- taking back ----------------------------------------------------------------------------

    def roll_back(self, attempt: Attempt, failure: Failure) -> None:
        """Give back a place that was taken for nothing: Reserve or Permit refused the pod."""
        self._give_back(attempt)
        self._failures.handle(attempt.framework, attempt.queued, failure, attempt.start)

    def _undo(self, attempt: Attempt, failure: Failure) -> None:
        """Binding failed: give the place back and wake those who could use it.

        A pod that was rejected must not be woken by the end of its own reservation: the event then
        comes after it is back in the queue, and leaves it alone.
        """
        freed = self._give_back(attempt)
        if freed and not failure.is_rejection:
            self._engine.queue.move_all_to_active_or_backoff_queue(
                ASSIGNED_POD_DELETE, attempt.pod, None
            )
        if verbose(1):
            log.info(
                "Failed to bind pod",
                v=1,
                pod=attempt.pod.key,
                node=attempt.node_name,
                err=failure.message,
            )
        self._failures.handle(attempt.framework, attempt.queued, failure, attempt.start)
        if freed and failure.is_rejection:
            self._engine.queue.move_all_to_active_or_backoff_queue(
                ASSIGNED_POD_DELETE, attempt.pod, None, but=attempt.pod.uid
            )

    def _give_back(self, attempt: Attempt) -> bool:
        """Unreserve in reverse order, then forget; says whether the cache gave anything back."""
        for problem in attempt.framework.run_unreserve_plugins(
            attempt.state, attempt.pod, attempt.node_name
        ):
            log.warning("Unreserve failed", pod=attempt.pod.key, err=str(problem))
        return self._engine.cache.forget_pod(attempt.pod)
