"""Recorded clusters get the answers kube-scheduler 1.36.3 gave.

The recordings are made by `python -m tests.parity.record`; no Go is needed to replay them.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from tests.parity.answering import Answerer, pipelined, running, stowage_command
from tests.parity.choices import choice_differences
from tests.parity.compare import compare
from tests.parity.generator.families import FAMILIES, FLAGS
from tests.parity.generator.worked import WORKED
from tests.parity.record import CASES, WORKED_OUT, recorded_cases

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def stowage() -> Iterator[Callable[..., Answerer]]:
    """Give one `stowage explain --jsonl` for all families with the same flags."""
    with ExitStack() as stack:
        yield cache(lambda *flags: stack.enter_context(running(stowage_command(*flags))))


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_clusters_get_the_same_answers(
    family: str, stowage: Callable[..., Answerer]
) -> None:
    """Every verdict, score, total and message of the family's recorded cases is the same."""
    recorded = list(recorded_cases(family))
    questions = ({k: c[k] for k in ("config", "objects") if k in c} for c in recorded)

    answers = list(pipelined(stowage(*FLAGS.get(family, ())), questions))
    differences = [
        f"{family}:{case['seed']} {difference}"
        for case, answer in zip(recorded, answers, strict=True)
        for difference in compare(case["answer"], answer, case["objects"])
    ]

    assert len(recorded) == CASES
    assert differences == []


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "extenders"])
def test_the_daemons_own_choice_has_the_highest_total(family: str) -> None:
    """It takes short cuts that `explain` does not take: totals that it keeps, scores it skips."""
    found, remembered = [], 0
    for case in recorded_cases(family):
        differences, used = choice_differences(case, case["answer"], FLAGS.get(family, ()))
        found += [f"{family}:{case['seed']} {difference}" for difference in differences]
        remembered += used

    assert found == []
    assert remembered > CASES


def test_clusters_made_by_hand_get_the_same_answers(stowage: Callable[..., Answerer]) -> None:
    """Each tells a rule of device allocation from its likely misreadings."""
    recorded = list(recorded_cases(WORKED_OUT))
    questions = ({"objects": case["objects"]} for case in recorded)

    answers = list(pipelined(stowage(), questions))
    differences = [
        f"{case['seed']} {difference}"
        for case, answer in zip(recorded, answers, strict=True)
        for difference in compare(case["answer"], answer, case["objects"])
    ]

    assert [case["seed"] for case in recorded] == [make.__name__ for make in WORKED]
    assert differences == []
