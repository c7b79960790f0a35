"""The attempts under way, by number and by pod.

Their steps are in `schedule_one`, `binding_cycle` and `scheduling_failure`.
"""

from collections.abc import Iterator
from typing import Any

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.attempt import Attempt, AttemptEvent, AttemptState
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.pending_extender_calls import PendingExtenderCalls
from scheduler.kernel.framework.types import QueuedPodInfo


class Attempts:
    """All attempts that have not ended.

    Attributes:
        extender_calls: the calls to extenders about their pods.
        bound: attempts in BOUND by number, in order of arrival.
        doubtful: attempts in UNSURE, or for long in BOUND, by number; `ReadPod` is due for them in
            this order.
    """

    def __init__(self, core: EngineState) -> None:
        self._core = core
        self._by_id: dict[int, Attempt] = {}
        self._by_uid: dict[str, Attempt] = {}
        self._last_id = 0
        self.bound: dict[int, Attempt] = {}
        self.doubtful: dict[int, Attempt] = {}
        self.extender_calls = PendingExtenderCalls(core, self.advance)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Attempt]:
        return iter(self._by_id.values())

    def assumed(self) -> Iterator[PodInfo]:
        """The pods of attempts with a node, on that node."""
        return (each.placed for each in self if each.placed is not None)

    def __getitem__(self, attempt_id: int) -> Attempt:
        return self._by_id[attempt_id]

    def get(self, attempt_id: int) -> Attempt | None:
        """The attempt, if it has not ended."""
        return self._by_id.get(attempt_id)

    def of(self, uid: str) -> Attempt | None:
        """The attempt about a pod, if there is one."""
        return self._by_uid.get(uid)

    def in_state(self, attempt_id: int, *states: AttemptState) -> Attempt | None:
        """The attempt if it is in one of the states, else None: an answer may come too late."""
        attempt = self._by_id.get(attempt_id)
        return attempt if attempt is not None and attempt.state in states else None

    def begin(self, queued: QueuedPodInfo, order: Any = None) -> Attempt:
        """Begin the attempt of a popped pod; `order` is the place of its group in the queue."""
        core, pod = self._core, queued.pod_info
        self._last_id += 1
        framework = core.frameworks[pod.spec.scheduler_name]
        attempt = Attempt(self._last_id, framework, queued, core.time.now, order=order)
        self._by_id[attempt.id] = self._by_uid[pod.uid] = attempt
        return attempt

    def advance(self, attempt: Attempt, event: AttemptEvent, detail: str = "") -> None:
        """Advance an attempt by an event; see `attempt.TRANSITIONS`.

        Raises:
            AttemptError: the event cannot happen in this state.
        """
        core = self._core
        core.story.append(attempt.advance(event, core.time.now, detail))

    def forget(self, attempt: Attempt) -> None:
        """Remove an attempt that has ended."""
        del self._by_id[attempt.id]
        if self._core.extenders.all:
            self.extender_calls.forget(attempt)
        del self._by_uid[attempt.queued.pod_info.uid]
        self.bound.pop(attempt.id, None)
        self.doubtful.pop(attempt.id, None)
