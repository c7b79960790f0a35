"""Checks of plugins' answers; one check per kind of answer.

A check takes the answer and the arguments of the call, and returns the answer. It raises for a
forbidden answer; `PluginCalls` makes a `PluginError` of it that names plugin and point.
"""

import math
from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scheduler.errors import encodable
from scheduler.kernel.framework.counting import Counting
from scheduler.kernel.framework.events import (
    ClusterEvent,
    ClusterEventWithHint,
    ObjectKind,
    QueueingHint,
)
from scheduler.kernel.framework.interface import MAX_NODE_SCORE, MIN_NODE_SCORE, Bits, Scores
from scheduler.kernel.framework.obstacles import Obstacle
from scheduler.kernel.framework.placements import FeasiblePlacements, Placements
from scheduler.kernel.framework.results import PostFilterResult, PreFilterResult, Reason, Write
from scheduler.kernel.framework.status import REJECTIONS, SKIP, SUCCESS, Code, Status
from scheduler.kernel.snapshot import Rows, Snapshot

R = TypeVar("R")

Args: TypeAlias = tuple[Any, ...]
Check: TypeAlias = Callable[[Any, Args], R]
AllowedCodes: TypeAlias = frozenset[Code]

OK_OR_NOT: Final[AllowedCodes] = REJECTIONS | {Code.SUCCESS, Code.ERROR}
PRE_FILTER: Final[AllowedCodes] = frozenset(
    {Code.SUCCESS, Code.SKIP, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE}
)
FILTER: Final[AllowedCodes] = REJECTIONS | {Code.SUCCESS}
OK_OR_SKIP: Final[AllowedCodes] = frozenset({Code.SUCCESS, Code.SKIP})
OK_ONLY: Final[AllowedCodes] = frozenset({Code.SUCCESS})
PERMIT: Final[AllowedCodes] = OK_OR_NOT | {Code.WAIT}
BIND: Final[AllowedCodes] = OK_OR_NOT | {Code.SKIP}
"""The codes that are valid at each extension point."""


class WrongAnswerError(Exception):
    """A plugin returned a forbidden answer."""


def wrong(answer: object, expected: str) -> NoReturn:
    """Refuse an answer.

    Raises:
        WrongAnswerError: always.
    """
    if isinstance(answer, Coroutine):
        answer.close()
    raise WrongAnswerError(f"returned {answer!r:.200}, expected {expected}")


def status(answer: object, codes: AllowedCodes) -> Status:
    """A status whose code is valid at this point."""
    if answer is SUCCESS:
        return SUCCESS
    if not isinstance(answer, Status):
        wrong(answer, "a Status")
    code: object = answer.code
    reasons: object = answer.reasons
    if not isinstance(code, Code):
        wrong(answer, "a Status with a Code")
    if not isinstance(reasons, tuple) or not all(isinstance(reason, str) for reason in reasons):
        wrong(answer, "a Status whose reasons are a tuple of texts")
    if answer.code not in codes:
        message = (
            f"{code.upstream_name}: {answer.message}" if answer.reasons else code.upstream_name
        )
        if code is not Code.ERROR:
            message = f"returned {message}, expected {_in_words(codes)}"
        raise WrongAnswerError(message)
    told_reasons = tuple(map(encodable, answer.reasons))
    return answer if told_reasons == reasons else replace(answer, reasons=told_reasons)


def _in_words(codes: AllowedCodes) -> str:
    """The codes, and Error, by which every point may fail the attempt."""
    *names, last = [code.upstream_name for code in sorted(codes | {Code.ERROR})]
    return f"{', '.join(names)} or {last}"


def status_of(codes: AllowedCodes, plugin: str) -> Check[Status]:
    """Make a check for a status, which attributes rejections to the plugin."""

    def check(answer: Any, _: Args) -> Status:
        returned = SUCCESS if answer is SUCCESS else status(answer, codes)
        return returned if returned.code in OK_OR_SKIP else returned.by(plugin)

    return check


def pre_filter(answer: Any, _: Args) -> tuple[PreFilterResult | None, Status]:
    """The nodes to which the search is limited, or None, and a status."""
    result, returned = _pair(answer, "(PreFilterResult or None, Status)")
    if result is None and (returned is SUCCESS or returned is SKIP):
        return None, returned
    names: object = getattr(result, "node_names", None)
    are_names = isinstance(names, frozenset) and all(isinstance(name, str) for name in names)
    is_valid = isinstance(result, PreFilterResult) and (names is None or are_names)
    if result is not None and not is_valid:
        wrong(answer, "a PreFilterResult with a frozenset of node names, or None")
    return result, status(returned, PRE_FILTER)


