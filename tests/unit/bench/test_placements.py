"""The check of placements finds each way to be wrong, and nothing in what is right."""

from typing import Any

import pytest

from bench.placements import Placements, violations
from e2e.support.objects import Json, make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}


def test_a_node_must_not_be_promised_more_than_it_has() -> None:
    """Requests, pods and extended resources of all pods on a node are added up."""
    full = _pods("a", "a", requests={"cpu": "500m", "memory": "1Gi"})
    over = [*full, *_pods("a", requests={"cpu": "1m", "example.com/device": "3"})]

    assert _problems(full, allocatable={"cpu": "1", "pods": "2"}) == []
    assert _problems(over, allocatable={"cpu": "1", "pods": "2", "example.com/device": "2"}) == [
        "node a is promised 0.001 cpu more than it has",
        "node a is promised 1 pods more than it has",
        "node a is promised 1 example.com/device more than it has",
    ]


@pytest.mark.parametrize(
    "term",
    [
        pytest.param(
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-1"]}]}, id="In"
        ),
        pytest.param(
            {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["zone-2"]}]},
            id="NotIn",
        ),
        pytest.param(
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "c"]}]},
            id="names",
        ),
    ],
)
def test_required_node_affinity_must_hold(term: Json) -> None:
    """Nodes a, c are in zone-1, nodes b, d in zone-2."""
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }
    }

    assert _problems(_pods("a", "c", affinity=affinity)) == []
    assert _problems(_pods("a", "b", affinity=affinity)) == [
        "node b has pods of measured [app=web] whose node affinity excludes it"
    ]


def test_required_anti_affinity_must_hold() -> None:
    """One pod per zone, then two; the pods that are shunned may be others too."""
    apart = {"affinity": _affinity("podAntiAffinity", topologyKey=ZONE, labelSelector=WEB)}
    others = make_pod("others", namespace="measured", labels={"app": "web"}, nodeName="d")

    assert _problems(_pods("a", "b", **apart)) == []
    assert _problems(_pods("a", "c", **apart)) == [
        "pods of measured [app=web] share zone-1 with pods they must not be near"
    ]
    assert _problems([*_pods("a", "b", **apart), others]) == [
        "pods of measured [app=web] share zone-2 with pods they must not be near"
    ]


def test_anti_affinity_reaches_the_namespaces_it_selects() -> None:
    """A namespaceSelector makes pods of other namespaces count, and only of those."""
    apart = {
        "affinity": _affinity(
            "podAntiAffinity",
            topologyKey=HOSTNAME,
            labelSelector=WEB,
            namespaceSelector={"matchLabels": {"team": "devops"}},
        )
    }
    chosen = make_pod("p", namespace="chosen", labels={"app": "web"}, nodeName="a")
    other = make_pod("p", namespace="other", labels={"app": "web"}, nodeName="a")

    assert _problems([*_pods("a", **apart), other]) == []
    assert _problems([*_pods("a", **apart), chosen]) == [
        "pods of measured [app=web] share a with pods they must not be near"
    ]


def test_required_affinity_must_hold() -> None:
    """The first of a group may be alone once; nobody else may be."""
    near = {"affinity": _affinity("podAffinity", topologyKey=HOSTNAME, labelSelector=WEB)}

    assert _problems(_pods("a", **near)) == []
    assert _problems(_pods("a", "a", "b", "b", **near)) == []
    assert _problems(_pods("a", "b", **near)) == [
        "pods of measured [app=web] are in b without the pods they must be near"
    ]


def test_hard_spread_must_hold() -> None:
    """Domains without pods count too; a soft constraint is no rule."""
    constraint = {"maxSkew": 1, "topologyKey": HOSTNAME, "labelSelector": WEB}
    hard = {"topologySpreadConstraints": [{**constraint, "whenUnsatisfiable": "DoNotSchedule"}]}
    soft = {"topologySpreadConstraints": [{**constraint, "whenUnsatisfiable": "ScheduleAnyway"}]}

    assert _problems(_pods("a", "b", "c", "d", "a", **hard)) == []
    assert _problems(_pods("a", "a", **soft)) == []
    assert _problems(_pods("a", "a", **hard)) == ["pods of measured [app=web]: 2 in a, 0 elsewhere"]


def test_many_violations_are_told_in_few_words() -> None:
    """The first of each kind are enough to see what is wrong."""
    pods = [pod for node in "abcdefg" for pod in _pods(node, requests={"cpu": "2"})]

    found = _problems(pods, names="abcdefg", allocatable={"cpu": "1"})

    assert len(found) == 6
    assert found[-1] == "... and 2 more like these"


def _problems(
    pods: list[Json], names: str = "abcd", allocatable: dict[str, str] | None = None
) -> list[str]:
    placements = Placements()
    placements.namespaces |= {"measured": {}, "chosen": {"team": "devops"}, "other": {}}
    for number, name in enumerate(names):
        zone = f"zone-{number % 2 + 1}"
        placements.add_node(make_node(name, zone=zone, allocatable=allocatable))
    for pod in pods:
        placements.add_pod(pod)
    return list(violations(placements))


def _pods(*nodes: str, **options: Any) -> list[Json]:
    return [
        make_pod(f"p{n}", namespace="measured", labels={"app": "web"}, nodeName=node, **options)
        for n, node in enumerate(nodes)
    ]


def _affinity(kind: str, **term: Any) -> Json:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
