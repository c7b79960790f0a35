"""InterPodAffinity: the rules one by one, and all of them together against naive code."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.api.objects import (
    Affinity,
    LabelSelector,
    LabelSelectorRequirement,
    Namespace,
    ObjectMeta,
    PodAffinitySpec,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)
from scheduler.api.pods import PodInfo
from scheduler.config.args import InterPodAffinityArgs
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import ActionType, EventResource, QueueingHint
from scheduler.kernel.framework.status import Code
from scheduler.kernel.plugins.inter_pod_affinity import InterPodAffinity
from scheduler.kernel.snapshot import NamespaceChanged, NodeSet
from tests.support.builders import HOSTNAME, ZONE, make_node, make_node_info, make_pod_info
from tests.unit.plugins.clusters import (
    KEYS,
    Cluster,
    Draw,
    draws,
    judge,
    node_counts,
    pod_counts,
    rejection_if,
    rejections,
)
from tests.unit.plugins.naive_affinity import AFFINITY, ANTI_AFFINITY, EXISTING, naive_affinity

WEB = LabelSelector({"app": "web"})
TEAM_A = LabelSelector({"team": "a"})
NOT_TEAM_A = LabelSelector(match_expressions=(LabelSelectorRequirement("team", "NotIn", ("a",)),))


def make_plugin(hard_weight: int = 1, *, ignore_existing: bool = False) -> InterPodAffinity:
    return InterPodAffinity(InterPodAffinityArgs(hard_weight, ignore_existing))


def term(key: str = ZONE, selector: LabelSelector | None = WEB, **fields: Any) -> PodAffinityTerm:
    return PodAffinityTerm(key, selector, **fields)


def near(*terms: PodAffinityTerm) -> Affinity:
    return Affinity(
        pod_affinity=PodAffinitySpec(required_during_scheduling_ignored_during_execution=terms)
    )


def away(*terms: PodAffinityTerm) -> Affinity:
    return Affinity(
        pod_anti_affinity=PodAffinitySpec(required_during_scheduling_ignored_during_execution=terms)
    )


def preferring(**weights: int) -> Affinity:
    """Preferred affinity to the app "web" per zone, or anti-affinity where the weight is negative.

    The keywords only tell terms apart.
    """

    def spec(sign: int) -> PodAffinitySpec:
        return PodAffinitySpec(
            preferred_during_scheduling_ignored_during_execution=tuple(
                WeightedPodAffinityTerm(abs(weight), term())
                for weight in weights.values()
                if weight * sign > 0
            )
        )

    return Affinity(pod_affinity=spec(1), pod_anti_affinity=spec(-1))


def make_web_pod(name: str = "web", affinity: Affinity | None = None, **fields: Any) -> PodInfo:
    fields.setdefault("labels", {"app": "web"})
    return make_pod_info(name, affinity=affinity, **fields)


def make_zones(*zones: str) -> Cluster:
    """A node per zone, named like it; "-" stands for a node without a zone."""
    nodes = [make_node(zone, zone=zone.strip("-")) for zone in zones]
    return Cluster([make_node_info(node) for node in nodes])


def run(cluster: Cluster, zone: str, pod: PodInfo) -> None:
    """Put a pod on the node of a zone."""
    info = next(info for info in cluster.nodes if info.name == zone)
    info.pods[pod.uid] = pod.on_node(zone)


def rejected(pod: PodInfo, cluster: Cluster) -> Any:
    return judge(make_plugin(), pod, cluster.snapshot(), None).rejected


def scores(pod: PodInfo, cluster: Cluster, plugin: InterPodAffinity | None = None) -> Any:
    """The scores before normalisation, or None when the plugin does not score the pod."""
    answer = judge(plugin or make_plugin(), pod, cluster.snapshot(), None)
    return None if answer.skips_score else answer.scores


# --- all rules together ---------------------------------------------------------------------------


def random_term(draw: Draw) -> PodAffinityTerm:
    return PodAffinityTerm(
        topology_key=draw.pick(KEYS),
        label_selector=draw.selector(),
        namespaces=draw.pick(((), (), (), ("red",), ("blue", "green"))),
        namespace_selector=draw.pick((None, None, None, LabelSelector(), TEAM_A, NOT_TEAM_A)),
    )


def random_spec(draw: Draw, required: int, preferred: int) -> PodAffinitySpec | None:
    if draw.maybe(0.3):
        return None
    return PodAffinitySpec(
        tuple(random_term(draw) for _ in range(draw.randint(0, required))),
        tuple(
            WeightedPodAffinityTerm(draw.pick((1, 7, 100)), random_term(draw))
            for _ in range(draw.randint(0, preferred))
        ),
    )


def random_affinity(draw: Draw) -> Affinity | None:
    """Affinity of a running pod: often none, so that not every case rejects everything."""
    if draw.maybe(0.6):
        return None
    return Affinity(pod_affinity=random_spec(draw, 1, 1), pod_anti_affinity=random_spec(draw, 1, 1))


def random_pod(draw: Draw) -> PodInfo:
    return make_pod_info(
        "waiting",
        namespace=draw.namespace(),
        labels=draw.labels(),
        affinity=Affinity(
            pod_affinity=random_spec(draw, 2, 2), pod_anti_affinity=random_spec(draw, 2, 2)
        ),
    )


@settings(deadline=None, max_examples=600)
@given(
    draw=draws,
    nodes=node_counts,
    pods=pod_counts,
    hard_weight=st.sampled_from((0, 1, 50)),
    ignore_existing=st.booleans(),
)
def test_verdicts_and_scores_equal_the_naive_rules(
    draw: Draw, nodes: int, pods: int, hard_weight: int, ignore_existing: bool
) -> None:
    """Feasibility, reasons, codes, scores and normalised scores are those of the rules."""
    cluster, pod = draw.cluster(nodes, pods, random_affinity), random_pod(draw)
    candidates = draw.candidates(cluster)
    plugin = make_plugin(hard_weight, ignore_existing=ignore_existing)

    actual = judge(plugin, pod, cluster.snapshot(), candidates)

    assert actual == naive_affinity(
        pod, cluster, candidates, hard_weight=hard_weight, ignore_existing=ignore_existing
    )


@settings(deadline=None, max_examples=250)
@given(draw=draws, nodes=node_counts, pods=pod_counts)
def test_a_pod_tried_on_a_node_counts_as_if_it_ran_there(draw: Draw, nodes: int, pods: int) -> None:
    """A pod that comes leads to the verdict of the cluster with that pod, and back when it goes."""
    cluster, pod = draw.cluster(nodes, pods, random_affinity), random_pod(draw)
    info = draw.pick(cluster.nodes)
    tried = draw.running_pod("tried", info.name, random_affinity(draw))
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

    assert with_pod == naive_affinity(pod, cluster, None).rejected.get(info.name)
    assert without == taken_off == before.get(info.name)


# --- filtering ------------------------------------------------------------------------------------


def test_affinity_wants_a_pod_in_the_same_domain() -> None:
    """Nodes of other zones are out, for good as far as other pods' removal goes."""
    cluster = make_zones("a", "b", "-")
    run(cluster, "a", make_web_pod("w"))
    pod = make_web_pod("p", near(term()), labels={})

    assert rejected(pod, cluster) == {"b": AFFINITY, "-": AFFINITY}


