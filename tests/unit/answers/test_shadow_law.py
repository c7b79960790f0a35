"""An honest scheduler is never called wrong, however busy it is; one that is not is found out."""

from typing import Any

import pytest

from scheduler.answers.bindings import Result
from tests.unit.answers.elsewhere import Burst

HONEST = {Result.AGREED.value, Result.ONLY.value, Result.RACED.value}


@pytest.mark.parametrize(
    ("seed", "happens"),
    [
        pytest.param(1, {}, id="more pods than it can decide about"),
        pytest.param(5, {}, id="and others"),
        pytest.param(3, {"seconds": 3.0}, id="pods one by one"),
        pytest.param(2, {"seconds": 1.0, "binding": 1.5}, id="slow bindings"),
        pytest.param(2, {"seconds": 1.0, "cores": ("2", "4")}, id="full nodes, preemption"),
        pytest.param(4, {"seconds": 1.0, "failing": 0.1}, id="bindings that fail"),
    ],
)
def test_who_decides_as_we_do_is_never_called_wrong(seed: int, happens: dict[str, Any]) -> None:
    """Pods assumed and not yet bound, bindings out of order, pods that come and go meanwhile."""
    burst = Burst(seed, **happens)

    results = burst.run()

    assert results.keys() <= HONEST, burst.shadow.summary(0.0).examples
    assert results["raced"] > 5


def test_nodes_chosen_at_random_are_found_in_a_burst() -> None:
    """Not all: some are as good, or would have been in another order that may have been."""
    burst = Burst(0, seconds=1.0, misplaced=0.15)

    burst.run()

    found = {example.pod for example in burst.shadow.summary(0.0).examples}
    assert len(found & burst.wrong) > 0.75 * len(burst.wrong) > 10
