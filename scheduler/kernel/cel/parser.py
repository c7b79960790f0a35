"""Expressions as nodes.

Source: the grammar of CEL and parser.go (github.com/google/cel-go v0.26.0 parser).
"""

from typing import Final, NoReturn

from scheduler.kernel.cel.errors import TOO_DEEP, CompileError
from scheduler.kernel.cel.lexer import Token, bytes_value, string_value, tokens
from scheduler.kernel.cel.macros import expand
from scheduler.kernel.cel.syntax import (
    UNUSED,
    Call,
    Fold,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    children,
    qualified_name,
)
from scheduler.kernel.cel.values import INT_MAX, INT_MIN, MAX_DIGITS, UINT_MAX, Uint

MAX_LENGTH: Final = 10 * 1024
"""Bytes of an expression (`CELSelectorExpressionMaxLength` in k8s.io/api resource/v1)."""
MAX_DEPTH: Final = 80
"""Largest nesting of brackets. Upstream stops at 250 of one sort of node. The bounds here keep
everything that walks an expression far from Python's limit on recursion.
"""
MAX_LEVELS: Final = 200
"""Largest nesting of nodes, operators in a row included (`a + b + c` is two levels). A variable of
`cel.bind` is worked out inside its result, so its levels count on top.
"""
MAX_NODES: Final = 50_000
"""Nodes of an expression after macros: `optMap` writes its target twice."""
_RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_LEVELS: Final = dict.fromkeys(("<", "<=", ">=", ">", "==", "!=", "in"), 0) | {
    "+": 1,
    "-": 1,
    "*": 2,
    "/": 2,
    "%": 2,
}
"""Binary operators and how tightly they bind."""


def parse(text: str) -> Node:
    """Read an expression.

    Raises:
        CompileError: it is none, or too long or too deep to be used.
    """
    if len(text.encode(errors="surrogatepass")) > MAX_LENGTH:
        raise CompileError(f"expression is too long: expected at most {MAX_LENGTH} bytes")
    parser = _Parser(tokens(text))
    node = parser.expression()
    parser.expect("end")
    _check_size(node)
    return node


def _check_size(root: Node) -> None:
    sizes: dict[int, tuple[int, int]] = {}
    for node in reversed(_distinct(root)):
        below = [sizes[id(child)] for child in children(node)]
        deepest = max((levels for levels, _ in below), default=0)
        if isinstance(node, Fold) and node.variables == (UNUSED,):
            deepest = sizes[id(node.initial)][0] + sizes[id(node.result)][0]
        sizes[id(node)] = 1 + deepest, 1 + sum(nodes for _, nodes in below)
        if sizes[id(node)][0] > MAX_LEVELS:
            _too_deep(node.position)
        if sizes[id(node)][1] > MAX_NODES:
            raise CompileError(f"expression is too large: expected at most {MAX_NODES} nodes")


def _distinct(root: Node) -> list[Node]:
    """Each node once, after all nodes above it (a node below two is met by the last)."""
    order: list[Node] = []
    done: set[int] = set()
    open_nodes = [(root, False)]
    while open_nodes:
        node, left = open_nodes.pop()
        if left:
            order.append(node)
        elif id(node) not in done:
            done.add(id(node))
            open_nodes.append((node, True))
            open_nodes.extend((child, False) for child in children(node))
    order.reverse()
    return order


def _joined(function: str, terms: list[Node]) -> Node:
    return terms[0] if len(terms) == 1 else Call(function, terms, terms[0].position)


def _too_deep(position: int) -> NoReturn:
    raise CompileError(
        f"{TOO_DEEP}: expected at most {MAX_DEPTH} brackets and "
        f"{MAX_LEVELS} operators in each other",
        position,
    )