def test_anti_affinity_wants_no_pod_in_the_same_domain() -> None:
    """Nodes without the key are no domain and always fit."""
    cluster = make_zones("a", "b", "-")
    run(cluster, "a", make_web_pod("w"))
    run(cluster, "-", make_web_pod("v"))

    assert rejected(make_web_pod("p", away(term())), cluster) == {"a": ANTI_AFFINITY}


def test_running_pods_keep_away_whom_they_do_not_like() -> None:
    """Anti-affinity is symmetric."""
    cluster = make_zones("a", "b")
    run(cluster, "a", make_web_pod("w", away(term()), labels={}))

    assert rejected(make_web_pod("p"), cluster) == {"a": EXISTING}


def test_the_first_reason_is_given() -> None:
    """Affinity, own anti-affinity, that of others: in this order."""
    cluster = make_zones("a", "b", "c")
    for zone, app in (("a", "db"), ("a", "web"), ("b", "web")):
        labels = {"app": app}
        run(cluster, zone, make_web_pod(f"{zone}-{app}", away(term()), labels=labels))
    run(cluster, "c", make_web_pod("c", away(term()), labels={"app": "db"}))
    db = term(selector=LabelSelector({"app": "db"}))
    both = Affinity(
        pod_affinity=near(db).pod_affinity, pod_anti_affinity=away(term()).pod_anti_affinity
    )

    assert rejected(make_web_pod("p", both), cluster) == {
        "a": ANTI_AFFINITY,
        "b": AFFINITY,
        "c": EXISTING,
    }


