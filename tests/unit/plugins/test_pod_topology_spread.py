"""PodTopologySpread: the rules one by one, and all of them together against naive code."""

from typing import Any

import pytest
from hypothesis import assume, given, settings, strategies as st
from typing_extensions import override

from scheduler.api.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import Selector, selector_from_labels
from scheduler.api.workloads import Service, ServiceSpec
from scheduler.config.args import (
    DefaultSpreadConstraint,
    PodTopologySpreadArgs,
    PodTopologySpreadConstraintsDefaulting,
)
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import ActionType, EventResource, QueueingHint
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.status import Code
from scheduler.kernel.plugins.default_selector import SERVICE, Workloads
from scheduler.kernel.plugins.pod_topology_spread import PodTopologySpread
from scheduler.kernel.plugins.spread_constraints import SYSTEM_DEFAULTS
from scheduler.kernel.snapshot import NodeSet, PodAdded
from tests.support.builders import (
    HOSTNAME,
    ZONE,
    make_node,
    make_node_info,
    make_pod_info,
    make_snapshot,
)
from tests.support.handles import make_handle
from tests.unit.plugins.clusters import (
    KEYS,
    RACK,
    Cluster,
    Draw,
    draws,
    judge,
    node_counts,
    pod_counts,
    rejection_if,
    rejections,
)
from tests.unit.plugins.naive_spread import NO_KEY, SKEWED, naive_spread

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"
WEB = LabelSelector({"app": "web"})


class FixedSelector(Workloads):
    """Says of every pod that it belongs together with the same pods."""

    def __init__(self, selector: Selector | None = None) -> None:
        super().__init__()
        self.selector = selector or Selector()

    @override
    def selector_of(self, pod: PodInfo) -> Selector:
        return self.selector


def handle_of(workloads: Workloads) -> Handle:
    return make_handle({Workloads: workloads})


def make_plugin(
    *defaults: TopologySpreadConstraint, selector: Selector | None = None
) -> PodTopologySpread:
    """A plugin with a list of default constraints."""
    args = PodTopologySpreadArgs(
        default_constraints=tuple(map(as_default, defaults)),
        defaulting_type=PodTopologySpreadConstraintsDefaulting.LIST,
    )
    return PodTopologySpread(args, handle_of(FixedSelector(selector)))


def as_default(constraint: TopologySpreadConstraint) -> DefaultSpreadConstraint:
    fields = constraint.__struct_fields__
    return DefaultSpreadConstraint(**{name: getattr(constraint, name) for name in fields})


def constraint(
    key: str = ZONE, when: str = HARD, max_skew: int = 1, **fields: Any
) -> TopologySpreadConstraint:
    fields.setdefault("label_selector", WEB)
    return TopologySpreadConstraint(
        topology_key=key, when_unsatisfiable=when, max_skew=max_skew, **fields
    )


def make_web_pod(
    name: str = "web", *constraints: TopologySpreadConstraint, **fields: Any
) -> PodInfo:
    fields.setdefault("labels", {"app": "web"})
    return make_pod_info(name, topology_spread_constraints=constraints, **fields)


def make_zones(**web_pods_per_node: int) -> Cluster:
    """Nodes named `<zone>` or `<zone>_<anything>` with so many pods of the app "web"."""
    infos = []
    for name, pods in web_pods_per_node.items():
        node = make_node(name, zone=name.split("_")[0])
        web = [make_web_pod(f"{name}-{i}", node_name=name) for i in range(pods)]
        infos.append(make_node_info(node, web))
    return Cluster(infos)


def no_affinity(draw: Draw) -> None:
    """What the running pods of these tests have."""


def rejected(pod: PodInfo, cluster: Cluster, plugin: PodTopologySpread | None = None) -> Any:
    return judge(plugin or make_plugin(), pod, cluster.snapshot(), None).rejected


# --- all rules together ---------------------------------------------------------------------------


