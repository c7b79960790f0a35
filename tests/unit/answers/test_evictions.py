"""Evictions are advised only if the waiting pod gets the room."""

from typing import Any

import pytest

from scheduler.api.objects import OwnerReference
from scheduler.kernel.answers.edits import EvictPod
from scheduler.kernel.answers.why import Depth, explained
from tests.support.builders import make_node, make_pod_info
from tests.unit.answers.worlds import FRAMEWORK
from tests.unit.preemption.naive import placed


def of(kind: str) -> tuple[OwnerReference, ...]:
    return (OwnerReference(kind, "owner", "uid-of-owner", "apps/v1", controller=True),)


def advised(*running: dict[str, Any], priority: int = 0) -> list[str]:
    """The pods to evict from a full node, for a pod of a core."""
    pods = [
        make_pod_info(f"run-{i}", node_name="a", requests={"cpu": "1"}, **fields)
        for i, fields in enumerate(running)
    ]
    _, snapshot = placed([make_node("a", allocatable={"cpu": str(len(pods))})], pods)
    pod = make_pod_info("waiting", requests={"cpu": "1"}, priority=priority)
    answer = explained(Depth.CHANGES, FRAMEWORK, pod, snapshot)
    assert isinstance(answer.changes, tuple)
    edits = [edit for change in answer.changes for edit in change.edits]
    return [edit.pod for edit in edits if isinstance(edit, EvictPod)]


@pytest.mark.parametrize(
    "fields",
    [
        {"deletion_timestamp": "2026-01-01T00:00:00Z"},
        {"owner_references": of("DaemonSet")},
        {"owner_references": of("Node")},
        {"owner_references": of("ReplicaSet"), "priority": 1000},
    ],
    ids=["terminating", "of a DaemonSet", "static", "its replacement comes first"],
)
def test_a_pod_whose_eviction_frees_nothing_is_not_advised(fields: dict[str, Any]) -> None:
    """Another pod is advised instead, even a more important one; without one there is no advice."""
    assert not advised(fields)
    assert advised(fields, {"priority": 2000}) == ["default/run-1"]


@pytest.mark.parametrize(
    ("fields", "priority"),
    [
        ({"priority": 1000}, 0),
        ({"owner_references": of("ReplicaSet")}, 0),
        ({"owner_references": of("ReplicaSet"), "priority": 1000}, 1000),
    ],
    ids=["no controller", "an equal pod", "an equal priority"],
)
def test_a_pod_that_makes_room_is_advised(fields: dict[str, Any], priority: int) -> None:
    """The replacement is younger, so at equal priority it comes after the waiting pod."""
    assert advised(fields, priority=priority) == ["default/run-0"]