def test_one_pod_must_satisfy_all_affinity_terms() -> None:
    """Two pods that satisfy one term each do not count."""
    cluster = make_zones("a")
    run(cluster, "a", make_web_pod("w"))
    run(cluster, "a", make_web_pod("x", labels={"tier": "front"}))
    front = term(selector=LabelSelector({"tier": "front"}))
    pod = make_web_pod("p", near(term(), front), labels={})

    assert rejected(pod, cluster) == {"a": AFFINITY}
    run(cluster, "a", make_web_pod("y", labels={"app": "web", "tier": "front"}))
    assert rejected(pod, cluster) == {}


def test_the_first_pod_of_its_kind_may_go_anywhere() -> None:
    """A pod that satisfies its own terms needs only the topology keys while nobody else does."""
    cluster = make_zones("a", "-")
    first = make_web_pod("p", near(term()))
    stranger = make_web_pod("q", near(term()), labels={})

    assert rejected(first, cluster) == {"-": AFFINITY}
    assert rejected(stranger, cluster) == {"a": AFFINITY, "-": AFFINITY}


def test_a_pod_on_a_node_without_the_key_leaves_the_place_of_the_first_free() -> None:
    """It belongs to no domain, so nobody satisfies the term yet."""
    cluster = make_zones("a", "-")
    run(cluster, "-", make_web_pod("w"))

    assert rejected(make_web_pod("p", near(term())), cluster) == {"-": AFFINITY}


def test_dying_pods_still_count() -> None:
    """Unlike topology spread, affinity looks at pods that are being deleted."""
    cluster = make_zones("a", "b")
    run(cluster, "a", make_web_pod("w", deletion_timestamp="2026-01-01T00:00:00Z"))

    assert rejected(make_web_pod("p", away(term())), cluster) == {"a": ANTI_AFFINITY}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, {"own"}, id="neither: the pod's own namespace"),
        pytest.param({"namespaces": ("x",)}, {"x"}, id="by name"),
        pytest.param({"namespace_selector": LabelSelector()}, {"own", "x", "ghost"}, id="all"),
        pytest.param({"namespace_selector": TEAM_A}, {"x"}, id="by label"),
        pytest.param(
            {"namespaces": ("own",), "namespace_selector": TEAM_A}, {"own", "x"}, id="both"
        ),
        pytest.param(
            {"namespace_selector": NOT_TEAM_A},
            {"own", "x", "ghost"},
            id="by a missing label: all, strange as it is",
        ),
    ],
)
def test_own_terms_speak_of_namespaces(fields: dict[str, Any], expected: set[str]) -> None:
    """Which namespaces the terms of the waiting pod mean; "ghost" has no object."""
    cluster = make_zones("own", "x", "ghost")
    cluster.namespaces = {"own": {}, "x": {"team": "a"}}
    for zone in ("own", "x", "ghost"):
        run(cluster, zone, make_web_pod(f"w-{zone}", namespace=zone))

    pod = make_web_pod("p", away(term(**fields)), namespace="own")

    assert set(rejected(pod, cluster)) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, False, id="neither: their own namespace"),
        pytest.param({"namespaces": ("ghost",)}, True, id="by name"),
        pytest.param({"namespace_selector": LabelSelector()}, True, id="all"),
        pytest.param({"namespace_selector": TEAM_A}, False, id="by label"),
        pytest.param({"namespace_selector": NOT_TEAM_A}, True, id="by a missing label"),
    ],
)
def test_their_terms_see_an_unknown_namespace_without_labels(
    fields: dict[str, Any], expected: bool
) -> None:
    """The waiting pod's namespace has no object; running pods' terms judge it by no labels."""
    cluster = make_zones("a")
    run(cluster, "a", make_web_pod("w", away(term(**fields)), namespace="x"))

    assert bool(rejected(make_web_pod("p", namespace="ghost"), cluster)) is expected


