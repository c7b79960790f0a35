"""Sampling: recorded searches go as in kube-scheduler, and differences are seen."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.parity.record import SAMPLING, SAMPLING_CASES, recorded_cases
from tests.parity.sampling import differences, is_sample, make_sampling_case


@pytest.mark.parity
def test_recorded_searches_end_at_the_same_nodes() -> None:
    """The order of nodes, the number of those that fit, the next start and the choice agree."""
    cases = list(recorded_cases(SAMPLING))

    found = [f"{case['seed']} {difference}" for case in cases for difference in differences(case)]

    assert len(cases) == SAMPLING_CASES
    assert found == []


def test_recorded_searches_are_samples_and_others() -> None:
    """Some stop early, some start elsewhere than the first, some find nothing."""
    cases = list(recorded_cases(SAMPLING))
    attempts = [attempt for case in cases for attempt in case["attempts"]]

    assert any(is_sample(attempt, case) for case in cases for attempt in case["attempts"])
    assert len({attempt["next"] for attempt in attempts}) > 5
    assert any(not attempt["host"] for attempt in attempts)


def test_a_seed_makes_the_same_search_again() -> None:
    """The case of a seed is always the same, and that of another seed is not."""
    assert make_sampling_case(7) == make_sampling_case(7)
    assert make_sampling_case(7) != make_sampling_case(8)


@pytest.mark.parametrize(
    "perturb",
    [
        pytest.param(lambda case: case["order"].reverse(), id="order"),
        pytest.param(lambda case: case["attempts"][0].update(next=-1), id="next start"),
        pytest.param(lambda case: case["attempts"][0].update(feasible=-1), id="feasible"),
        pytest.param(lambda case: case["attempts"][0].update(host="other"), id="choice"),
        pytest.param(lambda case: case["attempts"][0].update(error="failed"), id="error"),
    ],
)
def test_a_change_is_reported(perturb: Callable[[Any], object]) -> None:
    """Each part of the answer is compared."""
    case = next(recorded_cases(SAMPLING))
    perturb(case)

    assert list(differences(case))
