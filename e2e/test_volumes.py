"""Promise: pods with claims go to the nodes of their volumes, and wait no longer than necessary."""

import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.faults import Hold
from e2e.support.go_programs import CHECKOUT
from e2e.support.objects import make_nodes, make_pod
from e2e.support.proxy import FaultProxy
from e2e.support.rights import scheduler_kubeconfig
from e2e.support.storage import (
    CONTROLLERS as STORAGE_CONTROLLERS,
    PROVISIONER,
    SELECTED_NODE,
    Storage,
    claim_spec,
    provisioner,
    uses,
)
from e2e.support.waiting import wait_for

CONTROLLERS = STORAGE_CONTROLLERS


@pytest.fixture(scope="module")
def shared_cluster(cluster_with_controllers: Cluster) -> Cluster:
    """A control plane whose controllers bind volumes and create pods of StatefulSets."""
    return cluster_with_controllers


def node_of(cluster: Cluster, namespace: str, pod: str) -> str:
    """Wait until a pod is bound; return its node."""
    found = wait_for(
        lambda: cluster.pod(namespace, pod)["spec"].get("nodeName"), f"{pod} to be bound"
    )
    return str(found)


def told(cluster: Cluster, namespace: str, reason: str) -> None:
    """Wait until an event says that a pod waits for this reason."""
    wait_for(
        lambda: any(
            reason in event["note"] for event in cluster.events(namespace, "FailedScheduling")
        ),
        f"a pod to be told: {reason}",
    )


def test_a_stateful_set_with_local_volumes_in_three_zones(
    cluster: Cluster, namespace: str, storage: Storage, run_stowage: StartStowage
) -> None:
    """Every pod is on the node of its volume, and no volume has two claims."""
    nodes = make_nodes(6)
    cluster.create_nodes(nodes)
    name = storage.storage_class("local-zones")
    for node in nodes:
        storage.volume(f"on-{node['metadata']['name']}", name, node["metadata"]["name"])
    run_stowage()
    labels = {"app": "db"}
    template = make_pod("unused", labels=labels)
    body = {
        "metadata": {"name": "db"},
        "spec": {
            "replicas": 6,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim_spec(name)}],
        },
    }
    storage.create(f"/apis/apps/v1/namespaces/{namespace}/statefulsets", body)

    wait_for(lambda: len(cluster.pods(namespace)) == 6, "the pods to be made")
    cluster.wait_until_bound(namespace)

    claims = storage.claims(namespace)
    volumes = [claims[f"data-db-{i}"]["spec"]["volumeName"] for i in range(6)]
    assert len(set(volumes)) == 6
    for i, volume in enumerate(volumes):
        assert cluster.pod(namespace, f"db-{i}")["spec"]["nodeName"] == storage.node_of(volume)


def test_a_claim_that_names_its_volume_takes_the_pod_there(
    cluster: Cluster, namespace: str, storage: Storage, run_stowage: StartStowage
) -> None:
    """The pod goes to the volume's node; without the volume, further pods wait and say why."""
    cluster.create_nodes(make_nodes(3))
    name = storage.storage_class("local-named")
    storage.volume("named", name, "node-00001")
    storage.claim(namespace, "data", name, volumeName="named")
    run_stowage()

    cluster.create_pods([make_pod("p", namespace=namespace, volumes=uses("data"))])
    assert node_of(cluster, namespace, "p") == "node-00001"

    storage.delete("/api/v1/persistentvolumes/named")
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    wait_for(lambda: storage.get(f"{claims}/data")["status"]["phase"] == "Lost", "a lost claim")
    cluster.create_pods([make_pod("late", namespace=namespace, volumes=uses("data"))])
    told(cluster, namespace, "bound to non-existent persistentvolume")


def test_a_volume_made_for_one_pod_alone(
    cluster: Cluster, namespace: str, storage: Storage, run_stowage: StartStowage
) -> None:
    """The controller creates the claim after the pod; the pod waits for it and is then bound."""
    cluster.create_nodes(make_nodes(3))
    name = storage.storage_class("local-ephemeral")
    storage.volume("scratch", name, "node-00002")
    run_stowage()
    template = {"spec": claim_spec(name)}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]

    cluster.create_pods([make_pod("p", namespace=namespace, volumes=volumes)])

    assert node_of(cluster, namespace, "p") == "node-00002"
    assert storage.claims(namespace)["p-scratch"]["spec"]["volumeName"] == "scratch"


