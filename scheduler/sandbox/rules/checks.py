"""Checks that several kinds share.

Source: k8s.io/apimachinery pkg/api/validation and pkg/apis/meta/v1/validation.
"""

from collections.abc import Collection, Iterator
from typing import Any, Final

from scheduler.sandbox.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from scheduler.sandbox.kinds import Kind
from scheduler.sandbox.names import NameRule, is_dns_subdomain, is_label_value, is_qualified_name
from scheduler.sandbox.quantities import quantity_value
from scheduler.sandbox.schema.codec import Object

NEGATIVE: Final = "must be greater than or equal to 0"
NOT_POSITIVE: Final = "must be greater than zero"
IMMUTABLE: Final = "field is immutable"
_ANNOTATIONS_LIMIT: Final = 256 * 1024
_PERCENT_MAX: Final = 100


def named(field: str, value: str, rule: NameRule) -> Iterator[FieldError]:
    """The complaints of a name rule about a field."""
    for complaint in rule(value):
        yield invalid(field, value, complaint)


def metadata(kind: Kind, content: Object) -> Iterator[FieldError]:
    """Faults of name, labels, annotations, owners and finalizers."""
    meta = content["metadata"]
    if not meta.get("name"):
        yield required("metadata.name", "name or generateName is required")
    else:
        yield from named("metadata.name", meta["name"], kind.name_rule)
    yield from labels("metadata.labels", meta.get("labels"))
    yield from _annotations(meta.get("annotations"))
    for index, owner in enumerate(meta.get("ownerReferences") or ()):
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(name):
                yield invalid(
                    f"metadata.ownerReferences[{index}].{name}", "", f"{name} must not be empty"
                )
    for finalizer in meta.get("finalizers") or ():
        yield from named("metadata.finalizers", finalizer, is_qualified_name)


def _annotations(annotations: dict[str, str] | None) -> Iterator[FieldError]:
    if not annotations:
        return
    size = 0
    for key, value in annotations.items():
        yield from named("metadata.annotations", key.lower(), is_qualified_name)
        size += len(key) + len(value)
    if size > _ANNOTATIONS_LIMIT:
        yield too_long("metadata.annotations", _ANNOTATIONS_LIMIT)


def labels(field: str, given: dict[str, str] | None) -> Iterator[FieldError]:
    """Faults of a map of labels."""
    for key, value in (given or {}).items():
        yield from named(field, key, is_qualified_name)
        yield from named(field, value, is_label_value)


def label_selector(field: str, selector: Object | None) -> Iterator[FieldError]:
    """Faults of a label selector."""
    if selector is None:
        return
    yield from labels(f"{field}.matchLabels", selector.get("matchLabels"))
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        yield from _label_requirement(f"{field}.matchExpressions[{index}]", expression)


def _label_requirement(field: str, expression: Object) -> Iterator[FieldError]:
    values = expression.get("values") or []
    operator = expression.get("operator", "")
    yield from operator_values(field, operator, values)
    if operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
        yield invalid(f"{field}.operator", operator, "not a valid selector operator")
    yield from named(f"{field}.key", expression.get("key", ""), is_qualified_name)
    for position, value in enumerate(values):
        yield from named(f"{field}.values[{position}]", value, is_label_value)


def operator_values(field: str, operator: str, values: Collection[str]) -> Iterator[FieldError]:
    """Whether a requirement has values where its operator wants them, and none where not."""
    if operator in {"In", "NotIn"} and not values:
        yield required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    if operator in {"Exists", "DoesNotExist"} and values:
        yield forbidden(
            f"{field}.values",
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )


def one_of(field: str, value: str | None, choices: Collection[str]) -> Iterator[FieldError]:
    """Whether a value that is given is one of a closed list."""
    if value is not None and value not in choices:
        yield not_supported(field, value, choices)


def not_negative(field: str, value: int | None) -> Iterator[FieldError]:
    """Whether a number that is given is at least zero."""
    if value is not None and value < 0:
        yield invalid(field, value, NEGATIVE)


def positive(field: str, value: int | None) -> Iterator[FieldError]:
    """Whether a number is given and above zero."""
    if value is None or value <= 0:
        yield invalid(field, value or 0, NOT_POSITIVE)


def quantity_not_negative(field: str, text: str) -> Iterator[FieldError]:
    """Whether a quantity is at least zero."""
    if quantity_value(text) < 0:
        yield invalid(field, text, NEGATIVE)


def int_or_percent(field: str, value: int | str | None) -> Iterator[FieldError]:
    """Whether a value is a count, or a percentage up to 100%."""
    if isinstance(value, int):
        yield from not_negative(field, value)
    elif isinstance(value, str):
        digits = value.removesuffix("%")
        if not value.endswith("%") or not digits.isdigit():
            yield invalid(
                field,
                value,
                "a valid percent string must be a numeric string followed by an ending '%' "
                "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            )
        elif int(digits) > _PERCENT_MAX:
            yield invalid(field, value, "must not be greater than 100%")


def unchanged(field: str, new: Any, old: Any) -> Iterator[FieldError]:
    """Whether a field that may not change is as before."""
    if new != old:
        yield invalid(field, new, IMMUTABLE)


def subdomain(field: str, value: str | None) -> Iterator[FieldError]:
    """Whether a name that is given is a DNS subdomain."""
    if value:
        yield from named(field, value, is_dns_subdomain)
