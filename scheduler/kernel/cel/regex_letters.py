"""Sets of letters of regular expressions: ranges, classes, Unicode's categories, case.

Source: Go's package regexp/syntax (flags `Perl`).
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias, final

LAST: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)
_DOTLESS_I: Final = "\u0131"
Ranges: TypeAlias = tuple[tuple[int, int], ...]
_DIGIT: Final[Ranges] = ((0x30, 0x39),)
_WORD: Final[Ranges] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Final[Ranges] = ((9, 10), (12, 13), (32, 32))
PERL: Final = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
POSIX: Final[dict[str, Ranges]] = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ((0, 0x7F),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "digit": _DIGIT,
    "graph": ((0x21, 0x7E),),
    "lower": ((0x61, 0x7A),),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((9, 13), (32, 32)),
    "upper": ((0x41, 0x5A),),
    "word": _WORD,
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}
CATEGORIES: Final = frozenset(
    [
        "L",
        "Lu",
        "Ll",
        "Lt",
        "Lm",
        "Lo",
        "M",
        "Mn",
        "Mc",
        "Me",
        "N",
        "Nd",
        "Nl",
        "No",
        "P",
        "Pc",
        "Pd",
        "Ps",
        "Pe",
        "Pi",
        "Pf",
        "Po",
        "S",
        "Sm",
        "Sc",
        "Sk",
        "So",
        "Z",
        "Zs",
        "Zl",
        "Zp",
        "C",
        "Cc",
        "Cf",
        "Cs",
        "Co",
    ]
)


@final
@dataclass(frozen=True, slots=True)
class Characters:
    """A set of letters, which matches one of them."""

    ranges: Ranges
    """Ordered and apart from each other."""
    category: "Callable[[str], bool] | None" = None
    """Besides, letters for which this holds: Unicode's categories."""
    negated: bool = False

    def has(self, letter: str) -> bool:
        """Tell whether a letter is in the set."""
        code = ord(letter)
        index = bisect_right(self.ranges, (code, LAST + 1)) - 1
        inside = index >= 0 and code <= self.ranges[index][1]
        if not inside and self.category is not None:
            inside = self.category(letter)
        return inside is not self.negated


def complement(ranges: Ranges) -> Ranges:
    """All letters that are not in the ranges."""
    found, low = [], 0
    for start, end in ranges:
        if low < start:
            found.append((low, start - 1))
        low = end + 1
    return (*found, (low, LAST)) if low <= LAST else tuple(found)


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The same letters in ranges that are ordered and apart."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return tuple(found)


def _fold(letter: str) -> str:
    if letter == _DOTLESS_I:
        # Unlike Python, Go leaves it alone: unicode/tables.go (caseOrbit).
        return letter
    upper = letter.upper()
    lower = (upper if len(upper) == 1 else letter).lower()
    return lower if len(lower) == 1 else letter


@lru_cache(maxsize=1)
def _folds() -> dict[str, tuple[int, ...]]:
    """By folded letter, all letters that are equal to it where case does not matter."""
    found: dict[str, list[int]] = {}
    for code in range(0x1E944):
        if code not in _SURROGATES:
            found.setdefault(_fold(chr(code)), []).append(code)
    return {key: tuple(codes) for key, codes in found.items() if len(codes) > 1}


def folded(ranges: Ranges) -> Ranges:
    """The letters in the ranges and those that differ from them in case only."""
    more = list(ranges)
    for codes in _folds().values():
        if any(start <= code <= end for code in codes for start, end in ranges):
            more.extend((code, code) for code in codes)
    return merged(more)


def category_of(name: str, *, fold: bool) -> Callable[[str], bool]:
    """Return the predicate of a Unicode category; `fold` ignores case."""

    def inside(letter: str) -> bool:
        if unicodedata.category(letter).startswith(name):
            return True
        return fold and any(
            unicodedata.category(chr(code)).startswith(name)
            for code in _folds().get(_fold(letter), ())
        )

    return inside
