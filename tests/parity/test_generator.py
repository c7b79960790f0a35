"""The generator is repeatable, and its families meet the plugins they are about."""

from collections import Counter
from typing import Any

import pytest

from tests.parity.extender import PLACE
from tests.parity.generator.families import FAMILIES, make_case
from tests.parity.record import recorded_cases

REJECTING = {
    "resources": {"NodeResourcesFit"},
    "taints": {"NodeUnschedulable", "TaintToleration"},
    "node-affinity": {"NodeAffinity", ""},
    "ports": {"NodePorts"},
    "images": set(),
    "spread": {"PodTopologySpread"},
    "inter-pod": {"InterPodAffinity"},
    "declared-features": {"NodeDeclaredFeatures"},
    "devices": {"DynamicResources"},
    "devices-extended": {"DynamicResources", "NodeResourcesFit"},
    "devices-wide": {"DynamicResources"},
    "device-taint-rules": {"DynamicResources"},
    "extenders": {"Extender", "NodeResourcesFit"},
    "in-tree": {"VolumeBinding", "NodeVolumeLimits", "VolumeZone"},
    "nominated": {"NodeResourcesFit", "NodePorts", "PodTopologySpread", "InterPodAffinity"},
    "preemption": {"NodeResourcesFit", "NodePorts", "PodTopologySpread", "InterPodAffinity"},
    "configuration": {"NodeResourcesFit", "TaintToleration", "NodeAffinity", "InterPodAffinity"},
    "errors": {"NodeResourcesFit", "TaintToleration"},
    "everything-preempts": {
        "PodTopologySpread",
        "InterPodAffinity",
        "VolumeBinding",
        "DynamicResources",
    },
    "odd": {"NodeResourcesFit", "TaintToleration", "NodeAffinity", "NodePorts"},
    "odd-devices": {"DynamicResources"},
    "odd-extenders": {"Extender", "VolumeBinding", "DynamicResources"},
    "odd-mixed": {"NodeResourcesFit", "NodeAffinity", "VolumeBinding", "DynamicResources"},
    "odd-preemption": {"NodeResourcesFit", "NodeAffinity", "VolumeBinding", "DynamicResources"},
    "odd-profiles": {"NodeResourcesFit"},
    "odd-storage": {"VolumeBinding", "VolumeRestrictions", "VolumeZone"},
    "mixed": {"NodeResourcesFit", "TaintToleration", "PodTopologySpread", "InterPodAffinity"},
    "compared-taints": {"TaintToleration", "PodTopologySpread"},
    "demanding-drivers": {"NodeVolumeLimits", "VolumeBinding"},
    "storage-scores": {"VolumeBinding", "VolumeRestrictions", "NodeVolumeLimits", "VolumeZone"},
    "volumes": {"VolumeBinding", "VolumeRestrictions", "NodeVolumeLimits", "VolumeZone"},
}
"""Plugins that must reject some node of a family's recorded cases; "" is a node-name set."""

SCORING = {
    "resources": {"NodeResourcesFit", "NodeResourcesBalancedAllocation"},
    "taints": {"TaintToleration"},
    "node-affinity": {"NodeAffinity"},
    "images": {"ImageLocality"},
    "spread": {"PodTopologySpread"},
    "inter-pod": {"InterPodAffinity"},
    "devices": {"DynamicResources"},
    "devices-extended": {"NodeResourcesFit", "NodeResourcesBalancedAllocation"},
    "compared-taints": {"TaintToleration", "PodTopologySpread"},
    "storage-scores": {"VolumeBinding"},
}
"""Plugins that must prefer some node over another."""


def verdicts(family: str) -> list[dict[str, Any]]:
    """Return the verdicts on nodes in a family's recorded answers, pod by pod."""
    return [pod for case in recorded_cases(family) for pod in case["answer"]["pods"]]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_makes_the_same_case_again(family: str) -> None:
    """The case of a seed is always the same, and that of another seed is not."""
    assert make_case(family, 7) == make_case(family, 7)
    assert make_case(family, 7) != make_case(family, 8)


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_cases_meet_their_plugins(family: str) -> None:
    """Each plugin the family is about rejects nodes there, and leaves nodes as well."""
    rejections = Counter(
        node["plugin"] if not node["feasible"] else "feasible"
        for pod in verdicts(family)
        for node in pod["nodes"]
    )

    assert {*REJECTING[family], "feasible"} <= set(rejections)


@pytest.mark.parametrize(("family", "plugins"), SCORING.items())
def test_recorded_cases_tell_nodes_apart(family: str, plugins: set[str]) -> None:
    """Each score plugin the family is about gives different scores to nodes of one pod."""
    telling = {
        plugin
        for pod in verdicts(family)
        for plugin in plugins
        if len(
            {
                n["scores"][plugin]["normalized"]
                for n in pod["nodes"]
                if plugin in n.get("scores", ())
            }
        )
        > 1
    }

    assert telling == plugins


def test_recorded_extenders_are_asked_everything() -> None:
    """They refuse with and without a reason, score, fail, and leave some of the candidates."""
    pods = verdicts("extenders")
    nodes = [node for pod in pods for node in pod["nodes"]]
    refused = [node for node in nodes if node.get("plugin") == "Extender"]
    scorers = {name for node in nodes for name in node.get("scores", ()) if PLACE in name}
    messages = {pod["preemption"]["message"] for pod in pods if "preemption" in pod}

    assert {node["code"] for node in refused} == {"Unschedulable", "UnschedulableAndUnresolvable"}
    assert any(not node["reasons"] for node in refused)
    assert len(scorers) > 1
    assert any(pod.get("error") for pod in pods)
    assert "no candidate node for preemption" in messages


def test_recorded_preemptions_are_of_every_sort() -> None:
    """Pods preempt with and against budgets, where there is a choice, in vain, and not at all."""
    answers = [pod["preemption"] for pod in verdicts("preemption") if "preemption" in pod]
    chosen = [answer for answer in answers if answer["nominatedNode"]]
    candidates = [candidate for answer in chosen for candidate in answer["candidates"]]

    assert len(chosen) >= 20
    assert any(len(answer["candidates"]) > 1 for answer in chosen)
    assert any(len(candidate["victims"]) > 1 for candidate in candidates)
    assert any(candidate["pdbViolations"] for candidate in candidates)
    assert any("No preemption victims" in answer["message"] for answer in answers)
    assert any("preemptionPolicy=Never" in answer["message"] for answer in answers)


def test_recorded_errors_are_errors() -> None:
    """Some pods end in an error, others of the same clusters do not."""
    failed = [pod for pod in verdicts("errors") if pod.get("error")]
    judged = [pod for pod in verdicts("errors") if not pod.get("error")]

    assert len(failed) >= 20
    assert len(judged) >= 20
    assert not any(pod["nodes"] for pod in failed)


def test_recorded_claims_get_devices_of_every_sort() -> None:
    """Claims are given alternatives, shares, partitions, devices of several nodes, and a look."""
    nodes = [node for pod in verdicts("devices") for node in pod["nodes"] if node["feasible"]]
    results = [
        result
        for node in nodes
        for results in node.get("devices", {}).values()
        for result in results
    ]
    extended = [node for pod in verdicts("devices-extended") for node in pod["nodes"]]

    assert any("/" in result["request"] for result in results)
    assert any("consumedCapacity" in result for result in results)
    assert any("adminAccess" in result for result in results)
    assert any("mig" in result["device"] for result in results)
    assert any("fabric" in result["pool"] for result in results)
    assert any("<extended-resources>" in node.get("devices", {}) for node in extended)
