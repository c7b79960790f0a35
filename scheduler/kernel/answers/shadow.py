"""Whether another scheduler places pods as this one would: its bindings, judged as they appear.

A binding is judged on the cluster as it was before it. The other scheduler may have seen a slightly
different cluster. It counts a pod when it decides, we count it when the watch reports it. Each kind
of object also has a watch of its own. So a binding that seems wrong gets a second look when all
changes around it are known. The second look orders the pods that came and went meanwhile in several
ways (`answers/orders.py`). We disagree only if none of these makes it right.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.bindings import (
    AGREEMENT,
    DISAGREEMENT,
    BindingAgreement,
    BindingVerdict,
    Unjudged,
    judge_binding,
)
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.model import (
    CurrentPlacement,
    FeasibleNode,
    PluginRejection,
    RejectedNode,
)
from scheduler.kernel.answers.orders import AROUND_SECONDS, PodChange, state, ways, without
from scheduler.kernel.answers.shadow_model import Disagreement, ShadowSummary
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import Event, ObjectGone, ObjectSet
from scheduler.kernel.framework.runtime import PluginError
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.snapshot import Snapshot
from scheduler.observability.shadow_metrics import ShadowMetrics

MAX_CHANGES: Final = 16384
"""Largest number of recent pod changes kept."""
MAX_OPEN: Final = 256
"""Largest number of bindings that wait for a second look; beyond it the oldest goes without."""

_When: TypeAlias = Callable[[float], str]
"""A time of the engine's clock as RFC 3339."""


class _Open(msgspec.Struct, frozen=True):
    """A binding that waits for its second look: the pod as it waited, and the verdict so far."""

    time: float
    binding: PodChange
    waiting: PodInfo
    result: BindingAgreement
    example: Disagreement | None


