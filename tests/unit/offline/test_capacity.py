"""How many more fit: what placing them one after the other would show."""

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from scheduler.api.limits import MAX_TOLERATIONS
from scheduler.api.pods import PodInfo
from scheduler.config.load import default_configuration
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.tools.offline import capacity
from scheduler.tools.offline.capacity import Capacity, capacity_of
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.hypothetical_changes import copy_of
from scheduler.tools.offline.reading import (
    ClusterObjects,
    documents_from_text,
    objects_from_documents,
)
from scheduler.tools.offline.simulate import simulate
from tests.support.manifests import Manifest, node_manifest, pod_manifest

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": "a"}},
            }
        ]
    }
}


def read(*objects: Manifest) -> ClusterObjects:
    text = json.dumps({"kind": "List", "items": objects})
    return objects_from_documents(documents_from_text(text, "test"))


def found_for(
    pod: Manifest, *others: Manifest, config: KubeSchedulerConfiguration | None = None
) -> Capacity:
    """For a pod that is not there yet."""
    profiles = Profiles(config)
    [kind] = read(pod).pods
    objects = read(*others)
    engine = profiles.load(objects).engine
    return capacity_of(engine, profiles.framework_of(kind), kind, objects.pods)


def test_nodes_are_filled_one_by_one_and_say_what_is_short() -> None:
    """What runs counts; what tolerates nothing stays away."""
    taint = {"key": "gpu", "effect": "NoSchedule"}

    found = found_for(
        pod_manifest("p", requests={"cpu": "1", "memory": "1Gi"}),
        node_manifest("a"),
        node_manifest("b", allocatable={"memory": "2Gi"}),
        node_manifest("c", taints=[taint]),
        pod_manifest("r", requests={"cpu": "1500m"}, nodeName="a"),
    )

    assert (found.fits, found.nodes) == (4, {"a": 2, "b": 2})
    assert found.limits == {
        "Insufficient cpu": 1,
        "Insufficient memory": 1,
        "node(s) had untolerated taint(s)": 1,
    }
    assert not found.is_at_least


def test_a_node_may_take_thousands() -> None:
    """As those of virtual kubelets do."""
    found = found_for(pod_manifest("p"), node_manifest("a", allocatable={"pods": "2000"}))

    assert found.nodes == {"a": 2000}


def test_pods_that_keep_apart_fit_once_on_each_node() -> None:
    """Where one goes decides where the next one fits."""
    pod = pod_manifest("p", labels={"app": "a"}, affinity=APART)

    found = found_for(pod, *(node_manifest(name) for name in "abc"))

    assert (found.fits, found.nodes) == (3, {"a": 1, "b": 1, "c": 1})
    assert found.limits == {"node(s) didn't match pod anti-affinity rules": 3}


@pytest.mark.parametrize("affinity", [{}, APART], ids=["each node alone", "one by one"])
@pytest.mark.parametrize(
    "held",
    [{"schedulingGates": [{"name": "g"}]}, {"schedulingGroup": {"podGroupName": "g"}}],
    ids=["gates", "gang"],
)
def test_pods_that_are_held_back_fit_where_there_is_room(
    held: dict[str, Any], affinity: dict[str, Any]
) -> None:
    """Gates and gangs keep pods out of the queue, and say nothing of room."""
    policy = {"gang": {"minCount": 9}}
    gang = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": policy},
    }
    spec = {**held, "affinity": affinity, "requests": {"cpu": "4"}}

    found = found_for(
        pod_manifest("p", labels={"app": "a"}, **spec),
        *(gang, node_manifest("a"), node_manifest("b")),
        config=default_configuration("stowage", ("GangScheduling", "GenericWorkload")),
    )

    assert found.nodes == {"a": 1, "b": 1}
    assert found.limits


@pytest.mark.parametrize("apart", [False, True], ids=["each node alone", "one by one"])
def test_progress_rises_to_the_end(apart: bool) -> None:
    """Nodes fill up, or room for pods is taken."""
    profiles = Profiles(None)
    spec = {"affinity": APART} if apart else {}
    [kind] = read(pod_manifest("p", labels={"app": "a"}, requests={"cpu": "2"}, **spec)).pods
    objects = read(node_manifest("a"), node_manifest("b", allocatable={"cpu": "2"}))
    heard: list[float] = []

    capacity_of(profiles.load(objects).engine, profiles.framework_of(kind), kind, [], heard.append)

    assert heard == sorted(heard)
    assert heard[0] == 0
    assert 0 < heard[-1] <= 1


