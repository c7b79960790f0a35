"""Recorded histories go as with kube-scheduler 1.36.3, and differences are seen.

They are recorded by `python -m tests.parity.record histories`; no Go is needed to replay them.
"""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from tests.parity.generator.histories import make_history_case
from tests.parity.history import compare_histories, lived as lived_through
from tests.parity.history_steps import live_through
from tests.parity.record import (
    ALL_HISTORIES,
    CLAIM_HISTORIES,
    FEWER_HISTORIES,
    GROUP_HISTORIES,
    HISTORIES,
    HISTORY_CASES,
    recorded_cases,
)


@pytest.mark.parity
@pytest.mark.parametrize("kind", ALL_HISTORIES)
def test_recorded_histories_go_the_same(kind: str) -> None:
    """Where each pod waits after each step, and how each attempt ends."""
    recorded = list(recorded_cases(kind))

    differences = [
        f"{case['seed']} {difference}"
        for case in recorded
        for difference in compare_histories(case["history"], lived_through(case, case["seed"]))
    ]

    assert len(recorded) == FEWER_HISTORIES.get(kind, HISTORY_CASES)
    assert differences == []


def test_a_seed_makes_the_same_history_again() -> None:
    """The objects and the steps of a seed are always the same, and those of others are not."""
    case = next(recorded_cases(HISTORIES))
    first = live_through(case, 7, steps=30)

    assert make_history_case(7) == make_history_case(7) != make_history_case(8)
    assert first == live_through(case, 7, steps=30) != live_through(case, 8, steps=30)


@cache
def lived(*fields: str) -> Any:
    """The first recorded history with these fields in its steps, as our engine lives through it."""
    kinds = (HISTORIES, CLAIM_HISTORIES, GROUP_HISTORIES)
    recorded = (case for kind in kinds for case in recorded_cases(kind))
    case = next(each for each in recorded if all(has(each, field) for field in fields))
    return case, lived_through(case, case["seed"])


def has(case: Any, field: str) -> bool:
    """Whether a step of a recorded history has led to something of a kind."""
    return any(step.get(field) for step in case["history"]["steps"])


def pod_in(answer: Any, place: str) -> Any:
    """A pod in this part of the queue, or None."""
    return next((pod for pod in answer["pods"].values() if pod["place"] == place), None)


def planted(kind: str) -> Callable[[Any], bool]:
    """Change one thing of a kind in what a step has led to, if it has such a thing."""

    def change(answer: Any) -> bool:
        tried, waits = answer["tried"], pod_in(answer, "unschedulable")
        backs_off = pod_in(answer, "backoff")
        if kind in ("place", "since", "attempts", "rejections", "unschedulable") and waits:
            waits[kind] = "other"
        elif kind == "until" and backs_off:
            backs_off["until"] += 1
        elif kind in ("pod", "host", "message") and tried and tried.get(kind):
            tried[kind] += "!"
        elif kind == "victims" and tried and tried.get("victims"):
            tried["victims"].pop()
        elif kind == "displaced" and tried:
            tried["displaced"] = ["other"]
        elif kind == "evictions" and answer["evictions"]:
            answer["evictions"].popitem()
        elif kind == "condition" and tried and tried.get("condition"):
            del tried["condition"]
        elif kind == "next" and len(answer["next"]) > 1:
            answer["next"].reverse()
        elif kind in ("nodes", "nominated"):
            answer[kind]["other"] = []
        elif kind == "devices" and answer.get("devices"):
            answer["devices"].pop()
        elif kind == "written" and answer.get("written"):
            answer["written"].popitem()
        else:
            return changed_group(answer, kind)
        return True

    return change


def changed_group(answer: Any, kind: str) -> bool:
    """Change one thing about pod groups, if there is such a thing."""
    tried, gates = answer["tried"], answer.get("gates", {})
    gated = next((name for name, closed in gates.items() if closed), "")
    if kind == "group" and tried and tried.get("group"):
        tried["group"]["reason"] = "other"
    elif kind == "gates" and gated:
        gates[gated] = {"other": []}
    elif kind == "members" and gates:
        del gates[next(iter(gates))]
    elif kind == "groups":
        answer["groups"] = {"default/other": [1, 0]}
    elif kind == "waits in vain":
        answer["placed"] = ["default/other"]
    else:
        return False
    return True


KINDS = ("place", "since", "attempts", "rejections", "unschedulable", "until", "pod", "host")
MORE = ("message", "condition", "next", "nodes", "nominated")
OF_PREEMPTION = ("victims", "evictions", "displaced")
OF_CLAIMS = ("devices", "written")
OF_GROUPS = ("group", "gates", "members", "groups", "waits in vain")


@pytest.mark.parametrize("kind", [*KINDS, *MORE, *OF_PREEMPTION, *OF_CLAIMS, *OF_GROUPS])
def test_a_difference_is_found(kind: str) -> None:
    """Each kind of field that is compared, changed after one step."""
    fields = OF_CLAIMS if kind in OF_CLAIMS else ("gates",) if kind in OF_GROUPS else ("evictions",)
    case, ours = lived(*fields)
    theirs, change = copy.deepcopy(case["history"]), planted(kind)
    number = next(at for at, answer in enumerate(theirs["steps"]) if change(answer))

    found = compare_histories(theirs, ours)

    assert kind in {difference.kind for difference in found}
    assert str(found[0]).startswith(f"step {number} ")


def test_a_history_that_ends_early_is_a_difference() -> None:
    """The judge says why."""
    case, ours = lived()
    theirs = {"steps": case["history"]["steps"][:5], "error": "no"}

    [difference] = compare_histories(theirs, ours)

    assert difference.kind == "error"
