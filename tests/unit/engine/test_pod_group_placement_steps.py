"""A large group is placed in its rack in several steps: what may happen between them.

Here a step is one unit of work, where a real one is thousands. What happens, happens before each of
the steps until all members have a place, each time in a history of its own.
"""

from collections.abc import Callable, Iterator

import pytest
from typing_extensions import override

from scheduler.kernel.engine import pod_group_placements
from scheduler.kernel.engine.events import Decide, ObjectGone, Tick
from scheduler.kernel.engine.group_members import UNITS
from scheduler.kernel.engine.pod_group_placements import PodGroupPlacements
from scheduler.testing.validation import validate_engine
from tests.support.builders import make_pod_info
from tests.unit.engine.test_pod_group_placements import Racks, world


@pytest.fixture(params=[True, False], ids=["by columns", "by trials"])
def _by_both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What columns tell, trials find out."""
    if not request.param:
        monkeypatch.setattr(PodGroupPlacements, "_exact", lambda *_: None)


class Stepping(Racks):
    """A step is one unit, and time may pass."""

    def __init__(self, *racks: str) -> None:
        super().__init__(*racks)
        self.now = 0.0
        self.engine.scheduler.group_cycle.step.units = 1

    @override
    def handle(self, event: object) -> None:
        self.told += self.engine.handle(event, getattr(self, "now", 0.0))

    @property
    def is_decided(self) -> bool:
        """Whether all members have a place."""
        return all(each.placed for each in self.engine.scheduler.group_cycle.members)

    def at_last(self) -> None:
        """All that is ready is decided, and what backs off as well."""
        for _ in range(6):
            self.run()
            self.now += 10.0
            self.handle(Tick())
        self.run()

    def first_node(self) -> str:
        """A node of the rack that is chosen, as far as that is known."""
        members = self.engine.scheduler.group_cycle.members
        placed = [each.pod.node_name for each in members if each.placed]
        return placed[0] if placed else "n0"

    def node_goes(self, name: str) -> None:
        """A node is gone."""
        self.handle(ObjectGone("nodes", "", name, f"uid-{name}"))

    def member_goes(self, number: int) -> None:
        """A member is gone."""
        name = f"g-{number}"
        self.handle(ObjectGone("pods", "default", name, make_pod_info(name).uid))


def interrupted(
    happens: Callable[[Stepping], object], *racks: str, members: int = 6, least: int | None = None
) -> Iterator[Stepping]:
    """Worlds in which something has happened before one of the steps; the group is not decided."""
    count = 1
    while True:
        driven = Stepping(*racks)
        driven.gang("g", members, least)
        for _ in range(count):
            driven.handle(Decide())
        if driven.is_decided:
            break
        happens(driven)
        validate_engine(driven.engine)
        yield driven
        count += 1
    assert count > 3


ONE_AND_TWO = ("small", "large", "large")
TWO_AND_TWO = ("a", "a", "b", "b")

pytestmark = pytest.mark.usefixtures("_by_both_ways")


def test_a_node_of_the_rack_goes() -> None:
    """What is left is too small, until there is another one."""
    for driven in interrupted(lambda driven: driven.node_goes("n1"), *ONE_AND_TWO):
        driven.at_last()
        before = driven.bound("g")
        driven.node("other", "large")
        driven.at_last()

        assert before == 0
        assert driven.racks("g") == {"large"}
        assert driven.bound("g") == 6


def test_a_node_of_the_rack_goes_and_another_rack_is_large_enough() -> None:
    """No event is to come that could wake the group: it is tried again by itself."""
    for driven in interrupted(lambda driven: driven.node_goes(driven.first_node()), *TWO_AND_TWO):
        driven.at_last()

        assert driven.bound("g") == 6
        assert len(driven.racks("g")) == 1


def test_room_of_the_rack_is_taken_and_another_rack_is_large_enough() -> None:
    """Another scheduler is faster."""
    for driven in interrupted(
        lambda driven: driven.pod("x", cpu="4", node_name=driven.first_node()),
        *TWO_AND_TWO,
    ):
        driven.at_last()

        assert driven.bound("g") == 6
        assert len(driven.racks("g")) == 1


def test_a_node_moves_to_another_rack() -> None:
    """With the members that have a place there; they are never in two racks."""
    for driven in interrupted(lambda driven: driven.node("n1", "small"), *ONE_AND_TWO):
        driven.at_last()

        assert driven.racks("g") == {"small"}
        assert driven.bound("g") == 6


def test_the_rack_is_gone() -> None:
    """Its nodes belong to no rack any more."""

    def happens(driven: Stepping) -> None:
        driven.node("n1")
        driven.node("n2")

    for driven in interrupted(happens, *ONE_AND_TWO):
        driven.at_last()
        before = driven.bound("g")
        driven.node("n1", "new")
        driven.node("n2", "new")
        driven.at_last()

        assert before == 0
        assert driven.racks("g") == {"new"}


def test_another_node_gets_the_row_of_one_that_went() -> None:
    """It is of another rack: no member goes there."""

    def happens(driven: Stepping) -> None:
        driven.node_goes("n2")
        driven.node("other", "small")

    for driven in interrupted(happens, *ONE_AND_TWO, members=3):
        driven.at_last()

        assert driven.bound("g") == 3
        assert len(driven.racks("g")) == 1


def test_a_member_goes() -> None:
    """The others are enough."""
    for driven in interrupted(lambda driven: driven.member_goes(5), *ONE_AND_TWO, least=5):
        driven.at_last()

        assert driven.bound("g") == 5
        assert len(driven.racks("g")) == 1


def test_a_member_goes_that_is_needed() -> None:
    """The others wait for another one."""
    for driven in interrupted(lambda driven: driven.member_goes(5), *ONE_AND_TWO):
        driven.at_last()
        before = driven.bound("g")
        driven.pod("g-new", group="g")
        driven.at_last()

        assert before == 0
        assert driven.bound("g") == 6
        assert len(driven.racks("g")) == 1


@pytest.mark.parametrize("seed", range(8))
def test_steps_change_nothing(seed: int) -> None:
    """A history in which groups take one step, some, or one for each member."""
    worlds = [world(seed) for _ in range(3)]
    for racks, units in zip(worlds, (UNITS * 100, 30, 1), strict=True):
        racks.engine.scheduler.group_cycle.step.units = units
        while racks.engine.has_ready:
            racks.handle(Decide())
        validate_engine(racks.engine)

    first, *others = [racks.told for racks in worlds]
    assert [other == first for other in others] == [True, True]


@pytest.mark.parametrize("has_large", [True, False])
def test_very_many_racks_take_several_attempts(
    has_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members differ, so only trials show that two of them fill a node. Others go between them."""
    monkeypatch.setattr(pod_group_placements, "MAX_TRIED", 9)
    driven = Stepping(*(f"r{number}" for number in range(7)))
    if has_large:
        driven.node("large", "r-large", cpu="5")
    driven.gang("g", 0, least=3)
    for number, cpu in enumerate(("1500m", "1600m", "1700m")):
        driven.pod(f"g-{number}", cpu=cpu, group="g")
    driven.run()
    first = driven.bound("g")
    driven.pod("single-0", cpu="100m")
    driven.run()
    between = driven.bound("g"), driven.bound("single")
    driven.at_last()
    driven.at_last()

    assert first == 0
    assert between == (0, 1)
    assert driven.bound("g") == (3 if has_large else 0)
    place = driven.engine.core.queue.place_of(make_pod_info("g-0").uid)
    assert place is not None
    assert place.queued.attempts == 3
    assert not driven.engine.has_ready
