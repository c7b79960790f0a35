"""Whether another scheduler places pods as this one would: its bindings, judged as they appear.

A binding is judged on the cluster as it was before it. What the other scheduler had before its eyes
may have been a little different: it counts a pod when it decides, we when the watch tells; and
each kind of object has a watch of its own. So a binding that does not look right is looked at a
second time when all that happened around it is known, with the pods that came and went meanwhile
counted in several ways. Only where none of these makes it right do we disagree.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.answers.bindings import (
    AGREEMENT,
    AROUND_SECONDS,
    DISAGREEMENT,
    Change,
    Look,
    Result,
    Unjudged,
    look_at,
    possible_states,
)
from scheduler.answers.explainer import Explainer
from scheduler.answers.model import (
    Disagreement,
    FeasibleNode,
    Placed,
    RejectedNode,
    Rejection,
    ShadowSummary,
)
from scheduler.api.pods import PodInfo
from scheduler.engine import Engine
from scheduler.engine.events import Event, ObjectGone, ObjectSet
from scheduler.framework.runtime import PluginError
from scheduler.observability.shadow_metrics import ShadowMetrics
from scheduler.snapshot import Snapshot

MAX_CHANGES: Final = 4096
"""Pods that came or went lately, and are remembered."""
MAX_OPEN: Final = 128
"""Bindings that wait for their second look; then the oldest goes without."""
SECOND_LOOKS: Final = 2
"""At a time: one looks at the cluster in several ways."""

_When: TypeAlias = Callable[[float], str]
"""A time of the engine's clock as RFC 3339."""


class _Open(msgspec.Struct, frozen=True):
    """A binding that is to be looked at again: the pod as it waited, what it looked like so far."""

    binding: Change
    waiting: PodInfo
    result: Result
    example: Disagreement | None