def random_constraint(draw: Draw) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=draw.pick((1, 1, 1, 2, 3)),
        topology_key=draw.pick(KEYS),
        when_unsatisfiable=draw.pick((HARD, SOFT)),
        label_selector=draw.selector(),
        min_domains=draw.pick((None, None, None, 1, 2, 3, 4)),
        node_affinity_policy=draw.pick((None, "Honor", "Ignore")),
        node_taints_policy=draw.pick((None, "Honor", "Ignore")),
        match_label_keys=draw.pick(((), (), ("app",), ("tier", "absent"))),
    )


def random_pod(draw: Draw, constraints: int) -> PodInfo:
    return make_pod_info(
        "waiting",
        namespace=draw.namespace(),
        labels=draw.labels(),
        topology_spread_constraints=[random_constraint(draw) for _ in range(constraints)],
        **draw.node_demands(),
    )


@settings(deadline=None, max_examples=600)
@given(draw=draws, nodes=node_counts, pods=pod_counts, constraints=st.integers(0, 3))
def test_verdicts_and_scores_equal_the_naive_rules(
    draw: Draw, nodes: int, pods: int, constraints: int
) -> None:
    """Feasibility, reasons, codes, scores and normalised scores are those of the rules."""
    cluster, pod = draw.cluster(nodes, pods, no_affinity), random_pod(draw, constraints)
    candidates = draw.candidates(cluster)
    defaults = () if constraints else tuple(random_constraint(draw) for _ in range(2))
    selector = draw.pick((Selector(), selector_from_labels({"app": "web"})))

    actual = judge(make_plugin(*defaults, selector=selector), pod, cluster.snapshot(), candidates)

    assert actual == naive_spread(pod, cluster, candidates, defaults, selector)


@settings(deadline=None, max_examples=200)
@given(draw=draws, nodes=node_counts, pods=pod_counts)
def test_system_defaults_equal_the_naive_rules(draw: Draw, nodes: int, pods: int) -> None:
    """The built-in constraints score nodes without the keys as well."""
    cluster, pod = draw.cluster(nodes, pods, no_affinity), random_pod(draw, 0)
    candidates = draw.candidates(cluster)
    selector = selector_from_labels({"app": "web"})
    plugin = PodTopologySpread(PodTopologySpreadArgs(), handle_of(FixedSelector(selector)))

    actual = judge(plugin, pod, cluster.snapshot(), candidates)

    assert actual == naive_spread(
        pod, cluster, candidates, SYSTEM_DEFAULTS, selector, defaults_are_the_systems=True
    )


@settings(deadline=None, max_examples=200)
@given(draw=draws, nodes=node_counts, pods=pod_counts, constraints=st.integers(0, 3))
def test_a_pod_tried_on_a_node_counts_as_if_it_ran_there(
    draw: Draw, nodes: int, pods: int, constraints: int
) -> None:
    """A pod that comes leads to the verdict of the cluster with that pod, and back when it goes."""
    cluster, pod = draw.cluster(nodes, pods, no_affinity), random_pod(draw, constraints)
    info = draw.pick(cluster.nodes)
    tried = draw.running_pod("tried", info.name)
    # The empty selector and dying pods count no running pod, but do count pods that are tried.
    assume(not tried.is_terminating)
    assume(all(c.label_selector != LabelSelector() for c in pod.spec.topology_spread_constraints))
    snapshot, plugin, state = cluster.snapshot(), make_plugin(), CycleState()
    if plugin.pre_filter(state, pod, snapshot)[1].code is Code.SKIP:
        return
    before = rejections(plugin, state, pod, snapshot)
    row = snapshot.table.row_of[info.name]

    with_pod = rejection_if(plugin, state, pod, snapshot, row, (tried, 1))
    without = rejection_if(plugin, state, pod, snapshot, row, (tried, 1), (tried, -1))
    info.pods[tried.uid] = tried
    crowded = cluster.snapshot()
    plugin.pre_filter(state, pod, crowded)
    taken_off = rejection_if(plugin, state, pod, crowded, row, (tried, -1))

    assert with_pod == naive_spread(pod, cluster, None).rejected.get(info.name)
    assert without == taken_off == before.get(info.name)


