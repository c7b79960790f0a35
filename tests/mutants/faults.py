"""Small faults that can be planted in a module, one at a time.

Not planted is what no test could notice, because nothing changes, or nobody is told:

- log lines, and what decides whether they are written (`if verbose(3)`): they are for people who
  look for something else. What people rely on is told by events, conditions and metrics, too;
- `raise AssertionError` and `assert_never`: nothing gets there;
- `return NotImplemented`: None says the same to `==`;
- `del` of a local name: the object goes a line later;
- `strict=` of `zip`: it says that lengths are equal, as an assertion does;
- how long a column is that begins empty: it gets the table's length before it is read;
- the negation of a condition that is one comparison or `not`: swapping it is the same fault.
"""

import ast
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from tests.mutants.reach import bodies

Plant: TypeAlias = Callable[[], None]
"""Changes the tree for good."""

_OPPOSITE: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


class Fault(msgspec.Struct):
    """A fault that is not planted yet.

    Attributes:
        line: where.
        what: in words.
        plant: does it.
    """

    line: int
    what: str
    plant: Plant


def faults_in(tree: ast.Module) -> list[Fault]:
    """Every fault that can be planted in the functions of a module."""
    return [
        fault
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and not _is_declaration(function)
        for node in _own_nodes(function)
        for fault in _faults_at(node)
    ]


def _own_nodes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """The nodes of a body; functions inside of it come by themselves, annotations not at all."""
    waiting: list[ast.AST] = [*function.body]
    yield function
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _tells_nobody(node):
            continue
        yield node
        if _begins_empty(node) or (isinstance(node, ast.keyword) and node.arg == "strict"):
            continue
        waiting += [
            child
            for name, value in ast.iter_fields(node)
            if name != "annotation"
            for child in (value if isinstance(value, list) else [value])
            if isinstance(child, ast.AST)
        ]


def _faults_at(node: ast.AST) -> Iterator[Fault]:
    if isinstance(node, ast.If | ast.While | ast.IfExp) and not _has_opposite(node.test):
        yield _replaced(node, "test", ast.UnaryOp(ast.Not(), node.test), "condition negated")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield _replaced(node, "op", ast.UAdd(), "`not` removed", guard=_bool(node))
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            yield _in_list(node, node.ops, i, _OPPOSITE[type(op)](), "comparison swapped")
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield _replaced(node, "op", other, "`and` and `or` swapped")
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        yield _replaced(node, "op", _ARITHMETIC[type(node.op)](), "operator swapped")
    if isinstance(node, ast.Constant):
        yield from _constant(node)
    if isinstance(node, ast.Return) and not _is_nothing(node.value):
        yield _replaced(node, "value", ast.Constant(None), "returns None")
    for body in bodies(node):
        for i, statement in enumerate(body):
            if _can_be_dropped(statement):
                place = ast.copy_location(ast.Pass(), statement)
                yield _in_list(statement, body, i, place, "statement dropped")


def _constant(node: ast.Constant) -> Iterator[Fault]:
    value = node.value
    if isinstance(value, bool):
        yield _replaced(node, "value", not value, "constant swapped")
    elif isinstance(value, int | float):
        yield _replaced(node, "value", value + 1, "off by one")


def _bool(node: ast.UnaryOp) -> Plant:
    def plant() -> None:
        node.operand = ast.Call(ast.Name("bool", ast.Load()), [node.operand], [])

    return plant


def _replaced(
    node: ast.expr | ast.stmt, field: str, value: object, what: str, guard: Plant = lambda: None
) -> Fault:
    def plant() -> None:
        guard()
        setattr(node, field, value)

    return Fault(node.lineno, f"{what}: {_words(node)}", plant)


def _in_list(
    node: ast.expr | ast.stmt, parts: list[Any], at: int, value: object, what: str
) -> Fault:
    return Fault(node.lineno, f"{what}: {_words(node)}", lambda: parts.__setitem__(at, value))


def _words(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0][:80]


def _can_be_dropped(statement: ast.stmt) -> bool:
    if _tells_nobody(statement):
        return False
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Delete):
        return not all(isinstance(target, ast.Name) for target in statement.targets)
    return isinstance(statement, ast.Assign | ast.AugAssign | ast.Raise | ast.Continue)


def _tells_nobody(node: ast.AST) -> bool:
    """Whether a statement is a log line, a condition of log lines only, or never reached."""
    match node:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name("log" | "_log"), _))):
            return True
        case ast.Expr(ast.Call(ast.Name("assert_never"))):
            return True
        case ast.Raise(ast.Call(ast.Name("AssertionError"))):
            return True
        case ast.If(ast.Call(ast.Name("verbose")), body, []):
            return all(map(_tells_nobody, body))
    return False


def _begins_empty(node: ast.AST) -> bool:
    """Whether it makes a column of an object, without rows."""
    match node:
        case ast.Assign([ast.Attribute()], value) | ast.AnnAssign(ast.Attribute(), _, value):
            match value:
                case ast.Call(ast.Attribute(_, "zeros"), [ast.Constant(0), *_]):
                    return True
    return False


def _has_opposite(test: ast.expr) -> bool:
    """Whether another fault makes the opposite of a condition."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return isinstance(test.ops[0], ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _is_nothing(value: ast.expr | None) -> bool:
    """Whether returning None instead is the same."""
    match value:
        case None | ast.Constant(None) | ast.Name("NotImplemented"):
            return True
    return False


def _is_declaration(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether there is nothing in the body but words: a protocol's method."""
    return all(
        isinstance(each, ast.Pass)
        or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        for each in function.body
    )
