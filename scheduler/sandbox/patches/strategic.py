"""Strategic merge patch: lists of objects merge by key, as the type of the field says.

Source: k8s.io/apimachinery pkg/util/strategicpatch (StrategicMergePatch, mergeMap, mergeSlice).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from scheduler.sandbox.schema.codec import Object
from scheduler.sandbox.schema.types import Field, ObjectType, object_type
from scheduler.sandbox.status import bad_request

Keys = Callable[[Field], tuple[str, ...]]
"""Which fields identify the items of a list; none when the list is replaced as a whole."""

DIRECTIVE: Final = "$patch"
DELETE_FROM_LIST: Final = "$deleteFromPrimitiveList/"
_RETAIN_KEYS: Final = "$retainKeys"
_ELEMENT_ORDER: Final = "$setElementOrder/"


def merge_key(field: Field) -> tuple[str, ...]:
    """The key strategic merge patches identify items by."""
    return (field.merge_key,) if field.merge_key else ()


def apply_strategic_patch(
    document: Object, patch: Object, type_name: str, keys: Keys = merge_key
) -> Object:
    """The document with the patch merged into it; the given one is left as it is.

    Raises:
        StatusError: 400, a directive or an item's key is missing or unknown.
    """
    return _Merge(keys).maps(document, patch, object_type(type_name))


class _Merge:
    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def maps(self, original: Object, patch: Object, fields: ObjectType) -> Object:
        directive = patch.get(DIRECTIVE)
        if directive == "delete":
            return {}
        if directive == "replace":
            replaced: Object = _without_directives(patch)
            return replaced
        if directive not in {None, "merge"}:
            raise bad_request(f"unknown patch type found: {directive}")
        retained = patch.get(_RETAIN_KEYS)
        result = {
            name: value for name, value in original.items() if not retained or name in retained
        }
        for name, value in patch.items():
            if name.startswith(DELETE_FROM_LIST):
                self._delete_from_list(result, name.removeprefix(DELETE_FROM_LIST), value)
            elif not name.startswith("$"):
                self._member(result, name, value, fields.get(name))
        for name, order in patch.items():
            if name.startswith(_ELEMENT_ORDER):
                self._reorder(result, name.removeprefix(_ELEMENT_ORDER), order, fields)
        return result

    def _member(self, result: Object, name: str, value: Any, field: Field | None) -> None:
        present = result.get(name)
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            inner = object_type(field.inner) if field else {}
            base = present if isinstance(present, dict) else {}
            result[name] = self.maps(base, value, inner)
        elif isinstance(value, list) and field is not None and self._keys(field):
            items = present if isinstance(present, list) else []
            result[name] = self._lists(items, value, field)
        elif isinstance(value, list) and field is not None and field.merges_primitives:
            kept = present if isinstance(present, list) else []
            result[name] = kept + [item for item in value if item not in kept]
        else:
            result[name] = _without_directives(value)

    def _lists(self, original: list[Object], patch: list[Object], field: Field) -> list[Object]:
        keys, inner = self._keys(field), object_type(field.inner)
        directives = [item for item in patch if item.get(DIRECTIVE) == "replace"]
        if directives:
            return [_without_directives(item) for item in patch if len(item) > 1]
        result = list(original)
        for item in patch:
            identity = _identity(item, keys, field.name)
            position = _position(result, keys, identity)
            if item.get(DIRECTIVE) == "delete":
                result = [kept for kept in result if _values(kept, keys) != identity]
            elif position is None:
                result.append(self.maps({}, item, inner))
            else:
                result[position] = self.maps(result[position], item, inner)
        return result

    @staticmethod
    def _delete_from_list(result: Object, name: str, values: list[Any]) -> None:
        if name in result:
            result[name] = [item for item in result[name] if item not in values]

    def _reorder(self, result: Object, name: str, order: list[Any], fields: ObjectType) -> None:
        field, items = fields.get(name), result.get(name)
        if field is None or not isinstance(items, list):
            return
        keys = self._keys(field)
        wanted = [_values(entry, keys) for entry in order]
        listed = [item for item in items if _values(item, keys) in wanted]
        listed.sort(key=lambda item: wanted.index(_values(item, keys)))
        following = iter(listed)
        result[name] = [
            next(following) if _values(item, keys) in wanted else item for item in items
        ]


def _identity(item: Object, keys: Sequence[str], name: str) -> object:
    if keys[0] not in item:
        raise bad_request(f"map: {item} does not contain declared merge key: {keys[0]} ({name})")
    return _values(item, keys)


def _values(item: Any, keys: Sequence[str]) -> object:
    return tuple(item.get(key) for key in keys) if isinstance(item, dict) else item


def _position(items: list[Object], keys: Sequence[str], identity: object) -> int | None:
    return next(
        (index for index, item in enumerate(items) if _values(item, keys) == identity), None
    )


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_directives(inner)
            for name, inner in value.items()
            if not name.startswith("$") and inner is not None
        }
    return value
