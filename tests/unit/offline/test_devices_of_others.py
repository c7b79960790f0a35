"""Capacity, what-if and added nodes count devices, and make and free claims as a cluster would."""

from typing import Any

import pytest

from scheduler.tools.offline import hypothetical_changes as changes
from scheduler.tools.offline.capacity import Capacity, capacity_of
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.copied_claims import claims_in
from scheduler.tools.offline.hypothetical_changes import copy_of
from scheduler.tools.offline.reading import ClusterObjects, objects_from_documents
from scheduler.tools.offline.what_if import HypotheticalChange, WhatIfResult, what_if
from tests.support.device_manifests import (
    Object,
    claim_manifest,
    class_manifest,
    made_from,
    request,
    slice_manifest,
    template_manifest,
    using,
)
from tests.support.manifests import node_manifest, pod_manifest


def read(*objects: Object) -> ClusterObjects:
    documents = [class_manifest(), *objects]
    return objects_from_documents((f"o{i}", raw) for i, raw in enumerate(documents))


def capacity(*objects: Object) -> Capacity:
    """For the pod p."""
    profiles, found = Profiles(None), read(*objects)
    pod = next(pod for pod in found.pods if pod.name == "p")
    pods = list(found.pods)
    found.pods = [each for each in pods if each.node_name]
    engine = profiles.load(found).engine
    return capacity_of(engine, profiles.framework_of(pod), pod, pods)


def asked(found: ClusterObjects, *wanted: HypotheticalChange) -> WhatIfResult:
    return what_if(Profiles(None), found, wanted)


