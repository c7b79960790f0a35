"""Promise: observers see the queue and the configuration of the running scheduler."""

import asyncio
import json
import subprocess
import sys

from e2e.support.cluster import Cluster
from e2e.support.go_programs import CHECKOUT
from e2e.support.objects import make_node, make_pod
from e2e.support.processes import Program
from e2e.support.waiting import wait_for
from scheduler.clock import SystemClock
from scheduler.tools.cli.live import ClusterAddress
from scheduler.tools.cli.top.sources import ClusterSource
from scheduler.tools.cli.top.view import View, view_of
from scheduler.tools.offline.cluster import Profiles

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: team
  plugins:
    score:
      disabled: [{name: "*"}]
      enabled: [{name: ImageLocality, weight: 7}]
"""


def test_top_shows_what_the_scheduler_has_tried(
    cluster: Cluster, stowage: Program, namespace: str
) -> None:
    """The engine of `top` decides nothing; it reads the pods' conditions."""
    cluster.create_nodes([make_node("n")])
    names = [f"big-{i}" for i in range(3)]
    cluster.create_pods(
        make_pod(name, namespace=namespace, requests={"cpu": "9"}) for name in names
    )
    wait_for(
        lambda: all(cluster.scheduled_condition(namespace, name) for name in names),
        "the pods to be tried",
    )
    source = ClusterSource(ClusterAddress(str(cluster.kubeconfig)), Profiles(None), SystemClock())

    async def look() -> View:
        async with source.running(), asyncio.timeout(180):
            while len(source.engine.core.queue.pending_pods()) < 3:  # noqa: ASYNC110 - the watch tells the engine only
                await asyncio.sleep(0.05)
            return view_of(
                source.engine, source.profiles, source.rates, source.now, decides=source.decides
            )

    assert cluster.run(look()).queue == {"active": 0, "unschedulable": 3, "gated": 0}
    assert stowage.is_running()


def test_explain_finds_the_configuration_of_the_instance(cluster: Cluster, namespace: str) -> None:
    """The pod names its ConfigMap; a misspelt schedulerName is reported in the first line."""
    cluster.create_nodes([make_node("n")])
    path = f"/api/v1/namespaces/{namespace}"
    kept = {"metadata": {"name": "stowage-config"}, "data": {"config.yaml": CONFIGURATION}}
    cluster.run(cluster.api.post(f"{path}/configmaps", kept))
    instance = make_pod(
        "stowage-0",
        namespace=namespace,
        labels={"app.kubernetes.io/component": "scheduler"},
        volumes=[{"name": "config", "configMap": {"name": "stowage-config"}}],
        nodeName="n",
    )
    [container] = instance["spec"]["containers"]
    container |= {
        "name": "stowage",
        "args": ["run", "--config=/etc/stowage/config.yaml"],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/stowage"}],
    }
    ours = make_pod("ours", namespace=namespace, scheduler_name="team")
    slip = make_pod("slip", namespace=namespace, scheduler_name="taem")
    cluster.create_pods([instance, ours, slip])
    status = {"status": {"phase": "Running"}}
    cluster.run(cluster.api.patch(f"{path}/pods/stowage-0/status", status))

    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "scheduler", "explain"]
        return subprocess.run(
            [*words, f"--kubeconfig={cluster.kubeconfig}", "-n", namespace, *arguments],
            capture_output=True,
            text=True,
            timeout=180,
            check=True,
            cwd=CHECKOUT,
        )

    [answer] = json.loads(ask("ours", "-o", "json").stdout)["pods"]
    text = ask("slip")

    assert answer["profile"] == "team"
    assert [list(node["scores"]) for node in answer["nodes"]] == [["ImageLocality"]]
    assert "No scheduler serves `taem`; did you mean `team`?" in text.stdout.splitlines()[1]
    used = f"team: as in ConfigMap {namespace}/stowage-config of pod {namespace}/stowage-0"
    assert used in text.stderr
