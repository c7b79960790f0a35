"""Every command that takes submitted pods completes them in the same way."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from scheduler.testing import Cluster, node, pod
from scheduler.tools.cli.main import main
from tests.support.manifests import node_manifest, pod_manifest, write_list

URGENT: dict[str, Any] = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "urgent"},
    "value": 1000,
}


def run(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, [*arguments, "-o", "json"])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def urgent(name: str) -> dict[str, Any]:
    return pod_manifest(name, requests={"cpu": "3"}, priorityClassName="urgent")


def full(tmp_path: Path, *more: dict[str, Any]) -> str:
    """A node of 4 CPUs, 3 of them taken by a pod without a class."""
    running = pod_manifest("running", requests={"cpu": "3"}, nodeName="n", priority=0)
    return write_list(tmp_path / "c.json", node_manifest("n", cpu="4"), running, *more)


def test_the_classes_of_files_count(tmp_path: Path) -> None:
    """In explain, simulate, and what is applied beside them in what-if."""
    cluster = full(tmp_path, URGENT)
    new = write_list(tmp_path / "new.json", urgent("p"))

    [explained] = run("explain", "-f", cluster, "-f", new, "--preempt")["pods"]
    assert explained["preemption"]["victims"] == ["default/running"]
    [placed] = run("simulate", "-f", cluster, "-f", new)["placements"]
    assert placed["victims"] == ["default/running"]
    moved = run("what-if", "-f", cluster, "--apply", new)
    assert [each["pod"] for each in moved["placements"]] == ["default/p"]
    assert moved["victims"] == ["default/running"]


def test_the_classes_of_policy_tests_count(cluster: Cluster) -> None:
    """Whenever they were added; an unknown one is refused."""
    cluster.add(node("n", allocatable={"cpu": "4"}), URGENT)
    cluster.schedule(pod("running", requests={"cpu": "3"})).must_land_on("n")

    cluster.schedule(urgent("p")).must_evict("default/running")
