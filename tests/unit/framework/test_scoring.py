"""From feasible nodes to totals: weights, normalisation, who takes part, what is refused."""

import math
from typing import Any, ClassVar

import numpy as np
import pytest
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import PreScorePlugin, Reads, Scores
from scheduler.kernel.framework.runtime import Framework, PluginError
from scheduler.kernel.framework.runtime.diagnosis import Feasibility
from scheduler.kernel.framework.runtime.scoring import Scoring
from scheduler.kernel.framework.shortcuts import Shortcuts
from scheduler.kernel.framework.status import SUCCESS, Status, error, unschedulable
from scheduler.kernel.snapshot import NodeRemoved, Rows, Snapshot
from tests.support.builders import make_pod_info
from tests.support.fake_plugins import (
    ColumnFilter,
    ColumnScore,
    NodeScore,
    PreFilter,
    RelativeScore,
    make_framework,
    make_plugin_set,
    make_snapshot,
)

POD = make_pod_info("judged")


def is_total_cached(
    framework: Framework, found: Feasibility, pod: PodInfo, snapshot: Snapshot
) -> bool:
    """Whether the class's totals are used as they are."""
    scoring = Scoring(framework.plugins)
    return scoring._keeps_totals(found) and not scoring._adding_scores(found, pod, snapshot)


READS = [Reads.NODE, Reads.PODS, Reads.IMAGES, Reads.CLUSTER]


def totals(framework: Framework, snapshot: Snapshot) -> dict[str, float]:
    """Totals by name of the nodes that fit; the score table must add up to them."""
    found = framework.filtering.find_nodes_that_fit(POD, snapshot)
    rows = found.feasible_rows()
    sums = framework.scoring.totals(found, POD, snapshot, rows)
    if framework.plugins.score:
        table = framework.scoring.score_table(found, POD, snapshot, rows)
        assert sum((c * w for _, w, c in table), np.zeros(len(rows))).tolist() == sums.tolist()
    names = [snapshot.table.names[row] for row in rows]
    return dict(zip(names, sums.tolist(), strict=True))


@pytest.mark.parametrize("reads", READS, ids=str)
def test_scores_count_by_weight(reads: Reads) -> None:
    """Whatever a plugin reads, its score counts as often as the profile says."""
    framework = make_framework(
        ColumnScore("A", {"a": 10, "b": 20}, reads=reads),
        ColumnScore("B", {"a": 1}),
        NodeScore("C", lambda node: 7),
        weights={"A": 3, "B": 100},
    )

    assert totals(framework, make_snapshot("a", "b")) == {"a": 137, "b": 67}


class OfType(ColumnScore):
    """Answers with numbers of another type than float64."""

    dtype: Any = np.int64

    @override
    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        return super().score(state, pod, snapshot, rows).astype(self.dtype)


class RelativeOfType(OfType, RelativeScore):
    @override
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        return super().normalize_score(state, pod, scores).astype(self.dtype)


@pytest.mark.parametrize("reads", READS, ids=str)
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32])
@pytest.mark.parametrize("kind", [OfType, RelativeOfType])
def test_scores_are_numbers_of_any_type(reads: Reads, dtype: Any, kind: type[OfType]) -> None:
    """A weight of 100 makes more of them than a byte can hold."""
    plugin = kind("A", {"a": 100, "b": 50}, reads=reads)
    plugin.dtype = dtype
    framework = make_framework(plugin, ColumnScore("B", {"a": 1}), weights={"A": 100, "B": 1})

    assert totals(framework, make_snapshot("a", "b")) == {"a": 10001, "b": 5000}


@pytest.mark.parametrize("reads", READS, ids=str)
def test_normalisation_looks_at_nodes_that_fit_only(reads: Reads) -> None:
    """The highest score of all is on a node that is rejected: it sets no scale."""
    framework = make_framework(
        ColumnFilter("F", {"best": 1}),
        RelativeScore("R", {"best": 1000, "a": 10, "b": 5}, reads=reads),
    )

    assert totals(framework, make_snapshot("best", "a", "b")) == {"a": 100, "b": 50}


