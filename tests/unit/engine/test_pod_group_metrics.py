"""Attempts of pod groups are counted as kube-scheduler counts them."""

from scheduler.kernel.engine.instructions import Evict
from tests.support.builders import make_pod_info
from tests.unit.engine.gangs import Breaks, Gangs


def counted(driven: Gangs) -> dict[str, float]:
    """Attempts by how they ended, all of one profile."""
    metrics = driven.engine.core.metrics.pod_groups
    durations = {labels: sum(family.counts) for labels, family in metrics.attempt_duration.items()}
    counts = {labels: family.value for labels, family in metrics.attempts.items()}
    assert counts == durations
    assert sum(metrics.algorithm_duration.counts) == sum(counts.values())
    assert {profile for _, profile in counts} == {"test"}
    return {result: count for (result, _), count in counts.items()}


def test_an_attempt_counts_once_however_many_members_there_are() -> None:
    """A gang that lacks room, and one that runs."""
    driven = Gangs(2)
    driven.group()
    driven.members(3)
    driven.run()
    driven.group("h", 2)
    driven.members(2, "h")
    driven.run()

    assert counted(driven) == {"unschedulable": 1, "scheduled": 1}


def test_a_gang_that_waits_for_victims_counts_as_such() -> None:
    """Its next attempt may be the one that is scheduled."""
    driven = Gangs(2)
    driven.group(least=2)
    driven.set(make_pod_info("low", node_name="n", priority=-5))
    driven.members(2)
    driven.run()

    assert len(driven.all(Evict)) == 1
    assert counted(driven) == {"waiting_on_preemption": 1}


def test_an_error_of_one_member_is_the_groups() -> None:
    """It is counted once."""
    driven = Gangs(3, Breaks())
    driven.group(least=2)
    driven.add("broken", group="g")
    driven.members(1)
    driven.run()

    assert counted(driven) == {"error": 1}
