"""Expressions as functions of a frame.

Each node becomes a plan: the function to run, the properties of the device that it reads, and
whether it is a logical operator. Columns can evaluate logical operators by themselves.

Source: github.com/google/cel-go v0.26.0 interpreter (planner.go, interpretable.go, attributes.go,
decorators.go), cel/library.go (`decorateOptionalOr`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from scheduler.kernel.cel import costs
from scheduler.kernel.cel.calls import RUNS, strict
from scheduler.kernel.cel.checker import Checked, Resolved
from scheduler.kernel.cel.comparing import contains
from scheduler.kernel.cel.errors import CompileError, CostLimitError, EvaluationError
from scheduler.kernel.cel.logic import (
    cheaper,
    conditional,
    list_of,
    logical,
    map_of,
    negated,
    otherwise,
)
from scheduler.kernel.cel.loops import lazily, loop, variable_at
from scheduler.kernel.cel.plan import NO_FRAME, Interpretable, charged, folded, joined, known
from scheduler.kernel.cel.qualifiers import (
    Qualifier,
    chain,
    has_property,
    key_of,
    map_at,
    optional_at,
    presence,
    property_of,
)
from scheduler.kernel.cel.reads import Frame, Read, Run
from scheduler.kernel.cel.regex import compile_regex
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
)
from scheduler.kernel.cel.values import Uint, check_hashable

_CONVERSIONS: Final = frozenset(
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"]
)
_FULL: Final = 3
"""Keys from `device` to an attribute or capacity: the map, the domain, the id."""
_FIELDS: Final = {("driver",), ("allowMultipleAllocations",)}
_SIMPLE: Final = frozenset({bool, int, Uint, float, str})
_PATTERNS: Final = frozenset({"matches", "find", "findAll"})
_ALL: Final[frozenset[int]] = frozenset({-1})
"""The reads of a plan that needs the device as a whole."""


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable of an expression: a slot, or a path into the device."""

    slot: int
    initial: Interpretable | None = None
    """The initial value of an accumulator; None for a variable that a loop sets."""
    path: tuple[str, ...] | None = None


_Scope: TypeAlias = dict[str, _Variable]


