"""Plans: nodes of an expression, ready to run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.kernel.cel.errors import AbortedError, CompileError, EvaluationError
from scheduler.kernel.cel.reads import Frame, Run
from scheduler.kernel.cel.syntax import Call
from scheduler.kernel.cel.values import Value


@dataclass(frozen=True, slots=True)
class Interpretable:
    """A node, ready to run."""

    run: Run
    reads: frozenset[int] = frozenset()
    """Indexes of reads; -1 stands for the whole device."""
    logic: str = ""
    """`&&`, `||`, `!` or `?:` if the parts are evaluated one by one; else empty."""
    parts: tuple["Interpretable", ...] = ()
    has_loop: bool = False
    constant: bool = False
    """The value is known; `run` needs no frame of a device."""
    is_attribute: bool = False
    """Whether it is an attribute in upstream's terms, whose value `?:` does not wrap again."""

    @property
    def heavy(self) -> bool:
        """Whether one evaluation can be expensive, or every device needs its own."""
        return self.has_loop or -1 in self.reads


def charged(frame: Frame, cost: int, *, value: Value) -> Value:
    """Return a value that costs something."""
    frame.cost += cost
    return value


def known(value: Value) -> Interpretable:
    """Return the plan of a value that needs no frame."""
    return Interpretable(lambda _: value, constant=True)


def joined(
    run: Run,
    parts: Sequence[Interpretable],
    *,
    logic: str = "",
    has_loop: bool = False,
    constant: bool = False,
    is_attribute: bool = False,
) -> Interpretable:
    """Return the plan of a node that is made of others."""
    return Interpretable(
        run,
        frozenset().union(*(part.reads for part in parts)),
        logic,
        tuple(parts) if logic else (),
        has_loop or any(part.has_loop for part in parts),
        constant,
        is_attribute,
    )


NO_FRAME: Final = Frame([], [])
"""The frame of constants."""


def folded(plan: Interpretable, node: Call) -> Interpretable:
    """Work out a conversion of a constant now: it is wrong for every device, or for none.

    Raises:
        CompileError: it is wrong.
    """
    try:
        value = plan.run(Frame([], []))
    except (EvaluationError, AbortedError) as error:
        raise CompileError(str(error), node.position) from error
    return known(value)
