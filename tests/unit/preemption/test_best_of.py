"""The choice among candidates whose victims an extender has chosen."""

import pytest

from scheduler.kernel.framework.results import Candidate
from scheduler.kernel.preemption.candidates import best_of
from tests.support.builders import make_pod_info

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def candidate(node: str, *victims: tuple[int, str], violations: int = 0) -> Candidate:
    pods = tuple(
        make_pod_info(f"{node}{number}", priority=priority, start_time=start, node_name=node)
        for number, (priority, start) in enumerate(victims)
    )
    return Candidate(node, pods, violations)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param(
            candidate("b", (9, EARLY), (9, EARLY)),
            candidate("w", (1, LATE), violations=1),
            id="fewest violations",
        ),
        pytest.param(
            candidate("b", (1, EARLY), (9, EARLY)), candidate("w", (2, LATE)), id="first victim"
        ),
        pytest.param(
            candidate("b", (5, EARLY), (1, EARLY)), candidate("w", (5, LATE), (2, LATE)), id="sum"
        ),
        pytest.param(candidate("b", (5, LATE)), candidate("w", (5, EARLY)), id="latest start"),
        pytest.param(
            candidate("b", (1, EARLY), (5, LATE)),
            candidate("w", (1, LATE), (5, EARLY)),
            id="of the most important ones",
        ),
    ],
)
def test_the_order_of_criteria(better: Candidate, worse: Candidate) -> None:
    """Each counts only where those before it do not tell them apart; then the first one is it."""
    assert best_of([better, worse]) is best_of([worse, better]) is better


def test_equals_and_none() -> None:
    """The first of equals; nothing of nothing."""
    first, second = candidate("a", (1, EARLY)), candidate("b", (1, EARLY))

    assert best_of([first, second]) is first
    assert best_of([]) is None
