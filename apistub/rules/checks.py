"""Checks that several kinds share: names, labels, quantities.

Source: k8s.io/apimachinery pkg/util/validation. The texts are ours.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from apistub.storage.kinds import Object
from apistub.storage.status import Fault
from scheduler.api.quantity import QuantityError, parse
from scheduler.config.names import label_key_error, label_value_error

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_SUBDOMAIN_MAX: Final = 253


@lru_cache(maxsize=65536)
def is_name(text: str) -> bool:
    """Whether an object may have this name."""
    return len(text) <= _SUBDOMAIN_MAX and _SUBDOMAIN.fullmatch(text) is not None


@lru_cache(maxsize=65536)
def is_key(text: str) -> bool:
    """Whether a label, an annotation, a taint or a resource may have this name."""
    return label_key_error(text) is None


@lru_cache(maxsize=65536)
def is_value(text: str) -> bool:
    """Whether a label or a taint may have this value."""
    return label_value_error(text) is None


def metadata_faults(meta: Object) -> Iterator[Fault]:
    """Faults of name and labels."""
    name = meta.get("name", "")
    if not is_name(name):
        yield Fault("metadata.name", f"{name!r} is not a name of lower case letters, digits, '-.'")
    for key, value in (meta.get("labels") or {}).items():
        if not is_key(key):
            yield Fault("metadata.labels", f"{key!r} is not a label key")
        if not is_value(value):
            yield Fault("metadata.labels", f"{value!r} is not a label value")


def quantity_faults(field: str, quantities: Mapping[str, Any]) -> Iterator[Fault]:
    """Faults of a map of resources."""
    for name, text in quantities.items():
        if not is_key(name):
            yield Fault(f"{field}.{name}", "not the name of a resource")
        try:
            if parse(text) < 0:
                yield Fault(f"{field}.{name}", f"{text!r} is below zero")
        except QuantityError:
            yield Fault(f"{field}.{name}", f"{text!r} is not a quantity")
