"""The comparison bites: whatever is changed in an answer is reported."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.parity.compare import Answer, compare

ANSWER: Answer = {
    "pods": [
        {
            "pod": "default/gated",
            "profile": "default-scheduler",
            "preEnqueue": {"plugin": "SchedulingGates", "reasons": ["waiting"]},
            "preFilter": None,
            "nodes": [],
            "message": "",
        },
        {
            "pod": "default/nowhere",
            "profile": "default-scheduler",
            "preEnqueue": None,
            "preFilter": {"plugin": "NodeAffinity", "code": "Unschedulable", "reasons": ["x"]},
            "nodes": [],
            "message": "0/2 nodes are available: x.",
        },
        {
            "pod": "default/p",
            "profile": "default-scheduler",
            "preEnqueue": None,
            "preFilter": None,
            "nodes": [
                {
                    "node": "n1",
                    "feasible": True,
                    "scores": {
                        "ImageLocality": {"normalized": 5, "weighted": 5},
                        "TaintToleration": {"normalized": 100, "weighted": 300},
                    },
                    "total": 305,
                    "devices": {
                        "c": [{"request": "r", "driver": "d", "pool": "n1", "device": "x"}]
                    },
                },
                {
                    "node": "n2",
                    "feasible": False,
                    "plugin": "NodeResourcesFit",
                    "code": "Unschedulable",
                    "reasons": ["Insufficient cpu", "Too many pods"],
                },
            ],
            "message": "",
        },
    ]
}
GATED, NOWHERE, PLACED = range(3)


def nodes(answer: Answer) -> Any:
    """Return the node verdicts of the pod that is placed."""
    return answer["pods"][PLACED]["nodes"]


def test_equal_answers_have_no_difference() -> None:
    """An answer does not differ from itself, nor from itself with reasons in another order."""
    other = copy.deepcopy(ANSWER)
    nodes(other)[1]["reasons"].reverse()
    other["pods"].reverse()

    assert compare(ANSWER, other) == []


@pytest.mark.parametrize(
    ("kind", "perturb"),
    [
        pytest.param(
            "normalized",
            lambda a: nodes(a)[0]["scores"]["ImageLocality"].update(normalized=6),
            id="normalised score",
        ),
        pytest.param(
            "weighted",
            lambda a: nodes(a)[0]["scores"]["TaintToleration"].update(weighted=299),
            id="weighted score",
        ),
        pytest.param(
            "weighted",
            lambda a: nodes(a)[0]["scores"]["TaintToleration"].update(weighted=300.0),
            id="score that is a float",
        ),
        pytest.param(
            "scores", lambda a: nodes(a)[0]["scores"].pop("ImageLocality"), id="absent score plugin"
        ),
        pytest.param(
            "scores",
            lambda a: nodes(a)[0]["scores"].update(X={"normalized": 0, "weighted": 0}),
            id="additional score plugin",
        ),
        pytest.param(
            "devices", lambda a: nodes(a)[0]["devices"]["c"][0].update(device="y"), id="device"
        ),
        pytest.param("devices", lambda a: nodes(a)[0].pop("devices"), id="no devices"),
        pytest.param("total", lambda a: nodes(a)[0].update(total=304), id="total"),
        pytest.param(
            "reasons", lambda a: nodes(a)[1]["reasons"].pop(), id="reason that is missing"
        ),
        pytest.param(
            "reasons",
            lambda a: nodes(a)[1]["reasons"].append("Too many pods"),
            id="reason given twice",
        ),
        pytest.param(
            "code",
            lambda a: nodes(a)[1].update(code="UnschedulableAndUnresolvable"),
            id="code",
        ),
        pytest.param("plugin", lambda a: nodes(a)[1].update(plugin="NodePorts"), id="plugin"),
        pytest.param(
            "feasible",
            lambda a: nodes(a)[1].update(feasible=True, scores={}, total=0),
            id="feasible node",
        ),
        pytest.param("node", lambda a: nodes(a).pop(), id="missing node"),
        pytest.param("node", lambda a: nodes(a).append(nodes(a)[0]), id="node given twice"),
        pytest.param("pod", lambda a: a["pods"].pop(), id="missing pod"),
        pytest.param("message", lambda a: a["pods"][NOWHERE].update(message=""), id="message"),
        pytest.param("profile", lambda a: a["pods"][PLACED].update(profile="x"), id="profile"),
        pytest.param(
            "preEnqueue", lambda a: a["pods"][GATED].update(preEnqueue=None), id="no gate"
        ),
        pytest.param(
            "reasons",
            lambda a: a["pods"][GATED]["preEnqueue"].update(reasons=["other"]),
            id="reason of a gate",
        ),
        pytest.param(
            "preFilter", lambda a: a["pods"][NOWHERE].update(preFilter=None), id="no PreFilter"
        ),
        pytest.param(
            "code",
            lambda a: a["pods"][NOWHERE]["preFilter"].update(code="Error"),
            id="code of PreFilter",
        ),
        pytest.param("error", lambda a: a.update(error="boom"), id="failed case"),
        pytest.param("error", lambda a: a["pods"][PLACED].update(error="boom"), id="failed pod"),
    ],
)
def test_a_change_is_reported(kind: str, perturb: Callable[[Answer], object]) -> None:
    """One changed field gives a difference of that field's kind, whichever side has it."""
    other = copy.deepcopy(ANSWER)
    perturb(other)

    assert kind in {difference.kind for difference in compare(ANSWER, other)}
    assert kind in {difference.kind for difference in compare(other, ANSWER)}
