"""The promise of waiting: every pod is evaluated against the cluster as it is, hints or not.

Upstream's queueing hints have false negatives: they ignore events that let a pod fit. So each
history here is directed: pods are rejected, the cluster changes in a way that hints do not take,
and then nothing happens. All pods must have a node after five minutes, and a new pod at once, in
whatever way equal pods share rejections.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from scheduler.api.objects import (
    Affinity,
    Container,
    ContainerRestartRule,
    LabelSelector,
    Namespace,
    ObjectMeta,
    PodAffinitySpec,
    PodAffinityTerm,
    Taint,
    TopologySpreadConstraint,
)
from scheduler.api.pods import PodInfo
from scheduler.api.storage import READ_WRITE_ONCE_POD, CSISource
from scheduler.kernel.engine.algorithm import SchedulingAlgorithm
from scheduler.kernel.engine.events import ObjectGone, ObjectSet
from scheduler.kernel.framework.events import QueueingHint
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.plugins.node_declared_features import RESTART_ALL_CONTAINERS
from tests.support.builders import HOSTNAME, ZONE, make_node, make_pod_info
from tests.support.storage import (
    bound_claim,
    claims_of,
    make_claim,
    make_csi_node,
    make_volume,
)
from tests.unit.engine.answered import AnsweredCluster

EQUAL_PODS = 5
PROMISED_SECONDS = 305

Events = tuple[ObjectSet | ObjectGone, ...]


class History(msgspec.Struct):
    """A change that lets pods fit.

    Attributes:
        before: what there is when the pods are rejected.
        pods: what the waiting pods are like.
        change: what happens then.
        has_own_claims: whether each pod has a claim of its own, named after its number.
    """

    before: Events
    pods: Mapping[str, Any]
    change: Events
    has_own_claims: bool = False


def nodes(*objects: Any) -> Events:
    return tuple(ObjectSet("nodes", node) for node in objects)


def no_node(name: str) -> Events:
    return (ObjectGone("nodes", "", name, f"uid-of-{name}"),)


def running(*names: str, on: str = "n", app: str = "x", **fields: Any) -> Events:
    labels = {"app": app, **fields.pop("labels", {})}
    return tuple(
        ObjectSet("pods", make_pod_info(name, uid=name, labels=labels, node_name=on, **fields))
        for name in names
    )


def ended(*names: str) -> Events:
    return tuple(ObjectGone("pods", "default", name, name) for name in names)


def namespace(name: str, **labels: str) -> Events:
    return (ObjectSet("namespaces", Namespace(ObjectMeta(name=name, labels=labels))),)


def storage(**objects: Any) -> Events:
    return tuple(ObjectSet(kind, each) for kind, several in objects.items() for each in several)


def term(
    app: str, key: str = HOSTNAME, namespace_selector: LabelSelector | None = None
) -> PodAffinityTerm:
    return PodAffinityTerm(key, LabelSelector({"app": app}), namespace_selector=namespace_selector)


def near(*terms: PodAffinityTerm) -> dict[str, Any]:
    return {"affinity": Affinity(pod_affinity=PodAffinitySpec(terms))}


def away(*terms: PodAffinityTerm) -> dict[str, Any]:
    return {"affinity": Affinity(pod_anti_affinity=PodAffinitySpec(terms))}


def spread(key: str = ZONE, **fields: Any) -> dict[str, Any]:
    """Over domains that app x is spread over; the pods are not of app x."""
    constraint = TopologySpreadConstraint(1, key, label_selector=LabelSelector({"app": "x"}))
    return {"topology_spread_constraints": [constraint], **fields}


def taint(key: str = "t") -> tuple[Taint, ...]:
    return (Taint(key, "v", "NoSchedule"),)


TINY = {"cpu": "100m"}
WANTS = {"cpu": "200m"}
"""More than a tiny node has."""
TEAM = LabelSelector({"team": "a"})
CHOSEN = {"a": "b"}
FEATURES = (RESTART_ALL_CONTAINERS,)
PORT = {"host_ports": (80,)}
RESTARTS = {
    "containers": [
        Container(name="main", restart_policy_rules=(ContainerRestartRule("RestartAllContainers"),))
    ]
}
SIX_NODES = tuple(f"n{i}" for i in range(EQUAL_PODS + 1))
SIX_PODS = tuple(f"r{i}" for i in range(EQUAL_PODS + 1))

TWO_ZONES = nodes(make_node("n", zone="a"), make_node("m", zone="b", allocatable=TINY))

WAYS = {
    "near a pod in namespaces of a label: the pod comes": History(
        nodes(make_node("n")) + namespace("default", team="a"),
        near(term("x", namespace_selector=TEAM)),
        running("x"),
    ),
    "away from a pod: its node goes, its pods stay": History(
        nodes(make_node("n", zone="a"), make_node("m", zone="a")) + running("x"),
        away(term("x", ZONE)),
        no_node("n"),
    ),
    "away from two pods: the only one that is there ends": History(
        nodes(make_node("n")) + running("x"),
        away(term("x"), term("y")),
        ended("x"),
    ),
    "spread: a pod that counts is being deleted, and hangs": History(
        TWO_ZONES + running("x", "y"),
        spread(requests=WANTS),
        running("x", deletion_timestamp="2026-01-01T00:00:00Z"),
    ),
}
"""Changes that the hints of kube-scheduler, and so ours, do not take."""

OTHERS = {
    "NodeUnschedulable: a node is uncordoned": History(
        nodes(make_node("n", unschedulable=True)), {}, nodes(make_node("n"))
    ),
    "NodeUnschedulable: a node comes": History(
        nodes(make_node("n", unschedulable=True)), {}, nodes(make_node("m"))
    ),
    "TaintToleration: a taint goes": History(
        nodes(make_node("n", taints=taint())), {}, nodes(make_node("n"))
    ),
    "TaintToleration: a node comes": History(
        nodes(make_node("n", taints=taint())), {}, nodes(make_node("m"))
    ),
    "NodeAffinity: a node is labelled": History(
        nodes(make_node("n")),
        {"node_selector": {"a": "b"}},
        nodes(make_node("n", labels=CHOSEN)),
    ),
    "NodeAffinity: a node comes": History(
        nodes(make_node("n")),
        {"node_selector": {"a": "b"}},
        nodes(make_node("m", labels=CHOSEN)),
    ),
    "NodePorts: pods end": History(
        nodes(*map(make_node, SIX_NODES))
        + tuple(
            each
            for node, pod in zip(SIX_NODES, SIX_PODS, strict=True)
            for each in running(pod, on=node, **PORT)
        ),
        PORT,
        ended(*SIX_PODS),
    ),
    "NodePorts: nodes come": History(
        nodes(make_node("n")) + running("x", **PORT), PORT, nodes(*map(make_node, SIX_NODES))
    ),
    "NodeResourcesFit: a pod ends": History(
        nodes(make_node("n")) + running("x", requests={"cpu": "4"}),
        {"requests": WANTS},
        ended("x"),
    ),
    "NodeResourcesFit: a pod is resized": History(
        nodes(make_node("n")) + running("x", requests={"cpu": "4"}),
        {"requests": WANTS},
        running("x", requests={"cpu": "1"}),
    ),
    "NodeResourcesFit: a node has more": History(
        nodes(make_node("n", allocatable={"cpu": "1"})) + running("x", requests={"cpu": "1"}),
        {"requests": WANTS},
        nodes(make_node("n")),
    ),
    "NodeResourcesFit: a node comes": History(
        nodes(make_node("n")) + running("x", requests={"cpu": "4"}),
        {"requests": WANTS},
        nodes(make_node("m")),
    ),
    "InterPodAffinity: a pod comes": History(nodes(make_node("n")), near(term("x")), running("x")),
    "InterPodAffinity: a pod ends": History(
        nodes(make_node("n")) + running("x"), away(term("x")), ended("x")
    ),
    "InterPodAffinity: a pod that keeps others away ends": History(
        nodes(make_node("n")) + running("x", **away(term("w"))),
        {"labels": {"app": "w"}},
        ended("x"),
    ),
    "InterPodAffinity: a pod is relabelled": History(
        nodes(make_node("n")) + running("x"), near(term("y")), running("x", app="y")
    ),
    "InterPodAffinity: a node is relabelled": History(
        nodes(make_node("n", zone="a"), make_node("m", zone="a")) + running("x"),
        away(term("x", ZONE)),
        nodes(make_node("m", zone="b")),
    ),
    "InterPodAffinity: a node comes": History(
        nodes(make_node("n")) + running("x"), away(term("x")), nodes(make_node("m"))
    ),
    "InterPodAffinity: a namespace is relabelled": History(
        nodes(make_node("n")) + running("x") + namespace("default"),
        near(term("x", namespace_selector=TEAM)),
        namespace("default", team="a"),
    ),
    "InterPodAffinity: a namespace goes": History(
        nodes(make_node("n")) + running("x", namespace="other") + namespace("other", team="a"),
        away(term("x", namespace_selector=TEAM)),
        (ObjectGone("namespaces", "", "other", "u"),),
    ),
    "PodTopologySpread: a pod comes": History(
        TWO_ZONES + running("x", "y"), spread(requests=WANTS), running("z", on="m")
    ),
    "PodTopologySpread: a pod ends": History(
        TWO_ZONES + running("x", "y"), spread(requests=WANTS), ended("x")
    ),
    "PodTopologySpread: a pod is relabelled": History(
        TWO_ZONES + running("x", "y"), spread(requests=WANTS), running("x", app="y")
    ),
    "PodTopologySpread: a node comes": History(
        TWO_ZONES + running("x", "y"), spread(requests=WANTS), nodes(make_node("o", zone="c"))
    ),
    "PodTopologySpread: a node goes": History(
        TWO_ZONES + running("x", "y"), spread(requests=WANTS), no_node("m")
    ),
    "PodTopologySpread: a node is relabelled": History(
        TWO_ZONES + running("x", "y"),
        spread(requests=WANTS),
        nodes(make_node("m", zone="a", allocatable=TINY)),
    ),
    "PodTopologySpread: a node has more": History(
        TWO_ZONES + running("x", "y"), spread(requests=WANTS), nodes(make_node("m", zone="b"))
    ),
    "NodeDeclaredFeatures: a node declares a feature": History(
        nodes(make_node("n")),
        RESTARTS,
        nodes(make_node("n", declared_features=FEATURES)),
    ),
    "NodeDeclaredFeatures: a node comes": History(
        nodes(make_node("n")),
        RESTARTS,
        nodes(make_node("m", declared_features=FEATURES)),
    ),
    "VolumeBinding: a claim is bound": History(
        nodes(make_node("n"))
        + storage(
            persistentvolumeclaims=[make_claim("c", class_name="")],
            persistentvolumes=[make_volume("v")],
        ),
        {"volumes": claims_of("c")},
        storage(persistentvolumeclaims=[bound_claim("c", "v")]),
    ),
    "VolumeRestrictions: a claim comes": History(
        nodes(make_node("n")) + storage(persistentvolumes=[make_volume("v")]),
        {"volumes": claims_of("c")},
        storage(persistentvolumeclaims=[bound_claim("c", "v")]),
    ),
    "VolumeZone: a volume comes": History(
        nodes(make_node("n")) + storage(persistentvolumeclaims=[bound_claim("c", "v")]),
        {"volumes": claims_of("c")},
        storage(persistentvolumes=[make_volume("v")]),
    ),
    "VolumeBinding: a node comes": History(
        nodes(make_node("n"))
        + storage(
            persistentvolumeclaims=[bound_claim("c", "v")],
            persistentvolumes=[make_volume("v", hosts=["m"])],
        ),
        {"volumes": claims_of("c")},
        nodes(make_node("m")),
    ),
    "VolumeZone: a volume is relabelled": History(
        nodes(make_node("n", zone="a"))
        + storage(
            persistentvolumeclaims=[bound_claim("c", "v")],
            persistentvolumes=[make_volume("v", labels={ZONE: "b"})],
        ),
        {"volumes": claims_of("c")},
        storage(persistentvolumes=[make_volume("v", labels={ZONE: "a"})]),
    ),
    "NodeVolumeLimits: a node takes more volumes": History(
        nodes(make_node("n"))
        + storage(
            persistentvolumeclaims=[bound_claim("c", "v"), bound_claim("d", "w")],
            persistentvolumes=[
                make_volume(name, csi=CSISource("driver", name)) for name in ("v", "w")
            ],
            csinodes=[make_csi_node("n", {"driver": 1})],
        )
        + running("x", volumes=claims_of("d")),
        {"volumes": claims_of("c")},
        storage(csinodes=[make_csi_node("n", {"driver": 2})]),
    ),
    "VolumeRestrictions: pods end": History(
        nodes(make_node("n"))
        + storage(
            persistentvolumeclaims=[
                bound_claim(f"c{i}", f"v{i}", access_modes=(READ_WRITE_ONCE_POD,))
                for i in range(EQUAL_PODS + 1)
            ],
            persistentvolumes=[make_volume(f"v{i}") for i in range(EQUAL_PODS + 1)],
        )
        + tuple(
            each
            for i, pod in enumerate(SIX_PODS)
            for each in running(pod, volumes=claims_of(f"c{i}"))
        ),
        {},
        ended(*SIX_PODS),
        has_own_claims=True,
    ),
}
"""Others by the plugin that rejects; hints are deaf in these histories."""

UNREACHED = {
    "NodeName": "a waiting pod names no node",
    "DynamicResources": "it rejects every pod with claims, whatever happens",
    "GangScheduling": "it rejects every member of a group, whatever happens",
    "SchedulingGates": "its answer follows from the pod alone",
    "DefaultPreemption": "it holds pods back only while their victims leave",
}
"""Plugins that no change of the cluster can please."""


class Directed(AnsweredCluster):
    """Equal pods, rejected, and what happens then."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self.history = history
        self.tell(history.before)
        for i in range(EQUAL_PODS):
            self.wait(i)
            self.run()
        assert len(self.waiting()) == EQUAL_PODS
        # Nothing is left of what happened: no pod is in back-off.
        self.pass_time(30)
        assert len(self.waiting()) == EQUAL_PODS

    def wait(self, number: int) -> None:
        """One more of the equal pods comes."""
        fields = dict(self.history.pods)
        if self.history.has_own_claims:
            fields["volumes"] = claims_of(f"c{number}")
        self.add(f"w{number}", **fields)


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """No hint takes any event."""
    monkeypatch.setattr(Framework, "run_queueing_hint", lambda *_: QueueingHint.SKIP)


