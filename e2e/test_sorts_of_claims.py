"""Promise: all kinds of requests and devices are allocated as the API defines.

The API server validates each allocation against the claim's spec.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.conftest import REPORTERS
from e2e.support.cluster import Cluster
from e2e.support.devices import (
    CLASS,
    CONTROLLERS as DEVICE_CONTROLLERS,
    DRIVER,
    RESOURCE,
    Devices,
    make_device_pod,
)
from e2e.support.objects import Json, make_nodes
from e2e.support.processes import Program
from e2e.support.rights import scheduler_kubeconfig
from e2e.support.stowage import start_stowage
from e2e.support.waiting import wait_for

CONTROLLERS = DEVICE_CONTROLLERS
SECONDS = 180
NODE = "node-00000"
WORN = {"key": "example.com/worn", "effect": "NoSchedule"}
NUMA = "numa.example.org/node"
POLICY = {"default": "1G", "validRange": {"min": "1G", "step": "1G"}}


@pytest.fixture(scope="module")
def shared_cluster(cluster_with_controllers: Cluster) -> Cluster:
    """A control plane with the controllers for claims."""
    return cluster_with_controllers


@dataclass
class Site:
    """A cluster with a scheduler, and pods that have a claim with their own name."""

    cluster: Cluster
    namespace: str
    devices: Devices

    def publish(self, name: str, where: Json, slices: int = 1, **content: Any) -> None:
        """Publish a slice; the first word of its name is the pool."""
        pool = {"name": name.partition(".")[0], "generation": 1, "resourceSliceCount": slices}
        spec = {"driver": DRIVER, "pool": pool, **where, **content}
        self.devices.create("resourceslices", name, spec)

    def offer(self, *devices: Json) -> None:
        """Create the only node, with these devices."""
        self.cluster.create_nodes(make_nodes(1))
        self.publish(NODE, {"nodeName": NODE}, devices=list(devices))

    def run(self, name: str, request: Json, **devices: Any) -> None:
        """Create a claim with one request, and its pod."""
        claim = {"devices": {"requests": [{"name": "r", **request}], **devices}}
        body = {"metadata": {"name": name}, "spec": claim}
        path = f"{RESOURCE}/namespaces/{self.namespace}/resourceclaims"
        self.cluster.run(self.cluster.api.post(path, body))
        self.cluster.create_pods([make_device_pod(name, self.namespace, claim=name)])

    def given(self, name: str) -> list[Json]:
        """Wait until a pod is bound; return the allocation results of its claim."""
        wait_for(lambda: self.node_of(name), f"{name} to be bound", SECONDS)
        return list(self.allocation(name)["devices"]["results"])

    def names(self, name: str) -> list[str]:
        """Wait until a pod is bound; return the names of its devices."""
        return [result["device"] for result in self.given(name)]

    def node_of(self, name: str) -> str:
        """Return the node of a pod; empty if unbound."""
        return str(self.cluster.pod(self.namespace, name)["spec"].get("nodeName", ""))

    def allocation(self, name: str) -> Json:
        """Return the allocation of a claim."""
        claims = {each["metadata"]["name"]: each for each in self.devices.claims(self.namespace)}
        return dict(claims[name]["status"]["allocation"])

    def waits(self, name: str) -> None:
        """Wait until the pod's condition says that no node has the claimed devices."""

        def is_told() -> bool:
            return any(
                event["regarding"]["name"] == name and "cannot allocate all claims" in event["note"]
                for event in self.cluster.events(self.namespace, "FailedScheduling")
            )

        wait_for(is_told, f"{name} to be told", SECONDS)
        assert not self.node_of(name)

    def end(self, *names: str) -> None:
        """Delete pods."""
        self.cluster.delete_pods(self.namespace, names)


