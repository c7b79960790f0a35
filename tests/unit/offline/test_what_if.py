"""What would happen: as if the objects had been written so, and then scheduled."""

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from scheduler.tools.offline import hypothetical_changes as changed
from scheduler.tools.offline.admission import Admission
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import (
    ClusterObjects,
    InputError,
    documents_from_text,
    objects_from_documents,
)
from scheduler.tools.offline.simulate import simulate
from scheduler.tools.offline.what_if import (
    NOBODY_MAKES_IT,
    HypotheticalChange,
    WhatIfResult,
    what_if,
)
from tests.support.manifests import Manifest, node_manifest, pod_manifest

HASH = "5d8c7"


def read(*objects: Manifest) -> ClusterObjects:
    text = json.dumps({"kind": "List", "items": objects})
    return objects_from_documents(documents_from_text(text, "test"), admission=Admission())


def owned(name: str, kind: str, owner: str, node: str = "", **fields: Any) -> Manifest:
    """A pod of a controller."""
    labels = {"app": "web", **({"pod-template-hash": HASH} if kind == "ReplicaSet" else {})}
    pod = pod_manifest(name, labels=labels, **fields)
    if node:
        pod["spec"]["nodeName"] = node
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": owner, "controller": True}
    ]
    return pod


def web(number: int, node: str = "", **fields: Any) -> Manifest:
    """A pod of the Deployment `web`, of a core."""
    fields = {"requests": {"cpu": "1"}, **fields}
    return owned(f"web-{HASH}-{number}", "ReplicaSet", f"web-{HASH}", node, **fields)


def asked(objects: ClusterObjects, *changes: HypotheticalChange) -> WhatIfResult:
    return what_if(Profiles(None), objects, changes)


def moves(found: WhatIfResult) -> dict[str, tuple[str | None, str]]:
    return {m.pod.removeprefix("default/"): (m.came_from, m.node) for m in found.placements}


def homeless(found: WhatIfResult) -> dict[str, str]:
    return {pod.pod.removeprefix("default/"): pod.message for pod in found.homeless}


# --- drain ----------------------------------------------------------------------------------------


