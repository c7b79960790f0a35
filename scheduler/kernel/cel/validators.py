"""Validators: errors that upstream reports for expressions whose types are right.

Source: github.com/google/cel-go v0.26.0 cel/validator.go, ext/formatting.go (stringFormatChecker).
Literals of durations, timestamps and patterns are checked where they are evaluated (`planner.py`).
"""

from scheduler.kernel.cel import types as t
from scheduler.kernel.cel.checker import Checked
from scheduler.kernel.cel.errors import CompileError, EvaluationError
from scheduler.kernel.cel.formatting import ACCEPTED, Clause, parts, problem
from scheduler.kernel.cel.syntax import Call, ListNode, Literal, MapNode, Node, children
from scheduler.kernel.cel.types import Type


def validate(root: Node, checked: Checked) -> None:
    """Look at literals of lists and maps, and at constant format texts.

    Raises:
        CompileError: elements of two types, or a format that does not fit its arguments.
    """
    seen: set[int] = set()
    open_nodes = [(root, False)]
    while open_nodes:
        node, in_format = open_nodes.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Call) and node.function == "format":
            in_format = True
            _check_format(node, checked)
        if not in_format:
            _check_literal(node, checked)
        open_nodes.extend((child, in_format) for child in children(node))


def _check_literal(node: Node, checked: Checked) -> None:
    if isinstance(node, ListNode):
        _check_alike(
            [(it, index in node.optional) for index, it in enumerate(node.elements)], checked
        )
    elif isinstance(node, MapNode):
        _check_alike([(key, False) for key, _, _ in node.entries], checked)
        _check_alike([(value, optional) for _, value, optional in node.entries], checked)


def _check_alike(nodes: list[tuple[Node, bool]], checked: Checked) -> None:
    first: Type | None = None
    for node, optional in nodes:
        kind = checked.type_of(node)
        kind = t.unwrap_optional(kind)[0] if optional else kind
        if first is None:
            first = kind
        elif not t.equivalent(first, kind):
            raise CompileError(f"expected type '{first}' but found '{kind}'", node.position)


def _check_format(node: Call, checked: Checked) -> None:
    text, arguments = node.target, node.arguments
    if not isinstance(text, Literal) or type(text.value) is not str:
        return
    if len(arguments) != 1 or not isinstance(arguments[0], ListNode):
        return
    values = arguments[0].elements
    try:
        clauses = [part for part in parts(text.value) if isinstance(part, Clause)]
    except EvaluationError as error:
        raise CompileError(str(error), node.position) from error
    for index, clause in enumerate(clauses):
        if index >= len(values):
            raise CompileError(f"index {index} out of range", node.position)
        _check_clause(clause, values[index], checked)
    if len(values) > len(clauses):
        raise CompileError(
            f"too many arguments supplied to string.format (expected {len(clauses)}, "
            f"got {len(values)})",
            node.position,
        )


def _check_clause(clause: Clause, value: Node, checked: Checked) -> None:
    kind = checked.type_of(value)
    # `any` is not `dyn` here: an attribute cannot be formatted unless it passes through `dyn()`.
    if kind.sort != "dyn" and kind.name not in ACCEPTED[clause.sign]:
        raise CompileError(problem(clause.sign, kind.name), value.position)
    if clause.sign != "s":
        return
    if isinstance(value, ListNode | MapNode):
        for child in children(value):
            _check_clause(clause, child, checked)