class Shadow:
    """Judges the bindings of the schedulers that an engine has profiles for.

    Tell it of each event before the engine is told. The engine must decide nothing itself; its
    snapshot is brought up to date here.
    """

    def __init__(
        self, engine: Engine, metrics: ShadowMetrics, when: _When, *, examples: int = 10
    ) -> None:
        """Begin; until `begin` is called pods are not judged.

        Args:
            engine: what knows the cluster.
            metrics: what is counted.
            when: a time of the engine's clock as RFC 3339.
            examples: how many disagreements of each kind are explained in a summary.
        """
        self._core = core = engine.core
        self._metrics = metrics
        self._when = when
        self._explainer = Explainer(engine, lambda pod: core.frameworks[pod.spec.scheduler_name])
        self._began: float | None = None
        self._changes: deque[Change] = deque(maxlen=MAX_CHANGES)
        self._number = 0
        self._open: deque[_Open] = deque()
        self._places = dict.fromkeys(DISAGREEMENT, examples)
        self._max_examples = examples
        self._examples: list[Disagreement] = []
        for name in core.frameworks:
            for result in Result:
                metrics.bindings[result.value, name].inc(0)
            for reason in Unjudged:
                metrics.unjudged[reason.value, name].inc(0)

    # --- what happens ---------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """The engine knows the whole cluster: what comes now is new."""
        self._began = now

    def note(self, event: Event, now: float) -> None:
        """Hear of an event before the engine does."""
        if isinstance(event, ObjectGone) and event.kind == "pods":
            known = self._core.cache.get_pod(event.uid)
            if known is not None:
                self._changed(known, now, is_gone=True)
        elif isinstance(event, ObjectSet) and isinstance(pod := event.object, PodInfo):
            self._hear(pod, now)

    def look_again(self, now: float) -> None:
        """Look again at some bindings around which all is known; call it several times a second."""
        for _ in range(SECOND_LOOKS):
            if self._open and self._open[0].binding.time + AROUND_SECONDS <= now:
                self._close(self._open.popleft())
        since = self._open[0].binding.time if self._open else now
        while self._changes and self._changes[0].time < since - AROUND_SECONDS:
            self._changes.popleft()

    def end(self) -> None:
        """Come to an end about all of them."""
        while self._open:
            self._close(self._open.popleft())

    def _changed(
        self,
        pod: PodInfo,
        now: float,
        turn: tuple[Any, float] | None = None,
        *,
        is_gone: bool = False,
    ) -> Change:
        self._number += 1
        change = Change(self._number, now, pod, turn, is_gone)
        self._changes.append(change)
        return change

    # --- judging --------------------------------------------------------------------------------

    def _hear(self, pod: PodInfo, now: float) -> None:
        """A pod is new or has changed; what matters is that it has a node for the first time."""
        if not pod.node_name or self._core.cache.get_pod(pod.uid) is not None:
            return
        core, scheduler = self._core, pod.spec.scheduler_name
        place = core.queue.place_of(pod.uid)
        turn = None
        if place is not None:
            turn = core.frameworks[scheduler].sort_key(place.queued), place.queued.timestamp
        binding = self._changed(pod, now, turn)
        if scheduler not in core.frameworks:
            return
        if self._began is None:
            self._metrics.unjudged[Unjudged.BEFORE.value, scheduler].inc()
        elif place is None:
            self._metrics.unjudged[Unjudged.UNSEEN.value, scheduler].inc()
        else:
            self._judge(binding, place.queued.pod_info)

    def _judge(self, binding: Change, waiting: PodInfo) -> None:
        """The first look."""
        core, node = self._core, binding.pod.node_name
        core.catch_up()
        look = self._look(waiting, node, core.snapshot)
        if look.rank:
            self._metrics.rank[waiting.spec.scheduler_name].observe(look.rank)
        if look.result not in DISAGREEMENT:
            self._count(waiting, look.result)
            return
        example = None
        if self._places[look.result]:
            self._places[look.result] -= 1
            example = self._explained(waiting, node, look.result, binding.time)
        self._open.append(_Open(binding, waiting, look.result, example))
        if len(self._open) > MAX_OPEN:
            oldest = self._open.popleft()
            self._settle(oldest, oldest.result)

    def _close(self, seen: _Open) -> None:
        """The second look: what happened around it has come by now, whatever the watch."""
        core, node = self._core, seen.binding.pod.node_name
        core.catch_up()
        states = possible_states(seen.binding, self._changes, core.cache, core.snapshot)
        looks = (self._look(seen.waiting, node, snapshot) for snapshot in states)
        is_right = any(look.result in AGREEMENT for look in looks)
        self._settle(seen, Result.RACED if is_right else seen.result)

    def _settle(self, seen: _Open, result: Result) -> None:
        self._count(seen.waiting, result)
        if seen.example is None:
            return
        if result is Result.RACED:
            self._places[seen.result] += 1
        else:
            self._examples.append(seen.example)

    def _look(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Look:
        framework = self._core.frameworks[pod.spec.scheduler_name]
        with framework.calls.unmeasured():
            try:
                return look_at(framework, pod, node, snapshot, self._core.queue.nominator)
            except PluginError:
                return Look(Result.FAILED)

    # --- telling --------------------------------------------------------------------------------

    def summary(self, now: float) -> ShadowSummary:
        """All that was counted, and the disagreements since `forget_examples`."""
        metrics, names = self._metrics, self._core.frameworks
        results = {
            result.value: int(sum(metrics.bindings[result.value, name].value for name in names))
            for result in Result
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
        """They have been told; others have their places."""
        self._examples = []
        self._places = dict.fromkeys(DISAGREEMENT, self._max_examples)

    def _count(self, pod: PodInfo, result: Result) -> None:
        self._metrics.bindings[result.value, pod.spec.scheduler_name].inc()

    def _explained(self, waiting: PodInfo, node: str, result: Result, now: float) -> Disagreement:
        judgement = self._explainer.judge(waiting.on_node(node))
        self._explainer.forget()
        answer = judgement.answer()
        own = next((each for each in answer.nodes if each.node == node), None)
        rejection = answer.pre_filter
        if isinstance(own, RejectedNode):
            rejection = Rejection(own.plugin, own.code, own.reasons)
        return Disagreement(
            pod=answer.pod,
            scheduler=waiting.spec.scheduler_name,
            time=self._when(now),
            result=result.value,
            fitting=sum(isinstance(each, FeasibleNode) for each in answer.nodes),
            nominated_node=waiting.pod.status.nominated_node_name,
            rejection=rejection,
            placed=answer.placed or Placed(node, fits=False),
        )
