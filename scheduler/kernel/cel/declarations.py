"""Declarations of functions: signatures as text, implementations, costs of calls.

A signature reads `list<A>.indexOf(A) int`: the receiver, the name, the arguments, the result. One
capital letter is a type parameter. A function whose own name has a dot has one in front as well:
`.ip.isCanonical(string) bool`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from scheduler.kernel.cel import types as t
from scheduler.kernel.cel.values import Value

Cost: TypeAlias = Callable[[Sequence[Value], Value], int]
"""The cost of a call, by its arguments and result."""

_NAMED: Final = {
    "bool": t.BOOL,
    "int": t.INT,
    "uint": t.UINT,
    "double": t.DOUBLE,
    "string": t.STRING,
    "bytes": t.BYTES,
    "null": t.NULL,
    "timestamp": t.TIMESTAMP,
    "duration": t.DURATION,
    "dyn": t.DYN,
    "quantity": t.QUANTITY,
    "semver": t.SEMVER,
    "url": t.URL,
    "format": t.FORMAT,
    "ip": t.IP,
    "cidr": t.CIDR,
}
_MADE: Final[dict[str, Callable[..., t.Type]]] = {
    "list": t.list_of,
    "map": t.map_of,
    "optional": t.optional_of,
    "type": t.type_of,
}
_WORD: Final = re.compile(r"[A-Za-z_]+|[<>,]")


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function."""

    is_method: bool
    arguments: tuple[t.Type, ...]
    """The receiver first."""
    result: t.Type
    run: Callable[..., Value] | None
    """The implementation; None where the function has one body for all signatures."""

    def accepts(self, values: Sequence[Value]) -> bool:
        """Tell whether the values are of the declared types, as far as upstream checks."""
        return len(values) == len(self.arguments) and all(
            t.accepts(kind, value) for kind, value in zip(self.arguments, values, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Function:
    """A function with all its signatures."""

    name: str
    overloads: tuple[Overload, ...]
    body: Callable[..., Value] | None = None
    """The implementation for every signature; it inspects the values itself."""
    cost: Cost | None = None
    """None: 1 a call."""
    fragile: int | None = None
    """The argument that upstream's cost tracker takes for a list whatever it is: where it is none,
    or is an error, the evaluation ends."""
    guarded: bool = True
    """Whether values are held against the signature before it runs."""


def overload(signature: str, run: Callable[..., Value] | None = None) -> Overload:
    """Read a signature."""
    head, _, tail = signature.partition("(")
    arguments, _, result = tail.rpartition(")")
    receiver = "" if head.startswith(".") else head.rpartition(".")[0]
    is_method = bool(receiver)
    kinds = [receiver] if is_method else []
    kinds += _split(arguments)
    return Overload(is_method, tuple(map(_type, kinds)), _type(result.strip()), run)


def function(
    *signatures: str | tuple[str, Callable[..., Value]],
    body: Callable[..., Value] | None = None,
    cost: Cost | None = None,
    fragile: int | None = None,
    guarded: bool = True,
) -> Function:
    """Declare a function by its signatures, all of one name."""
    read = [overload(entry) if isinstance(entry, str) else overload(*entry) for entry in signatures]
    first = signatures[0] if isinstance(signatures[0], str) else signatures[0][0]
    head = first.partition("(")[0]
    name = head.rpartition(".")[2] if read[0].is_method else head.removeprefix(".")
    return Function(name, tuple(read), body, cost, fragile, guarded)


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "," and not depth:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()] if text.strip() else []


def _type(text: str) -> t.Type:
    return _read(_WORD.findall(text))[0]


def _read(words: list[str]) -> tuple[t.Type, list[str]]:
    word, rest = words[0], words[1:]
    if word in _MADE and rest[:1] == ["<"]:
        parts = []
        while rest[0] != ">":
            part, rest = _read(rest[1:])
            parts.append(part)
        return _MADE[word](*parts), rest[1:]
    return (t.parameter(word) if len(word) == 1 else _NAMED[word]), rest