# --- filtering ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_skew", "expected"),
    [
        pytest.param(1, {"a": SKEWED}, id="one ahead is allowed"),
        pytest.param(2, {}, id="two ahead is allowed"),
    ],
)
def test_a_domain_may_be_so_far_ahead(max_skew: int, expected: Any) -> None:
    """The pod itself counts, and the emptiest domain is what it is compared with."""
    cluster = make_zones(a=2, b=1)

    assert rejected(make_web_pod("p", constraint(max_skew=max_skew)), cluster) == expected


def test_a_pod_that_its_selector_does_not_match_does_not_count_itself() -> None:
    """Spreading over pods of another kind adds nothing."""
    cluster = make_zones(a=2, b=1)

    assert rejected(make_web_pod("p", constraint(), labels={"app": "db"}), cluster) == {}


def test_a_node_without_the_key_is_unresolvable() -> None:
    """No pod that goes away gives a node a label."""
    cluster = Cluster([make_node_info(make_node("a", zone="a")), make_node_info(make_node("b"))])

    assert rejected(make_web_pod("p", constraint()), cluster) == {"b": NO_KEY}


def test_the_first_constraint_a_node_fails_gives_the_reason() -> None:
    """Constraints are tried in their order."""
    cluster = make_zones(a=2, b=0)
    skewed, keyless = constraint(), constraint(RACK)

    assert rejected(make_web_pod("p", skewed, keyless), cluster) == {"a": NO_KEY, "b": NO_KEY}
    cluster.nodes[1].node.metadata.labels[RACK] = "r"
    cluster.nodes[0].node.metadata.labels.pop(ZONE)
    assert rejected(make_web_pod("p", constraint(max_skew=1), keyless), cluster) == {"a": NO_KEY}


def test_nodes_that_lack_one_of_the_keys_do_not_count_at_all() -> None:
    """A zone of which no node has a rack is no domain."""
    cluster = make_zones(a=1, b=0)
    cluster.nodes[0].node.metadata.labels[RACK] = "r"

    found = rejected(make_web_pod("p", constraint(), constraint(RACK, max_skew=9)), cluster)

    assert found == {"b": NO_KEY}


@pytest.mark.parametrize(
    ("min_domains", "expected"),
    [
        pytest.param(None, {}, id="one domain suffices by default"),
        pytest.param(2, {}, id="as many domains as demanded"),
        pytest.param(3, {"a": SKEWED, "b": SKEWED}, id="too few domains: compared with none"),
    ],
)
def test_with_too_few_domains_the_emptiest_counts_as_empty(
    min_domains: int | None, expected: Any
) -> None:
    """The field minDomains holds pods back until there are enough domains."""
    cluster = make_zones(a=1, b=1)

    assert rejected(make_web_pod("p", constraint(min_domains=min_domains)), cluster) == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(None, {}, id="by default honoured"),
        pytest.param("Honor", {}, id="honoured"),
        pytest.param("Ignore", {"a": SKEWED}, id="ignored: the other zone is the emptiest"),
    ],
)
def test_nodes_the_pod_does_not_select_count_by_policy(policy: str | None, expected: Any) -> None:
    """The field nodeAffinityPolicy decides whether unselected nodes form domains."""
    cluster = make_zones(a=1, b=0)
    pod = make_web_pod("p", constraint(node_affinity_policy=policy), node_selector={ZONE: "a"})

    assert rejected(pod, cluster).get("a") == expected.get("a")


