"""NodeAffinity: node selectors, required and preferred terms, and what a profile adds."""

import numpy as np
import pytest

from scheduler.api.objects import (
    Affinity,
    Node,
    NodeAffinitySpec,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import SelectorError
from scheduler.config.args import NodeAffinityArgs
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint
from scheduler.kernel.framework.results import PreFilterResult
from scheduler.kernel.framework.status import SKIP, SUCCESS, Code, Status, unresolvable
from scheduler.kernel.plugins.node_affinity import NodeAffinity
from tests.support.builders import make_node, make_pod_info, make_snapshot
from tests.support.plugin_answers import FITS, filter_answers, score_answers, statuses

NOT_POD = Status(
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) didn't match Pod's node affinity/selector",)
)
NOT_ENFORCED = Status(
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    ("node(s) didn't match scheduler-enforced node affinity",),
)
FAST = make_node("fast", labels={"disk": "ssd", "cores": "8"})
SLOW = make_node("slow", labels={"disk": "hdd", "cores": "+4"})
BARE = make_node("bare", labels={"cores": "many"})
SNAPSHOT = make_snapshot([FAST, SLOW, BARE])


def requirement(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key, operator, values)


def term(*labels: NodeSelectorRequirement, names: tuple[str, ...] = ()) -> NodeSelectorTerm:
    """A term over labels, and over the name if any is given."""
    fields = tuple(requirement("metadata.name", "In", name) for name in names)
    return NodeSelectorTerm(labels, fields)


def affinity(
    *required: NodeSelectorTerm, preferred: tuple[tuple[int, NodeSelectorTerm], ...] = ()
) -> NodeAffinitySpec:
    return NodeAffinitySpec(
        NodeSelector(required) if required else None,
        tuple(PreferredSchedulingTerm(weight, preference) for weight, preference in preferred),
    )


def demanding(*required: NodeSelectorTerm) -> PodInfo:
    """A pod with required node affinity."""
    return make_pod_info(affinity=Affinity(node_affinity=affinity(*required)))


SSD = term(requirement("disk", "In", "ssd"))


def fitting(pod: PodInfo, plugin: NodeAffinity | None = None) -> set[str]:
    """The nodes that fit; all others must be rejected for the pod's sake."""
    answers = filter_answers(plugin or NodeAffinity(), pod, SNAPSHOT)
    assert isinstance(answers, dict)
    assert set(answers.values()) <= {FITS, NOT_POD}
    return {name for name, status in answers.items() if status == FITS}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param((requirement("disk", "In", "ssd", "nvme"),), {"fast"}, id="one of"),
        pytest.param((requirement("disk", "NotIn", "ssd"),), {"slow", "bare"}, id="none of"),
        pytest.param((requirement("disk", "Exists"),), {"fast", "slow"}, id="labelled"),
        pytest.param((requirement("disk", "DoesNotExist"),), {"bare"}, id="not labelled"),
        pytest.param((requirement("cores", "Gt", "4"),), {"fast"}, id="more than"),
        pytest.param((requirement("cores", "Lt", "5"),), {"slow"}, id="less than, signed label"),
        pytest.param((requirement("none", "Lt", "5"),), set(), id="less than nothing"),
        pytest.param((requirement("cores", "Lt", "9" * 5000),), set(), id="too many digits"),
        pytest.param(
            (requirement("disk", "Exists"), requirement("cores", "Lt", "8")), {"slow"}, id="both"
        ),
        pytest.param((requirement("disk", "Like", "s*"),), set(), id="unknown operator"),
        pytest.param((), set(), id="no requirement matches nothing"),
        pytest.param((requirement("disk", "NotIn", "no/value"),), set(), id="no label's value"),
        pytest.param((requirement("disk", "NotIn"),), set(), id="none of nothing"),
        pytest.param((requirement("disk", "Exists", "ssd"),), set(), id="labelled with a value"),
    ],
)
def test_a_required_term_selects_nodes(
    labels: tuple[NodeSelectorRequirement, ...], expected: set[str]
) -> None:
    """All requirements of a term must hold."""
    assert fitting(demanding(term(*labels))) == expected


