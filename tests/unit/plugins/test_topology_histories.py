"""Spread and affinity remember much about nodes, pods and namespaces; it must never be stale."""

import pytest

from scheduler.api.objects import (
    Affinity,
    LabelSelector,
    PodAffinitySpec,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from scheduler.api.pods import PodInfo
from scheduler.config.args import InterPodAffinityArgs, PodTopologySpreadArgs
from scheduler.kernel.plugins.inter_pod_affinity import InterPodAffinity
from scheduler.kernel.plugins.pod_topology_spread import PodTopologySpread
from scheduler.kernel.snapshot import Snapshot
from tests.support.builders import HOSTNAME, ZONE, make_pod_info
from tests.support.handles import make_handle
from tests.support.histories import APPS, NAMESPACES, RACK, History
from tests.unit.plugins.clusters import Answer, judge

WEB = LabelSelector({"app": "web"})
DB = LabelSelector({"app": "db"})
TEAM_A = LabelSelector({"team": "a"})


def waiting_pods() -> list[PodInfo]:
    """Pods that make both plugins look at everything they remember."""
    hard, soft = "DoNotSchedule", "ScheduleAnyway"
    spread = [
        TopologySpreadConstraint(1, ZONE, hard, WEB, node_taints_policy="Honor"),
        TopologySpreadConstraint(2, RACK, soft, WEB),
        TopologySpreadConstraint(1, HOSTNAME, soft, DB),
    ]
    team = PodAffinityTerm(RACK, WEB, namespace_selector=TEAM_A)
    affinity = Affinity(
        pod_affinity=PodAffinitySpec(
            (team,), (WeightedPodAffinityTerm(3, PodAffinityTerm(ZONE, DB)),)
        ),
        pod_anti_affinity=PodAffinitySpec(
            (PodAffinityTerm(HOSTNAME, DB),), (WeightedPodAffinityTerm(5, team),)
        ),
    )
    return [
        make_pod_info(
            f"waiting-{namespace}-{app}",
            namespace=namespace,
            labels={"app": app},
            affinity=affinity if app != "cache" else None,
            topology_spread_constraints=spread,
            node_selector={ZONE: "a"} if app == "db" else None,
        )
        for namespace in NAMESPACES[:2]
        for app in APPS
    ]


def make_plugins() -> tuple[PodTopologySpread, InterPodAffinity]:
    return (
        PodTopologySpread(PodTopologySpreadArgs(), make_handle()),
        InterPodAffinity(InterPodAffinityArgs()),
    )


def answers(
    plugins: tuple[PodTopologySpread, InterPodAffinity], snapshot: Snapshot
) -> list[Answer]:
    every_node = set(snapshot.table.row_of)
    return [
        judge(plugin, pod, snapshot, every_node) for pod in waiting_pods() for plugin in plugins
    ]


@pytest.mark.parametrize("seed", range(4))
def test_old_plugins_on_an_old_snapshot_answer_like_new_ones(seed: int) -> None:
    """Whatever happened before, the answers are those of a fresh start."""
    history, snapshot, plugins = History(seed, 8), Snapshot(), make_plugins()
    seen = []

    for step in range(400):
        snapshot.update(history.change())
        if step % 4 or not snapshot.table.count:
            continue
        rebuilt = Snapshot()
        rebuilt.update(history.rebuild())
        seen.append(answers(plugins, snapshot))
        assert seen[-1] == answers(make_plugins(), rebuilt)

    assert any(seen[0] != later for later in seen)
