"""Answers `/debug/explain`: explains one pod by the state of the running engine."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from scheduler.api.pods import PodInfo
from scheduler.clock import Clock
from scheduler.daemon.serving.endpoints import DebugQuery
from scheduler.kernel.answers.estimate import (
    estimate,
    may_be_estimated,
    pod_end,
    with_end,
    with_estimate,
)
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.judgement import PodVerdict
from scheduler.kernel.answers.scheduling_state import scheduling_state_of
from scheduler.kernel.answers.why import Depth, changes_in_steps
from scheduler.kernel.engine import Engine
from scheduler.kernel.framework.runtime import Framework, PluginError
from scheduler.kernel.framework.steps import Steps, Walk

_T = TypeVar("_T")

_CLOCK_WAS_SET_SECONDS: Final = 0.5
"""A smaller difference is the time between the reads of the two clocks."""


class LiveExplainer:
    """Explains pods from the state of the engine, in steps between which other tasks run.

    Args:
        engine: the engine of the daemon; an explanation does not change it.
        pods: the pods of the informer by `namespace/name`.
        is_leading: returns whether this instance leads.
        clock: the clock of the engine.
    """

    def __init__(
        self,
        engine: Engine,
        pods: Mapping[str, PodInfo],
        is_leading: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._pods = pods
        self._is_leading = is_leading
        self._clock = clock
        self._when = times_of(clock)
        self._explainer = Explainer(engine, self._framework_of)
        self._turn = asyncio.Lock()

    async def explain(self, question: DebugQuery) -> bytes | None:
        """Return the answer as JSON, in the shape of `stowage explain -o json`; None for no pod.

        Other tasks run between two steps; concurrent requests are answered one after another.
        """
        async with self._turn:
            pod = self._pods.get(question.pod)
            if pod is None:
                return None
            attempt = self._engine.attempts.of(pod.uid)
            asked = pod if attempt is None else attempt.pod
            # On a standby no decision brings the snapshot up to date.
            self._engine.core.catch_up()
            judgement = self._explainer.judge(asked, Depth.CHECKS)
            self._explainer.forget()
            scheduling_state = scheduling_state_of(
                pod, self._engine, self._when, leading=self._is_leading()
            )
            row_of = self._engine.core.snapshot.table.row_of
            unknown = [name for name in question.nodes if name not in row_of]
            told = replace(
                judgement, summary=replace(judgement.summary, scheduling_state=scheduling_state)
            )
            await asyncio.sleep(0)
            if question.changes and told.summary.checks is not UNSET:
                told = await self._with_changes(told, asked)
            if question.estimate and attempt is None:
                told = await self._with_estimate(told, pod)
            is_long = bool(question.nodes) or question.all_nodes
            pod_json = told.json(question.nodes) if is_long else told.short_json()
            return b'{"pods":[%b]%b}\n' % (pod_json, _warnings(unknown))

    async def _with_changes(self, judged: PodVerdict, pod: PodInfo) -> PodVerdict:
        """Return the answer with the changes that would make the pod fit, in many short steps."""
        try:
            found = await _step_by_step(
                changes_in_steps(self._engine, self._framework_of(pod), pod)
            )
        except PluginError:
            return judged
        summary = replace(
            judged.summary,
            changes=found.changes,
            untried_nodes=found.untried_nodes,
            guesses=found.guesses,
        )
        return replace(judged, summary=summary)

    async def _with_estimate(self, judged: PodVerdict, pod: PodInfo) -> PodVerdict:
        """Return the answer with the time when the pod fits, or ends, in many short steps."""
        framework, now = self._framework_of(pod), self._clock.wall().timestamp()
        if pod.node_name:
            return with_end(judged, pod_end(self._engine, pod, now))
        if not may_be_estimated(judged, framework, pod):
            return judged
        found = await _step_by_step(estimate(self._engine, framework, pod, now))
        return judged if found is None else with_estimate(judged, found)

    def _framework_of(self, pod: PodInfo) -> Framework:
        """Return the framework of the pod's profile; for other schedulers' pods, the first one."""
        frameworks = self._engine.core.frameworks
        own = frameworks.get(pod.spec.scheduler_name)
        return next(iter(frameworks.values())) if own is None else own


def _warnings(unknown_nodes: Sequence[str]) -> bytes:
    """Return the field `warnings` of the answer, about nodes that do not exist; or nothing."""
    texts = [f"there is no node {name}" for name in unknown_nodes]
    return b',"warnings":' + msgspec.json.encode(texts) if texts else b""


async def _step_by_step(steps: Steps[_T]) -> _T:
    """Make steps and let other tasks run between them; return the answer."""
    walk = Walk(steps)
    for _ in walk:
        await asyncio.sleep(0)
    return walk.answer


def times_of(clock: Clock) -> Callable[[float], str]:
    """Return a function that formats a time of the monotonic clock as RFC 3339.

    The function formats a time always alike, until the machine's clock is set.
    """
    offset = math.inf

    def when(moment: float) -> str:
        nonlocal offset
        current = clock.wall().timestamp() - clock.monotonic()
        if abs(current - offset) >= _CLOCK_WAS_SET_SECONDS:
            offset = current
        told = datetime.fromtimestamp(moment + offset, UTC)
        return told.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    return when
