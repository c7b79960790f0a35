"""Preemption in columns finds what trying node by node and pod by pod finds."""

from random import Random

import pytest

from scheduler.api.disruption_budgets import DisruptionBudget
from scheduler.api.pods import PodInfo
from scheduler.config.load import default_configuration
from scheduler.daemon.bootstrap import FrameworkBuilder
from scheduler.kernel.framework.results import PostFilterResult
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.status import Status
from scheduler.kernel.preemption import Evaluator
from scheduler.kernel.snapshot import Snapshot
from tests.unit.preemption.clusters import RandomWorld
from tests.unit.preemption.naive import World, candidates, placed

FRAMEWORK = FrameworkBuilder(lambda: 0.0, class_cache_bytes=0).build(
    default_configuration("stowage")
)["stowage"]


def nominated_in(world: World) -> NominatedPods:
    nominated = NominatedPods()
    for pod, node in world.nominated:
        nominated.nominate(pod, node)
    return nominated


def preempted(
    evaluator: Evaluator, world: World, snapshot: Snapshot, pod: PodInfo
) -> tuple[PostFilterResult | None, Status] | None:
    """What preemption in columns decides; None for a pod that fits somewhere."""
    nominated = nominated_in(world)
    found = FRAMEWORK.filtering.find_nodes_that_fit(pod, snapshot, nominated)
    if len(found.feasible_rows()):
        return None
    budgets: list[DisruptionBudget] = list(world.budgets)
    return evaluator.preempt(
        pod,
        snapshot,
        found.diagnosis(snapshot),
        budgets=budgets,
        nominated=nominated,
        random=Random(0),
    )


def check(evaluator: Evaluator, world: World, snapshot: Snapshot, pod: PodInfo) -> str:
    """Compare both ways for one pod; says what came of it."""
    outcome = preempted(evaluator, world, snapshot, pod)
    if outcome is None:
        return "fits"
    result, status = outcome
    expected, message = candidates(world, pod)
    assert result is not None
    actual = {
        c.node_name: ([victim.key for victim in c.victims], c.pdb_violations)
        for c in result.candidates
    }
    assert actual == {name: tuple(evicted) for name, evicted in expected.items()}
    assert status.message == ("" if expected else message)
    return "preempts" if expected else "in vain"


@pytest.mark.parametrize("seed", range(30))
def test_the_same_candidates_victims_and_messages(seed: int) -> None:
    """With spreading, affinity, ports, budgets and nominated pods; also after changes."""
    made = RandomWorld(seed)
    world = made.world
    cache, snapshot = placed(world.nodes, world.pods)
    evaluator = Evaluator(100, 100)

    outcomes = {check(evaluator, world, snapshot, pod) for pod in made.waiting}
    if world.pods:
        gone = made.draw.choice(world.pods)
        cache.remove_pod(gone)
        cache.update_snapshot(snapshot)
        world = world._replace(pods=[pod for pod in world.pods if pod is not gone])
        outcomes |= {check(evaluator, world, snapshot, pod) for pod in made.waiting}

    assert outcomes <= {"fits", "preempts", "in vain"}