def test_relabelled_namespaces_count_at_once() -> None:
    """Both what is remembered of own terms and of running pods' terms follows."""
    cluster = make_zones("a", "b")
    cluster.namespaces = {"default": {}, "x": {}}
    run(cluster, "a", make_web_pod("w", namespace="x"))
    run(cluster, "b", make_web_pod("v", away(term(namespace_selector=TEAM_A)), namespace="x"))
    snapshot, plugin = cluster.snapshot(), make_plugin()
    pod = make_web_pod("p", away(term(namespace_selector=TEAM_A)))
    answers = [judge(plugin, pod, snapshot, None).rejected]

    for name in ("x", "default"):
        snapshot.update([NamespaceChanged(name, {"team": "a"})])
        answers.append(judge(plugin, pod, snapshot, None).rejected)
    snapshot.update([NamespaceChanged("x", None)])
    answers.append(judge(plugin, pod, snapshot, None).rejected)

    mine = {"a": ANTI_AFFINITY, "b": ANTI_AFFINITY}
    assert answers == [{}, mine, mine, {"b": EXISTING}]


def test_without_required_terms_on_either_side_there_is_nothing_to_filter() -> None:
    """PreFilter skips; a term that speaks of the pod but sits on no domain does not count."""
    cluster = make_zones("-")
    run(cluster, "-", make_web_pod("w", away(term())))
    plain = judge(make_plugin(), make_web_pod("p"), cluster.snapshot(), None)
    demanding = judge(make_plugin(), make_web_pod("q", near(term())), cluster.snapshot(), None)

    assert (plain.skips_filter, demanding.skips_filter) == (True, False)


def test_any_label_is_a_topology_key() -> None:
    """Nodes of equal value are one domain, also by hostname."""
    cluster = make_zones("a", "b", "c")
    for info in cluster.nodes[:2]:
        info.node.metadata.labels[HOSTNAME] = "twin"
    run(cluster, "a", make_web_pod("w"))

    found = rejected(make_web_pod("p", away(term(HOSTNAME))), cluster)

    assert found == {"a": ANTI_AFFINITY, "b": ANTI_AFFINITY}


# --- scoring --------------------------------------------------------------------------------------


def test_preferences_add_up_per_domain() -> None:
    """Attraction and repulsion, once per pod that matches."""
    cluster = make_zones("a", "b", "-")
    for name in ("w", "v"):
        run(cluster, "a", make_web_pod(name))
    pod = make_web_pod("p", preferring(much=10, little=-3), labels={})

    answer = judge(make_plugin(), pod, cluster.snapshot(), None)

    assert answer.scores == {"a": 14, "b": 0, "-": 0}
    assert answer.normalized == {"a": 100, "b": 0, "-": 0}


@pytest.mark.parametrize(
    ("hard_weight", "expected"),
    [
        pytest.param(0, {"a": 5, "b": 0}, id="required affinity counts nothing"),
        pytest.param(7, {"a": 12, "b": 0}, id="required affinity counts its weight"),
    ],
)
def test_running_pods_attract_and_repel(hard_weight: int, expected: Any) -> None:
    """Their preferred terms by weight, their required affinity by hardPodAffinityWeight."""
    cluster = make_zones("a", "b")
    both = preferring(much=5)
    required = near(term()).pod_affinity
    run(cluster, "a", make_web_pod("w", both, labels={}))
    run(cluster, "a", make_web_pod("v", Affinity(pod_affinity=required), labels={}))

    assert scores(make_web_pod("p"), cluster, make_plugin(hard_weight)) == expected


def test_preferences_of_running_pods_can_be_ignored() -> None:
    """Only for pods that have no preferences themselves."""
    cluster = make_zones("a", "b")
    run(cluster, "a", make_web_pod("w", preferring(much=5)))
    plugin = make_plugin(ignore_existing=True)

    assert scores(make_web_pod("p"), cluster, plugin) is None
    assert scores(make_web_pod("q", preferring(x=2)), cluster, plugin) == {"a": 7, "b": 0}


def test_terms_that_cancel_out_score_all_alike() -> None:
    """The plugin then takes part with 0 instead of skipping."""
    cluster = make_zones("a", "b")
    run(cluster, "a", make_web_pod("w"))
    pod = make_web_pod("p", preferring(much=5, back=-5), labels={})

    answer = judge(make_plugin(), pod, cluster.snapshot(), None)

    assert (answer.skips_score, answer.normalized) == (False, {"a": 0, "b": 0})


def test_nobody_cares_means_no_score() -> None:
    """Without any term that meets a pod in a domain PreScore skips."""
    cluster = make_zones("a", "-")
    run(cluster, "-", make_web_pod("w"))

    assert scores(make_web_pod("p"), cluster) is None
    assert scores(make_web_pod("q", preferring(much=5)), cluster) is None


