"""Which of the nodes that fit is chosen."""

from collections import Counter
from random import Random

import numpy as np
import pytest

from scheduler.kernel.engine.algorithm import (
    NO_NODES,
    ScheduleResult,
    SchedulingAlgorithm,
    num_feasible_nodes_to_find,
)
from scheduler.kernel.framework.interface import Reads
from scheduler.kernel.framework.runtime import AttemptDiagnosis, Framework
from scheduler.kernel.framework.status import SUCCESS
from scheduler.kernel.snapshot import NodeRemoved, NodeSet, Snapshot
from tests.support.builders import make_node, make_node_info, make_pod_info
from tests.support.fake_plugins import (
    ColumnFilter,
    ColumnScore,
    PreFilter,
    RelativeScore,
    make_framework,
    make_plugin_set,
    make_snapshot,
)

POD = make_pod_info("p")


def chosen(
    framework: Framework, snapshot: Snapshot, *, times: int = 1, percentage: int = 0, seed: int = 0
) -> Counter[str]:
    algorithm = SchedulingAlgorithm(Random(seed), percentage)
    results = [algorithm.schedule_pod(framework, POD, snapshot) for _ in range(times)]
    return Counter(r.suggested_host if isinstance(r, ScheduleResult) else "" for r in results)


@pytest.mark.parametrize("reads", [Reads.NODE, Reads.CLUSTER], ids=["cached", "summed"])
def test_the_highest_total_wins(reads: Reads) -> None:
    """Among the nodes that fit, whether totals are remembered or added up."""
    framework = make_framework(
        ColumnFilter("F", {"best": 1}),
        ColumnScore("S", {"best": 90, "b": 50, "c": 40}, reads=reads),
    )

    assert chosen(framework, make_snapshot("a", "best", "b", "c"), times=20) == {"b": 20}


@pytest.mark.parametrize("reads", [Reads.NODE, Reads.CLUSTER], ids=["cached", "summed"])
def test_equally_good_nodes_are_equally_likely(reads: Reads) -> None:
    """Ties are broken by the seeded generator, and nothing else depends on it."""
    framework = make_framework(ColumnScore("S", {"a": 7, "b": 7, "c": 7}, reads=reads))
    snapshot = make_snapshot("low", "a", "b", "c")

    counts = chosen(framework, snapshot, times=3000)

    assert set(counts) == {"a", "b", "c"}
    assert min(counts.values()) > 900
    assert chosen(framework, snapshot, times=50, seed=4) == chosen(
        framework, snapshot, times=50, seed=4
    )


def test_equally_good_placements_are_equally_likely() -> None:
    """One that is better than all others is no matter of chance: what follows does not change."""
    random = Random(0)
    algorithm, pair = SchedulingAlgorithm(random), np.array([3, 7])

    counts = Counter(algorithm.pick_placement(pair) for _ in range(1000))
    before = random.getstate()

    assert sorted(counts) == [3, 7]
    assert min(counts.values()) > 400
    assert algorithm.pick_placement(pair[:1]) == 3
    assert random.getstate() == before


def test_a_nominated_node_that_fits_wins_without_scores() -> None:
    """Room was made there."""
    framework = make_framework(ColumnFilter("F", {"full": 1}), ColumnScore("S", {"b": 100}))
    snapshot = make_snapshot("a", "b", "full")
    algorithm = SchedulingAlgorithm(Random(0))

    for nominated, expected in (("a", "a"), ("full", "b"), ("gone", "b")):
        pod = make_pod_info("p", nominated_node_name=nominated)
        result = algorithm.schedule_pod(framework, pod, snapshot)
        assert isinstance(result, ScheduleResult)
        assert result.suggested_host == expected


def test_counts_are_told() -> None:
    """Nodes looked at, and nodes that fit."""
    snapshot = make_snapshot("a", "b", "c")

    for framework in (
        make_framework(ColumnFilter("F", {"a": 1})),
        make_framework(ColumnFilter("F", {"a": 1}), ColumnScore("S", {}, reads=Reads.CLUSTER)),
    ):
        result = SchedulingAlgorithm(Random(0)).schedule_pod(framework, POD, snapshot)
        assert isinstance(result, ScheduleResult)
        assert result.best.feasible == 2


def test_nothing_fits() -> None:
    """The diagnosis says why; without nodes there is nothing to say."""
    framework = make_framework(ColumnFilter("F", {"a": 1}))
    algorithm = SchedulingAlgorithm(Random(0))

    result = algorithm.schedule_pod(framework, POD, make_snapshot("a"))

    assert isinstance(result, AttemptDiagnosis)
    assert result.message() == "0/1 nodes are available: 1 F says no."
    assert algorithm.schedule_pod(framework, POD, Snapshot()) is NO_NODES


def test_no_node_is_chosen_on_a_row_that_lost_its_node() -> None:
    """Also while totals are remembered."""
    framework = make_framework(ColumnScore("S", {"a": 100}))
    snapshot = make_snapshot("a", "b")
    assert chosen(framework, snapshot) == {"a": 1}

    snapshot.update([NodeRemoved("a")])

    assert chosen(framework, snapshot, times=20) == {"b": 20}