def test_a_drained_node_is_no_domain_of_constraints_that_honor_taints() -> None:
    """The control plane taints a cordoned node, so the other nodes alone are compared."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeTaintsPolicy": "Honor",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    spread = {"topologySpreadConstraints": [constraint]}
    pods = [web(0, "a", **spread), web(1, "b", **spread)]
    objects = read(node_manifest("a"), node_manifest("b"), *pods)

    found = asked(objects, lambda o: changed.drain(o, "a"))

    assert moves(found) == {f"web-{HASH}-0": ("a", "b")}
    assert not found.homeless


def test_a_drained_nodes_pods_move_as_their_controllers_would_have_it() -> None:
    """Those of a ReplicaSet move; those of a DaemonSet and static ones stay; bare ones are lost."""
    found = asked(
        read(
            node_manifest("a"),
            node_manifest("b"),
            web(0, "a"),
            owned("agent-a", "DaemonSet", "agent", "a"),
            owned("static-a", "Node", "a", "a"),
            pod_manifest("bare", nodeName="a"),
        ),
        partial(changed.drain, name="a"),
    )

    assert moves(found) == {f"web-{HASH}-0": ("a", "b")}
    assert homeless(found) == {"bare": NOBODY_MAKES_IT}
    assert (found.use["all"]["pods"].before, found.use["all"]["pods"].after) == (0.0182, 0.0136)


def test_pods_without_room_say_why() -> None:
    """And it is told apart who has waited before."""
    found = asked(
        read(
            node_manifest("a", allocatable={"cpu": "1"}),
            node_manifest("b", allocatable={"cpu": "500m"}),
            web(0, "a"),
            web(1),
        ),
        partial(changed.drain, name="a"),
    )

    assert {p.pod: (p.came_from, p.has_waited) for p in found.homeless} == {
        f"default/web-{HASH}-0": ("a", False),
        f"default/web-{HASH}-1": (None, True),
    }
    assert all(
        "1 Insufficient cpu, 1 node(s) were unschedulable" in p.message for p in found.homeless
    )


def test_a_victim_that_is_made_again_looks_for_a_place_as_well() -> None:
    """Here it finds one; the bare victim is lost."""
    found = asked(
        read(
            node_manifest("a", allocatable={"cpu": "1"}),
            node_manifest("b", allocatable={"cpu": "1"}, labels={"disk": "ssd"}),
            node_manifest("c", allocatable={"cpu": "1"}),
            web(0, "b"),
            owned("high-0", "ReplicaSet", "high", "a", requests={"cpu": "1"}, priority=5,
                  nodeSelector={"disk": "ssd"}),
        ),
        partial(changed.drain, name="a"),
    )  # fmt: skip

    assert found.victims == (f"default/web-{HASH}-0",)
    assert moves(found) == {"high-0": ("a", "b"), f"web-{HASH}-0": ("b", "c")}
    assert found.homeless == ()


# --- other changes --------------------------------------------------------------------------------


def test_a_victim_that_waited_before_goes_on_waiting() -> None:
    """It gets a node for a moment only: the more important pod comes once its friend is there."""
    zone = {"topology.kubernetes.io/zone": "z"}
    nodes = [node_manifest(name, labels=zone, allocatable={"cpu": "2"}) for name in ("a", "b")]
    term = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": zone}}
    beside = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    friend = pod_manifest("friend", labels=zone, requests={"cpu": "2"}, priority=5)
    other = pod_manifest("other", requests={"cpu": "2"})
    late = pod_manifest("late", requests={"cpu": "2"}, priority=9, affinity=beside)

    found = asked(read(*nodes, friend, other, late), lambda _: [])

    assert sorted(moves(found)) == ["friend", "late"]
    assert [(pod.pod, pod.has_waited) for pod in found.homeless] == [("default/other", True)]


def test_a_taint_is_removed_as_kubectl_names_it() -> None:
    """KEY, KEY=VALUE and with :EFFECT."""
    taint = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}

    for named in ("gpu", "gpu=a100", "gpu:NoSchedule", "gpu=a100:NoSchedule"):
        objects = read(node_manifest("a", taints=[taint]), web(0))
        assert moves(asked(objects, partial(changed.remove_taint, taint=named)))
    objects = read(node_manifest("a", taints=[taint]), web(0))
    with pytest.raises(InputError, match="no node has it; there are gpu=a100:NoSchedule"):
        asked(objects, partial(changed.remove_taint, taint="gpu=h100"))


def test_added_nodes_are_like_their_model() -> None:
    """Its size and labels, a host name of their own, and not its troubles."""
    taints = [
        {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
        {"key": "team", "effect": "PreferNoSchedule"},
    ]
    model = node_manifest("a", labels={"disk": "ssd"}, taints=taints, unschedulable=True)
    objects = read(model, *(web(i) for i in range(9)))

    found = asked(objects, partial(changed.add_nodes, count=2, like="a"))

    assert {node for _, node in moves(found).values()} == {"a-new-0", "a-new-1"}
    assert len(found.placements) == 8
    labels = objects.nodes[1].metadata.labels
    assert labels == {"disk": "ssd", "kubernetes.io/hostname": "a-new-0"}
    assert [taint.key for taint in objects.nodes[1].spec.taints] == ["team"]


def test_added_nodes_run_the_pods_of_daemon_sets_and_static_pods() -> None:
    """They take their room on each; other pods of the model stay where they are."""
    objects = read(
        node_manifest("a"),
        owned("agent", "DaemonSet", "agent", "a", requests={"cpu": "2"}),
        owned("proxy", "Node", "a", "a", requests={"cpu": "1"}),
        *(web(i) for i in range(4)),
        web(4, "a"),
    )

    found = asked(objects, partial(changed.add_nodes, count=2, like="a"))

    assert sorted(node for _, node in moves(found).values()) == ["a-new-0", "a-new-1"]
    on_new = {pod.name for pod in objects.pods if pod.node_name == "a-new-1"}
    assert on_new >= {"agent-a-new-1", "proxy-a-new-1"}


@pytest.mark.parametrize("name", ["deployment/web", "deploy/default/web", f"rs/web-{HASH}"])
def test_a_workload_grows_by_pods_like_its_own(name: str) -> None:
    """However it is named."""
    objects = read(node_manifest("a"), web(0, "a"))

    found = asked(objects, partial(changed.scale, workload=name, replicas=5))

    assert len(found.placements) == 3
    assert len(found.homeless) == 1
    assert not any(pod.has_waited for pod in found.homeless)


def test_a_workload_shrinks_by_pods_that_wait_then_by_the_youngest() -> None:
    """As the ReplicaSet controller ranks them."""
    objects = read(
        node_manifest("a"),
        web(0, "a", created="2026-01-01T00:00:00Z"),
        web(1, "a", created="2026-01-03T00:00:00Z"),
        web(2, "a", created="2026-01-02T00:00:00Z"),
        web(3, created="2026-01-01T00:00:00Z"),
    )

    asked(objects, partial(changed.scale, workload="deploy/web", replicas=2))

    assert [pod.name for pod in objects.pods] == [f"web-{HASH}-0", f"web-{HASH}-2"]


def test_a_workload_shrinks_first_where_most_of_its_pods_are() -> None:
    """The older of two pods on one node goes before a younger one that is alone on its node."""
    objects = read(
        node_manifest("a"),
        node_manifest("b"),
        web(0, "a", created="2026-01-01T00:00:00Z"),
        web(1, "a", created="2026-01-02T00:00:00Z"),
        web(2, "b", created="2026-01-03T00:00:00Z"),
    )

    asked(objects, partial(changed.scale, workload="deploy/web", replicas=2))

    assert [pod.name for pod in objects.pods] == [f"web-{HASH}-0", f"web-{HASH}-2"]


@pytest.mark.parametrize(
    ("replicas", "names"),
    [(1, ["db-0"]), (2, ["db-0", "db-2"]), (5, ["db-0", "db-1", "db-2", "db-3", "db-10"])],
)
def test_a_stateful_set_has_ordinals(replicas: int, names: list[str]) -> None:
    """It loses the highest, however old, and gets the missing ones first."""
    days = {"db-0": 3, "db-2": 2, "db-10": 1}
    objects = read(
        node_manifest("a"),
        *(
            owned(name, "StatefulSet", "db", "a", created=f"2026-01-0{day}T00:00:00Z")
            for name, day in days.items()
        ),
    )

    asked(objects, partial(changed.scale, workload="sts/db", replicas=replicas))

    found = sorted((pod.name for pod in objects.pods), key=lambda name: int(name[3:]))
    assert found == names


@pytest.mark.parametrize(
    ("replicas", "names"),
    [(1, {"gone", "old"}), (2, {"gone", "old", "new"}), (3, {"gone", "old", "new", "new-new-0"})],
)
def test_pods_that_are_being_deleted_are_no_replicas(replicas: int, names: set[str]) -> None:
    """They are neither counted nor removed, nor what others are like."""
    gone = owned("gone", "ReplicaSet", "web", "a", created="2026-01-03T00:00:00Z")
    gone["metadata"]["deletionTimestamp"] = "2026-01-04T00:00:00Z"
    objects = read(
        node_manifest("a"),
        owned("old", "ReplicaSet", "web", "a", created="2026-01-01T00:00:00Z"),
        owned("new", "ReplicaSet", "web", "a", created="2026-01-02T00:00:00Z"),
        gone,
    )

    asked(objects, partial(changed.scale, workload="rs/web", replicas=replicas))

    assert {pod.name for pod in objects.pods} == names


def test_a_workload_whose_pods_are_all_being_deleted_grows() -> None:
    """Then its new pods are like those."""
    gone = web(0, "a")
    gone["metadata"]["deletionTimestamp"] = "2026-01-04T00:00:00Z"
    objects = read(node_manifest("a"), gone)

    found = asked(objects, partial(changed.scale, workload="deploy/web", replicas=1))

    assert moves(found) == {f"web-{HASH}-0-new-0": (None, "a")}


def test_what_is_deleted_is_gone() -> None:
    """A pod, a workload's pods, a node with what only ran there."""

    def after(what: str) -> tuple[set[str], WhatIfResult]:
        objects = read(
            node_manifest("a", allocatable={"cpu": "2"}),
            node_manifest("b"),
            web(0, "a"),
            owned("agent-a", "DaemonSet", "agent", "a"),
            pod_manifest("bare", nodeName="a"),
        )  # fmt: skip
        found = asked(objects, partial(changed.delete, what=what))
        return {pod.name for pod in objects.pods}, found

    assert after("pod/bare")[0] == {"agent-a", f"web-{HASH}-0"}
    assert after("deploy/web")[0] == {"agent-a", "bare"}
    names, found = after("node/a")
    assert names == {f"web-{HASH}-0"}
    assert moves(found) == {f"web-{HASH}-0": ("a", "b")}
    assert homeless(found) == {"bare": NOBODY_MAKES_IT}


