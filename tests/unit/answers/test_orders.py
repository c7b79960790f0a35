"""In which orders what happened around a binding may have come to its maker."""

from random import Random

from scheduler.kernel.answers.orders import PodChange, ways
from tests.support.builders import make_pod_info

MOST = 120
"""Ways in which one binding may be looked at."""


def binding(
    number: int, since: float, until: float, *, node: str = "a", is_gone: bool = False
) -> PodChange:
    pod = make_pod_info(f"p{number}", uid=f"u{number}").on_node(node)
    before, after = (pod, None) if is_gone else (None, pod)
    return PodChange(number, pod, before, after, since, until, (0, since))


def test_pods_whose_times_do_not_overlap_came_in_their_order() -> None:
    """Nothing is tried that is known to be otherwise."""
    before, own, after = binding(1, 0.0, 1.0), binding(2, 2.0, 3.0), binding(3, 4.0, 5.0)

    found = list(ways(own, [before, own, after]))

    assert found == [frozenset({1})]


def test_a_pod_that_may_have_come_before_or_after_is_tried_both_ways() -> None:
    """First as it appeared."""
    own, other = binding(1, 0.0, 3.0), binding(2, 1.0, 4.0)

    found = list(ways(own, [own, other]))

    assert found == [frozenset(), frozenset({2})]


def test_however_much_happens_the_ways_are_bounded() -> None:
    """No way is tried twice, and each holds whatever is sure to have happened before."""
    draw = Random(1)
    changes = [
        binding(number, draw.uniform(0.0, 5.0), 5.0 + number / 1000, is_gone=number % 7 == 0)
        for number in range(1000)
    ]
    sure = [binding(-1, -9.0, -8.0), binding(-2, -9.0, -8.5)]

    found = list(ways(changes[500], [*sure, *changes]))

    assert len(set(found)) == len(found) <= MOST
    assert all({-1, -2} <= counted for counted in found)
    assert {frozenset(range(500)) | {-1, -2}} <= set(found)
