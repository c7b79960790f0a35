"""Promise: `stowage shadow` agrees with all bindings of the real kube-scheduler.

With all nodes scored, every node that kube-scheduler chooses is feasible and none is better. Single
pods are judged one after another. For a burst, shadow can only report that some order explains the
bindings.
"""

import asyncio
import json
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from random import Random

import pytest
import yaml

from e2e.support.api import ApiRefusedError
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.go_programs import CHECKOUT
from e2e.support.objects import Json
from e2e.support.processes import Program
from e2e.support.rights import refused, service_account, wait_until_applied
from e2e.support.storage import CONTROLLERS as STORAGE_CONTROLLERS, Storage, uses
from e2e.support.varied_pods import varied_nodes, varied_pod
from e2e.support.waiting import wait_for

CONTROLLERS = STORAGE_CONTROLLERS
ONE_BY_ONE = 400
BURSTS = 4
BURST = 400
PODS = ONE_BY_ONE + BURSTS * BURST
NODES = 60
KEPT = 500
"""Number of bound pods above which the oldest are deleted."""
WITH_CLAIMS = 20
DECISION_SECONDS = 90.0
BURST_SECONDS = 300.0
SECOND_LOOKS_SECONDS = 300.0
THEIRS = "default-scheduler"
EVERY = 2
CONFIG = {"percentageOfNodesToScore": 100}
RBAC = CHECKOUT / "deploy" / "shadow" / "rbac.yaml"


@pytest.fixture(scope="module")
def shared_cluster(cluster_with_controllers: Cluster) -> Cluster:
    """A control plane whose controllers bind volumes."""
    return cluster_with_controllers


class Shadow:
    """`stowage shadow` with the permissions of its manifests."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        words = [sys.executable, "-m", "scheduler", "shadow", "--output=json", f"--every={EVERY}"]
        words += [f"--kubeconfig={_account(cluster)}", "--examples=50"]
        self._program = Program(
            "shadow", words, directory / "shadow.log", {"PYTHONPATH": str(CHECKOUT)}
        )
        wait_for(lambda: '"Watching"' in self._program.tail(), "the shadow to know the cluster")

    def end(self) -> Json:
        """Stop it when every binding is judged; return the last summary, with all examples."""
        told = len(self._summaries())
        wait_for(
            lambda: any(each["open"] == 0 for each in self._summaries()[told + 1 :]),
            "the second look at every binding",
            SECOND_LOOKS_SECONDS,
        )
        assert self._program.stop(timeout_seconds=60) == 0, self._program.tail()
        summaries = self._summaries()
        summary = summaries[-1]
        summary["examples"] = [example for each in summaries for example in each["examples"]]
        counts = {name: count for name, count in summary["results"].items() if count}
        print(f"{summary['bindings']} bindings: {counts}; unjudged: {summary['unjudged']}")
        for example in summary["examples"]:
            print(json.dumps(example))
        return summary

    def _summaries(self) -> list[Json]:
        """Return the printed summaries, without an incomplete last line."""
        lines = self._program.log.read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith('{"time"')]


def _account(cluster: Cluster) -> Path:
    api = "/apis/rbac.authorization.k8s.io/v1"
    documents = {each["kind"]: each for each in yaml.safe_load_all(RBAC.read_text())}
    for kind, document in documents.items():
        path = {
            "ServiceAccount": "/api/v1/namespaces/kube-system/serviceaccounts",
            "ClusterRole": f"{api}/clusterroles",
            "ClusterRoleBinding": f"{api}/clusterrolebindings",
        }[kind]
        for subject in document.get("subjects", ()):
            # Kustomize fills it in.
            subject["namespace"] = "kube-system"
        try:
            cluster.run(cluster.api.post(path, document))
        except ApiRefusedError as error:
            if error.status != 409:
                raise
    rule = documents["ClusterRole"]["rules"][0]
    wait_until_applied(cluster, rule, service_account("kube-system", "stowage-shadow"))
    return cluster.service_account_kubeconfig("kube-system", "stowage-shadow")


class Placing:
    """Creates pods for kube-scheduler; deletes unschedulable pods and the oldest bound ones."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._api = cluster.api
        self._namespace = namespace
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._kept: deque[str] = deque()
        self.bound = 0
        self.rejected = 0

    async def place(self, pod: Json) -> None:
        """Create one pod and wait for the decision, which depends on visible state only."""
        name = pod["metadata"]["name"]
        await self._api.post(self._pods, pod)
        async with asyncio.timeout(DECISION_SECONDS):
            found = await self._api.get(f"{self._pods}/{name}")
            while not _is_decided(found):
                await asyncio.sleep(0.004)
                found = await self._api.get(f"{self._pods}/{name}")
        await self._tidy_up([found])

    def burst(self, pods: Sequence[Json]) -> None:
        """Create many pods at once; their bindings arrive in another order than the decisions."""
        self._cluster.create_pods(pods)
        names = {pod["metadata"]["name"] for pod in pods}
        wait_for(
            lambda: all(map(_is_told, self._cluster.pods(self._namespace))),
            "a burst of pods to be decided about",
            BURST_SECONDS,
            every_seconds=0.5,
        )
        found = self._cluster.pods(self._namespace)
        self._cluster.run(self._tidy_up([pod for pod in found if pod["metadata"]["name"] in names]))

    async def _tidy_up(self, decided: Sequence[Json]) -> None:
        placed = [pod for pod in decided if pod["spec"].get("nodeName")]
        self.bound += len(placed)
        self.rejected += len(decided) - len(placed)
        self._kept.extend(pod["metadata"]["name"] for pod in placed)
        for pod in decided:
            if not pod["spec"].get("nodeName"):
                await self._delete(pod["metadata"]["name"])
        while len(self._kept) > KEPT:
            await self._delete(self._kept.popleft())

    async def _delete(self, name: str) -> None:
        """Delete a pod, which may be evicted already."""
        try:
            await self._api.delete(f"{self._pods}/{name}?gracePeriodSeconds=0")
        except ApiRefusedError as error:
            if error.status != 404:
                raise


