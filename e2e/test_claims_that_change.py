"""Promise: no change to a claim during scheduling loses a device or a pod.

The proxy delays a write of the scheduler; the test changes the cluster; then the write continues.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.conftest import StartStowage
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
from e2e.support.faults import Answer, Hold
from e2e.support.objects import Json, make_nodes
from e2e.support.proxy import FaultProxy
from e2e.support.rights import scheduler_kubeconfig
from e2e.support.waiting import wait_for

CONTROLLERS = DEVICE_CONTROLLERS
MAX_READERS = 256
"""Maximum of reservedFor entries of one claim, enforced by the API server."""
SECONDS = 300
NODE = "node-00000"
ALLOCATION = ("PATCH", r"/resourceclaims/[^/]+/status")
BINDING = ("POST", r"/pods/first/binding")


@pytest.fixture(scope="module")
def shared_cluster(cluster_with_controllers: Cluster) -> Cluster:
    """A control plane with the controllers for claims."""
    return cluster_with_controllers


@dataclass
class Held:
    """A pod and its claim, both named `first`; the write of its allocation or binding is delayed.

    Attributes:
        go_on: lets the write continue.
    """

    cluster: Cluster
    namespace: str
    devices: Devices
    go_on: Callable[[], None]

    @property
    def path(self) -> str:
        """API path of the claim."""
        return f"{RESOURCE}/namespaces/{self.namespace}/resourceclaims/first"

    def claims(self) -> dict[str, Json]:
        """Return the claims by name."""
        return {c["metadata"]["name"]: c for c in self.devices.claims(self.namespace)}

    def change(self, change: Json) -> None:
        """Patch the claim."""
        self.cluster.run(self.cluster.api.patch(self.path, change))

    def another_gets_the_device(self) -> None:
        """Check that another pod gets the device and is bound."""
        self.devices.claim(self.namespace, "next")
        pod = make_device_pod("next", self.namespace, claim="next")
        self.cluster.create_pods([pod])
        self.cluster.wait_until_bound(self.namespace, timeout_seconds=SECONDS)
        assert readers_of(self.claims()["next"]) == ["next"]


@pytest.fixture
def held(
    cluster: Cluster,
    namespace: str,
    devices: Devices,
    run_stowage: StartStowage,
    tmp_path: Path,
) -> Iterator[Held]:
    """One node with one device, which is never allocated to two claims."""
    with on_its_way(cluster, namespace, devices, run_stowage, tmp_path, ALLOCATION) as found:
        yield found


@contextmanager
def on_its_way(
    cluster: Cluster,
    namespace: str,
    devices: Devices,
    run_stowage: StartStowage,
    tmp_path: Path,
    write: tuple[str, str],
) -> Iterator[Held]:
    """Delay one write of the scheduler, given by its method and path."""
    method, path = write
    cluster.create_nodes(make_nodes(1))
    devices.offer(NODE, 1)
    hold = Hold()
    with FaultProxy(scheduler_kubeconfig(cluster)) as proxy, devices.watched() as watch:
        proxy.add(hold, method=method, path=path, times=1)
        run_stowage(proxy.kubeconfig(tmp_path / "proxy.kubeconfig"))
        cluster.create_pods([make_device_pod("first", namespace, claim="first")])
        devices.claim(namespace, "first")
        wait_for(hold.arrived.is_set, "the write to be on its way", SECONDS)
        yield Held(cluster, namespace, devices, hold.released.set)
        hold.released.set()
    assert watch.doubles == []


def test_the_claim_was_written_to_in_between(held: Held) -> None:
    """The write fails with 409; the allocation is then written to the changed claim."""
    held.change({"metadata": {"labels": {"written": "in-between"}}})
    held.go_on()

    held.cluster.wait_until_bound(held.namespace, timeout_seconds=SECONDS)
    claim = held.claims()["first"]
    assert claim["metadata"]["labels"] == {"written": "in-between"}
    assert readers_of(claim) == ["first"]
    assert [pool for _, pool, _ in devices_of(claim)] == [NODE]


def test_the_claim_is_deleted(held: Held) -> None:
    """The pod waits while another pod gets the device; with a new claim the pod is bound."""
    cluster, namespace = held.cluster, held.namespace
    cluster.run(cluster.api.delete(held.path))
    held.go_on()

    wait_for(lambda: "first" not in held.claims(), "the claim to go", SECONDS)
    assert cluster.unbound(namespace, "stowage") == ["first"]
    held.devices.renew(NODE, ["gpu-0", "gpu-1"], 2)
    held.devices.claim(namespace, "first")
    cluster.wait_until_bound(namespace, timeout_seconds=SECONDS)
    held.another_gets_the_device()


def test_the_pod_is_deleted(held: Held) -> None:
    """The next pod gets the device."""
    held.cluster.delete_pods(held.namespace, ["first"])
    held.go_on()

    held.another_gets_the_device()


def test_the_pod_is_deleted_before_it_is_bound(
    cluster: Cluster,
    namespace: str,
    devices: Devices,
    run_stowage: StartStowage,
    tmp_path: Path,
) -> None:
    """The controller releases the allocation; the next pod gets the device."""
    with on_its_way(cluster, namespace, devices, run_stowage, tmp_path, BINDING) as held:
        assert readers_of(held.claims()["first"]) == ["first"]
        cluster.delete_pods(namespace, ["first"])
        held.go_on()

        held.another_gets_the_device()


def test_the_pod_is_deleted_after_its_binding_was_refused(
    cluster: Cluster,
    namespace: str,
    devices: Devices,
    run_stowage: StartStowage,
    tmp_path: Path,
) -> None:
    """It never gets another attempt; the controller releases the allocation."""
    method, path = BINDING
    cluster.create_nodes(make_nodes(1))
    devices.offer(NODE, 1)
    with FaultProxy(scheduler_kubeconfig(cluster)) as proxy, devices.watched() as watch:
        proxy.add(Answer(403), method=method, path=path)
        run_stowage(proxy.kubeconfig(tmp_path / "proxy.kubeconfig"))
        held = Held(cluster, namespace, devices, lambda: None)
        cluster.create_pods([make_device_pod("first", namespace, claim="first")])
        devices.claim(namespace, "first")
        wait_for(
            lambda: cluster.events(namespace, "FailedScheduling", about="first"), "the refusal"
        )
        assert readers_of(held.claims()["first"]) == ["first"]
        cluster.delete_pods(namespace, ["first"])

        held.another_gets_the_device()
        assert devices_of(held.claims()["first"]) == []
    assert watch.doubles == []


def test_the_class_is_deleted(held: Held) -> None:
    """The allocation continues; the next pod waits for the class."""
    cluster, namespace = held.cluster, held.namespace
    held.devices.renew(NODE, ["gpu-0", "gpu-1"], 2)
    path = f"{RESOURCE}/deviceclasses/gpu"
    cluster.run(cluster.api.delete(path))
    held.go_on()
    cluster.wait_until_bound(namespace, timeout_seconds=SECONDS)

    held.devices.claim(namespace, "next")
    cluster.create_pods([make_device_pod("next", namespace, claim="next")])
    told = wait_for(
        lambda: cluster.events(namespace, "FailedScheduling", about="next"), "next to be told"
    )
    assert "device class gpu does not exist" in told[-1]["note"]
    cluster.run(cluster.api.post(f"{RESOURCE}/deviceclasses", gpu_class()))
    cluster.wait_until_bound(namespace, timeout_seconds=SECONDS)


def test_more_pods_than_a_claim_can_have(
    cluster: Cluster, namespace: str, devices: Devices, run_stowage: StartStowage
) -> None:
    """The API server rejects the last pod's reservation; the pod waits until another pod ends."""
    cluster.create_nodes(make_nodes(1, allocatable={"pods": "1000", "cpu": "64"}))
    devices.offer(NODE, 1)
    devices.claim(namespace, "shared")
    run_stowage()
    names = [f"p-{i:03}" for i in range(MAX_READERS + 1)]
    cluster.create_pods([make_device_pod(name, namespace, claim="shared") for name in names])
    cluster.wait_until_bound(namespace, but=1, timeout_seconds=SECONDS)

    def refused() -> bool:
        events = cluster.events(namespace, "FailedScheduling")
        return any("add reservation to claim" in event["note"] for event in events)

    wait_for(refused, "the last one to be told", SECONDS)
    [waits] = cluster.unbound(namespace, "stowage")
    [claim] = devices.claims(namespace)
    assert sorted(readers_of(claim)) == sorted(set(names) - {waits})

    cluster.delete_pods(namespace, [next(name for name in names if name != waits)])
    cluster.wait_until_bound(namespace, timeout_seconds=SECONDS)
    [claim] = devices.claims(namespace)
    assert waits in readers_of(claim)