@pytest.mark.parametrize(
    ("refusals", "seconds"),
    [
        pytest.param(0, 0, id="one that succeeds"),
        pytest.param(2, 0, id="one that fails twice"),
        pytest.param(0, 10, id="one that is slow"),
    ],
)
def test_volumes_that_a_provisioner_makes(
    cluster: Cluster,
    namespace: str,
    storage: Storage,
    run_stowage: StartStowage,
    refusals: int,
    seconds: float,
) -> None:
    """The pod goes to the node of its new volume, while other pods are not delayed."""
    cluster.create_nodes(make_nodes(3))
    name = storage.storage_class(f"made-{refusals}-{seconds}", PROVISIONER)
    storage.claim(namespace, "data", name)
    run_stowage()

    with provisioner(cluster, storage, namespace, refusals=refusals, seconds=seconds) as asked:
        cluster.create_pods([make_pod("p", namespace=namespace, volumes=uses("data"))])
        wait_for(lambda: asked, "the provisioner to be asked")
        cluster.create_pods([make_pod("plain", namespace=namespace)])
        assert node_of(cluster, namespace, "plain")
        if seconds:
            assert "nodeName" not in cluster.pod(namespace, "p")["spec"]
        node = node_of(cluster, namespace, "p")

    assert len(asked) == refusals + 1
    assert node == asked[-1]


def test_two_pods_want_the_last_volume(
    cluster: Cluster, namespace: str, storage: Storage, run_stowage: StartStowage
) -> None:
    """One pod gets the volume; the other reports why it waits, until there is another volume."""
    cluster.create_nodes(make_nodes(2))
    name = storage.storage_class("local-last")
    storage.volume("last", name, "node-00000")
    for claim in ("one", "two"):
        storage.claim(namespace, claim, name)
    pods = [make_pod(each, namespace=namespace, volumes=uses(each)) for each in ("one", "two")]
    cluster.create_pods(pods)
    run_stowage()

    cluster.wait_until_bound(namespace, but=1)
    told(cluster, namespace, "didn't find available persistent volumes to bind")
    assert sorted(claim["status"]["phase"] for claim in storage.claims(namespace).values()) == [
        "Bound",
        "Pending",
    ]

    storage.volume("one-more", name, "node-00001")
    cluster.wait_until_bound(namespace)
    nodes = {cluster.pod(namespace, each)["spec"]["nodeName"] for each in ("one", "two")}
    assert nodes == {"node-00000", "node-00001"}


def test_explain_names_the_claim_that_keeps_the_pod_from_nodes(
    cluster: Cluster, namespace: str, storage: Storage, run_stowage: StartStowage
) -> None:
    """One claim has a volume on one node; the other's class has volumes on another node only."""
    cluster.create_nodes(make_nodes(3))
    name = storage.storage_class("local-torn")
    storage.volume("torn-data", name, "node-00001")
    storage.claim(namespace, "data", name, volumeName="torn-data")
    storage.volume("torn-logs", name, "node-00002")
    storage.claim(namespace, "logs", name)
    run_stowage()
    cluster.create_pods([make_pod("p", namespace=namespace, volumes=uses("data", "logs"))])
    wait_for(lambda: cluster.events(namespace, "FailedScheduling"), "the pod to be told")

    words = ["explain", f"--kubeconfig={cluster.kubeconfig}", f"{namespace}/p", "-o", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "scheduler", *words],
        capture_output=True,
        timeout=180,
        check=True,
        cwd=CHECKOUT,
    )

    [answer] = json.loads(done.stdout)["pods"]
    assert [
        (claim["claim"], claim["volume"], claim["nodes"], claim["examples"])
        for claim in answer["claims"]
    ] == [
        ("data", "torn-data", 2, ["node-00000", "node-00002"]),
        ("logs", "", 2, ["node-00000", "node-00001"]),
    ]


LEASE = (
    "--leader-elect-lease-duration=10s",
    "--leader-elect-renew-deadline=8s",
    "--leader-elect-retry-period=500ms",
    "--leader-elect-resource-namespace=default",
)
AGAIN, OTHER, FROZEN = "started again", "taken over by another replica", "frozen meanwhile"
"""Fates of a leader that is stopped during its writes."""


def leading(namespace: str) -> dict[str, Any]:
    """Return options of replicas that share one test's lease."""
    arguments = [*LEASE, f"--leader-elect-resource-name={namespace}"]
    return {"leader_elect": True, "arguments": arguments}


