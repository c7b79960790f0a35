"""Plants one fault at a time in a copy of the working tree, and runs tests on it."""

import importlib
import multiprocessing
import os
import re
import shutil
import signal
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.mutants.reach import Chosen, Place, Reach, Timed, Watch, in_order
from tests.rooms import rooms as product_rooms

ROOT: Final = Path(__file__).parents[2]
COPIED: Final = (
    "scheduler",
    "apistub",
    "tests",
    "examples",
    "bench",
    "deploy",
    "docs",
    "e2e",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
)
"""Files that tests read; the working tree itself is not modified."""

EVERYTHING: Final = (
    "tests",
    "examples",
    "--ignore=tests/mutants",
    "--ignore=tests/unit/docs",
    "--ignore=tests/unit/test_makefile.py",
)
"""What `make test` runs, but for the tests of the pages and of the planter."""
TIMES_AS_LONG: Final = 4.0
AND_SECONDS: Final = 120.0
"""Additional seconds after which a test run counts as hanging."""

_LOADED_BEFORE: Final = (
    "aiohttp.web",
    "click",
    "cryptography.x509",
    "kubernetes.aio.client",
    "msgspec",
    "numpy",
    "prometheus_client",
    "rich.table",
    "structlog.testing",
    "uvloop",
    "yaml",
)
"""What most tests load, and takes longer than most of them."""
_FORK: Final = multiprocessing.get_context("fork")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)

_WRONGLY_ASKED: Final = 4
_NONE_LEFT: Final = 5
"""What pytest ends with when a file is not there, and when no test is left."""


class Planter:
    """Plants faults in a copy of the tree.

    Args:
        copy: an empty directory for the copy.
    """

    def __init__(self, copy: Path) -> None:
        self._copy = copy
        for name in _LOADED_BEFORE:
            importlib.import_module(name)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, copy / name, ignore=ignored, symlinks=True)
            else:
                shutil.copy(source, copy / name)

    def reach(self, places: Collection[Place]) -> dict[str, Timed]:
        """Maps places to the tests that reach them, in one run of all tests without a fault."""
        reach = Reach(self._copy, places)
        originals = {path: (self._copy / path).read_text() for path, _ in places}
        for path, text in originals.items():
            self._write(path, reach.marked(path, text))
        self._run(Watch(reach.passed), [*EVERYTHING, "-n", "2"], None)
        for path, text in originals.items():
            self._write(path, text)
        return reach.found()

    def noticed_by(self, path: Path, text: str, runs: Iterable[Timed]) -> str:
        """The first test that fails on a changed module; empty when none does.

        Args:
            path: of the module, relative to the root.
            text: the module with the fault.
            runs: tests that are run, one run after the other.
        """
        original = (self._copy / path).read_text()
        try:
            self._write(path, text)
            return next(filter(None, map(self._failing, runs)), "")
        finally:
            self._write(path, original)

    def _failing(self, tests: Timed) -> str:
        """The first of some tests that fails."""
        if not tests:
            return ""
        limit = sum(tests.values()) * TIMES_AS_LONG + AND_SECONDS
        return self._run(Chosen(tests), [*in_order(tests), "-x", "-n", "0"], limit)

    def _write(self, path: Path, text: str) -> None:
        """Change a module; its compiled form could pass for new within the same second."""
        target = self._copy / path
        target.write_text(text)
        for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*"):
            compiled.unlink()

    def _run(self, plugin: object, arguments: Sequence[str], limit: float | None) -> str:
        """Run tests; gives the first that fails, or what else went wrong."""
        output = self._copy / "output.txt"
        process = _FORK.Process(target=_run_tests, args=(self._copy, output, plugin, arguments))
        process.start()
        process.join(limit)
        if process.exitcode is None:
            os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()
            return "tests that hang"
        if process.exitcode in (0, _NONE_LEFT):
            return ""
        if process.exitcode == _WRONGLY_ASKED:
            sys.exit(output.read_text())
        found = _FAILED.search(output.read_text())
        return found[1] if found else f"the end of pytest ({process.exitcode})"


def _run_tests(copy: Path, output: Path, plugin: object, arguments: Sequence[str]) -> None:
    """In a process of its own, which begins with everything loaded that no fault is planted in."""
    os.setsid()
    os.chdir(copy)
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    # What is installed is the original: the copy must be found first.
    sys.path.insert(0, str(copy))
    os.environ["PYTHONPATH"] = str(copy)
    options = ["-q", "--tb=no", "-p", "no:cacheprovider"]
    sys.exit(pytest.main([*options, *arguments], plugins=[plugin]))


def modules_of(room: str) -> list[Path]:
    """The modules of a room, relative to the root."""
    place = ROOT / room if room == "apistub" else product_rooms()[room]
    found = place.rglob("*.py") if place.is_dir() else [place]
    return sorted(path.relative_to(ROOT) for path in found)


def rooms() -> list[str]:
    """Every room there is."""
    return [*sorted(product_rooms()), "apistub"]


def is_own(room: str, test: str) -> bool:
    """Whether a test is in the room's own folder or file."""
    return test.startswith((f"tests/unit/{room}/", f"tests/unit/test_{room}"))
