"""Promise: pods are bound when their devices are ready, and get other devices if some fail."""

import pytest

from e2e.conftest import StartStowage
from e2e.support.api import ApiRefusedError
from e2e.support.cluster import Cluster
from e2e.support.devices import (
    CONTROLLERS as DEVICE_CONTROLLERS,
    RESOURCE,
    Devices,
    devices_of,
    gpu_class,
    make_device_pod,
    readers_of,
)
from e2e.support.objects import Json, make_nodes, make_pod
from e2e.support.waiting import wait_for
from e2e.test_devices import SECONDS, check

CONTROLLERS = DEVICE_CONTROLLERS
CONDITIONS = {
    "bindingConditions": ["example.com/attached"],
    "bindingFailureConditions": ["example.com/failed"],
    "bindsToNode": True,
}
"""Options of a device that the driver must attach before its pod is bound."""


@pytest.fixture(scope="module")
def shared_cluster(cluster_with_controllers: Cluster) -> Cluster:
    """A control plane with the controllers for claims."""
    return cluster_with_controllers


def test_binding_conditions_are_waited_for(
    cluster: Cluster, namespace: str, devices: Devices, run_stowage: StartStowage
) -> None:
    """The pod is bound when the driver reports the device; a failed device is replaced."""
    cluster.create_nodes(make_nodes(1))
    devices.offer("node-00000", 1, **CONDITIONS)
    devices.template(namespace, "one")
    run_stowage()

    cluster.create_pods([make_device_pod("p", namespace, template="one")])
    first = wait_for(lambda: _allocated(devices, namespace), "the claim to be allocated")
    assert first is not None, "it was waited for"
    assert cluster.unbound(namespace, "stowage") == ["p"]
    _report(cluster, first, "example.com/failed")
    second = wait_for(
        lambda: _allocated(devices, namespace, after=first), "the claim to be allocated anew"
    )
    assert second is not None, "it was waited for"
    _report(cluster, second, "example.com/attached")
    cluster.wait_until_bound(namespace)
    check(cluster, devices, namespace)


def test_a_device_that_is_never_made_ready_is_given_back(
    cluster: Cluster, namespace: str, devices: Devices, run_stowage: StartStowage
) -> None:
    """After the timeout the device is allocated again; the pod is bound when the driver reports."""
    cluster.create_nodes(make_nodes(1))
    devices.offer("node-00000", 1, **CONDITIONS)
    devices.template(namespace, "one")
    arguments = {"name": "DynamicResources", "args": {"bindingTimeout": "3s"}}
    run_stowage(
        configuration={"profiles": [{"schedulerName": "stowage", "pluginConfig": [arguments]}]}
    )

    cluster.create_pods([make_device_pod("p", namespace, template="one")])
    first = wait_for(lambda: _allocated(devices, namespace), "the claim to be allocated", SECONDS)
    assert first is not None, "it was waited for"
    wait_for(
        lambda: _allocated(devices, namespace, after=first), "it to be allocated anew", SECONDS
    )

    def is_bound() -> bool:
        """Report the device; this may be too late, when the device is already deallocated."""
        claim = _allocated(devices, namespace)
        if claim is not None and not claim["status"].get("devices"):
            try:
                _report(cluster, claim, "example.com/attached")
            except ApiRefusedError as error:
                if error.status not in (409, 422):
                    raise
        return not cluster.unbound(namespace, "stowage")

    wait_for(is_bound, "the pod to be bound", SECONDS)
    check(cluster, devices, namespace)


def test_an_extended_resource_has_a_claim_of_its_own(
    cluster: Cluster, namespace: str, devices: Devices, run_stowage: StartStowage
) -> None:
    """The scheduler creates the claim; if a device fails, it replaces the claim."""
    cluster.create_nodes(make_nodes(1))
    devices.offer("node-00000", 1, **CONDITIONS)
    resource = "example.com/accelerator"
    of_name = gpu_class()["spec"] | {"extendedResourceName": resource}
    devices.create("deviceclasses", "by-name", of_name)
    run_stowage()

    pod = make_pod("p", namespace=namespace)
    pod["spec"]["containers"][0]["resources"] = {"limits": {resource: "1"}}
    cluster.create_pods([pod])
    first = wait_for(lambda: _allocated(devices, namespace), "a claim to be made and allocated")
    assert first is not None, "it was waited for"
    assert cluster.unbound(namespace, "stowage") == ["p"]
    _report(cluster, first, "example.com/failed")

    def other() -> Json | None:
        claim = _allocated(devices, namespace)
        uid = first["metadata"]["uid"]
        return claim if claim is not None and claim["metadata"]["uid"] != uid else None

    second = wait_for(other, "another claim to be made")
    assert second is not None, "it was waited for"
    _report(cluster, second, "example.com/attached")
    cluster.wait_until_bound(namespace)
    [bound] = cluster.pods(namespace)
    made = bound["status"]["extendedResourceClaimStatus"]
    assert made["resourceClaimName"] == second["metadata"]["name"]
    assert [m["resourceName"] for m in made["requestMappings"]] == [resource]


def _allocated(devices: Devices, namespace: str, after: Json | None = None) -> Json | None:
    """Return a claim of one pod, once allocated; with ``after``, only if it was allocated since."""
    claim = next(iter(devices.claims(namespace)), {})
    if not devices_of(claim) or not readers_of(claim):
        return None
    stamp = claim["status"]["allocation"].get("allocationTimestamp")
    if after is not None and (
        stamp == after["status"]["allocation"].get("allocationTimestamp")
        or claim["status"].get("devices")
    ):
        return None
    return claim


def _report(cluster: Cluster, claim: Json, condition: str) -> None:
    """Write a condition of a claim's device, as its driver does."""
    [(driver, pool, device)] = devices_of(claim)
    entry = {
        "driver": driver,
        "pool": pool,
        "device": device,
        "conditions": [
            {
                "type": condition,
                "status": "True",
                "reason": "Reported",
                "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            }
        ],
    }
    meta = claim["metadata"]
    path = f"{RESOURCE}/namespaces/{meta['namespace']}/resourceclaims/{meta['name']}/status"
    cluster.run(cluster.api.patch(path, {"status": {"devices": [entry]}}))
