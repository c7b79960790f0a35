"""Functions on strings.

Source: github.com/google/cel-go v0.26.0 ext/strings.go (version 2) and common/stdlib.
"""

from collections.abc import Callable, Sequence
from typing import Final

from scheduler.kernel.cel import costs
from scheduler.kernel.cel.declarations import function
from scheduler.kernel.cel.errors import CostLimitError, EvaluationError, no_such_overload
from scheduler.kernel.cel.formatting import format_text
from scheduler.kernel.cel.regex import compile_regex
from scheduler.kernel.cel.values import Value, shown

MAX_TEXT: Final = 10 * costs.LIMIT
"""Largest number of characters of a text that a call makes: the limit of a walk's cost. Upstream
makes longer texts and charges them afterwards."""
_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_QUOTED: Final = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


def _texts(run: Callable[[str, str], bool]) -> Callable[[Value, Value], bool]:
    def checked(text: Value, part: Value) -> bool:
        if type(text) is not str or type(part) is not str:
            raise no_such_overload()
        return run(text, part)

    return checked


def _matches(text: Value, pattern: Value) -> bool:
    if type(text) is not str:
        raise no_such_overload("matches")
    if type(pattern) is not str:
        raise no_such_overload()
    return compile_regex(pattern).search(text) is not None


def _find(text: str, pattern: str) -> str:
    found = _regex(pattern, "Illegal regex: ").search(text)
    return "" if found is None else text[found[0] : found[1]]


def _find_all(text: str, pattern: str, limit: int = -1) -> tuple[str, ...]:
    return tuple(_regex(pattern, "Illegal regex: ").find_all(text, limit))


def _regex(pattern: str, prefix: str):  # type: ignore[no-untyped-def]
    try:
        return compile_regex(pattern)
    except EvaluationError as error:
        raise EvaluationError(prefix + str(error)) from error


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return text.find(part, offset)


def _last_index_of(text: str, part: str) -> int:
    if not part:
        return len(text)
    if len(text.encode()) < len(part.encode()):
        return -1
    return _last_index_of_from(text, part, len(text) - 1)


def _last_index_of_from(text: str, part: str, offset: int) -> int:
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    if offset >= len(text):
        return -1
    # Backwards Python compares each place letter by letter; forwards it skips.
    found = text[: offset + len(part)][::-1].find(part[::-1])
    return -1 if found < 0 else min(offset, len(text) - len(part)) - found


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    count = len(text) + 1 if not old else text.count(old)
    count = count if limit < 0 else min(count, limit)
    if len(text) + count * len(new) > MAX_TEXT:
        raise CostLimitError
    return text.replace(old, new, count)


def _split(text: str, separator: str, limit: int = -1) -> tuple[str, ...]:
    if limit == 0:
        return ()
    if separator:
        return tuple(text.split(separator, limit - 1 if limit > 0 else -1))
    if 0 < limit < len(text):
        return (*text[: limit - 1], text[limit - 1 :])
    return tuple(text)


def _substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


def _substring_range(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


def _ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    def run(text: str) -> str:
        if text.isascii():
            return change(text)
        return "".join(change(letter) if letter.isascii() else letter for letter in text)

    return run


def _join(values: Sequence[Value], separator: str = "") -> str:
    for value in values:
        if type(value) is not str:
            raise EvaluationError(f"join: invalid input: {shown(value)}")
    if sum(map(len, values)) + len(separator) * len(values) > MAX_TEXT:
        raise CostLimitError
    return separator.join(values)


FUNCTIONS: Final = (
    function(
        "string.contains(string) bool",
        body=_texts(lambda text, part: part in text),
        cost=costs.substring_search,
    ),
    function(
        "string.startsWith(string) bool",
        body=_texts(str.startswith),
        cost=costs.traversal(),
    ),
    function(
        "string.endsWith(string) bool",
        body=_texts(str.endswith),
        cost=costs.traversal(),
    ),
    function(
        "matches(string, string) bool",
        "string.matches(string) bool",
        body=_matches,
        cost=costs.regex,
    ),
    function(("string.find(string) string", _find), cost=costs.regex),
    function(
        ("string.findAll(string) list<string>", _find_all),
        ("string.findAll(string, int) list<string>", _find_all),
        cost=costs.regex,
    ),
    function(("string.charAt(int) string", _char_at)),
    function(
        ("string.indexOf(string) int", _index_of),
        ("string.indexOf(string, int) int", _index_of),
        cost=costs.elements,
    ),
    function(
        ("string.lastIndexOf(string) int", _last_index_of),
        ("string.lastIndexOf(string, int) int", _last_index_of_from),
        cost=costs.elements,
    ),
    function(("string.lowerAscii() string", _ascii(str.lower)), cost=costs.traversal()),
    function(("string.upperAscii() string", _ascii(str.upper)), cost=costs.traversal()),
    function(
        ("string.replace(string, string) string", _replace),
        ("string.replace(string, string, int) string", _replace),
        cost=costs.traversal(0.2),
    ),
    function(
        ("string.split(string) list<string>", _split),
        ("string.split(string, int) list<string>", _split),
        cost=costs.traversal(0.2),
    ),
    function(
        ("string.substring(int) string", _substring),
        ("string.substring(int, int) string", _substring_range),
        cost=costs.traversal(),
    ),
    function(("string.trim() string", lambda text: text.strip(_SPACE)), cost=costs.traversal()),
    function(("string.format(list<dyn>) string", format_text), cost=costs.traversal()),
    function(
        (".strings.quote(string) string", lambda text: f'"{text.translate(_QUOTED)}"'),
        cost=costs.traversal(),
    ),
    function(
        ("list<string>.join() string", _join),
        ("list<string>.join(string) string", _join),
        cost=costs.result_traversal(0.2),
    ),
)
