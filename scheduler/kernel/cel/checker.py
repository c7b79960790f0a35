"""The type checker: the types of an expression's nodes, and the functions that it calls.

Source: github.com/google/cel-go v0.26.0 checker/checker.go, cel/validator.go.
"""

from dataclasses import dataclass, field
from typing import NoReturn

from scheduler.kernel.cel import types as t
from scheduler.kernel.cel.declarations import Function, Overload
from scheduler.kernel.cel.environment import DEVICE_FIELDS, FUNCTIONS, TYPE_NAMES
from scheduler.kernel.cel.errors import CompileError
from scheduler.kernel.cel.syntax import (
    Call,
    Fold,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    qualified_name,
)
from scheduler.kernel.cel.types import Type
from scheduler.kernel.cel.values import TypeValue, Uint

_LITERALS = {
    bool: t.BOOL,
    int: t.INT,
    Uint: t.UINT,
    float: t.DOUBLE,
    str: t.STRING,
    bytes: t.BYTES,
    type(None): t.NULL,
}


@dataclass(frozen=True, slots=True)
class Resolved:
    """The function of a call, and the overloads whose types fit."""

    function: Function
    overloads: tuple[Overload, ...]
    is_method: bool


@dataclass(slots=True)
class Checked:
    """The result of type checking, by the identity of each node."""

    types: dict[int, Type] = field(default_factory=dict)
    calls: dict[int, Resolved] = field(default_factory=dict)
    names: dict[int, TypeValue] = field(default_factory=dict)
    """Nodes that name a type."""

    def type_of(self, node: Node) -> Type:
        """The type of a node."""
        return self.types[id(node)]


def check(root: Node) -> Checked:
    """Find the types of all nodes.

    Raises:
        CompileError: the expression is ill-typed, or is no condition.
    """
    checker = _Checker()
    checker.check(root)
    checked = checker.checked
    resolve = checker.substitutions.resolve
    checked.types = {key: resolve(kind, final=True) for key, kind in checked.types.items()}
    result = checked.type_of(root)
    if result not in {t.BOOL, t.ANY}:
        raise CompileError(f"must evaluate to bool or the unknown type, not {result}")
    return checked


