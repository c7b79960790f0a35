"""Describes problems of an object, with the path to the field."""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.api.objects import Node, NodeSelectorTerm, Pod, PodSpec
from scheduler.api.quantity import QuantityError, parse
from scheduler.api.taints import EFFECTS

_EXPECTED: Final = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<found>[^`]+)`")
_MISSING: Final = re.compile(r"Object missing required field `(?P<field>[^`]+)`")
_ANY_KEY: Final = "[...]"
_WORDS: Final = {
    "object": "a mapping",
    "array": "a list",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}
_QUANTITIES: Final = frozenset(
    {"requests", "limits", "overhead", "allocatable", "allocatedResources", "capacity"}
)
_LABEL_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_NODE_OPERATORS: Final = _LABEL_OPERATORS | {"Gt", "Lt"}
_FIELD_OPERATORS: Final = frozenset({"In", "NotIn"})
_WITH_VALUES: Final = _FIELD_OPERATORS
_WITHOUT_VALUES: Final = frozenset({"Exists", "DoesNotExist"})
_WITH_ONE_VALUE: Final = frozenset({"Gt", "Lt"})
_Word: TypeAlias = tuple[str, str, frozenset[str]]
"""The path to a field, its value, and the allowed values."""


_TOLERATION_OPERATORS: Final = frozenset({"", "Equal", "Exists", "Lt", "Gt"})
_EFFECTS: Final = frozenset(EFFECTS)
_ACTIONS: Final = frozenset({"DoNotSchedule", "ScheduleAnyway"})


def of_required(pod: Pod) -> str | None:
    """Describe the first field for which an API server would refuse a pod; None if there is none.

    Source: kubernetes pkg/apis/core/validation (ValidatePodSpec, validatePodAffinityTerm,
    ValidateTopologyKeySpreadConstraint, ValidateNodeSelectorRequirement,
    ValidateResourceQuantityValue).
    """
    spec = pod.spec
    if not spec.containers:
        return "spec.containers: required"
    for path, key in _topology_keys(spec):
        if not key:
            return f"{path}.topologyKey: required"
    return next(chain(_wrong_numbers(spec), _wrong_values(spec)), None)


def _wrong_numbers(spec: PodSpec) -> Iterator[str]:
    for field, containers in (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
    ):
        for i, container in enumerate(containers):
            resources = container.resources
            for kind, amounts in (("requests", resources.requests), ("limits", resources.limits)):
                at = f"spec.{field}[{i}].resources.{kind}"
                for name, amount in amounts.items():
                    if _is_negative(amount):
                        yield f"{at}[{name}]: expected 0 or more, got {amount}"
    for i, constraint in enumerate(spec.topology_spread_constraints):
        if constraint.max_skew < 1:
            at = f"spec.topologySpreadConstraints[{i}].maxSkew"
            yield f"{at}: expected 1 or more, got {constraint.max_skew}"


def _is_negative(amount: str | float) -> bool:
    """Whether a quantity is below 0; one that cannot be read is reported with the pod."""
    try:
        return parse(amount) < 0
    except QuantityError:
        return False


def _wrong_values(spec: PodSpec) -> Iterator[str]:
    for at, term in _node_terms(spec):
        for i, requirement in enumerate(term.match_expressions):
            where = f"{at}.matchExpressions[{i}].values"
            operator, count = requirement.operator, len(requirement.values)
            if operator in _WITH_VALUES and not count:
                yield f"{where}: required with the operator {operator}"
            elif operator in _WITHOUT_VALUES and count:
                yield f"{where}: not allowed with the operator {operator}"
            elif operator in _WITH_ONE_VALUE and count != 1:
                yield f"{where}: expected one value with the operator {operator}, got {count}"


def _topology_keys(spec: PodSpec) -> Iterator[tuple[str, str]]:
    for i, constraint in enumerate(spec.topology_spread_constraints):
        yield f"spec.topologySpreadConstraints[{i}]", constraint.topology_key
    affinity = spec.affinity
    if affinity is None:
        return
    for name, side in (
        ("podAffinity", affinity.pod_affinity),
        ("podAntiAffinity", affinity.pod_anti_affinity),
    ):
        if side is not None:
            for i, term in enumerate(side.required_during_scheduling_ignored_during_execution):
                at = f"spec.affinity.{name}.requiredDuringSchedulingIgnoredDuringExecution[{i}]"
                yield at, term.topology_key
            preferred = side.preferred_during_scheduling_ignored_during_execution
            for i, weighted in enumerate(preferred):
                at = f"spec.affinity.{name}.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
                yield f"{at}.podAffinityTerm", weighted.pod_affinity_term.topology_key


def of_words(pod_or_node: Pod | Node) -> str | None:
    """Describe a value that its field does not allow; None if there is none.

    An API server refuses such objects. Plugins would treat the value as one that never matches.
    """
    if isinstance(pod_or_node, Pod):
        words = _words_of_pod(pod_or_node)
    else:
        words = _words_of_node(pod_or_node)
    for path, word, known in words:
        if word not in known:
            expected = ", ".join(sorted(known - {""}))
            return f"{path}: expected one of {expected}, got {word!r}"
    return None


def _words_of_node(node: Node) -> Iterator[_Word]:
    for i, taint in enumerate(node.spec.taints):
        yield f"spec.taints[{i}].effect", taint.effect, _EFFECTS


def _words_of_pod(pod: Pod) -> Iterator[_Word]:
    for i, toleration in enumerate(pod.spec.tolerations):
        at = f"spec.tolerations[{i}]"
        yield f"{at}.operator", toleration.operator, _TOLERATION_OPERATORS
        yield f"{at}.effect", toleration.effect, _EFFECTS | {""}
    for i, constraint in enumerate(pod.spec.topology_spread_constraints):
        at = f"spec.topologySpreadConstraints[{i}].whenUnsatisfiable"
        yield at, constraint.when_unsatisfiable, _ACTIONS
    for at, term in _node_terms(pod.spec):
        yield from _words_of_term(at, term)


def _node_terms(spec: PodSpec) -> Iterator[tuple[str, NodeSelectorTerm]]:
    """Yield the terms of a pod's node affinity, each with its path."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None:
        return
    at = "spec.affinity.nodeAffinity"
    required = affinity.required_during_scheduling_ignored_during_execution
    for i, term in enumerate(required.node_selector_terms if required is not None else ()):
        where = f"{at}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{i}]"
        yield where, term
    for i, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        where = f"{at}.preferredDuringSchedulingIgnoredDuringExecution[{i}].preference"
        yield where, preferred.preference


def _words_of_term(at: str, term: NodeSelectorTerm) -> Iterator[_Word]:
    for i, requirement in enumerate(term.match_expressions):
        yield f"{at}.matchExpressions[{i}].operator", requirement.operator, _NODE_OPERATORS
    for i, requirement in enumerate(term.match_fields):
        yield f"{at}.matchFields[{i}].operator", requirement.operator, _FIELD_OPERATORS


def of_type(problem: msgspec.ValidationError, raw: Mapping[str, Any]) -> str:
    """Describe a field that has a wrong type or is missing."""
    text, _, path = str(problem).partition(" - at `$")
    path = _with_key(path.removesuffix("`").lstrip("."), raw)
    if (missing := _MISSING.search(text)) is not None:
        path = f"{path}.{missing['field']}" if path else missing["field"]
        return f"{path}: required"
    if (expected := _EXPECTED.search(text)) is not None:
        text = f"expected {_in_words(expected['wanted'])}, got {_in_words(expected['found'])}"
    return f"{path}: {text}" if path else text


def of_value(problem: ValueError, raw: Mapping[str, Any]) -> str:
    """Describe a field whose value cannot be parsed."""
    path = next(_unreadable(raw, ""), None)
    return str(problem) if path is None else f"{path}: {problem}"


def _in_words(types: str) -> str:
    words = [word for word in types.split(" | ") if word != "null"]
    if "float" in words and "int" in words:
        words.remove("int")
    return " or ".join(_WORDS.get(word, word) for word in words or ["null"])


def _with_key(path: str, raw: Mapping[str, Any]) -> str:
    """Add the key that the decoder leaves out of a path: the first whose value is no string."""
    before, found, after = path.partition(_ANY_KEY)
    if not found:
        return path
    value = _at(raw, before)
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(item, str):
                return f"{before}[{key}]{after}"
    return path


def _at(raw: Any, path: str) -> Any:
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(raw, Mapping):
            raw = raw.get(step)
        elif isinstance(raw, list) and step.isdigit() and int(step) < len(raw):
            raw = raw[int(step)]
        else:
            return None
    return raw


def _unreadable(value: Any, path: str, field: str = "") -> Iterator[str]:
    """Yield the paths of invalid quantities and unknown operators."""
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from _unreadable(item, f"{path}[{i}]", field)
    if not isinstance(value, Mapping):
        return
    if "operator" in value and field in ("matchExpressions", "matchFields"):
        known = _NODE_OPERATORS if "nodeAffinity" in path else _LABEL_OPERATORS
        if value["operator"] not in known:
            yield f"{path}.operator"
    if field in _QUANTITIES:
        yield from (f"{path}[{key}]" for key, item in value.items() if not _is_quantity(item))
        return
    for key, item in value.items():
        yield from _unreadable(item, f"{path}.{key}" if path else str(key), str(key))


def _is_quantity(value: Any) -> bool:
    try:
        parse(value)
    except (QuantityError, TypeError):
        return False
    return True
