"""A large pod group takes several steps: what happens between them, and that steps change nothing.

Here a step is one member, where a real one is hundreds.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.events import Decide, Event, ObjectGone, ObjectSet
from scheduler.kernel.engine.group_members import UNITS
from scheduler.kernel.engine.instructions import Bind, Evict, LogError
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.status import Status, unschedulable
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.gangs import LET_DOWN, NO_GROUP, TOO_FEW, Breaks, Gangs, HoldsOne
from tests.unit.engine.test_pod_groups_law import World

GROUP_FAILS: Final = ("False", "Unschedulable", "pod group is unschedulable")


class Stepping(Gangs):
    """A step is about one member."""

    def __init__(self, *given: Any, **fields: Any) -> None:
        super().__init__(*given, **fields)
        self.engine.scheduler.group_cycle.step.units = 1
        self.engine.scheduler.waking.at_once = 1

    def steps(self, count: int) -> None:
        """So many steps after the one that pops the members; the group is still under way."""
        while self.engine.scheduler.waking.asleep:
            self.handle(Decide())
        for _ in range(1 + count):
            self.handle(Decide())
        assert self.engine.has_ready


def under_way(*, room: int = 3, members: int = 4, least: int = 3, steps: int = 2) -> Stepping:
    """A gang of which some members have a place, and one node for all."""
    driven = Stepping(room)
    driven.group(least=least)
    driven.members(members)
    driven.steps(steps)
    return driven


def member(number: int, **fields: Any) -> PodInfo:
    return make_pod_info(f"g{number}", scheduler_name="test", group="g", **fields)


# --- members are woken -------------------------------------------------------------------------


def test_no_pod_is_popped_before_all_members_are_awake() -> None:
    """The group is whole when its turn comes."""
    driven = Stepping(3)
    single = driven.add("single", priority=9)
    driven.members(3)
    driven.group()
    waking = [driven.stage(pod) for pod in (member(0), member(1), member(2))]

    driven.handle(Decide())
    driven.handle(Decide())
    awake = [driven.stage(pod) for pod in (member(0), member(1), member(2))]
    untouched = driven.stage(single)
    driven.run()

    assert (waking, awake, untouched) == (["active", "gated", "gated"], ["active"] * 3, "active")
    assert driven.bound()[0] == "single"


def test_members_still_asleep_are_held_again() -> None:
    """The object is gone before all are awake: none is tried, and all are when it is back."""
    driven = Stepping(3)
    driven.members(3)
    group = driven.group()

    driven.handle(ObjectGone("podgroups", "default", "g", group.uid))
    driven.run()
    held = [driven.held(member(number)) for number in range(3)]
    driven.group(uid="another")
    driven.tick(2.0)
    driven.run()

    assert held == [NO_GROUP] * 3
    assert driven.bound() == ["g0", "g1", "g2"]


def test_a_member_that_is_gone_is_not_woken() -> None:
    """Nor does it keep the others asleep."""
    driven = Stepping(3)
    driven.members(4)
    driven.group(least=2)

    driven.gone(member(2))
    driven.run()

    assert driven.bound() == ["g0", "g1", "g3"]


# --- nodes change for ever -----------------------------------------------------------------------


@pytest.mark.parametrize(("long", "least", "most"), [(0, 3, 6), (100 * UNITS, 20, 400)])
def test_a_large_gang_waits_its_back_off_out_while_nodes_change_for_ever(
    long: int, least: int, most: int
) -> None:
    """Something happens in each of its attempts. Others have their turns between them.

    The attempts of a small one delay no other pod, so one may follow each node that comes.
    """
    driven = Gangs(1, nodes=("a",))
    step = driven.engine.scheduler.group_cycle.step
    step.units, step.long = 1, long
    driven.group(least=4)
    driven.members(6)
    for second in range(15):
        single = driven.add(f"single-{second}")
        for _ in range(20):
            for event in (
                ObjectSet("nodes", make_node("b")),
                ObjectGone("nodes", "", "b", "b"),
            ):
                driven.handle(event)
                if driven.engine.has_ready:
                    driven.handle(Decide())
        assert driven.node_of(single)
        driven.gone(single)
        driven.tick(1.0)
    place = driven.engine.core.queue.place_of(member(0).uid)
    assert place is not None

    assert least <= place.queued.attempts <= most


def test_short_attempts_of_a_gang_do_not_add_up_to_a_long_one() -> None:
    """Each node that comes is followed by an attempt at once, however many there were before."""
    driven = Gangs(1, nodes=("a",))
    driven.engine.scheduler.group_cycle.step.long = 3 * UNITS
    driven.group(least=4)
    driven.members(4)
    driven.run()

    for _ in range(9):
        driven.handle(ObjectSet("nodes", make_node("b")))
        driven.run()
        driven.handle(ObjectGone("nodes", "", "b", "b"))

    place = driven.engine.core.queue.place_of(member(0).uid)
    assert place is not None
    assert (place.name, place.queued.attempts) == ("unschedulable", 10)


# --- nothing happens between -------------------------------------------------------------------


def test_members_have_their_places_until_the_last_is_decided() -> None:
    """Then they go on, one in a step; nothing is bound before."""
    driven = under_way(room=4, members=4, steps=3)
    stages = [driven.stage(member(number)) for number in range(4)]
    before = driven.bound()

    driven.run()

    assert (stages, before) == (["reserved"] * 3 + ["popped"], [])
    assert driven.bound() == ["g0", "g1", "g2", "g3"]
    assert driven.conditions() == [("True", "Scheduled", "")]


def test_each_step_says_which_group_it_is_about() -> None:
    """If it takes long, that pod goes last, and its group with it."""
    driven = under_way()

    assert driven.engine.scheduler.decided == member(0).uid


def test_no_other_pod_is_decided_between() -> None:
    """It was there before the last members had their places, and finds none left."""
    driven = under_way(room=3, members=3, steps=1)
    single = driven.add("single", priority=9)

    driven.run()

    assert driven.bound() == ["g0", "g1", "g2"]
    assert driven.stage(single) == "unschedulable"


class Told(World):
    """Draws nothing for a step: histories are the same, however many steps groups take."""

    def __init__(self, seed: int, units: int) -> None:
        super().__init__(seed)
        scheduler = self.driven.engine.scheduler
        scheduler.group_cycle.step.units = scheduler.waking.at_once = units

    def _decide(self) -> None:
        self.driven.run()


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_steps_change_nothing(seed: int) -> None:
    """A history in which groups take one step, some, or one for each member.

    In other histories a pod comes while members are woken, and has its turn before equal ones.
    """
    worlds = [Told(seed, units) for units in (UNITS, 20, 1)]
    for world in worlds:
        world.run()

    first, *others = [world.driven.instructions for world in worlds]
    assert [other == first for other in others] == [True, True]


class Interrupted(World):
    """Anything may happen between two steps."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._cycle = self.driven.engine.scheduler.group_cycle
        self._cycle.step.units = self.driven.engine.scheduler.waking.at_once = 1
        self._is_calm = False
        self._going_on = ""
        """The gang some members of which are bound, while others are to follow."""

    def _decide(self) -> None:
        if self._is_calm:
            super()._decide()
            return
        asked = {each.attempt for each in self.driven.all(Bind)}
        is_binding = any(each.id in asked for each in self._cycle.members)
        self._going_on = self._cycle.members[0].pod.group_name if is_binding else ""
        self.driven.handle(Decide(self.draw.choice((1, 64))))

    def _has_changed(self, pod: PodInfo) -> bool:
        """The first one to be bound must make the gang whole; then others may leave."""
        return self._is_calm or pod.group_name == self._going_on

    def run(self) -> None:
        """A hasty history, and then the rest of an ordinary one."""
        for _ in range(120):
            self.draw.choice(
                [self._new_gang, self._new_pod, self._delete_pod, self._new_node, self._answer]
                + [self._decide] * 6
            )()
            self._check()
        self._is_calm = True
        super().run()


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_between_steps_no_gang_waits_in_vain(seed: int) -> None:
    """None is bound by half, and nothing stays taken."""
    world = Interrupted(seed)

    world.run()

    world.check_end()


