"""Recorded attempts of single pods and pod groups end as kube-scheduler 1.36.3 ended them.

They are recorded by `python -m tests.parity.record groups groups-asking groups-volumes`; no Go is
needed to replay them.
"""

import copy
from typing import Any

import pytest

from tests.parity.extender import serving
from tests.parity.groups import answer_asking, answer_groups, compare_groups
from tests.parity.record import ALL_GROUPS, CASES, GROUPS, recorded_cases

pytestmark = pytest.mark.parity


@pytest.mark.parametrize("name", ALL_GROUPS)
def test_recorded_attempts_end_the_same(name: str) -> None:
    """Members, hosts, texts, conditions of groups, and what holds the pods that are not tried."""
    gates, _ = ALL_GROUPS[name]
    recorded = list(recorded_cases(name))

    with serving() as extenders:
        differences = [
            f"{name}:{case['seed']} {difference}"
            for case in recorded
            for difference in compare_groups(case["groups"], answer_asking(case, extenders, gates))
        ]

    assert len(recorded) == CASES
    assert differences == []


def told_otherwise(answer: dict[str, Any], kind: str) -> bool:
    """Change one thing in an answer; says whether there was such a thing."""
    for unit in answer["units"]:
        if kind == "condition" and unit["condition"]:
            unit["condition"]["message"] += "!"
            return True
        for pod in unit["pods"]:
            if pod.get(kind):
                pod[kind] += "!"
                return True
    return False


@pytest.mark.parametrize("kind", ["host", "reason", "message", "condition"])
def test_a_difference_is_found(kind: str) -> None:
    """Each kind of field that is compared, changed by a character."""
    for case in recorded_cases(GROUPS):
        theirs = copy.deepcopy(case["groups"])
        if told_otherwise(theirs, kind):
            [difference] = compare_groups(theirs, answer_groups(case))
            assert difference.kind == kind
            return
    pytest.fail(f"no recorded case has a {kind}")
