"""A gang that failed waits out its back-off, whatever is written to its pods or its PodGroup."""

from collections.abc import Callable
from typing import Final

import pytest

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.events import ObjectGone
from scheduler.kernel.engine.instructions import PatchStatus
from scheduler.kernel.plugins.scheduling_gates import SchedulingGates
from tests.support.builders import make_pod_info
from tests.unit.engine.gangs import Breaks, Gangs

BACK_OFF: Final = 2.0
"""The first back-off of a gang: one second, to the end of the window."""
LONGEST: Final = 11.0


def failed(*, room: int = 3, least: int = 6, members: int = 8, is_long: bool = True) -> Gangs:
    """A gang that failed just now; the attempt took long, or not."""
    driven = Gangs(room)
    if is_long:
        driven.engine.scheduler.group_cycle.step.long = 1
    driven.group(least=least)
    driven.members(members)
    driven.run()
    assert attempts(driven) == 1
    return driven


def attempts(driven: Gangs, name: str = "g0") -> int:
    """The number of attempts of a member."""
    place = driven.engine.core.queue.place_of(f"default/{name}")
    assert place is not None
    return place.queued.attempts


def a_pod_comes_and_goes(driven: Gangs) -> None:
    """One more member."""
    pod = driven.add("more", group="g")
    driven.run()
    driven.gone(pod)


def a_pod_names_its_node(driven: Gangs) -> None:
    """Another member that needs no scheduler."""
    pod = make_pod_info("bound", group="g", node_name="elsewhere")
    driven.set(pod)
    driven.run()
    driven.gone(pod)


def the_group_is_made_anew(driven: Gangs) -> None:
    """The PodGroup goes and comes back."""
    driven.handle(ObjectGone("podgroups", "default", "g", "uid-of-g"))
    driven.run()
    driven.group(least=6)


def a_member_moves(driven: Gangs) -> None:
    """A member leaves the group for one that does not exist, and comes back."""
    for group in ("other", "g"):
        driven.set(make_pod_info("g7", scheduler_name="test", group=group))
        driven.run()


WRITES: Final = (a_pod_comes_and_goes, a_pod_names_its_node, the_group_is_made_anew, a_member_moves)


@pytest.mark.parametrize("write", WRITES, ids=lambda each: each.__name__)
def test_no_write_begins_an_attempt_before_the_back_off_is_over(
    write: Callable[[Gangs], None],
) -> None:
    """A tenant may write as often as it likes."""
    driven = failed()

    for _ in range(5):
        write(driven)
        driven.run()
    during = attempts(driven)
    driven.add("last", group="g")
    driven.tick(LONGEST)
    driven.run()

    assert during == 1
    assert attempts(driven) == attempts(driven, "last") + 1 == 2


def test_members_that_come_one_by_one_do_not_cost_an_attempt_each() -> None:
    """A gang that fits nowhere: pods and conditions are written once for each back-off."""
    driven = failed(room=0, least=2, members=2, is_long=False)

    for number in range(50):
        driven.add(f"more{number}", group="g")
        driven.run()
    written = len(driven.all(PatchStatus))
    driven.tick(BACK_OFF)
    driven.run()

    assert written == 2
    assert len(driven.all(PatchStatus)) == 2 + 52


def test_a_new_member_is_tried_at_once_if_the_gang_lacked_nothing_else() -> None:
    """All members that could be tried had a place."""
    driven = Gangs(3, SchedulingGates(None, None))
    driven.group(least=2)
    driven.members(1)
    driven.add("closed", group="g", gates=["closed"])
    driven.run()

    driven.add("more", group="g")
    driven.run()

    assert driven.bound() == ["g0", "more"]


def test_new_members_do_not_wait_for_others_if_enough_have_nodes() -> None:
    """Nor are those tried again that fit nowhere."""
    driven = Gangs(2, Breaks())
    driven.group(least=None)
    broken = driven.add("broken", group="g")
    driven.run()

    late = driven.add("late", group="g")
    driven.run()

    assert driven.stage(broken) == "backoff"
    assert attempts(driven, "broken") == 1
    assert driven.node_of(late) == "n"


def pending(driven: Gangs) -> list[PodInfo]:
    """The members that wait, oldest first."""
    return list(driven.known().pending.values())


def test_a_standby_does_not_wake_a_gang_at_each_binding_of_its_leader() -> None:
    """None of the members has been tried here."""
    driven = Gangs(9)
    driven.group(least=8)
    driven.members(8)
    assert driven.engine.core.groups is not None

    for pod in pending(driven):
        driven.set(pod.on_node("n"))
        assert not list(driven.engine.core.groups.take_released())
