"""The simulation makes the decisions that the daemon would make, in its order."""

import json
from typing import Any

import pytest
from together import GROUP, SIZE, Together
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.config.load import load_object
from scheduler.config.types import ExtensionPoint
from scheduler.daemon.bootstrap import args_types_of, implemented_plugins
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import (
    PermitPlugin,
    Plugin,
    PreEnqueuePlugin,
    ReservePlugin,
)
from scheduler.kernel.framework.status import SUCCESS, Code, Status, unschedulable
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import documents_from_text, objects_from_documents
from scheduler.tools.offline.simulate import Placement, simulate
from tests.support.manifests import Manifest, node_manifest, pod_manifest

NO_VICTIMS = (
    " no new claims to deallocate, preemption: 0/1 nodes are available: "
    "1 No preemption victims found for incoming pod."
)
"""What PostFilter adds where nobody less important runs."""


def outcome(*objects: Manifest, profiles: Profiles | None = None) -> dict[str, tuple[Any, str]]:
    """By pod, in the order told: its node and its message. What is placed must be in the cache."""
    profiles = profiles or Profiles(None)
    text = json.dumps({"kind": "List", "items": objects})
    cluster = profiles.load(objects_from_documents(documents_from_text(text, "test")))
    placements: tuple[Placement, ...] = simulate(cluster).placements
    running = {pod.key: pod.node_name for pod in cluster.engine.core.cache.pods.values()}
    assert {p.pod: p.node for p in placements if p.node}.items() <= running.items()
    return {p.pod.removeprefix("default/"): (p.node, p.message) for p in placements}


def test_pods_come_by_priority_then_by_age() -> None:
    """Only one of them fits at each step; names do not matter, a missing time is the youngest."""
    pods = [
        pod_manifest("a", created=None),
        pod_manifest("b", created="2026-01-02T00:00:00Z"),
        pod_manifest("c", created="2026-01-01T00:00:00Z"),
        pod_manifest("d", priority=7),
    ]

    found = outcome(node_manifest("n", allocatable={"pods": "3"}), *pods)

    assert list(found) == ["d", "c", "b", "a"]
    assert found["a"] == (None, "0/1 nodes are available: 1 Too many pods." + NO_VICTIMS)


def test_every_decision_builds_on_the_ones_before() -> None:
    """Two pods that keep away from each other never share a node."""
    away = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": "a"}},
                }
            ]
        }
    }
    pods = [pod_manifest(f"p{i}", labels={"app": "a"}, affinity=away) for i in range(3)]

    found = outcome(node_manifest("n1"), node_manifest("n2"), *pods)

    assert {found["p0"][0], found["p1"][0]} == {"n1", "n2"}
    assert found["p2"][0] is None


def test_a_rejected_pod_is_tried_again_when_a_placement_helps_it() -> None:
    """Its neighbour comes later, because it is less important."""
    near = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": "db"}},
                }
            ]
        }
    }

    found = outcome(
        node_manifest("n1"),
        pod_manifest("follower", affinity=near, priority=10),
        pod_manifest("db", labels={"app": "db"}),
    )

    assert found == {"db": ("n1", ""), "follower": ("n1", "")}


def test_room_is_left_for_nominated_pods() -> None:
    """Of equally important ones, though it is younger."""
    older = pod_manifest("older", requests={"cpu": "2"}, created="2026-01-01T00:00:00Z")
    nominated = pod_manifest("nominated", requests={"cpu": "3"}, nominated="n", created=None)

    found = outcome(node_manifest("n"), older, nominated)

    message = "0/1 nodes are available: 1 Insufficient cpu." + NO_VICTIMS
    assert found == {"older": (None, message), "nominated": ("n", "")}


def test_no_room_is_left_for_a_nominated_pod_that_is_being_deleted() -> None:
    """It comes first, is skipped, and loses its nomination."""
    leaving = pod_manifest("leaving", requests={"cpu": "3"}, nominated="n", priority=9)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    found = outcome(node_manifest("n"), leaving, pod_manifest("p", requests={"cpu": "2"}))

    assert found == {"p": ("n", "")}


