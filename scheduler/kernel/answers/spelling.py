"""Finds words in a pod that no node has, one letter from words that nodes have."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from scheduler.api.objects import (
    Affinity,
    Container,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinitySpec,
    PodSpec,
    ResourceRequirements,
    TopologySpreadConstraint,
)
from scheduler.kernel.answers.model import Guess
from scheduler.kernel.answers.trials import Trials
from scheduler.kernel.plugins.label_obstacles import NODE_AFFINITY, NODE_SELECTOR
from scheduler.kernel.plugins.node_predicates import required_terms
from scheduler.kernel.plugins.pod_term_obstacles import POD_AFFINITY, POD_ANTI_AFFINITY
from scheduler.kernel.plugins.resource_columns import is_counted
from scheduler.kernel.plugins.spread_constraints import HARD
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.snapshot.label_columns import ABSENT

_MOST_GUESSES: Final = 8
_MOST_WORDS: Final = 64
"""Unknown words at most that are compared with the known ones."""
_SHORTEST: Final = 3
"""Minimum length of a word: nearly any two shorter words are one letter apart."""


class _Word(msgspec.Struct, frozen=True):
    """An unknown word in a field of the pod, and the known words for that field.

    Attributes:
        path: the field path.
        written: the unknown word.
        known: the known words, with the number of nodes that have each.
        field: the kind of the field; see `_respelled`.
        of_key: the label key, if the word is a label value.
    """

    path: str
    written: str
    known: Mapping[str, int]
    field: str
    of_key: str = ""


def guesses(trials: Trials) -> Iterator[Guess | None]:
    """Yield for each unknown word the most similar known one, and the nodes that fit with it.

    Yields None where other work may run before the search continues.
    """
    made = looked = 0
    for word in _unknown_words(trials.pod.spec, trials.snapshot):
        yield None
        if word is None:
            continue
        meant = nearest_word(word.written, word.known)
        if meant is not None:
            made += 1
            spec = _respelled(trials.pod.spec, word, meant)
            fits = len(trials.rows(spec))
            yield Guess(word.path, word.written, meant, word.known[meant], fits)
        looked += 1
        if made == _MOST_GUESSES or looked == _MOST_WORDS:
            return


def nearest_word(written: str, known: Mapping[str, int]) -> str | None:
    """Return the most frequent known word at most one edit away, ignoring case; or None."""
    close = [word for word in known if word != written and is_close(written, word)]
    return max(close, key=lambda word: (known[word], word), default=None)


def is_close(one: str, other: str) -> bool:
    """Return whether at most one letter must be inserted, deleted, replaced or swapped."""
    one, other = one.casefold(), other.casefold()
    if one == other:
        return True
    if abs(len(one) - len(other)) > 1 or max(len(one), len(other)) < _SHORTEST:
        return False
    start = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    a, b = one[start:], other[start:]
    return (
        a[1:] == b
        or a == b[1:]
        or a[1:] == b[1:]
        or (a[2:] == b[2:] and a[:2] == b[1::-1] and len(a) > 1)
    )


def _unknown_words(spec: PodSpec, snapshot: Snapshot) -> Iterator[_Word | None]:
    """Yield the unknown words, and None after each rule on labels: their values are counted."""
    keys = snapshot.label_keys()
    yield from _of_labels(spec, snapshot)
    for path, key in _topology_keys(spec):
        if key not in keys:
            yield _Word(f"{path}.topologyKey", key, keys, "topologyKey")
    offered = _offered(snapshot)
    for path, name in _resources(spec):
        if is_counted(name) and name not in offered:
            yield _Word(path, name, offered, "resource")


def _of_labels(spec: PodSpec, snapshot: Snapshot) -> Iterator[_Word | None]:  # noqa: C901, PLR0912 - one branch per place that names labels
    keys = snapshot.label_keys()
    for key, value in spec.node_selector.items():
        path = f"{NODE_SELECTOR}[{key}]"
        if key not in keys:
            yield _Word(path, key, keys, "labelKey")
        elif value not in (values := _values(snapshot, key)):
            yield _Word(path, value, values, "labelValue", key)
        else:
            yield None
    for i, term in enumerate(required_terms(spec)):
        for j, requirement in enumerate(term.match_expressions):
            path = f"{NODE_AFFINITY}.nodeSelectorTerms[{i}].matchExpressions[{j}]"
            if requirement.key not in keys:
                yield _Word(f"{path}.key", requirement.key, keys, "labelKey")
            elif requirement.operator == "In":
                known = _values(snapshot, requirement.key)
                for value in requirement.values:
                    if value not in known:
                        at = f"{path}.values"
                        yield _Word(at, value, known, "labelValue", requirement.key)
                yield None


def _topology_keys(spec: PodSpec) -> Iterator[tuple[str, str]]:
    affinity = spec.affinity
    if affinity is not None:
        both = (
            (POD_AFFINITY, affinity.pod_affinity),
            (POD_ANTI_AFFINITY, affinity.pod_anti_affinity),
        )
        for path, terms in both:
            if terms is not None:
                required = terms.required_during_scheduling_ignored_during_execution
                yield from ((f"{path}[{i}]", term.topology_key) for i, term in enumerate(required))
    for i, constraint in enumerate(spec.topology_spread_constraints):
        if constraint.when_unsatisfiable == HARD:
            yield f"spec.topologySpreadConstraints[{i}]", constraint.topology_key


def _resources(spec: PodSpec) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for i, container in enumerate(spec.containers):
        for name in container.resources.requests:
            if name not in seen:
                seen.add(name)
                yield f"spec.containers[{i}].resources.requests[{name}]", name


def _values(snapshot: Snapshot, key: str) -> dict[str, int]:
    """Return the values of a label, with the number of nodes that have each."""
    table, column = snapshot.table, snapshot.label_column(key)
    counts = np.bincount(column.ids(table.size)[table.alive], minlength=len(column.values))
    named = zip(column.values.values, counts.tolist(), strict=True)
    return {str(value): count for i, (value, count) in enumerate(named) if i != ABSENT and count}


def _offered(snapshot: Snapshot) -> dict[str, int]:
    """Return the resources of nodes, with the number of nodes that have each."""
    table = snapshot.table
    counts = (table.allocatable > 0).sum(axis=1).tolist()
    return {name: n for name, n in zip(table.resources.values, counts, strict=True) if n}


# --- the pod as it was meant ----------------------------------------------------------------------


def _respelled(spec: PodSpec, word: _Word, meant: str) -> PodSpec:
    """Return the specification with the word replaced in all fields of its kind."""
    match word.field:
        case "resource":
            containers = tuple(_asks(c, word.written, meant) for c in spec.containers)
            return replace(spec, containers=containers)
        case "topologyKey":
            return _with_topology_key(spec, word.written, meant)
        case _:
            return _with_label(spec, word, meant)


def _asks(container: Container, written: str, meant: str) -> Container:
    requests = {
        meant if name == written else name: amount
        for name, amount in container.resources.requests.items()
    }
    return replace(container, resources=ResourceRequirements(requests))


def _with_topology_key(spec: PodSpec, written: str, meant: str) -> PodSpec:
    def spread(each: TopologySpreadConstraint) -> TopologySpreadConstraint:
        return replace(each, topology_key=meant) if each.topology_key == written else each

    def terms(each: PodAffinitySpec | None) -> PodAffinitySpec | None:
        if each is None:
            return None
        required = each.required_during_scheduling_ignored_during_execution
        return replace(
            each,
            required_during_scheduling_ignored_during_execution=tuple(
                replace(term, topology_key=meant) if term.topology_key == written else term
                for term in required
            ),
        )

    affinity = spec.affinity
    if affinity is not None:
        affinity = Affinity(
            affinity.node_affinity, terms(affinity.pod_affinity), terms(affinity.pod_anti_affinity)
        )
    constraints = tuple(map(spread, spec.topology_spread_constraints))
    return replace(spec, affinity=affinity, topology_spread_constraints=constraints)


def _with_label(spec: PodSpec, word: _Word, meant: str) -> PodSpec:
    selector = {
        _key(word, key, meant): _value(word, key, value, meant)
        for key, value in spec.node_selector.items()
    }
    affinity = spec.affinity
    node = affinity.node_affinity if affinity is not None else None
    if affinity is not None and node is not None and required_terms(spec):
        terms = tuple(_term(term, word, meant) for term in required_terms(spec))
        required = NodeSelector(terms)
        node = replace(node, required_during_scheduling_ignored_during_execution=required)
        affinity = replace(affinity, node_affinity=node)
    return replace(spec, node_selector=selector, affinity=affinity)


def _term(term: NodeSelectorTerm, word: _Word, meant: str) -> NodeSelectorTerm:
    expressions = tuple(
        NodeSelectorRequirement(
            _key(word, each.key, meant),
            each.operator,
            tuple(_value(word, each.key, value, meant) for value in each.values),
        )
        for each in term.match_expressions
    )
    return replace(term, match_expressions=expressions)


def _key(word: _Word, key: str, meant: str) -> str:
    return meant if word.field == "labelKey" and key == word.written else key


def _value(word: _Word, key: str, value: str, meant: str) -> str:
    is_it = word.field == "labelValue" and key == word.of_key and value == word.written
    return meant if is_it else value
