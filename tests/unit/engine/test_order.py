"""The places of attempts in the queue's order, by which the requests of plugins wait."""

from typing import Any

from typing_extensions import override

from scheduler.kernel.engine.events import Decide
from scheduler.kernel.framework.interface import QueueSortPlugin
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.plugins.priority_sort import PrioritySort
from tests.support.fake_plugins import make_framework
from tests.unit.engine.driven import Prepares
from tests.unit.engine.gangs import Gangs


class ByPriority(PrioritySort):
    """As kube-scheduler orders."""

    NAME = "Sort"


class ByName(QueueSortPlugin):
    """The first in the alphabet comes first."""

    NAME = "Sort"

    @override
    def sort_key(self, queued: QueuedPodInfo) -> Any:
        return queued.pod_info.name


def test_members_have_the_place_of_their_first_one() -> None:
    """They leave the queue together, and one whose claims are written late is of use to none."""
    driven = Gangs(9, ByPriority(), Prepares())
    driven.group()
    pods = [driven.add(f"g{n}", group="g", priority=n) for n in (0, 10, 5)]
    alone = driven.add("alone", priority=7)
    later = driven.add("later", priority=11)
    driven.handle(Decide(9))
    driven.run()

    places = [driven.attempt(pod).order for pod in pods]
    assert places[0] == places[1] == places[2]
    assert driven.attempt(later).order < places[0] < driven.attempt(alone).order


def test_places_can_be_compared_although_the_configuration_has_changed() -> None:
    """The keys of the QueueSort plugins before and after it cannot."""
    driven = Gangs(9, ByPriority(), Prepares())
    before = [driven.add(name, priority=priority) for name, priority in (("x", 1), ("y", 2))]
    driven.run()

    driven.engine.core.frameworks = {"test": make_framework(ByName(), Prepares())}
    after = [driven.engine.core.order_of(driven.attempt(pod).queued) for pod in before]

    places = [driven.attempt(pod).order for pod in before] + after
    assert places[1] < places[0]
    assert after[0] < after[1]
    assert len(sorted(set(places))) == 4
