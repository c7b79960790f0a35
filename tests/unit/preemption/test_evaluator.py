"""Whether a pod may preempt, on how many nodes it tries to, whom it chooses, and who else loses."""

from collections.abc import Callable, Container
from random import Random
from typing import Any

import pytest

from scheduler.api.disruption_budgets import (
    DisruptionBudget,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    disruption_budget,
)
from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import LabelSelector, Node, ObjectMeta, PodCondition
from scheduler.api.pods import PodInfo
from scheduler.config.load import default_configuration
from scheduler.daemon.bootstrap import FrameworkBuilder
from scheduler.kernel.framework.results import PostFilterResult
from scheduler.kernel.framework.runtime import PluginError
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.status import SUCCESS, Code, Status, unschedulable
from scheduler.kernel.preemption import Evaluator
from tests.support.builders import make_node, make_pod_info
from tests.support.fake_plugins import NodeFilter, make_framework
from tests.unit.preemption.naive import placed

LEAVING = "2026-01-01T00:00:00Z"
PREEMPTED = (PodCondition("DisruptionTarget", "True", "PreemptionByScheduler"),)


def preempt(
    nodes: list[Node],
    pods: list[PodInfo],
    pod: PodInfo,
    *,
    nominated: NominatedPods | None = None,
    evaluator: Evaluator | None = None,
    budgets: tuple[DisruptionBudget, ...] = (),
    places_together: Callable[[PodInfo], bool] | None = None,
) -> tuple[PostFilterResult | None, Status]:
    framework = FrameworkBuilder(lambda: 0.0).build(default_configuration("stowage"))["stowage"]
    _, snapshot = placed(nodes, pods)
    found = framework.filtering.find_nodes_that_fit(pod, snapshot)
    diagnosis = found.diagnosis(snapshot)
    diagnosis.places_together = places_together
    return (evaluator or Evaluator(10, 100)).preempt(
        pod,
        snapshot,
        diagnosis,
        budgets=budgets,
        nominated=nominated or NominatedPods(),
        random=Random(0),
    )


def full(node: str, *, priority: int = 0, **fields: Any) -> PodInfo:
    """A pod that leaves no room on a node."""
    fields = {"requests": {"cpu": "4"}, **fields}
    return make_pod_info(f"on-{node}", node_name=node, priority=priority, **fields)


def important(**fields: Any) -> PodInfo:
    return make_pod_info("important", **{"priority": 10, "requests": {"cpu": "4"}, **fields})


def test_a_pod_that_never_preempts_keeps_its_nomination() -> None:
    pod = important(preemption_policy="Never", nominated_node_name="a")

    result, status = preempt([make_node("a")], [full("a")], pod)

    assert (result, status.message) == (None, "not eligible due to preemptionPolicy=Never.")


@pytest.mark.parametrize(
    ("victim", "waits"),
    [
        pytest.param(
            {"deletion_timestamp": LEAVING, "conditions": PREEMPTED}, True, id="preempted"
        ),
        pytest.param({"deletion_timestamp": LEAVING}, False, id="deleted by somebody"),
        pytest.param({"conditions": PREEMPTED}, False, id="not deleted yet"),
        pytest.param(
            {
                "deletion_timestamp": LEAVING,
                "conditions": (PodCondition("DisruptionTarget", "False"), *PREEMPTED),
            },
            False,
            id="another condition first",
        ),
        pytest.param(
            {"deletion_timestamp": LEAVING, "conditions": PREEMPTED, "priority": 10},
            False,
            id="no less important",
        ),
    ],
)
def test_who_waits_for_a_preempted_pod_does_not_preempt_again(
    victim: dict[str, Any], *, waits: bool
) -> None:
    """A victim on the nominated node that is on its way out is enough."""
    pod = important(nominated_node_name="a")

    result, status = preempt([make_node("a")], [full("a", **victim)], pod)

    message = "not eligible due to a terminating pod on the nominated node."
    assert (status.message == message) is waits
    assert (result is None) is waits


