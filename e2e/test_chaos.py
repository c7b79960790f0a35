"""Promise: whatever goes wrong, no pod is lost, bound twice, or put where there is no room.

The short form of ``make chaos``: few faults, one seed, no table. How long recovery takes is for
machines that have nothing else to do, and not judged here; that it comes is.
"""

import pytest

from e2e.chaos.faults import (
    ApiServerKilled,
    CutMidLine,
    EtcdRestored,
    LeaderKilled,
    LostAnswer,
    PodsRecreated,
    TooMany,
)
from e2e.chaos.harness import IN_TIME, Harness
from e2e.chaos.world import Size

FAULTS = (
    ApiServerKilled,
    CutMidLine,
    EtcdRestored,
    LeaderKilled,
    LostAnswer,
    PodsRecreated,
    TooMany,
)


# Servers die under the connections of the load as well, and asyncio may leave one that was just
# being made unclosed. What daemons leave open is among the promises.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore:.*socket:pytest.PytestUnraisableExceptionWarning")
def test_no_promise_is_broken_whatever_goes_wrong() -> None:
    """Two replicas under load; each of these faults once."""
    report = Harness(seed=7, faults=FAULTS, size=Size(6, 80)).run(combine=False)

    assert [each for each in report.violations if each.promise != IN_TIME] == []
    assert report.lost == 0
    assert len(report.injections) == len(FAULTS)
    assert report.bindings > 50
    assert report.whole_gangs > 5