def all_have_a_node_after_five_minutes(history: History) -> None:
    cluster = Directed(history)
    cluster.tell(history.change)
    assert len(set(cluster.forgotten())) == EQUAL_PODS, "the change lets no pod fit"

    # Thirty seconds have passed since the rejections.
    cluster.pass_time(PROMISED_SECONDS - 30)

    assert cluster.waiting() == []


def a_new_pod_has_a_node_at_once(history: History) -> None:
    cluster = Directed(history)
    cluster.tell(history.change)

    cluster.wait(EQUAL_PODS)
    cluster.run()

    assert f"w{EQUAL_PODS}" not in cluster.waiting()


@pytest.mark.parametrize("way", WAYS)
def test_an_event_that_no_hint_takes(way: str) -> None:
    """The pods wait for five minutes: the hints of kube-scheduler are like this."""
    cluster = Directed(WAYS[way])
    cluster.tell(WAYS[way].change)
    cluster.pass_time(200)
    waiting = len(cluster.waiting())
    cluster.pass_time(PROMISED_SECONDS - 230)

    assert (waiting, cluster.waiting()) == (EQUAL_PODS, [])


@pytest.mark.parametrize("way", WAYS)
def test_a_new_pod_after_an_event_that_no_hint_takes(way: str) -> None:
    a_new_pod_has_a_node_at_once(WAYS[way])


