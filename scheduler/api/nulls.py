"""Null is the same as absent, as for Go's decoder.

Go's encoder writes it where a list or map is empty whose field has no `omitempty`: the drivers of a
CSINode, the names of an image.
"""

from collections.abc import Mapping
from typing import Any


def without_nulls(value: Any) -> Any:
    """The value without fields that are null: they are fields that are not there."""
    if isinstance(value, Mapping):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(v) for v in value]
    return value
