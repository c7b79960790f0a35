"""All pods of a group are bound, or none."""

from typing import Any

import pytest
from together import GROUP, SIZE, Groups, Together

from scheduler.testing import Cluster, Manifest, node, pod


def member(name: str, *, size: str = "3", **options: Any) -> Manifest:
    return pod(name, labels={GROUP: "g", SIZE: size}, requests={"cpu": "1"}, **options)


@pytest.fixture
def together(cluster: Cluster) -> Cluster:
    """A node with room for three pods of a core."""
    cluster.enable(Together, args={"patienceSeconds": 30})
    cluster.add(node("n", allocatable={"cpu": "3"}))
    return cluster


def bound(cluster: Cluster, *names: str) -> set[str]:
    """Which of the pods are on a node, and not held there."""
    placed = {name for name in names if cluster.node_of(name)}
    return {name for name in placed if f"default/{name}" not in cluster.held}


def test_a_complete_group_is_bound(together: Cluster) -> None:
    together.schedule(member("a")).must_be_held(by="Together")
    together.schedule(member("b")).must_be_held(by="Together")

    together.schedule(member("c")).must_land_on("n")

    assert bound(together, "a", "b", "c") == {"a", "b", "c"}


def test_pods_without_a_group_do_not_wait(together: Cluster) -> None:
    together.schedule(pod("alone")).must_land_on("n")


def test_groups_of_one_name_in_two_namespaces_are_two(together: Cluster) -> None:
    together.schedule(member("a", size="2"))

    together.schedule(member("b", size="2", namespace="other")).must_be_held(by="Together")


def test_an_incomplete_group_gives_everything_back(together: Cluster) -> None:
    """All of it when the patience of the first pod ends, and the room is others'."""
    together.schedule(member("a"))
    together.advance(10)
    together.schedule(member("b"))
    together.add(pod("big", requests={"cpu": "3"}))
    together.schedule("big").must_wait(because="Insufficient cpu")

    together.advance(21)

    assert together.held == {}
    assert bound(together, "a", "b", "big") == {"big"}


def test_a_group_that_was_given_back_is_tried_again_when_it_grows(together: Cluster) -> None:
    together.add(member("a"), member("b"))
    together.advance(60)
    assert together.held == {}

    together.schedule(member("c"))
    together.advance(15)

    assert bound(together, "a", "b", "c") == {"a", "b", "c"}


def test_a_group_waits_for_room(together: Cluster) -> None:
    """The last pod finds none at first; when there is some, the others come along."""
    together.add(pod("resident", node="n", requests={"cpu": "1"}))
    together.add(member("a"), member("b"), member("c"))
    together.advance(60)
    assert bound(together, "a", "b", "c") == set()

    together.delete("resident")
    together.advance(60)

    assert bound(together, "a", "b", "c") == {"a", "b", "c"}


def test_a_member_that_is_deleted_takes_the_others_along(together: Cluster) -> None:
    together.schedule(member("a"))
    together.schedule(member("b"))

    together.delete("a")

    assert together.held == {}
    assert together.node_of("b") == ""


def test_a_member_that_is_evicted_takes_the_others_along(together: Cluster) -> None:
    together.schedule(member("a"))
    together.schedule(member("b"))

    together.schedule(pod("vip", requests={"cpu": "3"}, priority=9)).must_land_on("n")

    assert bound(together, "a", "b") == set()


def test_preemption_takes_others_where_it_can(together: Cluster) -> None:
    """A group that runs keeps its pods, though they are less important."""
    together.add(member("a", size="2", node="n"), member("b", size="2", node="n"))
    together.add(pod("alone", node="n", requests={"cpu": "1"}, priority=5))

    decision = together.schedule(pod("vip", requests={"cpu": "1"}, priority=9))

    assert decision.victims == ("default/alone",)


def test_a_refused_binding_is_made_up_for(together: Cluster) -> None:
    """The others are bound; the one that was refused comes after."""
    together.schedule(member("a", size="2"))
    with together.bindings_refused():
        together.schedule(member("b", size="2"))
    assert bound(together, "a", "b") == set()

    together.advance(30)

    assert bound(together, "a", "b") == {"a", "b"}


def test_a_scheduler_that_takes_over_counts_who_runs(together: Cluster) -> None:
    together.add(member("a", node="n"), member("b", node="n"))

    together.schedule(member("c")).must_land_on("n")


@pytest.mark.parametrize("size", ["0", "some", "", "-1"])
def test_a_size_that_is_no_number(together: Cluster, size: str) -> None:
    together.schedule(member("a", size=size)).must_wait(because=f"label {SIZE} must be a number")


def test_what_is_kept_goes_with_the_pods(together: Cluster) -> None:
    together.schedule(member("a"))
    groups = together.shared(Groups)
    fork = groups.fork()

    together.delete("a")

    assert len(groups._groups) == 0
    [group] = fork._groups
    assert fork.placed(group) == 1
    assert fork.release(group) == ["default/a"]