def test_normalised_scores_are_rounded_down_in_upstreams_order() -> None:
    """29 of 50 is 57.99... in binary floating point when divided first, so 57."""
    plugin, scores_before = make_plugin(), [0.0, 29.0, 50.0]

    normalized = plugin.normalize_score(CycleState(), make_web_pod("p"), np.array(scores_before))

    assert normalized.tolist() == [0, int(100.0 * (29 / 50)), 100]


# --- following the cluster ------------------------------------------------------------------------


def test_domains_follow_the_labels_of_nodes() -> None:
    """A node that moves to another zone takes its pods along."""
    cluster = make_zones("a", "b", "c")
    run(cluster, "a", make_web_pod("w"))
    snapshot, plugin, pod = cluster.snapshot(), make_plugin(), make_web_pod("p", away(term()))
    before = judge(plugin, pod, snapshot, None).rejected

    node = cluster.nodes[0].node = make_node("a", zone="b")
    snapshot.update([NodeSet(cluster.nodes[0], node)])

    assert before == {"a": ANTI_AFFINITY}
    assert judge(plugin, pod, snapshot, None).rejected == {"a": ANTI_AFFINITY, "b": ANTI_AFFINITY}


def test_what_is_known_of_pods_goes_with_them() -> None:
    """Of their shapes, of variants of a shape, and of what they look at; and it is never wrong."""
    cluster = make_zones("a", "b")
    run(cluster, "a", make_web_pod("w"))
    snapshot, plugin = cluster.snapshot(), make_plugin()

    for key in (ZONE, HOSTNAME, "none", ZONE):
        for namespace in ("default", "x", "y", "default"):
            pod = make_web_pod("p", away(term(key)), namespace=namespace)
            hit = namespace == "default" and key != "none"
            expected = {"a": ANTI_AFFINITY} if hit else {}
            assert judge(plugin, pod, snapshot, None).rejected == expected

        assert len(plugin._own_terms._known) == 1
    del pod
    assert len(plugin._own_terms._known) == 0


# --- queueing hints -------------------------------------------------------------------------------

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


def hint_for(resource: EventResource) -> Any:
    found = [e for e in make_plugin().events_to_register() if e.event.resource is resource]
    assert len(found) == 1
    assert found[0].reads_pod_shape_only
    return found[0].queueing_hint


def test_it_is_woken_by_pods_and_nodes() -> None:
    """The events are kube-scheduler's, and changes of namespaces."""
    events = {e.event.resource: e.event.action for e in make_plugin().events_to_register()}

    assert events == {
        EventResource.POD: ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL,
        EventResource.NODE: ActionType.ADD | ActionType.UPDATE_NODE_LABEL,
        EventResource.NAMESPACE: ActionType.ADD | ActionType.UPDATE,
    }


def test_labels_of_a_namespace_wake_those_who_select_or_are_in_it() -> None:
    """A new namespace changes nothing for pods that select none."""
    hint = hint_for(EventResource.NAMESPACE)
    selects = Affinity(pod_affinity=PodAffinitySpec((term(namespace_selector=LabelSelector()),)))
    old, new = (Namespace(metadata=ObjectMeta(name="red")) for _ in range(2))

    assert hint(make_pod_info("p", affinity=selects), None, new) is QUEUE
    assert hint(make_pod_info("p", affinity=selects), old, new) is QUEUE
    assert hint(make_pod_info("p", namespace="red"), old, new) is QUEUE
    assert hint(make_pod_info("p", namespace="red"), None, new) is SKIP
    assert hint(make_pod_info("p", namespace="blue"), old, new) is SKIP


def other(labels: dict[str, str], affinity: Affinity | None = None, **fields: Any) -> PodInfo:
    fields.setdefault("node_name", "n")
    return make_pod_info("other", labels=labels, affinity=affinity, **fields)


IS_WEB, IS_DB = {"app": "web"}, {"app": "db"}
ANYWHERE = term(namespaces=("x",), namespace_selector=LabelSelector())


