"""Regular expressions with the syntax and meaning of RE2, in time linear in the text.

Python's own engine backtracks: a tenant's pattern could take it exponential time. Here a pattern is
a program whose states are followed all at once (Thompson, Pike). The leftmost match wins, and of
several the one that the pattern prefers, as in Go.

Source: Go's packages regexp and regexp/syntax; https://github.com/google/re2/wiki/Syntax.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

from scheduler.kernel.cel import effort
from scheduler.kernel.cel.errors import CostLimitError, EvaluationError
from scheduler.kernel.cel.regex_letters import Characters
from scheduler.kernel.cel.regex_patterns import (
    Alternation,
    Assertion,
    Pattern,
    Repeat,
    Sequence,
    size,
)
from scheduler.kernel.cel.regex_syntax import parse_pattern

MAX_LENGTH: Final = 10 * 1024
"""Letters of a pattern: as many as an expression has. Only a computed one can be longer."""
MAX_STATES: Final = 20_000
"""Largest number of states of a program. Go limits repetitions to 1,000, and the program's size."""
_UNITS_OF_LETTER: Final = 4
"""Units of work to read a letter of a pattern."""
_UNITS_OF_STATE: Final = 2
"""Units of work to make a state."""
_MOST_KEPT: Final = 256
"""Largest number of remembered patterns."""
_UNITS_KEPT: Final = 300_000
"""Largest work of all of them together: about 20 MB of memory."""

Span = tuple[int, int]


class Regex:
    """A compiled pattern."""

    def __init__(self, pattern: Pattern) -> None:
        self._tests: list[Characters | Assertion | None] = []
        self._next: list[tuple[int, ...]] = []
        self._end = self._state(None, ())
        self._start = self._build(pattern, self._end)

    def search(self, text: str, start: int = 0) -> Span | None:
        """Find the first match at or after a position; None where there is none."""
        threads: dict[int, int] = {}
        found: Span | None = None
        for position in range(start, len(text) + 1):
            if found is None:
                self._follow(threads, self._start, position, text, position)
            if not threads:
                break
            effort.charge(len(threads))
            letter = text[position] if position < len(text) else None
            after: dict[int, int] = {}
            for state, began in threads.items():
                if state == self._end:
                    found = (began, position)
                    break
                test = self._tests[state]
                if letter is not None and isinstance(test, Characters) and test.has(letter):
                    self._follow(after, self._next[state][0], began, text, position + 1)
            threads = after
        return found

    def find_all(self, text: str, limit: int = -1) -> Iterator[str]:
        """Return matches that do not overlap, at most `limit` where it is not negative."""
        position, last_end, count = 0, -1, 0
        while position <= len(text) and (limit < 0 or count < limit):
            found = self.search(text, position)
            if found is None:
                return
            start, end = found
            # No empty match right behind a match.
            if end > start or start != last_end:
                yield text[start:end]
                count += 1
            last_end = end
            position = end if end > position else position + 1

    def _follow(
        self, threads: dict[int, int], state: int, began: int, text: str, position: int
    ) -> None:
        """Add a state and all that follow without a letter, the preferred first."""
        open_states = [state]
        while open_states:
            state = open_states.pop()
            if state in threads:
                continue
            test = self._tests[state]
            if state == self._end or isinstance(test, Characters):
                threads[state] = began
                continue
            # Marked, so that loops end; it does nothing when its turn comes.
            threads[state] = began
            if test is None or test.holds(text, position):
                open_states.extend(reversed(self._next[state]))

    def _state(self, test: Characters | Assertion | None, after: tuple[int, ...]) -> int:
        self._tests.append(test)
        self._next.append(after)
        return len(self._tests) - 1

    def _build(self, pattern: Pattern, after: int) -> int:
        match pattern:
            case Characters() | Assertion():
                return self._state(pattern, (after,))
            case Sequence():
                for part in reversed(pattern.parts):
                    after = self._build(part, after)
                return after
            case Alternation():
                # Without repetitions, as of empty parts: a state is followed once anyway.
                starts = dict.fromkeys(self._build(part, after) for part in pattern.parts)
                return self._state(None, tuple(starts))
            case Repeat():
                return self._repeat(pattern, after)

    def _repeat(self, pattern: Repeat, after: int) -> int:
        if pattern.most is None:
            loop = self._state(None, ())
            body = self._build(pattern.part, loop)
            self._next[loop] = _preferred(body, after, greedy=pattern.greedy)
            start = loop
            if pattern.least:
                start = body
        else:
            start = after
            for _ in range(pattern.most - pattern.least):
                body = self._build(pattern.part, start)
                start = self._state(None, _preferred(body, after, greedy=pattern.greedy))
        required = pattern.least if pattern.most is not None else pattern.least - 1
        for _ in range(required):
            start = self._build(pattern.part, start)
        return start


def _preferred(body: int, after: int, *, greedy: bool) -> tuple[int, ...]:
    return (body, after) if greedy else (after, body)


class _Kept(NamedTuple):
    """A compiled pattern, or why it is none (empty: it is too large), and the work it took."""

    regex: Regex | None
    problem: str
    units: int


_KEPT: Final[OrderedDict[str, _Kept]] = OrderedDict()


def compile_regex(pattern: str) -> Regex:
    """Compile a pattern. Its work is counted in each evaluation, and done only once.

    Raises:
        EvaluationError: it is none in RE2's syntax; the text is Go's.
        CostLimitError: it is too large.
    """
    if len(pattern) > MAX_LENGTH:
        raise CostLimitError
    kept = _KEPT.get(pattern)
    if kept is None:
        kept = _KEPT[pattern] = _compiled(pattern)
        while len(_KEPT) > _MOST_KEPT or sum(one.units for one in _KEPT.values()) > _UNITS_KEPT:
            _KEPT.popitem(last=False)
    else:
        _KEPT.move_to_end(pattern)
        effort.charge(kept.units)
        effort.spare(kept.units)
    if kept.regex is not None:
        return kept.regex
    raise EvaluationError(kept.problem) if kept.problem else CostLimitError


def _compiled(pattern: str) -> _Kept:
    before = effort.counted()
    effort.charge(len(pattern) * _UNITS_OF_LETTER)
    try:
        parsed = parse_pattern(pattern)
    except EvaluationError as error:
        return _Kept(None, str(error), effort.counted() - before)
    states = size(parsed) + 1
    if states > MAX_STATES:
        return _Kept(None, "", effort.counted() - before)
    effort.charge(states * _UNITS_OF_STATE)
    return _Kept(Regex(parsed), "", effort.counted() - before)
