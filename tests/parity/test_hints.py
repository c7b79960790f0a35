"""Queueing hints: recorded questions get kube-scheduler's answers, and differences are seen."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.parity.hints import FAMILIES, HINTING, Hints, compared, differences, make_questions
from tests.parity.record import HINT_CASES, HINTS, recorded_cases

EXPECTED: Hints = {
    "NodeAdd": {"NodeName": "Queue", "TaintToleration": "QueueSkip"},
    "NodeUpdateNodeTaint": {"TaintToleration": "Queue"},
}


@pytest.mark.parity
def test_recorded_changes_wake_the_same_pods() -> None:
    """Every plugin answers every recorded change as kube-scheduler's own does."""
    cases = list(recorded_cases(HINTS))

    found = [
        f"{case['seed']} question {i}: {difference}"
        for case in cases
        for i, theirs, ours in compared(case)
        if theirs is not None
        for difference in differences(theirs, ours)
    ]

    assert len(cases) == HINT_CASES * len(FAMILIES)
    assert found == []


@pytest.mark.parity
def test_recorded_changes_meet_every_hint() -> None:
    """Each plugin says both, except the one that is always woken."""
    counts = Counter(
        (plugin, hint)
        for case in recorded_cases(HINTS)
        for question in case["questions"]
        for says in (question["hints"] or {}).values()
        for plugin, hint in says.items()
    )

    expected = {(plugin, hint) for plugin in HINTING for hint in ("Queue", "QueueSkip")}
    assert expected - set(counts) == {("NodeName", "QueueSkip")}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_asks_the_same_questions_again(family: str) -> None:
    """The questions of a seed are always the same, and those of another seed are not."""
    assert make_questions(family, 7) == make_questions(family, 7)
    assert make_questions(family, 7) != make_questions(family, 8)


def test_equal_hints_have_no_difference() -> None:
    """Hints do not differ from themselves; plugins that are not in effect do not count."""
    other = {**EXPECTED, "NodeAdd": {**EXPECTED["NodeAdd"], "DefaultPreemption": "Queue"}}

    assert differences(other, EXPECTED) == []


@pytest.mark.parametrize(
    ("perturb", "reported"),
    [
        pytest.param(
            lambda hints: hints["NodeAdd"].update(NodeName="QueueSkip"),
            "NodeAdd NodeName: expected Queue, got QueueSkip",
            id="another hint",
        ),
        pytest.param(
            lambda hints: hints["NodeAdd"].pop("TaintToleration"),
            "NodeAdd TaintToleration: expected QueueSkip, got None",
            id="not registered",
        ),
        pytest.param(
            lambda hints: hints["NodeUpdateNodeTaint"].update(NodePorts="Queue"),
            "NodeUpdateNodeTaint NodePorts: expected None, got Queue",
            id="registered beside the others",
        ),
        pytest.param(
            lambda hints: hints.pop("NodeUpdateNodeTaint"),
            "NodeUpdateNodeTaint: expected {'TaintToleration': 'Queue'}, got None",
            id="event that is missing",
        ),
    ],
)
def test_a_change_is_reported(perturb: Callable[[Hints], object], reported: str) -> None:
    """A hint, a registration or an event that differs is named."""
    other = {event: dict(says) for event, says in EXPECTED.items()}
    perturb(other)

    assert differences(EXPECTED, other) == [reported]
