"""What is wrong with an object, in words, with the path to the field."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from scheduler.api.quantity import QuantityError, parse

_EXPECTED: Final = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<found>[^`]+)`")
_MISSING: Final = re.compile(r"Object missing required field `(?P<field>[^`]+)`")
_ANY_KEY: Final = "[...]"
_WORDS: Final = {
    "object": "a mapping",
    "array": "a list",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}
_QUANTITIES: Final = frozenset(
    {"requests", "limits", "overhead", "allocatable", "allocatedResources"}
)
_LABEL_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_NODE_OPERATORS: Final = _LABEL_OPERATORS | {"Gt", "Lt"}


def of_type(problem: msgspec.ValidationError, raw: Mapping[str, Any]) -> str:
    """Say which field has the wrong type, or is missing."""
    text, _, path = str(problem).partition(" - at `$")
    path = _with_key(path.removesuffix("`").lstrip("."), raw)
    if (missing := _MISSING.search(text)) is not None:
        path = f"{path}.{missing['field']}" if path else missing["field"]
        return f"{path}: required"
    if (expected := _EXPECTED.search(text)) is not None:
        text = f"expected {_in_words(expected['wanted'])}, got {_in_words(expected['found'])}"
    return f"{path}: {text}" if path else text


def of_value(problem: ValueError, raw: Mapping[str, Any]) -> str:
    """Say which field has a value that cannot be read."""
    path = next(_unreadable(raw, ""), None)
    return str(problem) if path is None else f"{path}: {problem}"


def _in_words(types: str) -> str:
    words = [word for word in types.split(" | ") if word != "null"]
    if "float" in words and "int" in words:
        words.remove("int")
    return " or ".join(_WORDS.get(word, word) for word in words or ["null"])


def _with_key(path: str, raw: Mapping[str, Any]) -> str:
    """The path with the key in it that the decoder does not tell: the first that is no text."""
    before, found, after = path.partition(_ANY_KEY)
    if not found:
        return path
    value = _at(raw, before)
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(item, str):
                return f"{before}[{key}]{after}"
    return path


def _at(raw: Any, path: str) -> Any:
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(raw, Mapping):
            raw = raw.get(step)
        elif isinstance(raw, list) and step.isdigit() and int(step) < len(raw):
            raw = raw[int(step)]
        else:
            return None
    return raw


def _unreadable(value: Any, path: str, field: str = "") -> Iterator[str]:
    """The paths of quantities that do not parse and of operators that do not exist."""
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from _unreadable(item, f"{path}[{i}]", field)
    if not isinstance(value, Mapping):
        return
    if "operator" in value and field in ("matchExpressions", "matchFields"):
        known = _NODE_OPERATORS if "nodeAffinity" in path else _LABEL_OPERATORS
        if value["operator"] not in known:
            yield f"{path}.operator"
    for key, item in value.items():
        below = f"{path}.{key}" if path else str(key)
        if field in _QUANTITIES:
            if not _is_quantity(item):
                yield f"{path}[{key}]"
        else:
            yield from _unreadable(item, below, str(key))


def _is_quantity(value: Any) -> bool:
    try:
        parse(value)
    except (QuantityError, TypeError):
        return False
    return True