class Story(ReservePlugin, PermitPlugin, PreEnqueuePlugin):
    """Says something else of every pod, by name."""

    NAME = "Story"
    log: list[str]

    @override
    def pre_enqueue(self, pod: PodInfo) -> Status:
        if pod.name == "raises-early":
            raise ValueError("early")
        return SUCCESS

    @override
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        if pod.name == "raises":
            raise ValueError("boom")
        return unschedulable("taken") if pod.name == "reserved" else SUCCESS

    @override
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.log.append(pod.name)

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        if pod.name == "waits":
            return Status(Code.WAIT), 60.0
        return (unschedulable("forbidden") if pod.name == "refused" else SUCCESS), 0.0


@pytest.mark.parametrize(
    ("name", "expected", "unreserved"),
    [
        pytest.param("plain", ("n", ""), [], id="placed"),
        pytest.param(
            "waits", (None, "has a place, and is held by Story"), ["waits"], id="nobody lets it go"
        ),
        pytest.param(
            "reserved",
            (None, "0/1 nodes are available: 1 taken."),
            ["reserved"],
            id="Reserve rejects",
        ),
        pytest.param(
            "refused",
            (None, "0/1 nodes are available: 1 forbidden."),
            ["refused"],
            id="Permit rejects",
        ),
        pytest.param(
            "raises",
            (None, 'running Reserve plugin "Story": ValueError: boom'),
            ["raises"],
            id="Reserve raises",
        ),
        pytest.param(
            "raises-early",
            (None, 'running PreEnqueue plugin "Story": ValueError: early'),
            [],
            id="PreEnqueue raises",
        ),
    ],
)
def test_out_of_tree_plugins_take_part(
    name: str, expected: tuple[str | None, str], unreserved: list[str]
) -> None:
    """Those that a configuration enables; one that fails concerns its pod only."""
    Story.log = []
    own: dict[str, type[Plugin]] = {"Story": Story}
    points = {"Story": frozenset(ExtensionPoint(p) for p in ("preEnqueue", "reserve", "permit"))}
    config = load_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Story"}]}}}],
        },
        out_of_tree=points,
    )

    found = outcome(
        node_manifest("n"),
        pod_manifest(name, priority=1),
        pod_manifest("other"),
        profiles=Profiles(config, own),
    )

    assert found[name] == expected
    assert found["other"] == ("n", "")
    # It is tried again, as it says of no event that this would not help.
    assert set(Story.log) == set(unreserved)


@pytest.mark.parametrize(
    ("members", "placed"),
    [
        pytest.param(3, {"m0": "n", "m1": "n", "m2": "n", "other": "n"}, id="complete"),
        pytest.param(2, {"m0": None, "m1": None, "other": "n"}, id="incomplete"),
    ],
)
def test_a_group_is_placed_when_all_of_it_is_there(
    members: int, placed: dict[str, str | None]
) -> None:
    """Pods that a plugin holds are let go by that plugin; their room is others' if not."""
    own: dict[str, type[Plugin]] = {"Together": Together}
    config = load_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Together"}]}}}],
        },
        out_of_tree=implemented_plugins(own),
        args_types=args_types_of(own),
    )
    labels = {GROUP: "g", SIZE: "3"}
    pods = [
        pod_manifest(f"m{i}", labels=labels, requests={"cpu": "1"}, priority=9)
        for i in range(members)
    ]
    other = pod_manifest("other", requests={"cpu": str(4 - members + (members < 3))})

    found = outcome(node_manifest("n"), *pods, other, profiles=Profiles(config, own))

    assert {name: node for name, (node, _) in found.items()} == placed


def test_the_less_important_make_room() -> None:
    """The victim is told, and the room is the preemptor's; nobody else is evicted."""
    running = [
        pod_manifest(name, nodeName="n", requests={"cpu": "1"}, priority=priority)
        for name, priority in (("low", 1), ("mid", 5))
    ]
    vip = pod_manifest("vip", requests={"cpu": "1"}, priority=10)
    text = json.dumps(
        {"kind": "List", "items": [node_manifest("n", allocatable={"cpu": "2"}), *running, vip]}
    )
    cluster = Profiles(None).load(objects_from_documents(documents_from_text(text, "test")))

    placements = simulate(cluster).placements

    assert placements == (Placement("default/vip", "n", victims=("default/low",)),)
    left = {pod.name for pod in cluster.engine.core.cache.pods.values()}
    assert left == {"mid", "vip"}
