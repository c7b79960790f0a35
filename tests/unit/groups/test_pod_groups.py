"""Members of pod groups: which count, when they are woken, and that a fork changes by itself."""

import pytest

from scheduler.api.objects import ObjectMeta
from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import POD_GROUP_KIND, POD_KIND
from scheduler.kernel.groups import GroupMembers, PodGroups
from scheduler.kernel.groups.pod_groups import NO_GROUP, TOO_FEW
from tests.support.builders import make_pod_info


def groups_of(*pods: PodInfo, least: int | None = 2) -> PodGroups:
    """The group `g` with some pods."""
    groups = PodGroups()
    groups.profiles = ("stowage",)
    groups.on_event(POD_GROUP_KIND, None, group(least))
    for pod in pods:
        groups.on_event(POD_KIND, None, pod)
    return groups


def group(least: int | None = 2) -> PodGroup:
    return PodGroup(ObjectMeta(name="g", namespace="default"), least)


def known(groups: PodGroups) -> GroupMembers:
    found = groups.of("default", "g")
    assert found is not None
    return found


WAITING = make_pod_info("waiting", group="g")
RUNNING = make_pod_info("running", group="g", node_name="n")
OF_OTHERS = make_pod_info("others", group="g", scheduler_name="other")
RUNNING_OF_OTHERS = make_pod_info("others", group="g", scheduler_name="other", node_name="n")


@pytest.mark.parametrize(
    ("pods", "count"),
    [
        pytest.param((), 0, id="none"),
        pytest.param((WAITING,), 1, id="waiting"),
        pytest.param((WAITING, RUNNING), 2, id="running"),
        pytest.param((OF_OTHERS,), 0, id="another scheduler is to place it"),
        pytest.param((RUNNING_OF_OTHERS,), 1, id="another scheduler has placed it"),
        pytest.param((OF_OTHERS, RUNNING_OF_OTHERS), 1, id="it was just placed"),
        pytest.param((make_pod_info("single"),), 0, id="no member"),
    ],
)
def test_who_counts(pods: tuple[PodInfo, ...], count: int) -> None:
    """Pods with a node, and pods that are ours."""
    assert known(groups_of(*pods)).known(("stowage",)) == count


def test_reserved_pods_have_a_place_until_they_are_unreserved_or_bound() -> None:
    """They are counted once, whichever way they go."""
    groups = groups_of(WAITING, RUNNING)
    members = known(groups)
    before = members.scheduled, members.waiting, members.has_quorum()

    groups.reserve(WAITING.on_node("n"), "n")
    reserved = members.scheduled, members.waiting, members.has_quorum()
    groups.unreserve(WAITING.on_node("n"), "n")
    given_back = members.scheduled
    groups.reserve(WAITING.on_node("n"), "n")
    groups.on_event(POD_KIND, WAITING, WAITING.on_node("n"))

    assert before == (1, [WAITING.uid], False)
    assert reserved == (2, [], True)
    assert given_back == 1
    assert (members.scheduled, members.waiting, set(members.assumed)) == (2, [], set())


def test_what_holds_members() -> None:
    """No group, then too few pods; a basic group holds none."""
    groups = PodGroups()
    groups.profiles = ("stowage",)
    groups.on_event(POD_KIND, None, WAITING)
    told = [groups.why_held("default", "g")]

    for least in (2, None):
        groups.on_event(POD_GROUP_KIND, None, group(least))
        told.append(groups.why_held("default", "g"))

    assert told == [NO_GROUP.format("g"), TOO_FEW, ""]


def test_members_are_woken_when_what_holds_them_changes() -> None:
    """Not by each pod that comes, and not by a change that says the same."""
    groups = PodGroups()
    groups.profiles = ("stowage",)
    woken = []
    for event in (
        (POD_KIND, None, WAITING),
        (POD_GROUP_KIND, None, group(3)),
        (POD_KIND, None, make_pod_info("second", group="g")),
        (POD_GROUP_KIND, group(3), group(3)),
        (POD_KIND, None, make_pod_info("third", group="g")),
        (POD_KIND, None, make_pod_info("fourth", group="g")),
        (POD_GROUP_KIND, group(3), group(2)),
    ):
        groups.on_event(*event)
        woken.append([(len(pods), is_held) for _, pods, is_held in groups.take_released()])

    assert woken == [[(1, True)], [(1, True)], [], [], [(3, False)], [], [(4, False)]]


