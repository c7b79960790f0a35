"""Each check by itself: how many nodes it rejects, and how many would fit without it."""

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.api.objects import (
    Affinity,
    NodeAffinitySpec,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
)
from scheduler.api.pods import PodInfo
from scheduler.api.volume_sources import PersistentVolumeClaimVolumeSource, Volume
from scheduler.config.load import load
from scheduler.daemon.bootstrap import FrameworkBuilder
from scheduler.kernel.answers.checks import (
    EveryCheck,
    checks_of,
    every_check,
    nearest_nodes,
    shortage,
)
from scheduler.kernel.answers.model import Check, NearNode, PluginRejection
from scheduler.kernel.framework.obstacles import ResourceObstacle, TaintObstacle
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.runtime.nominated_layer import with_nominated_pods
from scheduler.kernel.framework.status import Status, unschedulable
from scheduler.kernel.snapshot import Snapshot
from tests.support.builders import make_node, make_pod_info
from tests.support.fake_plugins import NodeFilter, make_framework
from tests.unit.answers.worlds import FRAMEWORK, random_world
from tests.unit.preemption.naive import placed

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: stowage
  plugins: {{multiPoint: {{disabled: [{{name: {name}}}]}}}}
"""

_WITHOUT: dict[str, Framework] = {}


def framework_without(name: str) -> Framework:
    """A profile in which a plugin is disabled."""
    if name not in _WITHOUT:
        config = load(CONFIG.format(name=name), source="test")
        builder = FrameworkBuilder(lambda: 0.0, class_cache_bytes=0)
        _WITHOUT[name] = builder.build(config)["stowage"]
    return _WITHOUT[name]


@pytest.mark.parametrize("seed", range(40))
def test_what_would_fit_without_a_check(seed: int) -> None:
    """As many nodes as in a profile that does not have the plugin; nominated pods included."""
    snapshot, nominated, pod = random_world(seed).built()
    every = every_check(FRAMEWORK, pod, snapshot, nominated)

    expected = {
        name: len(
            framework_without(name)
            .filtering.find_nodes_that_fit(pod, snapshot, nominated)
            .feasible_rows()
        )
        - len(FRAMEWORK.filtering.find_nodes_that_fit(pod, snapshot, nominated).feasible_rows())
        for name in every.names
    }

    assert every.fits_without == expected


@pytest.mark.parametrize("seed", range(40))
def test_what_each_check_rejects(seed: int) -> None:
    """All that speaks against a node is known, and every number of an obstacle is bounded by it."""
    snapshot, nominated, pod = random_world(seed).built()
    every = every_check(FRAMEWORK, pod, snapshot, nominated)
    found = FRAMEWORK.filtering.find_nodes_that_fit(pod, snapshot, nominated)
    fitting = set(found.feasible_rows().tolist())

    assert {row for row, fails in enumerate(every.fails.tolist()) if not fails} == fitting
    for check in checks_of(every):
        assert 0 < check.rejects <= snapshot.table.count
        assert all(0 < obstacle.nodes <= check.rejects for obstacle in check.obstacles), check
        assert bool(check.obstacles) == (check.plugin != "NodeUnschedulable"), check


@pytest.mark.parametrize("seed", range(40))
def test_the_nearest_nodes_are_the_first_of_all(seed: int) -> None:
    """By how many checks they fail, then by what they lack, then by name, also among many."""
    snapshot, nominated, pod = random_world(seed, most_nodes=30).built()
    every = every_check(FRAMEWORK, pod, snapshot, nominated)
    rows = every.snapshot.table.live_rows()
    lacking = dict(zip(rows.tolist(), shortage(every, rows).tolist(), strict=True))
    names, fails = snapshot.table.names, every.fails.tolist()

    expected = sorted((fails[row], lacking[row], names[row]) for row in lacking if fails[row])[:5]

    assert [(near.fails, near.node) for near in nearest_nodes(every)] == [
        (count, name) for count, _, name in expected
    ]


@pytest.mark.parametrize("seed", range(40))
def test_every_filter_is_heard_about_every_node(seed: int) -> None:
    """What is taken from the first rejections is what the filter says when it is asked alone."""
    snapshot, nominated, pod = random_world(seed, most_nodes=12).built()
    for others in (None, nominated):
        found = FRAMEWORK.filtering.find_nodes_that_fit(pod, snapshot, others)
        assert found.verdicts is not None
        assert found.attempt is not None

        every = FRAMEWORK.filtering.every_verdict(found, pod, snapshot, others)

        filters = sorted(found.attempt.filters, key=lambda each: each.index)
        assert len(every) == len(filters)
        for each, verdicts in zip(filters, every, strict=True):
            attempt = replace(found.attempt, filters=(each,))
            alone = attempt.verdicts()
            if others:
                alone = with_nominated_pods(attempt, alone, others)
            assert verdicts.first.tolist() == alone.first.tolist()
            for row in np.flatnonzero(alone.first == each.index).tolist():
                assert verdicts.status(row) == alone.status(row)


def test_what_is_known_of_filtering_changes_nothing() -> None:
    """Whether nodes were judged before or are judged for this, the answer is one."""
    for seed in range(40):
        snapshot, nominated, pod = random_world(seed).built()
        found = FRAMEWORK.filtering.find_nodes_that_fit(pod, snapshot, nominated)

        given = every_check(FRAMEWORK, pod, snapshot, nominated, found)

        own = every_check(FRAMEWORK, pod, snapshot, nominated)
        assert checks_of(given) == checks_of(own)
        assert nearest_nodes(given) == nearest_nodes(own)


def cluster() -> Snapshot:
    taint = Taint("gpu", "", "NoSchedule")
    nodes = [
        make_node("a", allocatable={"cpu": "2"}),
        make_node("b", allocatable={"cpu": "1"}),
        make_node("c", allocatable={"cpu": "1"}, taints=[taint]),
        make_node("d", allocatable={"cpu": "8"}, taints=[taint]),
    ]
    _, snapshot = placed(nodes, [make_pod_info("r", node_name="a", requests={"cpu": "500m"})])
    return snapshot


def checked(pod: PodInfo, snapshot: Snapshot | None = None) -> EveryCheck:
    return every_check(FRAMEWORK, pod, cluster() if snapshot is None else snapshot)


def pod_called(name: str, **fields: Any) -> PodInfo:
    return make_pod_info(name, requests={"cpu": "3"}, **fields)


def test_leave_one_out_and_numbers() -> None:
    """Who rejects most comes first; the numbers are of all nodes it rejects."""
    assert checks_of(checked(pod_called("p"))) == (
        Check("NodeResourcesFit", 3, 2, (ResourceObstacle("cpu", 3, 3000, 1500, "a", hopeless=3),)),
        Check("TaintToleration", 2, 1, (TaintObstacle("gpu:NoSchedule", 2),)),
    )


def test_the_nearest_nodes_fail_fewest_checks_and_lack_least() -> None:
    """Of those that fail as many, the one that lacks the smallest share; each says all it has."""
    fit = PluginRejection("NodeResourcesFit", "UnschedulableAndUnresolvable", ("Insufficient cpu",))
    taint = PluginRejection(
        "TaintToleration", "UnschedulableAndUnresolvable", ("node(s) had untolerated taint(s)",)
    )

    assert nearest_nodes(checked(pod_called("p"))) == (
        NearNode("d", 1, (taint,)),
        NearNode("a", 1, (fit,)),
        NearNode("b", 1, (fit,)),
        NearNode("c", 2, (taint, fit)),
    )


def test_a_plugin_that_names_nodes_rejects_the_others() -> None:
    """Also where its filter is never asked."""
    field = NodeSelectorRequirement("metadata.name", "In", ("b",))
    required = NodeSelector((NodeSelectorTerm(match_fields=(field,)),))
    pod = pod_called("p", affinity=Affinity(NodeAffinitySpec(required)))

    every = checked(pod)

    rejected = {name: len(every.rejected_by(name)) for name in every.names}
    assert rejected == {"NodeResourcesFit": 3, "TaintToleration": 2, "NodeAffinity": 3}
    assert every.fits_without == {"NodeResourcesFit": 1, "TaintToleration": 0, "NodeAffinity": 0}


def test_a_plugin_that_names_a_node_does_not_reject_it() -> None:
    """What another one has against it counts as that one's alone."""
    field = NodeSelectorRequirement("metadata.name", "In", ("d",))
    required = NodeSelector((NodeSelectorTerm(match_fields=(field,)),))

    every = checked(pod_called("p", affinity=Affinity(NodeAffinitySpec(required))))

    assert len(every.rejected_by("NodeAffinity")) == 3
    assert every.fits_without == {"NodeResourcesFit": 0, "TaintToleration": 1, "NodeAffinity": 0}


