"""Regular expressions with the syntax and meaning of RE2, in time linear in the text.

Python's own engine backtracks: a tenant's pattern could take it exponential time. Here a pattern is
a program whose states are followed all at once (Thompson, Pike). The leftmost match wins, and of
several the one that the pattern prefers, as in Go.

Source: Go's packages regexp and regexp/syntax; https://github.com/google/re2/wiki/Syntax.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from scheduler.kernel.cel.errors import CostLimitError
from scheduler.kernel.cel.regex_letters import Characters
from scheduler.kernel.cel.regex_patterns import Alternation, Assertion, Pattern, Repeat, Sequence
from scheduler.kernel.cel.regex_syntax import parse_pattern

MAX_STATES: Final = 20_000
"""Largest number of states of a program. Go limits repetitions to 1,000, and the program's size."""
MAX_STEPS: Final = 500_000
"""Largest number of states followed in one search, so that a step of the engine stays short."""

Span = tuple[int, int]


class Regex:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        self._tests: list[Characters | Assertion | None] = []
        self._next: list[tuple[int, ...]] = []
        self._end = self._state(None, ())
        self._start = self._build(parse_pattern(pattern), self._end)

    def search(self, text: str, start: int = 0) -> Span | None:
        """Find the first match at or after a position; None where there is none."""
        threads: dict[int, int] = {}
        found: Span | None = None
        steps = 0
        for position in range(start, len(text) + 1):
            if found is None:
                self._follow(threads, self._start, position, text, position)
            if not threads:
                break
            steps += len(threads)
            if steps > MAX_STEPS:
                raise CostLimitError
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
        if len(self._tests) >= MAX_STATES:
            raise CostLimitError
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
                return self._state(None, tuple(self._build(p, after) for p in pattern.parts))
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


@lru_cache(maxsize=256)
def compile_regex(pattern: str) -> Regex:
    """Compile a pattern.

    Raises:
        EvaluationError: it is none in RE2's syntax; the text is Go's.
        CostLimitError: it is too large.
    """
    return Regex(pattern)
