"""TaintToleration keeps pods away from what they do not tolerate."""

import numpy as np
import pytest

from scheduler.api.objects import Node, Taint, Toleration
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint
from scheduler.kernel.framework.status import Code, Status
from scheduler.kernel.plugins.taint_toleration import (
    TaintToleration,
    TaintTolerationWithComparisons,
    is_schedulable_after_node_change,
    is_schedulable_after_pod_toleration_change,
)
from scheduler.kernel.snapshot import NodeSet
from tests.support.builders import make_node, make_node_info, make_pod_info, make_snapshot
from tests.support.plugin_answers import FITS, filter_answers, score_answers, statuses

REJECTED = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) had untolerated taint(s)",))
GPU = Taint("gpu", "a100", "NoSchedule")
PLAIN, TAINTED = make_node("n"), make_node("n", taints=[GPU])


@pytest.mark.parametrize(
    ("taint", "expected"),
    [
        pytest.param(GPU, REJECTED, id="no schedule"),
        pytest.param(Taint("gpu", "a100", "NoExecute"), REJECTED, id="no execute"),
        pytest.param(Taint("gpu", "a100", "PreferNoSchedule"), FITS, id="prefer no schedule"),
    ],
)
def test_hard_taints_reject(taint: Taint, expected: Status) -> None:
    """NoSchedule and NoExecute keep pods away, PreferNoSchedule does not."""
    snapshot = make_snapshot([make_node("plain"), make_node("tainted", taints=[taint])])

    answers = filter_answers(TaintToleration(), make_pod_info(), snapshot)

    assert answers == {"plain": FITS, "tainted": expected}


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        pytest.param(Toleration("gpu", "Equal", "a100", "NoSchedule"), FITS, id="exact"),
        pytest.param(Toleration("gpu", "", "a100"), FITS, id="operator left out means Equal"),
        pytest.param(Toleration("gpu", "Exists"), FITS, id="any value, any effect"),
        pytest.param(Toleration(operator="Exists"), FITS, id="anything"),
        pytest.param(Toleration("gpu", "Equal", "t4"), REJECTED, id="other value"),
        pytest.param(Toleration("cpu", "Exists"), REJECTED, id="other key"),
        pytest.param(Toleration("gpu", "Exists", effect="NoExecute"), REJECTED, id="other effect"),
        pytest.param(Toleration("gpu", "Gt", "1"), REJECTED, id="alpha operator"),
        pytest.param(Toleration("gpu", "Lt", "1"), REJECTED, id="the other alpha operator"),
    ],
)
def test_tolerations_open_nodes(toleration: Toleration, expected: Status) -> None:
    """Key, operator, value and effect must all agree."""
    pod = make_pod_info(tolerations=[toleration])

    answers = filter_answers(TaintToleration(), pod, make_snapshot([TAINTED]))

    assert answers == {"n": expected}


@pytest.mark.parametrize(
    ("operator", "bound", "value", "expected"),
    [
        pytest.param("Lt", "10", "9", FITS, id="smaller"),
        pytest.param("Lt", "10", "10", REJECTED, id="equal is not smaller"),
        pytest.param("Gt", "10", "11", FITS, id="greater"),
        pytest.param("Gt", "10", "10", REJECTED, id="equal is not greater"),
        pytest.param("Gt", "-5", "-4", FITS, id="below zero"),
        pytest.param("Gt", "9", "010", REJECTED, id="a leading zero is no number"),
        pytest.param("Gt", "+9", "10", REJECTED, id="nor is a plus sign"),
        pytest.param("Lt", "10", "", REJECTED, id="nor is nothing"),
        pytest.param("Gt", "-0", "10", REJECTED, id="nor is minus zero"),
        pytest.param("Gt", "9", str(2**63 - 1), FITS, id="the greatest number"),
        pytest.param("Gt", "9", str(2**63), REJECTED, id="beyond an int64"),
    ],
)
def test_tolerations_compare_behind_their_gate(
    operator: str, bound: str, value: str, expected: Status
) -> None:
    """Taint and toleration must both be whole numbers in their shortest form."""
    pod = make_pod_info(tolerations=[Toleration("speed", operator, bound)])
    node = make_node("n", taints=[Taint("speed", value, "NoSchedule")])

    answers = filter_answers(TaintTolerationWithComparisons(), pod, make_snapshot([node]))

    assert answers == {"n": expected}