# --- sampling -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "percentage", "expected"),
    [(50, 10, 50), (99, 1, 99), (100, 1, 100), (5000, 10, 500), (5000, 1, 100), (300, 100, 300)],
)
def test_how_many_nodes_are_enough(nodes: int, percentage: int, expected: int) -> None:
    """Never fewer than 100."""
    assert num_feasible_nodes_to_find(nodes, percentage) == expected


def big_snapshot(count: int) -> Snapshot:
    return make_snapshot(*(f"n{i:03}" for i in range(count)))


def test_a_sample_starts_where_the_last_one_ended() -> None:
    """100 of 250 nodes are scored: the best one is found only when its turn comes."""
    framework = make_framework(RelativeScore("S", {"n150": 1}))
    snapshot = big_snapshot(250)
    algorithm = SchedulingAlgorithm(Random(0), 1)

    found = []
    starts = []
    for _ in range(5):
        result = algorithm.schedule_pod(framework, POD, snapshot)
        assert isinstance(result, ScheduleResult)
        found.append(result.suggested_host == "n150")
        starts.append(algorithm.next_start_node_index)

    assert starts == [100, 200, 50, 150, 0]
    assert found[:4] == [False, True, False, False]


def test_sampling_looks_past_nodes_that_do_not_fit() -> None:
    """It stops once enough are found, and takes what there is when there are too few."""
    refused = {f"n{i:03}": 1 for i in range(120)}
    framework = make_framework(ColumnFilter("F", refused), ColumnScore("S", {"n160": 1}))
    algorithm = SchedulingAlgorithm(Random(0), 1)

    result = algorithm.schedule_pod(framework, POD, big_snapshot(200))

    assert isinstance(result, ScheduleResult)
    assert (result.suggested_host, result.best.feasible) == ("n160", 80)
    assert algorithm.next_start_node_index == 0


def test_the_next_sample_starts_at_a_node_that_fits() -> None:
    """Upstream stops at the first node that it no longer wants: those before it are evaluated."""
    refused = {f"n{i:03}": 1 for i in range(100, 130)}
    framework = make_framework(ColumnFilter("F", refused))
    algorithm = SchedulingAlgorithm(Random(0), 1)

    algorithm.schedule_pod(framework, POD, big_snapshot(250))

    assert algorithm.next_start_node_index == 130


def test_a_nominated_node_that_does_not_fit_counts_as_evaluated() -> None:
    """It was evaluated before the others; within the sample it counts once."""
    framework = make_framework(ColumnFilter("F", {"n005": 1, "n200": 1}))
    starts = []
    for name in ("", "n005", "n200", "n210", "gone"):
        algorithm = SchedulingAlgorithm(Random(0), 1)
        pod = make_pod_info("p", nominated_node_name=name)
        algorithm.schedule_pod(framework, pod, big_snapshot(250))
        starts.append(algorithm.next_start_node_index)

    # On n210 the pod fits: no other node is evaluated.
    assert starts == [101, 101, 102, 0, 101]


def test_pods_that_name_their_nodes_move_the_start() -> None:
    """As many nodes were evaluated as they name."""
    framework = make_framework(PreFilter("P", SUCCESS, ["n001", "n002", "n003"]))
    algorithm = SchedulingAlgorithm(Random(0), 1)

    starts = []
    for _ in range(2):
        algorithm.schedule_pod(framework, POD, big_snapshot(250))
        starts.append(algorithm.next_start_node_index)

    assert starts == [3, 6]


def test_nodes_that_no_extender_is_asked_about_count_once() -> None:
    """No node fits, so no extender is asked: the attempt itself moves the start."""
    refused = {"n001": 1, "n002": 1}
    framework = make_framework(PreFilter("P", SUCCESS, [*refused]), ColumnFilter("F", refused))
    algorithm, snapshot = SchedulingAlgorithm(Random(0), 1), big_snapshot(250)

    asked = algorithm.nodes_to_ask_about(framework, POD, snapshot, None, tries_nominated=True)
    algorithm.schedule_pod(framework, POD, snapshot)

    assert asked == ((), False)
    assert algorithm.next_start_node_index == 2


def test_the_sample_follows_the_zones() -> None:
    """Zones take turns in the order of the sample."""
    snapshot = Snapshot()
    for zone, count in (("a", 150), ("b", 50)):
        for i in range(count):
            node = make_node(f"{zone}{i:03}", zone=zone)
            snapshot.update([NodeSet(make_node_info(node), node)])
    framework = make_framework(ColumnScore("S", {"b049": 100}))

    assert chosen(framework, snapshot, percentage=1) == {"b049": 1}


@pytest.mark.parametrize(
    ("own", "general", "sampled"),
    [
        pytest.param(None, 1, True, id="general"),
        pytest.param(0, 1, False, id="the profile wants all"),
        pytest.param(1, 0, True, id="the profile wants few"),
        pytest.param(100, 1, False, id="100 percent is all"),
    ],
)
def test_the_profile_decides_how_many(own: int | None, general: int, sampled: bool) -> None:
    """Its own percentage beats the general one; None leaves it to that."""
    framework = Framework(
        make_plugin_set([ColumnScore("S", {"n199": 1})]),
        percentage_of_nodes_to_score=own,
    )

    best = chosen(framework, big_snapshot(200), percentage=general) == {"n199": 1}

    assert best is not sampled
