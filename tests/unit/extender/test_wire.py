"""Answers are read as Go reads them; whatever comes, it is an answer or one clear problem."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from scheduler.kernel.extender import Filtered, MetaVictims, NoAnswer, Preempted, Prioritized, Verb
from scheduler.kernel.extender.wire import UnreadableAnswerError, read_answer, read_binding

F, R, P = Verb.FILTER, Verb.PRIORITIZE, Verb.PREEMPT


def read(verb: Verb, body: Any, *, by_name: bool = True) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_answer(verb, raw, by_name=by_name)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param({"NodeNames": ["a", "b"]}, Filtered(("a", "b")), id="names"),
        pytest.param({"nodenames": ["a"]}, Filtered(("a",)), id="small letters"),
        pytest.param({"NODENAMES": ["a"], "other": {"x": 1}}, Filtered(("a",)), id="large ones"),
        pytest.param({"NodeNames": None, "Nodes": None}, Filtered(()), id="null: none passes"),
        pytest.param({}, Filtered(()), id="nothing: none passes"),
        pytest.param(b"null", Filtered(()), id="null"),
        pytest.param(b' {"NodeNames":["a"]} trailing', Filtered(("a",)), id="bytes after it"),
        pytest.param(b'{"NodeNames":["a\xff"]}', Filtered(("a\ufffd",)), id="no UTF-8"),
        pytest.param(b'{"NodeNames":["\\ud800"]}', Filtered(("\ufffd",)), id="half a character"),
        pytest.param({"NodeNames": [None]}, Filtered(("",)), id="null in a list"),
        pytest.param(
            {"Nodes": {"items": [{"metadata": {"name": "a", "x": 1}, "spec": {}}]}},
            Filtered(("a",)),
            id="whole nodes",
        ),
        pytest.param(
            {"nodes": {"Items": [{"Metadata": {"NAME": "a"}}, None, {}]}},
            Filtered(("a", "", "")),
            id="whole nodes in odd spellings",
        ),
        pytest.param(
            {"NodeNames": ["b"], "Nodes": {"items": [{"metadata": {"name": "a"}}]}},
            Filtered(("b",)),
            id="names count more",
        ),
        pytest.param(
            {"FailedNodes": {"a": "x"}, "failedandunresolvablenodes": {"b": None}},
            Filtered((), {"a": "x"}, {"b": ""}),
            id="reasons",
        ),
        pytest.param({"NodeNames": ["a"], "error": "no"}, NoAnswer("no"), id="an error"),
    ],
)
def test_filter(body: Any, expected: Any) -> None:
    """Names of fields in any case, null is nothing, the rest does not matter."""
    assert read(F, body) == expected


def test_only_who_knows_nodes_answers_by_name() -> None:
    """Of one that was sent whole nodes, names are not read."""
    assert read(F, {"NodeNames": ["a"]}, by_name=False) == Filtered(())
    nodes = {"Nodes": {"items": [{"metadata": {"name": "b"}}]}}
    assert read(F, {"NodeNames": ["a"], **nodes}, by_name=False) == Filtered(("b",))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ([{"Host": "a", "Score": 7}], (("a", 7),)),
        ([{"host": "a", "SCORE": -7}], (("a", -7),)),
        ([{"Host": "a", "Score": 1}, {"Host": "a", "Score": 2}], (("a", 1), ("a", 2))),
        ([{"Host": None, "Score": None}, {}], (("", 0), ("", 0))),
        ([{"Host": "a", "Score": 2**63 - 1}], (("a", 2**63 - 1),)),
        (b"null", ()),
        ([], ()),
    ],
)
def test_prioritize(body: Any, expected: Any) -> None:
    """As they are: what to make of them is for others to say."""
    assert read(R, body) == Prioritized(expected)


def test_preempt() -> None:
    """Who is to leave each node."""
    body = {
        "NodeNameToMetaVictims": {
            "a": {"Pods": [{"UID": "u"}, {"uid": "v"}], "NumPDBViolations": 1},
            "b": {"pods": None},
            "c": None,
        }
    }
    expected = {"a": MetaVictims(("u", "v"), 1), "b": MetaVictims(()), "c": MetaVictims(())}

    assert read(P, body) == Preempted(expected)
    assert read(P, {}) == Preempted({})


@pytest.mark.parametrize(
    ("verb", "body", "problem"),
    [
        pytest.param(F, b"", "the answer is empty", id="nothing"),
        pytest.param(F, b" \n", "the answer is empty", id="spaces"),
        pytest.param(F, b"{", "not valid JSON", id="cut"),
        pytest.param(F, b'{"NodeNames":[NaN]}', "NaN is no JSON", id="NaN"),
        pytest.param(F, b"[]", "Expected `object`", id="a list"),
        pytest.param(F, {"NodeNames": "a"}, "NodeNames: Expected `array`", id="a text"),
        pytest.param(F, {"NodeNames": [1]}, "NodeNames: Expected `str", id="a number"),
        pytest.param(F, {"Nodes": {"items": [1]}}, "Nodes.items", id="no node"),
        pytest.param(F, {"FailedNodes": {"a": 1}}, "FailedNodes", id="a reason"),
        pytest.param(F, {"Error": {}}, "Error", id="an error"),
        pytest.param(F, b'{"x":' + b"[" * 100_000, "not valid JSON", id="deep"),
        pytest.param(R, [{"Host": "a", "Score": 5.0}], "Score: expected a whole", id="a float"),
        pytest.param(R, b'[{"Host":"a","Score":1e2}]', "Score: expected a whole", id="an exponent"),
        pytest.param(R, [{"Host": "a", "Score": 2**63}], "Score: expected a whole", id="huge"),
        pytest.param(R, [{"Host": "a", "Score": "5"}], "Score: expected a whole", id="text"),
        pytest.param(R, [1], "an entry: Expected `object`", id="no entry"),
        pytest.param(R, {}, "the list: Expected `array`", id="no list"),
        pytest.param(P, {"NodeNameToMetaVictims": {"a": [1]}}, "MetaVictims", id="no victims"),
    ],
)
def test_what_go_would_not_read(verb: Verb, body: Any, problem: str) -> None:
    """One problem, with the place."""
    with pytest.raises(UnreadableAnswerError, match="^.*" + problem.replace("[", r"\[")):
        read(verb, body)


def test_texts_are_bounded() -> None:
    """Nobody reads more; the API server would refuse it."""
    answer = read(F, {"FailedNodes": {"a": "x" * 5000}})

    assert answer == Filtered((), {"a": "x" * 1024 + " ..."})


def test_binding() -> None:
    """Empty when all is well."""
    assert read_binding(b'{"Error":""}') == ""
    assert read_binding(b'{"error":"no"}') == "no"
    assert read_binding(b"{}") == read_binding(b"null") == ""
    with pytest.raises(UnreadableAnswerError):
        read_binding(b"ok")


_NAMES = st.sampled_from(
    [
        "NodeNames",
        "nodenames",
        "Nodes",
        "items",
        "metadata",
        "name",
        "FailedNodes",
        "Error",
        "Host",
        "Score",
        "FailedAndUnresolvableNodes",
        "NodeNameToMetaVictims",
        "Pods",
        "UID",
        "x",
    ]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=15,
)


@pytest.mark.parametrize("by_name", [True, False])
@pytest.mark.parametrize("verb", Verb)
@given(body=_VALUES.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60))
def test_anything_is_an_answer_or_a_problem(verb: Verb, by_name: bool, body: bytes) -> None:
    """Never another exception, and never a text that cannot be written down."""
    try:
        answer = read_answer(verb, body, by_name=by_name)
    except UnreadableAnswerError:
        return
    repr(answer).encode()
