"""Sets of letters of regular expressions: ranges, classes, Unicode's categories, case.

Source: Go's package regexp/syntax (flags `Perl`).
"""

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias, final

from scheduler.kernel.cel import effort

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
_CATEGORIES: Final = {
    "L": "letter",
    "LC": "casedletter",
    "Lu": "uppercaseletter",
    "Ll": "lowercaseletter",
    "Lt": "titlecaseletter",
    "Lm": "modifierletter",
    "Lo": "otherletter",
    "M": "mark combiningmark",
    "Mn": "nonspacingmark",
    "Mc": "spacingmark",
    "Me": "enclosingmark",
    "N": "number",
    "Nd": "decimalnumber digit",
    "Nl": "letternumber",
    "No": "othernumber",
    "P": "punctuation punct",
    "Pc": "connectorpunctuation",
    "Pd": "dashpunctuation",
    "Ps": "openpunctuation",
    "Pe": "closepunctuation",
    "Pi": "initialpunctuation",
    "Pf": "finalpunctuation",
    "Po": "otherpunctuation",
    "S": "symbol",
    "Sm": "mathsymbol",
    "Sc": "currencysymbol",
    "Sk": "modifiersymbol",
    "So": "othersymbol",
    "Z": "separator",
    "Zs": "spaceseparator",
    "Zl": "lineseparator",
    "Zp": "paragraphseparator",
    "C": "other",
    "Cc": "control cntrl",
    "Cf": "format",
    "Cs": "surrogate",
    "Co": "privateuse",
    "Cn": "unassigned",
}
"""Unicode's categories, with their long names."""
_CASED: Final = frozenset({"Lu", "Ll", "Lt"})
Categories: TypeAlias = frozenset[str]
"""Categories of two letters."""


@final
@dataclass(frozen=True, slots=True)
class Characters:
    """A set of letters, which matches one of them."""

    ranges: Ranges
    """Ordered and apart from each other."""
    groups: tuple[tuple[Categories, bool], ...] = ()
    """Besides, letters of one of these categories, or (true) of another."""
    fold: bool = False
    """Whether a letter has the categories of those, too, that differ from it in case only."""
    negated: bool = False

    def has(self, letter: str) -> bool:
        """Tell whether a letter is in the set."""
        code = ord(letter)
        index = bisect_right(self.ranges, (code, LAST + 1)) - 1
        inside = index >= 0 and code <= self.ranges[index][1]
        if not inside and self.groups:
            inside = _in_groups(self.groups, _categories(letter, fold=self.fold))
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
def _orbits() -> tuple[list[int], dict[int, tuple[int, ...]]]:
    """All letters that have others which differ in case only, in order; by letter, all of these."""
    found: dict[str, list[int]] = {}
    for code in range(0x1E944):
        if code not in _SURROGATES:
            found.setdefault(_fold(chr(code)), []).append(code)
    orbits = {code: tuple(codes) for codes in found.values() if len(codes) > 1 for code in codes}
    return sorted(orbits), orbits


def folded(ranges: Ranges) -> Ranges:
    """The letters in the ranges and those that differ from them in case only."""
    cased, orbits = _orbits()
    more = list(ranges)
    for start, end in ranges:
        codes = cased[bisect_left(cased, start) : bisect_right(cased, end)]
        effort.charge(len(codes))
        more.extend((other, other) for code in codes for other in orbits[code])
    return merged(more)


@lru_cache(maxsize=4096)
def folded_letter(code: int) -> Ranges:
    """A letter and those that differ from it in case only."""
    return merged((other, other) for other in _orbits()[1].get(code, (code,)))


@lru_cache(maxsize=4096)
def _categories(letter: str, *, fold: bool) -> Categories:
    codes = _orbits()[1].get(ord(letter), ()) if fold else ()
    return frozenset(map(unicodedata.category, (letter, *map(chr, codes))))


@lru_cache(maxsize=4096)
def _in_groups(groups: tuple[tuple[Categories, bool], ...], found: Categories) -> bool:
    return any(names.isdisjoint(found) is negated for names, negated in groups)


def _plain(name: str) -> str:
    """A name as Go compares it: without case, spaces, underscores and minuses."""
    return name.lower().translate(_IGNORED)


_IGNORED: Final = str.maketrans("", "", " _-")
_ALL: Final = frozenset(name for name in _CATEGORIES if len(name) == len("Lu")) - {"LC"}
_NAMED: Final[dict[str, Categories]] = {"assigned": _ALL - {"Cn"}} | {
    plain: _CASED if name == "LC" else frozenset(one for one in _ALL if one.startswith(name))
    for name, long in _CATEGORIES.items()
    for plain in (name.lower(), *long.split())
}


def property_of(name: str, *, fold: bool) -> Characters | None:
    """The letters with a property of Unicode; None where there is none of this name.

    Args:
        name: a category, long or short, or one of `Any`, `ASCII` and `Assigned`.
        fold: whether case does not matter.
    """
    plain = _plain(name)
    if plain == "any":
        return Characters(((0, LAST),))
    if plain == "ascii":
        return Characters(folded(POSIX["ascii"]) if fold else POSIX["ascii"])
    names = _NAMED.get(plain)
    return None if names is None else Characters((), ((names, False),), fold)
