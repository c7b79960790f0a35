"""The law of rankings: they choose the nodes that looking at each node would choose.

Random histories of a cluster of a few zones, whose nodes come, fill up, are cordoned, change zone
and go; pods that prefer zones are asked about in between.
"""

from collections.abc import Iterator
from random import Random

import numpy as np
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
from scheduler.config.load import default_configuration, load_object
from scheduler.daemon.bootstrap import FrameworkBuilder
from scheduler.kernel.framework.runtime import Framework, PluginError
from scheduler.kernel.framework.runtime.ranking import INFEASIBLE_TOTAL, Ranking
from scheduler.kernel.snapshot import NodeRemoved, NodeSet, PodAdded, PodRemoved, Snapshot
from scheduler.kernel.snapshot.changes import Change
from scheduler.kernel.snapshot.label_columns import Topology
from tests.support.builders import ZONE, make_node, make_node_info, make_pod_info

NODES = 60
MORE_NODES = 10
"""Nodes that come later: the table grows beyond what topologies know of."""
STEPS = 300
APPS = ("web", "db")


class History:
    """A cluster that goes its random way."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.snapshot = Snapshot()
        self.running: list[PodInfo] = []
        self.nodes: set[str] = set()
        self._serial = 0
        for number in range(NODES):
            self._tell(*self._set_node(f"n{number}"))

    def step(self) -> None:
        """Some changes that meet one snapshot; mostly it is one pod."""
        for _ in range(self.random.choice((1, 1, 1, 3, 8))):
            happens = self.random.choices(
                (self._add_pod, self._remove_pod, self._change_node), (12, 6, 1)
            )
            self._tell(*happens[0]())

    def pod(self, kind: int, node: str = "") -> PodInfo:
        """Another pod of some kind."""
        self._serial += 1
        app = LabelSelector({"app": self.random.choice(APPS)})
        term = PodAffinityTerm(ZONE, app)
        affinity, spread = None, []
        match kind:
            case 0:
                spread = [TopologySpreadConstraint(1, ZONE, "ScheduleAnyway", app)]
            case 1:
                preferred = (WeightedPodAffinityTerm(7, term),)
                affinity = Affinity(pod_affinity=PodAffinitySpec((), preferred))
            case 2:
                preferred = (WeightedPodAffinityTerm(3, term),)
                affinity = Affinity(pod_anti_affinity=PodAffinitySpec((), preferred))
            case 3:
                affinity = Affinity(pod_affinity=PodAffinitySpec((term,)))
            case _:
                pass
        return make_pod_info(
            f"pod-{self._serial}",
            node_name=node,
            labels={"app": self.random.choice(APPS)},
            requests={"cpu": self.random.choice(("100m", "1"))},
            affinity=affinity,
            topology_spread_constraints=spread,
        )

    def _tell(self, *changes: Change) -> None:
        self.snapshot.update(changes)

    def _add_pod(self) -> Iterator[Change]:
        pod = self.pod(self.random.randrange(5), self.random.choice(sorted(self.nodes)))
        self.running.append(pod)
        yield PodAdded(pod)

    def _remove_pod(self) -> Iterator[Change]:
        if self.running:
            yield PodRemoved(self.running.pop(self.random.randrange(len(self.running))))

    def _change_node(self) -> Iterator[Change]:
        name = f"n{self.random.randrange(NODES + MORE_NODES)}"
        if name not in self.nodes or self.random.random() < 0.7:
            yield from self._set_node(name)
            return
        yield from [PodRemoved(pod) for pod in self.running if pod.node_name == name]
        self.running = [pod for pod in self.running if pod.node_name != name]
        self.nodes.remove(name)
        yield NodeRemoved(name)

    def _set_node(self, name: str) -> Iterator[Change]:
        node = make_node(
            name,
            zone=self.random.choice(("a", "b", "c")),
            unschedulable=self.random.random() < 0.1,
            allocatable={"pods": "4"},
        )
        self.nodes.add(name)
        yield NodeSet(make_node_info(node), node)


def is_as_the_long_way(framework: Framework, pod: PodInfo, snapshot: Snapshot) -> bool:
    """Whether the short way was taken; its choice must be that of the long way."""
    found = framework.filtering.find_nodes_that_fit(pod, snapshot)
    best = framework.scoring.best_nodes(found, pod, snapshot)
    rows = found.feasible_rows()
    totals = framework.scoring.totals(found, pod, snapshot, rows)

    assert best.feasible == len(rows)
    assert best.rows.tolist() == rows[totals == totals.max(initial=-1.0)].tolist()
    if best.totals is None or best.candidates is not None:
        return False
    constant = sum(raw.constant for raw in best.left_out)
    assert (best.totals[rows] + constant).tolist() == totals.tolist()
    assert best.feasible == int((best.totals >= 0).sum())
    return True


@pytest.mark.parametrize("seed", range(4))
def test_rankings_by_domain_choose_as_if_each_node_were_looked_at(seed: int) -> None:
    """The best nodes, how many fit and all totals are the same, whatever happened before."""
    history = History(seed)
    framework = FrameworkBuilder(lambda: 0.0).build(default_configuration("bench"))["bench"]
    short = 0

    for _ in range(STEPS):
        history.step()
        for kind in range(4):
            short += is_as_the_long_way(framework, history.pod(kind), history.snapshot)

    assert short > STEPS


class Totals:
    """What a class says of rows, changed at random as pods come and now and then one goes."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.total = np.full(24, 9.0)

    def step(self, ranking: Ranking) -> None:
        """A few rows change; mostly it is one, and mostly for the worse."""
        rows = np.array(self._random.sample(range(24), self._random.choice((1, 1, 1, 1, 1, 2, 9))))
        change = [self._random.choice((-1, -1, -1, -1, 2)) for _ in rows]
        now = np.clip(self.total[rows] + change, INFEASIBLE_TOTAL, 9)
        ranking.follow_all(rows, self.total, now)
        self.total[rows] = now


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_are_followed_by_domain_are_those_that_a_look_finds(seed: int) -> None:
    """Whatever changes, whatever is added; domains come to the same and part again."""
    random = Random(seed)
    totals = Totals(random)
    topology = Topology(np.array([random.choice((0, 1, 2, 4)) for _ in range(24)]), 6)
    ranking = Ranking(topology)

    for _ in range(200):
        for _ in range(random.choice((1, 1, 3))):
            totals.step(ranking)
        by_domain = np.array([random.randrange(2) for _ in range(6)], np.float64)
        rows, feasible = ranking.best_rows(totals.total, by_domain)

        sums = totals.total + by_domain[topology.ids]
        sums[totals.total == INFEASIBLE_TOTAL] = INFEASIBLE_TOTAL
        is_best = (sums == sums.max()) & (sums != INFEASIBLE_TOTAL)
        assert rows.tolist() == np.flatnonzero(is_best).tolist()
        assert feasible == np.count_nonzero(sums != INFEASIBLE_TOTAL)


