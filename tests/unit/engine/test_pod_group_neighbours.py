"""Pod groups beside other plugins, other profiles, and changes of the group."""

import pytest
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.events import Allowed, Decide, ObjectGone
from scheduler.kernel.engine.group_members import UNITS
from scheduler.kernel.engine.held import WaitingPods
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.status import Status
from tests.support.builders import make_pod_info
from tests.unit.engine.gangs import (
    NO_GROUP,
    Beside,
    Gangs,
    HoldsOne,
)


def test_a_plugin_that_holds_every_member_holds_the_group_back() -> None:
    """No place is ever content: the group fails, as upstream's does."""
    driven = Gangs(3, HoldsOne(""))
    driven.group()
    pods = driven.members(3)

    driven.run()

    assert driven.bound() == []
    assert driven.conditions() == [("False", "Unschedulable", "pod group is unschedulable")]
    asked = "one or more plugins asked to wait and no plugin rejected pod"
    assert driven.message(pods[2]) == f"pod group is unschedulable, {asked}"


def test_a_plugin_that_holds_one_member_holds_it_only() -> None:
    """The group is whole with it; it is bound once it is allowed."""
    driven = Gangs(3, HoldsOne("g0"))
    driven.group()
    pods = driven.members(3)

    driven.run()
    before = driven.bound(), driven.stage(pods[0])
    driven.handle(Allowed(pods[0].uid, "HoldsOne"))

    assert before == (["g1", "g2"], "held")
    assert driven.bound() == ["g1", "g2", "g0"]


class AllowsAtOnce(HoldsOne):
    """Allows or rejects the pod of a name before the engine holds it."""

    def __init__(self, name: str, *, rejects: bool) -> None:
        super().__init__(name)
        self._rejects = rejects
        self.waiting: WaitingPods | None = None

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        if self.waiting is not None and self._rejects:
            self.waiting.reject(pod.uid, self.NAME, "no")
        elif self.waiting is not None:
            self.waiting.allow(pod.uid, self.NAME)
        return super().permit(state, pod, node_name)


@pytest.mark.parametrize("units", [1, UNITS])
@pytest.mark.parametrize(("rejects", "stage"), [(False, "binding"), (True, "unschedulable")])
def test_what_a_plugin_says_of_its_pod_before_it_is_held_counts(
    rejects: bool, stage: str, units: int
) -> None:
    """As for a single pod, however many steps the group takes."""
    plugin = AllowsAtOnce("g0", rejects=rejects)
    driven = Gangs(3, plugin)
    driven.engine.scheduler.group_cycle.step.units = units
    plugin.waiting = driven.engine.core.waiting
    driven.group()
    pods = driven.members(3)

    driven.run()
    driven.settle()

    assert driven.stage(pods[0]) == stage
    assert sorted(driven.bound()) == ["g0", "g1", "g2"][rejects:]


def test_a_member_may_need_a_more_important_one_beside_it() -> None:
    """Affinity sees the members that were placed before; the other way round none fits."""
    for anchor, follower, bound in ((9, 1, ["anchor", "follower"]), (1, 9, [])):
        driven = Gangs(3, Beside())
        driven.group(least=2)
        driven.add("anchor", group="g", priority=anchor)
        driven.add("follower", group="g", priority=follower)

        driven.run()

        assert driven.bound() == bound


def test_members_wait_when_their_group_is_deleted() -> None:
    """They are tried again when it is back."""
    driven = Gangs(2)
    group = driven.group()
    pods = driven.members(3)
    driven.run()

    driven.handle(ObjectGone("podgroups", "default", "g", group.uid))
    held = [driven.held(pod) for pod in pods]
    driven.group(least=2, uid="another")
    driven.tick(11.0)
    driven.run()

    assert held == [NO_GROUP] * 3
    assert len(driven.bound()) == 2


@pytest.mark.parametrize("deletion", [None, "2026-01-01T00:00:00Z"])
def test_members_of_several_profiles_are_an_error_of_all(deletion: str | None) -> None:
    """One profile decides about a group; a member that is being deleted counts as well."""
    driven = Gangs(3)
    core = driven.engine.core
    core.frameworks = {**core.frameworks, "second": core.frameworks["test"]}
    assert core.groups is not None
    core.groups.profiles = frozenset(core.frameworks)
    driven.group(least=2)
    pods = [
        driven.add("first", group="g"),
        make_pod_info("other", group="g", scheduler_name="second", deletion_timestamp=deletion),
    ]
    driven.set(pods[1])

    driven.handle(Decide())

    told = (
        "all pods in a single pod group should have the same .spec.schedulerName set, got: "
        '"second" and "test"'
    )
    assert [driven.message(pod) for pod in pods] == [told] * 2
    assert driven.conditions() == []
