"""Promise: the harness runs a real, strict API server and a real kube-scheduler.

All other tests depend on the harness.
"""

from collections import Counter
from pathlib import Path

import pytest

from e2e.support.api import Api, ApiRefusedError, Call
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane, Options
from e2e.support.objects import Json, make_binding, make_node, make_nodes, make_pod, make_pods
from e2e.support.waiting import wait_for


def test_nodes_and_pods_are_created_as_asked(cluster: Cluster, namespace: str) -> None:
    """Nodes are Ready in their zones; pods wait for their scheduler."""
    cluster.create_nodes(make_nodes(30))
    cluster.create_pods(make_pods(100, namespace=namespace, requests={"cpu": "100m"}))

    nodes, pods = cluster.nodes(), cluster.pods(namespace)

    assert Counter(node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes) == {
        "zone-1": 10,
        "zone-2": 10,
        "zone-3": 10,
    }
    assert all(_condition(node, "Ready") == "True" for node in nodes)
    assert {node["status"]["allocatable"]["cpu"] for node in nodes} == {"4"}
    assert len(pods) == len(cluster.unbound(namespace, "stowage")) == 100


def test_a_binding_is_taken_once(cluster: Cluster, namespace: str) -> None:
    """A binding moves the pod to its node; a second binding to another node is a conflict."""
    cluster.create_nodes([make_node("first"), make_node("second")])
    cluster.create_pods([make_pod("pod", namespace=namespace)])
    path = f"/api/v1/namespaces/{namespace}/pods/pod/binding"

    cluster.run(cluster.api.post(path, make_binding("pod", "first", namespace=namespace)))
    with pytest.raises(ApiRefusedError) as refusal:
        cluster.run(cluster.api.post(path, make_binding("pod", "second", namespace=namespace)))

    assert refusal.value.status == 409
    assert cluster.pod(namespace, "pod")["spec"]["nodeName"] == "first"
    cluster.wait_until_bound(namespace, timeout_seconds=1)


def test_a_service_account_may_do_what_it_is_granted_and_no_more(
    cluster: Cluster, namespace: str
) -> None:
    """A token from the TokenRequest API identifies its account, and RBAC applies."""
    prefix = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    account = {"kind": "ServiceAccount", "metadata": {"name": "reader"}}
    cluster.run(cluster.api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", account))
    cluster.run(cluster.api.post(f"{prefix}/roles", _role("reader", ["get", "list"])))
    cluster.run(cluster.api.post(f"{prefix}/rolebindings", _role_binding("reader", namespace)))
    kubeconfig = cluster.service_account_kubeconfig(namespace, "reader")
    pods = f"/api/v1/namespaces/{namespace}/pods"

    listed = wait_for(lambda: _status(cluster, kubeconfig, Call("GET", pods)) == 200, "the role")
    created = _status(cluster, kubeconfig, Call("POST", pods, make_pod("pod")))
    elsewhere = _status(cluster, kubeconfig, Call("GET", "/api/v1/nodes"))

    assert (listed, created, elsewhere) == (True, 403, 403)


def test_users_are_known_by_their_certificates(cluster: Cluster, own_cluster: ControlPlane) -> None:
    """A client certificate determines user and groups; without permissions all requests fail."""
    nobody = own_cluster.kubeconfig_for("nobody")
    master = own_cluster.kubeconfig_for("master", ["system:masters"])

    assert _status(cluster, nobody, Call("GET", "/api/v1/nodes")) == 403
    assert _status(cluster, master, Call("GET", "/api/v1/nodes")) == 200


def test_the_audit_log_says_who_did_what(
    cluster: Cluster, own_cluster: ControlPlane, namespace: str
) -> None:
    """The audit log has each request, including refused ones, before its response arrives."""
    nobody = own_cluster.kubeconfig_for("audited")
    cluster.create_nodes([make_node("node")])
    cluster.create_pods([make_pod("pod", namespace=namespace)])
    binding = Call(
        "POST",
        f"/api/v1/namespaces/{namespace}/pods/pod/binding",
        make_binding("pod", "node", namespace=namespace),
    )

    _status(cluster, nobody, binding)
    cluster.run(cluster.api.call(binding))

    assert [
        (event.user.username, event.object_ref.name, event.code)
        for event in cluster.audit_events()
        if event.is_binding() and event.object_ref.namespace == namespace
    ] == [("audited", "pod", 403), ("e2e-admin", "pod", 201)]


def test_the_real_kube_scheduler_binds_pods(
    cluster: Cluster, own_cluster: ControlPlane, namespace: str
) -> None:
    """kube-scheduler with a profile name binds exactly the pods of that profile."""
    cluster.create_nodes(make_nodes(5))
    cluster.create_pods(make_pods(20, namespace=namespace, scheduler_name="reference"))
    cluster.create_pods([make_pod("foreign", namespace=namespace, scheduler_name="other")])

    scheduler = own_cluster.start_kube_scheduler({"profiles": [{"schedulerName": "reference"}]})
    try:
        cluster.wait_until_bound(namespace, scheduler_name="reference")
        scheduled = wait_for(
            lambda: len(cluster.events(namespace, "Scheduled")) == 20, "20 Scheduled events"
        )
        cpu_seconds = scheduler.cpu_seconds()
    finally:
        own_cluster.stop_program(scheduler)

    assert scheduled
    assert cluster.unbound(namespace, "other") == ["foreign"]
    assert cpu_seconds > 0


def test_a_controller_manager_keeps_simulated_nodes_ready() -> None:
    """With controllers, the nodes lose their not-ready taint and pods get a service account."""
    with (
        ControlPlane(Options(controller_manager=True)) as control_plane,
        Cluster(
            "with controllers",
            control_plane.kubeconfig,
            control_plane.directory,
            control_plane=control_plane,
        ) as cluster,
    ):
        cluster.create_nodes(make_nodes(3))
        cluster.create_pods([make_pod("pod", namespace="with-account")])

        assert [node["spec"].get("taints") for node in cluster.nodes()] == [None] * 3
        assert cluster.pod("with-account", "pod")["spec"]["serviceAccountName"] == "default"

        cluster.reset()

        assert cluster.nodes() == []


def _condition(node: Json, kind: str) -> str:
    conditions: dict[str, str] = {
        each["type"]: each["status"] for each in node["status"]["conditions"]
    }
    return conditions[kind]


def _status(cluster: Cluster, kubeconfig: Path, call: Call) -> int:
    """Send a request as another user; return the HTTP status."""

    async def send() -> int:
        async with Api.connect(kubeconfig) as api:
            try:
                await api.call(call)
            except ApiRefusedError as error:
                return error.status
            return 200

    return cluster.run(send())


def _role(name: str, verbs: list[str]) -> Json:
    return {
        "kind": "Role",
        "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}],
    }


def _role_binding(name: str, namespace: str) -> Json:
    return {
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