class Planner:
    """Makes plans, and collects their reads and their number of variables."""

    def __init__(self, checked: Checked) -> None:
        self.reads: list[Read] = []
        self.slots = 0
        self._checked = checked
        self._scopes: list[_Scope] = []

    def plan(self, node: Node) -> Interpretable:  # noqa: PLR0911 - one case per kind of node
        """Plan a node and all below it.

        Raises:
            CompileError: a constant in it cannot be evaluated.
        """
        if id(node) in self._checked.names:
            return known(self._checked.names[id(node)])
        match node:
            case Literal():
                return known(node.value)
            case Ident() | Select():
                return self._chain(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case Fold():
                return self._fold(node)

    # --- names and what is selected from them ---

    def _variable(self, name: str) -> _Variable | None:
        if name.startswith("."):
            return None
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _path(self, node: Node) -> tuple[str, ...] | None:
        """Return the fields and constant keys from `device` to a node, if that is all there is."""
        if id(node) in self._checked.names:
            return None
        keys: list[str] = []
        while not isinstance(node, Ident):
            if isinstance(node, Select) and not node.test:
                keys.append(node.field)
                node = node.operand
            elif isinstance(node, Call) and node.function == "_[_]":
                target, index = node.arguments
                if not isinstance(index, Literal) or type(index.value) is not str:
                    return None
                keys.append(index.value)
                node = target
            else:
                return None
        variable = self._variable(node.name)
        if variable is not None:
            return None if variable.path is None else (*variable.path, *reversed(keys))
        return tuple(reversed(keys)) if node.name.removeprefix(".") == "device" else None

    def _read(self, read: Read) -> int:
        if read not in self.reads:
            self.reads.append(read)
        return self.reads.index(read)

    def _chain(self, node: Node) -> Interpretable:
        """Plan a base and the chain of selections from it."""
        path = self._path(node)
        if path is not None and len(path) <= _FULL:
            return self._device(path)
        read = self._optional_read(node)
        if read is not None:
            return read
        test, operand = isinstance(node, Select) and node.test, node
        if isinstance(node, Select) and node.test:
            inner = self._path(node.operand)
            if inner is not None and len(inner) < _FULL:
                return self._has((*inner, node.field))
        steps: list[Qualifier] = []
        plans: list[Interpretable] = []
        while True:
            path = self._path(operand)
            link = None if path is not None and len(path) <= _FULL else self._link(operand)
            if link is None:
                break
            operand, key, optional = link
            plans.append(key)
            steps.append(Qualifier(_step(key), optional))
        base = self._base(operand)
        steps.reverse()
        if not steps:
            return base
        cost = len(steps) + (1 if not test else 0) + (0 if base.is_attribute else 1) - 1
        run = presence(base.run, steps, cost) if test else chain(base.run, steps, cost)
        return joined(run, [base, *plans], is_attribute=not test)

    def _optional_read(self, node: Node) -> Interpretable | None:
        """`device.attributes["domain"].?name`; None for anything else."""
        if not isinstance(node, Call) or node.function == "_[_]":
            return None
        path, key = self._path(node.arguments[0]), node.arguments[1]
        if path is None or len(path) != _FULL - 1:
            return None
        if not isinstance(key, Literal) or type(key.value) is not str:
            return None
        index = self._read((*path, key.value))
        return Interpretable(optional_at(index, _FULL + 1), frozenset({index}), is_attribute=True)

    def _link(self, node: Node) -> tuple[Node, Interpretable, bool] | None:
        """Return the operand of a selection, its key, and whether it is optional; else None."""
        if id(node) in self._checked.names:
            return None
        if isinstance(node, Select):
            return node.operand, known(node.field), False
        if isinstance(node, Call) and node.function in {"_[_]", "_[?_]", "_?._"}:
            key = self.plan(node.arguments[1])
            if key.constant:
                try:
                    key_of(key.run(NO_FRAME))
                except EvaluationError as error:
                    raise CompileError(str(error), node.position) from error
            return node.arguments[0], key, node.function != "_[_]"
        return None

    def _base(self, node: Node) -> Interpretable:
        path = self._path(node)
        if path is not None:
            return self._device(path)
        if not isinstance(node, Ident):
            return self.plan(node)
        variable = self._variable(node.name)
        if variable is None:
            raise CompileError(f"undeclared reference to '{node.name}'", node.position)
        initial = variable.initial
        run = variable_at(variable.slot, None if initial is None else initial.run)
        return Interpretable(
            run, frozenset() if initial is None else initial.reads, is_attribute=True
        )

    def _device(self, path: tuple[str, ...]) -> Interpretable:
        cost = len(path) + 1
        if len(path) == _FULL or path in _FIELDS:
            index = self._read(path)
            return Interpretable(
                property_of(index, cost, path[-1]), frozenset({index}), is_attribute=True
            )
        return Interpretable(map_at(path, cost), _ALL, is_attribute=True)

    def _has(self, path: tuple[str, ...]) -> Interpretable:
        """`has()` of a field, a domain (always) or an attribute."""
        cost = len(path)
        if len(path) < _FULL:
            return Interpretable(lambda frame: charged(frame, cost, value=True))
        index = self._read(path)
        return Interpretable(has_property(index, cost), frozenset({index}))

    # --- calls ---

    def _call(self, node: Call) -> Interpretable:
        match node.function:
            case "_[_]" | "_[?_]" | "_?._":
                return self._chain(node)
            case "_&&_" | "_||_":
                return self._logical(node)
            case "_?_:_":
                return self._conditional(node)
            case "@in" if (plan := self._membership(node)) is not None:
                return plan
            case "or" | "orValue":
                return self._otherwise(node)
            case _:
                return self._function(node)

    def _function(self, node: Call) -> Interpretable:
        resolved = self._checked.calls[id(node)]
        arguments = []
        if resolved.is_method and node.target is not None:
            arguments.append(self.plan(node.target))
        arguments += map(self.plan, node.arguments)
        self._check_pattern(node, resolved, arguments)
        if node.function == "!_":
            return joined(negated(arguments[0].run), arguments, logic="!")
        name = resolved.function.name
        plan = joined(RUNS.get(name, strict)(resolved, [it.run for it in arguments]), arguments)
        if name in _CONVERSIONS and len(arguments) == 1 and arguments[0].constant:
            return folded(plan, node)
        return plan

    def _check_pattern(
        self, node: Call, resolved: Resolved, arguments: Sequence[Interpretable]
    ) -> None:
        if resolved.function.name not in _PATTERNS:
            return
        # A validator of upstream takes the first argument of `matches(text, pattern)` for one too.
        checked = [arguments[1]]
        is_plain = resolved.function.name == "matches" and not resolved.is_method
        if is_plain and isinstance(node.arguments[0], Literal):
            checked.append(arguments[0])
        for plan in checked:
            if plan.constant and type(pattern := plan.run(NO_FRAME)) is str:
                try:
                    compile_regex(pattern)
                except EvaluationError as error:
                    raise CompileError(str(error), node.position) from error
                except CostLimitError:
                    raise CompileError("regular expression is too large", node.position) from None

    def _logical(self, node: Call) -> Interpretable:
        parts = [*map(self.plan, node.arguments)]
        run = logical([part.run for part in parts], decisive=node.function == "_||_")
        return joined(run, parts, logic=node.function.strip("_"))

    def _conditional(self, node: Call) -> Interpretable:
        condition, truthy, falsy = parts = [*map(self.plan, node.arguments)]
        wrapped = frozenset(which for which in (True, False) if not parts[2 - which].is_attribute)
        runs = {True: _step(truthy), False: _step(falsy)}
        run = conditional(condition.run, runs, wrapped=wrapped)
        return joined(run, parts, logic="?:", is_attribute=True)

    def _membership(self, node: Call) -> Interpretable | None:
        """`in` a list that is written out, or a key in the device's maps; None for any other."""
        value, container = node.arguments
        if isinstance(container, ListNode):
            return self._in_list(node)
        path = self._path(container)
        if path is None or not isinstance(value, Literal) or type(value.value) is not str:
            return None
        if len(path) not in {1, 2} or path[0] not in {"attributes", "capacity"}:
            return None
        cost = len(path) + 2
        index = self._read((*path, value.value))
        if len(path) == 1:
            return Interpretable(
                lambda frame: charged(frame, cost, value=frame.inputs[index]), frozenset({index})
            )
        return Interpretable(has_property(index, cost), frozenset({index}))

    def _in_list(self, node: Call) -> Interpretable:
        """`in` with a list literal: upstream makes a set of a constant and simple list."""
        value, container = plans = [*map(self.plan, node.arguments)]
        items = container.run(NO_FRAME) if container.constant else None
        if items == ():
            return known(value=False)
        if items is None or not all(type(item) in _SIMPLE for item in items):
            resolved = self._checked.calls[id(node)]
            return joined(strict(resolved, [plan.run for plan in plans]), plans)
        wanted = value.run

        def run(frame: Frame) -> bool:
            found = wanted(frame)
            check_hashable(found)
            return contains(items, found)

        return joined(run, plans)

    def _otherwise(self, node: Call) -> Interpretable:
        first, second = parts = [*map(self.plan, children(node))]
        run = otherwise(first.run, second.run, unwraps=node.function == "orValue")
        return joined(run, parts)

    # --- lists, maps and loops ---

    def _list(self, node: ListNode) -> Interpretable:
        parts = [*map(self.plan, node.elements)]
        elements = [(part.run, index in node.optional) for index, part in enumerate(parts)]
        constant = all(part.constant for part in parts)
        return joined(list_of(elements, 0 if constant else costs.LIST), parts, constant=constant)

    def _map(self, node: MapNode) -> Interpretable:
        parts: list[Interpretable] = []
        entries: list[tuple[Run, Run, bool]] = []
        for key, value, optional in node.entries:
            pair = self.plan(key), self.plan(value)
            parts += pair
            entries.append((pair[0].run, pair[1].run, optional))
        constant = all(part.constant for part in parts)
        return joined(map_of(entries, 0 if constant else costs.MAP), parts, constant=constant)

    def _fold(self, node: Fold) -> Interpretable:
        if node.variables == (UNUSED,):
            return self._bound(node)
        source = self.plan(node.range)
        initial = self.plan(node.initial)
        accumulator, *variables = range(self.slots, self.slots + 1 + len(node.variables))
        self.slots += 1 + len(node.variables)
        self._scopes.append({node.accumulator: _Variable(accumulator, initial)})
        self._scopes.append(
            {name: _Variable(slot) for name, slot in zip(node.variables, variables, strict=True)}
        )
        condition, step = self.plan(node.condition), self.plan(node.step)
        self._scopes.pop()
        result = self.plan(node.result)
        self._scopes.pop()
        run = loop(source.run, accumulator, variables, (condition.run, step.run), result.run)
        parts = [source, initial, condition, step, result]
        return joined(run, parts, has_loop=True, constant=False)

    def _bound(self, node: Fold) -> Interpretable:
        """`cel.bind`: the variable is evaluated on first use."""
        path = self._path(node.initial)
        if path is not None and len(path) <= _FULL:
            self._scopes.append({node.accumulator: _Variable(-1, None, path)})
            result = self.plan(node.result)
            self._scopes.pop()
            return replace(result, constant=False)
        initial = self.plan(node.initial)
        slot = self.slots
        self.slots += 1
        self._scopes.append({node.accumulator: _Variable(slot, initial)})
        result = self.plan(node.result)
        self._scopes.pop()
        return joined(lazily(slot, result.run), [initial, result], constant=False)


def _step(plan: Interpretable) -> Run:
    """The run of a plan inside an attribute: a key, or a branch of `?:`."""
    return cheaper(plan.run) if plan.is_attribute and plan.logic != "?:" else plan.run
