"""The parts of parsed regular expressions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from scheduler.kernel.cel.regex_letters import Characters


@final
@dataclass(frozen=True, slots=True)
class Assertion:
    """A place between letters."""

    holds: Callable[[str, int], bool]


@final
@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts one after the other."""

    parts: tuple["Pattern", ...]


@final
@dataclass(frozen=True, slots=True)
class Alternation:
    """The first of several that leads to a match."""

    parts: tuple["Pattern", ...]


@final
@dataclass(frozen=True, slots=True)
class Repeat:
    """Repetitions of a part."""

    part: "Pattern"
    least: int
    most: int | None
    greedy: bool
    times: int
    """Repetitions of its innermost part."""


Pattern: TypeAlias = Characters | Assertion | Sequence | Alternation | Repeat


def _is_word(text: str, index: int) -> bool:
    return (
        0 <= index < len(text)
        and text[index].isascii()
        and (text[index].isalnum() or text[index] == "_")
    )


def _at_boundary(text: str, index: int) -> bool:
    return _is_word(text, index - 1) != _is_word(text, index)


BEGIN: Final = Assertion(lambda _, index: index == 0)
END: Final = Assertion(lambda text, index: index == len(text))
BEGIN_LINE: Final = Assertion(lambda text, index: index == 0 or text[index - 1] == "\n")
END_LINE: Final = Assertion(lambda text, index: index == len(text) or text[index] == "\n")
BOUNDARY: Final = Assertion(_at_boundary)
NO_BOUNDARY: Final = Assertion(lambda text, index: not _at_boundary(text, index))


def size(pattern: Pattern) -> int:
    """Number of states of the program of a pattern; an empty part counts as one."""
    match pattern:
        case Repeat(most=None):
            return max(pattern.least, 1) * size(pattern.part) + 1
        case Repeat():
            optional = (pattern.most or 0) - pattern.least
            return (pattern.least + optional) * size(pattern.part) + optional
        case Sequence():
            return sum(map(size, pattern.parts)) or 1
        case Alternation():
            return sum(map(size, pattern.parts)) + 1
        case _:
            return 1


def repetitions(pattern: Pattern) -> int:
    """Largest number of repetitions of the innermost part; nested repetitions are multiplied."""
    match pattern:
        case Repeat():
            return pattern.times
        case Sequence() | Alternation():
            return max(map(repetitions, pattern.parts), default=1)
        case _:
            return 1


def repeated(part: Pattern, least: int, most: int | None, *, greedy: bool) -> Repeat:
    """A pattern, repeated."""
    times = max(least if most is None else most, 1) * repetitions(part)
    return Repeat(part, least, most, greedy, times)
