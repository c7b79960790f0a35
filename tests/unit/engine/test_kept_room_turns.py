"""Turns for kept room that are not taken: others must have theirs all the same."""

import pytest

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.events import Decide, ObjectSet
from tests.support.builders import make_node
from tests.unit.engine.test_gang_histories import gang
from tests.unit.engine.test_kept_room import AFTER, SLACK, TimedCluster, labelled


def full_cluster(*places: int) -> TimedCluster:
    """All places but one are taken for longer than a test takes."""
    cluster = TimedCluster(*places)
    for _ in range(sum(places) - 1):
        cluster.run(9000)
    cluster.pass_seconds(2)
    return cluster


def big(cluster: TimedCluster, cpu: str = "2", **fields: object) -> PodInfo:
    """A pod that needs several places on a node; it is decided about."""
    pod = cluster.run(None, requests={"cpu": cpu}, **fields)
    cluster.pass_seconds(1)
    return pod


def kept_for(cluster: TimedCluster) -> list[str]:
    """The pods that room is kept for."""
    return [] if cluster.room is None else [*cluster.room.places]


@pytest.mark.parametrize("how", ["deleted", "relabelled"])
@pytest.mark.parametrize("which", [0, 1])
def test_an_equal_pod_has_the_turn_of_one_that_waits_no_more(which: int, how: str) -> None:
    """One was tried for both of them, and no event wakes the other."""
    cluster = full_cluster(2)
    pods = [big(cluster), big(cluster)]
    cluster.pass_seconds(AFTER - 5)

    gone = pods.pop(which)
    if how == "deleted":
        cluster.end(gone.uid)
    else:
        cluster.pods[gone.uid] = labelled(gone, "")
        cluster.handle(ObjectSet("pods", cluster.pods[gone.uid]))
    cluster.pass_seconds(SLACK)

    assert kept_for(cluster) == [pods[0].uid]


def test_another_pod_has_the_turn_of_one_that_was_deleted_while_an_equal_one_runs() -> None:
    """What is known of equal pods lives as long as one of them."""
    cluster = full_cluster(4)
    cluster.end("single-1")
    cluster.end("single-2")
    running = big(cluster)
    first, second = big(cluster), big(cluster, "3")
    assert cluster.is_running(running)
    cluster.pass_seconds(AFTER - 5)

    cluster.end(first.uid)
    cluster.pass_seconds(SLACK)

    assert kept_for(cluster) == [second.uid]


def test_another_pod_has_the_turn_of_one_that_no_node_can_hold_any_more() -> None:
    """It waits for a node with its label, and no node gets it."""
    cluster = full_cluster(2)
    allocatable = {"cpu": "2"}
    node = make_node("n0", labels={"zone": "a"}, allocatable=allocatable)
    cluster.handle(ObjectSet("nodes", node))
    big(cluster, node_selector={"zone": "a"})
    second = big(cluster)
    cluster.pass_seconds(AFTER - 5)

    cluster.handle(ObjectSet("nodes", make_node("n0", allocatable=allocatable)))
    cluster.pass_seconds(AFTER + SLACK)

    assert kept_for(cluster) == [second.uid]


def test_another_has_the_turn_of_a_gang_that_lacks_members() -> None:
    """The missing one never comes."""
    cluster = full_cluster(2, 2)
    cluster.start_gang("a", 4)
    cluster.pass_seconds(2)
    second = big(cluster)
    cluster.pass_seconds(AFTER - 5)

    cluster.end(next(uid for uid in cluster.pods if uid.startswith("a-")))
    cluster.pass_seconds(SLACK)

    assert kept_for(cluster) == [second.uid]


def test_a_gang_has_its_turn_though_its_first_member_is_gated() -> None:
    """No controller opens the gate, and the others are enough."""
    cluster = full_cluster(2, 2)
    cluster.groups["a"] = gang("a", 4)
    cluster.handle(ObjectSet("podgroups", cluster.groups["a"]))
    cluster.add("a", gates=["closed"])
    for _ in range(4):
        cluster.add("a", preemption_policy="Never")
    cluster.pass_seconds(AFTER + SLACK)

    assert cluster.room is not None
    assert len(cluster.room.places) == 4


def test_a_gang_keeps_its_turn_while_a_member_is_replaced() -> None:
    """A controller makes another one within seconds."""
    cluster = full_cluster(2, 2)
    cluster.start_gang("a", 4)
    cluster.pass_seconds(2)
    big(cluster)
    cluster.pass_seconds(AFTER - 10)

    cluster.end(next(uid for uid in cluster.pods if uid.startswith("a-")))
    cluster.pass_seconds(3)
    cluster.add("a", preemption_policy="Never")
    cluster.pass_seconds(SLACK)

    assert cluster.room is not None
    assert cluster.room.name == "pod group default/a"


@pytest.mark.parametrize("is_gang", [False, True], ids=["a pod", "a gang"])
def test_room_is_kept_again_if_the_binding_that_it_was_for_fails(*, is_gang: bool) -> None:
    """After the time that each waits: one whose binding always fails keeps others from no turn."""
    cluster = full_cluster(2)
    if is_gang:
        cluster.start_gang("a", 2)
    else:
        big(cluster)
    cluster.pass_seconds(AFTER + 5)
    waiting = sorted(kept_for(cluster))
    cluster.end("single-1")
    cluster.pass_until_ready()
    while cluster.engine.has_ready:
        cluster.handle(Decide())

    while cluster.under_way:
        cluster.answer(is_bound=False)
    cluster.run(9000)
    cluster.pass_seconds(5)
    before = cluster.room
    cluster.pass_seconds(AFTER + SLACK)

    assert len(waiting) == 1 + is_gang
    assert before is None
    assert sorted(kept_for(cluster)) == waiting