# --- something happens between ------------------------------------------------------------------


def test_a_member_that_is_gone_before_its_turn_drops_out() -> None:
    """The others are enough."""
    driven = under_way(room=4, members=4, least=3)

    driven.gone(member(3))
    driven.run()

    assert driven.bound() == ["g0", "g1", "g2"]


def test_a_member_that_is_gone_with_its_place_is_missed() -> None:
    """Without it the gang is too small: all is given back, and nothing is bound."""
    driven = under_way(room=3, members=3)

    driven.gone(member(0))
    driven.run()

    assert driven.bound() == []
    assert driven.used == 0
    assert driven.conditions() == [GROUP_FAILS]


def test_a_member_that_is_gone_after_the_gang_was_whole_is_missed() -> None:
    """Permit had been content with the third place."""
    driven = under_way(room=4, members=4, steps=3)

    driven.gone(member(0))
    driven.gone(member(3))
    driven.run()

    assert driven.bound() == []
    assert driven.used == 0


def test_the_room_of_a_member_that_is_gone_is_there_for_the_next() -> None:
    """Four members, three places."""
    driven = under_way(room=3, members=4, steps=1)

    driven.gone(member(0))
    driven.run()

    assert driven.bound() == ["g1", "g2", "g3"]


def test_a_member_that_is_being_deleted_drops_out() -> None:
    """Whether it has a place or not."""
    driven = under_way(room=5, members=5, least=3)

    for number in (0, 4):
        driven.set(member(number, deletion_timestamp="2026-01-01T00:00:00Z"))
    driven.run()

    assert driven.bound() == ["g1", "g2", "g3"]