@pytest.mark.parametrize(
    ("owner", "priority", "expected"),
    [
        (("ReplicaSet", "rs"), 5, {"victim": ("a", "a")}),
        (("ReplicaSet", "rs"), 0, {"waiting": (None, "a")}),
        (("Node", "a"), 0, {}),
    ],
    ids=["its replacement comes first", "the waiting pod comes first", "static"],
)
def test_a_deleted_pod_is_created_again_by_its_controller(
    owner: tuple[str, str], priority: int, expected: dict[str, tuple[str | None, str]]
) -> None:
    """It may take its room again."""
    objects = read(
        node_manifest("a", allocatable={"cpu": "1"}),
        owned("victim", *owner, "a", requests={"cpu": "1"}, priority=priority),
        pod_manifest("waiting", requests={"cpu": "1"}),
    )

    found = asked(objects, partial(changed.delete, what="pod/victim"))

    assert moves(found) == expected
    assert len(found.placements) + len(found.homeless) == 2 - (owner[0] == "Node")


def test_applied_objects_replace_those_of_the_same_name() -> None:
    """A Deployment's pods are made anew; a pod keeps its node; a node gets larger."""
    objects = read(
        node_manifest("a", allocatable={"cpu": "1"}),
        web(0, "a"),
        web(1),
        pod_manifest("kept", nodeName="a"),
    )
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "template": {"spec": pod_manifest("x")["spec"]}},
    }
    new = read(deployment, node_manifest("a", allocatable={"cpu": "8"}), pod_manifest("kept"))

    found = asked(objects, partial(changed.apply, others=new))

    assert set(moves(found)) == {"web-0", "web-1", "web-2"}
    assert found.homeless == ()
    assert {pod.name: pod.node_name for pod in objects.pods}["kept"] == "a"


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Deployment", {"replicas": 0}),
        ("StatefulSet", {"replicas": 0}),
        ("Job", {"suspend": True}),
        ("DaemonSet", {}),
    ],
)
def test_an_applied_workload_without_pods_leaves_none(kind: str, spec: Manifest) -> None:
    """The pods of other workloads, kinds and namespaces stay."""
    by = "ReplicaSet" if kind == "Deployment" else kind
    own = owned("old", by, f"web-{HASH}" if kind == "Deployment" else "web", "a")
    objects = read(
        node_manifest("a"),
        own,
        owned("other", by, "other", "a"),
        owned("kind", "ReplicationController", "web", "a"),
        {**own, "metadata": {**own["metadata"], "namespace": "there"}},
    )
    template = {"spec": {**pod_manifest("x")["spec"], "nodeSelector": {"disk": "none"}}}
    workload = {"kind": kind, "metadata": {"name": "web"}, "spec": {**spec, "template": template}}
    workload["apiVersion"] = "batch/v1" if kind == "Job" else "apps/v1"

    asked(objects, partial(changed.apply, others=read(workload)))

    names = [f"{pod.namespace}/{pod.name}" for pod in objects.pods]
    assert names == ["default/kind", "default/other", "there/old"]


