"""Promise: pods with claims get devices, and no device has two claims, whatever fails meanwhile."""

from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.devices import (
    CONTROLLERS as DEVICE_CONTROLLERS,
    Devices,
    devices_of,
    gpu_class,
    make_device_pod,
    readers_of,
)
from e2e.support.faults import Hold
from e2e.support.objects import Json, make_nodes, make_pod
from e2e.support.proxy import FaultProxy
from e2e.support.rights import scheduler_kubeconfig
from e2e.support.waiting import wait_for
from e2e.test_explain import answers, ask
from e2e.test_pod_groups import END, KEEPS_ROOM

CONTROLLERS = DEVICE_CONTROLLERS
SECONDS = 300
"""Timeout until everything is bound or deleted after a fault."""


@pytest.fixture(scope="module")
def shared_cluster(cluster_with_controllers: Cluster) -> Cluster:
    """A control plane with the controllers for claims."""
    return cluster_with_controllers


def offer(cluster: Cluster, devices: Devices, nodes: int, each: int) -> list[str]:
    """Create nodes with this many devices each; return their names."""
    made = make_nodes(nodes)
    cluster.create_nodes(made)
    names = [node["metadata"]["name"] for node in made]
    for name in names:
        devices.offer(name, each)
    return names


def check(cluster: Cluster, devices: Devices, namespace: str) -> None:
    """Check that pods are on the nodes of their devices, which no other claim has."""
    pods = {pod["metadata"]["name"]: pod for pod in cluster.pods(namespace)}
    claims = {claim["metadata"]["name"]: claim for claim in devices.claims(namespace)}
    held = [device for claim in claims.values() for device in devices_of(claim)]
    assert len(held) == len(set(held))
    for name, pod in pods.items():
        for entry in pod["spec"].get("resourceClaims", ()):
            claim = claims[_claim_of(pod, entry)]
            assert name in readers_of(claim)
            assert {pool for _, pool, _ in devices_of(claim)} == {pod["spec"]["nodeName"]}


def _claim_of(pod: Json, entry: Json) -> str:
    if "resourceClaimName" in entry:
        return str(entry["resourceClaimName"])
    made = {each["name"]: each for each in pod["status"]["resourceClaimStatuses"]}
    return str(made[entry["name"]]["resourceClaimName"])


def check_nothing_is_left(cluster: Cluster, devices: Devices, namespace: str) -> None:
    """Delete the pods; check that their claims are deleted or deallocated."""
    cluster.delete_pods(namespace)

    def left() -> list[str]:
        return [
            claim["metadata"]["name"]
            for claim in devices.claims(namespace)
            if claim["metadata"].get("ownerReferences") or claim.get("status")
        ]

    wait_for(lambda: not left(), "the claims to be given back", SECONDS, every_seconds=0.2)


def test_each_pod_of_a_template_gets_a_device_of_its_own(
    cluster: Cluster, namespace: str, devices: Devices, run_stowage: StartStowage
) -> None:
    """All devices are allocated; the next pod waits, says why, and gets the first freed device."""
    offer(cluster, devices, 4, 2)
    devices.template(namespace, "one")
    run_stowage()
    with devices.watched() as watch:
        pods = [make_device_pod(f"p-{i}", namespace, template="one") for i in range(8)]
        cluster.create_pods(pods)
        cluster.wait_until_bound(namespace)
        check(cluster, devices, namespace)

        cluster.create_pods([make_device_pod("late", namespace, template="one")])
        events = wait_for(
            lambda: cluster.events(namespace, "FailedScheduling", about="late"), "late to be told"
        )
        assert "4 cannot allocate all claims" in events[-1]["note"]

        cluster.delete_pods(namespace, ["p-3"])
        cluster.wait_until_bound(namespace)
        check(cluster, devices, namespace)
        check_nothing_is_left(cluster, devices, namespace)

    assert watch.doubles == []
    assert watch.allocations == 9


