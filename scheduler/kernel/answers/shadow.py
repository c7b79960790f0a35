"""Compares another scheduler with this one: judges its bindings when they appear in the watch.

A binding is judged on the snapshot before it. The other scheduler may have seen a slightly
different cluster. It assumes a pod when it decides, this one adds the pod at its watch event, and
each kind has its own watch. So a binding that looks wrong is judged again when all changes around
it are known, with these changes in several orders (`answers/orders.py`). It is a disagreement only
if the binding is wrong in all of them.
"""

from collections import Counter, deque
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
"""Recent pod changes at most that are kept."""
MAX_OPEN: Final = 256
"""Bindings at most that wait for a second judgement; beyond it the oldest gets none."""

_When: TypeAlias = Callable[[float], str]
"""A time of the engine's clock as RFC 3339."""


class _Open(msgspec.Struct, frozen=True):
    """A binding that waits for a second judgement, the pending pod, and the first verdict."""

    time: float
    binding: PodChange
    waiting: PodInfo
    result: BindingAgreement
    example: Disagreement | None


class Shadow:
    """Judges the bindings of the schedulers that an engine has profiles for.

    Pass each event to `note` before the engine. The engine must make no decisions; `Shadow` updates
    its snapshot.
    """

    def __init__(
        self, engine: Engine, metrics: ShadowMetrics, when: _When, *, examples: int = 10
    ) -> None:
        """Create a judge, which judges no pods until `begin`.

        `examples` is the number of explained disagreements of each kind in a summary, at most.
        """
        self._core = core = engine.core
        self._metrics = metrics
        self._when = when
        self._explainer = Explainer(engine, lambda pod: core.frameworks[pod.spec.scheduler_name])
        self._began: float | None = None
        self._unnamed = set(core.frameworks)
        """The judged schedulers that no pod has named so far."""
        self._changes: deque[PodChange] = deque(maxlen=MAX_CHANGES)
        self._number = 0
        self._promises: dict[str, tuple[PodChange, PodInfo]] = {}
        """Nominated pods that count as placed, each with the pod before its nomination."""
        self._ways: Iterator[frozenset[int]] | None = None
        """The orders not tried yet for the oldest open binding; None before the first try."""
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
        """Begin to judge: the engine has all objects of the first lists."""
        self._began = now

    def note(self, event: Event, now: float) -> None:
        """Take an event; call this before the engine handles it."""
        if isinstance(event, ObjectGone) and event.kind == "pods":
            known = self._core.cache.pods.get(event.uid)
            if known is not None:
                self._left(known, None, now)
            self._break_promise(event.uid, now)
        elif isinstance(event, ObjectSet) and isinstance(pod := event.object, PodInfo):
            self._hear(pod, now)

    def look_again(self, now: float) -> bool:
        """Judge the oldest open binding in one more order, if all changes around it are known.

        Returns:
            Whether there may be more to judge now.
        """
        if not (self._open and self._open[0].time + AROUND_SECONDS <= now):
            since = self._open[0].time if self._open else now
            while self._changes and self._changes[0].until < since - AROUND_SECONDS:
                self._changes.popleft()
            return False
        self._look_on()
        return True

    def look_at_last(self) -> bool:
        """Judge the oldest open binding in one more order, after the last event of the watch.

        Returns:
            Whether there is more to judge; the remaining bindings count as open.
        """
        if self._open:
            self._look_on()
        return bool(self._open)

    def _look_on(self) -> None:
        """Judge the oldest open binding in one more order."""
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
        """Record that a pod was deleted or terminates: schedulers no longer count it."""
        since, until = now - AROUND_SECONDS, now + AROUND_SECONDS
        self._remember(PodChange(self._next_number(), before, before, after, since, until))

    def _decided(self, pod: PodInfo, queued: QueuedPodInfo | None, now: float) -> PodChange:
        """Record that a pod was bound or nominated to a node."""
        turn, since = None, now
        if queued is not None:
            framework = self._core.frameworks[pod.spec.scheduler_name]
            turn = framework.sort_key(queued), queued.timestamp
            since = max(queued.timestamp, now - AROUND_SECONDS)
        return self._remember(PodChange(self._next_number(), pod, None, pod, since, now, turn))

    def _hear_of_waiting(self, pod: PodInfo, now: float) -> None:
        """Handle a pending pod's nomination: from then on the pod counts as placed.

        Not if the same change reports it unschedulable: then victims must be evicted first.
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
        """Handle a new or changed pod; judge its binding when it first has a node."""
        core, scheduler = self._core, pod.spec.scheduler_name
        self._unnamed.discard(scheduler)
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
        """Judge a new binding; keep it for a second judgement if it looks wrong."""
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
        """Count the final result of the oldest open binding."""
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
        """Return all counts, and the disagreements since `forget_examples`."""
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

    def unnamed(self) -> list[str]:
        """Return the judged schedulers that no pod has named so far."""
        return sorted(self._unnamed)

    def named(self) -> list[str]:
        """Return the schedulers that pods with a node name, the most frequent first."""
        pods = self._core.cache.pods.values()
        return [name for name, _ in Counter(p.spec.scheduler_name for p in pods).most_common()]

    def forget_examples(self) -> None:
        """Drop the reported examples, to collect new ones."""
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