def test_an_applied_pod_of_a_workload_replaces_no_other() -> None:
    """Its file has no workload."""
    objects = read(node_manifest("a"), web(0, "a"), web(1, "a"))

    asked(objects, partial(changed.apply, others=read(web(1), web(2))))

    assert [pod.name for pod in objects.pods] == [f"web-{HASH}-{i}" for i in range(3)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (partial(changed.drain, name="x"), "--drain: there is no node 'x'"),
        (
            partial(changed.add_nodes, count=1, like="x"),
            "--like: there is no node 'x'",
        ),
        (
            partial(changed.scale, workload="deploy/x", replicas=1),
            "no pod that others could",
        ),
        (partial(changed.scale, workload="ds/web", replicas=1), "a DaemonSet has one pod for each"),
        (partial(changed.scale, workload="web", replicas=1), "expected KIND/"),
        (partial(changed.scale, workload="gadget/web", replicas=1), "expected KIND/"),
        (
            partial(changed.scale, workload="deploy/webs", replicas=1),
            'use --apply FILE; did you mean "web"',
        ),
        (partial(changed.delete, what="pod/x"), "there is no such Pod, or it has no pods$"),
        (partial(changed.delete, what="deploy/webs"), 'or it has no pods; did you mean "web"'),
        (
            partial(changed.delete, what=f"rs/default/web-{HASH[:-1]}"),
            f'did you mean "web-{HASH}"',
        ),
        (partial(changed.delete, what="deploy/other/webs"), "or it has no pods$"),
        (partial(changed.delete, what="node/x"), "there is no node 'x'"),
    ],
)
def test_what_is_not_there_is_said(change: HypotheticalChange, message: str) -> None:
    """With the option that names it."""
    with pytest.raises(InputError, match=message):
        asked(read(node_manifest("a"), web(0)), change)


