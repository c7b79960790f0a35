"""The faults in what a pod says about where it may run.

Source: pkg/apis/core/validation (validateAffinity, ValidateTolerations, validateSchedulingGates,
validateTopologySpreadConstraints).
"""

from collections.abc import Iterator
from typing import Final

from scheduler.sandbox.field_errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
)
from scheduler.sandbox.names import (
    is_dns_label,
    is_dns_subdomain,
    is_label_value,
    is_qualified_name,
)
from scheduler.sandbox.rules.checks import (
    label_selector,
    named,
    one_of,
    operator_values,
    positive,
)
from scheduler.sandbox.schema.codec import Object

TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WHEN_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION_POLICIES: Final = ("Honor", "Ignore")
_NUMERIC: Final = ("Lt", "Gt")
_NODE_OPERATORS: Final = {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}
_WEIGHT_MAX: Final = 100
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def toleration_faults(tolerations: list[Object] | None, field: str) -> Iterator[FieldError]:
    """The faults of tolerations."""
    for index, toleration in enumerate(tolerations or ()):
        where = f"{field}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            yield from named(f"{where}.key", key, is_qualified_name)
        elif operator != "Exists":
            yield invalid(
                f"{where}.operator",
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and '
                'all keys"',
            )
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            yield invalid(
                f"{where}.effect",
                effect,
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            )
        yield from _toleration_value(operator, value, where)
        if effect:
            yield from one_of(f"{where}.effect", effect, TAINT_EFFECTS)


def _toleration_value(operator: str, value: str, where: str) -> Iterator[FieldError]:
    if operator in {"", "Equal"}:
        complaints = is_label_value(value)
        if complaints:
            yield invalid(f"{where}.operator", value, ";".join(complaints))
    elif operator in _NUMERIC:
        yield not_supported(f"{where}.operator", operator, ("Equal", "Exists", *_NUMERIC))
    elif operator != "Exists":
        yield not_supported(f"{where}.operator", operator, ("Equal", "Exists"))
    elif value:
        yield invalid(f"{where}.operator", value, "value must be empty when `operator` is 'Exists'")


def gate_faults(gates: list[Object] | None, field: str) -> Iterator[FieldError]:
    """The faults of scheduling gates."""
    seen: set[str] = set()
    for index, gate in enumerate(gates or ()):
        name = gate.get("name", "")
        yield from named(f"{field}[{index}]", name, is_qualified_name)
        if name in seen:
            yield duplicate(f"{field}[{index}]", name)
        seen.add(name)


def spread_faults(constraints: list[Object] | None, field: str) -> Iterator[FieldError]:
    """The faults of topology spread constraints."""
    given = constraints or []
    kinds = [(each.get("topologyKey", ""), each.get("whenUnsatisfiable", "")) for each in given]
    for index, constraint in enumerate(given):
        where = f"{field}[{index}]"
        key, action = kinds[index]
        yield from positive(f"{where}.maxSkew", constraint.get("maxSkew"))
        if not key:
            yield required(f"{where}.topologyKey", "can not be empty")
        yield from one_of(f"{where}.whenUnsatisfiable", action, _WHEN_UNSATISFIABLE)
        if (key, action) in kinds[index + 1 :]:
            yield duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        yield from _min_domains(constraint.get("minDomains"), action, f"{where}.minDomains")
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            yield from one_of(f"{where}.{policy}", constraint.get(policy), _INCLUSION_POLICIES)
        yield from label_selector(f"{where}.labelSelector", constraint.get("labelSelector"))


def _min_domains(count: int | None, action: str, field: str) -> Iterator[FieldError]:
    if count is None:
        return
    yield from positive(field, count)
    if action != "DoNotSchedule":
        yield invalid(
            field,
            count,
            f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}",
        )


def affinity_faults(affinity: Object | None, field: str) -> Iterator[FieldError]:
    """The faults of node affinity, pod affinity and pod anti-affinity."""
    if affinity is None:
        return
    yield from _node_affinity(affinity.get("nodeAffinity") or {}, f"{field}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        for index, term in enumerate(rules.get(_REQUIRED) or ()):
            yield from _pod_term(term, f"{field}.{kind}.{_REQUIRED}[{index}]")
        for index, weighted in enumerate(rules.get(_PREFERRED) or ()):
            where = f"{field}.{kind}.{_PREFERRED}[{index}]"
            yield from _weight(weighted.get("weight", 0), f"{where}.weight")
            yield from _pod_term(weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")


def _node_affinity(affinity: Object, field: str) -> Iterator[FieldError]:
    if _REQUIRED in affinity:
        where = f"{field}.{_REQUIRED}.nodeSelectorTerms"
        terms = affinity[_REQUIRED].get("nodeSelectorTerms") or []
        if not terms:
            yield required(where, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from node_term_faults(term, f"{where}[{index}]")
    for index, preferred in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{field}.{_PREFERRED}[{index}]"
        yield from _weight(preferred.get("weight", 0), f"{where}.weight")
        yield from node_term_faults(preferred.get("preference") or {}, f"{where}.preference")


def _weight(weight: int, field: str) -> Iterator[FieldError]:
    if not 1 <= weight <= _WEIGHT_MAX:
        yield invalid(field, weight, "must be in the range 1-100")


def node_term_faults(term: Object, field: str) -> Iterator[FieldError]:
    """The faults of one node selector term."""
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        where = f"{field}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values") or []
        yield from operator_values(where, operator, values)
        if operator in {"Gt", "Lt"} and len(values) != 1:
            yield required(
                f"{where}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"
            )
        if operator not in _NODE_OPERATORS:
            yield invalid(f"{where}.operator", operator, "not a valid selector operator")
        yield from named(f"{where}.key", expression.get("key", ""), is_qualified_name)
    for index, expression in enumerate(term.get("matchFields") or ()):
        yield from _match_field(expression, f"{field}.matchFields[{index}]")


def _match_field(expression: Object, field: str) -> Iterator[FieldError]:
    operator, values = expression.get("operator", ""), expression.get("values") or []
    if operator not in {"In", "NotIn"}:
        yield invalid(f"{field}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        yield required(
            f"{field}.values",
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        )
    if expression.get("key") != "metadata.name":
        yield invalid(f"{field}.key", expression.get("key", ""), "not a valid field selector key")
    for index, value in enumerate(values):
        yield from named(f"{field}.values[{index}]", value, is_dns_subdomain)


def _pod_term(term: Object, field: str) -> Iterator[FieldError]:
    yield from label_selector(f"{field}.labelSelector", term.get("labelSelector"))
    yield from label_selector(f"{field}.namespaceSelector", term.get("namespaceSelector"))
    for name in term.get("namespaces") or ():
        yield from named(f"{field}.namespace", name, is_dns_label)
    key = term.get("topologyKey", "")
    if not key:
        yield required(f"{field}.topologyKey", "can not be empty")
    yield from named(f"{field}.topologyKey", key, is_qualified_name)
