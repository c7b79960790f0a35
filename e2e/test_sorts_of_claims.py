"""Promise: all that a claim can ask for, and a driver can offer, is allocated as it was meant.

What is written must be accepted by the API server, which compares a claim's status with its
specification and refuses what does not fit together.
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
    """A control plane whose controllers look after claims."""
    return cluster_with_controllers


@dataclass
class Site:
    """A cluster with a scheduler, and pods with a claim of their own name each."""

    cluster: Cluster
    namespace: str
    devices: Devices

    def publish(self, name: str, where: Json, slices: int = 1, **content: Any) -> None:
        """Publishes a slice of the pool whose name is the first word of its own."""
        pool = {"name": name.partition(".")[0], "generation": 1, "resourceSliceCount": slices}
        spec = {"driver": DRIVER, "pool": pool, **where, **content}
        self.devices.create("resourceslices", name, spec)

    def offer(self, *devices: Json) -> None:
        """Makes the one node, with these devices."""
        self.cluster.create_nodes(make_nodes(1))
        self.publish(NODE, {"nodeName": NODE}, devices=list(devices))

    def run(self, name: str, request: Json, **devices: Any) -> None:
        """Creates a claim with one request, and its pod."""
        claim = {"devices": {"requests": [{"name": "r", **request}], **devices}}
        body = {"metadata": {"name": name}, "spec": claim}
        path = f"{RESOURCE}/namespaces/{self.namespace}/resourceclaims"
        self.cluster.run(self.cluster.api.post(path, body))
        self.cluster.create_pods([make_device_pod(name, self.namespace, claim=name)])

    def given(self, name: str) -> list[Json]:
        """Waits until a pod has a node, and returns what its claim was given."""
        wait_for(lambda: self.node_of(name), f"{name} to be bound", SECONDS)
        return list(self.allocation(name)["devices"]["results"])

    def names(self, name: str) -> list[str]:
        """The same, devices by their names."""
        return [result["device"] for result in self.given(name)]

    def node_of(self, name: str) -> str:
        """Where a pod is; empty while it waits."""
        return str(self.cluster.pod(self.namespace, name)["spec"].get("nodeName", ""))

    def allocation(self, name: str) -> Json:
        """What a claim says of its devices."""
        claims = {each["metadata"]["name"]: each for each in self.devices.claims(self.namespace)}
        return dict(claims[name]["status"]["allocation"])

    def waits(self, name: str) -> None:
        """Waits until a pod was told that no node has what its claim asks for."""

        def is_told() -> bool:
            return any(
                event["regarding"]["name"] == name and "cannot allocate all claims" in event["note"]
                for event in self.cluster.events(self.namespace, "FailedScheduling")
            )

        wait_for(is_told, f"{name} to be told", SECONDS)
        assert not self.node_of(name)

    def end(self, *names: str) -> None:
        """Deletes pods."""
        self.cluster.delete_pods(self.namespace, names)


@pytest.fixture(scope="module")
def daemon(shared_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """One for all tests."""
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
    """No nodes, no devices, and the daemon."""
    request.node.stash[REPORTERS].append(lambda: f"--- stowage\n{daemon.tail(60)}")
    return Site(cluster, namespace, devices)


def exactly(**wanted: Any) -> Json:
    """A request without alternatives."""
    return {"exactly": {"deviceClassName": CLASS, **wanted}}


def of_kind(kind: str) -> list[Json]:
    """A selector of the devices of a kind."""
    return [{"cel": {"expression": f'device.attributes["{DRIVER}"].kind == "{kind}"'}}]


def device(name: str, kind: str = "any", **more: Any) -> Json:
    """A device with the attribute that selectors ask for."""
    return {"name": name, "attributes": {"kind": {"string": kind}}, **more}


def test_all_devices_of_a_node(site: Site) -> None:
    """They are given when none of them is in use any more."""
    site.offer(*(device(f"gpu-{i}") for i in range(3)))
    site.run("one", exactly())
    assert len(site.given("one")) == 1
    site.run("all", exactly(allocationMode="All"))
    site.waits("all")

    site.end("one")

    assert site.names("all") == ["gpu-0", "gpu-1", "gpu-2"]


def test_a_prioritized_list(site: Site) -> None:
    """The second choice is for the pod that comes when the first one is given away."""
    site.offer(device("gpu-0", "big"), device("gpu-1", "small"))
    choices = [
        {"name": kind, "deviceClassName": CLASS, "selectors": of_kind(kind)}
        for kind in ("big", "small")
    ]
    for name, chosen in (("first", "r/big"), ("second", "r/small")):
        site.run(name, {"firstAvailable": choices})
        assert [result["request"] for result in site.given(name)] == [chosen]


def test_devices_that_must_match(site: Site) -> None:
    """Two of one NUMA node, though the first two that are free are of different ones."""
    attributes = [{NUMA: {"int": i % 2}} for i in range(4)]
    site.offer(*({"name": f"gpu-{i}", "attributes": attributes[i]} for i in range(4)))
    for name, devices in (("even", ["gpu-0", "gpu-2"]), ("odd", ["gpu-1", "gpu-3"])):
        site.run(name, exactly(count=2), constraints=[{"matchAttribute": NUMA}])
        assert site.names(name) == devices


def test_admin_access(site: Site) -> None:
    """A device in use is shown to an administrator's pod, and is in use no less."""
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
    """A claim that tolerates the taint gets it; others wait until the taint is gone."""
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
    """A card, or its two parts, since all take from the same counter."""

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
    """Each takes what it asked for, rounded up as the driver wants it, while there is enough."""
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
    """Of all nodes, of those with a label, or each of its own: the pod goes where they are."""

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
    """No other pod has it, so that it is given back, and allocated on another node."""
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
