"""The row-local plugins that take part for the pods of one class.

PreFilter runs once, when the class is made, and PreScore once, when nodes are to be scored; both
hold for all its pods. So a pod that names its node, as those of daemon sets do, is not prepared for
scoring. The other plugins are sorted by the data that they read. Failures are kept until they
matter to a pod.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import msgspec
import numpy as np

from scheduler.api.pod_shape import EVERY_NEED
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import Reads, Scores
from scheduler.kernel.framework.results import PreFilterResult
from scheduler.kernel.framework.runtime.bound import BoundFilter, BoundScore
from scheduler.kernel.framework.runtime.plugin_calls import PluginError
from scheduler.kernel.framework.runtime.plugin_set import ProfilePlugins
from scheduler.kernel.framework.runtime.verdicts import Verdicts, as_view, judge
from scheduler.kernel.framework.status import Code, Status
from scheduler.kernel.snapshot import Rows, Snapshot


class RawScore(msgspec.Struct, eq=False):
    """A row-local score that is only comparable after normalisation.

    Attributes:
        scored: the plugin.
        constant: the normalised and weighted score on every node while no row differs from 0.
        column: the score before normalisation, by row.
        reads_pods: whether it depends on the pods on the row.
        varies: whether any row may differ from 0.
    """

    scored: BoundScore
    constant: float
    column: Scores
    reads_pods: bool
    varies: bool = False


class ClassPlugins:
    """The plugins that run for a class, and their calls.

    Attributes:
        unmeasured: runs plugins without counting them in metrics.
        state: the values that row-local plugins wrote for the class.
        pre_filter: their PreFilter answers by plugin name.
        narrows: whether they narrow the search to some nodes.
        remaining_pre_filters: by `PodInfo.needs`, the PreFilter plugins to run for a pod: all
            but the row-local ones that skip the class or allow every node for it.
        skipped: the row-local PreFilter plugins that skip.
        filters: the row-local filters that take part, in order.
        node_filters: the filters that read the node alone.
        pod_filters: the filters that read the pods on the node.
        failures: the filters that failed, by index.
        score_failure: a score plugin that failed; matters as soon as a node is to be scored.
    """

    def __init__(self, pod: PodInfo, plugins: ProfilePlugins, snapshot: Snapshot) -> None:
        self._pod, self._snapshot = pod, snapshot
        self.unmeasured = plugins.calls.unmeasured
        self.state = CycleState()
        self.failures: dict[int, PluginError] = {}
        self.score_failure: PluginError | None = None
        self._score_plugins = plugins.score
        self._unprepared: set[str] = set()
        self.pre_filter: dict[str, tuple[PreFilterResult | None, Status]] = {
            each.name: each.call(self.state, pod, snapshot)
            for each in plugins.pre_filter
            if each.is_row_local
        }
        self.skipped = frozenset(
            name for name, (_, status) in self.pre_filter.items() if status.code is Code.SKIP
        )
        passing = {
            name: result for name, (result, status) in self.pre_filter.items() if status.is_success
        }
        narrowing = {n for n, found in passing.items() if found and found.node_names is not None}
        self.narrows = bool(narrowing)
        silent = self.skipped.union(passing) - narrowing
        remaining = [each for each in plugins.pre_filter if each.name not in silent]
        self.remaining_pre_filters = [
            [p for p in remaining if not p.needs & ~needs] for needs in range(EVERY_NEED + 1)
        ]
        filters = [p for p in plugins.filter if p.is_row_local and p.name not in self.skipped]
        self.filters = tuple(sorted(filters, key=lambda each: each.index))
        self.pod_filters = [each for each in filters if each.reads & Reads.PODS]
        self.node_filters = [each for each in filters if not each.reads & Reads.PODS]

    @cached_property
    def scores(self) -> list[BoundScore]:
        """The row-local score plugins that do not skip the class; the first read runs PreScore."""
        return [p for p in self._score_plugins if p.is_row_local and not self._skips(p)]

    @cached_property
    def raw_scores(self) -> list[BoundScore]:
        """The scores that need normalisation."""
        return [each for each in self.scores if each.normalize is not None]

    @cached_property
    def pod_scores(self) -> list[BoundScore]:
        """The scores that need no normalisation and read the pods on the node."""
        return [p for p in self.scores if p.normalize is None and p.reads & Reads.PODS]

    @cached_property
    def node_scores(self) -> list[BoundScore]:
        """The scores that need no normalisation and read the node alone."""
        return [p for p in self.scores if p.normalize is None and not p.reads & Reads.PODS]

    @cached_property
    def reads_images(self) -> bool:
        """Whether any plugin reads the images of a node."""
        return any(each.reads & Reads.IMAGES for each in self._all)

    @cached_property
    def reads_sums(self) -> bool:
        """Whether the plugins read only sums of the pods on a node."""
        return all(Reads.PODS not in each.reads for each in self._of_pods)

    @cached_property
    def can_foresee(self) -> bool:
        """Whether the plugins may judge rows as if more pods ran on them."""
        return self.reads_sums and all(
            each.is_trusted and each not in self.raw_scores for each in self._of_pods
        )

    @property
    def _of_pods(self) -> list[BoundFilter | BoundScore]:
        return [each for each in self._all if each.reads & Reads.PODS]

    @property
    def _all(self) -> tuple[BoundFilter | BoundScore, ...]:
        return (*self.filters, *self.scores)

    def constant(self, scored: BoundScore) -> float:
        """The normalised and weighted score on every node while the raw score is 0 on all."""
        return float(scored.normalized(self.state, self._pod, np.zeros(1))[0]) * scored.weight

    def have_failed(self) -> bool:
        """Whether the answer of a plugin is missing because it failed."""
        return bool(self.failures) or self.score_failure is not None

    def forget_failures(self) -> None:
        """Drop the failures: the plugins run again, or failed for hypothetical pods only."""
        self.failures, self.score_failure = {}, None

    def raise_score_failure(self) -> None:
        """Fail the attempt when a row-local score plugin failed.

        Raises:
            PluginError: the failure of that plugin.
        """
        if self.score_failure is not None:
            raise self.score_failure

    def judge(self, filters: Sequence[BoundFilter], snapshot: Snapshot, verdicts: Verdicts) -> None:
        """Let filters reject rows; see `verdicts.judge`."""
        judge(filters, self.state, self._pod, snapshot, verdicts)
        if verdicts.failures:
            self.failures.update(verdicts.failures)

    def total(self, scores: Iterable[BoundScore], snapshot: Snapshot, rows: Rows) -> Scores:
        """The weighted sum of some scores."""
        total = np.zeros(snapshot.table.size if isinstance(rows, slice) else len(rows))
        rows = as_view(rows)
        for scored in scores:
            column = self.score(scored, snapshot, rows)
            total += column if scored.weight == 1 else column * scored.weight
        return total

    def score(self, scored: BoundScore, snapshot: Snapshot, rows: Rows) -> Scores:
        """The scores of one plugin; zeros if it fails, and the failure is kept."""
        try:
            if scored.name in self._unprepared:
                self._prepare(scored)
                self._unprepared.discard(scored.name)
            return scored.score(self.state, self._pod, snapshot, rows)
        except PluginError as problem:
            self.score_failure = problem
            return np.zeros(len(snapshot.table.alive[rows]))

    def _skips(self, scored: BoundScore) -> bool:
        """Whether a score plugin skips the class.

        One whose PreScore fails does not: it matters only if there are nodes to be scored.
        """
        try:
            return self._prepare(scored) is Code.SKIP
        except PluginError:
            self._unprepared.add(scored.name)
            return False

    def _prepare(self, scored: BoundScore) -> Code:
        """Run PreScore; it must not depend on the rows."""
        prepare: Callable[..., Status] | None = scored.pre_score
        if prepare is None:
            return Code.SUCCESS
        return prepare(self.state, self._pod, self._snapshot, slice(0, 0)).code