def test_nobody_is_evicted() -> None:
    """However important the pod is, and however it is tried."""
    for affinity in ({}, {"affinity": APART}):
        pod = pod_manifest("p", requests={"cpu": "3"}, labels={"app": "a"}, priority=9, **affinity)
        found = found_for(
            pod, node_manifest("a"), pod_manifest("low", requests={"cpu": "2"}, nodeName="a")
        )
        assert found.fits == 0


def test_room_that_no_pod_fits_into_is_told() -> None:
    """A core and a half is free on each node; only a pod of half a core could use them."""
    running = [pod_manifest(f"r{n}", requests={"cpu": "2500m"}, nodeName=n) for n in "ab"]
    large = pod_manifest("p", requests={"cpu": "2"})
    small = pod_manifest("s", requests={"cpu": "500m"}, nodeName="c")
    nodes = [node_manifest(n) for n in "ab"]

    alone = found_for(large, *nodes, *running, node_manifest("c"))
    shared = found_for(large, *nodes, *running, node_manifest("c"), small)

    assert alone.fragmentation["cpu"] == pytest.approx(3 / 7, abs=1e-4)
    assert shared.fragmentation["cpu"] == 0.0


def test_a_pod_over_a_limit_fits_nowhere_and_uses_nothing() -> None:
    """The engine rejects it before it judges nodes."""
    many = [{"key": f"k{i}", "operator": "Exists"} for i in range(MAX_TOLERATIONS + 1)]
    nodes = [node_manifest("a"), node_manifest("b")]
    over = pod_manifest("p", requests={"cpu": "1"}, tolerations=many)

    found = found_for(over, *nodes)

    reason = f"pod has {MAX_TOLERATIONS + 1} tolerations, more than the 4096 that are looked at"
    assert (found.fits, found.nodes, found.limits) == (0, {}, {reason: 2})
    assert found.fragmentation["cpu"] == 1.0


@pytest.mark.parametrize(
    ("affinity", "fits"),
    [pytest.param({}, 9, id="each node alone"), pytest.param(APART, 2, id="one by one")],
)
def test_a_count_that_would_not_end_is_given_up(
    affinity: dict[str, Any], fits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says that it was."""
    monkeypatch.setattr(capacity, "MAX_PODS", 2)
    pod = pod_manifest("p", labels={"app": "a"}, affinity=affinity)

    found = found_for(pod, *(node_manifest(name) for name in "abc"))

    assert (found.fits, found.is_at_least) == (fits, True)


# --- law ------------------------------------------------------------------------------------------

SPECS: list[dict[str, Any]] = [
    {},
    {"affinity": APART},
    {"nodeSelector": {"disk": "ssd"}},
    {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "a"}},
            }
        ]
    },
]


@st.composite
def clusters(draw: st.DrawFn) -> list[Manifest]:
    """A few nodes in two zones, and what runs on them."""
    nodes = [
        node_manifest(
            f"n{i}",
            allocatable={"cpu": str(cpu), "pods": str(pods)},
            labels={"zone": f"z{i % 2}", **({"disk": "ssd"} if has_disk else {})},
        )
        for i, (cpu, pods, has_disk) in enumerate(
            draw(
                st.lists(
                    st.tuples(st.integers(0, 5), st.integers(0, 6), st.booleans()),
                    min_size=1,
                    max_size=4,
                )
            )
        )
    ]
    running = draw(st.lists(st.integers(0, len(nodes) - 1), max_size=5))
    pods = [
        pod_manifest(f"r{i}", requests={"cpu": "700m"}, labels={"app": "a"}, nodeName=f"n{at}")
        for i, at in enumerate(running)
    ]
    return [*nodes, *pods]


@given(clusters(), st.sampled_from(SPECS))
@settings(max_examples=30, deadline=None)
def test_as_many_fit_as_the_simulation_places(
    objects: list[Manifest], spec: dict[str, Any]
) -> None:
    """Of more than could ever fit."""
    pod = pod_manifest("p", requests={"cpu": "600m"}, labels={"app": "a"}, **spec)
    found = found_for(pod, *objects)

    cluster = read(*objects)
    [kind] = read(pod).pods
    many: list[PodInfo] = [copy_of(kind, f"p{i}") for i in range(40)]
    cluster.pods = [*cluster.pods, *many]
    placed = [p for p in simulate(Profiles(None).load(cluster)).placements if p.node]

    assert found.fits == len(placed)
    if not spec or "nodeSelector" in spec:
        nodes = [p.node for p in placed]
        assert found.nodes == {name: nodes.count(name) for name in set(nodes)}
