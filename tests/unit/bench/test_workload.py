"""Workload files: read strictly, and a state to start from that obeys their own rules."""

import re
from pathlib import Path

import msgspec
import pytest

from bench import objects
from bench.placements import Placements, violations
from bench.workload import (
    SHORT,
    Number,
    PodTemplate,
    Workload,
    WorkloadError,
    chosen,
    load_workloads,
)

WORKLOADS = load_workloads()
RULED = [workload for workload in WORKLOADS.values() if workload.pods.spec]

_SMALLEST = """
- name: one
  title: one
  family: plain
  sizes: {short: {nodes: 1, pods: 1}}
  pods: {}
"""


def test_what_runs_may_be_unlike_what_is_measured() -> None:
    """Preemptors among pods like themselves would find nobody to evict."""
    preemption, plain = WORKLOADS["preemption"], WORKLOADS["plain"]

    assert preemption.running_template is preemption.running_pods
    assert plain.running_template is plain.pods


@pytest.mark.parametrize(
    ("number", "values"),
    [
        pytest.param(Number(), [0, 1, 2, 3, 4, 5], id="counts up"),
        pytest.param(Number(start=10, step=5, cycle=2), [10, 15, 10, 15, 10, 15], id="starts over"),
        pytest.param(Number(every=3), [0, 0, 0, 1, 1, 1], id="pods in a row share it"),
        pytest.param(Number(every="nodes"), [0, 0, 0, 0, 1, 1], id="one round of all nodes"),
    ],
)
def test_numbers_vary_from_pod_to_pod(number: Number, values: list[int]) -> None:
    """A number follows its start, step, every and cycle."""
    assert [number.at(index, 4) for index in range(6)] == values


def test_templates_get_numbers_nodes_and_index() -> None:
    """Text in a template may name the index, a node in turn and the workload's own numbers."""
    template = PodTemplate(
        labels={"app": "group-$group", "on": "$node"},
        requests={"cpu": "${cpu}m"},
        numbers={"group": Number(every=2), "cpu": Number(start=100, step=10)},
    )

    body = msgspec.json.decode(objects.PodFactory(template, ["a", "b"], "pod").waiting(3))

    assert body["metadata"] == {
        "name": "pod-000003",
        "namespace": "measured",
        "labels": {"app": "group-1", "on": "b"},
    }
    assert body["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "130m"}}
    assert "nodeName" not in body["spec"]


def test_pods_are_as_admission_makes_them() -> None:
    """A token's volume named like no other, mounted everywhere; tolerations unless it has them."""
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    factory = objects.PodFactory(PodTemplate(spec={"tolerations": [own]}), ["a"], "pod")

    first, second = (msgspec.json.decode(factory.waiting(index))["spec"] for index in (0, 1))

    volume = first["volumes"][0]["name"]
    assert re.fullmatch("kube-api-access-[a-z0-9]{5}", volume)
    assert volume != second["volumes"][0]["name"]
    assert first["containers"][0]["volumeMounts"][0]["name"] == volume
    assert [each.get("tolerationSeconds") for each in first["tolerations"]] == [None, 300]
    assert (first["serviceAccountName"], first["priority"]) == ("default", 0)


def test_fewer_pods_are_measured_when_asked() -> None:
    """A number caps every size, and never adds to one."""
    plain = WORKLOADS["plain"].at_most(1000)

    assert {name: size.pods for name, size in plain.sizes.items()} == {
        "short": 500,
        "500": 1000,
        "5000": 1000,
        "15000": 1000,
    }


@pytest.mark.parametrize("workload", RULED, ids=[workload.name for workload in RULED])
@pytest.mark.parametrize("size_name", [SHORT, "5000"])
def test_what_runs_from_the_start_obeys_its_own_rules(workload: Workload, size_name: str) -> None:
    """A scheduler can be judged by the final placements only if the first ones were right."""
    size = workload.sizes[size_name]
    nodes = objects.nodes_of(workload.nodes, size.nodes)
    template = workload.running_template
    factory = objects.PodFactory(template, [n["metadata"]["name"] for n in nodes], "pod")
    placements = Placements()
    for node in nodes:
        placements.add_node(node)
    for namespace in objects.namespaces_of(workload):
        placements.namespaces[namespace["metadata"]["name"]] = namespace["metadata"]["labels"]
    for _, body in objects.running_pods(workload, factory, nodes, size.running):
        placements.add_pod(msgspec.json.decode(body))

    assert violations(placements) == ()
    assert sum(places.total() for places in placements.kinds.values()) == size.running


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(_SMALLEST.replace("title", "titel"), "titel", id="an unknown field"),
        pytest.param(_SMALLEST.replace("nodes: 1", "nodes: 0"), "nodes", id="no nodes"),
        pytest.param(_SMALLEST + _SMALLEST, "two workloads 'one'", id="a name twice"),
        pytest.param("- [", "while parsing", id="no YAML"),
    ],
)
def test_a_wrong_file_is_refused(text: str, complaint: str, tmp_path: Path) -> None:
    """The message names the file and the field."""
    (tmp_path / "w.yaml").write_text(text)

    with pytest.raises(WorkloadError, match=rf"w\.yaml: (.|\n)*{complaint}"):
        load_workloads(tmp_path)


def test_workloads_are_chosen_by_name() -> None:
    """Without names all are meant; a name nobody has is an error that lists the others."""
    assert [workload.name for workload in chosen(WORKLOADS, ("plain",))] == ["plain"]
    assert chosen(WORKLOADS, ()) == list(WORKLOADS.values())
    with pytest.raises(WorkloadError, match=r"no workload 'plane'.*plain"):
        chosen(WORKLOADS, ("plane",))
