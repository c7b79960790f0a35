"""Macros: calls that expand to comprehensions and presence tests.

Source: github.com/google/cel-go v0.26.0 parser/macro.go, ext/comprehensions.go, ext/bindings.go,
ext/lists.go (`sortBy`), cel/library.go (`optMap`, `optFlatMap`).
"""

from collections.abc import Callable
from typing import Final

from scheduler.kernel.cel.errors import CompileError
from scheduler.kernel.cel.syntax import (
    ACCUMULATOR,
    UNUSED,
    Call,
    Fold,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
)

_WRITTEN_ACCUMULATOR: Final = "__result__"
"""A name that expressions can write, and may not iterate with: older versions collected in it."""
_SORT_INPUT: Final = "@__sortBy_input__"


def expand(call: Call) -> Node:
    """Return the expansion of a macro call; any other call as it is.

    Raises:
        CompileError: the arguments do not fit the macro.
    """
    macro = _MACROS.get((call.function, len(call.arguments), call.target is not None))
    return call if macro is None else macro(call)


def _has(call: Call) -> Node:
    operand = call.arguments[0]
    if not isinstance(operand, Select) or operand.test:
        raise CompileError("invalid argument to has() macro", operand.position)
    return Select(operand.operand, operand.field, call.position, test=True)


def _receiver(call: Call) -> Node:
    if call.target is None:
        raise CompileError(f"{call.function}() needs a receiver", call.position)
    return call.target


def _name(node: Node, problem: str) -> str:
    if not isinstance(node, Ident) or node.name.startswith("."):
        raise CompileError(problem, node.position)
    if node.name in {ACCUMULATOR, _WRITTEN_ACCUMULATOR}:
        raise CompileError("iteration variable overwrites accumulator variable", node.position)
    return node.name


def _variables(call: Call, count: int, problem: str) -> tuple[str, ...]:
    names = tuple(_name(argument, problem) for argument in call.arguments[:count])
    if len(set(names)) < count:
        raise CompileError(f"duplicate variable name: {names[0]}", call.arguments[1].position)
    return names


def _over(
    call: Call,
    variables: tuple[str, ...],
    initial: Node,
    condition: Node,
    step: Node,
    result: Node | None = None,
) -> Node:
    end = Ident(ACCUMULATOR, call.position) if result is None else result
    return Fold(
        _receiver(call), variables, ACCUMULATOR, initial, condition, step, end, call.position
    )


def _quantifier(count: int, *, universal: bool) -> Callable[[Call], Node]:
    def expanded(call: Call) -> Node:
        at = call.position
        variables = _variables(call, count, "argument must be a simple name")
        going: Node = Ident(ACCUMULATOR, at)
        if not universal:
            going = Call("!_", [going], at)
        sign = "_&&_" if universal else "_||_"
        step = Call(sign, [Ident(ACCUMULATOR, at), call.arguments[count]], at)
        condition = Call("@not_strictly_false", [going], at)
        return _over(call, variables, Literal(universal, at), condition, step)

    return expanded


def _exactly_one(count: int) -> Callable[[Call], Node]:
    def expanded(call: Call) -> Node:
        at = call.position
        variables = _variables(call, count, "argument must be a simple name")
        more = Call("_+_", [Ident(ACCUMULATOR, at), Literal(1, at)], at)
        step = _if(call.arguments[count], more, at)
        result = Call("_==_", [Ident(ACCUMULATOR, at), Literal(1, at)], at)
        return _over(
            call, variables, Literal(0, at), Literal(value=True, position=at), step, result
        )

    return expanded


def _if(condition: Node, step: Node, at: int) -> Node:
    return Call("_?_:_", [condition, step, Ident(ACCUMULATOR, at)], at)


def _collect(
    count: int, start: Callable[[int], Node], add: Callable[[Call, tuple[str, ...], Node], Node]
) -> Callable[[Call], Node]:
    """Return the macro that adds `add` of its last argument, where a filter before it holds."""

    def expanded(call: Call) -> Node:
        at = call.position
        problem = (
            "argument is not an identifier" if count == 1 else "argument must be a simple name"
        )
        variables = _variables(call, count, problem)
        step = add(call, variables, call.arguments[-1])
        if len(call.arguments) == count + 2:
            step = _if(call.arguments[count], step, at)
        return _over(call, variables, start(at), Literal(value=True, position=at), step)

    return expanded