@pytest.mark.parametrize(
    ("affinity", "old", "new", "expected"),
    [
        pytest.param(near(term()), None, other(IS_WEB), QUEUE, id="a wanted pod comes"),
        pytest.param(near(term()), None, other(IS_DB), SKIP, id="an unwanted pod comes"),
        pytest.param(
            near(term()), None, other(IS_WEB, node_name=""), SKIP, id="a waiting pod comes"
        ),
        pytest.param(
            near(term()),
            None,
            other(IS_WEB, node_name="", nominated_node_name="n"),
            QUEUE,
            id="a nominated pod comes",
        ),
        pytest.param(
            near(term()), None, other(IS_WEB, namespace="x"), SKIP, id="in another namespace"
        ),
        pytest.param(
            near(ANYWHERE), None, other(IS_WEB, namespace="y"), QUEUE, id="in a selected namespace"
        ),
        pytest.param(
            near(term(namespace_selector=TEAM_A)),
            None,
            other(IS_WEB, namespace="y"),
            SKIP,
            id="namespace labels are not looked up",
        ),
        pytest.param(near(term()), other(IS_WEB), None, SKIP, id="a wanted pod goes"),
        pytest.param(near(term()), other(IS_DB), other(IS_WEB), QUEUE, id="becomes wanted"),
        pytest.param(near(term()), other(IS_WEB), other(IS_DB), SKIP, id="is wanted no more"),
        pytest.param(
            near(term(), term(selector=LabelSelector({"x": "y"}))),
            None,
            other(IS_WEB),
            SKIP,
            id="satisfies only one of two terms",
        ),
        pytest.param(away(term()), other(IS_WEB), None, QUEUE, id="an avoided pod goes"),
        pytest.param(away(term()), other(IS_DB), None, SKIP, id="a pod nobody avoids goes"),
        pytest.param(away(term()), None, other(IS_WEB), SKIP, id="an avoided pod comes"),
        pytest.param(away(term()), other(IS_WEB), other(IS_DB), QUEUE, id="is avoided no more"),
        pytest.param(None, other(IS_DB, away(term())), None, QUEUE, id="who avoids it goes"),
        pytest.param(
            None, other(IS_DB, away(term(namespaces=("x",)))), None, SKIP, id="who does not goes"
        ),
        pytest.param(None, other(IS_DB), None, SKIP, id="somebody goes"),
        pytest.param(None, None, other(IS_DB), SKIP, id="somebody comes"),
    ],
)
def test_pod_events(
    affinity: Affinity | None, old: PodInfo | None, new: PodInfo | None, expected: QueueingHint
) -> None:
    """A pod event wakes when it may turn a required term round."""
    assert hint_for(EventResource.POD)(make_web_pod("p", affinity), old, new) is expected


def test_its_own_new_labels_wake_a_pod() -> None:
    """Others may have avoided the old ones."""
    old, new = make_web_pod("p", labels=IS_DB), make_web_pod("p")

    assert hint_for(EventResource.POD)(new, old, new) is QUEUE


_A, _B, _KEYLESS = make_node(zone="a"), make_node(zone="b"), make_node()


@pytest.mark.parametrize(
    ("affinity", "old", "new", "expected"),
    [
        pytest.param(near(term()), None, _A, QUEUE, id="near: a node with the key comes"),
        pytest.param(near(term()), None, _KEYLESS, SKIP, id="near: a node without it comes"),
        pytest.param(near(term()), _KEYLESS, _A, QUEUE, id="near: a node gets the key"),
        pytest.param(near(term()), _A, _B, QUEUE, id="near: a node changes its domain"),
        pytest.param(near(term()), _A, _A, SKIP, id="near: other labels change"),
        pytest.param(near(term()), _A, _KEYLESS, SKIP, id="near: a node loses the key"),
        pytest.param(away(term()), None, _A, QUEUE, id="away: a node with the key comes"),
        pytest.param(away(term()), None, _KEYLESS, QUEUE, id="away: a node without it comes"),
        pytest.param(away(term()), _KEYLESS, _A, SKIP, id="away: a node gets the key"),
        pytest.param(away(term()), _A, _B, QUEUE, id="away: a node changes its domain"),
        pytest.param(away(term()), _A, _A, SKIP, id="away: other labels change"),
        pytest.param(away(term()), _A, _KEYLESS, QUEUE, id="away: a node loses the key"),
        pytest.param(None, None, _A, SKIP, id="no terms: any node comes"),
    ],
)
def test_node_events(affinity: Affinity | None, old: Any, new: Any, expected: QueueingHint) -> None:
    """A node event wakes when a domain of a required term gains or loses nodes."""
    assert hint_for(EventResource.NODE)(make_web_pod("p", affinity), old, new) is expected