@pytest.mark.parametrize("reads", READS, ids=str)
def test_scores_within_a_set_of_nodes(reads: Reads) -> None:
    """The same holds where PreFilter leaves only some nodes."""
    framework = make_framework(
        PreFilter("Set", nodes=("a", "b")),
        RelativeScore("R", {"best": 1000, "a": 10, "b": 5}, reads=reads),
        ColumnScore("S", {"a": 1, "b": 2, "best": 3}, reads=reads),
    )

    assert totals(framework, make_snapshot("best", "a", "b")) == {"a": 101, "b": 52}


@pytest.mark.parametrize("reads", READS, ids=str)
def test_who_skips_gives_no_score(reads: Reads) -> None:
    """A plugin that skips is not in the table and adds nothing."""
    log: list[str] = []
    framework = make_framework(
        ColumnScore("S", {"a": 9}, reads=reads, skips=True, log=log), ColumnScore("T", {"a": 1})
    )
    snapshot = make_snapshot("a")
    found = framework.filtering.find_nodes_that_fit(POD, snapshot)

    table = framework.scoring.score_table(found, POD, snapshot, found.feasible_rows())

    assert [name for name, _, _ in table] == ["T"]
    assert totals(framework, snapshot) == {"a": 1}
    assert "S.score" not in log


def test_without_score_plugins_every_node_gets_one() -> None:
    """The same as upstream; with plugins that all skip, or with extenders, it is nothing."""
    snapshot = make_snapshot("a", "b")

    assert totals(make_framework(), snapshot) == {"a": 1, "b": 1}
    skipping = make_framework(ColumnScore("S", {}, skips=True))
    assert totals(skipping, snapshot) == {"a": 0, "b": 0}
    with_extenders = Framework(make_plugin_set([]), has_extenders=True)
    assert totals(with_extenders, snapshot) == {"a": 0, "b": 0}


def test_all_are_prepared_before_the_first_scores() -> None:
    """What one plugin prepares, another may read."""
    log: list[str] = []
    framework = make_framework(
        ColumnScore("A", {}, reads=Reads.CLUSTER, log=log),
        ColumnScore("B", {}, reads=Reads.CLUSTER, log=log),
    )
    snapshot = make_snapshot("a")
    found = framework.filtering.find_nodes_that_fit(POD, snapshot)

    framework.scoring.totals(found, POD, snapshot, found.feasible_rows())

    assert log == ["A.pre_score", "B.pre_score", "A.score", "B.score"]


class OnlyPrepares(PreScorePlugin):
    """Takes part in PreScore, gives no score."""

    NAME = "OnlyPrepares"

    def __init__(self, status: Status) -> None:
        self._status = status
        self.rows: list[list[int]] = []

    @override
    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        assert not isinstance(rows, slice)
        self.rows.append(rows.tolist())
        return self._status


def test_a_plugin_may_only_prepare() -> None:
    """It hears of the nodes that fit, and its presence keeps totals from being remembered."""
    plugin = OnlyPrepares(SUCCESS)
    framework = make_framework(plugin, ColumnFilter("F", {"a": 1}), ColumnScore("S", {}))
    snapshot = make_snapshot("a", "b")
    found = framework.filtering.find_nodes_that_fit(POD, snapshot)

    framework.scoring.totals(found, POD, snapshot, found.feasible_rows())

    assert plugin.rows == [[1]]
    assert not is_total_cached(framework, found, POD, snapshot)


@pytest.mark.parametrize("reads", [Reads.NODE, Reads.CLUSTER], ids=str)
def test_prescore_cannot_reject(reads: Reads) -> None:
    """A rejection after Filter is a failure."""

    class Rejecting(ColumnScore):
        def pre_score(self, *_: Any) -> Status:
            return unschedulable("too late")

    framework = make_framework(Rejecting("R", {}, reads=reads))

    expected = "returned Unschedulable: too late, expected Success, Skip or Error"
    with pytest.raises(PluginError, match=f'running PreScore plugin "R": {expected}'):
        totals(framework, make_snapshot("a"))