@pytest.mark.parametrize(
    ("policy", "tolerations", "expected"),
    [
        pytest.param(None, (), {"a": SKEWED}, id="by default ignored"),
        pytest.param("Honor", (), {}, id="honoured: the tainted zone is no domain"),
        pytest.param(
            "Honor", (Toleration("k", "Exists"),), {"a": SKEWED}, id="honoured but tolerated"
        ),
    ],
)
def test_tainted_nodes_count_by_policy(
    policy: str | None, tolerations: tuple[Toleration, ...], expected: Any
) -> None:
    """The field nodeTaintsPolicy decides whether nodes with untolerated taints form domains."""
    cluster = make_zones(a=1)
    cluster.nodes.append(
        make_node_info(make_node("b", zone="b", taints=[Taint("k", "", "NoSchedule")]))
    )
    pod = make_web_pod("p", constraint(node_taints_policy=policy), tolerations=tolerations)

    assert rejected(pod, cluster) == expected


def test_pods_of_other_namespaces_and_dying_pods_do_not_count() -> None:
    """Only living pods of the pod's own namespace matter."""
    cluster = make_zones(a=0, b=0)
    for i, fields in enumerate(({"namespace": "other"}, {"deletion_timestamp": "2026-01-01"})):
        pod = make_web_pod(f"x{i}", node_name="a", **fields)
        cluster.nodes[0].pods[pod.uid] = pod

    assert rejected(make_web_pod("p", constraint()), cluster) == {}


def test_match_label_keys_narrow_the_selector_to_the_pods_own_revision() -> None:
    """Pods of another revision do not count; a key the pod lacks is left out."""
    cluster = make_zones(a=0, b=0)
    old = make_web_pod("old", labels={"app": "web", "rev": "1"}, node_name="a")
    cluster.nodes[0].pods[old.uid] = old
    by_revision = constraint(match_label_keys=("rev", "absent"))

    def verdict(revision: str) -> Any:
        labels = {"app": "web", "rev": revision}
        return rejected(make_web_pod("p", by_revision, labels=labels), cluster)

    assert verdict("2") == {}
    assert verdict("1") == {"a": SKEWED}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(None, {}, id="no selector: neither pods nor the pod itself"),
        pytest.param(LabelSelector(), {}, id="empty selector: only the pod itself"),
    ],
)
def test_selectors_without_requirements_count_no_running_pod(
    selector: LabelSelector | None, expected: Any
) -> None:
    """An empty selector matches everything and yet counts nothing."""
    cluster = make_zones(a=3, b=0)

    assert rejected(make_web_pod("p", constraint(label_selector=selector)), cluster) == expected


def test_the_empty_selector_counts_pods_that_are_tried() -> None:
    """What holds for running pods does not hold for nominated ones."""
    cluster = make_zones(a=0, b=0)
    snapshot, plugin, state = cluster.snapshot(), make_plugin(), CycleState()
    pod = make_web_pod("p", constraint(label_selector=LabelSelector()))
    plugin.pre_filter(state, pod, snapshot)

    tried = make_web_pod("q", node_name="a")

    assert rejection_if(plugin, state, pod, snapshot, 0, (tried, 1)) == SKEWED


def test_pods_of_other_namespaces_are_tried_in_vain() -> None:
    """A pod that comes in another namespace changes nothing."""
    cluster = make_zones(a=0, b=0)
    snapshot, plugin, state = cluster.snapshot(), make_plugin(), CycleState()
    pod = make_web_pod("p", constraint())
    plugin.pre_filter(state, pod, snapshot)

    tried = make_web_pod("q", namespace="x", node_name="a")

    assert rejection_if(plugin, state, pod, snapshot, 0, (tried, 1)) is None


def test_without_hard_constraints_there_is_nothing_to_filter() -> None:
    """PreFilter and PreScore skip what the pod does not ask for."""
    cluster = make_zones(a=2, b=0)

    answers = [
        judge(make_plugin(), make_web_pod("p", *given), cluster.snapshot(), None)
        for given in ((), (constraint(),), (constraint(when=SOFT),))
    ]

    assert [a.skips_filter for a in answers] == [True, False, True]
    assert [a.skips_score for a in answers] == [True, True, False]


