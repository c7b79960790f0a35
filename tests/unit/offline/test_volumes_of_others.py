"""Capacity, what-if and hand-written pods have claims to volumes as a cluster would make them."""

from typing import Any

import pytest

from scheduler.api.storage import MIGRATED_PLUGINS
from scheduler.kernel.volumes.catalog import CSI_NODE
from scheduler.tools.offline import hypothetical_changes as changes
from scheduler.tools.offline.admission import Admission
from scheduler.tools.offline.capacity import Capacity, capacity_of
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.copied_claims import claims_in
from scheduler.tools.offline.reading import ClusterObjects, objects_from_documents
from scheduler.tools.offline.simulate import simulate
from scheduler.tools.offline.what_if import WhatIfResult, what_if
from tests.support.manifests import Manifest, node_manifest, pod_manifest

HOSTNAME = "kubernetes.io/hostname"
LATE: Manifest = {
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": "csi.example.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}
EARLY: Manifest = {**LATE, "metadata": {"name": "early"}, "volumeBindingMode": "Immediate"}
EPHEMERAL: Manifest = {
    "name": "scratch",
    "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "late"}}},
}
STATEFUL: Manifest = {"name": "data", "persistentVolumeClaim": {"claimName": "data-p"}}


def bound(claim: str, node: str, owner: str = "", storage_class: str = "late") -> list[Manifest]:
    """A claim with a volume that only one node reaches."""
    meta: Manifest = {"name": claim, "namespace": "default", "uid": claim}
    if owner:
        owners = [{"kind": "Pod", "name": owner, "uid": owner, "controller": True}]
        meta["ownerReferences"] = owners
    meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    spec = {"storageClassName": storage_class, "volumeName": f"of-{claim}"}
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
    volume = {
        "storageClassName": storage_class,
        "claimRef": {"name": claim, "namespace": "default", "uid": claim},
        "csi": {"driver": "csi.example.com", "volumeHandle": claim},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return [
        {"kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec},
        {"kind": "PersistentVolume", "metadata": {"name": f"of-{claim}"}, "spec": volume},
    ]


def running(name: str, volume: Manifest, kind: str = "ReplicaSet", **spec: Any) -> Manifest:
    """A pod of a controller on the node n."""
    pod = pod_manifest(name, nodeName="n", volumes=[volume], **spec)
    pod["metadata"]["uid"] = name
    owner = {"kind": kind, "name": "w", "uid": "w", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    return pod


def limited(node: str, count: int) -> Manifest:
    driver = {"name": "csi.example.com", "nodeID": node, "allocatable": {"count": count}}
    return {"kind": "CSINode", "metadata": {"name": node}, "spec": {"drivers": [driver]}}


def read(*objects: Manifest) -> ClusterObjects:
    documents = [node_manifest("n"), node_manifest("m"), LATE, EARLY, *objects]
    return objects_from_documents((f"o{i}", raw) for i, raw in enumerate(documents))


def outcome(found: WhatIfResult) -> tuple[list[tuple[str, str]], int]:
    placed = [(each.pod.partition("/")[2], each.node) for each in found.placements]
    return placed, len(found.homeless)


def asked(*objects: Manifest, change: Any) -> tuple[list[tuple[str, str]], int]:
    return outcome(what_if(Profiles(None), read(*objects), [change]))


def capacity(*objects: Manifest) -> Capacity:
    """For the pod p."""
    profiles, found = Profiles(None), read(*objects)
    pod = next(pod for pod in found.pods if pod.name == "p")
    engine = profiles.load(found).engine
    return capacity_of(engine, profiles.framework_of(pod), pod, found.pods)


def test_a_drained_pod_gets_a_new_ephemeral_volume_elsewhere() -> None:
    """The old claim goes with the pod, and does not hold its successor to the node."""
    found = asked(
        *bound("p-scratch", "n", owner="p"),
        running("p", EPHEMERAL),
        change=lambda o: changes.drain(o, "n"),
    )

    assert found == ([("p", "m")], 0)


def test_a_drained_pod_of_a_stateful_set_keeps_its_claim() -> None:
    found = asked(
        *bound("data-p", "n"),
        running("p", STATEFUL, "StatefulSet"),
        change=lambda o: changes.drain(o, "n"),
    )

    assert found == ([], 1)


@pytest.mark.parametrize(
    ("volume", "claim", "kind"),
    [(EPHEMERAL, "p-scratch", "ReplicaSet"), (STATEFUL, "data-p", "StatefulSet")],
)
def test_more_pods_of_a_workload_have_volumes_of_their_own(
    volume: Manifest, claim: str, kind: str
) -> None:
    """Each counts against the limit of its node, and only the first is held to its node."""
    placed, homeless = asked(
        *bound(claim, "n", owner="p" if volume is EPHEMERAL else ""),
        limited("n", 2),
        limited("m", 2),
        running("p", volume, kind),
        change=lambda o: changes.scale(o, f"{kind.lower()}/w", 5),
    )

    assert sorted(node for _, node in placed) == ["m", "m", "n"]
    assert homeless == 1


def test_pods_that_go_take_their_ephemeral_claims_along() -> None:
    objects = read(*bound("p-scratch", "n", owner="p"), running("p", EPHEMERAL))

    changes.scale(objects, "replicaset/w", 0)

    assert not claims_in(objects).volumes


def test_a_claim_that_is_bound_at_once_gets_a_volume_like_the_present_one() -> None:
    found = asked(
        *bound("data-p", "n", storage_class="early"),
        running("p", STATEFUL, "StatefulSet"),
        change=lambda o: changes.scale(o, "statefulset/w", 2),
    )

    assert found == ([("p-new-0", "n")], 0)


def test_a_new_pod_of_a_stateful_set_takes_the_claim_of_its_name() -> None:
    """An earlier pod of that name left it: its volume holds the pod to the node m."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-w-0"}}
    placed, homeless = asked(
        *bound("data-w-0", "n"),
        *bound("data-w-1", "m"),
        running("w-0", volume, "StatefulSet"),
        change=lambda o: changes.scale(o, "statefulset/w", 3),
    )

    assert ("w-1", "m") in placed
    assert [name for name, _ in placed] == ["w-1", "w-2"]
    assert not homeless


def test_a_claim_that_several_pods_name_is_shared() -> None:
    """By its name a Deployment's claim is made for no pod alone."""
    found = asked(
        *bound("data-p", "n"),
        running("p", STATEFUL),
        change=lambda o: changes.scale(o, "replicaset/w", 2),
    )

    assert found == ([("p-new-0", "n")], 0)


@pytest.mark.parametrize(
    ("volume", "claim", "kind"),
    [(EPHEMERAL, "p-scratch", "ReplicaSet"), (STATEFUL, "data-p", "StatefulSet")],
)
def test_each_further_pod_has_a_volume_of_its_own(volume: Manifest, claim: str, kind: str) -> None:
    found = capacity(
        *bound(claim, "n", owner="p" if volume is EPHEMERAL else ""),
        limited("n", 2),
        limited("m", 2),
        running("p", volume, kind),
    )

    assert (found.fits, found.nodes) == (3, {"m": 2, "n": 1})
    assert found.limits == {"node(s) exceed max volume count": 2}


def test_an_applied_stateful_set_keeps_the_volumes_that_are_there() -> None:
    """Its controller makes only the claims that are missing."""
    template = {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {HOSTNAME: "m"}}
    claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": "late"}}
    stateful_set: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "w"},
        "spec": {"replicas": 2, "template": {"spec": template}, "volumeClaimTemplates": [claim]},
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-w-0"}}
    objects = read(*bound("data-w-0", "n"), running("w-0", volume, "StatefulSet"))

    found = what_if(Profiles(None), objects, [lambda o: changes.apply(o, written(stateful_set))])

    assert outcome(found) == ([("w-1", "m")], 1)
    assert "node affinity" in found.homeless[0].message


def test_a_victim_that_is_made_again_has_a_new_ephemeral_volume() -> None:
    found = outcome(
        what_if(
            Profiles(None),
            read(
                *bound("p-scratch", "n", owner="p"),
                running("p", EPHEMERAL, requests={"cpu": "3"}),
                pod_manifest(
                    "big", requests={"cpu": "3"}, priority=10, nodeSelector={HOSTNAME: "n"}
                ),
            ),
            [],
        )
    )

    assert found == ([("big", "n"), ("p", "m")], 0)


# --- hand-written pods ----------------------------------------------------------------------------


def written(*objects: Manifest) -> ClusterObjects:
    documents = [node_manifest("n"), LATE, *objects]
    return objects_from_documents(
        ((f"o{i}", raw) for i, raw in enumerate(documents)), admission=Admission()
    )


def test_hand_written_pods_have_the_claims_of_their_ephemeral_volumes() -> None:
    """Those of a workload as well; they fit, and do not wait for a controller."""
    containers = [{"name": "c", "image": "i"}]
    workload: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "template": {"spec": {"containers": containers, "volumes": [EPHEMERAL]}},
        },
    }
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": workload["spec"]["template"]["spec"]}

    objects = written(workload, pod)

    assert set(claims_in(objects).volumes) == {
        "default/p-scratch",
        "default/web-0-scratch",
        "default/web-1-scratch",
    }
    placements = simulate(Profiles(None).load(objects)).placements
    assert [each.node for each in placements] == ["n"] * 3


def test_a_claim_that_is_written_counts_instead() -> None:
    """The pod does not own it, so kube-scheduler rejects the pod as well."""
    claim, volume = bound("p-scratch", "n")
    del claim["metadata"]["uid"]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [EPHEMERAL]}
    objects = written(claim, volume, {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec})

    [placement] = simulate(Profiles(None).load(objects)).placements
    assert "pod is not owner" in placement.message


def test_an_added_node_mounts_migrated_volumes_as_its_model_does() -> None:
    """The annotation is that of the CSINode, not that of the node."""
    driver = limited("n", 5)
    driver["metadata"]["annotations"] = {MIGRATED_PLUGINS: "kubernetes.io/aws-ebs"}
    objects = read(driver)

    changes.add_nodes(objects, 1, "n")

    drivers = [each for kind, each in objects.watched if kind == CSI_NODE]
    assert [each.metadata.name for each in drivers] == ["n", "n-new-0"]
    assert [each.migration for each in drivers] == ["kubernetes.io/aws-ebs"] * 2
