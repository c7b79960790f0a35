"""Which tests reach a place: no other can notice a fault there.

One run of all tests over a copy in which each place writes down which test came by. What a program
reaches that a test has started counts for that test: pytest names it in the environment.
"""

import ast
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import pytest

Place: TypeAlias = tuple[Path, int]
"""A module, relative to the root, and a line of it."""
Timed: TypeAlias = dict[str, float]
"""Names of tests, and how many seconds each takes."""

_MARKER: Final = """
import os

seen = set()


def mark(number):
    at = number, os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if at not in seen:
        seen.add(at)
        with open({file!r}, "a") as file:
            print(*at, file=file)
"""


def marked(text: str, numbers: dict[int, int]) -> str:
    """A module that says when something comes to one of its lines.

    Args:
        text: the module.
        numbers: of the places, by line.
    """
    tree = ast.parse(text)
    statements = [
        ((statement.end_lineno or statement.lineno) - statement.lineno, body, statement)
        for node in ast.walk(tree)
        for body in bodies(node)
        for statement in body
    ]
    statements.sort(key=lambda each: each[0])
    for line, number in numbers.items():
        body, statement = next(
            (body, statement)
            for lines, body, statement in statements
            if statement.lineno <= line <= statement.lineno + lines
        )
        mark = ast.parse(f"__import__('came_by').mark({number})").body[0]
        body.insert(body.index(statement), ast.copy_location(mark, statement))
    return ast.unparse(ast.fix_missing_locations(tree))


def bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements in a node."""
    for name in ("body", "orelse", "finalbody"):
        found = getattr(node, name, None)
        if isinstance(found, list):
            yield found


class Reach:
    """Runs all tests on marked modules and returns which test reached which place.

    Args:
        copy: the tree in which places are marked.
        places: which.
    """

    def __init__(self, copy: Path, places: Iterable[Place]) -> None:
        self._numbers = {place: number for number, place in enumerate(dict.fromkeys(places))}
        self._came_by = copy / "came_by.txt"
        self._came_by.touch()
        (copy / "came_by.py").write_text(_MARKER.format(file=str(self._came_by)))
        self.passed = copy / "passed.json"

    def marked(self, path: Path, text: str) -> str:
        """A module with its places marked."""
        return marked(text, {at: n for (of, at), n in self._numbers.items() if of == path})

    def found(self) -> dict[str, Timed]:
        """Which tests came by which place; tests that fail without any fault are not among them."""
        passed: Timed = json.loads(self.passed.read_text())
        found: dict[int, Timed] = {number: {} for number in self._numbers.values()}
        for line in self._came_by.read_text().splitlines():
            number, _, test = line.partition(" ")
            # Code that runs at import time counts for all tests.
            found[int(number)].update({test: passed[test]} if test in passed else {"": 0.0})
        for tests in found.values():
            if tests.pop("", None) is not None and not tests:
                tests.update(passed)
        return {f"{path}:{at}": found[number] for (path, at), number in self._numbers.items()}


class Watch:
    """For pytest: how long tests take, and which of them pass.

    Args:
        file: where to write it.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds: Timed = {}
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Setup, call and teardown of a test."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write it down."""
        passed = {name: time for name, time in self._seconds.items() if name not in self._failed}
        self._file.write_text(json.dumps(passed))


class Chosen:
    """For pytest: some tests and no others. A test that a fault has taken away has not failed.

    Args:
        names: of the tests, of their functions or their files.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave the others out."""
        items[:] = [item for item in items if not self._names.isdisjoint(_names(item.nodeid))]


def _names(test: str) -> tuple[str, str, str]:
    return test, test.partition("[")[0], test.partition("::")[0]


def in_order(tests: Timed) -> Sequence[str]:
    """The files of some tests, the quickest first."""
    files: Timed = {}
    for name, seconds in tests.items():
        file = name.partition("::")[0]
        files[file] = files.get(file, 0.0) + seconds
    return sorted(files, key=lambda file: (files[file], file))
