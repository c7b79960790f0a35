"""Promise: users with read permissions learn why a pod is pending, as the scheduler sees it."""

import json
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.go_programs import CHECKOUT
from e2e.support.objects import Json, make_node, make_pod
from e2e.support.rights import grant, reader, service_account
from e2e.support.waiting import wait_for

RIGHTS = CHECKOUT / "deploy" / "examples" / "explain-rights.yaml"
NODES = (
    make_node("ssd", zone="a", labels={"disk": "ssd"}),
    make_node("hdd", zone="b", labels={"disk": "hdd"}),
    make_node("gpu", zone="b", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]),
    make_node("closed", unschedulable=True),
)
ZONE = "topology.kubernetes.io/zone"


def waiting_pods(namespace: str, scheduler_name: str) -> list[Json]:
    """Build pods that are pending for different reasons; one has a scheduling gate."""
    labels = {"app": "spread"}
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
    apart = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": ZONE}

    def pod(name: str, **options: Any) -> Json:
        return make_pod(name, namespace=namespace, scheduler_name=scheduler_name, **options)

    return [
        pod("huge", requests={"cpu": "100"}),
        pod("tape", nodeSelector={"disk": "tape"}),
        pod(
            "apart",
            affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
        ),
        pod("spread", labels=labels, requests={"cpu": "50"}, topologySpreadConstraints=[spread]),
        pod("claim", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]),
        pod("gated", schedulingGates=[{"name": "example.com/later"}]),
    ]


def ask(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``stowage explain`` with a kubeconfig."""
    words = [sys.executable, "-m", "scheduler", "explain", f"--kubeconfig={kubeconfig}"]
    return subprocess.run(
        [*words, *arguments], capture_output=True, text=True, timeout=180, check=False, cwd=CHECKOUT
    )


def answers(kubeconfig: Path, *arguments: str) -> dict[str, Json]:
    done = ask(kubeconfig, *arguments, "-o", "json")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return {answer["pod"]: answer for answer in json.loads(done.stdout)["pods"]}


def all_were_tried(cluster: Cluster, namespace: str, pods: list[Json]) -> bool:
    names = [pod["metadata"]["name"] for pod in pods]
    return all(cluster.scheduled_condition(namespace, name) is not None for name in names)


def kubeconfig_of(cluster: Cluster, namespace: str, name: str, *, has_rights: bool) -> Path:
    """Return the kubeconfig of a ServiceAccount with the example's permissions, or with none."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    cluster.run(cluster.api.post(path, {"metadata": {"name": name}}))
    if has_rights:
        [role] = yaml.safe_load_all(RIGHTS.read_text())
        grant(cluster, f"{namespace}-{name}", role["rules"], service_account(namespace, name))
    return cluster.service_account_kubeconfig(namespace, name)


def test_the_answer_is_what_the_pod_was_told(
    cluster: Cluster, run_stowage: StartStowage, namespace: str
) -> None:
    """With read permissions, explain gives the condition's message and a reason for every node."""
    # A daemon that does not know all nodes yet would tell the pods otherwise.
    cluster.create_nodes(NODES)
    run_stowage()
    pods = waiting_pods(namespace, "stowage")
    cluster.create_pods(pods)
    cluster.create_pods([make_pod("bound", namespace=namespace, requests={"cpu": "1"})])
    cluster.wait_until_bound(namespace, but=len(pods))
    wait_for(lambda: all_were_tried(cluster, namespace, pods), "the pods to be tried")

    reader = kubeconfig_of(cluster, namespace, "reader", has_rights=True)
    found = answers(reader, "-n", namespace)

    assert sorted(found) == sorted(f"{namespace}/{pod['metadata']['name']}" for pod in pods)
    for key, answer in found.items():
        told = cluster.scheduled_condition(*key.split("/"))
        assert told is not None
        if key.endswith("/gated"):
            assert answer["preEnqueue"]["reasons"] == [
                "waiting for scheduling gates: [example.com/later]"
            ]
        else:
            assert answer["message"]
            assert told["message"].startswith(answer["message"]), key
    [placed] = answers(reader, f"{namespace}/bound").values()
    assert placed["placed"]["node"] == cluster.pod(namespace, "bound")["spec"]["nodeName"]
    assert placed["placed"]["rank"] == 1


def test_pods_of_kube_scheduler_are_explained_as_well(
    cluster: Cluster, own_cluster: ControlPlane, namespace: str
) -> None:
    """Explain returns the same message as kube-scheduler; no Stowage daemon runs."""
    cluster.create_nodes(NODES)
    pods = [p for p in waiting_pods(namespace, "reference") if p["metadata"]["name"] != "gated"]
    scheduler = own_cluster.start_kube_scheduler({"profiles": [{"schedulerName": "reference"}]})
    try:
        cluster.create_pods(pods)
        wait_for(lambda: all_were_tried(cluster, namespace, pods), "the pods to be tried")
    finally:
        own_cluster.stop_program(scheduler)

    found = answers(cluster.kubeconfig, "-n", namespace, "--profile", "default-scheduler")

    assert len(found) == len(pods)
    for key, answer in found.items():
        told = cluster.scheduled_condition(*key.split("/"))
        assert told is not None
        assert told["message"].startswith(answer["message"]), key


def test_a_missing_right_is_one_message(cluster: Cluster, namespace: str) -> None:
    """The message names the kinds and the user; stdout stays empty."""
    nobody = kubeconfig_of(cluster, namespace, "nobody", has_rights=False)

    done = ask(nobody, "-n", namespace)

    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "does not let you list pods, nodes, namespaces" in done.stderr
    assert f'User "system:serviceaccount:{namespace}:nobody" cannot list' in done.stderr


def test_a_server_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    """The command exits with 2 and names the URL."""
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [cluster],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {}}],
                "current-context": "c",
            }
        )
    )

    done = ask(kubeconfig)

    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "http://127.0.0.1:9 cannot be reached: " in done.stderr


