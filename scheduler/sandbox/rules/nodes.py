"""Rules for nodes.

Source: pkg/apis/core/v1/defaults.go (SetDefaults_NodeStatus), pkg/apis/core/validation
(ValidateNode, ValidateNodeUpdate).
"""

from collections.abc import Iterator
from dataclasses import replace

from scheduler.sandbox.field_errors import FieldError, duplicate, forbidden, invalid, required
from scheduler.sandbox.names import is_label_value, is_qualified_name
from scheduler.sandbox.rules.checks import named, one_of, quantity_not_negative
from scheduler.sandbox.rules.contract import Rules
from scheduler.sandbox.rules.placement_validation import TAINT_EFFECTS
from scheduler.sandbox.schema.codec import Object


def _default(node: Object) -> None:
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    if "allocatable" not in status and "capacity" in status:
        status["allocatable"] = dict(status["capacity"])


def _validate(node: Object) -> Iterator[FieldError]:
    # The real server names these metadata.taints; so does this one, messages included.
    yield from taint_faults(node["spec"].get("taints") or [], "metadata.taints")
    for part in ("capacity", "allocatable"):
        for name, value in (node["status"].get(part) or {}).items():
            yield from named(f"status.{part}.{name}", name, is_qualified_name)
            yield from quantity_not_negative(f"status.{part}.{name}", value)


def taint_faults(taints: list[Object], field: str) -> Iterator[FieldError]:
    """The faults of a node's taints."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        where = f"{field}[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        yield from named(f"{where}.key", key, is_qualified_name)
        complaints = is_label_value(taint.get("value", ""))
        if complaints:
            yield invalid(f"{where}.value", taint["value"], ";".join(complaints))
        if effect:
            yield from one_of(f"{where}.effect", effect, TAINT_EFFECTS)
        else:
            yield required(f"{where}.effect")
        if (key, effect) in seen:
            shown = {"Key": key, "Value": taint.get("value", ""), "Effect": effect}
            fault = duplicate(where, {**shown, "TimeAdded": taint.get("timeAdded")})
            yield replace(fault, body=f"{fault.body}: taints must be unique by key and effect pair")
        seen.add((key, effect))


def _validate_update(new: Object, old: Object) -> Iterator[FieldError]:
    for name, called in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
        before = old["spec"].get(name)
        if before and new["spec"].get(name) != before:
            yield forbidden(
                f"spec.{name}", f'node updates may not change {called} except from "" to valid'
            )


RULES = Rules(default=_default, validate=_validate, validate_update=_validate_update)