def test_devices_are_kept_until_the_last_pod_of_a_shared_claim_has_ended(
    cluster: Cluster, namespace: str, devices: Devices, run_stowage: StartStowage
) -> None:
    """The free one of two devices stays free, and a pod that waits for both gets them."""
    offer(cluster, devices, 1, 2)
    devices.claim(namespace, "shared")
    devices.template(namespace, "one")
    devices.template(namespace, "two", count=2)
    run_stowage(configuration=KEEPS_ROOM)
    users = [make_device_pod(name, namespace, claim="shared") for name in ("first", "second")]
    for pod in users:
        pod["metadata"]["annotations"] = {"stowage.dev/expected-end": END}
    cluster.create_pods(users)
    cluster.wait_until_bound(namespace)
    cluster.create_pods([make_device_pod("big", namespace, template="two")])

    def message(name: str) -> str:
        conditions = cluster.pod(namespace, name).get("status", {}).get("conditions") or []
        return next((str(each.get("message", "")) for each in conditions), "")

    wait_for(lambda: message("big").endswith(f"expected start {END}"), "devices to be kept")
    cluster.create_pods([make_device_pod("small", namespace, template="one")])
    wait_for(lambda: "cannot allocate all claims" in message("small"), "small to be told")

    cluster.delete_pods(namespace, ["first"])
    wait_for(lambda: len(readers_of(_shared(devices, namespace))) == 1, "the claim to be shared")
    assert message("big").endswith(f"expected start {END}")
    cluster.delete_pods(namespace, ["second"])
    cluster.wait_until_bound(namespace, but=1)

    assert cluster.pod(namespace, "big")["spec"].get("nodeName")
    small = cluster.pod(namespace, "small")
    assert not small["spec"].get("nodeName")


def _shared(devices: Devices, namespace: str) -> Json:
    found = devices.claims(namespace)
    return next(each for each in found if each["metadata"]["name"] == "shared")


def test_pods_that_share_a_claim_are_on_one_node(
    cluster: Cluster, namespace: str, devices: Devices, run_stowage: StartStowage
) -> None:
    """The first pod gets the node of the device, the others follow; at last the device is free."""
    offer(cluster, devices, 3, 1)
    devices.claim(namespace, "shared")
    run_stowage()
    with devices.watched() as watch:
        pods = [make_device_pod(f"p-{i}", namespace, claim="shared") for i in range(5)]
        cluster.create_pods(pods)
        cluster.wait_until_bound(namespace)
        check(cluster, devices, namespace)

        [claim] = devices.claims(namespace)
        assert sorted(readers_of(claim)) == [f"p-{i}" for i in range(5)]
        check_nothing_is_left(cluster, devices, namespace)

    assert watch.doubles == []
    assert watch.allocations == 1


def test_a_device_that_goes_while_it_is_reserved(
    cluster: Cluster,
    namespace: str,
    devices: Devices,
    run_stowage: StartStowage,
    tmp_path: Path,
) -> None:
    """The allocation stays; no further pod gets the device, and no pod is stuck."""
    [node] = offer(cluster, devices, 1, 2)
    devices.template(namespace, "one")
    held = Hold()
    with FaultProxy(scheduler_kubeconfig(cluster)) as proxy, devices.watched() as watch:
        proxy.add(held, method="PUT|PATCH", path=r"/resourceclaims/[^/]+/status", times=1)
        run_stowage(proxy.kubeconfig(tmp_path / "proxy.kubeconfig"))
        cluster.create_pods([make_device_pod("first", namespace, template="one")])
        wait_for(held.arrived.is_set, "the allocation to be on its way")
        devices.renew(node, ["gpu-1"], 2)
        cluster.create_pods(
            [make_device_pod(f"then-{i}", namespace, template="one") for i in range(2)]
        )
        held.released.set()

        cluster.wait_until_bound(namespace, but=1)
        waits = cluster.unbound(namespace, "stowage")
        assert waits != ["first"]
        cluster.delete_pods(namespace, ["first"])
        wait_for(lambda: len(devices.claims(namespace)) == 2, "the claim of first to go")
        assert cluster.unbound(namespace, "stowage") == waits
        devices.renew(node, ["gpu-0", "gpu-1"], 3)
        cluster.wait_until_bound(namespace)
        check(cluster, devices, namespace)
        check_nothing_is_left(cluster, devices, namespace)

    assert watch.doubles == []


