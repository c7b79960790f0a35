"""Plugins as the runtime calls them: one callable per plugin and extension point.

The guard of a call, the check of its answer and its timing are chosen when the profile is built.
The calling code does not depend on them. No other code calls a plugin.

Source: kubernetes pkg/scheduler/framework/runtime/framework.go (run...Plugin) v1.36.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.counting import Counting, CountingFilterPlugin
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.interface import (
    Bits,
    NodeFilterPlugin,
    NodeScorePlugin,
    NormalizeScorePlugin,
    PreFilterExtensions,
    PreScorePlugin,
    Reads,
    Scores,
)
from scheduler.kernel.framework.obstacles import Obstacle
from scheduler.kernel.framework.results import Reason
from scheduler.kernel.framework.runtime import answers
from scheduler.kernel.framework.runtime.plugin_calls import PluginCalls
from scheduler.kernel.framework.shortcuts import Shortcuts
from scheduler.kernel.framework.status import Status
from scheduler.kernel.framework.types import Excess
from scheduler.kernel.snapshot import Rows, Snapshot
from scheduler.kernel.snapshot.label_columns import Topology
from scheduler.kernel.snapshot.pod_kinds import OtherPods

F = TypeVar("F", bound=Callable[..., Any])


class BoundPlugin(msgspec.Struct, Generic[F], frozen=True, eq=False):
    """A plugin at one extension point.

    Attributes:
        name: the name of the plugin.
        call: its method there.
        needs: see `Shortcuts.NEEDS`.
        is_row_local: whether its answers hold for all pods of a class.
        skips_all: see `Shortcuts`; None for a plugin without it.
    """

    name: str
    call: F
    needs: int = 0
    is_row_local: bool = False
    skips_all: Callable[[PodInfo, Snapshot], bool] | None = None


class BoundFilter(msgspec.Struct, frozen=True, eq=False):
    """A Filter plugin in column form.

    Attributes:
        index: its place in the order of rejection.
        name: its name.
        reads: the data that its answer for a row depends on.
        is_row_local: see the function of that name.
        is_trusted: whether the runtime may call it ahead, before a pod needs the answer.
        is_by_node: whether each row has a cost, or may fail, by itself.
        filter: see `FilterPlugin`; so are `reasons_in`, `obstacles` and `excess`.
        counting: see `CountingFilterPlugin`; None for a filter without that form.
        follow: `add_pod` and `remove_pod` of `PreFilterExtensions`; None for a filter without.
    """

    index: int
    name: str
    reads: Reads
    is_row_local: bool
    is_trusted: bool
    is_by_node: bool
    filter: Callable[[CycleState, PodInfo, Snapshot, Rows], Bits | None]
    reasons_in: Callable[[CycleState, PodInfo, Snapshot, int, int | None], Sequence[Reason]]
    obstacles: Callable[[CycleState, PodInfo, Snapshot, NDArray[np.intp]], Sequence[Obstacle]]
    excess: Callable[[CycleState, PodInfo, Snapshot], Excess | None] | None
    counting: (
        Callable[[CycleState, PodInfo, Snapshot, NDArray[np.intp], OtherPods], "BoundCounting"]
        | None
    )
    follow: tuple["_Follow", "_Follow"] | None

    @staticmethod
    def of(plugin: Any, index: int, calls: PluginCalls, *, is_trusted: bool) -> "BoundFilter":
        """Bind a filter of either form."""
        name, bases = plugin.NAME, type(plugin).__mro__
        is_by_node = NodeFilterPlugin in bases
        column = _NodeByNode(plugin) if is_by_node else plugin
        is_by_node |= getattr(plugin, "COSTS_BY_ROW", False)
        bits = None if is_trusted else answers.bits
        return BoundFilter(
            index,
            name,
            column.READS,
            is_row_local(column),
            is_trusted,
            is_by_node,
            calls.bound(plugin, "Filter", column.filter, bits),
            calls.bound(plugin, "Filter", column.reasons_in, answers.reasons),
            calls.bound(plugin, "Filter", column.obstacles, answers.obstacles),
            calls.bound(plugin, "Filter", plugin.excess) if is_trusted else None,
            _counting(plugin, calls, is_trusted=is_trusted)
            if CountingFilterPlugin in bases
            else None,
            _follow(plugin, calls) if PreFilterExtensions in bases else None,
        )


_Follow: TypeAlias = Callable[[CycleState, PodInfo, Snapshot, PodInfo, int], Status]


class BoundCounting(msgspec.Struct, frozen=True, eq=False):
    """The counts of one filter for one pod; see `Counting`."""

    weights: NDArray[np.float64]
    judge: Callable[[Rows, NDArray[np.float64]], Bits | None]
    rejects: Callable[[Rows, NDArray[np.float64]], NDArray[np.bool_] | None]


def _counting(
    plugin: CountingFilterPlugin, calls: PluginCalls, *, is_trusted: bool
) -> Callable[..., BoundCounting]:
    prepare = calls.bound(plugin, "Filter", plugin.counting, answers.counting)

    def prepared(*args: Any) -> BoundCounting:
        found: Counting = prepare(*args)
        judge: Callable[[Rows, NDArray[np.float64]], Bits | None]
        if is_trusted:
            judge = calls.bound(plugin, "Filter", found.judge)
            return BoundCounting(found.weights, judge, calls.bound(plugin, "Filter", found.rejects))
        judge = calls.bound(plugin, "Filter", found.judge, answers.counted_bits)

        def rejects(at: Rows, changes: NDArray[np.float64]) -> NDArray[np.bool_] | None:
            bits = judge(at, changes)
            return None if bits is None else bits != 0

        return BoundCounting(found.weights, judge, rejects)

    return prepared


def _follow(plugin: Any, calls: PluginCalls) -> tuple[_Follow, _Follow]:
    check = answers.status_of(answers.OK_ONLY, plugin.NAME)
    return (
        calls.bound(plugin, "PreFilterExtensionAddPod", plugin.add_pod, check),
        calls.bound(plugin, "PreFilterExtensionRemovePod", plugin.remove_pod, check),
    )


class BoundScore(msgspec.Struct, frozen=True, eq=False):
    """A Score plugin in column form, with its weight.

    Attributes:
        name: its name.
        weight: the factor of its scores in the total.
        reads: the data that its score of a row depends on.
        is_row_local: see `BoundFilter`; so is `is_trusted`.
        needs: see `Shortcuts.NEEDS`; so are `skips_score` and `score_by_domain`.
        score: returns the scores.
        normalize: makes them comparable; None where they are already.
        pre_score: prepares scoring; None for a plugin that does not.
    """

    name: str
    weight: int
    reads: Reads
    is_row_local: bool
    is_trusted: bool
    needs: int
    score: Callable[[CycleState, PodInfo, Snapshot, Rows], Scores]
    normalize: Callable[[CycleState, PodInfo, Scores], Scores] | None
    pre_score: Callable[[CycleState, PodInfo, Snapshot, Rows], Status] | None
    skips_score: Callable[[PodInfo, Snapshot], bool] | None
    score_by_domain: Callable[..., tuple[Topology, Scores] | None] | None

    def normalized(self, state: CycleState, pod: PodInfo, column: Scores) -> Scores:
        """The scores as they are added up.

        Raises:
            PluginError: the plugin failed.
        """
        return column if self.normalize is None else self.normalize(state, pod, column)

    @staticmethod
    def of(
        plugin: Any,
        weight: int,
        calls: PluginCalls,
        pre_score: Callable[[CycleState, PodInfo, Snapshot, Rows], Status] | None,
        *,
        is_trusted: bool,
    ) -> "BoundScore":
        """Bind a plugin of either form."""
        name, bases = plugin.NAME, type(plugin).__mro__
        column = _NodeScores(plugin) if NodeScorePlugin in bases else plugin
        is_relative = NormalizeScorePlugin in bases
        score = answers.scores if is_relative else answers.final_scores
        point, normalized = "ScoreExtensionNormalize", answers.normalized_scores
        # A plugin whose PreScore is not enabled must fail at Score: no shortcut may skip it.
        is_prepared = pre_score is not None or PreScorePlugin not in bases
        hurries = is_prepared and Shortcuts in bases
        first = "Score" if pre_score is None else "PreScore"
        yes = None if is_trusted else answers.yes_or_no
        return BoundScore(
            name,
            weight,
            column.READS,
            is_row_local(column),
            is_trusted,
            needs_of(plugin),
            calls.bound(plugin, "Score", column.score, None if is_trusted else score),
            calls.bound(plugin, point, plugin.normalize_score, None if is_trusted else normalized)
            if is_relative
            else None,
            pre_score,
            calls.bound(plugin, first, plugin.skips_score, yes) if hurries else None,
            calls.bound(plugin, "Score", plugin.score_by_domain)
            if hurries and is_trusted
            else None,
        )


def needs_of(plugin: object) -> int:
    """The `NEEDS` of a plugin, or 0; see `Shortcuts`."""
    return getattr(plugin, "NEEDS", 0)


def is_row_local(plugin: object) -> bool:
    """Whether a plugin's answers for a row depend on that row (and the pod's class) only."""
    return not getattr(plugin, "READS", Reads.CLUSTER) & Reads.CLUSTER


# --- node form ------------------------------------------------------------------------------------


def row_indices(rows: Rows) -> NDArray[np.intp]:
    """The rows as indices."""
    if isinstance(rows, slice):
        return np.arange(rows.start or 0, rows.stop, dtype=np.intp)
    return rows


class _NodeByNode:
    """A node-form filter in column form.

    An answer is not a bit set. It is the position, counted from 1, of a Status among those that the
    plugin returned in this attempt. So a plugin may return a different Status for every node.
    """

    READS = Reads.CLUSTER

    def __init__(self, plugin: NodeFilterPlugin) -> None:
        self._plugin = plugin
        self._given: StateKey[dict[Status, int]] = StateKey(f"{plugin.NAME}/given")

    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        """See `FilterPlugin.filter`.

        Raises:
            WrongAnswerError: the plugin answered no Status, or an error.
        """
        given = state.get(self._given)
        if given is None:
            # Clones of the state share this dict: `reasons_in` reads in the original state what
            # `filter` added in a clone.
            given = {}
            state.write(self._given, given)
        indices = row_indices(rows)
        answer = np.zeros(len(indices), np.uint64)
        for i, row in enumerate(indices.tolist()):
            returned = self._plugin.filter(state, pod.pod, snapshot.info(row))
            status = answers.status(returned, answers.FILTER)
            if not status.is_success:
                answer[i] = given.setdefault(status, len(given) + 1)
        return answer

    def reasons_in(self, state: CycleState, *asked: Any) -> Sequence[Reason]:
        """The reasons in an answer for a row; see `FilterPlugin.reasons_in`."""
        given, answer = state.read(self._given), asked[2]
        status = list(given)[answer - 1]
        return [Reason(text, status.code) for text in status.reasons or ("",)]

    def obstacles(self, *_: object) -> Sequence[Obstacle]:
        """Return none: a node-form filter explains a rejection by its status only."""
        return ()


class _NodeScores:
    """A node-form score in column form."""

    READS = Reads.CLUSTER

    def __init__(self, plugin: NodeScorePlugin) -> None:
        self._plugin = plugin

    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        """See `ScorePlugin.score`."""
        score = self._plugin.score
        infos = [snapshot.info(row) for row in row_indices(rows).tolist()]
        return np.array([answers.number(score(state, pod.pod, info)) for info in infos], np.float64)
