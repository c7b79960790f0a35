"""Big holes remain: pods go where the fewest GPUs are left over."""

import random

import pytest
from pack_gpus import PackGpus

from scheduler.plugin import (
    ConfigError,
)
from scheduler.testing import Cluster, Manifest, node, pod

GPU = "nvidia.com/gpu"


def gpus(name: str, count: int) -> Manifest:
    return node(name, allocatable={GPU: count, "cpu": "64"})


def asking(name: str, count: int, node: str = "") -> Manifest:
    return pod(name, node=node, requests={GPU: count, "cpu": "1"})


@pytest.fixture
def packing(cluster: Cluster) -> Cluster:
    cluster.enable(PackGpus, weight=20)
    return cluster


def test_the_smallest_hole_that_fits_is_filled(packing: Cluster) -> None:
    packing.add(gpus("eight", 8), gpus("four", 4), gpus("three", 3))
    packing.add(asking("running", 1, node="four"))

    packing.schedule(asking("two", 2)).must_land_on("four", "three")
    packing.schedule(asking("three", 3)).must_land_on("four", "three")
    packing.schedule(asking("all", 8)).must_land_on("eight")


def test_pods_without_gpus_keep_away_from_free_ones(packing: Cluster) -> None:
    packing.add(gpus("free", 8), gpus("taken", 2), asking("running", 2, node="taken"))

    packing.schedule(pod("web", requests={"cpu": "1"})).must_land_on("taken")


def test_where_there_are_no_gpus_it_has_no_say(packing: Cluster) -> None:
    packing.add(node("a"), node("b"), pod("running", node="a", requests={"cpu": "3"}))

    packing.schedule(pod("web", requests={"cpu": "1"})).must_land_on("b")


def test_more_than_the_largest_hole_is_no_better(cluster: Cluster) -> None:
    cluster.enable(PackGpus, args={"largestHole": 2})
    cluster.add(gpus("a", 4), gpus("b", 8))

    decision = cluster.schedule(asking("p", 1))

    scores = [found.scores["PackGpus"].normalized for found in decision.answer.nodes]
    assert scores == [0, 0]


def test_a_hole_of_nothing_is_refused(cluster: Cluster) -> None:
    cluster.enable(PackGpus, args={"largestHole": 0})

    with pytest.raises(ConfigError, match=r"args.largestHole: expected 1 or more, got 0"):
        cluster.add(node("a"))


def test_big_pods_fit_after_a_day_of_small_ones(packing: Cluster) -> None:
    """What the scores of whole columns come to: whole nodes stay free, whoever comes and goes."""
    packing.add(*(gpus(f"n{i}", 8) for i in range(10)))
    chance = random.Random(1)
    for i in range(60):
        packing.schedule(asking(f"small-{i}", chance.choice((1, 1, 2, 4))))
        if i >= 10:
            packing.delete(f"small-{i - 10}")

    for i in range(6):
        decision = packing.schedule(asking(f"big-{i}", 8))
        assert decision.node, decision.explain()