class _Checker:
    def __init__(self) -> None:
        self.checked = Checked()
        self.substitutions = t.Substitutions()
        self._scopes: list[dict[str, Type]] = [{"device": t.DEVICE}]

    def check(self, node: Node) -> Type:
        """Find the type of a node and of all below it."""
        found = self._found(node)
        self.checked.types[id(node)] = found
        return found

    def _found(self, node: Node) -> Type:  # noqa: PLR0911 - one case per kind of node
        match node:
            case Literal():
                return _LITERALS[type(node.value)]
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case Fold():
                return self._fold(node)

    def _variable(self, name: str) -> Type | None:
        if name.startswith("."):
            return self._scopes[0].get(name[1:])
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _named(self, node: Node, name: str) -> Type | None:
        found = self._variable(name)
        if found is not None:
            return found
        known = TYPE_NAMES.get(name.removeprefix("."))
        if known is None:
            return None
        kind, self.checked.names[id(node)] = known
        # Each use has parameters of its own.
        return self._instance(kind, {})

    def _ident(self, node: Ident) -> Type:
        found = self._named(node, node.name)
        if found is None:
            raise CompileError(
                f"undeclared reference to '{node.name}' (in container '')", node.position
            )
        return found

    def _select(self, node: Select) -> Type:
        name = qualified_name(node)
        found = self._named(node, name) if name is not None else None
        if found is not None:
            return found
        found = self._field(node.operand, node.field, node.position, optional=False)
        return t.BOOL if node.test else self.substitutions.resolve(found)

    def _field(self, operand: Node, name: str, position: int, *, optional: bool) -> Type:
        kind, was_optional = t.unwrap_optional(self.substitutions.resolve(self.check(operand)))
        if kind.sort == "map":
            result = kind.parameters[1]
        elif kind == t.DEVICE:
            if name not in DEVICE_FIELDS:
                raise CompileError(f"undefined field '{name}'", position)
            result = DEVICE_FIELDS[name]
        elif kind.sort == "object" and kind not in {t.TIMESTAMP, t.DURATION}:
            raise CompileError(f"undefined field '{name}'", position)
        elif kind.sort == "parameter":
            self.substitutions.bind_if_assignable([t.DYN], [kind])
            result = t.DYN
        elif kind.is_dyn:
            result = t.DYN
        else:
            raise CompileError(f"type '{kind}' does not support field selection", position)
        return t.optional_of(result) if was_optional or optional else result

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            operand, key = node.arguments
            self.checked.types[id(key)] = t.STRING
            name = str(key.value) if isinstance(key, Literal) else ""
            found = self._field(operand, name, node.position, optional=True)
            return self.substitutions.resolve(found)
        # `map` calls without a frame of its own: deep expressions stay below Python's limit.
        kinds = [*map(self.check, node.arguments)]
        target = node.target
        if target is not None:
            prefix = qualified_name(target)
            found_function = None if prefix is None else FUNCTIONS.get(f"{prefix}.{node.function}")
            if found_function is not None:
                return self._resolve(node, found_function, kinds, is_method=False)
            kinds.insert(0, self.check(target))
        called = node.function.removeprefix(".") if target is None else node.function
        function = FUNCTIONS.get(called)
        if function is None:
            raise CompileError(
                f"undeclared reference to '{node.function}' (in container '')", node.position
            )
        return self._resolve(node, function, kinds, is_method=target is not None)

    def _resolve(  # noqa: C901 - overloads are tried as upstream does
        self, node: Call, function: Function, kinds: list[Type], *, is_method: bool
    ) -> Type:
        if function.name in {"_&&_", "_||_"}:
            for argument, kind in zip(node.arguments, kinds, strict=True):
                self._assert(argument, t.BOOL, kind)
            self.checked.calls[id(node)] = Resolved(function, function.overloads, is_method)
            return t.BOOL
        result: Type | None = None
        fitting: list[Overload] = []
        for overload in function.overloads:
            if overload.is_method is not is_method:
                continue
            instance: dict[Type, Type] = {}
            wanted = [self._instance(kind, instance) for kind in overload.arguments]
            returned = self._instance(overload.result, instance)
            if not self.substitutions.bind_if_assignable(kinds, wanted):
                continue
            fitting.append(overload)
            returned = self.substitutions.resolve(returned)
            if result is None:
                result = returned
            elif not result.is_dyn and returned != result:
                result = t.DYN
        if result is None:
            self._no_overload(node, function, kinds, is_method=is_method)
        self.checked.calls[id(node)] = Resolved(function, tuple(fitting), is_method)
        return result

    def _no_overload(
        self, node: Call, function: Function, kinds: list[Type], *, is_method: bool
    ) -> NoReturn:
        shown = [str(self.substitutions.resolve(kind, final=True)) for kind in kinds]
        signature = f"{shown[0]}.({', '.join(shown[1:])})" if is_method else f"({', '.join(shown)})"
        raise CompileError(
            f"found no matching overload for '{function.name}' applied to '{signature}'",
            node.position,
        )

    def _instance(self, kind: Type, instance: dict[Type, Type]) -> Type:
        """Replace the parameters of a declaration by fresh ones, consistently."""
        if kind.sort == "parameter":
            if kind not in instance:
                instance[kind] = self.substitutions.fresh()
            return instance[kind]
        if not kind.parameters:
            return kind
        parts = tuple(self._instance(part, instance) for part in kind.parameters)
        return Type(kind.sort, kind.name, parts)

    def _list(self, node: ListNode) -> Type:
        joined: Type | None = None
        for index, element in enumerate(node.elements):
            kind = self._held(element, self.check(element), optional=index in node.optional)
            joined = self._join(joined, kind)
        return t.list_of(self.substitutions.fresh() if joined is None else joined)

    def _map(self, node: MapNode) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for key, value, optional in node.entries:
            keys = self._join(keys, self.check(key))
            kind = self._held(value, self.check(value), optional=optional)
            values = self._join(values, kind)
        if keys is None or values is None:
            keys, values = self.substitutions.fresh(), self.substitutions.fresh()
        return t.map_of(keys, values)

    def _held(self, node: Node, kind: Type, *, optional: bool) -> Type:
        if not optional:
            return kind
        held, was_optional = t.unwrap_optional(kind)
        if not was_optional and not kind.is_dyn:
            self._mismatch(node, t.optional_of(kind), kind)
        return held

    def _join(self, before: Type | None, kind: Type) -> Type:
        if before is None:
            return kind
        if self.substitutions.bind_if_assignable([before], [kind]):
            return t.most_general(before, kind)
        # Refused later, except in the arguments of `format`.
        return t.DYN

    def _fold(self, node: Fold) -> Type:
        range_type = self.substitutions.resolve(self.check(node.range))
        initial = self.check(node.initial)
        if range_type.sort == "list":
            kinds = [range_type.parameters[0]]
            kinds = kinds if len(node.variables) == 1 else [t.INT, *kinds]
        elif range_type.sort == "map":
            kinds = list(range_type.parameters[: len(node.variables)])
        elif range_type.sort in {"dyn", "parameter"}:
            self.substitutions.bind_if_assignable([t.DYN], [range_type])
            kinds = [t.DYN] * len(node.variables)
        else:
            # `any`, which attributes are, is none either: only `dyn()` of it is.
            raise CompileError(
                f"expression of type '{range_type}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)",
                node.range.position,
            )
        self._scopes.append({node.accumulator: initial})
        self._scopes.append(dict(zip(node.variables, kinds, strict=True)))
        self._assert(node.condition, t.BOOL, self.check(node.condition))
        self._assert(node.step, initial, self.check(node.step))
        self._scopes.pop()
        result = self.check(node.result)
        self._scopes.pop()
        return self.substitutions.resolve(result)

    def _assert(self, node: Node, wanted: Type, found: Type) -> None:
        if not self.substitutions.bind_if_assignable([wanted], [found]):
            self._mismatch(node, wanted, found)

    def _mismatch(self, node: Node, wanted: Type, found: Type) -> NoReturn:
        resolve = self.substitutions.resolve
        raise CompileError(
            f"expected type '{resolve(wanted)}' but found '{resolve(found)}'", node.position
        )
