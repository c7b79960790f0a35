"""Promise: the cluster does what `stowage what-if` predicted."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.go_programs import CHECKOUT
from e2e.support.objects import Json, make_node, make_pod
from e2e.support.processes import Program
from e2e.support.rights import grant, service_account
from e2e.support.waiting import wait_for

CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "serviceaccount-controller",
    "node-lifecycle-controller",
)
SIZES = {"n-a": "3", "n-b": "4500m", "n-c": "6", "n-d": "7700m", "n-e": "9100m"}
"""CPUs of the nodes, chosen so that no two nodes have equal scores for a pod."""
SEEDS = range(2)


@pytest.fixture(scope="module")
def shared_cluster(cluster_with_controllers: Cluster) -> Cluster:
    """A control plane whose controllers create the pods of Deployments."""
    return cluster_with_controllers


def ask(cluster: Cluster, *options: str, kubeconfig: Path | None = None) -> Json:
    """Run `stowage what-if`; without ties, the seed does not change its answer."""
    answers, config = [], kubeconfig or cluster.kubeconfig
    for seed in SEEDS:
        words = [sys.executable, "-m", "scheduler", "what-if", f"--kubeconfig={config}"]
        done = subprocess.run(
            [*words, *options, f"--seed={seed}", "-o", "json"],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            cwd=CHECKOUT,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        answers.append(json.loads(done.stdout))
    assert all(places_in(answer) == places_in(answers[0]) for answer in answers)
    return dict(answers[0])


def account_of_people(cluster: Cluster, namespace: str) -> Path:
    """Return the kubeconfig of an account that may only read the daemon's recording."""
    name = f"{namespace}-asks"
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    cluster.run(cluster.api.post(accounts, {"metadata": {"name": name}}))
    rule = {"nonResourceURLs": ["/debug/recording"], "verbs": ["get"]}
    grant(cluster, name, [rule], service_account(namespace, name))
    return cluster.service_account_kubeconfig(namespace, name)


def places_in(answer: Json) -> Counter[str]:
    return Counter(placement["node"] for placement in answer["placements"])


def by_node(cluster: Cluster, namespace: str) -> Counter[str]:
    """Count the pods of each node; unbound pods count under the empty name."""
    return Counter(pod["spec"].get("nodeName", "") for pod in cluster.pods(namespace))


def deployment(name: str, replicas: int, **fields: Any) -> Json:
    labels = {"app": name}
    template = make_pod("unused", **fields)["spec"]
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template},
        },
    }


def is_settled(cluster: Cluster, namespace: str, pods: int) -> bool:
    """Report whether this many pods exist, each bound or unschedulable."""
    found = cluster.pods(namespace)
    told = [
        pod
        for pod in found
        if pod["spec"].get("nodeName")
        or any(c.get("reason") == "Unschedulable" for c in pod["status"].get("conditions", ()))
    ]
    return len(found) == len(told) == pods


def test_a_drain_and_a_larger_deployment_end_as_foretold(
    cluster: Cluster, namespace: str, run_stowage: StartStowage
) -> None:
    """Every node has the predicted number of pods, as has the set of unbound pods.

    The daemon, asked over its secure port, predicts the same.
    """
    cluster.create_nodes([make_node(name, allocatable={"cpu": cpu}) for name, cpu in SIZES.items()])
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": "apart"}},
                }
            ]
        }
    }
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    daemon = run_stowage()
    of_daemon = (f"--daemon={daemon.url}", "--insecure-skip-tls-verify")
    cluster.run(cluster.api.post(path, deployment("web", 11, requests={"cpu": "1"})))
    wait_for(lambda: is_settled(cluster, namespace, 11), "the first pods to have places")
    cluster.run(
        cluster.api.post(path, deployment("apart", 5, requests={"cpu": "100m"}, affinity=apart))
    )
    wait_for(lambda: is_settled(cluster, namespace, 16), "all pods to have places")
    before = by_node(cluster, namespace)
    assert not before[""]

    foretold = ask(cluster, "--drain", "n-e")
    people = account_of_people(cluster, namespace)
    by_daemon = ask(cluster, *of_daemon, "--drain", "n-e", kubeconfig=people)
    assert places_in(by_daemon) == places_in(foretold)
    assert len(by_daemon["homeless"]) == len(foretold["homeless"])
    cluster.run(cluster.api.patch("/api/v1/nodes/n-e", {"spec": {"unschedulable": True}}))
    evicted = {
        pod["metadata"]["name"]
        for pod in cluster.pods(namespace)
        if pod["spec"].get("nodeName") == "n-e"
    }
    cluster.delete_pods(namespace, evicted)
    wait_for(lambda: is_settled(cluster, namespace, 16), "the evicted pods to have places")

    drained = by_node(cluster, namespace)
    expected = before + places_in(foretold)
    del expected["n-e"]
    assert drained - Counter({"": drained[""]}) == expected
    assert drained[""] == len(foretold["homeless"]) == 1

    foretold = ask(cluster, "--scale", f"deployment/{namespace}/web=30")
    web = f"deployment/{namespace}/web=30"
    by_daemon = ask(cluster, *of_daemon, "--scale", web, kubeconfig=people)
    assert places_in(by_daemon) == places_in(foretold)
    cluster.run(cluster.api.patch(f"{path}/web", {"spec": {"replicas": 30}}))
    wait_for(lambda: is_settled(cluster, namespace, 35), "the further pods to be tried")

    scaled = by_node(cluster, namespace)
    assert scaled - Counter({"": scaled[""]}) == expected + places_in(foretold)
    assert scaled[""] == len(foretold["homeless"])
    cluster.run(cluster.api.patch(f"{path}/web", {"spec": {"replicas": 0}}))
    cluster.run(cluster.api.patch(f"{path}/apart", {"spec": {"replicas": 0}}))
    wait_for(lambda: not cluster.pods(namespace), "the pods to be gone")


def test_what_is_applied_has_the_priority_of_its_class(
    cluster: Cluster, stowage: Program, namespace: str, tmp_path: Path
) -> None:
    """The cluster's class sets the priority; the predicted eviction happens."""
    cluster.create_nodes([make_node("only")])
    cluster.create_pods([make_pod("running", namespace=namespace, requests={"cpu": "3"})])
    cluster.wait_until_bound(namespace)
    urgent = make_pod(
        "urgent", namespace=namespace, requests={"cpu": "3"}, priorityClassName="foretold"
    )
    file = tmp_path / "urgent.json"
    file.write_text(json.dumps(urgent))

    with cluster.priority_classes({"foretold": 1000}):
        foretold = ask(cluster, f"--apply={file}")
        cluster.create_pods([urgent])
        cluster.wait_until_bound(namespace)

    assert [(p["pod"], p["node"]) for p in foretold["placements"]] == [
        (f"{namespace}/urgent", "only")
    ]
    assert foretold["victims"] == [f"{namespace}/running"]
    assert [pod["metadata"]["name"] for pod in cluster.pods(namespace)] == ["urgent"]
    assert stowage.is_running()
