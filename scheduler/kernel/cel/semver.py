"""Semantic versions, as github.com/blang/semver/v4 reads and orders them."""

import re
from dataclasses import dataclass, field
from typing import Final

_NUMBER: Final = re.compile(r"[0-9]+", re.ASCII)
_WORD: Final = re.compile(r"[0-9A-Za-z-]+", re.ASCII)
_LARGEST: Final = 2**64 - 1
_MAX_DIGITS: Final = 20
_NUMBERS: Final = 3


@dataclass(frozen=True, slots=True)
class SemVer:
    """A version. Equality and order ignore the build; `text` distinguishes equal versions."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[int | str, ...] = ()
    text: str = field(default="", compare=False)

    def compare(self, other: "SemVer") -> int:
        """Return -1, 0 or 1. A version with a prerelease comes before the same without."""
        mine, others = self.core, other.core
        if mine != others:
            return 1 if mine > others else -1
        if not self.prerelease or not other.prerelease:
            return bool(other.prerelease) - bool(self.prerelease)
        for one, two in zip(self.prerelease, other.prerelease, strict=False):
            if one == two:
                continue
            if isinstance(one, int) and isinstance(two, int):
                return 1 if one > two else -1
            if isinstance(one, str) and isinstance(two, str):
                return 1 if one > two else -1
            return -1 if isinstance(one, int) else 1
        lengths = len(self.prerelease), len(other.prerelease)
        return (lengths[0] > lengths[1]) - (lengths[0] < lengths[1])

    @property
    def core(self) -> tuple[int, int, int]:
        """Major, minor and patch."""
        return self.major, self.minor, self.patch


def parse_semver(text: str) -> SemVer:
    """Read a version with all three numbers.

    Raises:
        ValueError: the text is no version; the message is the library's.
    """
    if not text:
        raise ValueError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != _NUMBERS:
        raise ValueError("No Major.Minor.Patch elements found")
    major = _number(parts[0], "major", "Major")
    minor = _number(parts[1], "minor", "Minor")
    rest, plus, build_text = parts[2].partition("+")
    rest, minus, prerelease_text = rest.partition("-")
    patch = _number(rest, "patch", "Patch")
    prerelease = tuple(_identifier(part) for part in prerelease_text.split(".")) if minus else ()
    for part in build_text.split(".") if plus else ():
        if not part:
            raise ValueError("Build meta data is empty")
        if not _WORD.fullmatch(part):
            raise ValueError(f"Invalid character(s) found in build meta data {_quoted(part)}")
    return SemVer(major, minor, patch, prerelease, text)


def parse_tolerant_semver(text: str) -> SemVer:
    """Read a version that may begin with `v`, have leading zeros or lack minor and patch.

    Source: `normalizeAndParse` in k8s.io/apiserver pkg/cel/library/semverlib.go, v0.36.3.

    Raises:
        ValueError: the text is no version either way.
    """
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1] in set("0123456789") else "0" + stripped
    if len(parts) < _NUMBERS:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise ValueError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (_NUMBERS - len(parts))
    return parse_semver(".".join(parts))


def _number(text: str, name: str, title: str) -> int:
    if text and not _NUMBER.fullmatch(text):
        raise ValueError(f"Invalid character(s) found in {name} number {_quoted(text)}")
    if len(text) > 1 and text[0] == "0":
        raise ValueError(f"{title} number must not contain leading zeroes {_quoted(text)}")
    return _uint(text)


def _uint(text: str) -> int:
    if not text:
        raise ValueError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > _MAX_DIGITS or int(text) > _LARGEST:
        raise ValueError(f"strconv.ParseUint: parsing {_quoted(text)}: value out of range")
    return int(text)


def _identifier(text: str) -> int | str:
    if not text:
        raise ValueError("Prerelease is empty")
    if _NUMBER.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise ValueError(
                f"Numeric PreRelease version must not contain leading zeroes {_quoted(text)}"
            )
        return _uint(text)
    if _WORD.fullmatch(text):
        return text
    raise ValueError(f"Invalid character(s) found in prerelease {_quoted(text)}")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
