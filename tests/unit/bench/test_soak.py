"""What a soak has shown is judged rightly."""

from dataclasses import replace

import pytest

from bench.soak import Sample, verdicts
from bench.stalls import Stall

STEADY = [
    Sample(
        seconds=5.0 * number,
        resident_mib=100.0,
        files=20,
        tasks=60,
        waiting=3,
        owed=10,
        stall=Stall(5.0, ""),
        kept=Stall(0.0, ""),
        made=200 * number,
    )
    for number in range(40)
]


def broken(samples: list[Sample]) -> list[str]:
    return [each.question for each in verdicts(samples, 40) if not each.holds]


def test_what_stays_as_it_is_holds() -> None:
    assert broken(STEADY) == []


@pytest.mark.parametrize(
    ("field", "per_sample", "question"),
    [
        pytest.param("resident_mib", 1, "memory is flat", id="memory"),
        pytest.param("waiting", 20, "no backlog of pods that wait grows", id="waiting pods"),
        pytest.param("owed", 20, "no backlog of writes owed grows", id="writes"),
        pytest.param("tasks", 5, "tasks are bounded", id="tasks"),
        pytest.param("files", 5, "files are bounded", id="files"),
    ],
)
def test_what_grows_is_told(field: str, per_sample: int, question: str) -> None:
    growing = [
        replace(each, **{field: getattr(each, field) + number * per_sample})
        for number, each in enumerate(STEADY)
    ]

    assert broken(growing) == [question]


def test_a_stall_is_told() -> None:
    """One is enough; during the warm-up none counts."""
    late, early = list(STEADY), list(STEADY)
    late[30] = early[2] = replace(STEADY[0], stall=Stall(250.0, "ticks"))

    assert (broken(late), broken(early)) == (["no long stall"], [])


def test_what_the_machine_did_is_told_and_not_held_against_the_daemon() -> None:
    """Others had the processor for a quarter of a second."""
    late = list(STEADY)
    late[30] = replace(STEADY[0], kept=Stall(250.0, "not_running"))

    [stalls] = [each for each in verdicts(late, 40) if each.question == "no long stall"]
    assert stalls.holds
    assert stalls.answer == "none over 5 ms; kept from running for 250 ms at most"


def test_a_load_that_was_none_proves_nothing() -> None:
    """An API server that is too slow makes everything look flat."""
    idle = [replace(each, made=each.made // 2) for each in STEADY]

    assert broken(idle) == ["the load is what was asked for"]