@pytest.mark.parametrize(
    "held_at",
    [
        pytest.param(("PUT|PATCH", r"/resourceclaims/[^/]+/status"), id="nothing written"),
        pytest.param(("POST", r"/pods/p-0/binding"), id="claim written, pod not"),
    ],
)
def test_the_scheduler_is_killed_between_two_writes(
    cluster: Cluster,
    namespace: str,
    devices: Devices,
    run_stowage: StartStowage,
    tmp_path: Path,
    held_at: tuple[str, str],
) -> None:
    """The next scheduler keeps written allocations and allocates the other devices."""
    offer(cluster, devices, 3, 1)
    devices.template(namespace, "one")
    method, path = held_at
    held = Hold()
    with FaultProxy(scheduler_kubeconfig(cluster)) as proxy, devices.watched() as watch:
        proxy.add(held, method=method, path=path, times=1)
        first = run_stowage(proxy.kubeconfig(tmp_path / "proxy.kubeconfig"), name="first")
        cluster.create_pods([make_device_pod("p-0", namespace, template="one")])
        wait_for(held.arrived.is_set, "the request to be on its way")
        first.kill()
        run_stowage(name="second")
        pods = [make_device_pod(f"p-{i}", namespace, template="one") for i in range(1, 3)]
        cluster.create_pods(pods)
        cluster.wait_until_bound(namespace, timeout_seconds=SECONDS)
        held.released.set()
        check(cluster, devices, namespace)
        check_nothing_is_left(cluster, devices, namespace)

    assert watch.doubles == []


