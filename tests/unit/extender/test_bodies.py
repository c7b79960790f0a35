"""What is sent, as Go would write it."""

import json
from typing import Any

from scheduler.kernel.extender.bodies import (
    binding_args,
    names_args,
    nodes_args,
    object_body,
    preemption_args,
)
from scheduler.kernel.framework.results import Candidate
from tests.support.builders import make_pod_info

POD = b'{"metadata":{"name":"p"}}'


def decoded(body: bytes) -> Any:
    return json.loads(body)


def test_objects_lose_what_upstreams_caches_drop() -> None:
    """Their type, and who manages which field; all else stays as it was written."""
    written = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": 'n"', "managedFields": [{}], "annotations": {"a": "b"}},
        "spec": {"big": 2**60, "float": 1.5},
    }
    kept = {"metadata": {"name": 'n"', "annotations": {"a": "b"}}, "spec": written["spec"]}

    assert decoded(object_body(written)) == kept
    assert decoded(object_body(json.dumps(written).encode())) == kept
    assert "managedFields" in written["metadata"]


def test_outer_fields_have_their_go_names() -> None:
    """And none is left out."""
    pod = {"metadata": {"name": "p"}}
    names = {"Pod": pod, "Nodes": None, "NodeNames": ["a", 'b"']}
    nodes = {"Pod": pod, "Nodes": {"metadata": {}, "items": [{"x": 1}]}, "NodeNames": None}

    assert decoded(names_args(POD, ("a", 'b"'))) == names
    assert decoded(nodes_args(POD, [b'{"x":1}'])) == nodes
    assert decoded(binding_args("ns", "p", "u", "n")) == {
        "PodName": "p",
        "PodNamespace": "ns",
        "PodUID": "u",
        "Node": "n",
    }


def test_candidates_by_uid_or_as_a_whole() -> None:
    """Whoever knows the pods gets their UIDs."""
    victim = make_pod_info("v", node_name="n")
    candidates = [Candidate("n", (victim,), 2)]

    meta = decoded(preemption_args(POD, candidates, None))
    whole = decoded(preemption_args(POD, candidates, {victim.uid: b'{"x":1}'}))

    assert meta["NodeNameToVictims"] is None
    assert meta["NodeNameToMetaVictims"] == {
        "n": {"Pods": [{"UID": victim.uid}], "NumPDBViolations": 2}
    }
    assert whole["NodeNameToMetaVictims"] is None
    assert whole["NodeNameToVictims"] == {"n": {"Pods": [{"x": 1}], "NumPDBViolations": 2}}
