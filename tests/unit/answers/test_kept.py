"""For which others room is kept where a pod would fit otherwise."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from scheduler.kernel.answers.kept import kept_for
from scheduler.kernel.answers.model import KeptFor
from scheduler.kernel.answers.words import kept_text
from scheduler.tools.cli.explain import explain
from tests.support.builders import make_pod_info
from tests.support.manifests import node_manifest, pod_manifest, write_list
from tests.unit.engine.test_kept_room import waiting_gang

NODE = node_manifest("n", allocatable={"cpu": "2", "memory": "8Gi", "pods": "10"})


def nominated(name: str, cpu: str) -> Any:
    made = pod_manifest(name, requests={"cpu": cpu}, schedulerName="stowage")
    made["status"] = {"nominatedNodeName": "n"}
    return made


def asked(tmp_path: Path, output: str) -> str:
    waits = pod_manifest("waits", requests={"cpu": "2"}, schedulerName="stowage")
    cluster = write_list(tmp_path / "cluster.json", NODE, nominated("big", "1"), waits)
    result = CliRunner().invoke(explain, ["waits", "-f", cluster, "-o", output])
    return result.output


def test_explain_names_the_pod_for_which_room_is_kept(tmp_path: Path) -> None:
    """As data and in words; when it is needed only a daemon knows."""
    [pod] = json.loads(asked(tmp_path, "json"))["pods"]

    assert pod["kept"] == [{"waiter": "pod default/big", "pods": 1, "nodes": 1}]
    assert "Room on 1 node is kept for pod default/big\n" in asked(tmp_path, "text")


def test_of_a_gang_it_is_known_when_it_needs_the_room() -> None:
    """By the engine that keeps it; a pod that ends before is not concerned."""
    cluster = waiting_gang(90, 90, 90)
    core = cluster.engine.core
    core.catch_up()
    framework = next(iter(core.frameworks.values()))

    def asked_about(duration: str) -> tuple[KeptFor, ...]:
        pod = make_pod_info("s", requests={"cpu": "1"}, expected_duration=duration)
        return kept_for(framework, pod, core.snapshot, core.queue.nominator)

    [found] = asked_about("")
    assert (found.waiter, found.nodes) == ("pod group default/a", 1)
    assert kept_text(found) == (
        "Room on 1 node is kept for pod group default/a until about 1970-01-01 00:18 UTC; "
        "a pod that ends before may use it"
    )
    assert asked_about("5s") == ()
