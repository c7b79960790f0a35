"""A new node has the CSI drivers and the daemons of the node that it is like."""

import pytest

from scheduler.kernel.answers.edits import AddNodes
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.why import Depth, changes_in_steps
from scheduler.kernel.framework.steps import finished
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.tools.offline.cluster import ClusterState, Profiles
from scheduler.tools.offline.reading import objects_from_documents
from tests.support.manifests import Manifest, node_manifest, pod_manifest

DRIVER = "csi.example.com"
LIMIT = 4
LATE: Manifest = {
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": DRIVER,
    "volumeBindingMode": "WaitForFirstConsumer",
}
CSI_NODE: Manifest = {
    "kind": "CSINode",
    "metadata": {"name": "n"},
    "spec": {"drivers": [{"name": DRIVER, "nodeID": "n", "allocatable": {"count": LIMIT}}]},
}


def loaded(pods: int, volumes: int) -> tuple[ClusterState, Profiles]:
    """Pods with volumes of their own, and a node that has room for none of the pods."""
    documents: list[Manifest] = [
        LATE,
        CSI_NODE,
        node_manifest("n"),
        pod_manifest("full", nodeName="n", requests={"cpu": "4"}),
    ]
    for i in range(pods):
        names = [f"claim-{i}-{j}" for j in range(volumes)]
        documents += (
            {
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": "default", "uid": name},
                "spec": {"storageClassName": "late"},
            }
            for name in names
        )
        sources = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
        documents.append(pod_manifest(f"p-{i}", volumes=sources, requests={"cpu": "100m"}))
    profiles = Profiles(None)
    objects = objects_from_documents((f"o{i}", each) for i, each in enumerate(documents))
    return profiles.load(objects), profiles


@pytest.mark.parametrize(("volumes", "helps"), [(LIMIT, True), (LIMIT + 1, False)])
def test_a_new_node_takes_no_more_volumes_than_its_model(volumes: int, helps: bool) -> None:
    """From files and from the daemon; the cluster stays as it is."""
    cluster, profiles = loaded(1, volumes)
    [pod] = cluster.waiting
    explainer = Explainer(cluster.engine, profiles.framework_of)

    from_files = explainer.explain(pod, Depth.CHANGES)
    steps = changes_in_steps(cluster.engine, profiles.framework_of(pod), pod)

    for answer in (from_files, finished(steps)):
        assert isinstance(answer.changes, tuple)
        kinds = {change.kind for change in answer.changes}
        assert ("addNodes" in kinds) is helps
    assert [*profiles.shared(VolumeCatalog).csi_nodes] == ["n"]


def test_volumes_count_for_the_number_of_new_nodes() -> None:
    """Each of the pods brings volumes of its own."""
    cluster, profiles = loaded(3, LIMIT // 2)
    explainer = Explainer(cluster.engine, profiles.framework_of)
    answer = explainer.explain(cluster.waiting[0], Depth.CHANGES)

    assert explainer.nodes_for_all(answer, cluster.waiting) == AddNodes("n", 2)


@pytest.mark.parametrize(("cpu", "helps"), [("1", True), ("2", False)])
def test_a_new_node_runs_the_pods_of_daemon_sets(cpu: str, helps: bool) -> None:
    """Their requests count, once on each new node, and not in the cluster as it is."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": "agent",
        "uid": "agent",
        "controller": True,
    }
    agent = pod_manifest("agent", nodeName="n", requests={"cpu": cpu})
    agent["metadata"]["ownerReferences"] = [owner]
    documents = [
        node_manifest("n"),
        agent,
        pod_manifest("full", nodeName="n", requests={"cpu": "2"}),
        *(pod_manifest(f"p-{i}", requests={"cpu": "3"}) for i in range(3)),
    ]
    profiles = Profiles(None)
    cluster = profiles.load(
        objects_from_documents((f"o{i}", each) for i, each in enumerate(documents))
    )
    explainer = Explainer(cluster.engine, profiles.framework_of)

    answer = explainer.explain(cluster.waiting[0], Depth.CHANGES)

    kinds = {change.kind for change in answer.changes or ()}
    assert ("addNodes" in kinds) is helps
    assert explainer.nodes_for_all(answer, cluster.waiting) == (AddNodes("n", 3) if helps else None)
    [info] = [each for each in cluster.engine.core.snapshot.table.infos if each is not None]
    assert {pod.name for pod in info.pods.values()} == {"agent", "full"}
