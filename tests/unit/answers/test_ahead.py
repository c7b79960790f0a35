"""What pods hold beside room: it is free once they have ended, and taken again afterwards."""

from typing import Any

import pytest

from scheduler.config.load import default_configuration
from scheduler.kernel.answers.estimate import estimate
from scheduler.kernel.answers.waiting_model import Estimate
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.framework.steps import finished
from scheduler.tools.offline.cluster import DEFAULT_PROFILE, Profiles
from scheduler.tools.offline.reading import objects_from_documents
from tests.support.device_manifests import (
    Object,
    claim_manifest,
    class_manifest,
    slice_manifest,
    using,
)
from tests.support.manifests import node_manifest, pod_manifest

NOW = 1767225600.0


GATES = ("GenericWorkload", "GangScheduling")


def asked(*objects: Object) -> Estimate:
    """What is estimated for the pod p on the nodes n and m; nothing is changed by it."""
    documents = [class_manifest(), node_manifest("n"), node_manifest("m"), *objects]
    profiles = Profiles(default_configuration(DEFAULT_PROFILE, GATES), is_named=False)
    cluster = profiles.load(objects_from_documents((f"o{i}", o) for i, o in enumerate(documents)))
    waiting = next(pod for pod in cluster.waiting if pod.name == "p")
    catalog = profiles.shared(ClaimCatalog)
    before = catalog.claims.copy(), catalog.devices.usage.allocations.copy()
    found = finished(estimate(cluster.engine, profiles.framework_of(waiting), waiting, NOW))
    assert before == (catalog.claims, catalog.devices.usage.allocations)
    assert profiles.shared(ClaimCatalog) is catalog
    assert found is not None
    return found


def ending(name: str, minutes: int, **more: Any) -> Object:
    """A running pod that ends so many minutes from now."""
    pod = pod_manifest(name, **more)
    end = f"2026-01-01T{minutes // 60:02}:{minutes % 60:02}:00Z"
    pod["metadata"] |= {"uid": name, "annotations": {"stowage.dev/expected-end": end}}
    return pod


def holding(name: str, node: str, minutes: int, *claims: str) -> Object:
    return ending(name, minutes, nodeName=node, resourceClaims=using(*claims))


def ends(found: Estimate) -> list[str]:
    return [each.pod.removeprefix("default/") for each in found.ends]


def test_devices_are_free_once_the_pod_has_ended_that_holds_them() -> None:
    found = asked(
        slice_manifest("n", "a"),
        slice_manifest("m", "b"),
        holding("late", "n", 90, "of-late"),
        claim_manifest("of-late", has=("n/a",), users=("late",)),
        holding("early", "m", 30, "of-early"),
        claim_manifest("of-early", has=("m/b",), users=("early",)),
        claim_manifest("wanted"),
        pod_manifest("p", resourceClaims=using("wanted")),
    )

    assert ends(found) == ["early"]
    assert found.time == "2026-01-01T00:30:00Z"


def test_a_claim_that_pods_share_is_free_once_the_last_of_them_has_ended() -> None:
    found = asked(
        slice_manifest("n", "a"),
        holding("first", "n", 30, "shared"),
        holding("second", "n", 90, "shared"),
        claim_manifest("shared", has=("n/a",), users=("first", "second")),
        claim_manifest("wanted"),
        pod_manifest("p", resourceClaims=using("wanted")),
    )

    assert ends(found) == ["first", "second"]
    assert found.time == "2026-01-01T01:30:00Z"


@pytest.mark.parametrize("user", ["reader", "other"])
def test_a_volume_for_one_pod_is_free_once_that_has_ended(user: str) -> None:
    """Other pods that end are of no use, whatever else they have."""
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "only"}}]
    spec = {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "only",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {**spec, "volumeName": "pv", "storageClassName": ""},
        "status": {"phase": "Bound"},
    }
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "pv"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOncePod"],
            "claimRef": {"name": "only", "namespace": "default"},
            "csi": {"driver": "d", "volumeHandle": "h"},
        },
    }
    found = asked(
        claim,
        volume,
        ending("before", 10, nodeName="n"),
        ending(user, 60, nodeName="m", volumes=volumes),
        pod_manifest("p", volumes=volumes),
    )

    assert ends(found) == [user]


# --- members of a gang ----------------------------------------------------------------------------


