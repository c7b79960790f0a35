"""The syntax of regular expressions as Go reads it.

Source: Go's package regexp/syntax (flags `Perl`).
"""

from dataclasses import dataclass, replace
from typing import Final

from scheduler.kernel.cel.errors import EvaluationError
from scheduler.kernel.cel.regex_letters import (
    LAST,
    PERL,
    POSIX,
    Categories,
    Characters,
    Ranges,
    complement,
    folded,
    folded_letter,
    merged,
    property_of,
)
from scheduler.kernel.cel.regex_patterns import (
    BEGIN,
    BEGIN_LINE,
    BOUNDARY,
    END,
    END_LINE,
    NO_BOUNDARY,
    Alternation,
    Pattern,
    Sequence,
    repeated,
)

_MAX_REPEAT: Final = 1000
_MAX_DEPTH: Final = 60
"""Groups in each other. Go allows 1,000; patterns written by people stay far below both."""
_OCTAL_DIGITS: Final = 3
_HEX_DIGITS: Final = 2


_ESCAPES: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}


@dataclass(frozen=True, slots=True)
class _Flags:
    fold: bool = False
    multiline: bool = False
    dot_all: bool = False
    ungreedy: bool = False


def parse_pattern(text: str) -> Pattern:
    """Read a pattern.

    Raises:
        EvaluationError: Go would not take it.
    """
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._flags = _Flags()
        self._depth = 0

    def whole(self) -> Pattern:
        found = self._choice()
        if self._at < len(self._text):
            raise _error("unexpected )", self._text)
        return found

    def _peek(self, word: str) -> bool:
        return self._text.startswith(word, self._at)

    def _accept(self, word: str) -> bool:
        there = self._peek(word)
        self._at += len(word) * there
        return there

    def _letter(self) -> str:
        if self._at >= len(self._text):
            raise _error("missing closing ]", self._text)
        self._at += 1
        return self._text[self._at - 1]

    def _choice(self) -> Pattern:
        parts = [self._sequence()]
        while self._accept("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Alternation(tuple(parts))

    def _sequence(self) -> Pattern:
        parts: list[Pattern] = []
        while self._at < len(self._text) and not self._peek("|") and not self._peek(")"):
            part = self._atom()
            if part is not None:
                parts.append(self._repeated(part))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _atom(self) -> Pattern | None:  # noqa: C901, PLR0911, PLR0912 - one case per kind of atom
        letter = self._letter()
        match letter:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case ".":
                return Characters(((0, LAST),) if self._flags.dot_all else complement(((10, 10),)))
            case "^":
                return BEGIN_LINE if self._flags.multiline else BEGIN
            case "$":
                return END_LINE if self._flags.multiline else END
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise _error("missing argument to repetition operator", letter)
            case "{" if (counts := self._counts(self._at - 1)) is not None:
                raise _error("missing argument to repetition operator", counts[2])
            case _:
                return self._literal(ord(letter))

    def _literal(self, code: int) -> Characters:
        return Characters(folded_letter(code) if self._flags.fold else ((code, code),))

    def _repeated(self, part: Pattern) -> Pattern:
        before = ""
        while True:
            operator_start = self._at
            counts = self._counts(self._at)
            if counts is None:
                return part
            least, most, written = counts
            self._at += len(written)
            greedy = self._flags.ungreedy if self._accept("?") else not self._flags.ungreedy
            written = self._text[operator_start : self._at]
            if before:
                raise _error("invalid nested repetition operator", before + written)
            part = repeated(part, least, most, greedy=greedy)
            if part.times > _MAX_REPEAT:
                raise _error("invalid repeat count", written)
            before = written

    def _counts(self, at: int) -> tuple[int, int | None, str] | None:
        """Read a repetition: least, most, its text. Braces that form no repetition are literal."""
        sign = self._text[at : at + 1]
        if sign in {"*", "+", "?"}:
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign] + (sign,)
        if sign != "{" or (end := self._text.find("}", at)) < 0:
            return None
        written = self._text[at : end + 1]
        low, comma, high = written[1:-1].partition(",")
        if not _is_count(low) or (high and not _is_count(high)):
            return None
        least = int(low[:6])
        most = least if not comma else int(high[:6]) if high else None
        if least > _MAX_REPEAT or (most is not None and (most > _MAX_REPEAT or most < least)):
            raise _error("invalid repeat count", written)
        return least, most, written

    def _group(self) -> Pattern | None:
        outer = self._flags
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _error("expression nests too deeply", self._text)
        if self._accept("?") and not self._group_head():
            self._depth -= 1
            return None
        found = self._choice()
        if not self._accept(")"):
            raise _error("missing closing )", self._text)
        self._flags = outer
        self._depth -= 1
        # A group without content still takes a repetition.
        return found

    def _group_head(self) -> bool:
        """Read the part after `(?`; false if it only sets flags for the rest of the group."""
        start = self._at - 2
        if self._accept("P<") or self._accept("<"):
            end = self._text.find(">", self._at)
            name = self._text[self._at : end] if end >= 0 else ""
            if (
                end < 0
                or not name
                or not all(c == "_" or (c.isascii() and c.isalnum()) for c in name)
            ):
                shown = self._text[start : end + 1] if end >= 0 else self._text[start:]
                raise _error("invalid named capture", shown)
            self._at = end + 1
            return True
        return self._flag_letters(start)

    def _flag_letters(self, start: int) -> bool:
        flags = {"i": self._flags.fold, "m": self._flags.multiline}
        flags |= {"s": self._flags.dot_all, "U": self._flags.ungreedy}
        value, seen = True, False
        while self._at < len(self._text):
            letter = self._letter()
            if letter in flags:
                flags[letter], seen = value, True
            elif letter == "-" and value:
                value, seen = False, False
            elif letter in ":)" and (value or seen):
                self._flags = _Flags(flags["i"], flags["m"], flags["s"], flags["U"])
                return letter == ":"
            else:
                break
        else:
            raise _error("missing closing )", self._text)
        raise _error("invalid or unsupported Perl syntax", self._text[start : self._at])

    def _escape(self) -> Pattern | None:
        if self._at >= len(self._text):
            raise _error("trailing backslash at end of expression", "")
        assertions = {"A": BEGIN, "z": END, "b": BOUNDARY, "B": NO_BOUNDARY}
        letter = self._text[self._at]
        if letter in assertions:
            self._at += 1
            return assertions[letter]
        if letter == "C":
            raise _error("invalid escape sequence", "\\C")
        if letter == "Q":
            return self._quoted()
        found = self._escaped_class()
        if found is not None:
            return found
        return self._literal(self._escaped_code())

    def _quoted(self) -> Pattern | None:
        self._at += 1
        end = self._text.find("\\E", self._at)
        text = self._text[self._at :] if end < 0 else self._text[self._at : end]
        self._at = len(self._text) if end < 0 else end + 2
        parts = [self._literal(ord(letter)) for letter in text]
        if not parts:
            return None
        # A repetition belongs to the last letter.
        last = self._repeated(parts[-1])
        return Sequence((*parts[:-1], last))

    def _escaped_class(self) -> Characters | None:
        letter = self._text[self._at]
        if letter.lower() in PERL:
            self._at += 1
            ranges = PERL[letter.lower()]
            ranges = folded(ranges) if self._flags.fold and letter.lower() == "w" else ranges
            return Characters(ranges, negated=letter.isupper())
        if letter not in "pP":
            return None
        start = self._at - 1
        self._at += 1
        name = self._letter() if self._at < len(self._text) else ""
        if name == "{":
            end = self._text.find("}", self._at)
            if end < 0:
                raise _error("invalid character class range", self._text[start:])
            name, self._at = self._text[self._at : end], end + 1
        negated = (letter == "P") is not name.startswith("^")
        name = name.removeprefix("^")
        found = property_of(name, fold=self._flags.fold)
        if found is None:
            raise _error("invalid character class range", self._text[start : self._at])
        return replace(found, negated=negated)

    def _escaped_code(self) -> int:
        start = self._at - 1
        letter = self._letter()
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter in "01234567":
            return self._octal(letter, start)
        if letter == "x":
            return self._hexadecimal(start)
        if letter.isascii() and not letter.isalnum():
            return ord(letter)
        raise _error("invalid escape sequence", self._text[start : self._at])

    def _octal(self, first: str, start: int) -> int:
        digits = first
        while len(digits) < _OCTAL_DIGITS and self._text[self._at : self._at + 1] in set(
            "01234567"
        ):
            digits += self._letter()
        # A single digit but 0 would be a reference back, which does not exist here.
        if first != "0" and len(digits) == 1:
            raise _error("invalid escape sequence", self._text[start : self._at])
        return int(digits, 8)

    def _hexadecimal(self, start: int) -> int:
        if self._accept("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at : end] if end >= 0 else ""
            self._at = end + 1 if end >= 0 else len(self._text)
            digits = digits.lstrip("0") or digits[:1]
        else:
            digits = self._text[self._at : self._at + 2]
            self._at += len(digits)
            digits = digits if len(digits) == _HEX_DIGITS else ""
        valid = (
            digits
            and len(digits) <= len(f"{LAST:x}")
            and all(c in "0123456789abcdefABCDEF" for c in digits)
        )
        code = int(digits, 16) if valid else LAST + 1
        if code > LAST:
            raise _error("invalid escape sequence", self._text[start : self._at])
        return code

    def _class(self) -> Characters:
        start = self._at - 1
        negated = self._accept("^")
        ranges: list[tuple[int, int]] = []
        groups: list[tuple[Categories, bool]] = []
        first = True
        while first or not self._peek("]"):
            if self._at >= len(self._text):
                raise _error("missing closing ]", self._text[start:])
            first = False
            self._class_item(ranges, groups, start)
        self._at += 1
        found = merged(ranges)
        found = folded(found) if self._flags.fold else found
        return Characters(found, tuple(dict.fromkeys(groups)), self._flags.fold, negated)

    def _class_item(
        self,
        ranges: list[tuple[int, int]],
        groups: list[tuple[Categories, bool]],
        start: int,
    ) -> None:
        if self._peek("[:") and (end := self._text.find(":]", self._at + 2)) >= 0:
            ranges.extend(self._posix(end))
            return
        if self._peek("\\") and self._at + 1 < len(self._text):
            self._at += 1
            found = self._escaped_class()
            if found is not None:
                groups.extend((names, found.negated) for names, _ in found.groups)
                if not found.groups:
                    ranges.extend(complement(found.ranges) if found.negated else found.ranges)
                return
            self._at -= 1
        item_start = self._at
        low = self._class_letter(start)
        high = low
        if (
            self._peek("-")
            and not self._text.startswith("]", self._at + 1)
            and (self._at + 1 < len(self._text))
        ):
            self._at += 1
            high = self._class_letter(start)
            if high < low:
                raise _error("invalid character class range", self._text[item_start : self._at])
        ranges.append((low, high))

    def _posix(self, end: int) -> Ranges:
        name = self._text[self._at + 2 : end]
        plain = name.removeprefix("^")
        if plain not in POSIX:
            raise _error("invalid character class range", self._text[self._at : end + 2])
        self._at = end + 2
        posix = POSIX[plain]
        if name == plain:
            return posix
        return complement(folded(posix) if self._flags.fold else posix)

    def _class_letter(self, start: int) -> int:
        if self._at >= len(self._text):
            raise _error("missing closing ]", self._text[start:])
        letter = self._letter()
        if letter != "\\":
            return ord(letter)
        if self._at >= len(self._text):
            raise _error("trailing backslash at end of expression", "")
        return self._escaped_code()


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")


def _error(problem: str, where: str) -> EvaluationError:
    return EvaluationError(f"error parsing regexp: {problem}: `{where}`")