def test_a_group_goes_with_the_last_of_its_pods_and_its_object() -> None:
    """Nothing is kept of it."""
    groups = groups_of(WAITING)

    groups.on_event(POD_GROUP_KIND, group(), None)
    still = groups.of("default", "g") is not None
    groups.on_event(POD_KIND, WAITING, None)

    assert still
    assert groups.of("default", "g") is None
    assert list(groups.take_released()) == []


@pytest.mark.parametrize("name", ["other", ""])
def test_a_pod_is_a_member_of_one_group(name: str) -> None:
    """A label or an annotation may move it to another group, or to none."""
    groups = groups_of(WAITING, RUNNING)
    groups.reserve(WAITING.on_node("n"), "n")

    for pod in (WAITING, RUNNING):
        groups.on_event(POD_KIND, pod, make_pod_info(pod.name, group=name, node_name=pod.node_name))
    other = groups.of("default", name)

    assert (known(groups).known(("stowage",)), known(groups).scheduled) == (0, 0)
    assert (0 if other is None else other.known(("stowage",))) == (2 if name else 0)
    groups.on_event(POD_GROUP_KIND, group(), None)
    assert groups.of("default", "g") is None


@pytest.mark.parametrize("end", ["bound", "unreserved", "gone", "moved back"])
def test_a_pod_that_moves_while_it_is_reserved_keeps_its_place(end: str) -> None:
    """It counts in its new group, until it is bound, gives up the place, or is gone."""
    groups = groups_of(WAITING, least=1)
    groups.reserve(WAITING, "n")
    moved = make_pod_info("waiting", group="other")

    groups.on_event(POD_KIND, WAITING, moved)
    there = groups.of("default", "other")
    assert there is not None
    counts = known(groups).scheduled, there.scheduled
    if end == "bound":
        groups.on_event(POD_KIND, moved, make_pod_info("waiting", group="other", node_name="n"))
    elif end == "unreserved":
        # The attempt knows the pod as it was when it began.
        groups.unreserve(WAITING, "n")
    elif end == "gone":
        groups.on_event(POD_KIND, moved, None)
    else:
        groups.on_event(POD_KIND, moved, WAITING)
    there = groups.of("default", "other")

    assert counts == (0, 1)
    assert known(groups).scheduled == (end == "moved back")
    assert (there.scheduled if there is not None else 0) == (end == "bound")
    groups.unreserve(WAITING, "n")
    assert known(groups).scheduled == 0


def test_a_fork_changes_by_itself() -> None:
    """What is tried on it is not seen outside, nor what happens outside in it."""
    groups = groups_of(WAITING, RUNNING)
    new = make_pod_info("new", group="other")

    fork = groups.fork()
    second = fork.fork()
    fork.reserve(WAITING.on_node("n"), "n")
    groups.on_event(POD_KIND, RUNNING, None)
    groups.on_event(POD_KIND, None, new)
    second.on_event(POD_KIND, WAITING, None)
    second.on_event(POD_KIND, RUNNING, None)
    second.on_event(POD_GROUP_KIND, group(), None)

    assert (known(groups).scheduled, known(fork).scheduled) == (0, 2)
    assert [each.of("default", "other") is not None for each in (groups, fork)] == [True, False]
    assert second.of("default", "g") is None
    assert known(fork).pending.keys() == known(groups).pending.keys() == {WAITING.uid}


def test_a_fork_shares_what_does_not_change() -> None:
    """Of many groups only the one is copied to which something happens, on either side."""
    groups = groups_of(WAITING)
    groups.on_event(POD_KIND, None, make_pod_info("another", group="other"))
    other = groups.of("default", "other")

    fork = groups.fork()
    before = known(fork) is known(groups)
    groups.reserve(WAITING.on_node("n"), "n")
    changed = known(groups)
    groups.unreserve(WAITING.on_node("n"), "n")

    assert before
    assert fork.of("default", "other") is other is groups.of("default", "other")
    assert known(groups) is changed is not known(fork)
