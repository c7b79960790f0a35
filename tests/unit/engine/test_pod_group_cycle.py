"""Pod groups in the engine: placed whole in one step, or given back; each with upstream's words."""

import pytest
from typing_extensions import override

from scheduler.api.objects import ObjectMeta
from scheduler.api.pod_groups import GroupCondition, PodGroup
from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.events import BindFailed, Decide, GroupStatusFailed, ObjectGone
from scheduler.kernel.engine.group_members import GROUP_FAILS
from scheduler.kernel.engine.instructions import PatchGroupStatus
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import PermitPlugin
from scheduler.kernel.framework.status import SUCCESS, Status
from scheduler.kernel.groups import GroupAttempt
from scheduler.kernel.plugins.scheduling_gates import SchedulingGates
from tests.support.builders import make_pod_info
from tests.unit.engine.gangs import (
    LET_DOWN,
    NO_GROUP,
    TOO_FEW,
    Breaks,
    Gangs,
)


class CountsPermits(PermitPlugin):
    """Lets all pods pass."""

    NAME = "CountsPermits"

    def __init__(self) -> None:
        self.asked: list[str] = []

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        self.asked.append(pod.name)
        return SUCCESS, 0.0


# --- held until the group is there --------------------------------------------------------------


def test_a_group_may_come_last() -> None:
    """Its pods are held until then, and are tried at once."""
    driven = Gangs(3)
    pods = driven.members(3)
    held = [driven.held(pod) for pod in pods]

    driven.group()
    driven.run()

    assert held == [NO_GROUP] * 3
    assert driven.bound() == ["g0", "g1", "g2"]


def test_pods_may_come_last() -> None:
    """The one that makes the gang whole wakes the others."""
    driven = Gangs(3)
    driven.group()
    pods = driven.members(2)
    held = [driven.held(pod) for pod in pods]
    driven.run()
    before = driven.bound()

    driven.add("g2", group="g")
    driven.run()

    assert (held, before) == ([TOO_FEW] * 2, [])
    assert driven.bound() == ["g0", "g1", "g2"]


def test_permit_is_asked_once_about_each_member_of_a_group_that_takes_one_step() -> None:
    """No member can have left before all have their places."""
    permits = CountsPermits()
    driven = Gangs(3, permits)
    driven.group()
    driven.members(3)

    driven.run()

    assert driven.bound() == permits.asked == ["g0", "g1", "g2"]


def test_a_group_may_be_deleted_and_come_back_smaller() -> None:
    """What holds its pods follows."""
    driven = Gangs(3)
    group = driven.group()
    [pod] = driven.members(1)

    driven.handle(ObjectGone("podgroups", "default", "g", group.uid))
    without = driven.held(pod)
    driven.group(least=1, uid="another")
    driven.run()

    assert without == NO_GROUP
    assert driven.bound() == ["g0"]


def test_min_count_may_fall() -> None:
    """1.37 lets it change: a gang that was too small is tried."""
    driven = Gangs(3)
    driven.group()
    driven.members(2)

    driven.group(least=2)
    driven.run()

    assert driven.bound() == ["g0", "g1"]


def test_pods_that_run_count_whoever_bound_them() -> None:
    """Two run by another scheduler's doing; the third makes the gang whole."""
    driven = Gangs(3)
    driven.group()
    for name in ("other0", "other1"):
        driven.set(make_pod_info(name, group="g", node_name="n", scheduler_name="another"))
    [pod] = driven.members(1)

    driven.run()

    assert driven.bound() == [pod.name]


def test_a_gang_that_waits_goes_on_when_another_scheduler_binds_a_member() -> None:
    """One place is left, two members need one each; the other one is bound where nothing is free.

    No other event follows: nothing ends, no node changes, and the flush is far away.
    """
    driven = Gangs(1)
    driven.group(least=2)
    driven.members(2)
    driven.run()
    before = driven.bound()

    driven.set(make_pod_info("other", group="g", node_name="elsewhere", scheduler_name="another"))
    driven.tick(11.0)
    driven.run()

    assert (before, len(driven.bound())) == ([], 1)


def test_pods_that_another_scheduler_is_to_place_do_not_count() -> None:
    """Nobody knows whether it will."""
    driven = Gangs(3)
    driven.group()
    driven.set(make_pod_info("other", group="g", scheduler_name="another"))

    pods = driven.members(2)

    assert [driven.held(pod) for pod in pods] == [TOO_FEW] * 2