class Shadow:
    """Judges the bindings of the schedulers that an engine has profiles for.

    Pass each event to it before the engine. The engine must decide nothing itself; its snapshot
    is brought up to date here.
    """

    def __init__(
        self, engine: Engine, metrics: ShadowMetrics, when: _When, *, examples: int = 10
    ) -> None:
        """Begin; until `begin` is called pods are not judged.

        Largest number of explained examples per kind of disagreement in a summary.
        """
        self._core = core = engine.core
        self._metrics = metrics
        self._when = when
        self._explainer = Explainer(engine, lambda pod: core.frameworks[pod.spec.scheduler_name])
        self._began: float | None = None
        self._changes: deque[PodChange] = deque(maxlen=MAX_CHANGES)
        self._number = 0
        self._promises: dict[str, tuple[PodChange, PodInfo]] = {}
        """Waiting pods that have a place already, each with the pod as it was before."""
        self._ways: Iterator[frozenset[int]] | None = None
        """The untried orders for the oldest open binding; None before the first."""
        self._open: deque[_Open] = deque()
        self._places = dict.fromkeys(DISAGREEMENT, examples)
        self._max_examples = examples
        self._examples: list[Disagreement] = []
        for name in core.frameworks:
            for result in BindingAgreement:
                metrics.bindings[result.value, name].inc(0)
            for reason in Unjudged:
                metrics.unjudged[reason.value, name].inc(0)

    # --- what happens ---------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Begin to judge: the engine knows the whole cluster, and later events are new."""
        self._began = now

    def note(self, event: Event, now: float) -> None:
        """Hear of an event before the engine does."""
        if isinstance(event, ObjectGone) and event.kind == "pods":
            known = self._core.cache.pods.get(event.uid)
            if known is not None:
                self._left(known, None, now)
            self._break_promise(event.uid, now)
        elif isinstance(event, ObjectSet) and isinstance(pod := event.object, PodInfo):
            self._hear(pod, now)

    def look_again(self, now: float) -> bool:
        """Continue the second look at a binding around which all changes are known.

        Returns:
            Whether there is more to judge.
        """
        if not (self._open and self._open[0].time + AROUND_SECONDS <= now):
            since = self._open[0].time if self._open else now
            while self._changes and self._changes[0].until < since - AROUND_SECONDS:
                self._changes.popleft()
            return False
        self._look_on()
        return True

    def look_at_last(self) -> bool:
        """Continue a second look though changes around the binding are missing: none will come.

        Returns:
            Whether there is more to judge; the rest counts as open.
        """
        if self._open:
            self._look_on()
        return bool(self._open)

    def _look_on(self) -> None:
        """Judge the oldest binding in one more order."""
        core, oldest = self._core, self._open[0]
        changes = self._known_changes()
        if self._ways is None:
            self._ways = ways(oldest.binding, changes)
        counted = next(self._ways, None)
        if counted is None:
            self._settle(oldest.result)
            return
        core.catch_up()
        snapshot, early = state(oldest.binding, changes, counted, core.cache, core.snapshot)
        nominated = without(core.queue.nominator, early)
        verdict = self._judge(oldest.waiting, oldest.binding.pod.node_name, snapshot, nominated)
        if verdict.result in AGREEMENT:
            self._settle(BindingAgreement.RACED)

    # --- recent changes -------------------------------------------------------------------------

    def _known_changes(self) -> list[PodChange]:
        return [*(change for change, _ in self._promises.values()), *self._changes]

    def _remember(self, change: PodChange) -> PodChange:
        if len(self._changes) >= MAX_CHANGES:
            lost = self._changes.popleft()
            while self._open and self._open[0].time - AROUND_SECONDS <= lost.until:
                self._settle(self._open[0].result)
        self._changes.append(change)
        return change

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _left(self, before: PodInfo, after: PodInfo | None, now: float) -> None:
        """Record that a pod is gone, or is being deleted: it counts no more."""
        since, until = now - AROUND_SECONDS, now + AROUND_SECONDS
        self._remember(PodChange(self._next_number(), before, before, after, since, until))

    def _decided(self, pod: PodInfo, queued: QueuedPodInfo | None, now: float) -> PodChange:
        """Record that a pod has a node, or is nominated to one."""
        turn, since = None, now
        if queued is not None:
            framework = self._core.frameworks[pod.spec.scheduler_name]
            turn = framework.sort_key(queued), queued.timestamp
            since = max(queued.timestamp, now - AROUND_SECONDS)
        return self._remember(PodChange(self._next_number(), pod, None, pod, since, now, turn))

    def _hear_of_waiting(self, pod: PodInfo, now: float) -> None:
        """Handle a waiting pod's nomination: its place counts from then on.

        If the same change reports it unschedulable, victims have to go first: no place yet.
        """
        node = pod.pod.status.nominated_node_name
        promised = self._promises.get(pod.uid)
        if promised is not None and promised[0].pod.node_name != node:
            self._break_promise(pod.uid, now)
        place = self._core.queue.place_of(pod.uid)
        if not node or promised is not None or place is None:
            return
        before = place.queued.pod_info
        status = before.pod.status
        if status.nominated_node_name != node and status.conditions == pod.pod.status.conditions:
            change = self._decided(pod.on_node(node), place.queued, now)
            self._promises[pod.uid] = change, before

    def _break_promise(self, uid: str, now: float) -> None:
        promised = self._promises.pop(uid, None)
        if promised is not None:
            self._left(promised[0].pod, None, now)

    # --- judging --------------------------------------------------------------------------------

    def _hear(self, pod: PodInfo, now: float) -> None:  # noqa: PLR0912 - one branch per change of a pod
        """Handle a new or changed pod; the event of interest is its first node."""
        core, scheduler = self._core, pod.spec.scheduler_name
        known = core.cache.pods.get(pod.uid)
        if known is not None:
            if pod.is_terminating and not known.is_terminating:
                self._left(known, pod, now)
            return
        if not pod.node_name:
            self._hear_of_waiting(pod, now)
            return
        place = core.queue.place_of(pod.uid)
        queued = None if place is None else place.queued
        waiting = None if queued is None else queued.pod_info
        promised = self._promises.get(pod.uid)
        if promised is not None and promised[0].pod.node_name == pod.node_name:
            binding, waiting = self._promises.pop(pod.uid)
            self._remember(binding)
        else:
            self._break_promise(pod.uid, now)
            binding = self._decided(pod, queued, now)
        if scheduler not in core.frameworks:
            return
        if self._began is None:
            self._metrics.unjudged[Unjudged.BEFORE.value, scheduler].inc()
        elif waiting is None:
            self._metrics.unjudged[Unjudged.UNSEEN.value, scheduler].inc()
        else:
            self._first_judgement(binding, waiting, now)

    def _first_judgement(self, binding: PodChange, waiting: PodInfo, now: float) -> None:
        """Judge a binding as soon as it is seen."""
        core, node = self._core, binding.pod.node_name
        core.catch_up()
        verdict = self._judge(waiting, node, core.snapshot, core.queue.nominator)
        if verdict.rank:
            self._metrics.rank[waiting.spec.scheduler_name].observe(verdict.rank)
        if verdict.result not in DISAGREEMENT:
            self._count(waiting, verdict.result)
            return
        example = None
        if self._places[verdict.result]:
            self._places[verdict.result] -= 1
            example = self._explained(waiting, node, verdict.result, now)
        self._open.append(_Open(now, binding, waiting, verdict.result, example))
        if len(self._open) > MAX_OPEN:
            self._settle(self._open[0].result)

    def _settle(self, result: BindingAgreement) -> None:
        """All has been thought about the oldest that is open."""
        self._ways = None
        seen = self._open.popleft()
        self._count(seen.waiting, result)
        if seen.example is None:
            return
        if result is BindingAgreement.RACED:
            self._places[seen.result] += 1
        else:
            self._examples.append(seen.example)

    def _judge(
        self, pod: PodInfo, node: str, snapshot: Snapshot, nominated: NominatedPods
    ) -> BindingVerdict:
        framework = self._core.frameworks[pod.spec.scheduler_name]
        with framework.calls.unmeasured():
            try:
                return judge_binding(framework, pod, node, snapshot, nominated)
            except PluginError:
                return BindingVerdict(BindingAgreement.FAILED)

    # --- telling --------------------------------------------------------------------------------

    def summary(self, now: float) -> ShadowSummary:
        """All that was counted, and the disagreements since `forget_examples`."""
        metrics, names = self._metrics, self._core.frameworks
        results = {
            result.value: int(sum(metrics.bindings[result.value, name].value for name in names))
            for result in BindingAgreement
        }
        unjudged = {
            reason.value: int(sum(metrics.unjudged[reason.value, name].value for name in names))
            for reason in Unjudged
        }
        return ShadowSummary(
            time=self._when(now),
            schedulers=tuple(names),
            seconds=0.0 if self._began is None else round(now - self._began, 3),
            bindings=sum(results.values()) + len(self._open),
            results=results,
            open=len(self._open),
            unjudged=unjudged,
            examples=tuple(self._examples),
        )

    def forget_examples(self) -> None:
        """Drop the examples once they are reported, to collect new ones."""
        self._examples = []
        self._places = dict.fromkeys(DISAGREEMENT, self._max_examples)

    def _count(self, pod: PodInfo, result: BindingAgreement) -> None:
        self._metrics.bindings[result.value, pod.spec.scheduler_name].inc()

    def _explained(
        self, waiting: PodInfo, node: str, result: BindingAgreement, now: float
    ) -> Disagreement:
        judgement = self._explainer.judge(waiting.on_node(node))
        self._explainer.forget()
        answer = judgement.answer()
        own = next((each for each in answer.nodes if each.node == node), None)
        rejection = answer.pre_filter
        if isinstance(own, RejectedNode):
            rejection = PluginRejection(own.plugin, own.code, own.reasons)
        return Disagreement(
            pod=answer.pod,
            scheduler=waiting.spec.scheduler_name,
            time=self._when(now),
            result=result.value,
            fitting=sum(isinstance(each, FeasibleNode) for each in answer.nodes),
            nominated_node=waiting.pod.status.nominated_node_name,
            rejection=rejection,
            placed=answer.placed or CurrentPlacement(node, fits=False),
        )
