"""Carries out preemption: evicts the victims, and gates the preemptor meanwhile.

Source: kubernetes pkg/scheduler/framework/preemption/executor.go (prepareCandidateAsync,
PreemptPod) v1.36.
Differs: a victim is evicted once, however many preemptors wait for it; victims differ by UID.
An API server that is restored from a backup forgets evictions: the scheduler requests them again.
If a preemptor is gone or loses its nomination, victims whose eviction was not sent stay.
After a failure the preemptor is requeued with backoff. Upstream retries it at once, and so without
end when a permission is missing.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.api.written import Condition, ObjectReference
from scheduler.kernel.engine.attempt import REVOCABLE, AttemptState, Entry
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.failure import GROUP, changed_condition, reference
from scheduler.kernel.engine.instructions import Evict, LogError, PatchStatus, RecordEvent
from scheduler.kernel.engine.scheduling_failure import FailureHandler
from scheduler.kernel.framework.results import PostFilterResult
from scheduler.kernel.framework.types import Failure
from scheduler.kernel.preemption import Evictions

UNSEEN_SECONDS: Final = 15.0
"""An eviction that no watch has shown after this time is requested again: servers can lose it."""

DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"


class Preemptor(msgspec.Struct, frozen=True):
    """A pod, or a pod group with its members, that needs the room of its victims.

    Attributes:
        about: the pod or the group.
        profile: the scheduler name of its pods.
        pods: UIDs of the pods that wait for the room.

    Source: kubernetes pkg/scheduler/framework/preemption/executor.go (ExecutorPreemptor) v1.36.
    """

    about: ObjectReference
    profile: str
    pods: tuple[str, ...]

    @property
    def uid(self) -> str:
        """The UID of the pod or of the group."""
        return self.about.uid


class _Run(msgspec.Struct):
    """The evictions under way for one preemptor.

    Attributes:
        preemptor: the pod or group that needs the room.
        start: the start, in seconds of the events' clock.
        first: UIDs of the victims that have not been seen leaving, but for the last.
        last: the least important victim; it is evicted when all the others are leaving.
        is_last_leaving: whether it is leaving already.
        has_failed: whether a victim could not be evicted: the last one is left alone.
    """

    preemptor: Preemptor
    start: float
    first: set[str]
    last: PodInfo
    is_last_leaving: bool = False
    has_failed: bool = False


class PreemptionExecutor:
    """All evictions under way.

    An answer only means that the API server has accepted an eviction. The preemptor waits until the
    watch shows the victim leaving. Before that, its attempt would choose victims again.
    """

    def __init__(self, core: EngineState, failures: FailureHandler) -> None:
        self._core = core
        self._attempts = core.attempts
        self._failures = failures
        self._runs: dict[str, _Run] = {}
        """The run of each preemptor, by its UID."""
        self._wanted: dict[str, list[str]] = {}
        """The preemptors that wait for each victim to leave."""
        self._asked: dict[str, tuple[PodInfo, Preemptor]] = {}
        """Victims without an answer to their eviction, each with its preemptor."""
        self._accepted: dict[str, tuple[PodInfo, float]] = {}
        """Victims that the API server has evicted and the watch has not shown leaving, the oldest
        first, each with the time of the answer."""
        self.terminating: set[str] = set()
        """Pods that the watch has shown leaving, and that are not gone yet."""
        self._victims: set[str] = set()
        """Pods whose eviction was requested and has not failed, until they are gone."""
        self._displaced: set[str] = set()
        """Pods that lost their nomination to more important ones, until the watch shows that."""

    def begin(self, pod: PodInfo, result: PostFilterResult) -> None:
        """Evict the victims for a pod, but for those that are leaving already."""
        if any(map(self._has_to_leave, result.victims)):
            self.drop(pod.uid)
            self.clear_nominations(result.cleared)
            self._displaced.update(each.uid for each in result.cleared)
        preemptor = Preemptor(reference(pod), pod.spec.scheduler_name, (pod.uid,))
        self.evict(preemptor, result.victims)

    def evict(self, preemptor: Preemptor, chosen: Sequence[PodInfo]) -> None:
        """Evict the victims that are not leaving already."""
        victims = [victim for victim in chosen if self._has_to_leave(victim)]
        if not victims:
            return
        core = self._core
        core.metrics.preemption_victims.observe(len(chosen))
        self.drop(preemptor.uid)
        to_evict = [victim for victim in victims if not self._taken_back(preemptor, victim)]
        if not to_evict:
            return
        *first, last = to_evict
        run = _Run(preemptor, core.now, {victim.uid for victim in first}, last)
        self._runs[preemptor.uid] = run
        self._evictions().under_way.add(preemptor.uid)
        for victim in to_evict:
            self._wanted.setdefault(victim.uid, []).append(preemptor.uid)
        for victim in first or [last]:
            self._evict(victim, preemptor)

    def evicted(self, uid: str, *, was_there: bool) -> None:
        """Handle the answer that the API server has deleted a victim, now or earlier."""
        victim, preemptor = self._asked.pop(uid, (None, None))
        if victim is None or preemptor is None:
            return
        if was_there:
            self._core.out.append(_preempted(victim, preemptor))
        if uid in self.terminating:
            return
        is_cached = self._core.cache.pods.get(uid) is not None
        if not (was_there or is_cached):
            # Its deletion may have been shown before the request: no event is sure to come.
            self._settle(uid)
        elif uid in self._wanted or is_cached:
            # Even if no preemptor waits for the victim now, a later one must not evict it again.
            # Even if the victim is forgotten by the cache, the watch has yet to show it leaving.
            self._accepted[uid] = (victim, self._core.now)

    def failed(self, uid: str, message: str) -> None:
        """Handle the answer that a victim could not be evicted."""
        victim, preemptor = self._asked.pop(uid, (None, None))
        if victim is None or preemptor is None:
            return
        self._victims.discard(uid)
        core = self._core
        core.out.append(LogError("Eviction failed", victim.key, message))
        for waiting in self._wanted.get(uid, ()):
            core.attempts.story.append(
                Entry(core.now, waiting, 0, "not evicted", f"{victim.key}: {message}")
            )
        self._settle(uid, has_failed=True)

    def leaving(self, uid: str) -> None:
        """Handle a pod that is terminating or gone, whatever deleted it."""
        self._accepted.pop(uid, None)
        self.terminating.add(uid)
        self.needs_no_room(uid)
        self._settle(uid)

    def needs_no_room(self, uid: str) -> None:
        """End the preemption for a pod that left the queue, or for its group if no member waits."""
        self.drop(uid)
        for run in [run for run in self._runs.values() if uid in run.preemptor.pods]:
            others = (pod for pod in run.preemptor.pods if pod != uid)
            if all(self._core.queue.get(pod) is None for pod in others):
                self.drop(run.preemptor.uid)

    def drop_for(self, pods: Collection[PodInfo]) -> None:
        """End the preemptions for some pods that are held now, and for their group."""
        uids = {pod.uid for pod in pods}
        for run in [run for run in self._runs.values() if not uids.isdisjoint(run.preemptor.pods)]:
            self.drop(run.preemptor.uid)

    def gone(self, uid: str) -> bool:
        """Handle a pod that is gone; return whether its eviction had been requested.

        Until then, an evicted pod is not evicted again. A terminating pod is not gone. The cache
        does not show that an assumed pod is terminating.
        """
        self.leaving(uid)
        self.terminating.discard(uid)
        self._displaced.discard(uid)
        is_victim = uid in self._victims
        self._victims.discard(uid)
        return is_victim

    def no_longer_displaced(self, uid: str) -> bool:
        """Forget a displaced pod; return whether a more important pod had taken its nomination."""
        is_displaced = uid in self._displaced
        self._displaced.discard(uid)
        return is_displaced

    def tick(self) -> None:
        """Request evictions again that no watch has shown, if a preemptor still waits for them."""
        while self._accepted:
            uid, (victim, since) = next(iter(self._accepted.items()))
            if since + UNSEEN_SECONDS > self._core.now:
                break
            del self._accepted[uid]
            for preemptor in self._wanted.get(uid, ())[:1]:
                self._evict(victim, self._runs[preemptor].preemptor)

    def drop(self, preemptor: str) -> None:
        """End the preemption for a preemptor; evictions not requested yet are dropped."""
        run = self._runs.pop(preemptor, None)
        if run is None:
            return
        self._evictions().under_way.discard(preemptor)
        for pod in self._held_back(run.preemptor):
            self._core.queue.open_gate(pod)
        for victim in (*run.first, run.last.uid):
            # After the last victim was seen leaving, only later preemptors wait for it here.
            waiting = self._wanted.get(victim, [])
            if preemptor not in waiting:
                continue
            waiting.remove(preemptor)
            if not waiting:
                del self._wanted[victim]

    def _held_back(self, preemptor: Preemptor) -> Iterable[str]:
        """The pods that wait for the room, including members of the group that came later."""
        groups, about = self._core.groups, preemptor.about
        known = None if groups is None else groups.of(about.namespace, about.name)
        if known is None or known.group is None or known.group.uid != preemptor.uid:
            return preemptor.pods
        return dict.fromkeys((*preemptor.pods, *known.waiting))

    def drop_all(self) -> None:
        """End all preemptions: the plugins of a new configuration may not gate preemptors."""
        for preemptor in list(self._runs):
            self.drop(preemptor)

    def clear_nominations(self, pods: Iterable[PodInfo]) -> None:
        """Clear the nominations of some pods, and end the preemptions for them."""
        for pod in pods:
            self.drop(pod.uid)
            self._core.queue.add_nominated_pod(pod, "")
            self._core.out.append(
                PatchStatus(pod.namespace, pod.name, pod.uid, nominated_node_name="")
            )

    def problems(self) -> Iterator[str]:
        """Yield each broken invariant as text."""
        if self._evictions().under_way != self._runs.keys():
            yield "the preemptors that are held back are not those whose victims are to leave"
        wanted: dict[str, set[str]] = {}
        for uid, run in self._runs.items():
            if all(self._core.queue.get(pod) is None for pod in run.preemptor.pods):
                yield f"victims are evicted for {run.preemptor.about.name}, which does not wait"
            for victim in run.first or {run.last.uid}:
                if not self._is_evicted(victim):
                    yield f"{run.preemptor.about.name} waits for {victim}, which is not evicted"
            awaited = run.first if run.is_last_leaving else run.first | {run.last.uid}
            for victim in awaited:
                wanted.setdefault(victim, set()).add(uid)
        if wanted != {victim: set(uids) for victim, uids in self._wanted.items()}:
            yield "who waits for which victim is noted twice, and differs"

    # --- helpers --------------------------------------------------------------------------------

    def _evict(self, victim: PodInfo, preemptor: Preemptor) -> None:
        """Request an eviction, unless one is under way."""
        if self._is_evicted(victim.uid):
            return
        self._asked[victim.uid] = (victim, preemptor)
        self._victims.add(victim.uid)
        condition = _condition(victim, preemptor)
        self._core.out.append(
            Evict(preemptor.uid, victim.namespace, victim.name, victim.uid, condition)
        )

    def _has_to_leave(self, victim: PodInfo) -> bool:
        """Whether a victim is still on its node, and is not terminating.

        It may be gone since it was chosen: a group takes several steps, and extenders take time.
        The cache does not show that an assumed pod is terminating.
        """
        known = self._core.cache.pods.get(victim.uid)
        is_leaving = victim.is_terminating or victim.uid in self.terminating
        return not is_leaving and known is not None and known.node_name == victim.node_name

    def _is_evicted(self, uid: str) -> bool:
        return uid in self._asked or uid in self._accepted or uid in self.terminating

    def _settle(self, uid: str, *, has_failed: bool = False) -> None:
        """Advance the preemptors that waited for a victim."""
        for preemptor in self._wanted.pop(uid, ()):
            run = self._runs[preemptor]
            run.has_failed |= has_failed
            run.first.discard(uid)
            run.is_last_leaving |= uid == run.last.uid
            if run.first:
                continue
            if run.is_last_leaving or run.has_failed:
                self._end(run, uid)
            else:
                self._evict(run.last, run.preemptor)

    def _end(self, run: _Run, victim: str) -> None:
        """End the run of a preemptor; after a failed eviction, requeue its pods with backoff."""
        core = self._core
        self.drop(run.preemptor.uid)
        result = "error" if run.has_failed else "success"
        core.metrics.preemption_goroutines_execution[result].inc()
        core.metrics.preemption_goroutines_duration[result].observe(core.now - run.start)
        if run.has_failed:
            for pod in run.preemptor.pods:
                core.queue.try_again(pod)
        elif core.cache.pods.get(victim) is None:
            # The cache no longer has the victim, so its end moves no pod: activate the preemptor.
            core.queue.activate(run.preemptor.pods)

    def _taken_back(self, preemptor: Preemptor, victim: PodInfo) -> bool:
        """Stop a victim before its bind request; return whether that was possible."""
        attempt = self._attempts.of(victim.uid)
        if attempt is None or attempt.state not in REVOCABLE:
            return False
        if attempt.state is not AttemptState.CANCELLED:
            self._core.out.append(_preempted(victim, preemptor, in_memory=True))
            self._failures.stop(attempt, Failure("preempted"))
        return True

    def _evictions(self) -> Evictions:
        return self._core.states.shared(Evictions, "")


def _preempted(victim: PodInfo, preemptor: Preemptor, *, in_memory: bool = False) -> RecordEvent:
    """The event of a victim."""
    about = preemptor.about
    place = "cluster" if about.kind == GROUP else victim.node_name
    note = f"Preempted by {about.kind.lower()} {about.uid} on node {place}"
    return RecordEvent(
        reference(victim),
        "Preempted",
        "Preempting",
        f"{note} (in kube-scheduler memory)." if in_memory else note,
        preemptor.profile,
        related=about,
        is_repeatable=in_memory,
    )


def _condition(victim: PodInfo, preemptor: Preemptor) -> Condition | None:
    """The condition to write to the victim's status; None when the status has it."""
    word = preemptor.about.kind.lower()
    message = f"{preemptor.profile}: preempting to accommodate a higher priority {word}"
    return changed_condition(victim, DISRUPTION_TARGET, "True", PREEMPTION_BY_SCHEDULER, message)
