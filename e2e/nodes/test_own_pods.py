"""Promise: Stowage's own pods withstand what kubelets do to them."""

import base64
import http.client
import json
import re
import signal
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from e2e.nodes.lab import Lab
from e2e.support.certificates import Authority
from e2e.support.objects import SIMULATED, Json, make_nodes, make_pod, make_pods
from e2e.support.waiting import wait_for

NAME = "stowage-metrics.stowage.svc"
COMPONENT = "deploy/components/serving-certificate"
SCRAPER = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: scraper, namespace: stowage}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scraper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: stowage-metrics-reader}
subjects: [{kind: ServiceAccount, name: scraper, namespace: stowage}]
"""


@pytest.fixture
def replicas(lab: Lab) -> Iterator[list[Json]]:
    """The pods of the base manifests, both Ready."""
    with lab.applied("deploy/base"):
        lab.wait_for_rollout("stowage", "stowage")
        wait_for(lab.leader, "a leader")
        yield lab.pods("stowage")


def restarts(lab: Lab) -> list[int]:
    return [pod["status"]["containerStatuses"][0]["restartCount"] for pod in lab.pods("stowage")]


def probes(lab: Lab) -> set[tuple[str, str]]:
    """Return kind and result of the kubelets' probes of Stowage."""
    sample = re.compile(
        r'^prober_probe_total\{.*namespace="stowage".*probe_type="(\w+)",result="(\w+)"\}'
    )
    return {
        (found[1], found[2])
        for node in lab.nodes
        for line in lab.kubectl(
            "get", "--raw", f"/api/v1/nodes/{node.name}/proxy/metrics/probes"
        ).splitlines()
        if (found := sample.match(line))
    }


def test_it_answers_the_probes_of_a_kubelet(lab: Lab, replicas: list[Json]) -> None:
    """The probes use TLS without credentials; live from the start, ready after the first list."""
    wait_for(
        lambda: {("Liveness", "successful"), ("Readiness", "successful")} <= probes(lab),
        "every kind of probe",
        180,
    )

    assert ("Liveness", "failed") not in probes(lab)
    assert restarts(lab) == [0, 0]


def scrape(pod: Json, authority: bytes, token: str = "") -> tuple[int, str]:
    """Scrape a pod with certificate verification; return status and certificate serial number."""
    context = ssl.create_default_context(cadata=authority.decode())
    # The certificate has the name of the Service, not the address of the pod.
    context.check_hostname = False
    connection = http.client.HTTPSConnection(
        pod["status"]["podIP"], 10259, timeout=30, context=context
    )
    connection.connect()
    assert isinstance(connection.sock, ssl.SSLSocket)
    certificate = connection.sock.getpeercert() or {}
    assert ("DNS", NAME) in certificate["subjectAltName"]
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
    status = connection.getresponse().status
    connection.close()
    return status, str(certificate["serialNumber"])


def secret(authority: Authority) -> str:
    """Build a Secret with a new certificate, as cert-manager does."""
    pair = authority.serving([NAME], [])
    data = {"tls.crt": pair.public, "tls.key": pair.key, "ca.crt": authority.certificate}
    document = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "stowage-serving", "namespace": "stowage"},
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
    return json.dumps(document)


def test_a_renewed_serving_certificate_is_taken_over(lab: Lab) -> None:
    """The kubelet updates the files; both replicas serve the new certificate unrestarted."""
    authority = Authority("stowage")
    rendered = lab.rendered("deploy/base", components=[COMPONENT])
    known = [
        each
        for each in yaml.safe_load_all(rendered)
        if not each["apiVersion"].startswith("cert-manager.io/")
    ]
    manifests = [*known, json.loads(secret(authority)), *yaml.safe_load_all(SCRAPER)]

    with lab.applied_text(yaml.safe_dump_all(manifests)):
        lab.wait_for_rollout("stowage", "stowage")
        pods = lab.pods("stowage")
        ours, others = lab.token("stowage", "scraper", "stowage"), lab.token("stowage", "scraper")
        answers = [scrape(pod, authority.certificate, ours) for pod in pods]
        refused = [scrape(pod, authority.certificate, others)[0] for pod in pods]
        lab.kubectl("apply", "--filename=-", stdin=secret(authority))
        wait_for(
            lambda: all(
                scrape(pod, authority.certificate)[1] != serial
                for pod, (_, serial) in zip(pods, answers, strict=True)
            ),
            "the new certificate to be served",
            300,
            every_seconds=1,
        )

        assert [status for status, _ in answers] == [200, 200]
        assert refused == [401, 401]
        assert restarts(lab) == [0, 0]


def credentials_used(lab: Lab, pod: Json) -> set[str]:
    """Return the identities of the tokens with which a pod sent requests."""
    name = f'"authentication.kubernetes.io/pod-name":["{pod["metadata"]["name"]}"]'
    identity = re.compile(r'"authentication.kubernetes.io/credential-id":\["JTI=([^"]+)"\]')
    log = lab.control_plane.audit_log
    assert log is not None
    return {
        found[1]
        for line in log.read_text().splitlines()
        if name in line and (found := identity.search(line))
    }


def test_a_token_that_the_kubelet_exchanges_is_taken_over(lab: Lab, replicas: list[Json]) -> None:
    """A restarted kubelet requests new tokens and writes them into the files of its pods."""
    before = [credentials_used(lab, pod) for pod in replicas]

    for node in lab.nodes:
        node.restart_kubelet()
    wait_for(
        lambda: all(
            credentials_used(lab, pod) > old for pod, old in zip(replicas, before, strict=True)
        ),
        "both replicas to ask with a new token",
        300,
        every_seconds=1,
    )

    assert [len(tokens) for tokens in before] == [1, 1]
    assert restarts(lab) == [0, 0]
    assert lab.leader() in {pod["metadata"]["name"] for pod in replicas}


@contextmanager
def without_controllers(lab: Lab) -> Iterator[None]:
    """Suspend kube-controller-manager, so that it evicts no pods and overwrites no status."""
    [manager] = [
        each for each in lab.control_plane.programs if each.name == "kube-controller-manager"
    ]
    manager.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        manager.signal(signal.SIGCONT)


def test_memory_at_5000_nodes_is_far_below_the_limit(lab: Lab, replicas: list[Json]) -> None:
    """Peak memory of the containers, from their cgroups, with 10,000 pods on 5,000 nodes."""
    nodes, pods = make_nodes(5000), make_pods(10_000, namespace="many", requests={"cpu": "100m"})
    for number, pod in enumerate(pods):
        pod["spec"]["nodeName"] = nodes[number % len(nodes)]["metadata"]["name"]
    tolerated = [{"operator": "Exists"}]
    last = make_pod(
        "last", namespace="many", nodeSelector={SIMULATED: "simulated"}, tolerations=tolerated
    )
    lab.cluster.create_namespace("many")

    with without_controllers(lab):
        try:
            lab.cluster.run(lab.cluster.api.create_all("/api/v1/nodes", nodes))
            lab.cluster.create_pods(pods)
            lab.cluster.create_pods([last])
            lab.cluster.wait_until_bound("many", timeout_seconds=300)
            used = sorted(lab.peak_memory(pod) / 2**20 for pod in replicas)
        finally:
            # Pods of other tests would be placed on these nodes, and never start.
            lab.cluster.delete_pods("many")
            lab.cluster.delete_all(f"/api/v1/nodes?labelSelector={SIMULATED}")

    print("memory of the containers at most: " + ", ".join(f"{each:.0f} MiB" for each in used))
    assert used[-1] < 512
    assert restarts(lab) == [0, 0]