def owned(name: str, template: str, *has: str, node: str = "") -> list[Object]:
    """A pod of a controller with a claim made from a template, and its devices if it has any."""
    pod = pod_manifest(
        name, resourceClaims=made_from(template), **({"nodeName": node} if node else {})
    )
    pod["metadata"]["uid"] = name
    owner = {"kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    claim = claim_manifest(f"{name}-claim", has=has, users=(name,) if has else ())
    owner = {"kind": "Pod", "name": name, "uid": name, "controller": True}
    claim["metadata"]["ownerReferences"] = [owner]
    statuses = [{"name": template, "resourceClaimName": f"{name}-claim"}]
    pod["status"] = {"resourceClaimStatuses": statuses}
    return [pod, claim]


def test_as_many_pods_fit_as_there_are_devices_for() -> None:
    """Each with claims of its own; those that are in use count, and so does what is short."""
    found = capacity(
        node_manifest("n"),
        node_manifest("m"),
        slice_manifest("n", "a", "b", "c", "d", "e"),
        slice_manifest("m", "a", "b"),
        template_manifest("two", request(count=2)),
        *owned("running", "one", "m/a", node="m"),
        pod_manifest("p", resourceClaims=made_from("two")),
    )

    assert (found.fits, found.nodes) == (2, {"n": 2})
    assert found.limits == {"cannot allocate all claims": 2}
    assert found.fragmentation["cpu"] < 1


def test_a_pod_like_one_that_runs_has_claims_of_its_own() -> None:
    found = capacity(
        node_manifest("n"),
        slice_manifest("n", "a", "b", "c"),
        *owned("p", "one", "n/a", node="n"),
    )

    assert found.fits == 2


def test_pods_that_share_a_claim_take_no_more_devices() -> None:
    """As many as the processors of its node allow."""
    found = capacity(
        node_manifest("n", allocatable={"cpu": "2"}),
        node_manifest("m"),
        slice_manifest("n", "a"),
        slice_manifest("m", "a"),
        claim_manifest("shared", has=("n/a",), users=("other",)),
        pod_manifest("p", requests={"cpu": "500m"}, resourceClaims=using("shared")),
    )

    assert found.nodes == {"n": 4}


def test_a_drained_pod_gives_its_devices_back_and_gets_others() -> None:
    objects = read(
        node_manifest("n"),
        node_manifest("m"),
        slice_manifest("n", "a", "b"),
        slice_manifest("m", "a"),
        *owned("x", "one", "n/a", node="n"),
        *owned("y", "one", "n/b", node="n"),
    )

    found = asked(objects, lambda o: changes.drain(o, "n"))

    assert [(p.node, p.came_from) for p in found.placements] == [("m", "n")]
    assert [h.message.partition(" still")[0] for h in found.homeless] == [
        "0/2 nodes are available: 1 cannot allocate all claims, 1 node(s) were unschedulable."
    ]


@pytest.mark.parametrize(("users", "left"), [(("x",), None), (("x", "other"), 1)])
def test_a_shared_claim_is_free_when_the_last_pod_goes(users: tuple[str, ...], left: Any) -> None:
    pod = pod_manifest("x", resourceClaims=using("shared"), nodeName="n")
    pod["metadata"]["uid"] = "x"
    objects = read(node_manifest("n"), pod, claim_manifest("shared", has=("n/a",), users=users))

    changes.delete(objects, "pod/x")

    status = claims_in(objects).devices["default/shared"].status
    assert (status.allocation is None) == (left is None)
    assert len(status.reserved_for) == (left or 0)


def test_more_pods_of_a_workload_have_claims_and_those_that_go_take_them_along() -> None:
    more = read(
        node_manifest("n"), slice_manifest("n", "a", "b"), *owned("x", "one", "n/a", node="n")
    )
    found = asked(more, lambda o: changes.scale(o, "replicaset/rs", 3))

    assert [p.node for p in found.placements] == ["n"]
    assert [h.message.partition(" still")[0] for h in found.homeless] == [
        "0/1 nodes are available: 1 cannot allocate all claims."
    ]
    changes.scale(more, "replicaset/rs", 0)
    assert not claims_in(more).devices


def test_added_nodes_have_devices_like_the_node_that_they_are_like() -> None:
    """Of the same pools, with the same number of slices; not those that are in use there."""
    waiting = owned("y", "one")
    objects = read(
        node_manifest("n"), slice_manifest("n", "a"), *owned("x", "one", "n/a", node="n"), *waiting
    )

    found = asked(objects, lambda o: changes.add_nodes(o, 1, "n"))

    assert [(p.pod, p.node) for p in found.placements] == [("default/y", "n-new-0")]


def test_a_victim_that_is_made_again_has_a_claim_of_its_own() -> None:
    """Its old one is not taken for the new one's."""
    small = owned("x", "one", "n/a", node="n")
    small[0]["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]
    objects = read(
        node_manifest("n"),
        node_manifest("m"),
        slice_manifest("n", "a"),
        slice_manifest("m", "a"),
        *small,
        pod_manifest(
            "big", requests={"cpu": "3"}, priority=10, nodeSelector={"kubernetes.io/hostname": "n"}
        ),
    )

    found = asked(objects)

    assert [(p.pod, p.node) for p in found.placements] == [("default/big", "n"), ("default/x", "m")]


def test_an_applied_claim_keeps_its_devices() -> None:
    pod = pod_manifest("x", resourceClaims=using("shared"), nodeName="n")
    objects = read(node_manifest("n"), pod, claim_manifest("shared", has=("n/a",), users=("x",)))

    changes.apply(objects, read(claim_manifest("shared"), claim_manifest("other")))

    claims = claims_in(objects).devices
    assert claims["default/shared"].status.allocation is not None
    assert claims["default/other"].status.allocation is None


def test_a_copy_of_a_pod_without_claims_is_as_it_was() -> None:
    objects = read(node_manifest("n"), pod_manifest("p"))
    profiles = Profiles(None)
    engine = profiles.load(objects).engine

    assert capacity_of(
        engine, profiles.framework_of(objects.pods[0]), copy_of(objects.pods[0], "q"), []
    ).fits