@pytest.mark.parametrize("reads", READS, ids=str)
@pytest.mark.parametrize("fitting", [0, 1, 2])
def test_a_failure_to_prepare_matters_only_where_nodes_are_scored(
    reads: Reads, fitting: int
) -> None:
    """Of no node and of a single one there is nothing to choose, and PreScore is not called."""

    class Failing(ColumnScore):
        def pre_score(self, *_: Any) -> Status:
            return error("unreadable")

    names = ("a", "b", "c")
    rejecting = ColumnFilter("F", dict.fromkeys(names[fitting:], 1))
    framework = make_framework(rejecting, Failing("Bad", {}, reads=reads))
    snapshot = make_snapshot(*names)

    found = framework.filtering.find_nodes_that_fit(POD, snapshot)

    if fitting > 1:
        with pytest.raises(PluginError, match=r'running PreScore plugin "Bad": .*unreadable'):
            framework.scoring.best_nodes(found, POD, snapshot)
    else:
        assert framework.scoring.best_nodes(found, POD, snapshot).rows.tolist() == [0][:fitting]


@pytest.mark.parametrize("reads", [Reads.NODE, Reads.PODS], ids=str)
def test_a_plugin_that_failed_to_prepare_is_asked_again(reads: Reads) -> None:
    """The next attempt of the same class scores, if PreScore succeeds by then."""

    class FailingOnce(ColumnScore):
        answers: ClassVar = [error("not yet"), error("not yet")]

        def pre_score(self, *_: Any) -> Status:
            return self.answers.pop() if self.answers else SUCCESS

    framework = make_framework(FailingOnce("Late", {"a": 7}, reads=reads))
    snapshot = make_snapshot("a", "b")

    with pytest.raises(PluginError, match="not yet"):
        totals(framework, snapshot)

    assert totals(framework, snapshot) == {"a": 7, "b": 0}


@pytest.mark.parametrize("bad", [-1, 101, math.nan, math.inf, 0.5], ids=str)
@pytest.mark.parametrize("form", ["node", "cluster", "row", "normalised"])
def test_a_score_out_of_range_fails_the_attempt(form: str, bad: float) -> None:
    """Only whole numbers from 0 to 100 can be added up; the message says who and what."""

    class Normalising(RelativeScore):
        def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
            return scores

    plugin = {
        "node": NodeScore("Mine", lambda node: bad),
        "cluster": ColumnScore("Mine", {"a": bad}, reads=Reads.CLUSTER),
        "row": ColumnScore("Mine", {"a": bad}),
        "normalised": Normalising("Mine", {"a": bad}),
    }[form]

    with pytest.raises(PluginError, match=f'plugin "Mine": .*invalid score {bad:g}, expected'):
        totals(make_framework(plugin), make_snapshot("a", "b"))


@pytest.mark.parametrize("bad", [None, "high"], ids=str)
def test_a_score_that_is_no_number_fails_the_attempt(bad: object) -> None:
    """The usual slip of the pen in a node-form plugin."""
    with pytest.raises(PluginError, match='running Score plugin "Mine": '):
        totals(make_framework(NodeScore("Mine", lambda node: bad)), make_snapshot("a"))


class Failing(ColumnScore):
    """Fails, unless it is told otherwise."""

    def score(self, *args: Any) -> Any:
        if self.scores:
            raise ValueError("boom")
        return super().score(*args)


@pytest.mark.parametrize("reads", READS, ids=str)
def test_a_score_that_fails_matters_only_when_nodes_are_scored(reads: Reads) -> None:
    """A pod that fits nowhere is told why; the failure is not remembered."""
    plugin = Failing("Bad", {"a": 1}, reads=reads)
    framework = make_framework(ColumnFilter("F", {"a": 1}), plugin)
    snapshot = make_snapshot("a", "b")

    found = framework.filtering.find_nodes_that_fit(POD, snapshot)
    with pytest.raises(PluginError, match='running Score plugin "Bad": ValueError: boom'):
        framework.scoring.totals(found, POD, snapshot, found.feasible_rows())
    plugin.scores = {}

    assert totals(framework, snapshot) == {"b": 0}
    alone = make_framework(ColumnFilter("F", {"a": 1}), Failing("Bad", {"a": 1}, reads=reads))
    assert totals_of_nothing(alone) == []


