"""What people read of obstacles, changes and guesses."""

import msgspec
import pytest

from scheduler.kernel.answers.edits import (
    AddNodes,
    AddToleration,
    DropRule,
    Edit,
    EvictPod,
    LowerRequest,
    SetLabel,
    Uncordon,
)
from scheduler.kernel.answers.model import Guess, NearNode, PluginRejection, SuggestedChange
from scheduler.kernel.answers.words import change_text, guess_text, near_text, obstacle_text
from scheduler.kernel.framework.obstacles import (
    DomainCount,
    LabelObstacle,
    Obstacle,
    PodOnNode,
    PodTermObstacle,
    PortObstacle,
    ResourceObstacle,
    SpreadObstacle,
    TaintObstacle,
    ValueCount,
)

GI = 2**30
TERM = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
WEB = (PodOnNode("shop/web-0", "n1"),)


@pytest.mark.parametrize(
    ("obstacle", "expected"),
    [
        (
            ResourceObstacle("cpu", 3, 2500, 300, "n1", 0),
            "2500m cpu asked for: 3 nodes short, by 300m on the nearest (n1)",
        ),
        (
            ResourceObstacle("memory", 1, 2 * GI, GI, "n1", 1),
            (
                "2Gi memory asked for: 1 node short, by 1Gi on the nearest (n1); "
                "too small even when empty"
            ),
        ),
        (
            ResourceObstacle("cpu", 3, 1000, 1, "n1", 2),
            (
                "1 cpu asked for: 3 nodes short, by 1m on the nearest (n1); "
                "2 too small even when empty"
            ),
        ),
        (ResourceObstacle("pods", 2, 1, 1, "n1", 0), "no place for another pod on 2 nodes"),
        (TaintObstacle("gpu=true:NoSchedule", 1), "taint gpu=true:NoSchedule on 1 node"),
        (
            LabelObstacle(
                "spec.nodeSelector[disk]", "disk", "In", ("nvme",), 3, 2, (ValueCount("ssd", 2),)
            ),
            "nodeSelector[disk] asks for disk In nvme: 3 nodes not so; nodes have ssd (2)",
        ),
        (
            LabelObstacle("spec.nodeSelector[a]", "a", "In", ("b",), 3, 0, ()),
            "nodeSelector[a] asks for a In b: no node has such a label",
        ),
        (
            PodTermObstacle("antiAffinity", TERM, "zone", "app=web", ("shop",), 2, 0, 3, WEB),
            (
                "podAffinity[0] keeps away from app=web per zone: 2 nodes "
                "(shop/web-0 on n1 and 1 more)"
            ),
        ),
        (
            PodTermObstacle("affinity", TERM, "zone", "app=web", (), 2, 1, 0, ()),
            (
                "podAffinity[0] wants to be with app=web per zone: not on 2 nodes, 1 of which "
                "lack the label; no such pod runs"
            ),
        ),
        (
            PodTermObstacle("affinity", TERM, "zone", "app=web", (), 2, 0, 1, WEB),
            (
                "podAffinity[0] wants to be with app=web per zone: not on 2 nodes; there are "
                "(shop/web-0 on n1)"
            ),
        ),
        (
            PodTermObstacle("existingAntiAffinity", "", "zone", "app=p", (), 1, 0, 1, WEB),
            "1 pod keeps away from their zone what is app=p: 1 node (shop/web-0 on n1)",
        ),
        (
            SpreadObstacle(
                "spec.topologySpreadConstraints[0]",
                "zone",
                1,
                3,
                "app=web",
                4,
                1,
                0,
                2,
                (DomainCount("a", 0, 0, 1), DomainCount("b", 2, 2, 3)),
            ),
            (
                "topologySpreadConstraints[0] spreads app=web per zone, maxSkew 1: 4 nodes "
                "rejected, 1 lack the label; 2 domains, minDomains 3; pods: a 0, b 2; the skew "
                "would be up to 3"
            ),
        ),
        (
            SpreadObstacle("", "rack", 1, 1, "app=web", 4, 4, 0, 0, ()),
            (
                "the profile spreads app=web per rack, maxSkew 1: 4 nodes rejected, 4 lack the "
                "label; there are no domains"
            ),
        ),
        (
            PortObstacle(80, "TCP", "0.0.0.0", 2, 2, WEB),  # noqa: S104 - the wildcard address
            "host port 80/TCP is held on 2 nodes (shop/web-0 on n1)",
        ),
    ],
)
def test_obstacles(obstacle: Obstacle, expected: str) -> None:
    """One line each."""
    assert obstacle_text(obstacle) == expected


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        (
            [LowerRequest("cpu", "3", "1500m")],
            "request at most 1500m cpu instead of 3: then it fits on n1",
        ),
        (
            [LowerRequest("memory", str(4 * GI), str(3 * GI - 1))],
            "request at most 2.9Gi memory instead of 4Gi: then it fits on n1",
        ),
        (
            [LowerRequest("example.com/gpu", "2", "0")],
            "request no example.com/gpu instead of 2: then it fits on n1",
        ),
        (
            [AddToleration("team", "", "NoExecute"), DropRule("spec.nodeSelector[a]", "a=b")],
            "tolerate team:NoExecute, and drop nodeSelector[a] (a=b): then it fits on n1",
        ),
        (
            [SetLabel("n1", "disk", "ssd"), SetLabel("n1", "old", None)],
            "label node n1 disk=ssd, and label node n1 old-: then it fits on n1",
        ),
        ([Uncordon("n1")], "uncordon n1: then it fits on n1"),
        (
            [EvictPod("shop/a", "n1", -5), EvictPod("shop/b", "n1", 7)],
            "evict shop/a, shop/b from n1 (priority up to 7): then it fits on n1",
        ),
        ([AddNodes("n1", 1)], "add a node like n1"),
        ([AddNodes("n1", 3)], "add 3 nodes like n1"),
    ],
)
def test_changes(edits: list[Edit], expected: str) -> None:
    """As something to do; amounts that fit are rounded down."""
    change = SuggestedChange(edits[0].kind, tuple(edits), 1, "n1")

    assert change_text(change) == expected


