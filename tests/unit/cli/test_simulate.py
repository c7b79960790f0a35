"""`stowage simulate`: where all waiting pods would go."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scheduler.tools.cli.simulate import simulate
from tests.support.manifests import node_manifest, pod_manifest, write_list

INSUFFICIENT = (
    "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: "
    "0/2 nodes are available: 2 No preemption victims found for incoming pod."
)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, arguments, catch_exceptions=False)


def placements(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(*arguments, "-o", "json").stdout)["placements"]
    return found


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Room for two of the three pods that fit anywhere."""
    zone = {"topology.kubernetes.io/zone": "z1"}
    return write_list(
        tmp_path / "cluster.json",
        node_manifest("n1", allocatable={"cpu": "1"}, labels=zone),
        node_manifest("n2", allocatable={"cpu": "1"}),
        *(pod_manifest(f"p{i}", requests={"cpu": "1"}) for i in range(3)),
        pod_manifest("first", requests={"cpu": "200m"}, priority=5),
        pod_manifest("held", schedulingGates=[{"name": "later"}]),
        pod_manifest("theirs", schedulerName="somebody-else"),
    )


def test_json_has_every_waiting_pod(cluster: str) -> None:
    """Placed ones in the order of placement, then pending ones with the reason."""
    found = placements("-f", cluster, "--seed", "1")

    assert [p["pod"] for p in found] == [
        "default/first", "default/p0", "default/held", "default/p1", "default/p2",
    ]  # fmt: skip
    first, p0, held, p1, _ = found
    assert {first["node"], p0["node"]} == {"n1", "n2"}
    assert held["message"] == "waiting for scheduling gates: [later]"
    assert p1 == {
        "pod": "default/p1",
        "node": None,
        "nominatedNode": None,
        "victims": [],
        "message": INSUFFICIENT,
    }


def test_the_seed_decides_ties(tmp_path: Path) -> None:
    """The same seed gives the same placements, others give others."""
    nodes = [node_manifest(f"n{i}") for i in range(5)]
    pods = [pod_manifest(f"p{i}") for i in range(10)]
    file = write_list(tmp_path / "c.json", *nodes, *pods)

    runs = [placements("-f", file, "--seed", str(seed)) for seed in (1, 1, 2)]

    assert runs[0] == runs[1] != runs[2]


def test_people_read_placements_reasons_and_utilisation(cluster: str) -> None:
    """The whole text."""
    result = run("-f", cluster, "--seed", "3")

    first, p0 = (p["node"] for p in placements("-f", cluster, "--seed", "3")[:2])
    assert result.exit_code == 0
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[:13] == [
        "2 of 5 waiting pods find a node (seed 3).",
        "",
        "  pod            node",
        f"  default/first  {first}",
        f"  default/p0     {p0}",
        "",
        f"2 pods stay pending: {INSUFFICIENT}",
        "  default/p1, default/p2",
        "",
        "1 pod stays pending: waiting for scheduling gates: [later]",
        "  default/held",
        "",
        "Requested of what the nodes have, before and after:",
    ]
    assert lines[13].split() == ["zone", "nodes", "cpu", "memory", "pods"]
    assert [line.split()[:2] for line in lines[14:]] == [
        ["z1", "1"],
        ["(no", "zone)"],
        ["all", "2"],
    ]
    assert lines[-1].split()[2:] == ["0%", "->", "60%", "0%", "0%", "->", "1%"]
    assert "note: Pods of other schedulers wait as well: somebody-else (1).\n" in result.stderr


def test_nothing_is_said_about_preemption_when_all_fit(tmp_path: Path) -> None:
    """Then it makes no difference."""
    result = run("-f", write_list(tmp_path / "c.json", node_manifest("n"), pod_manifest("p")))

    assert result.stdout.startswith("1 of 1 waiting pods find a node (seed 0).\n")
    assert result.stderr == ""


@pytest.mark.parametrize("output", ["text", "json"])
def test_likely_mistakes_are_told_beside_the_result(tmp_path: Path, output: str) -> None:
    """On standard error."""
    file = write_list(tmp_path / "c.json", node_manifest("n"), pod_manifest("p", nodeSelectr={}))

    result = run("-f", file, "-o", output)

    assert "nodeSelectr" in result.stderr
    assert "nodeSelectr" not in result.stdout


def test_there_may_be_nothing_to_place(tmp_path: Path) -> None:
    """Or nowhere to place it."""
    nobody = write_list(tmp_path / "a.json", node_manifest("n"))
    nowhere = write_list(tmp_path / "b.json", pod_manifest("p"))

    assert run("-f", nobody).stdout.startswith("No pod waits for a node.\n")
    assert "1 pod stays pending: no nodes available" in run("-f", nowhere).stdout


def test_broken_input_ends_with_status_2(tmp_path: Path) -> None:
    """With one message."""
    file = tmp_path / "broken.yaml"
    file.write_text("kind: Pod\n")

    result = run("-f", str(file))

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"stowage simulate: {file}: document 1: Pod: metadata.name: required\n"
    assert "nothing to look at" in run().stderr