def _is_decided(pod: Json) -> bool:
    """Report whether the pod is bound, or is unschedulable without a nominated node."""
    if pod["spec"].get("nodeName"):
        return True
    return _is_told(pod) and not pod.get("status", {}).get("nominatedNodeName")


def _is_told(pod: Json) -> bool:
    """Report whether the pod is bound, or its condition says that it is unschedulable."""
    return bool(pod["spec"].get("nodeName")) or any(
        each["type"] == "PodScheduled" and each["status"] == "False"
        for each in pod.get("status", {}).get("conditions", ())
    )


@pytest.mark.usefixtures("priority_classes")
def test_everything_that_kube_scheduler_decides_is_agreed(
    cluster: Cluster,
    own_cluster: ControlPlane,
    namespace: str,
    storage: Storage,
    tmp_path: Path,
) -> None:
    """The pods have affinity, spread, ports, tolerations, priorities, devices and volumes."""
    nodes = varied_nodes(NODES, seed=11)
    cluster.create_nodes(nodes)
    local = storage.storage_class("shadow-local")
    for number in range(WITH_CLAIMS):
        storage.volume(f"shadow-{number}", local, nodes[number * 3]["metadata"]["name"])
        storage.claim(namespace, f"claim-{number}", local)
    reference = own_cluster.start_kube_scheduler(CONFIG)
    shadow = Shadow(cluster, tmp_path)
    placing = Placing(cluster, namespace)
    pods = _pods(namespace)
    while placing.bound < ONE_BY_ONE:
        cluster.run(placing.place(next(pods)))
    while placing.bound < PODS:
        placing.burst(list(islice(pods, BURST)))
    summary = shadow.end()
    own_cluster.stop_program(reference)

    results = summary["results"]
    print(f"{placing.rejected} pods fitted nowhere")
    assert results["unfit"] == results["lower"] == results["failed"] == 0, summary["examples"]
    assert summary["open"] == 0
    assert summary["bindings"] >= PODS
    assert results["agreed"] >= PODS // 2
    assert results["raced"] <= PODS // 5
    assert summary["unjudged"]["unseen"] == 0
    mine = [e for e in cluster.audit_events() if e.user.username.endswith(":stowage-shadow")]
    assert {event.verb for event in mine} <= {"list", "watch"}
    assert refused(mine) == set()


def _pods(namespace: str) -> Iterator[Json]:
    draw = Random(12)
    for index in count():
        pod = varied_pod(index, namespace, draw)
        pod["spec"]["schedulerName"] = THEIRS
        if index % 100 == 50 and index // 100 < WITH_CLAIMS:
            pod["spec"]["volumes"] = uses(f"claim-{index // 100}")
        yield pod