def test_who_rejects_the_pod_as_a_whole_rejects_every_node() -> None:
    """And those that come after it are heard all the same."""
    claim = Volume(persistent_volume_claim=PersistentVolumeClaimVolumeSource("gone"))
    pod = pod_called("p", volumes=[claim])

    every = checked(pod)

    assert len(every.rejected_by("VolumeRestrictions")) == 4
    assert len(every.rejected_by("NodeResourcesFit")) == 3
    # Four plugins miss the claim: that is one reason.
    assert set(every.names) == {"VolumeRestrictions", "NodeResourcesFit", "TaintToleration"}
    assert set(every.fits_without.values()) == {0}
    rejections = nearest_nodes(every)[0].rejections
    assert rejections[0].reasons == ('persistentvolumeclaim "gone" not found',)
    assert not any("gone" in reason for each in rejections[1:] for reason in each.reasons)


def test_what_plugins_in_node_form_say_is_told() -> None:
    """Each node may have words of its own; no numbers are known."""

    def say(node: Any) -> Status:
        return unschedulable(f"not {node.name}") if node.name != "b" else Status()

    framework = make_framework(NodeFilter("Custom", say))
    every = every_check(framework, make_pod_info("p"), cluster())

    assert checks_of(every) == (Check("Custom", 3, 3, ()),)
    assert nearest_nodes(every)[0].rejections == (
        PluginRejection("Custom", "Unschedulable", ("not a",)),
    )


def test_asking_leaves_no_trace() -> None:
    """No class of pods is kept, nothing is counted."""
    framework = framework_without("ImageLocality")
    known = framework.classes.hits, framework.classes.misses
    snapshot = cluster()
    epoch, position = snapshot.epoch, snapshot.pod_log.position

    checks_of(every_check(framework, pod_called("p"), snapshot))

    assert (framework.classes.hits, framework.classes.misses) == known
    assert (snapshot.epoch, snapshot.pod_log.position) == (epoch, position)
