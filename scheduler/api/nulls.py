"""Null is the same as absent, as for Go's decoder.

Go's encoder writes null for an empty list or map if its field has no `omitempty`. Examples are the
drivers of a CSINode and the names of an image.

A null in a map, such as a label without a value, counts as the empty text or 0: the key is there.
Only people write it.
"""

from collections.abc import Mapping
from typing import Any, Final

_IN_MAPS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("annotations", "labels", "matchLabels", "nodeSelector", "selector"), ""),
    **dict.fromkeys(("limits", "requests"), "0"),
}
"""The meaning of null in fields that are maps."""
_FIELDS: Final = frozenset({"matchExpressions", "matchLabels", "nodeSelectorTerms"})
"""The fields of those selectors that are no maps."""


def without_nulls(value: Any, field: str = "") -> Any:
    """Return the value of a field without its null fields, which count as absent."""
    if isinstance(value, Mapping):
        null = _IN_MAPS.get(field)
        # Most values are text, for which the check for a mapping would take most of the time.
        return {
            k: v if isinstance(v, str) else null if v is None else without_nulls(v, k)
            for k, v in value.items()
            if v is not None or (null is not None and k not in _FIELDS)
        }
    if isinstance(value, list):
        return [without_nulls(v) for v in value]
    return value
