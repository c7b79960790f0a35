"""Rows that offer and hold the same are judged once, whatever happens in between."""

from typing import Any

import pytest

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.events import Bound, Decide, ObjectGone, ObjectSet
from scheduler.kernel.engine.instructions import Bind
from scheduler.kernel.framework.runtime.pod_class import RowAnswers
from scheduler.kernel.plugins.node_resources_fit import NodeResourcesFit
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.twins import PROFILE, build, configuration

NODES = 16
"""Enough that a few changed rows are not looked at with all others."""
ROOM = {"cpu": 2, "memory": "4Gi", "pods": 110}


class World:
    """An engine with equal nodes, whose pods come one by one.

    Attributes:
        judged: how often the filter of resources was asked so far.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.judged = 0
        original = NodeResourcesFit.filter

        def counted(*args: Any) -> Any:
            self.judged += 1
            return original(*args)

        monkeypatch.setattr(NodeResourcesFit, "filter", counted)
        self.engine = build(configuration())
        for number in range(NODES):
            self.tell(ObjectSet("nodes", make_node(f"n{number}", allocatable=ROOM)))

    def tell(self, event: Any) -> list[Any]:
        return list(self.engine.handle(event, 0.0))

    def place(self, name: str, **fields: Any) -> PodInfo:
        """A pod comes, and is bound."""
        told = {"scheduler_name": PROFILE, "requests": {"cpu": "100m"}, **fields}
        self.tell(ObjectSet("pods", make_pod_info(name, **told)))
        [bind] = [each for each in self.tell(Decide()) if isinstance(each, Bind)]
        self.tell(Bound(bind.attempt))
        pod = make_pod_info(name, node_name=bind.node, **told)
        self.tell(ObjectSet("pods", pod))
        return pod

    def place_on_all(self, name: str) -> list[PodInfo]:
        """A pod for each node: they are spread, as the emptiest node is the best."""
        pods = [self.place(f"{name}-{number}") for number in range(NODES)]
        assert len({pod.node_name for pod in pods}) == NODES
        return pods


def test_what_a_row_holds_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pod judges all rows, the second one the row with a pod; others find that known."""
    world = World(monkeypatch)

    world.place_on_all("a")
    of_first_round = world.judged
    world.place_on_all("b")

    assert of_first_round == 2
    assert world.judged == 3


def test_a_row_that_holds_again_what_it_held_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods that go leave rows as they were."""
    world = World(monkeypatch)
    pods = world.place_on_all("a")
    world.place_on_all("b")
    judged = world.judged

    for pod in pods[:2]:
        world.tell(ObjectGone("pods", pod.namespace, pod.name, pod.uid))
    again = [world.place(f"c-{number}").node_name for number in range(2)]

    assert sorted(again) == sorted(pod.node_name for pod in pods[:2])
    assert world.judged == judged


def test_a_resource_that_is_offered_makes_all_be_judged_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Columns have other places then."""
    world = World(monkeypatch)
    world.place_on_all("a")
    judged = world.judged

    offering = make_node("n0", allocatable={**ROOM, "example.com/gpu": 1})
    world.tell(ObjectSet("nodes", offering))
    world.place_on_all("b")

    # What changed at first, two pods on the node that offers more, and two pods on any other.
    assert world.judged == judged + 3


def test_amounts_that_floats_do_not_hold_are_not_taken_for_equal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node with a byte less than another one is full before it."""
    world = World(monkeypatch)
    for number in range(NODES):
        world.tell(ObjectGone("nodes", "", f"n{number}", ""))
    for name, memory in (("more", 2**60 + 1), ("less", 2**60)):
        room = {**ROOM, "memory": str(memory)}
        world.tell(ObjectSet("nodes", make_node(name, allocatable=room)))

    world.place("small-1", requests={"memory": "1"})
    world.place("small-2", requests={"memory": "1"})
    large = world.place("large", requests={"memory": str(2**60)})

    assert large.node_name == "more"


def test_answers_are_of_one_layout_and_bounded() -> None:
    """Those of another one, and the oldest ones, go."""
    layout, other = object(), object()
    answers = RowAnswers()
    feasible = (1, 0, 1.0)
    contents = [(b"", b"", b"", 110.0, float(count)) for count in range(3000)]
    keys = [(feasible, content) for content in contents]

    for key in keys:
        answers.put(layout, [key], [feasible])

    assert answers.get(layout, keys[-1]) == feasible
    assert answers.get(layout, keys[0]) is None
    assert answers.get(other, keys[-1]) is None
    answers.put(other, keys[:1], [feasible])
    assert answers.get(layout, keys[-1]) is None
