"""Who is asked about what, in which order, and what comes of it."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from scheduler.config.types import Extender, ExtenderManagedResource
from scheduler.kernel.extender import (
    Advice,
    Answer,
    ExtenderCalls,
    ExtenderError,
    Extenders,
    Filtered,
    MetaVictims,
    NoAnswer,
    Preempted,
    Prioritized,
    Question,
    Verb,
)
from scheduler.kernel.extender.calls import CALL_TRANSITIONS, CallEvent, CallState
from scheduler.kernel.extender.extenders import SKIP_SECONDS, without_password
from scheduler.kernel.framework.results import Candidate
from scheduler.kernel.framework.runtime.diagnosis import Reviewed
from scheduler.kernel.framework.status import Code, Status
from tests.support.builders import make_pod_info

NODES = ("a", "b", "c")
LATE = NoAnswer("late", is_late=True)
REJECTED, HOPELESS = Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def extender(**fields: Any) -> Extender:
    return Extender(**{"url_prefix": "http://e", "weight": 1, **fields})


def asking(*configs: Extender, nodes: tuple[str, ...] = NODES, **more: Any) -> ExtenderCalls:
    calls = ExtenderCalls(Extenders(configs))
    calls.begin_nodes(tuple(range(len(configs))), nodes, **more)
    return calls


def advice_of(calls: ExtenderCalls) -> Advice:
    advice = calls.advice()
    assert advice is not None
    return advice


def leaves_nothing(calls: ExtenderCalls) -> bool:
    return not advice_of(calls).nodes


FILTERS = extender(filter_verb="f")
SCORES = extender(prioritize_verb="p")


def test_those_that_can_be_ignored_come_last() -> None:
    """Each kind in the order of the configuration."""
    names = ("http://1", "http://2", "http://3", "http://4")
    configs = [
        extender(url_prefix=name, ignorable=ignorable)
        for name, ignorable in zip(names, (True, False, True, False), strict=True)
    ]

    assert [e.name for e in Extenders(configs).all] == [names[1], names[3], names[0], names[2]]
    assert [e.place for e in Extenders(configs).all] == [1, 3, 0, 2]


def test_whom_a_pod_concerns() -> None:
    """All pods without managedResources; else those with a request for one of them."""
    managed = (ExtenderManagedResource("example.com/gpu"),)
    extenders = Extenders([extender(filter_verb="f", managed_resources=managed), FILTERS])
    plain = make_pod_info("plain")
    gpu = make_pod_info("gpu", requests={"example.com/gpu": "0"})
    init = make_pod_info("i", init_containers=gpu.spec.containers)

    assert extenders.interested_in(plain, Verb.FILTER) == (1,)
    assert (
        extenders.interested_in(gpu, Verb.FILTER)
        == extenders.interested_in(init, Verb.FILTER)
        == (0, 1)
    )
    assert extenders.interested_in(gpu, Verb.PREEMPT) == ()


def test_filters_one_after_the_other_then_all_scores() -> None:
    """Each filter sees what the one before it has left; nobody scores a single node."""
    calls = asking(FILTERS, extender(filter_verb="f", prioritize_verb="p"), SCORES)

    assert calls.next_calls(0.0) == [Question(0, Verb.FILTER, NODES)]
    calls.take(Question(0, Verb.FILTER, NODES), Filtered(("c", "a", "a"), {"b": "full"}))
    assert calls.next_calls(0.0) == [Question(1, Verb.FILTER, ("a", "c"))]
    calls.take(Question(1, Verb.FILTER, ("a", "c")), Filtered(("a", "c")))
    questions = calls.next_calls(0.0)
    assert questions == [Question(n, Verb.PRIORITIZE, ("a", "c")) for n in (1, 2)]
    for question in questions:
        calls.take(question, Prioritized((("a", 3), ("x", 9), ("a", 1))))

    assert calls.next_calls(0.0) == []
    advice = advice_of(calls)
    assert advice.nodes == ("a", "c")
    assert advice.sent == frozenset(NODES)
    assert advice.totals["a"] == 80
    assert advice.rejected == {"b": Status(REJECTED, ("full",), "Extender")}


def test_one_node_needs_no_scores_and_none_no_filters() -> None:
    """As upstream."""
    one, none = asking(FILTERS, SCORES), asking(FILTERS, FILTERS, SCORES)

    [question] = one.next_calls(0.0)
    one.take(question, Filtered(("b",)))
    [question] = none.next_calls(0.0)
    none.take(question, Filtered(()))

    assert one.next_calls(0.0) == none.next_calls(0.0) == []
    assert leaves_nothing(none)


def test_unresolvable_counts_more() -> None:
    """Also when a node is in both lists; a node that passes is not rejected."""
    calls = asking(FILTERS)
    [question] = calls.next_calls(0.0)
    failed = {"a": "later", "b": "later", "c": "no", "x": "what"}
    calls.take(question, Filtered(("c",), failed, {"a": "never"}))

    assert advice_of(calls).rejected == {
        "a": Status(HOPELESS, ("never",), "Extender"),
        "b": Status(REJECTED, ("later",), "Extender"),
    }


def test_a_reason_for_a_node_that_passes_counts_if_the_next_extender_leaves_it_out() -> None:
    """kube-scheduler keeps reasons by the name of the node."""
    calls = asking(FILTERS, FILTERS)

    [first] = calls.next_calls(0.0)
    calls.take(first, Filtered(("a", "b"), {}, {"a": "never", "c": "full"}))
    [second] = calls.next_calls(0.0)
    calls.take(second, Filtered(("b",), {}, {}))

    refused = advice_of(calls).refused()
    assert {name: status and (status.code, status.message) for name, status in refused.items()} == {
        "a": (HOPELESS, "never"),
        "c": (HOPELESS, "full"),
    }


def test_sums_wrap_around_as_upstreams() -> None:
    """They are int64 there."""
    calls = asking(extender(prioritize_verb="p", weight=2))
    [question] = calls.next_calls(0.0)
    calls.take(question, Prioritized((("a", 2**62), ("b", -(2**63)))))

    assert advice_of(calls).totals == {"a": 0, "b": 0}
    assert advice_of(calls).scores[0]["a"] == 2**62


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (NoAnswer("down"), "down"),
        (
            Filtered(("a", "x")),
            (
                'extender "http://e" claims a filtered node "x" which is not found in the input '
                "node list"
            ),
        ),
        (Preempted({}), "the answer is to another question"),
    ],
)
def test_a_filter_that_fails(answer: Answer, problem: str) -> None:
    """Fails the attempt, or is passed over when it can be ignored; a score never matters."""
    strict, lax = asking(FILTERS), asking(extender(filter_verb="f", ignorable=True))
    scorer, alone = asking(SCORES), asking(FILTERS, nodes=("a",), is_alone=True)

    with pytest.raises(ExtenderError, match=problem):
        strict.take(strict.next_calls(0.0)[0], answer)
    assert lax.take(lax.next_calls(0.0)[0], answer) == problem
    assert advice_of(lax).nodes == NODES
    if not isinstance(answer, Filtered):
        assert scorer.take(scorer.next_calls(0.0)[0], answer) == problem
    assert alone.take(alone.next_calls(0.0)[0], answer) == problem
    assert leaves_nothing(alone)


def test_one_that_keeps_being_late_is_left_alone_for_a_while() -> None:
    """Three times in a row, and only if it can be ignored; then once is enough."""
    extenders = Extenders([FILTERS, extender(filter_verb="f", ignorable=True)])
    noted = [extenders.note(1, answer, 0.0) for answer in (LATE, LATE, NoAnswer("no"), LATE, LATE)]

    assert not any(noted)
    assert not any(extenders.note(0, LATE, 0.0) for _ in range(9))
    assert extenders.note(1, LATE, 10.0)
    assert not extenders.note(1, LATE, 10.1), "it was asked before"
    assert extenders.is_skipped(1, 10.0 + SKIP_SECONDS - 0.1)
    assert not extenders.is_skipped(1, 10.0 + SKIP_SECONDS)
    assert not extenders.is_skipped(0, 10.0)
    assert extenders.note(1, LATE, 50.0)
    calls = ExtenderCalls(extenders)
    calls.begin_nodes((1,), NODES)
    assert calls.next_calls(51.0) == []


# --- preemption -----------------------------------------------------------------------------------

V, W = make_pod_info("v", node_name="a"), make_pod_info("w", node_name="b")
CANDIDATES = (Candidate("a", (V,), 0), Candidate("b", (W,), 1))
ON = {"a": {V.uid: V}, "b": {W.uid: W}, "c": {}}


def reviewing(**fields: Any) -> tuple[ExtenderCalls, Question]:
    review = ExtenderCalls(Extenders([extender(preempt_verb="p", **fields)]))
    review.begin_candidates((0,), CANDIDATES)
    [question] = review.next_calls(0.0)
    return review, question


def test_what_an_extender_leaves_is_what_the_next_one_sees() -> None:
    """Nodes may be struck off, victims and violations changed; nothing left ends it."""
    config = extender(preempt_verb="p")
    review = ExtenderCalls(Extenders([config, config, config]))
    review.begin_candidates((0, 1, 2), CANDIDATES)
    [first] = review.next_calls(0.0)
    review.take(first, Preempted({"b": MetaVictims((W.uid, W.uid), 7)}), ON.get)
    [second] = review.next_calls(0.0)
    review.take(second, Preempted({}), ON.get)

    assert first == Question(0, Verb.PREEMPT, candidates=CANDIDATES)
    assert second == Question(1, Verb.PREEMPT, candidates=(Candidate("b", (W,), 7),))
    assert review.next_calls(0.0) == []
    assert review.candidates == ()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (NoAnswer("down"), "down"),
        (Preempted({"x": MetaVictims(("u",))}), 'nodeinfo not found for node name "x"'),
        (
            Preempted({"a": MetaVictims((W.uid,))}),
            (
                f"extender: http://e claims to preempt pod (UID: &{{{W.uid}}}) on node: a, but the "
                "pod is not found on that node"
            ),
        ),
    ],
)
def test_a_review_that_fails(answer: Answer, problem: str) -> None:
    """Is an error, or changes nothing."""
    strict, question = reviewing()
    lax, _ = reviewing(ignorable=True)

    assert strict.take(question, answer, ON.get) == ""
    assert strict.reviewed == Reviewed(problem=problem)
    assert strict.next_calls(0.0) == []
    assert lax.take(question, answer, ON.get) == problem
    assert lax.candidates == CANDIDATES


def test_a_node_without_victims() -> None:
    """Is an error, or is struck off."""
    answer = Preempted({"a": MetaVictims(()), "b": MetaVictims((W.uid,))})
    strict, question = reviewing()
    lax, _ = reviewing(ignorable=True)

    assert strict.take(question, answer, ON.get) == ""
    assert strict.reviewed == Reviewed(problem='expected at least one victim pod on node "a"')
    assert not lax.take(question, answer, ON.get)
    assert lax.candidates == (Candidate("b", (W,), 0),)


# --- states ---------------------------------------------------------------------------------------


def test_nodes_are_filtered_then_prioritized_and_candidates_are_reviewed() -> None:
    """Between them it is decided; nodes may be asked about again."""
    config = extender(filter_verb="f", prioritize_verb="p", preempt_verb="x")
    calls, states = asking(config), []
    for begin in (None, lambda: calls.begin_nodes((0,), NODES)):
        if begin is not None:
            begin()
        while questions := calls.next_calls(0.0):
            states.append(calls.state)
            for question in questions:
                filtered = question.verb is Verb.FILTER
                calls.take(question, Filtered(NODES) if filtered else Prioritized((("a", 1),)))
        states.append(calls.state)
    assert (calls.begun, advice_of(calls).totals) == (2, {"a": 10})
    calls.begin_candidates((0,), CANDIDATES)
    [question] = calls.next_calls(0.0)
    states.append(calls.state)
    calls.take(question, Preempted({"a": MetaVictims((V.uid,))}), ON.get)
    assert calls.next_calls(0.0) == []

    filtering = [CallState.FILTER, CallState.PRIORITIZE, CallState.DECIDE]
    assert [*states, calls.state] == [*filtering, *filtering, CallState.PREEMPT, CallState.DECIDE]
    assert calls.reviewed == Reviewed((Candidate("a", (V,), 0),))


@pytest.mark.parametrize("state", CallState)
@pytest.mark.parametrize("event", CallEvent)
def test_what_cannot_happen_is_a_contradiction(state: CallState, event: CallEvent) -> None:
    """Each pair that is missing in the table raises; all others lead on."""
    calls = ExtenderCalls(Extenders([]))
    calls.state = state

    if (state, event) in CALL_TRANSITIONS:
        calls._advance(event)
        assert calls.state is CALL_TRANSITIONS[state, event]
    else:
        with pytest.raises(KeyError):
            calls._advance(event)


# --- laws -----------------------------------------------------------------------------------------

_NAME = st.sampled_from([*NODES, "x", ""])
_ANSWERS = st.one_of(
    st.builds(
        Filtered,
        st.lists(_NAME, max_size=4).map(tuple),
        st.dictionaries(_NAME, st.text(max_size=3), max_size=3),
        st.dictionaries(_NAME, st.text(max_size=3), max_size=3),
    ),
    st.builds(
        Prioritized,
        st.lists(st.tuples(_NAME, st.integers(-(2**63), 2**63 - 1)), max_size=4).map(tuple),
    ),
    st.builds(
        Preempted,
        st.dictionaries(
            _NAME,
            st.builds(
                MetaVictims,
                st.lists(st.sampled_from([V.uid, W.uid, "?"]), max_size=3).map(tuple),
                st.integers(-(2**63), 2**63 - 1),
            ),
            max_size=3,
        ),
    ),
    st.builds(NoAnswer, st.text(max_size=5), st.booleans()),
)
_CONFIGS = st.lists(
    st.builds(
        extender,
        filter_verb=st.sampled_from(["", "f"]),
        prioritize_verb=st.sampled_from(["", "p"]),
        preempt_verb=st.sampled_from(["", "x"]),
        weight=st.integers(1, 2**63 - 1),
        ignorable=st.booleans(),
    ),
    max_size=4,
)


@given(configs=_CONFIGS, answers=st.lists(_ANSWERS, max_size=20), is_alone=st.booleans())
def test_whatever_is_answered(configs: Any, answers: Any, is_alone: bool) -> None:
    """It comes to an end; of the nodes asked about each is kept once, or rejected, or neither."""
    calls = asking(*configs, is_alone=is_alone)
    review = ExtenderCalls(Extenders(configs))
    review.begin_candidates(tuple(range(len(configs))), CANDIDATES)
    rest = iter(answers)
    try:
        while questions := calls.next_calls(0.0):
            for question in questions:
                calls.take(question, next(rest, NoAnswer("no more")))
        while questions := review.next_calls(0.0):
            for question in questions:
                review.take(question, next(rest, NoAnswer("no more")), ON.get)
    except ExtenderError:
        assert any(not config.ignorable for config in configs)

    advice = advice_of(calls)
    assert len(set(advice.nodes)) == len(advice.nodes)
    assert set(advice.nodes) | advice.rejected.keys() <= set(NODES)
    assert not set(advice.nodes) & advice.rejected.keys()
    assert all(-(2**63) <= total < 2**63 for total in advice.totals.values())
    assert all(candidate.victims for candidate in review.candidates)


def test_passwords_are_not_told() -> None:
    """Neither in messages nor in recordings."""
    assert without_password("https://user:secret@host:1/x") == "https://host:1/x"
    assert without_password("http://host/x//") == "http://host/x//"
    assert without_password("http://[broken") == "http://[broken"
    assert without_password("http://user:secret@[broken/a@b") == "http://[broken/a@b"
    assert without_password("user:secret@host:80/x") == "host:80/x"
    assert without_password("http://host/a@b//c@d") == "http://host/a@b//c@d"