@pytest.mark.parametrize("number", [0, 3], ids=["placed", "not yet placed"])
def test_a_member_that_another_client_has_bound_counts(number: int) -> None:
    """To the node where it was to go, too."""
    driven = under_way(room=4, members=4, least=4)

    driven.set(member(number, node_name="n"))
    driven.run()

    assert driven.bound() == [f"g{n}" for n in range(4) if n != number]
    assert driven.known().scheduled == 4


def test_room_that_comes_is_there_for_the_members_to_come() -> None:
    """Two places for three members; then there is another node."""
    driven = under_way(room=2, members=3)

    driven.handle(ObjectSet("nodes", make_node("second")))
    driven.run()

    assert [each.node for each in driven.all(Bind)] == ["n", "n", "second"]


def test_members_that_fitted_nowhere_are_woken_by_what_came_between() -> None:
    """The last of three was rejected, then another node comes: no later event tells."""
    driven = under_way(room=2, members=3, least=3, steps=3)

    driven.handle(ObjectSet("nodes", make_node("second")))
    driven.run()

    assert sorted(driven.bound()) == ["g0", "g1", "g2"]


def test_members_that_fitted_nowhere_wait_although_the_cluster_changed_between() -> None:
    """No place was promised to the gang, so what changed has taken none from it."""
    driven = under_way(room=3, members=4, least=4)
    before = driven.engine.core.cluster_version

    driven.handle(ObjectSet("nodes", make_node("n", labels={"disk": "new"})))
    changed = driven.engine.core.cluster_version
    driven.run()

    assert changed != before
    assert [driven.stage(member(number)) for number in range(4)] == ["unschedulable"] * 4


def test_the_node_of_a_member_goes() -> None:
    """Its place is lost, all others are given back, and all go elsewhere."""
    driven = under_way(room=3, members=3)

    driven.handle(ObjectGone("nodes", "", "n", "uid-n"))
    driven.handle(ObjectSet("nodes", make_node("second")))
    driven.run()
    between = driven.bound()
    for _ in range(12):
        driven.tick(1.0)
        driven.run()

    assert between == []
    assert sorted(driven.bound()) == ["g0", "g1", "g2"]
    assert {each.node for each in driven.all(Bind)} == {"second"}


