"""The search for changes is made of short steps, whatever the pod demands."""

from itertools import pairwise
from typing import Any

import pytest

from scheduler.api.objects import (
    Affinity,
    Node,
    NodeAffinitySpec,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
)
from scheduler.config.load import default_configuration
from scheduler.kernel.answers import labels
from scheduler.kernel.answers.trials import Trials
from scheduler.kernel.answers.why import changes_in_steps
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import ClusterObjects
from tests.support.builders import make_node, make_pod_info

MANY = 40
SELECTOR = {f"k{i}": "v" for i in range(MANY)}
TERMS = tuple(
    NodeSelectorTerm((NodeSelectorRequirement(f"t{i}", "In", ("v",)),)) for i in range(MANY)
)


def steps_of(counted: list[None], node: Node, **fields: Any) -> list[int]:
    """What each step of the search for a pod's changes adds to what is counted."""
    objects = ClusterObjects()
    objects.nodes = [node]
    objects.pods = [make_pod_info("p", **fields)]
    engine = Profiles(default_configuration("stowage")).load(objects).engine
    framework = engine.core.frameworks["stowage"]
    counts = [len(counted) for _ in changes_in_steps(engine, framework, objects.pods[0])]
    return [after - before for before, after in pairwise([*counts, len(counted)])]


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    made: list[None] = []
    rows = Trials.rows

    def counted(self: Trials, *args: Any, **kwargs: Any) -> Any:
        made.append(None)
        return rows(self, *args, **kwargs)

    monkeypatch.setattr(Trials, "rows", counted)
    return made


@pytest.mark.parametrize(
    ("node", "fields"),
    [
        pytest.param(
            make_node("n"), {"requests": {f"x.io/{i}": 1 for i in range(MANY)}}, id="resources"
        ),
        pytest.param(
            make_node("n", taints=[Taint(f"t{i}", "", "NoSchedule") for i in range(MANY)]),
            {},
            id="taints",
        ),
        pytest.param(make_node("n"), {"node_selector": SELECTOR}, id="labels"),
    ],
)
def test_a_step_makes_few_trials(trials: list[None], node: Node, fields: dict[str, Any]) -> None:
    """The decisions of the daemon wait for one step."""
    steps = steps_of(trials, node, **fields)

    assert len(trials) > MANY
    assert max(steps) <= 4


def test_a_requirement_on_labels_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step checks one; those of the node selector are not checked again for each term."""
    checked: list[None] = []
    satisfied = labels.satisfied

    def counted(*args: Any) -> Any:
        checked.append(None)
        return satisfied(*args)

    monkeypatch.setattr(labels, "satisfied", counted)
    affinity = Affinity(NodeAffinitySpec(NodeSelector(TERMS)))
    steps = steps_of(checked, make_node("n"), node_selector=SELECTOR, affinity=affinity)

    assert len(checked) == 2 * MANY
    assert max(steps) == 1
