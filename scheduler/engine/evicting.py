"""Preemption carried out: victims are evicted, and the preemptor is held back meanwhile.

Source: kubernetes pkg/scheduler/framework/preemption/executor.go (prepareCandidateAsync,
PreemptPod) v1.36.
Differs: a victim is evicted once, however many preemptors want it gone; it is told apart by UID.
"""

from typing import Final

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.api.written import Condition
from scheduler.engine.attempt import AttemptState
from scheduler.engine.attempts import Attempts
from scheduler.engine.core import Core
from scheduler.engine.failure import Failure, preempted
from scheduler.engine.instructions import Evict, PatchStatus, Report
from scheduler.framework.interface import PostFilterResult
from scheduler.preemption import Evictions

DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"

_IN_MEMORY: Final = frozenset({AttemptState.HELD, AttemptState.PREBINDING})
"""No binding has left: the API server need not hear of it."""


class _Run(msgspec.Struct):
    """What is under way for one preemptor.

    Attributes:
        preemptor: who needs the room.
        first: UIDs of the victims whose eviction has no answer yet, but for the last.
        last: the least important victim; it goes when all the others have gone.
        has_failed: whether a victim could not be evicted: the last one is left alone.
    """

    preemptor: PodInfo
    first: set[str]
    last: PodInfo
    has_failed: bool = False


class Evicting:
    """All evictions under way."""

    def __init__(self, core: Core, attempts: Attempts) -> None:
        self._core = core
        self._attempts = attempts
        self._runs: dict[str, _Run] = {}
        """By preemptor."""
        self._run_of: dict[str, str] = {}
        """Victims whose eviction has no answer yet, each with its preemptor."""

    def begin(self, preemptor: PodInfo, result: PostFilterResult) -> None:
        """Evict the victims that are not on their way out already."""
        core = self._core
        victims = [v for v in result.victims if not v.is_terminating and v.uid not in self._run_of]
        if not victims:
            return
        core.recorder.preempted(len(result.victims))
        self._clear_nominations(result.cleared)
        to_evict = [victim for victim in victims if not self._taken_back(preemptor, victim)]
        if not to_evict:
            return
        *first, last = to_evict
        self._runs[preemptor.uid] = _Run(preemptor, {victim.uid for victim in first}, last)
        self._evictions().begin(preemptor.uid)
        self._run_of.update((victim.uid, preemptor.uid) for victim in to_evict)
        for victim in first or [last]:
            core.out.append(_evict(victim, preemptor))

    def evicted(self, uid: str) -> None:
        """A victim is on its way out."""
        run = self._run(uid)
        if run is None:
            return
        victim = self._core.cache.get_pod(uid)
        if victim is not None:
            self._core.out.append(preempted(victim, run.preemptor))
        self._answered(run, uid)

    def failed(self, uid: str, message: str) -> None:
        """A victim could not be evicted."""
        run = self._run(uid)
        if run is None:
            return
        self._core.out.append(Report("Eviction failed", run.preemptor.key, message))
        run.has_failed = True
        self._answered(run, uid)

    def gone(self, uid: str) -> None:
        """A pod is gone, or being deleted, whoever did it."""
        run = self._run(uid)
        if run is not None:
            self._answered(run, uid)

    # --- helpers --------------------------------------------------------------------------------

    def _run(self, victim_uid: str) -> _Run | None:
        preemptor = self._run_of.get(victim_uid)
        return None if preemptor is None else self._runs.get(preemptor)

    def _answered(self, run: _Run, uid: str) -> None:
        self._run_of.pop(uid, None)
        run.first.discard(uid)
        is_last = uid == run.last.uid
        if run.first and not is_last:
            return
        if is_last or run.has_failed:
            self._end(run)
        else:
            self._core.out.append(_evict(run.last, run.preemptor))

    def _end(self, run: _Run) -> None:
        uid = run.preemptor.uid
        del self._runs[uid]
        for victim in (*run.first, run.last.uid):
            self._run_of.pop(victim, None)
        self._evictions().end(uid)
        if run.has_failed:
            self._core.queue.activate([uid])

    def _taken_back(self, preemptor: PodInfo, victim: PodInfo) -> bool:
        """Whether the victim could be stopped before the API server knew of it."""
        attempt = self._attempts.of(victim.uid)
        if attempt is None or attempt.state not in _IN_MEMORY:
            return False
        self._core.out.append(preempted(victim, preemptor, in_memory=True))
        self._attempts.fail(attempt, Failure("preempted"))
        return True

    def _clear_nominations(self, pods: tuple[PodInfo, ...]) -> None:
        """Less important pods lose the place; it would not be there for them."""
        for pod in pods:
            self._core.queue.add_nominated_pod(pod, "")
            self._core.out.append(
                PatchStatus(pod.namespace, pod.name, pod.uid, nominated_node_name="")
            )

    def _evictions(self) -> Evictions:
        return self._core.states.shared(Evictions, "")


def _evict(victim: PodInfo, preemptor: PodInfo) -> Evict:
    condition = _condition(victim, preemptor.spec.scheduler_name)
    return Evict(preemptor.uid, victim.namespace, victim.name, victim.uid, condition)


def _condition(victim: PodInfo, profile: str) -> Condition | None:
    """What the victim's status is to say; None when it does."""
    message = f"{profile}: preempting to accommodate a higher priority pod"
    conditions = victim.pod.status.conditions
    known = next((c for c in conditions if c.type == DISRUPTION_TARGET), None)
    wanted = ("True", PREEMPTION_BY_SCHEDULER, message)
    if known is not None and (known.status, known.reason, known.message) == wanted:
        return None
    return Condition(
        DISRUPTION_TARGET,
        *wanted,
        has_moved=known is None or known.status != "True",
        observed_generation=victim.pod.metadata.generation,
    )