def test_a_selector_that_cannot_be_read_is_an_error() -> None:
    """The attempt ends with a message that names the field."""
    broken = LabelSelector(match_expressions=(LabelSelectorRequirement("app", "Like", ("w",)),))
    pod = make_web_pod("p", constraint(label_selector=broken))
    snapshot, plugin = make_zones(a=0).snapshot(), make_plugin()

    _, status = plugin.pre_filter(CycleState(), pod, snapshot)

    assert status.code is Code.ERROR
    assert status.message.startswith("spec.topologySpreadConstraints: operator 'Like'")
    assert plugin.pre_score(CycleState(), pod, snapshot, slice(0, 1)) == status


# --- scoring --------------------------------------------------------------------------------------


def test_fuller_zones_score_lower() -> None:
    """Counts are weighted by the logarithm of the number of domains, then turned round."""
    cluster = make_zones(a=4, b=1, c=0)
    pod = make_web_pod("p", constraint(when=SOFT))

    answer = judge(make_plugin(), pod, cluster.snapshot(), None)

    # ln(3 zones + 2) = 1.609; 4 x 1.609 = 6.44, 1 x 1.609 = 1.61
    assert answer.scores == {"a": 6, "b": 2, "c": 0}
    assert answer.normalized == {"a": 0, "b": 66, "c": 100}


def test_nodes_that_lack_a_key_get_nothing() -> None:
    """They are left out of scoring and end with 0."""
    cluster = make_zones(a=1, b=0)
    cluster.nodes.append(make_node_info(make_node("keyless")))
    pod = make_web_pod("p", constraint(when=SOFT))

    answer = judge(make_plugin(), pod, cluster.snapshot(), None)

    assert answer.normalized == {"a": 0, "b": 100, "keyless": 0}


def test_when_nothing_counts_every_scored_node_is_perfect() -> None:
    """The highest score is 0: all get 100."""
    cluster = make_zones(a=0, b=0)

    answer = judge(
        make_plugin(), make_web_pod("p", constraint(when=SOFT)), cluster.snapshot(), None
    )

    assert answer.normalized == {"a": 100, "b": 100}


def test_only_candidates_form_domains_but_all_nodes_count() -> None:
    """The weight follows the candidates' domains; pods on other nodes of a domain still count."""
    cluster = make_zones(a=0, a_full=3, b=0, c=0)
    pod = make_web_pod("p", constraint(when=SOFT))

    answer = judge(make_plugin(), pod, cluster.snapshot(), {"a", "b"})

    # ln(2 zones + 2) = 1.386, times 3
    assert answer.scores == {"a": 4, "b": 0}


def test_system_defaults_spread_the_pods_of_a_service() -> None:
    """Hostname (maxSkew 3) and zone (maxSkew 5), through the Services of the namespace."""
    workloads = Workloads()
    service = Service(ObjectMeta(name="s", namespace="default"), ServiceSpec({"app": "web"}))
    workloads.on_event(SERVICE, None, service)
    plugin = PodTopologySpread(PodTopologySpreadArgs(), handle_of(workloads))
    cluster = make_zones(a_1=2, a_2=0, b=0)

    served = judge(plugin, make_web_pod("p"), cluster.snapshot(), None)
    unserved = judge(plugin, make_web_pod("q", labels={"app": "db"}), cluster.snapshot(), None)

    # hostname: 2 x ln(3 + 2) + 2; zone: 2 x ln(2 + 2) + 4
    assert served.scores == {"a_1": 12, "a_2": 9, "b": 6}
    assert unserved.skips_score


def test_a_pod_with_any_constraint_gets_no_default_ones() -> None:
    """Even a hard one alone turns the defaults off."""
    selector = selector_from_labels({"app": "web"})
    plugin = PodTopologySpread(PodTopologySpreadArgs(), handle_of(FixedSelector(selector)))
    cluster = make_zones(a=1, b=0)

    answer = judge(plugin, make_web_pod("p", constraint()), cluster.snapshot(), None)

    assert answer.skips_score


def test_hard_default_constraints_filter() -> None:
    """Listed defaults may reject nodes too."""
    plugin = make_plugin(
        constraint(label_selector=None), selector=selector_from_labels({"app": "web"})
    )

    assert rejected(make_web_pod("p"), make_zones(a=1, b=0), plugin) == {"a": SKEWED}


