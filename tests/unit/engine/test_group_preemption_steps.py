"""Victims of a large group are searched in several steps: what may happen between them.

Here a step is one unit of work, where a real one is thousands. What happens, happens before each of
the steps, in a history of its own.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typing_extensions import override

from scheduler.kernel.engine.events import Decide, Event, ObjectGone, ObjectSet
from scheduler.kernel.engine.group_members import UNITS
from scheduler.kernel.engine.instructions import Evict, Instruction
from scheduler.testing.validation import validate_engine
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.test_group_preemption import Preempting
from tests.unit.engine.test_group_preemption_law import Watched


class Stepping(Preempting):
    """A step is one unit."""

    def __init__(self, room: int, **fields: Any) -> None:
        super().__init__(room, **fields)
        self.engine.scheduler.group_cycle.step.units = 1

    def lose(self, number: int) -> None:
        """A member is gone."""
        self.gone(make_pod_info(f"g{number}"))

    @property
    def is_under_way(self) -> bool:
        return bool(self.engine.scheduler.group_cycle.members)

    def at_last(self) -> None:
        """Victims leave as they are asked to, and time passes: all that can be bound is."""
        left: set[str] = set()
        for _ in range(20):
            self.run()
            for name in set(self.evicted()) - left:
                left.add(name)
                self.handle(ObjectGone("pods", "default", name, name))
            self.tick(10.0)
        validate_engine(self.engine)


def interrupted(
    make: Callable[[], Stepping], happens: Callable[[Stepping], object]
) -> Iterator[Stepping]:
    """Something happens before each step after the first, each time in a world of its own.

    It happens before the victims are known; the group is decided then.
    """
    count = 1
    while True:
        driven = make()
        for _ in range(count):
            driven.handle(Decide())
        if driven.evicted() or not driven.is_under_way:
            break
        happens(driven)
        while driven.is_under_way:
            driven.handle(Decide())
        yield driven
        count += 1
    assert count > 6


def full(*, nodes: tuple[str, ...] = ("n",), room: int = 3, least: int | None = 3) -> Stepping:
    """Nodes full of less important pods, and a gang that needs all of a node."""
    driven = Stepping(room, nodes=nodes)
    for node in nodes:
        for number in range(room):
            driven.runs(f"{node}{number}", node)
    driven.group(least=least, priority=10)
    driven.members(room * len(nodes))
    return driven


def gone(name: str) -> Event:
    return ObjectGone("pods", "default", name, name)


def test_the_search_takes_several_steps() -> None:
    """No other pod is decided between, and the victims leave at the end."""
    driven = full()
    steps = 0
    while not driven.evicted():
        driven.handle(Decide())
        steps += 1

    driven.at_last()

    assert steps > 8
    assert driven.evicted() == ["n0", "n1", "n2"]
    assert driven.bound() == ["g0", "g1", "g2"]


def test_victims_that_vanish_are_not_evicted() -> None:
    """What is left of them makes room."""
    for driven in interrupted(full, lambda driven: driven.handle(gone("n1"))):
        first = driven.evicted()
        driven.at_last()

        assert first == ["n0"]
        assert sorted({"n1", *driven.evicted()}) == ["n0", "n1", "n2"]
        assert driven.bound() == ["g0", "g1", "g2"]


def test_no_pod_leaves_when_the_room_goes() -> None:
    """Half of the places go with a node; the group fits nowhere, until there is another."""
    for driven in interrupted(
        lambda: full(nodes=("n", "m"), room=2, least=4),
        lambda driven: driven.handle(ObjectGone("nodes", "", "m", "uid-m")),
    ):
        driven.at_last()
        before = driven.evicted()
        driven.handle(ObjectSet("nodes", make_node("other")))
        driven.at_last()

        assert before == []
        assert len(driven.bound()) == 4


def test_no_pod_leaves_for_a_group_that_has_lost_a_member() -> None:
    """It is too small by then, until another one comes."""
    for driven in interrupted(full, lambda driven: driven.lose(2)):
        driven.at_last()
        before = driven.evicted()
        driven.add("g3", group="g")
        driven.at_last()

        assert before == []
        assert sorted(driven.bound()) == ["g0", "g1", "g3"]


def test_members_that_are_left_get_their_room() -> None:
    """Two are enough."""
    for driven in interrupted(lambda: full(least=2), lambda driven: driven.lose(2)):
        driven.at_last()

        assert driven.bound() == ["g0", "g1"]


def test_no_pod_leaves_when_room_comes() -> None:
    """Another node has enough of it."""
    for driven in interrupted(
        full, lambda driven: driven.handle(ObjectSet("nodes", make_node("other")))
    ):
        driven.at_last()

        assert driven.evicted() == []
        assert len(driven.bound()) == 3


@pytest.mark.parametrize("node", ["n", "m"])
def test_a_group_is_tried_again_if_others_take_the_room(node: str) -> None:
    """Pods of another scheduler, more important ones; no event is to come that wakes the group."""

    def make() -> Stepping:
        driven = full(nodes=("n", "m"))
        for number in range(3, 6):
            driven.lose(number)
        return driven

    def happens(driven: Stepping) -> None:
        for number in range(3):
            driven.runs(f"x{number}", node, priority=100)

    for driven in interrupted(make, happens):
        driven.at_last()

        assert len(driven.bound()) == 3
        assert len(driven.evicted()) == 3


def test_no_pod_leaves_for_a_group_that_is_deleted() -> None:
    """Its pods wait for another one."""
    for driven in interrupted(
        full, lambda driven: driven.handle(ObjectGone("podgroups", "default", "g", "uid-of-g"))
    ):
        driven.at_last()

        assert driven.evicted() == []
        assert driven.used == 3


def test_a_change_that_does_not_matter_changes_nothing() -> None:
    """A pod is gone on a node that is full still; the victims are those that were found.

    They leave at the end of the attempt, which need not be repeated.
    """

    def make() -> Stepping:
        driven = full()
        driven.handle(ObjectSet("nodes", make_node("crowded")))
        for number in range(4):
            driven.runs(f"there{number}", "crowded", priority=100)
        return driven

    for driven in interrupted(make, lambda driven: driven.handle(gone("there0"))):
        first = driven.evicted()
        driven.at_last()

        assert first == ["n0", "n1"]
        assert driven.evicted() == ["n0", "n1", "n2"]
        assert driven.bound() == ["g0", "g1", "g2"]


@pytest.mark.parametrize("least", [None, 3], ids=["basic", "gang"])
@pytest.mark.parametrize("is_group", [False, True], ids=["members", "group"])
def test_no_pod_leaves_for_a_group_that_is_held_while_its_victims_are_checked_again(
    least: int | None, *, is_group: bool
) -> None:
    """A first change leads to the check; during the check the PodGroup or all members go."""

    def crowded() -> Stepping:
        driven = full(least=least)
        driven.handle(ObjectSet("nodes", make_node("crowded")))
        for number in range(4):
            driven.runs(f"there{number}", "crowded", priority=100)
        return driven

    unchanged, steps = crowded(), 0
    while not unchanged.evicted():
        unchanged.handle(Decide())
        steps += 1

    def make() -> Stepping:
        driven = crowded()
        for _ in range(steps - 1):
            driven.handle(Decide())
        driven.handle(gone("there0"))
        return driven

    def happens(driven: Stepping) -> None:
        if is_group:
            driven.handle(ObjectGone("podgroups", "default", "g", "uid-of-g"))
        for number in () if is_group else range(3):
            driven.lose(number)

    for driven in interrupted(make, happens):
        driven.at_last()

        assert driven.evicted() == []
        assert driven.bound() == []


class Told(Watched):
    """Carries out what it is told once the group is through: however many steps that takes."""

    def __init__(self, seed: int, units: int) -> None:
        self._owed: list[Instruction] = []
        self.heard: list[Instruction] = []
        super().__init__(seed)
        self._cycle = self.engine.scheduler.group_cycle
        self._cycle.step.units = units

    @override
    def handle(self, event: Event) -> None:
        told = list(self.engine.handle(event, self.now))
        self.heard += told
        self._owed += told
        if not self.engine.scheduler.group_cycle.members:
            owed, self._owed = self._owed, []
            for each in owed:
                self.carry_out(each)

    def history(self) -> None:
        """Groups and pods come, and are decided."""
        for number in range(8):
            if self.random.random() < 0.6:
                self.add_group(number)
            else:
                self.add_pod(number)
            self.pass_time(self.random.choice((1, 12)))
        validate_engine(self.engine)


@pytest.mark.parametrize("seed", range(1, 4))
def test_steps_change_nothing(seed: int) -> None:
    """A history in which searches take one step, some, or one for each member."""
    worlds = [Told(seed, units) for units in (UNITS * 100, 30, 1)]
    for world in worlds:
        world.history()

    first, *others = [world.heard for world in worlds]
    assert [other == first for other in others] == [True, True]
    assert any(isinstance(each, Evict) for each in first)