def test_one_of_several_required_terms_suffices() -> None:
    """Terms are alternatives."""
    pod = demanding(SSD, term(requirement("cores", "Lt", "5")))

    assert fitting(pod) == {"fast", "slow"}


def test_the_node_selector_must_hold_as_well() -> None:
    """Selector and affinity are both required."""
    both = Affinity(node_affinity=affinity(term(requirement("disk", "Exists"))))

    assert fitting(make_pod_info(node_selector={"cores": "8"})) == {"fast"}
    assert fitting(make_pod_info(node_selector={"cores": "8"}, affinity=both)) == {"fast"}
    assert fitting(make_pod_info(node_selector={"cores": "many"}, affinity=both)) == set()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param((requirement("metadata.name", "NotIn", "fast"),), {"slow", "bare"}, id="not"),
        pytest.param(
            (requirement("metadata.name", "NotIn", "x"),), {"fast", "slow", "bare"}, id="all"
        ),
        pytest.param((requirement("metadata.name", "In", "a", "b"),), set(), id="two values"),
        pytest.param((requirement("metadata.name", "Exists"),), set(), id="other operator"),
        pytest.param((requirement("spec.unschedulable", "In", "x"),), set(), id="other field"),
    ],
)
def test_fields_select_by_name(
    fields: tuple[NodeSelectorRequirement, ...], expected: set[str]
) -> None:
    """Names can be excluded; what the API does not allow matches nothing."""
    pod, state = demanding(NodeSelectorTerm((), fields)), CycleState()
    NodeAffinity().pre_filter(state, pod, SNAPSHOT)

    answers = statuses(NodeAffinity(), state, pod, SNAPSHOT)

    assert {name for name, status in answers.items() if status == FITS} == expected


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([term(names=("fast",))], {"fast"}, id="daemon set"),
        pytest.param([term(names=("fast",)), term(names=("gone",))], {"fast", "gone"}, id="either"),
        pytest.param([term(*SSD.match_expressions, names=("slow",))], {"slow"}, id="with labels"),
        pytest.param(
            [term(names=("fast", "slow")), term(names=("bare",))], {"bare"}, id="one contradiction"
        ),
        pytest.param([term(names=("fast",)), SSD], None, id="a term without names"),
        pytest.param([term(names=("fast",)), term()], None, id="an empty term"),
        pytest.param([SSD], None, id="labels only"),
    ],
)
def test_terms_that_name_nodes_narrow_the_search(
    terms: list[NodeSelectorTerm], expected: set[str] | None
) -> None:
    """When every term names nodes, no other node needs to be looked at."""
    result, status = NodeAffinity().pre_filter(CycleState(), demanding(*terms), SNAPSHOT)

    assert status == SUCCESS
    assert result == (None if expected is None else PreFilterResult(frozenset(expected)))


def test_names_that_contradict_each_other_reject_the_pod() -> None:
    """No node can have two names."""
    pod = demanding(term(names=("fast", "slow")))

    assert NodeAffinity().pre_filter(CycleState(), pod, SNAPSHOT) == (
        None,
        unresolvable("pod affinity terms conflict"),
    )


def test_pods_without_demands_are_skipped() -> None:
    """Preferences alone do not filter."""
    prefers = Affinity(node_affinity=affinity(preferred=((1, SSD),)))

    assert filter_answers(NodeAffinity(), make_pod_info(affinity=prefers), SNAPSHOT) == SKIP


ENFORCING = NodeAffinity(NodeAffinityArgs(added_affinity=affinity(SSD)))