# --- following the cluster ------------------------------------------------------------------------


def test_what_is_remembered_of_nodes_follows_their_changes() -> None:
    """The same plugin answers rightly after a node moved to another zone and one was added."""
    cluster = make_zones(a=1, b=0)
    snapshot, plugin, pod = cluster.snapshot(), make_plugin(), make_web_pod("p", constraint())
    before = judge(plugin, pod, snapshot, None).rejected

    node = cluster.nodes[1].node = make_node("b", zone="a")
    snapshot.update([NodeSet(cluster.nodes[1], node)])
    moved = judge(plugin, pod, snapshot, None).rejected
    new = make_node("c", zone="c")
    snapshot.update([NodeSet(make_node_info(new), new)])
    added = judge(plugin, pod, snapshot, None).rejected

    assert before == {"a": SKEWED}
    assert moved == {}
    assert added == {"a": SKEWED, "b": SKEWED}


def test_one_plugin_serves_several_snapshots() -> None:
    """What was worked out for one snapshot is not used for another."""
    plugin, pod = make_plugin(), make_web_pod("p", constraint())
    answers = [
        judge(plugin, pod, cluster.snapshot(), None).rejected
        for cluster in (make_zones(a=1, b=0), make_zones(b=1, a=0), make_zones(a=0, b=0))
    ]

    assert answers == [{"a": SKEWED}, {"b": SKEWED}, {}]


def test_what_is_known_of_pods_goes_with_them() -> None:
    """Of their shapes, of variants of a shape, and of what they look at; and it is never wrong."""
    plugin, snapshot = make_plugin(), make_zones(a=1, b=0).snapshot()

    for max_skew in (1, 2, 3, 1):
        for namespace in ("default", "x", "y", "default"):
            pod = make_web_pod("p", constraint(max_skew=max_skew), namespace=namespace)
            expected = {"a": SKEWED} if (max_skew, namespace) == (1, "default") else {}
            assert judge(plugin, pod, snapshot, None).rejected == expected

        assert len(plugin._plans._plans) == 1
    del pod
    assert len(plugin._plans._plans) == 0


# --- queueing hints -------------------------------------------------------------------------------

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


def hint_for(resource: EventResource, plugin: PodTopologySpread) -> Any:
    found = [e for e in plugin.events_to_register() if e.event.resource is resource]
    assert len(found) == 1
    return found[0].queueing_hint


def test_it_is_woken_by_pods_and_nodes() -> None:
    """The events are kube-scheduler's."""
    events = {e.event.resource: e.event.action for e in make_plugin().events_to_register()}

    assert events == {
        EventResource.POD: ActionType.ADD
        | ActionType.DELETE
        | ActionType.UPDATE_POD_LABEL
        | ActionType.UPDATE_POD_TOLERATION,
        EventResource.NODE: ActionType.ADD
        | ActionType.DELETE
        | ActionType.UPDATE_NODE_LABEL
        | ActionType.UPDATE_NODE_TAINT,
    }


def test_hints_depend_on_the_owner_only_with_hard_defaults() -> None:
    """Hard default constraints follow the owner of a pod, which equal shapes do not share."""
    soft, hard = make_plugin(constraint(when=SOFT)), make_plugin(constraint())

    assert [e.reads_pod_shape_only for e in soft.events_to_register()] == [True, True]
    assert [e.reads_pod_shape_only for e in hard.events_to_register()] == [False, False]


TOLERATING = (Toleration("k", "Exists"),)


def _other(node_name: str = "n", **fields: Any) -> PodInfo:
    return make_web_pod("other", node_name=node_name, **fields)


