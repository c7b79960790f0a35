"""Promise: pods with claims go where their storage is, and wait for it no longer than needed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from e2e.conftest import ASKED_ELSEWHERE, StartStowage
from e2e.support.api import ApiRefusedError
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane, Options
from e2e.support.objects import Json, make_nodes, make_pod
from e2e.support.waiting import wait_for

CONTROLLERS = (
    "persistentvolume-binder-controller",
    "ephemeral-volume-controller",
    "statefulset-controller",
    "serviceaccount-controller",
    "node-lifecycle-controller",
)
STORAGE = "/apis/storage.k8s.io/v1"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONER = "e2e.stowage.dev"
HOSTNAME = "kubernetes.io/hostname"


@pytest.fixture(scope="module")
def shared_cluster(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Cluster]:
    """A control plane whose controllers bind volumes and make pods of StatefulSets."""
    options = Options(controller_manager=True, controllers=",".join(CONTROLLERS))
    directory = tmp_path_factory.mktemp("volumes")
    with (
        ControlPlane(options) as own,
        Cluster("own control plane", own.kubeconfig, directory, control_plane=own) as cluster,
    ):
        yield cluster
        pytestconfig.stash.setdefault(ASKED_ELSEWHERE, []).extend(cluster.audit_events())


@pytest.fixture
def storage(cluster: Cluster) -> Iterator["Storage"]:
    """Storage objects that go with the test."""
    made = Storage(cluster)
    yield made
    made.remove()


class Storage:
    """Makes storage objects, and looks at them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._paths: list[str] = []

    def create(self, path: str, body: Json) -> Json:
        """Create an object; it is removed at the end."""
        made = self._cluster.run(self._cluster.api.post(path, body))
        self._paths.append(f"{path}/{made['metadata']['name']}")
        return made

    def get(self, path: str) -> Json:
        """Return an object."""
        return self._cluster.run(self._cluster.api.get(path))

    def patch(self, path: str, body: Json) -> Json:
        """Change an object."""
        return self._cluster.run(self._cluster.api.patch(path, body))

    def delete(self, path: str) -> None:
        """Delete an object at once."""
        try:
            self.patch(path, {"metadata": {"finalizers": None}})
            self._cluster.run(self._cluster.api.delete(path))
        except ApiRefusedError as error:
            if error.status not in (404, 409):
                raise

    def remove(self) -> None:
        """Delete everything that was made."""
        for path in reversed(self._paths):
            self.delete(path)

    def storage_class(self, name: str, provisioner: str = "kubernetes.io/no-provisioner") -> str:
        """Make a class that waits for its first consumer."""
        body = {
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        self.create(f"{STORAGE}/storageclasses", body)
        return name

    def volume(self, name: str, class_name: str, node: str, **spec: Any) -> None:
        """Make a local volume of a node."""
        term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
        body = {
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": class_name,
                "local": {"path": "/data"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
                **spec,
            },
        }
        self.create("/api/v1/persistentvolumes", body)
        path = f"/api/v1/persistentvolumes/{name}"
        wait_for(lambda: self.get(path)["status"].get("phase") != "Pending", f"{name} to be seen")

    def claim(self, namespace: str, name: str, class_name: str, **spec: Any) -> None:
        """Make a claim."""
        body = {"metadata": {"name": name}, "spec": {**claim_spec(class_name), **spec}}
        self.create(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", body)

    def claims(self, namespace: str) -> dict[str, Json]:
        """Return the claims by name."""
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        found = self._cluster.run(self._cluster.api.list_items(path))
        return {claim["metadata"]["name"]: claim for claim in found}

    def node_of(self, volume: str) -> str:
        """Return the node that a local volume is on."""
        affinity = self.get(f"/api/v1/persistentvolumes/{volume}")["spec"]["nodeAffinity"]
        (term,) = affinity["required"]["nodeSelectorTerms"]
        return str(term["matchExpressions"][0]["values"][0])


def claim_spec(class_name: str) -> Json:
    """What claims ask for."""
    return {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": class_name,
    }


def uses(*claims: str) -> list[Json]:
    """Volumes of a pod that name these claims."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]


def node_of(cluster: Cluster, namespace: str, pod: str) -> str:
    """Wait until a pod has a node, and return it."""
    found = wait_for(
        lambda: cluster.pod(namespace, pod)["spec"].get("nodeName"), f"{pod} to be bound", 40
    )
    return str(found)


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
    """The owner chose; once the volume is gone under the claim, further pods wait and say why."""
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
    said = wait_for(lambda: cluster.events(namespace, "FailedScheduling"), "the pod to be told")
    assert "bound to non-existent persistentvolume" in said[-1]["note"]


def test_a_volume_made_for_one_pod_alone(
    cluster: Cluster, namespace: str, storage: Storage, run_stowage: StartStowage
) -> None:
    """The controller makes the claim after the pod; the pod waits for it and is then placed."""
    cluster.create_nodes(make_nodes(3))
    name = storage.storage_class("local-ephemeral")
    storage.volume("scratch", name, "node-00002")
    run_stowage()
    template = {"spec": claim_spec(name)}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]

    cluster.create_pods([make_pod("p", namespace=namespace, volumes=volumes)])

    assert node_of(cluster, namespace, "p") == "node-00002"
    assert storage.claims(namespace)["p-scratch"]["spec"]["volumeName"] == "scratch"


@contextmanager
def provisioner(
    cluster: Cluster, storage: Storage, namespace: str, *, refusals: int = 0, seconds: float = 0
) -> Iterator[list[str]]:
    """Make volumes for claims that were told a node; refuse some first, or take time.

    Yields the names of the nodes that were asked for, refused ones included.
    """
    asked: list[str] = []
    done: set[str] = set()
    ended = threading.Event()

    def look() -> None:
        for name, claim in storage.claims(namespace).items():
            node = claim["metadata"].get("annotations", {}).get(SELECTED_NODE)
            if node is None or name in done:
                continue
            asked.append(node)
            path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
            if len(asked) <= refusals:
                storage.patch(path, {"metadata": {"annotations": {SELECTED_NODE: None}}})
                continue
            ended.wait(seconds)
            done.add(name)
            meta = claim["metadata"]
            reference = {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": namespace,
                "name": name,
                "uid": meta["uid"],
            }
            class_name = claim["spec"]["storageClassName"]
            storage.volume(f"made-{meta['uid']}", class_name, node, claimRef=reference)

    def run() -> None:
        while not ended.wait(0.1):
            look()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        ended.set()
        thread.join(30)


@pytest.mark.parametrize(
    ("refusals", "seconds"),
    [
        pytest.param(0, 0, id="one that succeeds"),
        pytest.param(2, 0, id="one that fails twice"),
        pytest.param(0, 5, id="one that is slow"),
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
    """The pod goes where its volume was made; others do not wait for it."""
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


LEASE = (
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
)


@pytest.mark.parametrize("how", ["started again", "taken over by another replica"])
def test_the_scheduler_dies_while_volumes_are_made(
    cluster: Cluster, namespace: str, storage: Storage, run_stowage: StartStowage, how: str
) -> None:
    """Whoever comes next follows what was promised: nothing is bound twice, nobody is stuck."""
    nodes = make_nodes(6)
    cluster.create_nodes(nodes)
    made, local = f"made-{namespace}", f"local-{namespace}"
    storage.storage_class(made, PROVISIONER)
    storage.storage_class(local)
    for node in nodes:
        name = node["metadata"]["name"]
        storage.volume(f"{namespace}-on-{name}", local, name)
    for i in range(6):
        storage.claim(namespace, f"made-{i}", made)
        storage.claim(namespace, f"local-{i}", local)
    flags = {
        "leader_elect": True,
        "arguments": [*LEASE, f"--leader-elect-resource-name={namespace}",
                      "--leader-elect-resource-namespace=default"],
    }  # fmt: skip
    first = run_stowage(name="first", **flags)
    wait_for(lambda: "Leading" in first.tail(100), "the first to lead", 20)
    if how != "started again":
        run_stowage(name="second", **flags)

    with provisioner(cluster, storage, namespace, seconds=1):
        pods = [
            make_pod(f"p-{i}", namespace=namespace, volumes=uses(f"made-{i}", f"local-{i}"))
            for i in range(6)
        ]
        cluster.create_pods(pods)
        wait_for(lambda: selected_nodes(storage, namespace), "volumes to be asked for")
        first.kill()
        if how == "started again":
            run_stowage(name="second", **flags)
        cluster.wait_until_bound(namespace, timeout_seconds=90)

    claims = storage.claims(namespace)
    volumes = [claim["spec"]["volumeName"] for claim in claims.values()]
    assert len(set(volumes)) == 12
    for i in range(6):
        node = cluster.pod(namespace, f"p-{i}")["spec"]["nodeName"]
        for name in (f"made-{i}", f"local-{i}"):
            assert storage.node_of(claims[name]["spec"]["volumeName"]) == node


def selected_nodes(storage: Storage, namespace: str) -> list[str]:
    """The nodes that volumes are to be made for."""
    annotations = (
        claim["metadata"].get("annotations", {}) for claim in storage.claims(namespace).values()
    )
    return [found[SELECTED_NODE] for found in annotations if SELECTED_NODE in found]