def post_filter(answer: Any, _: Args) -> tuple[PostFilterResult | None, Status]:
    """A nomination, or None, and a status."""
    result, returned = _pair(answer, "(PostFilterResult or None, Status)")
    name: object = getattr(result, "nominated_node_name", None)
    is_name = name is None or (isinstance(name, str) and encodable(name) == name)
    if result is not None and not (isinstance(result, PostFilterResult) and is_name):
        wrong(answer, "a PostFilterResult with the name of a node, or None")
    if result is not None and result.writes:
        writes(result.writes, ())
    return result, status(returned, OK_OR_NOT)


def permit(answer: Any, _: Args) -> tuple[Status, float]:
    """A status, and a timeout in seconds."""
    returned, seconds = _pair(answer, "(Status, seconds)")
    if not isinstance(seconds, int | float) or math.isnan(seconds) or seconds < 0:
        wrong(seconds, "seconds, 0 or more")
    return status(returned, PERMIT), float(seconds)


def counting(answer: Any, args: Args) -> Counting:
    """A filter in the form that counts, with a weight for each kind of pods, the last argument."""
    weights: object = getattr(answer, "weights", None)
    kinds = len(args[-1])
    if not isinstance(weights, np.ndarray) or weights.ndim != 2 or weights.shape[1] != kinds:  # noqa: PLR2004 - lines and columns
        wrong(answer, f"a Counting with weights of shape (counters, {kinds})")
    found: Counting = answer
    return found


def bits(answer: Any, args: tuple[Any, Any, Snapshot, Rows]) -> Bits | None:
    """A set of reasons for each given row, or None."""
    _, _, snapshot, rows = args
    return _bits(answer, len(snapshot.table.alive[rows]))


def counted_bits(answer: Any, args: tuple[Rows, NDArray[np.float64]]) -> Bits | None:
    """A set of reasons for each row with changes, or None."""
    return _bits(answer, args[1].shape[1])


def reasons(answer: Any, _: Args) -> Sequence[Reason]:
    """The reasons that reject a row."""
    if not isinstance(answer, Sequence) or not all(_is_reason(reason) for reason in answer):
        wrong(answer, "a sequence of Reasons")
    found: Sequence[Reason] = answer
    if all(reason.text.isascii() for reason in found):
        return found
    return [replace(reason, text=encodable(reason.text)) for reason in found]


def obstacles(answer: Any, _: Args) -> Sequence[Obstacle]:
    """The obstacles of a pod."""
    if not isinstance(answer, Sequence) or not all(isinstance(o, Obstacle) for o in answer):
        wrong(answer, "a sequence of Obstacles")
    found: Sequence[Obstacle] = answer
    return found


def scores(answer: Any, args: tuple[Any, Any, Snapshot, Rows]) -> Scores:
    """A score for each given row, to be normalised."""
    _, _, snapshot, rows = args
    return _numbers(answer, len(snapshot.table.alive[rows]))


def final_scores(answer: Any, args: tuple[Any, Any, Snapshot, Rows]) -> Scores:
    """Scores that can be added up, for each given row; any number where there is no node."""
    _, _, snapshot, rows = args
    return _final(answer, snapshot.table.alive[rows])


def normalized_scores(answer: Any, args: tuple[Any, Any, Scores]) -> Scores:
    """Scores that can be added up, one for each that was given."""
    return _final(answer, np.ones(len(args[2]), np.bool_))


def placements(answer: Any, _: Args) -> tuple[Placements, Status]:
    """The placements of a group, and a status."""
    found, returned = _pair(answer, "(Placements, Status)")
    if not isinstance(found, Placements):
        wrong(found, "Placements")
    return found, status(returned, OK_OR_NOT)


def placement_scores(answer: Any, args: tuple[Any, FeasiblePlacements, Any]) -> Scores:
    """Scores that can be added up, one for each placement."""
    return _final(answer, np.ones(len(args[1].placements.numbers), np.bool_))


def number(answer: Any) -> float:
    """A score of one node."""
    if not isinstance(answer, int | float | np.number):
        wrong(answer, "a number")
    return float(answer)


def yes_or_no(answer: Any, _: Args) -> bool:
    """A bool."""
    if not isinstance(answer, bool):
        wrong(answer, "True or False")
    return answer


def nothing(answer: Any, _: Args) -> None:
    """None: a coroutine, for instance, would never run."""
    if answer is not None:
        wrong(answer, "nothing")


