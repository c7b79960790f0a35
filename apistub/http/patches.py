"""Merge patches, and strategic ones, which merge some lists of objects by a key.

Source: k8s.io/apimachinery pkg/util/strategicpatch; the patchMergeKey of the fields in k8s.io/api.
"""

from typing import Any, Final

from apistub.storage.kinds import Object
from apistub.storage.status import bad_request

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"

_MERGE_KEYS: Final = {
    "addresses": ("type",),
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    # Of containers and of services; a list is of one of them.
    "ports": ("containerPort", "port"),
    "reservedFor": ("uid",),
    "resourceClaimStatuses": ("name",),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "topologySpreadConstraints": ("topologyKey",),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}  # fmt: skip
"""What tells the items of a list apart, by the name of the field."""
_SETS: Final = ("finalizers",)
"""Lists of texts to which a patch adds."""
_DIRECTIVE: Final = "$patch"
_DELETE: Final = "$deleteFromPrimitiveList/"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"


def merge(document: Any, patch: Any) -> Any:
    """The document with a merge patch laid over it; null removes, lists are replaced."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


def merge_strategically(document: Any, patch: Object) -> Object:  # noqa: C901 - the directives in the order in which they count
    """The document with a strategic patch merged into it; the given one is left as it is.

    Raises:
        StatusError: 400, a directive or an item's key is missing or unknown.
    """
    directive = patch.get(_DIRECTIVE, "merge")
    if directive == "delete":
        return {}
    if directive == "replace":
        replaced: Object = _without_directives(patch)
        return replaced
    if directive != "merge":
        raise bad_request(f"a strategic patch cannot {directive!r}")
    original = document if isinstance(document, dict) else {}
    retained = patch.get(_RETAIN)
    result = {name: value for name, value in original.items() if not retained or name in retained}
    for name, value in patch.items():
        if name.startswith(_DELETE):
            field = name.removeprefix(_DELETE)
            result[field] = [item for item in result.get(field) or () if item not in value]
        elif not name.startswith("$"):
            _merge_field(result, name, value)
    for name, order in patch.items():
        if name.startswith(_ORDER):
            _reorder(result, name.removeprefix(_ORDER), order)
    return result


def _merge_field(result: Object, name: str, value: Any) -> None:
    present = result.get(name)
    if value is None:
        result.pop(name, None)
    elif isinstance(value, dict):
        result[name] = merge_strategically(present, value)
    elif isinstance(value, list) and name in _SETS:
        kept = present or []
        result[name] = kept + [item for item in value if item not in kept]
    elif isinstance(value, list) and _key_of(name, value):
        result[name] = _merge_lists(present or [], value, name)
    else:
        result[name] = _without_directives(value)


def _key_of(name: str, items: list[Any]) -> str:
    """The field that tells the items of a list apart; empty when it is replaced as a whole."""
    keys = _MERGE_KEYS.get(name, ())
    return next((key for key in keys for item in items if key in item), keys[0] if keys else "")


def _merge_lists(original: list[Object], patch: list[Object], name: str) -> list[Object]:
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return [_without_directives(item) for item in patch if _DIRECTIVE not in item]
    key = _key_of(name, patch)
    result = list(original)
    for item in patch:
        if key not in item:
            raise bad_request(f"{name}: an item of a strategic patch lacks {key}")
        position = next((i for i, one in enumerate(result) if one.get(key) == item[key]), None)
        if item.get(_DIRECTIVE) == "delete":
            result = [one for one in result if one.get(key) != item[key]]
        elif position is None:
            result.append(merge_strategically({}, item))
        else:
            result[position] = merge_strategically(result[position], item)
    return result


def _reorder(result: Object, name: str, order: list[Any]) -> None:
    """Puts the items a patch lists into its order; others keep their places."""
    items = result.get(name)
    if not isinstance(items, list):
        return
    key = _key_of(name, items)

    def identity(item: Any) -> Any:
        return item.get(key) if isinstance(item, dict) else item

    wanted = [identity(entry) for entry in order]
    listed = sorted(
        (item for item in items if identity(item) in wanted),
        key=lambda item: wanted.index(identity(item)),
    )
    following = iter(listed)
    result[name] = [next(following) if identity(item) in wanted else item for item in items]


def _without_directives(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        name: _without_directives(inner)
        for name, inner in value.items()
        if not name.startswith("$") and inner is not None
    }
