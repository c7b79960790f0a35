"""Parses YAML text to plain values, with the line of every value and every duplicate key.

Scalars are parsed as in kube-scheduler, not as in PyYAML: `y` is true, `1:30` and dates are
strings.

Source: sigs.k8s.io/yaml over go.yaml.in/yaml/v2, resolve.go.
"""

import re
from collections.abc import Iterable, Mapping
from math import isfinite
from pathlib import Path as FilePath
from typing import TypeAlias

import yaml

from scheduler.config.aliases import EXCESSIVE, are_excessive
from scheduler.config.problems import ConfigError, Path, Problem, Problems
from scheduler.errors import os_reason

Value: TypeAlias = "dict[str, Value] | list[Value] | str | int | float | bool | None"
"""A JSON value."""

_TRUE = frozenset(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"))
_FALSE = frozenset(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"))
_MAX_DIGITS = 64
"""Digits at most of a whole number: Python refuses much longer ones, and no field accepts them."""
_MAX_DEPTH = 100
"""Levels of lists and mappings at most: writing YAML takes several stack frames for each."""
_TOO_DEEP = "not readable: lists and mappings are nested too deeply"
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INT = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|[1-9][0-9]*|0)")
_MERGE = "<<"
_PLAIN = "plain"
_TEXT = "tag:yaml.org,2002:str"

_NO_COLON = "could not find expected ':'"
_HINTS = {
    "cannot start any token": "; YAML is indented with spaces, not tabs",
    "mapping values are not allowed": "; check the indentation, and quote a text with ': ' in it",
    _NO_COLON: "; a field name ends with a colon and a space",
    "did not find expected key": "; check the indentation",
    "did not find expected '-' indicator": "; check the indentation",
}
"""Hints for users by message of libyaml."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Composes nodes only: a plain scalar keeps the tag `_PLAIN` and is resolved by this module."""

    yaml_implicit_resolvers = {None: [(_PLAIN, re.compile(""))]}  # noqa: RUF012  PyYAML's name


def read_file(name: str) -> bytes:
    """Read a file.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        return FilePath(name).read_bytes()
    except OSError as error:
        raise ConfigError(name, [Problem((), f"cannot be read: {os_reason(error)}")]) from error


def parse(text: str | bytes, problems: Problems) -> Value:
    """Read one YAML (or JSON) document.

    Returns:
        The value; `problems` then has the lines, the syntax error, and the duplicate keys.
    """
    lines: dict[Path, int] = {}
    problems.lines = lines
    try:
        loader = _Loader(text)
        try:
            node = loader.get_node() if loader.check_node() else None
            _refuse_more(loader, problems, lines)
        finally:
            loader.dispose()
        if node is not None and are_excessive(node):
            problems.add((), EXCESSIVE)
            return None
        return None if node is None else _Reader(lines, problems).value(node, ())
    except yaml.MarkedYAMLError as error:
        _add_syntax_error(error, problems, lines)
    except yaml.reader.ReaderError as error:
        _add_reader_error(error, text, problems, lines)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problems.add((), f"not readable as text: {' '.join(str(error).split())}")
    except RecursionError:
        problems.add((), _TOO_DEEP)
    return None


def with_lines(found: Iterable[Problem], text: str | bytes) -> tuple[Problem, ...]:
    """Return problems that were found after decoding, with the lines of their paths in the text.

    The line is that of the path, or of its closest parent in the text. A problem outside the text,
    such as in a flag, has no line.
    """
    parsed = Problems()
    parse(text, parsed)
    return tuple(problem._replace(line=_line(problem.path, parsed.lines)) for problem in found)


def _line(path: Path, lines: Mapping[Path, int]) -> int | None:
    while path and path not in lines:
        path = path[:-1]
    return lines[path] if path else None


def whole_number(text: str) -> int | None:
    """Return the number that a text is for Go: `10`, `-1_000`, `0x1F`, `017`; None if it is none.

    Source: Go strconv.ParseInt with base 0.
    """
    plain = text.replace("_", "")
    is_number = _INT.fullmatch(plain) is not None and len(plain) <= _MAX_DIGITS
    return _int(plain) if is_number and text[0] != "_" else None


def is_plain_text(text: str) -> bool:
    """Return whether a string needs no quotes in YAML to be parsed as this string."""
    return isinstance(_resolve(text), str)


def _refuse_more(loader: _Loader, problems: Problems, lines: dict[Path, int]) -> None:
    """Refuse a second document, unless it is empty."""
    while loader.check_node():
        node = loader.get_node()
        if node is not None and not (isinstance(node, yaml.ScalarNode) and not node.value):
            lines[()] = node.start_mark.line + 1
            problems.add((), 'expected one document, found a second one after "---"')


def _add_syntax_error(
    error: yaml.MarkedYAMLError, problems: Problems, lines: dict[Path, int]
) -> None:
    message = error.problem or error.context or "unreadable"
    mark = error.problem_mark or error.context_mark
    if message == _NO_COLON:
        mark = error.context_mark
    if mark is not None:
        lines[()] = mark.line + 1
    column = f" at column {mark.column + 1}" if mark is not None else ""
    hint = next((hint for fragment, hint in _HINTS.items() if fragment in message), "")
    start = error.context_mark
    if start is not None and mark is not None and start.line < mark.line:
        hint += f" (in what begins in line {start.line + 1})"
    problems.add((), f"not valid YAML{column}: {message}{hint}")


def _add_reader_error(
    error: yaml.reader.ReaderError, text: str | bytes, problems: Problems, lines: dict[Path, int]
) -> None:
    before = text[: error.position]
    lines[()] = (before if isinstance(before, bytes) else before.encode()).count(b"\n") + 1
    message = f"expected a text in UTF-8: {error.reason}, at position {error.position} of the file"
    problems.add((), message)


class _Reader:
    """Converts composed YAML nodes to values."""

    def __init__(self, lines: dict[Path, int], problems: Problems) -> None:
        self._lines = lines
        self._problems = problems
        self._open: set[int] = set()

    def value(self, node: yaml.Node, path: Path) -> Value:
        self._lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            value = _scalar(node)
            if isinstance(value, float) and not isfinite(value):
                told = f"expected a value that JSON has, got {node.value}; quote it if it is a text"
                self._problems.add(path, told)
            return value
        if id(node) in self._open:
            self._problems.add(path, "an alias must not contain itself")
            return None
        if len(path) == _MAX_DEPTH:
            self._problems.add((), _TOO_DEEP)
            return None
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
            return self._mapping(node, path)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.Node, path: Path) -> dict[str, Value]:
        result: dict[str, Value] = {}
        merged: dict[str, Value] = {}
        first_line: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._problems.add(path, "a field name must be a text")
                continue
            key = str(key_node.value)
            if key == _MERGE and key_node.tag == _PLAIN:
                self._merge(value_node, path, merged)
                continue
            place = (*path, key)
            if key in first_line:
                self._lines[place] = line
                message = f"given twice, first in line {first_line[key]}; keep one of them"
                self._problems.add(place, message)
                continue
            first_line[key] = line
            self._lines[place] = line
            result[key] = self.value(value_node, place)
        for key in merged.keys() & result.keys():
            self._problems.add((*path, key), 'given here and through "<<"; keep one of them')
        return {**merged, **result}

    def _merge(self, node: yaml.Node, path: Path, into: dict[str, Value]) -> None:
        """Add the entries of `<<: *anchor`; the first entry of a key counts."""
        value = self.value(node, path)
        for mapping in value if isinstance(value, list) else [value]:
            if isinstance(mapping, dict):
                for key, item in mapping.items():
                    into.setdefault(key, item)
            else:
                self._problems.add(path, '"<<" must name a mapping')


def _scalar(node: yaml.ScalarNode) -> Value:
    """Return the value of a scalar; one with quotes, `!!str` or a foreign tag is a string."""
    is_text = node.tag == _TEXT or node.tag.startswith("!")
    return node.value if is_text else _resolve(node.value)


def _resolve(text: str) -> Value:
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    number = whole_number(text)
    if number is not None:
        return number
    plain = text.replace("_", "")
    if text[0] != "_" and _FLOAT.fullmatch(plain) and isfinite(float(plain)):
        return float(plain)
    return float(text.replace(".", "")) if _NOT_FINITE.fullmatch(text) else text


def _int(text: str) -> int:
    """Parse a whole number; a leading zero means octal, as in YAML 1.1."""
    digits = text.lstrip("+-").lower()
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        digits = "0o" + digits[1:]
    number = int(digits, 0)
    return -number if text.startswith("-") else number