def writes(answer: Any, _: Args) -> Sequence[Write]:
    """The writes to send to the API server; None for none."""
    if answer is None:
        return ()
    if not isinstance(answer, Sequence) or not all(isinstance(each, Write) for each in answer):
        wrong(answer, "a sequence of Write, or nothing")
    try:
        msgspec.json.encode(answer)
    except Exception:  # noqa: BLE001 - a body may hold any object
        wrong(answer, "a sequence of Write with bodies of JSON values")
    return answer


def hint(answer: Any, _: Args) -> QueueingHint:
    """Queue or skip."""
    if not isinstance(answer, QueueingHint):
        wrong(answer, "a QueueingHint")
    return answer


def events_of(watches: Sequence[ObjectKind]) -> Check[tuple[ClusterEventWithHint, ...]]:
    """Make a check for the registrations of a plugin that watches these kinds."""

    def check(answer: Any, _: Args) -> tuple[ClusterEventWithHint, ...]:
        if not isinstance(answer, Sequence) or not all(_is_registration(each) for each in answer):
            wrong(answer, "a sequence of ClusterEventWithHint")
        for each in answer:
            kind = each.event.resource
            if isinstance(kind, ObjectKind) and kind not in watches:
                wrong(kind, "the resource of an event to be one of its WATCHES")
        return tuple(answer)

    return check


def fragment(answer: Any, _: Args) -> Hashable:
    """A part of a signature."""
    if isinstance(answer, Coroutine):
        wrong(answer, "something that can be compared")
    hash(answer)
    found: Hashable = answer
    return found


class SortKeys:
    """Checks keys of the active queue; all must have the structure of the first."""

    def __init__(self) -> None:
        self._shape: object = None

    def __call__(self, answer: Any, _: Args) -> tuple[int, Any]:
        """Return the key, marked to sort before the keys of pods for which the plugin failed."""
        key = _sort_key(answer)
        shape = shape_of(key)
        if self._shape is None:
            self._shape = shape
        if shape != self._shape:
            raise WrongAnswerError("returned a key that cannot be compared with the first one")
        return 0, key


def _sort_key(answer: Any) -> Any:
    """A number, a text, or a tuple of such."""
    if isinstance(answer, tuple):
        return tuple(_sort_key(part) for part in answer)
    if not isinstance(answer, int | float | str) or answer != answer:  # noqa: PLR0124 - NaN
        wrong(answer, "a number, a text, or a tuple of these")
    return answer


def shape_of(key: Any) -> object:
    """The structure that two keys must share to be comparable."""
    if isinstance(key, tuple):
        return tuple(shape_of(part) for part in key)
    return str if isinstance(key, str) else float


def _pair(answer: Any, expected: str) -> tuple[Any, Any]:
    if not isinstance(answer, tuple) or len(answer) != 2:  # noqa: PLR2004 - a pair
        wrong(answer, expected)
    return answer


def _is_reason(reason: object) -> bool:
    if not isinstance(reason, Reason):
        return False
    text: object = reason.text
    code: object = reason.code
    return isinstance(text, str) and isinstance(code, Code)


def _is_registration(each: object) -> bool:
    if not isinstance(each, ClusterEventWithHint):
        return False
    event: object = each.event
    return isinstance(event, ClusterEvent) and (
        each.queueing_hint is None or callable(each.queueing_hint)
    )


def _bits(answer: Any, count: int) -> Bits | None:
    if answer is not None:
        _check_column(answer, count, "u")
    return answer  # type: ignore[no-any-return] # looked at, one line above


def _final(answer: Any, alive: NDArray[np.bool_]) -> Scores:
    """Whole numbers from 0 to 100 where `alive` is set."""
    answer = _numbers(answer, len(alive))
    good = (answer >= MIN_NODE_SCORE) & (answer <= MAX_NODE_SCORE) & (answer == np.floor(answer))
    good |= ~alive
    if not good.all():
        raise WrongAnswerError(
            f"returned an invalid score {answer[~good][0]:g}, "
            f"expected a whole number from {MIN_NODE_SCORE} to {MAX_NODE_SCORE}"
        )
    found: Scores = answer
    return found


def _numbers(answer: Any, count: int) -> Scores:
    """A column of numbers, as float64: weighted scores may exceed its own type."""
    _check_column(answer, count, "fiu")
    found: Scores = answer.astype(np.float64, copy=False)
    return found


def _check_column(answer: Any, count: int, kinds: str) -> None:
    if not isinstance(answer, np.ndarray) or answer.dtype.kind not in kinds:
        wrong(answer, "a column of " + ("uint64" if kinds == "u" else "numbers"))
    if answer.shape != (count,):
        raise WrongAnswerError(f"returned an array of shape {answer.shape}, expected ({count},)")
