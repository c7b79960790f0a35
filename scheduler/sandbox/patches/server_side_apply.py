"""Server-side apply, as a merge that remembers what each manager applied last.

Differs: the real server records ownership per field and reports conflicts between managers; here
the last writer wins, and a field disappears when its manager stops naming it.
"""

from typing import Any

from scheduler.sandbox.patches.strategic import (
    DELETE_FROM_LIST,
    DIRECTIVE,
    apply_strategic_patch,
)
from scheduler.sandbox.schema.codec import Object
from scheduler.sandbox.schema.types import Field, ObjectType, object_type


def apply_configuration(
    document: Object, configuration: Object, previous: Object, type_name: str
) -> Object:
    """The document after a manager applied its configuration.

    Args:
        document: the object as it is; empty when it is to be created.
        configuration: what the manager wants.
        previous: what the same manager applied before; empty if never.
        type_name: the type of the object.
    """
    patch = _with_removals(configuration, previous, object_type(type_name))
    return apply_strategic_patch(document, patch, type_name, _apply_keys)


def _apply_keys(field: Field) -> tuple[str, ...]:
    return field.apply_keys


def _with_removals(wanted: Object, previous: Object, fields: ObjectType) -> Object:
    patch: dict[str, Any] = dict(wanted)
    for name, value in previous.items():
        field = fields.get(name)
        if name not in wanted:
            patch.update(_removal(name, value, field))
        elif isinstance(value, dict) and isinstance(wanted[name], dict):
            inner = object_type(field.inner) if field else {}
            patch[name] = _with_removals(wanted[name], value, inner)
        elif isinstance(value, list) and field is not None:
            patch.update(_list_patch(name, wanted[name], value, field))
    return patch


def _removal(name: str, value: Any, field: Field | None) -> Object:
    if (
        isinstance(value, list)
        and field is not None
        and (field.apply_keys or field.merges_primitives)
    ):
        return _list_patch(name, [], value, field)
    if isinstance(value, dict) and field is not None:
        return {name: _with_removals({}, value, object_type(field.inner))}
    return {name: None}


def _list_patch(name: str, wanted: list[Any], previous: list[Any], field: Field) -> Object:
    if field.merges_primitives:
        gone = [item for item in previous if item not in wanted]
        return {name: wanted, DELETE_FROM_LIST + name: gone}
    keys = field.apply_keys
    if not keys:
        return {name: wanted}
    before = {tuple(item.get(key) for key in keys): item for item in previous}
    items = []
    for item in wanted:
        old = before.pop(tuple(item.get(key) for key in keys), {})
        items.append(_with_removals(item, old, object_type(field.inner)))
    removed = [
        {**{key: item[key] for key in keys if key in item}, DIRECTIVE: "delete"}
        for item in before.values()
    ]
    return {name: items + removed}
