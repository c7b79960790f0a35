"""What may change in a pod after it was created.

Source: pkg/apis/core/validation (ValidatePodUpdate).
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler.sandbox.field_errors import FieldError, forbidden, invalid
from scheduler.sandbox.schema.codec import Object

_MUTABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)
_TERMS: Final = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def validate_pod_update(new: Object, old: Object) -> Iterator[FieldError]:
    """The faults of a change to a pod's specification."""
    fresh, before = new["spec"], old["spec"]
    if fresh == before:
        return
    for field in ("containers", "initContainers"):
        if len(fresh.get(field) or ()) != len(before.get(field) or ()):
            yield forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    yield from _tolerations(fresh.get("tolerations") or [], before.get("tolerations") or [])
    yield from _gates(fresh.get("schedulingGates") or [], before.get("schedulingGates") or [])
    is_gated = bool(before.get("schedulingGates"))
    if is_gated:
        yield from _node_selector(fresh, before)
        yield from _node_affinity(_node_terms(fresh), _node_terms(before))
    changed = _frozen_part(fresh, is_gated=is_gated)
    was = _frozen_part(before, is_gated=is_gated)
    if changed != was:
        yield forbidden("spec", f"{_MUTABLE}\n{_difference(was, changed)}")


def _frozen_part(spec: Object, *, is_gated: bool) -> Object:
    """What of a specification must stay as it is."""
    rest = {
        name: value
        for name, value in spec.items()
        if name not in {"tolerations", "schedulingGates", "activeDeadlineSeconds"}
    }
    for field in ("containers", "initContainers"):
        if field in rest:
            rest[field] = [{**container, "image": ""} for container in rest[field]]
    if is_gated:
        rest.pop("nodeSelector", None)
        others = {
            name: value
            for name, value in (rest.pop("affinity", None) or {}).items()
            if name != "nodeAffinity"
        }
        rest["affinity"] = others
    return rest


def _tolerations(new: list[Object], old: list[Object]) -> Iterator[FieldError]:
    kept = [{**toleration, "tolerationSeconds": None} for toleration in new]
    if any({**toleration, "tolerationSeconds": None} not in kept for toleration in old):
        yield forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        )


def _gates(new: list[Object], old: list[Object]) -> Iterator[FieldError]:
    known = {gate.get("name") for gate in old}
    for index, gate in enumerate(new):
        if gate.get("name") not in known:
            yield forbidden(
                f"spec.schedulingGates[{index}].name",
                f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
            )


def _node_selector(new: Object, old: Object) -> Iterator[FieldError]:
    now = new.get("nodeSelector") or {}
    if any(now.get(key) != value for key, value in (old.get("nodeSelector") or {}).items()):
        yield invalid(
            "spec.nodeSelector",
            now,
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        )


def _node_terms(spec: Object) -> list[Object]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms: list[Object] = required.get("nodeSelectorTerms") or []
    return terms


def _node_affinity(new: list[Object], old: list[Object]) -> Iterator[FieldError]:
    if not old:
        return
    where = f"{_TERMS}.nodeSelectorTerms"
    if len(new) != len(old):
        yield invalid(
            where, new, "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        )
        return
    for index, (now, before) in enumerate(zip(new, old, strict=True)):
        if not _has_only_additions(now, before):
            yield invalid(
                f"{where}[{index}]", now, "only additions are allowed (no mutations or deletions)"
            )


def _has_only_additions(new: Object, old: Object) -> bool:
    for field in ("matchExpressions", "matchFields"):
        now, before = new.get(field) or [], old.get(field) or []
        if now[: len(before)] != before:
            return False
    return bool(old.get("matchExpressions") or old.get("matchFields")) or new == old


def _difference(old: Object, new: Object) -> str:
    """The top-level fields that differ, before and after."""
    lines = []
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            lines += [f"- {name}: {_json(old.get(name))}", f"+ {name}: {_json(new.get(name))}"]
    return "\n".join(lines)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
