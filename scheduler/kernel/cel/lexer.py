"""Expressions as tokens.

Source: the grammar of CEL (github.com/google/cel-go v0.26.0 parser/gen/CEL.g4).
"""

import re
import sys
from dataclasses import dataclass
from typing import Final

from scheduler.kernel.cel.errors import CompileError

_ESCAPE: Final = (
    r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
)
_TEXT: Final = "|".join(
    (
        r"[rR]\"\"\"(?s:.*?)\"\"\"",
        r"[rR]'''(?s:.*?)'''",
        r"[rR]\"[^\"\n\r]*\"",
        r"[rR]'[^'\n\r]*'",
        rf"\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"",
        rf"'''(?:{_ESCAPE}|[^\\])*?'''",
        rf"\"(?:{_ESCAPE}|[^\\\"\n\r])*\"",
        rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
    )
)
_TOKEN: Final = re.compile(
    "|".join(
        (
            r"(?P<space>(?:[\t \r\n\f]|//[^\n]*)+)",
            r"(?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)",
            r"(?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])",
            r"(?P<int>0x[0-9a-fA-F]+|[0-9]+)",
            rf"(?P<bytes>[bB](?:{_TEXT}))",
            rf"(?P<string>{_TEXT})",
            r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)",
            r"(?P<sign>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])",
        )
    )
)
_SURROGATES: Final = range(0xD800, 0xE000)
KEYWORDS: Final = frozenset({"true", "false", "null", "in"})
_SIMPLE: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}


@dataclass(frozen=True, slots=True)
class Token:
    """One word of an expression."""

    sort: str
    """double, uint, int, bytes, string, name, or the sign or keyword itself; `end` at the end."""
    text: str
    position: int


def tokens(text: str) -> list[Token]:
    """Split an expression.

    Raises:
        CompileError: something in it is no token.
    """
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise CompileError(
                f"Syntax error: token recognition error at: {text[position : position + 20]!r}",
                position,
            )
        sort, word = match.lastgroup or "", match[0]
        if sort != "space":
            sort = word if sort == "sign" or word in KEYWORDS else sort
            found.append(Token(sort, word, position))
        position = match.end()
    found.append(Token("end", "", len(text)))
    return found


def string_value(token: Token) -> str:
    """The text a string literal stands for.

    Raises:
        CompileError: an escape names no character.
    """
    body, raw = _body(token.text)
    if raw or "\\" not in body:
        return body
    return _ESCAPED.sub(lambda match: _character(match[0], token.position), body)


def bytes_value(token: Token) -> bytes:
    """The bytes a bytes literal stands for.

    Raises:
        CompileError: an escape names a character instead of a byte.
    """
    body, raw = _body(token.text[1:])
    if raw or "\\" not in body:
        return body.encode()
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPED.finditer(body):
        parts += [body[end : match.start()].encode(), _byte(match[0], token.position)]
        end = match.end()
    return b"".join([*parts, body[end:].encode()])


_ESCAPED: Final = re.compile(_ESCAPE)


def _body(text: str) -> tuple[str, bool]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    text = text[1:] if raw else text
    width = 3 if text[:3] in {'"""', "'''"} else 1
    return text[width:-width], raw


def _character(escape: str, position: int) -> str:
    kind = escape[1]
    if kind in "xXuU":
        number = int(escape[2:].lower(), base=16)
    elif kind in "0123":
        number = int(escape[1:], 8)
    else:
        return _SIMPLE.get(kind, kind)
    if number > sys.maxunicode or number in _SURROGATES:
        raise CompileError("Syntax error: invalid unicode code point", position)
    return chr(number)


def _byte(escape: str, position: int) -> bytes:
    kind = escape[1]
    if kind in "uU":
        raise CompileError("Syntax error: unable to unescape string", position)
    if kind in "xX":
        return bytes([int(escape[2:].lower(), base=16)])
    if kind in "0123":
        return bytes([int(escape[1:], 8)])
    return _SIMPLE.get(kind, kind).encode()