def test_a_name_in_two_namespaces_is_asked_about() -> None:
    """Nothing is guessed."""
    objects = read(node_manifest("a"), web(0), web(1, namespace="other"))

    with pytest.raises(
        InputError, match=r"in each of default, other: say Deployment/NAMESPACE/web"
    ):
        asked(objects, partial(changed.scale, workload="deploy/web", replicas=9))


def test_a_namespace_says_which_of_one_name_is_meant() -> None:
    """The others stay as they are."""
    objects = read(node_manifest("a"), web(0), web(1, namespace="other"))

    asked(objects, partial(changed.scale, workload="deploy/other/web", replicas=0))

    assert [pod.namespace for pod in objects.pods] == ["default"]


# --- law ------------------------------------------------------------------------------------------

NODES = ("a", "b", "c", "d")


@st.composite
def clusters(draw: st.DrawFn) -> list[Manifest]:
    """A few nodes and pods of a Deployment on them, some of which keep apart."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=2, max_size=4))
    nodes = [
        node_manifest(name, allocatable={"cpu": str(cpu)})
        for name, cpu in zip(NODES, sizes, strict=False)
    ]
    places = draw(st.lists(st.integers(-1, len(sizes) - 1), max_size=8))
    old = "2026-01-01T00:00:00Z"
    pods = [web(i, NODES[at] if at >= 0 else "", created=old) for i, at in enumerate(places)]
    return [*nodes, *pods]


def as_written(objects: list[Manifest], name: str) -> list[Manifest]:
    """The drained cluster as a person would write it down: pods made again are the youngest."""
    for each in objects:
        if each["kind"] == "Node" and each["metadata"]["name"] == name:
            each["spec"]["unschedulable"] = True
        elif each["spec"].get("nodeName") == name:
            del each["spec"]["nodeName"]
            each["metadata"]["creationTimestamp"] = None
    return objects


@given(clusters(), st.integers(0, 100))
@settings(max_examples=30, deadline=None)
def test_a_drain_is_what_simulate_makes_of_the_drained_cluster(
    objects: list[Manifest], seed: int
) -> None:
    """The same pods find nodes, and the same pods find none."""
    found = what_if(Profiles(None), read(*objects), [partial(changed.drain, name="a")], seed)
    outcome = simulate(Profiles(None).load(read(*as_written(objects, "a")), seed))

    assert {m.pod for m in found.placements} == {p.pod for p in outcome.placements if p.node}
    assert {h.pod: h.message for h in found.homeless} == {
        p.pod: p.message for p in outcome.placements if not p.node
    }
