"""The dry run of preemption: selects victims on many nodes at once.

It removes the pods of lower priority from every node. Then it reprieves them one by one, most
important first, while the preemptor still fits. All nodes take the same step together, so a step is
a handful of column operations, whatever the number of nodes.

Source: kubernetes pkg/scheduler/framework/preemption/preemption.go (DryRunPreemption),
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go (SelectVictimsOnNode) v1.36.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import pod_of
from scheduler.kernel.framework.results import Candidate
from scheduler.kernel.framework.runtime.changed_rows import ChangedRows, PodsOf
from scheduler.kernel.framework.runtime.diagnosis import AttemptDiagnosis
from scheduler.kernel.framework.runtime.nominated_pods import Nominated, NominatedPods
from scheduler.kernel.framework.runtime.plugin_calls import PluginError
from scheduler.kernel.framework.runtime.verdicts import FEASIBLE
from scheduler.kernel.framework.status import Status, error, unresolvable
from scheduler.kernel.preemption.budgets import Budgets
from scheduler.kernel.preemption.importance import Importance, PodsAt, RankedPods
from scheduler.kernel.preemption.whole_groups import WholeGroups
from scheduler.kernel.snapshot import Indices, Snapshot
from scheduler.kernel.snapshot.pod_kinds import OtherPods, kinds_used

NO_VICTIMS: Final = unresolvable("No preemption victims found for incoming pod")

_LATER_BATCHES: Final = 4
"""If the nodes tried do not suffice, the next batch has at most this many times as many."""
_SPARE: Final = 1.25
"""A factor on the number of nodes that would suffice at the present rate of candidates.

Some more nodes add little to the cost of a batch, whereas a second batch costs as much again.
"""

_MOST_FAILURES: Final = 16
"""A filter may fail on so many nodes before its failure ends the dry run.