def get(url: str, token: str) -> Json:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310 - our own loopback
    with urllib.request.urlopen(request, context=context, timeout=60) as answer:  # noqa: S310 - see above
        [found] = json.loads(answer.read())["pods"]
        result: Json = found
        return result


@pytest.fixture
def token(cluster: Cluster, namespace: str) -> str:
    """Token of an account that may read explain pages of the daemon."""
    kubeconfig = reader(cluster, namespace, "asker", "stowage-explain-reader")
    found: str = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]
    return found


def test_who_may_not_see_what_the_daemon_knows_is_told(
    cluster: Cluster, run_stowage: StartStowage, namespace: str
) -> None:
    """`stowage what-if --daemon` needs permission for the recording, and no other one."""
    cluster.create_nodes(NODES)
    daemon = run_stowage(arguments=["--authorization-webhook-cache-unauthorized-ttl=0s"])
    cluster.create_pods([make_pod("bound", namespace=namespace, requests={"cpu": "1"})])
    cluster.wait_until_bound(namespace)
    asker = reader(cluster, namespace, "asker", "stowage-explain-reader")
    debugger = reader(cluster, namespace, "debugger", "stowage-debug-reader")

    def what_if(kubeconfig: Path) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "scheduler", "what-if", f"--kubeconfig={kubeconfig}"]
        words += [f"--daemon={daemon.url}", "--insecure-skip-tls-verify", "--drain=ssd"]
        return subprocess.run(
            words, capture_output=True, text=True, timeout=180, check=False, cwd=CHECKOUT
        )

    wait_for(lambda: what_if(debugger).returncode == 0, "the API server to know the new role")
    done = what_if(asker)

    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "does not let you read /debug/recording" in done.stderr


def test_the_daemon_says_the_same_and_more(
    cluster: Cluster, run_stowage: StartStowage, namespace: str, token: str
) -> None:
    """The verdicts match those from the cluster; authorized users also get the scheduling state."""
    cluster.create_nodes(NODES)
    daemon = run_stowage(
        arguments=["--authorization-webhook-cache-unauthorized-ttl=0s"],
    )
    pods = waiting_pods(namespace, "stowage")
    cluster.create_pods(pods)
    wait_for(lambda: all_were_tried(cluster, namespace, pods), "the pods to be tried")

    offline = answers(cluster.kubeconfig, "-n", namespace, "--no-changes")
    for key, answer in offline.items():
        live = get(f"{daemon.url}/debug/explain?pod={key}&nodes=all&estimate=1", token)
        state = live.pop("schedulingState")
        assert {**live, "profile": ""} == {**answer, "profile": ""}
        assert state["leading"] is True
        if key.endswith("/gated"):
            assert state["place"] == "gated"
        else:
            told = cluster.scheduled_condition(*key.split("/"))
            assert told is not None
            assert state["message"] == told["message"]
