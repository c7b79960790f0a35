"""Promise: in one cluster, Stowage and kube-scheduler choose equally good nodes."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random
from typing import Final

import msgspec
import pytest

from e2e.conftest import StartStowage
from e2e.support.api import ApiRefusedError
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.objects import Json
from e2e.support.varied_pods import varied_nodes, varied_pod
from scheduler.tools.offline.cases import answer_case
from tests.parity.answering import ORACLE, oracle_command, running

PODS: Final = 240
NODES: Final = 24
ENOUGH: Final = 200
"""Minimum number of pods whose feasible nodes have different scores."""
DECISION_SECONDS: Final = 60.0
KUBE_SCHEDULER: Final = "reference"
NOT_HERE: Final = (
    "DynamicResources",
    "DefaultPreemption",
)
"""Plugins that are disabled for the comparison."""

PROFILE: Final = {
    "schedulerName": KUBE_SCHEDULER,
    "plugins": {"multiPoint": {"disabled": [{"name": name} for name in NOT_HERE]}},
}

Judge = Callable[[Json], Json]


@pytest.fixture
def judge() -> Iterator[Judge]:
    """Score the nodes with kube-scheduler's framework if it is built, else with our engine."""
    with ExitStack() as stack:
        if ORACLE.exists():
            oracle = stack.enter_context(running(oracle_command(admit=False)))

            def ask(case: Json) -> Json:
                oracle.send(case)
                answer: Json = oracle.receive()
                return answer

            yield ask
        else:
            yield lambda case: msgspec.to_builtins(answer_case(json.dumps(case)))


@pytest.mark.usefixtures("priority_classes")
def test_both_choose_nodes_of_the_same_total_score(
    cluster: Cluster,
    own_cluster: ControlPlane,
    namespace: str,
    run_stowage: StartStowage,
    judge: Judge,
) -> None:
    """Both schedulers get each pod, one after the other, in the same state of the cluster."""
    cluster.create_nodes(varied_nodes(NODES, seed=1))
    reference = own_cluster.start_kube_scheduler(
        {"percentageOfNodesToScore": 100, "profiles": [PROFILE]}
    )
    run_stowage(configuration={"profiles": [{**PROFILE, "schedulerName": "stowage"}]})
    # List responses omit the apiVersion and kind of their items.
    nodes = [{"apiVersion": "v1", "kind": "Node", **node} for node in cluster.nodes()]
    draw = Random(2)
    placed: list[Json] = []
    unequal: list[str] = []
    choices = unplaceable = 0
    try:
        for index in range(PODS):
            pod = varied_pod(index, namespace, draw)
            theirs, _, _ = cluster.run(_decision(cluster, pod, KUBE_SCHEDULER, keep=False))
            ours, waiting, bound = cluster.run(_decision(cluster, pod, "stowage", keep=True))
            totals = _totals(judge({"objects": [*nodes, *placed, waiting]}))
            name = pod["metadata"]["name"]
            if totals.get(theirs) != totals.get(ours) or bool(theirs) != bool(totals):
                unequal.append(
                    f"{name}: kube-scheduler {theirs or 'none'} ({totals.get(theirs)}), "
                    f"stowage {ours or 'none'} ({totals.get(ours)})"
                )
            choices += len(set(totals.values())) > 1
            unplaceable += not ours
            if ours:
                placed.append(bound)
    finally:
        own_cluster.stop_program(reference)

    print(f"{PODS} pods, {choices} with a choice, {unplaceable} that fit nowhere")
    assert unequal == []
    assert choices >= ENOUGH
    assert unplaceable >= 1


async def _decision(
    cluster: Cluster, pod: Json, scheduler_name: str, *, keep: bool
) -> tuple[str, Json, Json]:
    """Create a pod for a scheduler and wait for its decision.

    Returns:
        The node, empty if the pod is unschedulable; the pod as created; the pod after the decision.
    """
    api = cluster.api
    pods = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
    path = f"{pods}/{pod['metadata']['name']}"
    body = {**pod, "spec": {**pod["spec"], "schedulerName": scheduler_name}}
    waiting = await api.post(pods, body)
    async with asyncio.timeout(DECISION_SECONDS):
        decided = await api.get(path)
        while not _is_decided(decided):
            await asyncio.sleep(0.004)
            decided = await api.get(path)
    node: str = decided["spec"].get("nodeName", "")
    if not (keep and node):
        await api.delete(f"{path}?gracePeriodSeconds=0")
        await _wait_gone(cluster, path)
    return node, waiting, decided


async def _wait_gone(cluster: Cluster, path: str) -> None:
    async with asyncio.timeout(DECISION_SECONDS):
        while True:
            try:
                await cluster.api.get(path)
            except ApiRefusedError as error:
                if error.status == 404:
                    return
                raise
            await asyncio.sleep(0.004)


def _is_decided(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return bool(pod["spec"].get("nodeName")) or any(
        each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions
    )


def _totals(answer: Json) -> dict[str, int]:
    """Return the total scores of the feasible nodes for the only pending pod of a case."""
    assert not answer.get("error"), answer["error"]
    [pod] = answer["pods"]
    return {node["node"]: node["total"] for node in pod["nodes"] if node["feasible"]}
