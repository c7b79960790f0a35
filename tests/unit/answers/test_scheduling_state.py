"""Where a member of a pod group stands: what only the engine that decides knows."""

from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.scheduling_state import scheduling_state_of
from scheduler.kernel.answers.waiting_model import GroupStanding
from tests.unit.engine.gangs import NO_GROUP, Gangs, HoldsOne


def standing(driven: Gangs, pod: PodInfo) -> GroupStanding | None:
    return scheduling_state_of(pod, driven.engine, str, leading=True).group


def test_a_pod_that_is_being_deleted_gets_no_node() -> None:
    """A finalizer may keep it; it is this scheduler's, and its turn came and went."""
    driven = Gangs(0)
    going = driven.add("p", deletion_timestamp="2026-01-01T00:00:00Z")
    before = scheduling_state_of(going, driven.engine, str, leading=True)
    driven.run()
    after = scheduling_state_of(going, driven.engine, str, leading=True)

    assert (before.place, after.place) == ("terminating", "terminating")


def test_a_pod_that_waits_alone_has_no_group() -> None:
    """Nor has one whose group is not scheduled as such."""
    driven = Gangs(0)
    pod = driven.add("p")
    driven.run()

    assert standing(driven, pod) is None


def test_it_says_what_a_held_group_lacks() -> None:
    """The object, or pods."""
    driven = Gangs(3)
    pods = driven.members(2)

    without = standing(driven, pods[0])
    driven.group()
    with_group = standing(driven, pods[0])

    assert without == GroupStanding("default/g", NO_GROUP)
    assert with_group == GroupStanding("default/g", "2 of at least 3 pods are there", 3)


def test_it_says_how_many_of_how_many_fit() -> None:
    """And why the first of the others does not."""
    driven = Gangs(2)
    driven.group()
    pods = driven.members(3)

    driven.run()
    found = standing(driven, pods[0])

    assert found is not None
    lacking = driven.message(pods[2])
    text = f"2 of 3 fit; the first of the others: {lacking}"
    assert found == GroupStanding("default/g", text, 3, tried=3, placed=2, lacking=lacking)


def test_a_member_on_its_way_is_one_of_its_group_still() -> None:
    """A Permit plugin holds one; another is being bound."""
    driven = Gangs(2, HoldsOne("g0"))
    driven.group(least=2)
    pods = driven.members(2)
    driven.run()

    found = [scheduling_state_of(pod, driven.engine, str, leading=True) for pod in pods]

    assert [each.place for each in found] == ["held", "binding"]
    assert [each.group and each.group.text for each in found] == ["2 of 2 fit", "2 of 2 fit"]


def test_a_member_with_a_node_says_whether_its_gang_is_whole() -> None:
    """It is not, once a member is gone, and for as long as no other one has its place."""
    driven = Gangs(2)
    driven.group(least=2)
    pods = driven.members(2)
    driven.run()
    for pod in pods:
        driven.confirm(pod)
    left = driven.engine.core.cache.pods.get(pods[1].uid)
    assert left is not None
    whole = standing(driven, left)
    driven.gone(pods[0])
    partial = standing(driven, left)
    driven.add("gated", group="g", gates=["later"])
    waiting = standing(driven, left)

    texts = [None if each is None else each.text for each in (whole, partial, waiting)]
    assert texts == [
        "it is whole: 2 members have a node, at least 2 are needed",
        "it is not whole: 1 member has a node, at least 2 are needed",
        "it is not whole: 1 member has a node, at least 2 are needed; 1 more waits",
    ]