Such nodes are searched by halves, which costs several batches for each of them.
"""

_NO_REPRIEVE_ERROR: Final = 'expected at least one victim pod on node "{}"'


class DryRunResult(msgspec.Struct):
    """The outcome of the dry run on some nodes.

    Attributes:
        rows: the nodes, in the order in which they were to be tried.
        victims: the pods to evict, node by node, most important first; `at` is an index of `rows`.
        violations: number of victims of each node that violate a budget.
        together: number of victims of each node that were placed together with others.
        is_candidate: the nodes on which the pod fits once the victims have left.
        rejected: the reasons why other nodes do not help, each with its number of nodes.
    """

    rows: Indices
    victims: PodsAt
    violations: Indices
    together: Indices
    is_candidate: NDArray[np.bool_]
    rejected: list[tuple[Status, int]]


class DryRun:
    """Does the dry run for one pod."""

    def __init__(  # noqa: PLR0913 - what there is to know
        self,
        diagnosis: AttemptDiagnosis,
        snapshot: Snapshot,
        importance: Importance,
        budgets: Budgets,
        nominated: NominatedPods,
        *,
        below: int | None = None,
        whole: WholeGroups | None = None,
    ) -> None:
        """Prepare to try nodes.

        Args:
            diagnosis: the reasons why the pod fits nowhere.
            snapshot: the cluster.
            importance: the order of the pods of each node.
            budgets: the budgets that evictions may violate.
            nominated: the nominated pods.
            below: pods of a lower priority than this may be victims; None for the pod's own.
            whole: the pod groups that leave whole or not at all; None where each pod leaves alone.

        Raises:
            ValueError: there is nothing to try.
        """
        if diagnosis.attempt is None:
            raise ValueError("the pod was rejected for good before any node was looked at")
        self._attempt = diagnosis.attempt
        self._pod = diagnosis.attempt.pod
        self._places_together = diagnosis.places_together
        self._snapshot = snapshot
        self._importance = importance
        self._budgets = budgets
        self._nominated = nominated
        self._below = self._pod.priority if below is None else below
        self._whole = whole
        self._failures = 0

    def run(self, rows: Indices, wanted: int) -> list[DryRunResult]:
        """Try nodes in order until there are enough candidates.

        Enough means `wanted` of them, at least one of which violates no budget.

        Raises:
            PluginError: a plugin failed, on more than a few nodes.
        """
        batches: list[DryRunResult] = []
        start, size = 0, int(_SPARE * wanted)
        clean = total = 0
        while start < len(rows) and not (clean and total >= wanted):
            for tried in self._try_apart(rows[start : start + size]):
                clean, total = _cut(tried, wanted, clean, total)
                batches.append(tried)
            start += size
            size = _next_size(start, wanted, total)
        return batches

    def _try_apart(self, rows: Indices) -> list[DryRunResult]:
        """Try nodes. A filter that fails on some of them rejects only these."""
        try:
            return [self._try(rows)]
        except PluginError as problem:
            if self._failures == _MOST_FAILURES:
                raise
            if len(rows) == 1:
                self._failures += 1
                tried, _ = self._untried(rows)
                tried.rejected = [(error(_text_of(problem)), 1)]
                return [tried]
        middle = len(rows) // 2
        return [*self._try_apart(rows[:middle]), *self._try_apart(rows[middle:])]

    def _try(self, rows: Indices) -> DryRunResult:
        tried, lower = self._untried(rows)
        without = len(rows) - len(lower.nodes)
        if without:
            tried.rejected.append((NO_VICTIMS, without))
        if len(lower):
            self._select_victims(tried, lower)
        return tried

    def _untried(self, rows: Indices) -> tuple[DryRunResult, RankedPods]:
        """A result without candidates, and the pods that may leave."""
        lower = self._importance.ranked(self._snapshot, rows, self._below)
        count = len(rows)
        tried = DryRunResult(
            rows,
            lower.by_node(slice(0)),
            np.zeros(count, np.intp),
            np.zeros(count, np.intp),
            np.zeros(count, np.bool_),
            [],
        )
        return tried, lower

    def _select_victims(self, tried: DryRunResult, lower: RankedPods) -> None:
        """Select the victims on every node that has pods of lower priority; reprieve the others."""
        emptied = tried.rows[lower.nodes]
        rows, kinds, others = self._without(emptied, lower.at, lower.kinds, lower.pods)
        found = rows.judge()
        fits = found.first == FEASIBLE
        tried.rejected.extend((status, len(which)) for status, which in found.groups())
        # One more node in a column operation costs little; selecting the relevant ones costs more.
        is_many = not rows.follows_single_pods and 2 * np.count_nonzero(fits) > len(fits)
        chosen = np.ones_like(fits) if is_many else fits
        kinds, lower, fits = kinds[chosen[lower.at]], lower.only(chosen), fits[chosen]
        violates = self._budgets.violating(lower, others, kinds)
        together = self._placed_together(others, kinds)
        spared = violates | together
        leaves = _reprieve(rows, np.flatnonzero(chosen), lower, kinds, spared) & fits[lower.at]
        if self._whole is not None:
            stay = self._whole.stay(others, self._below)[kinds]
            needed = np.isin(lower.at, lower.at[leaves & stay])
            tried.rejected.extend([(NO_VICTIMS, len(np.unique(lower.at[needed])))])
            leaves &= ~needed
            fits[lower.at[needed]] = False
        tried.victims = lower.by_node(leaves)
        count = len(tried.rows)
        tried.violations = np.bincount(lower.nodes[lower.at[leaves & violates]], minlength=count)
        tried.together = np.bincount(lower.nodes[lower.at[leaves & together]], minlength=count)
        tried.is_candidate[tried.victims.at] = True
        unharmed = lower.nodes[fits & ~tried.is_candidate[lower.nodes]]
        names = self._snapshot.table.names
        tried.rejected.extend(
            (error(_NO_REPRIEVE_ERROR.format(names[row])), 1)
            for row in tried.rows[np.sort(unharmed)].tolist()
        )

    def _placed_together(self, others: OtherPods, kinds: Indices) -> NDArray[np.bool_]:
        """The pods that are placed together, or leave together, as a mask; given by kind."""
        judge = self._places_together
        found = np.zeros(len(kinds), np.bool_)
        if judge is not None:
            found |= others.column(judge, lambda kind: judge(pod_of(kind)))[kinds] > 0
        if self._whole is not None:
            found |= self._whole.members(others)[kinds]
        return found

    def helps(self, candidates: Sequence[Candidate]) -> NDArray[np.bool_]:
        """For each candidate of the extenders, whether the pod fits once the victims have left.

        Args:
            candidates: on nodes where preemption may help, with victims that are still there.

        Raises:
            PluginError: a plugin failed.
        """
        row_of, number_of = self._snapshot.table.row_of, self._snapshot.kinds.number_of
        rows = np.array([row_of[each.node_name] for each in candidates], np.intp)
        victims = [victim for each in candidates for victim in each.victims]
        at = np.repeat(np.arange(len(rows)), [len(each.victims) for each in candidates])
        numbers = np.array([*map(number_of, victims)], np.intp)
        changed, _, _ = self._without(rows, at, numbers, lambda: victims)
        fits: NDArray[np.bool_] = changed.judge(np.arange(len(rows))).first == FEASIBLE
        return fits

    def _without(
        self, rows: Indices, at: Indices, numbers: Indices, pods: PodsOf
    ) -> tuple[ChangedRows, Indices, OtherPods]:
        """Evaluate rows without some pods and with the nominated pods.

        Args:
            rows: the rows.
            at: the position of the row of each removed pod.
            numbers: the number of its kind.
            pods: returns these pods, should a filter need them.

        Returns:
            The rows; the position of each pod's kind among all kinds concerned; these kinds.
        """
        before = self._nominated.before(self._pod, self._snapshot)
        concerned = numbers if before is None else np.concatenate((numbers, before.kinds))
        distinct, places = kinds_used(concerned)
        others = OtherPods(self._snapshot.kinds, distinct)
        kinds = places[: len(numbers)]
        changed = ChangedRows(self._attempt, self._snapshot, rows, others)
        if before is not None:
            _nominate(changed, before, places[len(numbers) :], self._snapshot)
        changed.remove(at, kinds, pods)
        return changed, kinds, others


def _text_of(problem: PluginError) -> str:
    """The text of a failure on a node. Source: runFilterPlugin."""
    if problem.point != "Filter" or problem.__cause__ is None:
        return str(problem)
    return f'running "{problem.plugin}" filter plugin: {problem.__cause__}'


def _next_size(tried: int, wanted: int, total: int) -> int:
    """The number of nodes to try next, estimated from the candidates found so far."""
    most = _LATER_BATCHES * tried
    if not total or total >= wanted:
        return most
    return min(most, int(_SPARE * (wanted - total) * tried / total) + 1)


def _nominate(rows: ChangedRows, before: Nominated, kinds: Indices, snapshot: Snapshot) -> None:
    """Add the nominated pods on the rows that are tried."""
    order = np.argsort(rows.rows)
    place = np.searchsorted(rows.rows, before.rows, sorter=order)
    place = order[np.minimum(place, len(order) - 1)]
    here = rows.rows[place] == before.rows
    if here.any():
        nominated = before.of(here)
        rows.nominate(place[here], kinds[here], lambda: nominated.pods_on(snapshot))


def _reprieve(
    rows: ChangedRows,
    places: Indices,
    lower: RankedPods,
    kinds: Indices,
    spared: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Reprieve pods while the preemptor fits: on each node the spared ones first.

    Args:
        rows: the rows that include the nodes.
        places: the position of each node among them.
        lower: all pods that have left these nodes.
        kinds: the position of the kind of each.
        spared: a mask of the pods that are reprieved before others.

    Returns:
        A mask of the pods that must leave.
    """
    turns = _turns(lower, spared)
    kinds = kinds[turns]
    leaves = np.zeros(len(lower), np.bool_)
    is_all = len(places) == len(rows.rows)
    for rank in lower.ranks():
        width = rank.stop - rank.start
        leaves[rank] = rows.try_back(
            slice(width) if is_all else places[:width],
            kinds[rank],
            lambda rank=rank: lower.pods(turns[rank]),  # type: ignore[misc] # the pods of this step
        )
    must = np.zeros(len(lower), np.bool_)
    must[turns[leaves]] = True
    return must


