"""Problems in a user's file, each with its path and the expected value."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from typing_extensions import override

from scheduler.errors import SchedulerError

Path = tuple[str | int, ...]
"""The place of a value: field names and list positions, outermost first."""


def render_path(path: Path) -> str:
    """Format a path: `profiles[0].plugins.score`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


class Problem(NamedTuple):
    """A wrong value, or a missing one."""

    path: Path
    """The place of the value; empty for the whole document."""
    message: str
    """The expected value and the value found."""
    line: int | None = None
    """Line in the file, counted from 1; None without a file."""

    @override
    def __str__(self) -> str:
        where = render_path(self.path)
        text = f"{where}: {self.message}" if where else self.message
        return f"line {self.line}: {text}" if self.line is not None else text


class Problems:
    """Collects problems, at most one per place.

    A problem inside a value that is already wrong is not reported: after decoding, checks see a
    stand-in for that value.
    """

    def __init__(self, lines: Mapping[Path, int] | None = None) -> None:
        self.lines: Mapping[Path, int] = lines if lines is not None else {}
        self._found: dict[Path, Problem] = {}

    def add(self, path: Path, message: str) -> None:
        """Note that the value at `path` is wrong."""
        if any(path[:length] in self._found for length in range(1, len(path) + 1)):
            return
        self._found[path] = Problem(path, message, self._line_of(path))

    def is_written(self, path: Path) -> bool:
        """Whether the user wrote the value at `path`; False if it is a default."""
        return not self.lines or path in self.lines

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Problem]:
        """Iterate over the problems in the order of the file, those without a line last."""
        return iter(
            sorted(self._found.values(), key=lambda p: p.line if p.line is not None else 1 << 30)
        )

    def _line_of(self, path: Path) -> int | None:
        """Return the line of the path, or of its closest parent in the file."""
        for length in range(len(path), -1, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return line
        return None


class ConfigError(SchedulerError):
    """A configuration cannot be used; the message lists all problems."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(source, self.problems)

    @override
    def __str__(self) -> str:
        if len(self.problems) == 1:
            return f"{self.source}: {self.problems[0]}"
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        return f"{self.source}: {len(self.problems)} problems{lines}"
