"""What pods hold beside room: it is free once they have ended, and taken again afterwards."""

from typing import Any

import pytest

from scheduler.kernel.answers.estimate import estimate
from scheduler.kernel.answers.waiting_model import Estimate
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.framework.steps import finished
from scheduler.tools.offline.cluster import Profiles
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


def asked(*objects: Object) -> Estimate:
    """What is estimated for the pod p on the nodes n and m; nothing is changed by it."""
    documents = [class_manifest(), node_manifest("n"), node_manifest("m"), *objects]
    profiles = Profiles(None)
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