@pytest.mark.usefixtures("deaf")
@pytest.mark.parametrize("change", OTHERS)
def test_all_have_a_node_after_five_minutes(change: str) -> None:
    all_have_a_node_after_five_minutes(OTHERS[change])


@pytest.mark.usefixtures("deaf")
@pytest.mark.parametrize("change", OTHERS)
def test_a_new_pod_has_a_node_at_once(change: str) -> None:
    a_new_pod_has_a_node_at_once(OTHERS[change])


@pytest.mark.parametrize("change", OTHERS)
def test_the_plugin_that_rejects_is_the_one_that_is_named(change: str) -> None:
    cluster = Directed(OTHERS[change])

    rejectors = {
        plugin for row in cluster.engine.core.queue.rows() for plugin in row["unschedulablePlugins"]
    }

    assert change.partition(":")[0] in rejectors


def test_equal_pods_share_an_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """One when they come, one when one of them is woken, one when they have waited too long."""
    evaluated = []
    evaluate = SchedulingAlgorithm.schedule_pod

    def counted(
        self: SchedulingAlgorithm, framework: Framework, pod: PodInfo, *others: Any, **options: Any
    ) -> Any:
        evaluated.append(pod.name)
        return evaluate(self, framework, pod, *others, **options)

    monkeypatch.setattr(SchedulingAlgorithm, "schedule_pod", counted)
    cluster = AnsweredCluster()
    cluster.tell(nodes(make_node("n")) + running("x", requests={"cpu": "4"}))
    for i in range(1000):
        cluster.add(f"w{i}", requests=WANTS)
    told = []

    cluster.run()
    told.append(len(evaluated))
    # A change of a label is no help for them.
    cluster.tell(nodes(make_node("n", labels=CHOSEN)))
    cluster.run()
    told.append(len(evaluated))
    cluster.tell(nodes(make_node("n", allocatable={"cpu": "4100m"})))
    cluster.pass_time(20)
    told.append(len(evaluated))
    before = sum(int(str(row["attempts"])) for row in cluster.engine.core.queue.rows())
    cluster.pass_time(PROMISED_SECONDS - 20)
    told.append(len(evaluated))
    after = sum(int(str(row["attempts"])) for row in cluster.engine.core.queue.rows())

    assert told == [1, 1, 2, 3]
    assert after - before >= 999


def test_no_plugin_is_left_out() -> None:
    """A new plugin that rejects pods needs a history."""
    framework = next(iter(AnsweredCluster().profiles.frameworks.values()))
    directed = {change.partition(":")[0] for change in OTHERS}

    assert framework.events_to_register().keys() == directed | UNREACHED.keys()