def gang(least: int, *members: Object) -> list[Object]:
    """A group, and its members: the first of them is p."""
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", "uid": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": least}}},
    }
    for each in members:
        each["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    return [group, *members]


def wanting(*names: str) -> list[Object]:
    """A gang whose members want a device each."""
    members = [pod_manifest(name, resourceClaims=using(f"for-{name}")) for name in names]
    return [*gang(len(names), *members), *(claim_manifest(f"for-{name}") for name in names)]


def test_members_of_a_gang_do_not_count_on_the_same_device() -> None:
    """The first end is enough for one of them, and the second one for both."""
    found = asked(
        slice_manifest("n", "a"),
        slice_manifest("m", "b"),
        holding("early", "m", 30, "of-early"),
        claim_manifest("of-early", has=("m/b",), users=("early",)),
        holding("late", "n", 90, "of-late"),
        claim_manifest("of-late", has=("n/a",), users=("late",)),
        *wanting("p", "q"),
    )

    assert ends(found) == ["early", "late"]
    assert found.text.startswith("The group fits about 01:30 UTC, if these 2 pods end as expected")


def test_a_gang_never_fits_while_the_claim_is_never_freed() -> None:
    """One of the pods that share it has no known end: a wrong time is not told."""
    found = asked(
        slice_manifest("n", "a", "b"),
        holding("first", "n", 30, "shared"),
        {
            **pod_manifest("second", nodeName="n", resourceClaims=using("shared")),
        },
        claim_manifest("shared", has=("n/a",), users=("first", "second")),
        *wanting("p", "q"),
    )

    assert found.time == ""
    assert found.text == (
        "The group does not fit once the running pod with a known end has ended either; "
        "1 other pod has no known end."
    )


DRIVER = "disk.example.com"


def disk(name: str, node: str = "", *, attached: bool = False, modes: str = "") -> list[Object]:
    """A claim with its volume, which only a node has, or which is attached there."""
    modes = modes or "ReadWriteOnce"
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {
            "accessModes": [modes],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": f"pv-{name}",
            "storageClassName": "",
        },
        "status": {"phase": "Bound"},
    }
    where = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}}
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": f"pv-{name}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": [modes],
            "claimRef": {"name": name, "namespace": "default"},
            "csi": {"driver": DRIVER, "volumeHandle": name},
            **({"nodeAffinity": affinity} if node and not attached else {}),
        },
    }
    if not attached:
        return [claim, volume]
    attachment = {
        "kind": "VolumeAttachment",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": f"at-{name}"},
        "spec": {
            "attacher": DRIVER,
            "nodeName": node,
            "source": {"persistentVolumeName": f"pv-{name}"},
        },
    }
    return [claim, volume, attachment]


def limit(node: str, count: int) -> Object:
    """A node holds so many volumes."""
    driver = {"name": DRIVER, "nodeID": node, "allocatable": {"count": count}}
    return {
        "kind": "CSINode",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": node},
        "spec": {"drivers": [driver]},
    }


def mounting(*claims: str) -> list[Object]:
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]


def test_a_volume_is_detached_once_the_last_pod_of_the_node_that_uses_it_has_ended() -> None:
    """Until then it counts against the node's limit, also where it is only attached."""
    found = asked(
        limit("n", 1),
        limit("m", 0),
        *disk("shared", "n", attached=True),
        ending("first", 30, nodeName="n", volumes=mounting("shared")),
        ending("second", 60, nodeName="n", volumes=mounting("shared")),
        *disk("own"),
        pod_manifest("p", volumes=mounting("own")),
    )

    assert ends(found) == ["first", "second"]
    assert found.time == "2026-01-01T01:00:00Z"


def test_what_is_attached_for_no_pod_stays_attached() -> None:
    found = asked(
        limit("n", 1),
        limit("m", 0),
        *disk("left", "n", attached=True),
        ending("first", 30, nodeName="n"),
        *disk("own"),
        pod_manifest("p", volumes=mounting("own")),
    )

    assert found.time == ""
    assert found.text.startswith("It does not fit once the running pod with a known end")


def test_members_of_a_gang_share_the_limit_of_a_node() -> None:
    """Each brings a volume; room for one is there, and for two once a pod has ended."""
    found = asked(
        limit("n", 2),
        limit("m", 0),
        *disk("busy", "n", attached=True),
        ending("first", 30, nodeName="n", volumes=mounting("busy")),
        *disk("of-p"),
        *disk("of-q"),
        *gang(
            2,
            pod_manifest("p", volumes=mounting("of-p")),
            pod_manifest("q", volumes=mounting("of-q")),
        ),
    )

    assert ends(found) == ["first"]
    assert found.text.startswith("The group fits about 00:30 UTC, if this pod ends")


def test_bound_volumes_of_members_keep_their_node() -> None:
    """Room on another node is of no use, however early it comes."""
    full = {"cpu": "4"}
    found = asked(
        *disk("of-p", "n"),
        *disk("of-q", "n"),
        ending("late", 60, nodeName="n", requests=full),
        ending("early", 10, nodeName="m", requests=full),
        *gang(
            2,
            pod_manifest("p", volumes=mounting("of-p"), requests={"cpu": "1"}),
            pod_manifest("q", volumes=mounting("of-q"), requests={"cpu": "1"}),
        ),
    )

    assert ends(found) == ["late"]
    assert found.time == "2026-01-01T01:00:00Z"