def pods_with_two_claims(
    cluster: Cluster, storage: Storage, namespace: str, count: int
) -> list[dict[str, Any]]:
    """Build pods with two claims each: one for an existing local volume, one for a new volume."""
    made, local = f"made-{namespace}", f"local-{namespace}"
    storage.storage_class(made, PROVISIONER)
    storage.storage_class(local)
    nodes = make_nodes(count)
    cluster.create_nodes(nodes)
    for node in nodes:
        name = node["metadata"]["name"]
        storage.volume(f"{namespace}-on-{name}", local, name)
    for i in range(count):
        storage.claim(namespace, f"made-{i}", made)
        storage.claim(namespace, f"local-{i}", local)
    return [
        make_pod(f"p-{i}", namespace=namespace, volumes=uses(f"made-{i}", f"local-{i}"))
        for i in range(count)
    ]


def check_volumes(cluster: Cluster, storage: Storage, namespace: str, count: int) -> None:
    """Check that every claim has its own volume, on the node of its pod."""
    claims = storage.claims(namespace)
    volumes = [claim["spec"]["volumeName"] for claim in claims.values()]
    assert len(set(volumes)) == 2 * count
    for i in range(count):
        node = cluster.pod(namespace, f"p-{i}")["spec"]["nodeName"]
        for name in (f"made-{i}", f"local-{i}"):
            assert storage.node_of(claims[name]["spec"]["volumeName"]) == node
            assert claims[name]["metadata"]["annotations"].get(SELECTED_NODE) in (None, node)


@pytest.mark.parametrize("how", [AGAIN, OTHER])
def test_the_scheduler_dies_while_volumes_are_made(
    cluster: Cluster, namespace: str, storage: Storage, run_stowage: StartStowage, how: str
) -> None:
    """The next scheduler keeps selected nodes; no volume is bound twice, and all pods are bound."""
    pods = pods_with_two_claims(cluster, storage, namespace, 6)
    first = run_stowage(name="first", **leading(namespace))
    wait_for(lambda: "Leading" in first.tail(100), "the first to lead")
    if how == OTHER:
        run_stowage(name="second", **leading(namespace))

    with provisioner(cluster, storage, namespace, seconds=1):
        cluster.create_pods(pods)
        wait_for(lambda: selected_nodes(storage, namespace), "volumes to be asked for")
        first.kill()
        if how == AGAIN:
            run_stowage(name="second", **leading(namespace))
        cluster.wait_until_bound(namespace, timeout_seconds=180)

    check_volumes(cluster, storage, namespace, 6)


@pytest.mark.parametrize("how", [AGAIN, OTHER, FROZEN])
@pytest.mark.parametrize(
    "held_at",
    [
        pytest.param(("PATCH", "/persistentvolumeclaims/made-0"), id="volume reserved, claim not"),
        pytest.param(("POST", "/pods/p-0/binding"), id="volumes bound, pod not"),
    ],
)
def test_the_scheduler_is_stopped_between_two_writes(
    cluster: Cluster,
    namespace: str,
    storage: Storage,
    run_stowage: StartStowage,
    tmp_path: Path,
    held_at: tuple[str, str],
    how: str,
) -> None:
    """The delayed write of a frozen leader arrives after the next leader has finished."""
    pods = pods_with_two_claims(cluster, storage, namespace, 3)
    (method, path), held = held_at, Hold()
    with FaultProxy(scheduler_kubeconfig(cluster)) as proxy:
        proxy.add(held, method=method, path=path, times=1)
        through_proxy = proxy.kubeconfig(tmp_path / "proxy.kubeconfig")
        first = run_stowage(through_proxy, name="first", **leading(namespace))
        wait_for(lambda: "Leading" in first.tail(100), "the first to lead")
        if how != AGAIN:
            run_stowage(name="second", **leading(namespace))

        with provisioner(cluster, storage, namespace):
            cluster.create_pods(pods)
            wait_for(held.arrived.is_set, "the request to be on its way")
            if how == FROZEN:
                first.signal(signal.SIGSTOP)
            else:
                first.kill()
            if how == AGAIN:
                run_stowage(name="second", **leading(namespace))
            cluster.wait_until_bound(namespace, timeout_seconds=180)
        held.released.set()
        if how == FROZEN:
            is_late = partial(proxy.count, method, path, "Hold", answered=True)
            wait_for(is_late, "the late request to be answered")

    check_volumes(cluster, storage, namespace, 3)


def selected_nodes(storage: Storage, namespace: str) -> list[str]:
    """Return the nodes selected for new volumes."""
    annotations = (
        claim["metadata"].get("annotations", {}) for claim in storage.claims(namespace).values()
    )
    return [found[SELECTED_NODE] for found in annotations if SELECTED_NODE in found]
