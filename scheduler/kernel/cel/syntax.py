"""The nodes of a parsed expression."""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from scheduler.kernel.cel.values import Value

ACCUMULATOR: Final = "@result"
"""The name of a macro's accumulator; no expression can write it."""
UNUSED: Final = "#unused"


@dataclass(eq=False, slots=True)
class Literal:
    """A constant."""

    value: Value
    position: int


@dataclass(eq=False, slots=True)
class Ident:
    """A name."""

    name: str
    position: int


@dataclass(eq=False, slots=True)
class Select:
    """`operand.field`, or `has(operand.field)`."""

    operand: "Node"
    field: str
    position: int
    test: bool = False


@dataclass(eq=False, slots=True)
class Call:
    """A function, operator or method with its arguments."""

    function: str
    arguments: list["Node"]
    position: int
    target: "Node | None" = None


@dataclass(eq=False, slots=True)
class ListNode:
    """`[a, ?b]`."""

    elements: list["Node"]
    position: int
    optional: set[int] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class MapNode:
    """`{k: v, ?k: v}`; entries with whether they are optional."""

    entries: list[tuple["Node", "Node", bool]]
    position: int


@dataclass(eq=False, slots=True)
class Fold:
    """A comprehension: the expansion of all macros over lists and maps, and of `cel.bind`."""

    range: "Node"
    variables: tuple[str, ...]
    accumulator: str
    initial: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"
    position: int


Node: TypeAlias = Literal | Ident | Select | Call | ListNode | MapNode | Fold


def children(node: Node) -> list[Node]:
    """The direct children of a node."""
    match node:
        case Select():
            return [node.operand]
        case Call():
            return ([] if node.target is None else [node.target]) + node.arguments
        case ListNode():
            return node.elements
        case MapNode():
            return [part for key, value, _ in node.entries for part in (key, value)]
        case Fold():
            return [
                node.range,
                node.initial,
                node.condition,
                node.step,
                node.result,
            ]
        case _:
            return []


def walk(node: Node) -> list[Node]:
    """All nodes of an expression, each before those below it."""
    found, open_nodes = [], [node]
    while open_nodes:
        current = open_nodes.pop()
        found.append(current)
        open_nodes.extend(reversed(children(current)))
    return found


def qualified_name(node: Node) -> str | None:
    """`a.b.c` for a chain of plain selections from a name, else None."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(parts)])