def test_added_affinity_rejects_first() -> None:
    """Every pod must meet what the profile adds, and is told so before its own demands count."""
    plain = filter_answers(ENFORCING, make_pod_info(), SNAPSHOT)
    demanding_pod = make_pod_info(node_selector={"cores": "1"})

    assert plain == {"fast": FITS, "slow": NOT_ENFORCED, "bare": NOT_ENFORCED}
    assert filter_answers(ENFORCING, demanding_pod, SNAPSHOT) == {
        "fast": NOT_POD,
        "slow": NOT_ENFORCED,
        "bare": NOT_ENFORCED,
    }


def test_added_affinity_that_is_met_leaves_the_pods_own_demands() -> None:
    """Where all nodes meet it, only the pod's own demands reject."""
    everywhere = NodeAffinity(
        NodeAffinityArgs(added_affinity=affinity(term(requirement("cores", "Exists"))))
    )

    assert fitting(make_pod_info(node_selector={"disk": "hdd"}), everywhere) == {"slow"}


def test_added_affinity_that_cannot_be_read_is_refused() -> None:
    """A profile with a broken term does not start."""
    broken = affinity(term(requirement("disk", "Like", "x")))

    with pytest.raises(SelectorError, match="'Like'"):
        NodeAffinity(NodeAffinityArgs(added_affinity=broken))


def test_filter_works_without_pre_filter() -> None:
    """A profile may switch PreFilter off; the demands are then read on the spot."""
    answers = statuses(NodeAffinity(), CycleState(), demanding(SSD), SNAPSHOT)

    assert answers == {"fast": FITS, "slow": NOT_POD, "bare": NOT_POD}


PREFERRING = make_pod_info(
    affinity=Affinity(
        node_affinity=affinity(
            preferred=(
                (10, SSD),
                (5, term(requirement("disk", "Exists"))),
                (3, term(names=("bare",))),
                (0, term(requirement("cores", "Exists"))),
                (50, term()),
            )
        )
    )
)


def test_matching_preferences_earn_their_weights() -> None:
    """Weights add up; weight 0 and empty preferences earn nothing."""
    scores = score_answers(NodeAffinity(), PREFERRING, SNAPSHOT)

    assert scores == {"fast": 15, "slow": 5, "bare": 3}


def test_added_preferences_count_for_every_pod() -> None:
    """Also for pods that prefer nothing."""
    plugin = NodeAffinity(NodeAffinityArgs(added_affinity=affinity(preferred=((7, SSD),))))

    assert score_answers(plugin, make_pod_info(), SNAPSHOT) == {"fast": 7, "slow": 0, "bare": 0}
    assert score_answers(plugin, PREFERRING, SNAPSHOT) == {"fast": 22, "slow": 5, "bare": 3}


def test_pods_without_preferences_are_not_scored() -> None:
    """Required terms earn nothing."""
    assert score_answers(NodeAffinity(), demanding(SSD), SNAPSHOT) == SKIP


def test_score_works_without_pre_score() -> None:
    """A profile may switch PreScore off; pods that prefer nothing then score 0."""
    rows = SNAPSHOT.table.all_rows

    preferring = NodeAffinity().score(CycleState(), PREFERRING, SNAPSHOT, rows)
    plain = NodeAffinity().score(CycleState(), make_pod_info(), SNAPSHOT, rows)

    assert preferring.tolist() == [15, 5, 3]
    assert plain.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "broken",
    [
        requirement("disk", "Like", "x"),
        requirement("cores", "Gt", "many"),
        requirement("cores", "Lt", "9223372036854775808"),
        requirement("cores", "Gt", "9" * 5000),
        requirement("cores", "Gt", "-5"),
        requirement("cores", "Gt"),
        requirement("disk", "In", "ssd", "no/value"),
        requirement("disk", "In", "s" * 64),
    ],
    ids=lambda each: f"{each.operator} {','.join(each.values)[:20]}",
)
def test_a_preference_that_cannot_be_read_is_an_error(broken: NodeSelectorRequirement) -> None:
    """Such a pod cannot be scored, and says why; the API server accepts all but the first."""
    broken_affinity = affinity(preferred=((1, term(broken)),))
    pod = make_pod_info(affinity=Affinity(node_affinity=broken_affinity))

    answer = score_answers(NodeAffinity(), pod, SNAPSHOT)

    assert isinstance(answer, Status)
    assert answer.code is Code.ERROR
    assert broken.operator in answer.message


