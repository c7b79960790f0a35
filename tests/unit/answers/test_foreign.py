"""Which other schedulers took the room on nodes of a profile's own."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scheduler.tools.cli.explain import explain
from tests.support.manifests import node_manifest, pod_manifest, write_list

OURS = {"scheduler": "stowage"}
CONFIG: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "stowage",
            "plugins": {"multiPoint": {"enabled": [{"name": "NodeOwnership"}]}},
            "pluginConfig": [{"name": "NodeOwnership", "args": {"nodeSelector": OURS}}],
        },
        {"schedulerName": "stowage-batch"},
    ],
}
SMALL = {"cpu": "4", "memory": "8Gi", "pods": "10"}
DAEMON_SET = [{"kind": "DaemonSet", "name": "agent", "uid": "d", "controller": True}]


def node(name: str, labels: dict[str, str] | None = None, **fields: Any) -> Any:
    made = node_manifest(name, allocatable=fields.pop("allocatable", SMALL), **fields)
    made["metadata"].setdefault("labels", {}).update(OURS if labels is None else labels)
    return made


def pod(name: str, where: str, cpu: str, scheduler: str = "other", **fields: Any) -> Any:
    requests = {"cpu": cpu, "memory": "1Gi"}
    made = pod_manifest(name, requests=requests, nodeName=where, schedulerName=scheduler)
    made["metadata"].update(fields)
    return made


WAITS = pod_manifest("waits", requests={"cpu": "3"}, schedulerName="stowage")


def asked(tmp_path: Path, *objects: Any, config: Any = CONFIG, output: str = "json") -> str:
    (tmp_path / "config.json").write_text(json.dumps(config))
    cluster = write_list(tmp_path / "cluster.json", *objects)
    arguments = ["-f", cluster, "--config", str(tmp_path / "config.json"), "-o", output]
    result = CliRunner().invoke(explain, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def told(tmp_path: Path, *objects: Any, config: Any = CONFIG) -> Any:
    """What the answer about the waiting pod says."""
    (answer,) = json.loads(asked(tmp_path, WAITS, *objects, config=config))["pods"]
    return answer.get("foreign")


def test_the_room_that_others_took_is_told_by_scheduler(tmp_path: Path) -> None:
    """Amounts are of what the pod asks for; only nodes count that would have room without them."""
    cluster = (
        node("a"),
        node("b"),
        pod("x", "a", "2"),
        pod("y", "a", "1", scheduler="third"),
        pod("z", "b", "4"),
    )

    assert told(tmp_path, *cluster) == [
        {
            "schedulerName": "other",
            "pods": 2,
            "nodes": 2,
            "requests": {"cpu": 6000},
            "examples": [
                {"pod": "default/x", "node": "a"},
                {"pod": "default/z", "node": "b"},
            ],
        },
        {
            "schedulerName": "third",
            "pods": 1,
            "nodes": 1,
            "requests": {"cpu": 1000},
            "examples": [{"pod": "default/y", "node": "a"}],
        },
    ]
    text = asked(tmp_path, WAITS, *cluster, output="text")
    assert (
        "  Scheduler other has 2 pods with 6 cpu on 2 nodes that would have room otherwise "
        "(default/x on a, default/z on b)\n"
    ) in text
    assert "  Scheduler third has 1 pod with 1 cpu on 1 node that would have room" in text


def test_places_for_pods_are_room_as_well(tmp_path: Path) -> None:
    """A node may be full by the number of its pods."""
    full = node("a", allocatable=SMALL | {"pods": "1"})

    (found,) = told(tmp_path, full, pod("x", "a", "1"))

    assert (found["pods"], found["requests"]) == (1, {"cpu": 1000})


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param((node("a"), pod("x", "a", "2", "stowage-batch")), id="of another profile"),
        pytest.param(
            (node("a"), pod("x", "a", "2", ownerReferences=DAEMON_SET)), id="of a DaemonSet"
        ),
        pytest.param((node("a", labels={}), pod("x", "a", "2")), id="on a node of others"),
        pytest.param(
            (node("a", allocatable={"cpu": "2", "pods": "9"}), pod("x", "a", "1")),
            id="on a node that is too small",
        ),
        pytest.param(
            (node("a"), pod("x", "a", "1"), pod("y", "a", "3", "stowage")),
            id="beside more of our own",
        ),
        pytest.param(
            (node("a", unschedulable=True), pod("x", "a", "2")), id="on a node that is cordoned"
        ),
        pytest.param((node("a"), node("b"), pod("x", "a", "2")), id="while another node fits"),
    ],
)
def test_pods_that_did_not_take_the_room_are_not_told_of(tmp_path: Path, cluster: Any) -> None:
    """Without them the pod would not fit, or their place is not another scheduler's choice."""
    assert told(tmp_path, *cluster) is None


def test_a_profile_without_nodes_of_its_own_knows_no_foreign_pods(tmp_path: Path) -> None:
    """Schedulers may share nodes on purpose."""
    config = CONFIG | {"profiles": [{"schedulerName": "stowage"}]}

    assert told(tmp_path, node("a"), pod("x", "a", "2"), config=config) is None