def test_an_unresolvable_nominated_node_is_no_reason_to_wait() -> None:
    """Whatever leaves there, the pod cannot go there any more."""
    pod = important(nominated_node_name="a")
    leaving = full("a", deletion_timestamp=LEAVING, conditions=PREEMPTED)
    nodes = [make_node("a", unschedulable=True), make_node("b")]

    result, _ = preempt(nodes, [leaving, full("b")], pod)

    assert result is not None
    assert result.nominated_node_name == "b"


def test_only_the_least_important_leaves_that_must() -> None:
    pods = [
        make_pod_info(f"p{i}", node_name="a", priority=i, requests={"cpu": "1"}) for i in range(4)
    ]

    result, status = preempt([make_node("a")], pods, important(requests={"cpu": "1"}))

    assert status.is_success
    assert result is not None
    assert [victim.name for victim in result.victims] == ["p0"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"priority": 1}, {"priority": 2}, id="lower highest priority"),
        pytest.param(
            {"start_time": "2026-01-01T00:00:02Z"},
            {"start_time": "2026-01-01T00:00:01Z"},
            id="started later",
        ),
        pytest.param({}, {"start_time": "2026-01-01T00:00:01Z"}, id="not started yet"),
        pytest.param(
            {"start_time": "2026-01-01T01:30:00+01:00"},
            {"start_time": "2026-01-01T00:00:01Z"},
            id="started later, in another time zone",
        ),
    ],
)
def test_the_better_victim_is_taken(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Whichever node comes first."""
    for first, second in ((one, other), (other, one)):
        pods = [full("a", **first), full("b", **second)]
        result, _ = preempt([make_node("a"), make_node("b")], pods, important())
        assert result is not None
        assert result.nominated_node_name == ("a" if first is one else "b")


def test_who_is_disrupted_already_costs_no_budget_anything() -> None:
    """The API server has counted it; the others of that budget cost, and so do other budgets."""
    budgets = tuple(
        disruption_budget(
            PodDisruptionBudget(
                ObjectMeta(f"of-{name}", "default"),
                PodDisruptionBudgetSpec(LabelSelector({"app": name})),
                PodDisruptionBudgetStatus(0, disrupted),
            )
        )
        for name, disrupted in (("a", {"on-a": None}), ("b", {}))
    )
    pods = [full("a", priority=2, labels={"app": "a"}), full("b", labels={"app": "b"})]

    result, _ = preempt([make_node("a"), make_node("b")], pods, important(), budgets=budgets)

    assert result is not None
    assert result.nominated_node_name == "a"


def test_less_important_pods_lose_their_nomination_to_the_node() -> None:
    """But not where all victims are leaving anyway."""
    nominated = NominatedPods()
    for name, priority in (("less", 5), ("equal", 10)):
        nominated.nominate(make_pod_info(name, priority=priority), "a")

    acting, _ = preempt([make_node("a")], [full("a")], important(), nominated=nominated)
    leaving = [full("a", deletion_timestamp=LEAVING)]
    waiting, _ = preempt([make_node("a")], leaving, important(), nominated=nominated)

    assert acting is not None
    assert waiting is not None
    assert [pod.name for pod in acting.cleared] == ["less"]
    assert (waiting.nominated_node_name, waiting.cleared) == ("a", ())


@pytest.mark.parametrize(
    ("percentage", "absolute", "expected"), [(10, 0, 3), (0, 7, 7), (50, 7, 15), (100, 100, 30)]
)
def test_no_more_candidates_are_looked_for_than_wanted(
    percentage: int, absolute: int, expected: int
) -> None:
    """The share counts, and at least the number; never more than there are nodes."""
    nodes = [make_node(f"n{i}") for i in range(30)]
    pods = [full(f"n{i}") for i in range(30)]

    result, _ = preempt(nodes, pods, important(), evaluator=Evaluator(percentage, absolute))

    assert result is not None
    assert len(result.candidates) == expected


def test_more_nodes_are_tried_until_there_are_enough_candidates() -> None:
    """Nodes without a victim do not count."""
    nodes = [make_node(f"n{i}") for i in range(30)]
    pods = [full(f"n{i}", priority=0 if i % 10 == 0 else 10) for i in range(30)]

    result, _ = preempt(nodes, pods, important(), evaluator=Evaluator(0, 2))

    assert result is not None
    assert len(result.candidates) >= 2


# --- groups ---------------------------------------------------------------------------------------


def in_group(pod: PodInfo) -> bool:
    return "group" in pod.labels


def halves(node: str, *priorities: int, **of_first: Any) -> list[PodInfo]:
    """Pods that fill a node, the first of them with more fields."""
    return [
        make_pod_info(
            f"{node}{number}",
            node_name=node,
            priority=priority,
            requests={"cpu": "2"},
            **(of_first if number == 0 else {}),
        )
        for number, priority in enumerate(priorities)
    ]


GROUPED: dict[str, Any] = {"labels": {"group": "g"}}


@pytest.mark.parametrize(
    ("pods", "asks_for", "victims"),
    [
        pytest.param(
            [*halves("a", 0, 0, **GROUPED), *halves("b", 5, 5)], "4", {"b0", "b1"}, id="of a node"
        ),
        pytest.param(halves("a", 0, 5, **GROUPED), "2", {"a1"}, id="on a node"),
        pytest.param(halves("a", 0, 5, **GROUPED), "4", {"a0", "a1"}, id="where nothing else does"),
    ],
)
def test_pods_that_were_placed_together_leave_last(
    pods: list[PodInfo], asks_for: str, victims: set[str]
) -> None:
    """Even if the others are more important: the rest of their group would run on."""
    nodes = [make_node(name) for name in sorted({pod.node_name for pod in pods})]
    pod = important(requests={"cpu": asks_for})

    result, _ = preempt(nodes, pods, pod, places_together=in_group)
    without, _ = preempt(nodes, pods, pod)

    assert result is not None
    assert without is not None
    assert {victim.name for victim in result.victims} == victims
    assert "a0" in {victim.name for victim in without.victims}


def test_budgets_come_before_groups() -> None:
    """A budget is its owner's word; the group is a plugin's."""
    pods = [*halves("a", 0, 0, **GROUPED), *halves("b", 0, 0, labels={"app": "web"})]
    budget = disruption_budget(
        PodDisruptionBudget(
            ObjectMeta("web", "default"),
            PodDisruptionBudgetSpec(LabelSelector({"app": "web"})),
            PodDisruptionBudgetStatus(0, {}),
        )
    )

    result, _ = preempt(
        [make_node("a"), make_node("b")],
        pods,
        important(requests={"cpu": "4"}),
        budgets=(budget,),
        places_together=in_group,
    )

    assert result is not None
    assert result.nominated_node_name == "a"


def judged_by(broken: Container[str]) -> NodeFilter:
    """A filter that rejects nodes with pods, and fails on the broken ones without."""

    def judge(node: NodeInfo) -> Status:
        if node.pods:
            return unschedulable("taken")
        if node.name in broken:
            raise ValueError("broken")
        return SUCCESS

    return NodeFilter("Judge", judge)


def preempt_judged(names: list[str], broken: Container[str]) -> tuple[Any, Status]:
    framework = make_framework(judged_by(broken))
    pod = important()
    _, snapshot = placed([make_node(name) for name in names], [full(name) for name in names])
    found = framework.filtering.find_nodes_that_fit(pod, snapshot)
    return Evaluator(100, 100).preempt(
        pod,
        snapshot,
        found.diagnosis(snapshot),
        budgets=(),
        nominated=NominatedPods(),
        random=Random(0),
    )


def test_a_filter_that_fails_on_some_nodes_leaves_the_others_as_candidates() -> None:
    """kube-scheduler returns errors beside candidates, and ignores them if there are any."""
    result, status = preempt_judged(["a", "b", "c"], {"a", "c"})

    assert status.is_success
    assert result.nominated_node_name == "b"
    assert [victim.name for victim in result.victims] == ["on-b"]


def test_a_filter_that_fails_on_all_nodes_is_the_reason() -> None:
    """Equal texts count once."""
    result, status = preempt_judged(["a", "b"], {"a", "b"})

    assert result is None
    assert status.code is Code.ERROR
    assert status.message == 'running "Judge" filter plugin: broken'


def test_a_filter_that_fails_on_many_nodes_ends_the_dry_run() -> None:
    """Each failing node costs several evaluations: they are bounded."""
    names = [f"n{i}" for i in range(40)]

    with pytest.raises(PluginError, match="broken"):
        preempt_judged(names, set(names))