def test_with_the_gate_a_node_that_became_comparable_wakes_the_pod() -> None:
    """The hint compares as the filter does."""
    pod = make_pod_info(tolerations=[Toleration("speed", "Gt", "10")])
    slow, fast = (make_node("n", taints=[Taint("speed", v, "NoSchedule")]) for v in ("5", "20"))
    hints = [
        plugin().events_to_register()[0].queueing_hint
        for plugin in (TaintToleration, TaintTolerationWithComparisons)
    ]

    answers = [None if hint is None else hint(pod, slow, fast) for hint in hints]

    assert answers == [QueueingHint.SKIP, QueueingHint.QUEUE]


def test_untolerated_soft_taints_are_counted() -> None:
    """A toleration for another effect does not count for PreferNoSchedule."""
    soft = [Taint(key, "", "PreferNoSchedule") for key in "abc"]
    snapshot = make_snapshot(
        [make_node("none"), make_node("three", taints=soft), make_node("hard", taints=[GPU])]
    )
    tolerations = [
        Toleration("a", "Exists", effect="NoSchedule"),
        Toleration("b", "Exists"),
        Toleration("c", "Exists", effect="PreferNoSchedule"),
    ]

    scores = score_answers(TaintToleration(), make_pod_info(tolerations=tolerations), snapshot)

    assert scores == {"none": 0, "three": 1, "hard": 0}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param([0, 0], [100, 100], id="nothing disliked"),
        pytest.param([0, 3, 1, 2], [100, 0, 67, 34], id="rounded before it is reversed"),
        pytest.param([2, 2], [0, 0], id="all equally bad"),
        pytest.param([], [], id="no node"),
    ],
)
def test_the_fewer_soft_taints_the_better(counts: list[int], expected: list[int]) -> None:
    """Normalisation reverses the counts."""
    normalized = TaintToleration().normalize_score(
        CycleState(), make_pod_info(), np.array(counts, np.float64)
    )

    assert normalized.tolist() == expected


def test_taints_that_appear_later_are_judged_when_they_appear() -> None:
    """The verdicts kept for a class grow with the taints in the cluster."""
    plugin, state, pod = TaintToleration(), CycleState(), make_pod_info()
    snapshot = make_snapshot([PLAIN])
    assert statuses(plugin, state, pod, snapshot) == {"n": FITS}

    late = make_node("m", taints=[GPU])
    snapshot.update([NodeSet(make_node_info(late), late)])

    assert statuses(plugin, state, pod, snapshot) == {"n": FITS, "m": REJECTED}


def test_tolerations_are_signed() -> None:
    """Pods that tolerate the same are alike."""
    sign = TaintToleration().sign
    one, same = (make_pod_info(n, tolerations=[Toleration("a", "Exists")]) for n in ("p", "q"))

    assert sign(one) == sign(same)
    assert sign(one) != sign(make_pod_info())


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, PLAIN, QueueingHint.QUEUE, id="new node without taints"),
        pytest.param(None, TAINTED, QueueingHint.SKIP, id="new node with taints"),
        pytest.param(TAINTED, PLAIN, QueueingHint.QUEUE, id="taint removed"),
        pytest.param(PLAIN, TAINTED, QueueingHint.SKIP, id="taint added"),
        pytest.param(PLAIN, PLAIN, QueueingHint.SKIP, id="never tainted"),
        pytest.param(
            TAINTED,
            make_node("n", taints=[Taint("gpu", "a100", "PreferNoSchedule")]),
            QueueingHint.QUEUE,
            id="taint softened",
        ),
    ],
)
def test_a_node_that_opens_wakes_the_pod(
    old: Node | None, new: Node, expected: QueueingHint
) -> None:
    """Only the change from rejected to accepted counts."""
    assert is_schedulable_after_node_change(make_pod_info(), old, new) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("pod", QueueingHint.QUEUE, id="the pod itself"),
        pytest.param("other", QueueingHint.SKIP, id="another pod"),
    ],
)
def test_a_new_toleration_wakes_the_pod(name: str, expected: QueueingHint) -> None:
    """Only its own."""
    new = make_pod_info(name, tolerations=[Toleration("any", "Exists")])

    hint = is_schedulable_after_pod_toleration_change(make_pod_info(), make_pod_info(name), new)

    assert hint is expected


def test_the_events_are_upstreams() -> None:
    """Nodes that are added or change taints, pods that change tolerations."""
    assert [
        (registered.event, registered.queueing_hint)
        for registered in TaintToleration().events_to_register()
    ] == [
        (
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT),
            is_schedulable_after_node_change,
        ),
        (
            ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION),
            is_schedulable_after_pod_toleration_change,
        ),
    ]