def totals_of_nothing(framework: Framework) -> list[int]:
    return framework.filtering.find_nodes_that_fit(POD, make_snapshot("a")).feasible_rows().tolist()


def test_rows_without_a_node_may_have_any_score() -> None:
    """A division by an allocatable of 0 where there is no node harms nobody."""
    snapshot = make_snapshot("gone", "a")
    snapshot.update([NodeRemoved("gone")])
    framework = make_framework(ColumnScore("S", {"": math.nan, "a": 5}))

    assert totals(framework, snapshot) == {"a": 5}


def test_trusted_plugins_are_not_checked() -> None:
    """In-tree plugins are right by their own tests, and every check costs."""
    framework = make_framework(ColumnScore("S", {"a": 500}), trusted=["S"])

    assert totals(framework, make_snapshot("a")) == {"a": 500}


def test_totals_are_remembered_only_where_they_rank_all_rows() -> None:
    """Row-local scores: yes. Cluster scores, or a relative score that tells nodes apart: no.

    A relative score that is 0 everywhere adds the same to all, and a cluster score that says
    beforehand that it skips the pod adds nothing.
    """
    snapshot = make_snapshot("a", "b")

    class Skipping(ColumnScore, Shortcuts):
        def skips_score(self, pod: PodInfo, snapshot: Snapshot) -> bool:
            return True

    def cached(*plugins: Any) -> bool:
        framework = make_framework(*plugins)
        found = framework.filtering.find_nodes_that_fit(POD, snapshot)
        return is_total_cached(framework, found, POD, snapshot)

    assert cached(ColumnFilter("F", {"a": 1}), ColumnScore("S", {"a": 1}))
    assert cached(RelativeScore("R", {}))
    assert not cached(RelativeScore("R", {"a": 1}))
    assert not cached(ColumnScore("S", {}, reads=Reads.CLUSTER))
    assert cached(Skipping("S", {}, reads=Reads.CLUSTER))
    assert cached(ColumnFilter("F", {"a": 1}, reads=Reads.CLUSTER))
    assert not cached(PreFilter("Set", nodes=("a",)))


@pytest.mark.parametrize("reads", READS, ids=str)
def test_the_best_node_is_one_that_fits_whoever_rejects_the_others(reads: Reads) -> None:
    """The totals of the class rank all nodes; those that a cluster filter rejects are left out."""
    framework = make_framework(
        ColumnFilter("F", {"best": 1}, reads=reads),
        ColumnScore("S", {"best": 9, "a": 5, "b": 7, "c": 7}),
    )
    snapshot = make_snapshot("best", "a", "b", "c")

    found = framework.filtering.find_nodes_that_fit(POD, snapshot)
    best = framework.scoring.best_nodes(found, POD, snapshot)
    one_by_one = framework.scoring.best_nodes(found, POD, snapshot, found.feasible_rows())

    assert [snapshot.table.names[row] for row in best.rows] == ["b", "c"]
    assert best.feasible == 3
    assert best.rows.tolist() == one_by_one.rows.tolist()


def test_no_node_is_best_where_a_cluster_filter_rejects_all() -> None:
    """As where nobody looks at the cluster."""
    framework = make_framework(
        ColumnFilter("F", {"a": 1, "b": 1}, reads=Reads.CLUSTER), ColumnScore("S", {"a": 5})
    )
    snapshot = make_snapshot("a", "b")

    best = framework.scoring.best_nodes(
        framework.filtering.find_nodes_that_fit(POD, snapshot), POD, snapshot
    )

    assert (best.feasible, len(best.rows)) == (0, 0)
