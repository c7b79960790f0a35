"""Records which metrics the real kube-scheduler 1.36.3 serves after some work, for test_metrics.py.

    python tests/unit/observability/record.py

Starts the control plane of e2e/, lets kube-scheduler bind, refuse, wake and preempt a few pods.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from e2e.support.api import Api
from e2e.support.controlplane import ControlPlane
from e2e.support.objects import make_node, make_nodes, make_pod, make_pods

PODS = "/api/v1/namespaces/default/pods"
OURS = ("scheduler_", "leader_election_master", "kubernetes_build", "rest_client_request")


async def main() -> None:
    """Work, scrape, write."""
    with ControlPlane() as cluster:
        program = cluster.start_kube_scheduler({"leaderElection": {"leaderElect": True}})
        async with Api.connect(cluster.kubeconfig) as api:
            await _work(api)
        async with aiohttp.ClientSession() as session:
            answer = await session.get(f"{program.url}/metrics", ssl=False)
            text = await answer.text()
    path = Path(__file__).parent / "kube-scheduler-metrics.json"
    path.write_text(json.dumps(catalogue(text), indent=1, sort_keys=True) + "\n")


async def _work(api: Api) -> None:
    own = {"scheduler_name": "default-scheduler"}
    await api.create_all("/api/v1/nodes", make_nodes(5))
    await api.create_all(PODS, make_pods(40, requests={"cpu": "100m"}, **own))
    await api.create_all(
        PODS,
        [
            make_pod("big", requests={"cpu": "100"}, **own),
            make_pod("gated", schedulingGates=[{"name": "x"}], **own),
            make_pod("late", nodeSelector={"late": "yes"}, **own),
        ],
    )
    await asyncio.sleep(3)
    await api.create_all("/api/v1/nodes", [make_node("late", labels={"late": "yes"})])
    await asyncio.sleep(2)
    await api.create_all(PODS, make_pods(4, prefix="fill", requests={"cpu": "2500m"}, **own))
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    }
    await api.post("/apis/scheduling.k8s.io/v1/priorityclasses", high)
    important = make_pod("important", requests={"cpu": "4"}, priorityClassName="high", **own)
    await api.create_all(PODS, [important])
    await api.patch(f"{PODS}/gated", {"spec": {"schedulingGates": None}})
    await api.delete(f"{PODS}/pod-00001")
    await asyncio.sleep(4)


def catalogue(text: str) -> dict[str, dict[str, Any]]:
    """Name to type, label names and bucket bounds of every family."""
    found = {}
    for family in text_string_to_metric_families(text):
        if family.name.startswith(OURS):
            labels = {name for sample in family.samples for name in sample.labels} - {"le"}
            bounds = {float(s.labels["le"]) for s in family.samples if "le" in s.labels}
            values = {
                name: sorted({s.labels[name] for s in family.samples if name in s.labels})
                for name in labels - {"host", "le"}
            }
            found[family.name] = {
                "type": family.type,
                "labels": sorted(labels),
                "bounds": [repr(bound) for bound in sorted(bounds)],
                "values": values,
            }
    return found


if __name__ == "__main__":
    asyncio.run(main())