def _itself(**fields: Any) -> PodInfo:
    return make_web_pod("p", constraint(node_taints_policy="Honor"), **fields)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, _other(), QUEUE, id="a counted pod comes"),
        pytest.param(_other(), None, QUEUE, id="a counted pod goes"),
        pytest.param(None, _other(labels={"app": "db"}), SKIP, id="another kind of pod comes"),
        pytest.param(_other(labels={"app": "db"}), None, SKIP, id="another kind of pod goes"),
        pytest.param(None, _other(namespace="x"), SKIP, id="a pod of another namespace comes"),
        pytest.param(None, _other(node_name=""), SKIP, id="a pod without a node comes"),
        pytest.param(
            None, _other(node_name="", nominated_node_name="n"), QUEUE, id="a nominated pod comes"
        ),
        pytest.param(_other(), _other(labels={}), QUEUE, id="a pod stops to count"),
        pytest.param(_other(labels={}), _other(), QUEUE, id="a pod starts to count"),
        pytest.param(
            _other(), _other(labels={"app": "web", "x": "y"}), SKIP, id="a pod keeps counting"
        ),
        pytest.param(_itself(), _itself(tolerations=TOLERATING), QUEUE, id="it tolerates more"),
        pytest.param(
            _other(), _other(tolerations=TOLERATING), SKIP, id="another pod tolerates more"
        ),
        pytest.param(_itself(), _itself(labels={}), QUEUE, id="it stops to count itself"),
    ],
)
def test_pod_events(old: PodInfo | None, new: PodInfo | None, expected: QueueingHint) -> None:
    """A pod event wakes when it changes what the pod's hard constraints count."""
    hint = hint_for(EventResource.POD, make_plugin())

    assert hint(_itself(), old, new) is expected


def test_tolerating_more_does_not_help_when_taints_are_ignored() -> None:
    """Only constraints that honour taints look at tolerations."""
    hint = hint_for(EventResource.POD, make_plugin())
    old, new = (
        make_web_pod("p", constraint()),
        make_web_pod("p", constraint(), tolerations=TOLERATING),
    )

    assert hint(new, old, new) is SKIP


_A, _B, _KEYLESS = make_node(zone="a"), make_node(zone="b"), make_node()
_TAINTED = make_node(zone="a", taints=[Taint("k", "", "NoSchedule")])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, _A, QUEUE, id="a node of a domain comes"),
        pytest.param(None, _KEYLESS, SKIP, id="a node without the key comes"),
        pytest.param(_A, None, QUEUE, id="a node of a domain goes"),
        pytest.param(_KEYLESS, None, SKIP, id="a node without the key goes"),
        pytest.param(_KEYLESS, _A, QUEUE, id="a node joins a domain"),
        pytest.param(_A, _KEYLESS, QUEUE, id="a node leaves its domain"),
        pytest.param(_A, _B, QUEUE, id="a node changes its domain"),
        pytest.param(_A, _A, SKIP, id="something else about a node changes"),
        pytest.param(_A, _TAINTED, QUEUE, id="the taints of a node in a domain change"),
        pytest.param(
            _KEYLESS,
            make_node(taints=[Taint("k", "", "NoSchedule")]),
            SKIP,
            id="the taints of a node without the key change",
        ),
    ],
)
def test_node_events(old: Any, new: Any, expected: QueueingHint) -> None:
    """A node event wakes when domains change."""
    hint = hint_for(EventResource.NODE, make_plugin())

    assert hint(make_web_pod("p", constraint()), old, new) is expected


def test_a_pod_without_constraints_is_not_woken_by_pods() -> None:
    """There is nothing that could count."""
    hint = hint_for(EventResource.POD, make_plugin())

    assert hint(make_web_pod("p"), None, _other()) is SKIP


def test_running_pods_are_added_to_an_empty_snapshot_without_being_asked_for() -> None:
    """Counts exist before the first question and follow afterwards."""
    snapshot = make_snapshot([make_node(zone, zone=zone) for zone in ("a", "b")])
    plugin, pod = make_plugin(), make_web_pod("p", constraint(HOSTNAME))
    assert judge(plugin, pod, snapshot, None).rejected == {}

    snapshot.update([PodAdded(make_web_pod("q", node_name="a"))])

    assert judge(plugin, pod, snapshot, None).rejected == {"a": SKEWED}