CHANGES: Final[dict[str, Callable[[Stepping], Event]]] = {
    "more are needed": lambda driven: ObjectSet("podgroups", driven.group(least=5)),
    "deleted": lambda driven: ObjectGone("podgroups", "default", "g", "uid-of-g"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_group_changes(change: Callable[[Stepping], Event]) -> None:
    """Nothing is bound that was right before; all waits for what is right now."""
    driven = under_way(room=4, members=4, steps=3)

    driven.handle(change(driven))
    driven.run()
    between = driven.bound(), driven.used
    driven.group(least=2)
    for _ in range(12):
        driven.tick(1.0)
        driven.run()

    assert between == ([], 0)
    assert sorted(driven.bound()) == ["g0", "g1", "g2", "g3"]


def test_fewer_members_are_needed() -> None:
    """Two of three fit. The gang is tried again at once, whole with two."""
    driven = under_way(room=2, members=3, steps=3)

    driven.group(least=2)
    driven.run()

    assert driven.bound() == ["g0", "g1"]


def test_a_member_that_comes_late_is_an_attempt_of_its_own() -> None:
    """The gang runs by then."""
    driven = under_way(room=4, members=3)

    driven.add("late", group="g")
    driven.run()

    assert driven.bound() == ["g0", "g1", "g2", "late"]
    assert driven.known().last is not None
    assert driven.known().last.running == 3


def test_a_restarted_daemon_begins_anew() -> None:
    """Nothing was bound, and nothing is lost: what the first one had assumed went with it."""
    first = under_way(room=3, members=3)
    second = Stepping(3)
    second.group()
    second.members(3)

    second.run()

    assert first.bound() == []
    assert second.bound() == ["g0", "g1", "g2"]


def test_a_member_that_is_gone_while_others_go_on_is_not_bound() -> None:
    """The gang was whole when that was decided: the others are bound."""
    driven = under_way(room=3, members=3, steps=4)
    before = driven.bound()

    driven.gone(member(2))
    driven.run()

    assert before == ["g0"]
    assert driven.bound() == ["g0", "g1"]


def test_a_gang_that_loses_one_while_it_goes_on_holds_no_other_for_it() -> None:
    """Permit would wait for five minutes for a quorum that was there."""
    driven = under_way(room=3, members=3, steps=4)

    driven.gone(member(0))
    driven.run()

    assert driven.bound() == ["g0", "g1", "g2"]
    assert [driven.stage(member(number)) for number in (1, 2)] == ["binding"] * 2


def test_a_plugin_that_holds_a_member_holds_it_all_the_same() -> None:
    """It is asked again when the gang goes on."""
    driven = Stepping(3, HoldsOne("g0"))
    driven.group()
    driven.members(3)

    driven.run()

    assert driven.bound() == ["g1", "g2"]
    assert driven.stage(member(0)) == "held"


class RejectsWhatItHeld(HoldsOne):
    """Asked a second time about its pod, it rejects it."""

    asked = False

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        if pod.name == self._name and self.asked:
            return unschedulable("too late"), 0.0
        self.asked |= pod.name == self._name
        return super().permit(state, pod, node_name)


def test_a_plugin_that_holds_a_member_may_reject_it_when_the_gang_goes_on() -> None:
    """The others are bound without it."""
    driven = Stepping(3, RejectsWhatItHeld("g0"))
    driven.group(least=2)
    driven.members(3)

    driven.run()

    assert driven.bound() == ["g1", "g2"]
    assert driven.stage(member(0)) == "unschedulable"


def test_members_are_given_back_one_in_a_step() -> None:
    """The last first; the room is there for others when all of them are."""
    driven = under_way(room=2, members=3, steps=4)
    stages = [driven.stage(member(number)) for number in range(3)]

    driven.run()

    assert stages == ["reserved", "reserved", "unschedulable"]
    assert driven.used == 0
    assert driven.message(member(0)) == LET_DOWN


def test_an_error_of_one_member_fails_all_of_them() -> None:
    """Those before it had places, those after it were not tried."""
    driven = Stepping(5, Breaks())
    driven.group(least=2)
    driven.add("g0", group="g", priority=3)
    driven.add("broken", group="g", priority=2)
    driven.add("g1", group="g", priority=1)

    driven.run()

    assert driven.used == 0
    assert driven.conditions()[0][1] == "SchedulerError"
    assert "failed to schedule other pod" in driven.message(member(1))


def test_a_pod_is_decided_as_it_is_by_then() -> None:
    """Its labels were changed before its turn."""
    driven = Stepping(3)
    driven.group(least=2)
    driven.members(3)
    driven.steps(1)

    newer = member(2, labels={"new": "yes"})
    driven.set(newer)
    driven.run()

    assert driven.attempt(newer).pod.labels == {"new": "yes"}


def test_victims_leave_only_for_a_gang_that_fits_after_all_steps() -> None:
    """One member is gone before the end: no pod is evicted."""
    driven = Stepping(3)
    driven.group()
    for number in range(3):
        driven.set(make_pod_info(f"low{number}", node_name="n", priority=-5))
    driven.members(3)
    driven.steps(2)

    driven.gone(member(1))
    driven.run()

    assert driven.all(Evict) == []
    assert driven.used == 3


@pytest.mark.parametrize("steps", range(4))
@pytest.mark.parametrize("name", ["other", ""])
def test_a_member_that_moves_to_another_group_is_missed(name: str, steps: int) -> None:
    """Its label names another group by then, or none; it is tried there."""
    driven = Stepping(9)
    driven.group("other", least=1)
    driven.add("other0", group="other")
    driven.run()
    driven.group()
    driven.members(3)
    while driven.engine.scheduler.waking.asleep:
        driven.handle(Decide())
    for _ in range(steps):
        driven.handle(Decide())
    before = driven.bound()

    driven.set(make_pod_info("g1", scheduler_name="test", group=name))
    driven.run()
    after, used = driven.bound(), driven.used
    driven.add("g3", group="g")
    driven.run()

    assert before == ["other0"]
    assert after == ["other0", "g1"]
    assert used == len(after)
    assert driven.bound() == ["other0", "g1", "g0", "g2", "g3"]


@pytest.mark.parametrize("name", ["other", ""])
def test_a_rejected_member_is_tried_in_the_group_to_which_it_moves(name: str) -> None:
    """No other event is about it."""
    driven = Stepping(2)
    driven.group("other", least=1)
    driven.add("other0", group="other")
    driven.group()
    driven.members(3)
    driven.run()

    driven.set(make_pod_info("g1", scheduler_name="test", group=name))
    driven.run()

    assert driven.bound() == ["other0", "g1"]
    assert [driven.held(member(number)) for number in (0, 2)] == [TOO_FEW] * 2


@pytest.mark.parametrize("is_last", [False, True], ids=["one of them", "all of them"])
def test_victims_that_are_gone_before_the_end_are_not_awaited(*, is_last: bool) -> None:
    """They end between the steps, so no later event is about them."""
    driven = Stepping(3)
    driven.group()
    lows = [make_pod_info(f"low{number}", node_name="n", priority=-5) for number in range(3)]
    for low in lows:
        driven.set(low)
    driven.members(3)
    cycle = driven.engine.scheduler.group_cycle
    while not (cycle.members and all(each.preemption for each in cycle.members)):
        driven.handle(Decide())

    ended, left = (lows, []) if is_last else (lows[:1], lows[1:])
    for low in ended:
        driven.gone(low)
    driven.run()
    evicted = {each.name for each in driven.all(Evict)}
    for low in left:
        driven.gone(low)
    for _ in range(3):
        driven.tick(10.0)
        driven.run()

    assert evicted == {low.name for low in left}
    assert sorted(driven.bound()) == ["g0", "g1", "g2"]


@pytest.mark.parametrize("steps", range(9))
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_group_that_may_not_be_tried_takes_no_room(
    change: Callable[[Stepping], Event], steps: int
) -> None:
    """Whenever it changes: no further victim leaves, and no member keeps a nomination."""
    driven = Stepping(3)
    driven.group()
    for number in range(3):
        driven.set(make_pod_info(f"low{number}", node_name="n", priority=-5))
    driven.members(3)
    while driven.engine.scheduler.waking.asleep:
        driven.handle(Decide())
    for _ in range(steps):
        driven.handle(Decide())

    driven.handle(change(driven))
    before = len(driven.all(Evict))
    driven.run()

    nominator = driven.engine.core.queue.nominator
    assert len(driven.all(Evict)) == before
    assert [nominator.nodes.get(member(number).uid) for number in range(3)] == [None] * 3


def test_what_goes_wrong_in_a_step_loses_no_member(
    monkeypatch: pytest.MonkeyPatch, unexpected_errors: list[Exception]
) -> None:
    """A fault of our own between two members: all are given back, and tried again."""
    driven = under_way(room=3, members=3)
    monkeypatch.setattr(driven.engine.core.metrics.pod_groups, "algorithm_duration", None)

    driven.run()
    monkeypatch.undo()
    failed, used = driven.all(LogError), driven.used
    for _ in range(3):
        driven.tick(1.0)
        driven.run()

    assert failed[0].message == "Unexpected error"
    unexpected_errors.clear()
    assert used == 0
    assert sorted(driven.bound()) == ["g0", "g1", "g2"]