class _Parser:
    """Reads tokens from left to right, one token ahead."""

    def __init__(self, words: list[Token]) -> None:
        self._words = words
        self._next = 0
        self._depth = 0

    def expression(self) -> Node:
        """A whole expression: a condition with or without alternatives."""
        chain: list[tuple[Node, Node, int]] = []
        self._depth += 1
        if self._depth > MAX_DEPTH:
            _too_deep(self._words[self._next].position)
        node = self._logical()
        while self._peek() == "?":
            position = self._take().position
            truthy = self._logical()
            self.expect(":")
            chain.append((node, truthy, position))
            node = self._logical()
        self._depth -= 1
        for condition, truthy, position in reversed(chain):
            node = Call("_?_:_", [condition, truthy, node], position)
        return node

    def expect(self, sort: str) -> Token:
        """Take the next token, which must be of a sort."""
        if self._peek() != sort:
            self._unexpected(f"expecting {sort!r}")
        return self._take()

    def _peek(self) -> str:
        return self._words[self._next].sort

    def _take(self) -> Token:
        word = self._words[self._next]
        self._next += 1
        return word

    def _skip(self, sort: str) -> bool:
        """Take the next token if it is of a sort."""
        there = self._peek() == sort
        self._next += there
        return there

    def _unexpected(self, expected: str) -> NoReturn:
        word = self._words[self._next]
        found = "the end" if word.sort == "end" else repr(word.text)
        raise CompileError(f"Syntax error: mismatched input {found} {expected}", word.position)

    def _logical(self) -> Node:
        alternatives: list[Node] = []
        terms = [self._binary(0)]
        while True:
            word = self._words[self._next]
            if word.sort == "&&":
                self._take()
                terms.append(self._binary(0))
                continue
            alternatives.append(_joined("_&&_", terms))
            if word.sort != "||":
                return _joined("_||_", alternatives)
            self._take()
            terms = [self._binary(0)]

    def _binary(self, lowest: int) -> Node:
        # One function climbs through all levels: a frame less per level and bracket.
        signs, first = 0, self._words[self._next]
        while (sort := self._peek()) in {"!", "-"}:
            if sort != first.sort:
                break
            if sort == "-" and not signs and self._words[self._next + 1].sort in {"int", "double"}:
                break
            self._take()
            signs += 1
        node = self._member()
        if signs % 2:
            node = Call(f"{first.sort}_", [node], first.position)
        while (level := _LEVELS.get(self._peek(), -1)) >= lowest:
            word = self._take()
            function = "@in" if word.sort == "in" else f"_{word.sort}_"
            node = Call(function, [node, self._binary(level + 1)], word.position)
        return node

    def _member(self) -> Node:
        node = self._primary()
        while (sort := self._peek()) in {".", "[", "{"}:
            if sort == "{":
                if qualified_name(node) is None:
                    self._unexpected("expecting an operator")
                raise CompileError(
                    "construction of messages is not supported", self._words[self._next].position
                )
            word = self._take()
            node = self._selection(node, word, optional=self._skip("?"))
        return node

    def _selection(self, node: Node, word: Token, *, optional: bool) -> Node:
        if word.sort == "[":
            index = self.expression()
            self.expect("]")
            return Call("_[?_]" if optional else "_[_]", [node, index], word.position)
        name = self.expect("name")
        if optional:
            return Call("_?._", [node, Literal(name.text, name.position)], word.position)
        if self._peek() == "(":
            position = self._take().position
            return expand(Call(name.text, self._arguments(), position, node))
        return Select(node, name.text, word.position)

    def _primary(self) -> Node:
        sort = self._peek()
        match sort:
            case "(":
                self._take()
                node = self.expression()
                self.expect(")")
                return node
            case "[":
                return self._list()
            case "{":
                return self._map()
            case "." | "name":
                return self._name()
            case "-" | "int" | "double" | "uint" | "string" | "bytes" | "true" | "false" | "null":
                return self._literal()
            case _:
                return self._unexpected("expecting an expression")

    def _name(self) -> Node:
        dot = "." if self._skip(".") else ""
        word = self.expect("name")
        if word.text in _RESERVED:
            raise CompileError(f"reserved identifier: {word.text}", word.position)
        if self._peek() == "(":
            position = self._take().position
            return expand(Call(dot + word.text, self._arguments(), position))
        return Ident(dot + word.text, word.position)

    def _arguments(self) -> list[Node]:
        found: list[Node] = []
        while self._peek() != ")":
            if found:
                self.expect(",")
            found.append(self.expression())
        self._take()
        return found

    def _list(self) -> Node:
        node = ListNode([], self._take().position)
        while self._peek() not in {"]", ","}:
            if self._skip("?"):
                node.optional.add(len(node.elements))
            node.elements.append(self.expression())
            if self._peek() != "," or self._words[self._next + 1].sort == "]":
                break
            self._take()
            if self._peek() == ",":
                self._unexpected("expecting an expression")
        self._skip(",")
        self.expect("]")
        return node

    def _map(self) -> Node:
        node = MapNode([], self._take().position)
        while self._peek() not in {"}", ","}:
            optional = self._skip("?")
            key = self.expression()
            self.expect(":")
            node.entries.append((key, self.expression(), optional))
            if self._peek() != "," or self._words[self._next + 1].sort == "}":
                break
            self._take()
            if self._peek() == ",":
                self._unexpected("expecting an expression")
        self._skip(",")
        self.expect("}")
        return node

    def _literal(self) -> Node:  # noqa: PLR0911 - one case per kind of token
        position = self._words[self._next].position
        minus = "-" if self._skip("-") else ""
        word = self._take()
        match word.sort:
            case "int":
                return Literal(_integer(minus, word, INT_MIN, INT_MAX, "int"), position)
            case "double":
                return Literal(_double(minus + word.text, position), position)
            case _ if minus:
                self._next -= 1
                return self._unexpected("expecting a number")
            case "uint":
                text = Token("uint", word.text[:-1], position)
                return Literal(Uint(_integer("", text, 0, UINT_MAX, "uint")), position)
            case "string":
                return Literal(string_value(word), position)
            case "bytes":
                return Literal(bytes_value(word), position)
            case _:
                return Literal({"true": True, "false": False}.get(word.sort), position)


def _integer(minus: str, word: Token, low: int, high: int, name: str) -> int:
    base = 16 if word.text.startswith("0x") else 10
    # Without the zeros in front: Python counts them too when it refuses long numbers.
    digits = word.text.lstrip("0x")
    number = int(minus + (digits or "0"), base) if len(digits) <= MAX_DIGITS else high + 1
    if not low <= number <= high:
        raise CompileError(f"invalid {name} literal", word.position)
    return number


def _double(text: str, position: int) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        raise CompileError("invalid double literal", position)
    return number
