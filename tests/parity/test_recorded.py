"""Recorded clusters get the answers kube-scheduler 1.36.3 gave.

The recordings are made by `python -m tests.parity.record`; no Go is needed to replay them.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from scheduler.tools.cli.explain import explain
from tests.parity import extender
from tests.parity.answering import pipelined, running, stowage_command
from tests.parity.choices import choice_differences
from tests.parity.compare import compare
from tests.parity.generator.families import FAMILIES, FLAGS, make_case
from tests.parity.generator.worked import WORKED
from tests.parity.record import CASES, FEWER, WORKED_OUT, recorded_cases
from tests.parity.run import as_written

pytestmark = pytest.mark.parity


def explained(cases: Iterable[object], *flags: str) -> list[Any]:
    """Answer cases with the command, in this process: one of its own starts for a second."""
    words = ["--jsonl", "-o", "json", *flags]
    with extender.serving() as address:
        lines = b"\n".join(map(msgspec.json.encode, cases))
        lines = lines.replace(extender.PLACE.encode(), address.encode())
        printed = CliRunner().invoke(explain, words, input=lines, catch_exceptions=False)
    output = printed.stdout_bytes.replace(address.encode(), extender.PLACE.encode())
    return [msgspec.json.decode(line) for line in output.splitlines()]


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_clusters_get_the_same_answers(family: str) -> None:
    """Every verdict, score, total and message of the family's recorded cases is the same."""
    recorded = list(recorded_cases(family))
    questions = ({k: c[k] for k in ("config", "objects") if k in c} for c in recorded)

    answers = explained(questions, *FLAGS.get(family, ()))
    differences = [
        f"{family}:{case['seed']} {difference}"
        for case, answer in zip(recorded, answers, strict=True)
        for difference in compare(case["answer"], answer, case["objects"])
    ]

    assert len(recorded) == FEWER.get(family, CASES)
    assert differences == []


@pytest.mark.parametrize("family", ["resources", "inter-pod", "spread", "volumes", "odd"])
def test_objects_as_people_write_them_get_the_same_answers(family: str) -> None:
    """What an API server fills in is filled in where objects come from files."""
    recorded = list(recorded_cases(family))
    written = [as_written(make_case(family, case["seed"])) for case in recorded]

    answers = explained(written)
    differences = [
        f"{family}:{case['seed']} {difference}"
        for case, answer in zip(recorded, answers, strict=True)
        for difference in compare(case["answer"], answer, case["objects"])
    ]

    assert differences == []


@pytest.mark.parametrize("family", [name for name in FAMILIES if "extenders" not in name])
def test_the_daemons_own_choice_has_the_highest_total(family: str) -> None:
    """It takes short cuts that `explain` does not take: totals that it keeps, scores it skips."""
    found, remembered = [], 0
    for case in recorded_cases(family):
        if case["answer"].get("error"):
            continue  # a configuration that is refused
        differences, used = choice_differences(case, case["answer"], FLAGS.get(family, ()))
        found += [f"{family}:{case['seed']} {difference}" for difference in differences]
        remembered += used

    assert found == []
    assert remembered > CASES


def test_clusters_made_by_hand_get_the_same_answers() -> None:
    """Each tells a rule of device allocation from its likely misreadings; a process answers."""
    recorded = list(recorded_cases(WORKED_OUT))
    questions = ({"objects": case["objects"]} for case in recorded)

    with running(stowage_command()) as stowage:
        answers = list(pipelined(stowage, questions))
    differences = [
        f"{case['seed']} {difference}"
        for case, answer in zip(recorded, answers, strict=True)
        for difference in compare(case["answer"], answer, case["objects"])
    ]

    assert [case["seed"] for case in recorded] == [make.__name__ for make in WORKED]
    assert differences == []