def test_the_flush_reaches_gated_gangs() -> None:
    """Were an event missed, five minutes would help; a gang that is held still is asked no more."""
    driven = Gangs(3)
    driven.group()
    [pod] = driven.members(1)

    for _ in range(301):
        driven.tick(1.0)
    still = driven.held(pod)
    driven.known().group = PodGroup(ObjectMeta(name="g", namespace="default"), 1)
    for _ in range(301):
        driven.tick(1.0)
    driven.run()

    assert still == TOO_FEW
    assert driven.bound() == ["g0"]


# --- placed together ----------------------------------------------------------------------------


def test_a_gang_is_one_step() -> None:
    """All are bound by the one that was popped; the group says so once."""
    driven = Gangs(3)
    driven.group()
    driven.members(3)

    driven.handle(Decide())

    assert driven.bound() == ["g0", "g1", "g2"]
    assert driven.conditions() == [("True", "Scheduled", "")]
    assert driven.engine.scheduler.scheduled == 3
    assert driven.known().last == GroupAttempt(3, 3, 0, "", is_success=True)


def test_more_than_enough_members_need_not_all_fit() -> None:
    """Three of four are bound; the fourth has its own reason and waits for room."""
    driven = Gangs(3)
    driven.group()
    pods = driven.members(4)

    driven.run()

    assert driven.bound() == ["g0", "g1", "g2"]
    assert driven.message(pods[3]).startswith("0/1 nodes are available")
    assert driven.conditions() == [("True", "Scheduled", "")]
    assert driven.stage(pods[3]) == "unschedulable"


def test_a_gang_that_does_not_fit_is_given_back() -> None:
    """Those that fit say what upstream says; nothing is bound, and nothing stays taken."""
    driven = Gangs(2)
    driven.group()
    pods = driven.members(4)

    driven.run()

    assert driven.bound() == []
    assert driven.used == 0
    assert [driven.message(pod) for pod in pods[:2]] == [LET_DOWN] * 2
    assert all(driven.message(pod).startswith("0/1 nodes") for pod in pods[2:])
    assert driven.conditions() == [("False", "Unschedulable", "pod group is unschedulable")]
    assert [driven.stage(pod) for pod in pods] == ["unschedulable"] * 4


def test_a_gang_that_waits_costs_nothing_and_wakes_with_room() -> None:
    """No attempt between events; then all are tried, although room is there for two of them."""
    driven = Gangs(2)
    driven.group()
    other = make_pod_info("other", node_name="n")
    driven.set(other)
    pods = driven.members(2)
    driven.group(least=2)
    driven.run()
    before = driven.metrics.schedule_attempts["unschedulable", "test"].value
    for _ in range(30):
        driven.tick(1.0)
        driven.run()
    rested = driven.metrics.schedule_attempts["unschedulable", "test"].value

    driven.gone(other)
    driven.tick(11.0)
    driven.run()

    assert rested == before == 2
    assert driven.bound() == [pod.name for pod in pods]


@pytest.mark.parametrize("first", ["a", "b"])
def test_two_gangs_on_too_little_room_do_not_block_each_other(first: str) -> None:
    """One runs whole, the other not at all, whichever came first."""
    driven = Gangs(4)
    second = "b" if first == "a" else "a"
    for name in (first, second):
        driven.group(name)
    for i in range(3):
        for name in (first, second):
            driven.add(f"{name}{i}", group=name)

    driven.run()

    assert driven.bound() == [f"{first}{i}" for i in range(3)]
    assert driven.known(second).scheduled == 0


def test_the_most_important_members_come_first() -> None:
    """Then those that were ready first; of a basic group each counts by itself."""
    driven = Gangs(2)
    driven.group(least=None)
    low, high, middle = (
        driven.add(f"p{priority}", group="g", priority=priority) for priority in (1, 9, 5)
    )

    driven.run()

    assert driven.bound() == [high.name, middle.name]
    assert driven.stage(low) == "unschedulable"
    assert driven.conditions() == [("True", "Scheduled", "")]


def test_a_member_with_a_closed_gate_counts_and_is_not_tried() -> None:
    """The others wait for it; when its gate opens, the gang runs."""
    driven = Gangs(3, SchedulingGates(None, None))
    driven.group()
    pods = driven.members(2)
    driven.add("g2", group="g", gates=["closed"])
    driven.run()
    before = [driven.message(pod) for pod in pods], driven.bound()

    driven.set(make_pod_info("g2", group="g", scheduler_name="test"))
    driven.run()

    assert before == ([LET_DOWN] * 2, [])
    assert sorted(driven.bound()) == ["g0", "g1", "g2"]