def _list_with(call: Call, _: tuple[str, ...], value: Node) -> Node:
    at = call.position
    return Call("_+_", [Ident(ACCUMULATOR, at), ListNode([value], at)], at)


def _map_with(call: Call, variables: tuple[str, ...], value: Node) -> Node:
    at = call.position
    return Call("cel.@mapInsert", [Ident(ACCUMULATOR, at), Ident(variables[0], at), value], at)


def _map_with_entry(call: Call, _: tuple[str, ...], value: Node) -> Node:
    return Call("cel.@mapInsert", [Ident(ACCUMULATOR, call.position), value], call.position)


def _filter(call: Call) -> Node:
    at = call.position
    variables = _variables(call, 1, "argument is not an identifier")
    step = _if(call.arguments[1], _list_with(call, variables, call.arguments[0]), at)
    return _over(call, variables, ListNode([], at), Literal(value=True, position=at), step)


def _bound(name: str, value: Node, result: Node, at: int) -> Node:
    never = Literal(value=False, position=at)
    return Fold(ListNode([], at), (UNUSED,), name, value, never, Ident(name, at), result, at)


def _bind(call: Call) -> Node:
    if not isinstance(call.target, Ident) or call.target.name != "cel":
        return call
    variable = call.arguments[0]
    if not isinstance(variable, Ident):
        raise CompileError(
            "cel.bind() variable names must be simple identifiers", variable.position
        )
    return _bound(variable.name, call.arguments[1], call.arguments[2], call.position)


def _optional_map(name: str) -> Callable[[Call], Node]:
    def expanded(call: Call) -> Node:
        at, variable = call.position, call.arguments[0]
        if not isinstance(variable, Ident):
            raise CompileError(
                f"{name}() variable name must be a simple identifier", variable.position
            )
        value = Call("value", [], at, _receiver(call))
        mapped = _bound(variable.name, value, call.arguments[1], at)
        if name == "optMap":
            mapped = Call("optional.of", [mapped], at)
        there = Call("hasValue", [], at, _receiver(call))
        return Call("_?_:_", [there, mapped, Call("optional.none", [], at)], at)

    return expanded


def _sort_by(call: Call) -> Node:
    at = call.position
    target, values = _receiver(call), Ident(_SORT_INPUT, at)
    if isinstance(target, Literal | MapNode):
        raise CompileError(
            "sortBy can only be applied to a list, identifier, comprehension, call or select "
            "expression",
            target.position,
        )
    keys = _MACROS["map", 2, True](Call("map", call.arguments, at, values))
    return _bound(_SORT_INPUT, target, Call("@sortByAssociatedKeys", [keys], at, values), at)


def _empty_list(at: int) -> Node:
    return ListNode([], at)


def _empty_map(at: int) -> Node:
    return MapNode([], at)


_MACROS: Final[dict[tuple[str, int, bool], Callable[[Call], Node]]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _quantifier(1, universal=True),
    ("all", 3, True): _quantifier(2, universal=True),
    ("exists", 2, True): _quantifier(1, universal=False),
    ("exists", 3, True): _quantifier(2, universal=False),
    ("exists_one", 2, True): _exactly_one(1),
    ("exists_one", 3, True): _exactly_one(2),
    ("existsOne", 3, True): _exactly_one(2),
    ("map", 2, True): _collect(1, _empty_list, _list_with),
    ("map", 3, True): _collect(1, _empty_list, _list_with),
    ("filter", 2, True): _filter,
    ("transformList", 3, True): _collect(2, _empty_list, _list_with),
    ("transformList", 4, True): _collect(2, _empty_list, _list_with),
    ("transformMap", 3, True): _collect(2, _empty_map, _map_with),
    ("transformMap", 4, True): _collect(2, _empty_map, _map_with),
    ("transformMapEntry", 3, True): _collect(2, _empty_map, _map_with_entry),
    ("transformMapEntry", 4, True): _collect(2, _empty_map, _map_with_entry),
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _optional_map("optMap"),
    ("optFlatMap", 2, True): _optional_map("optFlatMap"),
    ("sortBy", 2, True): _sort_by,
}
