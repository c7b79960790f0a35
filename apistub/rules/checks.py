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

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_WORD: Final = re.compile("[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_SUBDOMAIN_MAX: Final = 253
_WORD_MAX: Final = 63


@lru_cache(maxsize=65536)
def is_name(text: str) -> bool:
    """Whether an object may have this name."""
    return len(text) <= _SUBDOMAIN_MAX and _SUBDOMAIN.fullmatch(text) is not None


@lru_cache(maxsize=65536)
def is_key(text: str) -> bool:
    """Whether a label, an annotation, a taint or a resource may have this name."""
    prefix, slash, name = text.rpartition("/")
    return (not slash or is_name(prefix)) and name != "" and is_value(name)


@lru_cache(maxsize=65536)
def is_value(text: str) -> bool:
    """Whether a label or a taint may have this value."""
    return text == "" or (len(text) <= _WORD_MAX and _WORD.fullmatch(text) is not None)


def metadata_faults(meta: Object) -> Iterator[Fault]:
    """Faults of name and labels."""
    name = meta.get("name", "")
    if not is_name(name):
        yield Fault("metadata.name", f"{name!r} is not a name of lower case letters, digits, '-.'")
    yield from label_faults("metadata.labels", meta.get("labels") or {})


def label_faults(field: str, labels: Mapping[str, str]) -> Iterator[Fault]:
    """Faults of a map of labels."""
    for key, value in labels.items():
        if not is_key(key):
            yield Fault(field, f"{key!r} is not a label key")
        if not is_value(value):
            yield Fault(field, f"{value!r} is not a label value")


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
