"""Null is the same as absent, as for Go's decoder.

Go's encoder writes null for an empty list or map if its field has no `omitempty`. Examples are the
drivers of a CSINode and the names of an image.
"""

from collections.abc import Mapping
from typing import Any


def without_nulls(value: Any) -> Any:
    """Return the value without its null fields, which count as absent."""
    if isinstance(value, Mapping):
        # Most values are text, for which the check for a mapping would take most of the time.
        return {
            k: v if isinstance(v, str) else without_nulls(v)
            for k, v in value.items()
            if v is not None
        }
    if isinstance(value, list):
        return [without_nulls(v) for v in value]
    return value