@pytest.fixture(scope="module")
def daemon(shared_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A daemon for all tests of the module."""
    directory = tmp_path_factory.mktemp("daemon")
    program = start_stowage(scheduler_kubeconfig(shared_cluster), directory)
    yield program
    program.stop()


@pytest.fixture
def site(
    cluster: Cluster,
    namespace: str,
    daemon: Program,
    devices: Devices,
    request: pytest.FixtureRequest,
) -> Site:
    """A cluster with the daemon, but without nodes and devices."""
    request.node.stash[REPORTERS].append(lambda: f"--- stowage\n{daemon.tail(60)}")

    def are_free() -> bool:
        claims = cluster.run(cluster.api.list_items(f"{RESOURCE}/resourceclaims"))
        return not any(claim.get("status", {}).get("allocation") for claim in claims)

    # A controller deallocates the claims of the test before, whose devices have the same names.
    wait_for(are_free, "all devices to be free")
    return Site(cluster, namespace, devices)


def exactly(**wanted: Any) -> Json:
    """Build a request without alternatives."""
    return {"exactly": {"deviceClassName": CLASS, **wanted}}


def of_kind(kind: str) -> list[Json]:
    """Build a selector of devices of one kind."""
    return [{"cel": {"expression": f'device.attributes["{DRIVER}"].kind == "{kind}"'}}]


def device(name: str, kind: str = "any", **more: Any) -> Json:
    """Build a device with the attribute that the selectors use."""
    return {"name": name, "attributes": {"kind": {"string": kind}}, **more}


def test_all_devices_of_a_node(site: Site) -> None:
    """The claim gets all devices once none of them is in use."""
    site.offer(*(device(f"gpu-{i}") for i in range(3)))
    site.run("one", exactly())
    assert len(site.given("one")) == 1
    site.run("all", exactly(allocationMode="All"))
    site.waits("all")

    site.end("one")

    assert site.names("all") == ["gpu-0", "gpu-1", "gpu-2"]


def test_a_prioritized_list(site: Site) -> None:
    """The pod that comes after the first choice is allocated gets the second choice."""
    site.offer(device("gpu-0", "big"), device("gpu-1", "small"))
    choices = [
        {"name": kind, "deviceClassName": CLASS, "selectors": of_kind(kind)}
        for kind in ("big", "small")
    ]
    for name, chosen in (("first", "r/big"), ("second", "r/small")):
        site.run(name, {"firstAvailable": choices})
        assert [result["request"] for result in site.given(name)] == [chosen]


def test_devices_that_must_match(site: Site) -> None:
    """Both devices have the same NUMA node, although the first two free ones do not."""
    attributes = [{NUMA: {"int": i % 2}} for i in range(4)]
    site.offer(*({"name": f"gpu-{i}", "attributes": attributes[i]} for i in range(4)))
    for name, devices in (("even", ["gpu-0", "gpu-2"]), ("odd", ["gpu-1", "gpu-3"])):
        site.run(name, exactly(count=2), constraints=[{"matchAttribute": NUMA}])
        assert site.names(name) == devices


def test_admin_access(site: Site) -> None:
    """An administrator's pod gets access to a device in use, which stays allocated."""
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    site.cluster.run(site.cluster.api.patch(f"/api/v1/namespaces/{site.namespace}", label))
    site.offer(device("gpu-0"))
    site.run("user", exactly())
    assert site.names("user") == ["gpu-0"]
    site.run("monitor", exactly(adminAccess=True))
    [result] = site.given("monitor")
    assert (result["device"], result["adminAccess"]) == ("gpu-0", True)

    site.run("next", exactly())
    site.waits("next")
    site.end("user")
    assert site.names("next") == ["gpu-0"]


def test_a_tainted_device(site: Site) -> None:
    """A claim that tolerates the taint gets the device; others wait until the taint is removed."""
    site.offer(device("gpu-0", taints=[WORN]))
    site.run("careful", exactly())
    site.waits("careful")
    site.run("careless", exactly(tolerations=[{"key": WORN["key"], "operator": "Exists"}]))
    [result] = site.given("careless")
    assert [each["key"] for each in result["tolerations"]] == [WORN["key"]]

    site.end("careless")
    pool = {"name": NODE, "generation": 2, "resourceSliceCount": 1}
    renewed = {"spec": {"pool": pool, "devices": [device("gpu-0")]}}
    site.cluster.run(site.cluster.api.patch(f"{RESOURCE}/resourceslices/{NODE}", renewed))
    assert site.names("careful") == ["gpu-0"]


def test_partitions_of_a_device(site: Site) -> None:
    """Either the card or its two parts are allocated, since they consume the same counter."""

    def takes(count: int) -> list[Json]:
        return [{"counterSet": "card", "counters": {"parts": {"value": str(count)}}}]

    site.cluster.create_nodes(make_nodes(1))
    where = {"nodeName": NODE}
    parts = [device(f"part-{i}", "part", consumesCounters=takes(1)) for i in range(2)]
    whole = device("whole", "whole", consumesCounters=takes(2))
    counters = [{"name": "card", "counters": {"parts": {"value": "2"}}}]
    site.publish(f"{NODE}.devices", where, 2, devices=[whole, *parts])
    site.publish(f"{NODE}.counters", where, 2, sharedCounters=counters)

    site.run("part", exactly(selectors=of_kind("part")))
    assert site.names("part") == ["part-0"]
    site.run("card", exactly(selectors=of_kind("whole")))
    site.waits("card")
    site.run("other-part", exactly(selectors=of_kind("part")))
    assert site.names("other-part") == ["part-1"]

    site.end("part", "other-part")
    assert site.names("card") == ["whole"]


def test_a_device_that_claims_share(site: Site) -> None:
    """Each claim gets its capacity, rounded up by the driver's policy, while enough is left."""
    capacity = {"bandwidth": {"value": "10G", "requestPolicy": POLICY}}
    site.offer(device("nic-0", allowMultipleAllocations=True, capacity=capacity))
    asked = exactly(capacity={"requests": {"bandwidth": "4500M"}})
    for name in ("first", "second"):
        site.run(name, asked)
        [result] = site.given(name)
        assert result["shareID"]
        assert result["consumedCapacity"]["bandwidth"] in ("5G", "5000000000")

    site.run("third", asked)
    site.waits("third")
    site.end("first")
    assert site.names("third") == ["nic-0"]


def test_devices_that_belong_to_no_node(site: Site) -> None:
    """Devices belong to all nodes, to those with a label, or to one each; pods go there."""

    def of_zone(zone: str) -> Json:
        rule = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
        return {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}

    site.cluster.create_nodes(make_nodes(3))
    site.publish("fabric", {"allNodes": True}, devices=[device("port-0", "fabric")])
    site.publish("rack", {"nodeSelector": of_zone("zone-2")}, devices=[device("box-0", "rack")])
    mixed = [
        device("disk-0", "disk", nodeName="node-00002"),
        device("disk-1", "disk", nodeSelector=of_zone("zone-1")),
    ]
    site.publish("mixed", {"perDeviceNodeSelection": True}, devices=mixed)

    for name, kind, nodes in (
        ("everywhere", "fabric", {"node-00000", "node-00001", "node-00002"}),
        ("in-the-zone", "rack", {"node-00001"}),
        ("here", "disk", {"node-00000", "node-00002"}),
        ("there", "disk", {"node-00000", "node-00002"}),
    ):
        site.run(name, exactly(selectors=of_kind(kind)))
        site.given(name)
        assert site.node_of(name) in nodes
    assert "nodeSelector" not in site.allocation("everywhere")
    assert site.allocation("in-the-zone")["nodeSelector"] == of_zone("zone-2")
    assert site.node_of("here") != site.node_of("there")


def test_a_claim_that_was_allocated_where_its_pod_cannot_be(site: Site) -> None:
    """The unreserved claim is deallocated, and allocated again on another node."""
    site.cluster.create_nodes(make_nodes(2))
    for node in (NODE, "node-00001"):
        site.publish(node, {"nodeName": node}, devices=[device("gpu-0")])
    site.cluster.run(
        site.cluster.api.patch(f"/api/v1/nodes/{NODE}", {"spec": {"unschedulable": True}})
    )
    path = f"{RESOURCE}/namespaces/{site.namespace}/resourceclaims"
    body = {
        "metadata": {"name": "p", "finalizers": ["resource.kubernetes.io/delete-protection"]},
        "spec": {"devices": {"requests": [{"name": "r", **exactly()}]}},
    }
    site.cluster.run(site.cluster.api.post(path, body))
    here = {"key": "metadata.name", "operator": "In", "values": [NODE]}
    result = {"request": "r", "driver": DRIVER, "pool": NODE, "device": "gpu-0"}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
    }
    status = {"status": {"allocation": allocation}}
    site.cluster.run(site.cluster.api.patch(f"{path}/p/status", status))

    site.cluster.create_pods([make_device_pod("p", site.namespace, claim="p")])

    assert [result["pool"] for result in site.given("p")] == ["node-00001"]
    assert site.node_of("p") == "node-00001"