@pytest.mark.parametrize("seed", range(10))
def test_rows_that_are_followed_are_those_that_a_look_finds(seed: int) -> None:
    """The same where all rows are one domain."""
    random = Random(seed)
    totals = Totals(random)
    ranking = Ranking()

    for _ in range(200):
        for _ in range(random.choice((1, 1, 3))):
            totals.step(ranking)
        rows, feasible = ranking.best_rows(totals.total)

        is_best = (totals.total == totals.total.max()) & (totals.total != INFEASIBLE_TOTAL)
        assert rows.tolist() == np.flatnonzero(is_best).tolist()
        assert feasible == np.count_nonzero(totals.total != INFEASIBLE_TOTAL)


@pytest.mark.parametrize(("plugin", "kind"), [("PodTopologySpread", 0), ("InterPodAffinity", 1)])
def test_a_plugin_without_its_pre_score_fails_by_domain_too(plugin: str, kind: int) -> None:
    """As it does node by node, and in kube-scheduler."""
    history = History(1)
    for _ in range(20):
        history.step()
    profile = {
        "schedulerName": "bench",
        "plugins": {"preScore": {"disabled": [{"name": plugin}]}},
    }
    config = load_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
    )
    framework = FrameworkBuilder(lambda: 0.0).build(config)["bench"]
    pod = history.pod(kind)
    found = framework.filtering.find_nodes_that_fit(pod, history.snapshot)

    with pytest.raises(PluginError, match=plugin):
        framework.scoring.best_nodes(found, pod, history.snapshot)
