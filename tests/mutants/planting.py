"""A copy of the working tree in which one fault at a time is planted, and tests that look."""

import importlib
import multiprocessing
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

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
"""What tests read; the working tree itself is not touched."""

NEAREST_SECONDS: Final = 600.0
"""How long the tests that speak of a module may take."""
TIMES_AS_LONG: Final = 4.0
AND_SECONDS: Final = 60.0
"""A fault that makes a whole group of tests take so much longer has made them hang."""

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

Group = tuple[str, ...]
"""Test files, or names of tests, that one run of pytest takes."""


class Planter:
    """Plants faults in a copy.

    Args:
        copy: an empty directory, where the copy is to be.
    """

    def __init__(self, copy: Path) -> None:
        self._copy = copy
        for name in _LOADED_BEFORE:
            importlib.import_module(name)
        self._usual: dict[Group, float] = {}
        """How many seconds a group takes without a fault."""
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, copy / name, ignore=ignored, symlinks=True)
            else:
                shutil.copy(source, copy / name)

    def noticed_by(self, path: Path, text: str, nearest: Group, groups: Sequence[Group]) -> str:
        """The first test that fails on a changed module; empty when none does.

        Args:
            path: of the module, relative to the root.
            text: the module with the fault.
            nearest: what is run first.
            groups: what is run then, one after the other.
        """
        original = (self._copy / path).read_text()
        try:
            self._write(path, text)
            noticed = nearest and self._run(nearest, NEAREST_SECONDS)
            for group in groups:
                if noticed:
                    break
                if group not in self._usual:
                    self._write(path, original)
                    self._usual[group] = self._measured(group)
                    self._write(path, text)
                noticed = self._run(group, self._usual[group] * TIMES_AS_LONG + AND_SECONDS)
            return noticed or ""
        finally:
            self._write(path, original)

    def _measured(self, group: Group) -> float:
        """See that a group passes without a fault; gives the seconds it takes."""
        start = time.perf_counter()
        failed = self._run(group, None)
        if failed:
            sys.exit(f"{failed} fails without any fault")
        return time.perf_counter() - start

    def _write(self, path: Path, text: str) -> None:
        """Change a module; its compiled form could pass for new within the same second."""
        target = self._copy / path
        target.write_text(text)
        for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*"):
            compiled.unlink()

    def _run(self, group: Group, limit: float | None) -> str:
        """Run tests; gives the first that fails, or what else went wrong."""
        said = self._copy / "said.txt"
        process = _FORK.Process(target=_run_tests, args=(self._copy, said, group))
        process.start()
        process.join(limit)
        if process.exitcode is None:
            os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()
            return "tests that hang"
        if not process.exitcode:
            return ""
        found = _FAILED.search(said.read_text())
        return found[1] if found else f"the end of pytest ({process.exitcode})"


def _run_tests(copy: Path, said: Path, group: Group) -> None:
    """In a process of its own, which begins with everything loaded that no fault is planted in."""
    os.setsid()
    os.chdir(copy)
    with said.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    # What is installed is the original: the copy must be found first.
    sys.path.insert(0, str(copy))
    os.environ["PYTHONPATH"] = str(copy)
    options = ["-q", "-x", "-n", "0", "--tb=no", "-p", "no:cacheprovider"]
    sys.exit(pytest.main([*options, *group]))


def modules_of(room: str) -> list[Path]:
    """The modules of a room, relative to the root."""
    if room == "apistub":
        found = (ROOT / room).rglob("*.py")
    elif (ROOT / "scheduler" / room).is_dir():
        found = (ROOT / "scheduler" / room).rglob("*.py")
    else:
        found = (ROOT / "scheduler").glob(f"{room}.py")
    return sorted(path.relative_to(ROOT) for path in found)


def rooms() -> list[str]:
    """Every room there is."""
    inside = [path for path in (ROOT / "scheduler").iterdir() if not path.name.startswith("__")]
    return [
        *sorted(path.stem for path in inside if path.is_dir() or path.suffix == ".py"),
        "apistub",
    ]


class RoomTests:
    """Which tests look at a room.

    Attributes:
        own: the room's own, by file.
        others: other unit tests that import from the room.
        rest: what else `make test` runs, but for the tests of the pages and of the planter.
    """

    def __init__(self, room: str) -> None:
        package = room if room == "apistub" else f"scheduler.{room}"
        files = sorted((ROOT / "tests").rglob("test_*.py"))
        text = {_name(file): file.read_text() for file in files}
        for left_out in ("tests/mutants/", "tests/unit/docs/", "tests/unit/test_makefile"):
            text = {name: words for name, words in text.items() if not name.startswith(left_out)}
        self._text = text
        self.own = [
            name
            for name in text
            if name.startswith((f"tests/unit/{room}/", f"tests/unit/test_{room}"))
        ]
        imports = re.compile(rf"\b{re.escape(package)}\b")
        self.others = [
            name
            for name, words in text.items()
            if name.startswith("tests/unit/") and name not in self.own and imports.search(words)
        ]
        known = {*self.own, *self.others}
        self.rest = [name for name in text if name not in known] + ["examples"]

    def groups(self) -> list[Group]:
        """In the order in which they are run, the quickest first."""
        return [tuple(group) for group in (self.own, self.others, self.rest) if group]

    def nearest(self, module: Path) -> Group:
        """Those of the first group that speak of a module."""
        dotted = ".".join(module.with_suffix("").parts)
        return tuple(
            name
            for name in (self.own or self.others)
            if dotted in self._text[name] or module.stem in Path(name).stem
        )


def _name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()
