"""Expressions about devices: recorded ones get the verdicts of kube-scheduler's evaluator."""

from collections import Counter

import pytest

from tests.parity.expressions import differences, own_answer
from tests.parity.generator.expressions import DEVICES, make_question
from tests.parity.record import EXPRESSION_CASES, EXPRESSIONS, recorded_cases


@pytest.mark.parity
def test_recorded_expressions_get_the_same_verdicts() -> None:
    """Refused or not, and for each device true, false or an error."""
    cases = list(recorded_cases(EXPRESSIONS))

    found = [
        f"{case['seed']}: {case['expression']}: {difference}"
        for case in cases
        for difference in differences(case, own_answer(case))
    ]

    assert len(cases) == EXPRESSION_CASES
    assert found == []


@pytest.mark.parity
def test_recorded_expressions_meet_every_verdict() -> None:
    """A recording in which all expressions failed would prove nothing."""
    counts = Counter(
        "error" if "error" in verdict else str(verdict["match"])
        for case in recorded_cases(EXPRESSIONS)
        for verdict in case["verdicts"]
    )

    assert (
        min(counts[kind] for kind in ("True", "False", "error")) > DEVICES * EXPRESSION_CASES // 20
    )


def test_a_seed_asks_the_same_question_again() -> None:
    assert make_question(7) == make_question(7)
    assert make_question(7) != make_question(8)


def test_differences_are_seen() -> None:
    theirs = {"verdicts": [{"match": True}, {"match": False, "error": "no such key: a"}]}

    assert differences(theirs, theirs) == []
    assert differences({"refused": "x", "verdicts": []}, theirs) == [
        "refused: expected 'x', got None"
    ]
    assert differences(theirs, {"verdicts": [{"match": False}, {"match": False}]}) == [
        "device 0: expected True, got False",
        "device 1: expected error 'no such key: a', got False",
    ]