# --- later ----------------------------------------------------------------------------------------


def test_a_member_that_cannot_be_bound_is_tried_alone() -> None:
    """Those that run count for it."""
    driven = Gangs(3)
    driven.group()
    pods = driven.members(3)
    driven.run()
    for pod in pods[:2]:
        driven.confirm(pod)

    driven.handle(BindFailed(driven.attempt(pods[2]).id, "no"))
    for _ in range(3):
        driven.tick(1.0)
        driven.run()

    assert driven.bound() == ["g0", "g1", "g2", "g2"]
    assert driven.conditions() == [("True", "Scheduled", "")]


def test_a_restarted_scheduler_completes_a_gang() -> None:
    """Two of four are bound; the others are one attempt."""
    driven = Gangs(4)
    driven.group(least=4)
    for name in ("g0", "g1"):
        driven.set(make_pod_info(name, group="g", node_name="n", scheduler_name="test"))
    driven.add("g2", group="g")
    driven.add("g3", group="g")

    driven.handle(Decide())

    assert driven.bound() == ["g2", "g3"]
    assert driven.known().last == GroupAttempt(2, 2, 2, "", is_success=True)


def test_late_members_join() -> None:
    """The gang runs; one more is a gang of its own that is whole already."""
    driven = Gangs(4)
    driven.group()
    for pod in driven.members(3):
        driven.run()
        if driven.engine.attempts.of(pod.uid) is not None:
            driven.confirm(pod)

    driven.add("late", group="g")
    driven.run()

    assert driven.bound() == ["g0", "g1", "g2", "late"]


def test_a_condition_that_holds_is_not_written_again() -> None:
    """Nor does a late member that fits nowhere take back that the gang was scheduled."""
    driven = Gangs(3)
    driven.group(condition=GroupCondition("PodGroupScheduled", "True", "Scheduled", ""))
    driven.members(4)

    driven.run()

    assert driven.conditions() == []


def test_a_condition_says_which_generation_of_the_group_it_is_about() -> None:
    """It is written again for a changed specification, although nothing else about it changes."""
    driven = Gangs(2)
    shown = GroupCondition("PodGroupScheduled", "False", "Unschedulable", GROUP_FAILS, 1)
    driven.group(generation=1, condition=shown)
    driven.members(3)
    driven.run()

    driven.group(least=4, generation=2, condition=shown)
    driven.add("g3", group="g")
    driven.tick(20.0)
    driven.run()

    [patch] = driven.all(PatchGroupStatus)
    assert (patch.condition.message, patch.condition.observed_generation) == (GROUP_FAILS, 2)


# --- what goes wrong --------------------------------------------------------------------------


@pytest.mark.parametrize("uid", ["uid-of-g", "another"])
def test_a_condition_that_could_not_be_written_is_written_by_the_next_attempt(uid: str) -> None:
    """A failure that is about another group of the same name changes nothing."""
    driven = Gangs(2)
    driven.group()
    driven.members(3)
    driven.run()

    driven.handle(GroupStatusFailed("default", "g", uid))
    driven.handle(GroupStatusFailed("default", "unknown", uid))
    driven.add("g3", group="g")
    driven.tick(2.0)
    driven.run()

    fails = ("False", "Unschedulable", "pod group is unschedulable")
    assert driven.conditions() == [fails] * (2 if uid == "uid-of-g" else 1)


def test_an_error_of_one_member_fails_all() -> None:
    """It says why; the others say that another one failed. All are given back."""
    driven = Gangs(3, Breaks())
    driven.group()
    pods = driven.members(2)
    broken = driven.add("broken", group="g")

    driven.handle(Decide())

    assert "ValueError: no" in driven.message(broken)
    other = f"failed to schedule other pod from a pod group: {driven.message(broken)}"
    assert {driven.message(pod) for pod in pods} == {other}
    assert driven.bound() == []
    assert driven.conditions() == [("False", "SchedulerError", other)]
    assert driven.used == 0


def test_a_member_that_is_being_deleted_drops_out() -> None:
    """It is not tried; the others are."""
    driven = Gangs(3)
    driven.group(least=2)
    driven.members(2)
    driven.add("leaving", group="g", deletion_timestamp="2026-01-01T00:00:00Z")

    driven.handle(Decide())

    assert driven.bound() == ["g0", "g1"]