def test_a_change_that_many_nodes_gain_from() -> None:
    """Their number, and one of them."""
    edits = (AddToleration("team", "a", "NoSchedule"),)

    text = change_text(SuggestedChange("addToleration", edits, 12, "n1"))

    assert text == "tolerate team=a:NoSchedule: then it fits on 12 nodes, such as n1"


def test_guesses_and_near_nodes() -> None:
    """Where the word is, and what the node says."""
    guess = Guess("spec.nodeSelector[disk]", "sdd", "ssd", 20, 15)
    near = NearNode(
        "n1", 2, (PluginRejection("Fit", "U", ("Too many pods",)), PluginRejection("X", "U", ()))
    )

    assert guess_text(guess) == (
        'no node has "sdd" (nodeSelector[disk]): is "ssd" meant, which 20 nodes have? '
        "Then it fits on 15 nodes."
    )
    assert near_text(near) == "n1: Fit: Too many pods; X"


def test_what_is_written_can_be_read_back() -> None:
    """Every kind of edit and obstacle is told apart in JSON."""
    edits: tuple[Edit, ...] = (
        LowerRequest("cpu", "3", "1"),
        AddToleration("a", "", "NoSchedule"),
        DropRule("p", "t"),
        SetLabel("n", "k", None),
        Uncordon("n"),
        EvictPod("p", "n", 0),
        AddNodes("n", 1),
    )
    change = SuggestedChange("several", edits, 1, "n")

    written = msgspec.json.encode(change)

    assert msgspec.json.decode(written, type=SuggestedChange) == change
    assert b'{"kind":"lowerRequest","resource":"cpu","requested":"3","atMost":"1"}' in written