def test_values_of_labels_may_be_empty_or_of_63_characters() -> None:
    """These are the bounds of what a preference may name."""
    preferred = affinity(preferred=((1, term(requirement("disk", "NotIn", "", "s" * 63))),))
    pod = make_pod_info(affinity=Affinity(node_affinity=preferred))

    assert score_answers(NodeAffinity(), pod, SNAPSHOT) == {"fast": 1, "slow": 1, "bare": 1}


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        pytest.param([15, 5, 3], [100, 33, 20], id="shares of the best, rounded down"),
        pytest.param([0, 0], [0, 0], id="nothing earned"),
    ],
)
def test_the_best_node_gets_a_hundred(scores: list[int], expected: list[int]) -> None:
    """Normalisation scales by the highest sum."""
    normalized = NodeAffinity().normalize_score(
        CycleState(), PREFERRING, np.array(scores, np.float64)
    )

    assert normalized.tolist() == expected


def test_pods_that_name_nodes_are_not_shared() -> None:
    """The pods of a daemon set would each make a class of their own; others share by demands."""
    sign = NodeAffinity().sign

    assert sign(demanding(term(names=("fast",)))) is None
    assert sign(demanding(SSD)) == sign(demanding(SSD))
    assert sign(demanding(SSD)) != sign(PREFERRING)
    assert sign(make_pod_info(node_selector={"a": "b"})) != sign(make_pod_info())


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, FAST, QueueingHint.QUEUE, id="new node that matches"),
        pytest.param(None, SLOW, QueueingHint.SKIP, id="new node that does not"),
        pytest.param(SLOW, FAST, QueueingHint.QUEUE, id="matches now"),
        pytest.param(FAST, FAST, QueueingHint.SKIP, id="matched before"),
        pytest.param(FAST, SLOW, QueueingHint.SKIP, id="matches no more"),
    ],
)
def test_a_node_that_comes_to_match_wakes_the_pod(
    old: Node | None, new: Node, expected: QueueingHint
) -> None:
    """The change from not matching to matching counts, and a new node."""
    (registered,) = NodeAffinity().events_to_register()
    assert registered.event == ClusterEvent(
        EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL
    )
    assert registered.queueing_hint is not None

    assert registered.queueing_hint(demanding(SSD), old, new) is expected


UNREADABLE = term(requirement("cores", "Lt", "9" * 25))


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(demanding(UNREADABLE), QueueingHint.QUEUE, id="no term matches"),
        pytest.param(demanding(UNREADABLE, SSD), QueueingHint.SKIP, id="another matched before"),
        pytest.param(
            make_pod_info(
                node_selector={"absent": ""},
                affinity=Affinity(node_affinity=affinity(UNREADABLE)),
            ),
            QueueingHint.SKIP,
            id="the node selector does not match",
        ),
    ],
)
def test_a_term_that_cannot_be_parsed_wakes_the_pod(pod: PodInfo, expected: QueueingHint) -> None:
    """It is an error for kube-scheduler's hint, unless something else decides; errors wake."""
    assert NodeAffinity().is_schedulable_after_node_change(pod, FAST, FAST) is expected


def test_a_node_the_profile_excludes_wakes_nobody() -> None:
    """Added affinity is asked first."""
    pod = make_pod_info(node_selector={"cores": "many"})

    assert ENFORCING.is_schedulable_after_node_change(pod, None, BARE) is QueueingHint.SKIP
    assert NodeAffinity().is_schedulable_after_node_change(pod, None, BARE) is QueueingHint.QUEUE