def _turns(lower: RankedPods, spared: NDArray[np.bool_]) -> Indices:
    """The order in which pods are reprieved, laid out as their ranks are."""
    every = np.arange(len(lower))
    if not spared.any():
        return every
    before = np.zeros(len(lower), np.intp)
    so_far = np.zeros(len(lower.nodes), np.intp)
    for rank in lower.ranks():
        here = so_far[: rank.stop - rank.start]
        before[rank] = here
        here += spared[rank]
    ranks = np.repeat(np.arange(len(lower.widths)), lower.widths)
    turn = np.where(spared, before, so_far[lower.at] + ranks - before)
    starts = np.cumsum([0, *lower.widths])
    turns = np.zeros(len(lower), np.intp)
    turns[starts[turn] + lower.at] = every
    return turns


def _cut(tried: DryRunResult, wanted: int, clean: int, total: int) -> tuple[int, int]:
    """Drop candidates beyond the number wanted, as if nodes had been tried one by one.

    Args:
        tried: the nodes of this batch.
        wanted: the number of candidates that is enough, and the most of either sort.
        clean: candidates before this batch that violate no budget and take no part of a group.
        total: all candidates before this batch.

    Returns:
        `clean` and `total` after this batch.
    """
    is_clean = tried.is_candidate & (tried.violations == 0) & (tried.together == 0)
    is_violating = tried.is_candidate & ~is_clean
    cleans = clean + np.cumsum(is_clean)
    violatings = np.minimum(total - clean + np.cumsum(is_violating), wanted)
    tried.is_candidate &= ~(is_violating & (total - clean + np.cumsum(is_violating) > wanted))
    totals = cleans + violatings
    enough = np.flatnonzero((cleans > 0) & (totals >= wanted))
    last = int(enough[0]) if len(enough) else len(totals) - 1
    tried.is_candidate[last + 1 :] = False
    return int(cleans[last]), int(totals[last])