@pytest.mark.parametrize(
    "held_at",
    [
        pytest.param(("PUT|PATCH", r"/resourceclaims/[^/]+/status"), id="claim made"),
        pytest.param(("PUT|PATCH", r"/pods/p/status"), id="claim allocated"),
        pytest.param(("POST", r"/pods/p/binding"), id="pod told, not bound"),
    ],
)
def test_the_scheduler_is_killed_with_a_claim_of_its_own(
    cluster: Cluster,
    namespace: str,
    devices: Devices,
    run_stowage: StartStowage,
    tmp_path: Path,
    held_at: tuple[str, str],
) -> None:
    """The next scheduler ends with one claim for the extended resource, whatever was written."""
    offer(cluster, devices, 2, 1)
    of_name = gpu_class()["spec"] | {"extendedResourceName": "example.com/accelerator"}
    devices.create("deviceclasses", "by-name", of_name)
    method, path = held_at
    held = Hold()
    pod = make_pod("p", namespace=namespace)
    pod["spec"]["containers"][0]["resources"] = {"limits": {"example.com/accelerator": "1"}}
    with FaultProxy(scheduler_kubeconfig(cluster)) as proxy, devices.watched() as watch:
        proxy.add(held, method=method, path=path, times=1)
        first = run_stowage(proxy.kubeconfig(tmp_path / "proxy.kubeconfig"), name="first")
        cluster.create_pods([pod])
        wait_for(held.arrived.is_set, "the request to be on its way", SECONDS)
        first.kill()
        run_stowage(name="second")
        cluster.wait_until_bound(namespace, timeout_seconds=SECONDS)
        held.released.set()

        wait_for(lambda: len(devices.claims(namespace)) == 1, "one claim to be left", SECONDS)
        [claim] = devices.claims(namespace)
        bound = cluster.pod(namespace, "p")
        made = bound["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
        assert claim["metadata"]["name"] == made
        assert readers_of(claim) == ["p"]
        assert [pool for _, pool, _ in devices_of(claim)] == [bound["spec"]["nodeName"]]
        check_nothing_is_left(cluster, devices, namespace)

    assert watch.doubles == []


def test_the_other_replica_takes_over_in_the_middle(
    cluster: Cluster, namespace: str, devices: Devices, run_stowage: StartStowage
) -> None:
    """The leader dies while it allocates devices, all of which are requested."""
    offer(cluster, devices, 40, 5)
    devices.template(namespace, "one")
    options: dict[str, Any] = {
        "leader_elect": True,
        "arguments": [
            "--leader-elect-lease-duration=12s",
            "--leader-elect-renew-deadline=9s",
            "--leader-elect-retry-period=500ms",
            "--leader-elect-resource-namespace=default",
            f"--leader-elect-resource-name={namespace}",
        ],
    }
    leader = run_stowage(name="leader", **options)
    wait_for(lambda: "Leading" in leader.tail(100), "the first to lead")
    run_stowage(name="standby", **options)
    with devices.watched() as watch:
        pods = [make_device_pod(f"p-{i:03}", namespace, template="one") for i in range(200)]
        cluster.create_pods(pods)
        wait_for(lambda: watch.allocations > 40, "some devices to be given out", SECONDS, 0.005)
        leader.kill()
        cluster.wait_until_bound(namespace, timeout_seconds=SECONDS)
        check(cluster, devices, namespace)
        check_nothing_is_left(cluster, devices, namespace)

    assert watch.doubles == []


def test_pools_are_renewed_under_load(
    cluster: Cluster, namespace: str, devices: Devices, run_stowage: StartStowage
) -> None:
    """Each generation has one device more, while pods are created and deleted."""
    nodes = offer(cluster, devices, 20, 2)
    devices.template(namespace, "one")
    run_stowage()
    with devices.watched() as watch:
        for generation in range(2, 5):
            names = [f"{namespace}-{generation}-{i}" for i in range(40)]
            pods = [make_device_pod(name, namespace, template="one") for name in names]
            cluster.create_pods(pods)
            for node in nodes:
                devices.renew(node, [f"gpu-{i}" for i in range(generation + 1)], generation)
            cluster.wait_until_bound(namespace, timeout_seconds=SECONDS)
            check(cluster, devices, namespace)
            cluster.delete_pods(namespace, names[:30])
        check_nothing_is_left(cluster, devices, namespace)

    assert watch.doubles == []
    assert watch.allocations >= 120


def test_a_pod_without_its_claim_waits_for_it(
    cluster: Cluster, namespace: str, devices: Devices, run_stowage: StartStowage
) -> None:
    """Whatever is missing, the pod reports it or is gated, and is bound as soon as it exists."""
    offer(cluster, devices, 1, 1)
    run_stowage()
    cluster.create_pods([make_device_pod("p", namespace, claim="later")])
    cluster.create_pods([make_pod("plain", namespace=namespace)])
    cluster.wait_until_bound(namespace, but=1)

    devices.claim(namespace, "later")
    cluster.wait_until_bound(namespace)
    check(cluster, devices, namespace)


def test_explain_says_which_pods_have_the_devices_and_what_would_help(
    cluster: Cluster, namespace: str, devices: Devices, run_stowage: StartStowage
) -> None:
    """When the pod named in the advice is deleted, the waiting pod is bound."""
    offer(cluster, devices, 2, 2)
    devices.template(namespace, "one")
    devices.template(namespace, "two", count=2)
    run_stowage()
    cluster.create_pods([make_device_pod(f"p-{i}", namespace, template="one") for i in range(3)])
    cluster.wait_until_bound(namespace)
    cluster.create_pods([make_device_pod("late", namespace, template="two")])
    wait_for(lambda: cluster.events(namespace, "FailedScheduling"), "late to be told")

    [answer] = answers(cluster.kubeconfig, f"{namespace}/late").values()

    [check] = answer["checks"]
    [obstacle] = check["obstacles"]
    holders = {(each["pods"][0], each["devices"]) for each in obstacle["holders"]}
    assert holders == {(f"{namespace}/p-{i}", 1) for i in range(3)}
    assert [(left["step"], left["devices"]) for left in obstacle["left"]] == [
        ("seen", 4),
        ("class", 4),
        ("in use", 1),
    ]
    by_kind = {change["kind"]: change for change in answer["changes"]}
    [lower] = by_kind["lowerCount"]["edits"]
    assert (lower["template"], lower["count"], lower["atMost"]) == ("two", 2, 1)
    [free] = by_kind["freeClaim"]["edits"]
    output = ask(cluster.kubeconfig, f"{namespace}/late").stdout.splitlines()[1]
    assert output.startswith("  Fits nowhere. Ask for 1 device instead of 2 in request")

    cluster.delete_pods(namespace, [name.rpartition("/")[2] for name in free["pods"]])
    cluster.wait_until_bound(namespace)
    assert cluster.pod(namespace, "late")["spec"]["nodeName"] == free["node"]
    check_nothing_is_left(cluster, devices, namespace)
