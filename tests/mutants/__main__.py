"""Plants small random faults, one at a time, and tells which the tests notice.

Rooms are the packages under `scheduler/`. The working tree is copied; it is not touched itself.
"""

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from tests.mutants.faults import Fault, faults_in

ROOT: Final = Path(__file__).parents[2]
COPIED: Final = ("scheduler", "tests", "pyproject.toml")
ALSO_TESTED_BY: Final = {
    "api": ("snapshot", "plugins"),
    "bootstrap": ("engine",),
    "cache": ("engine",),
    "engine": ("bootstrap",),
    "queue": ("engine",),
    "snapshot": ("plugins", "cache"),
}
"""Rooms whose tests are run after a room's own."""


class Planter:
    """A copy of the tree in which one fault at a time is planted.

    Args:
        copy: where the copy is to be.
        seconds: how long the tests of one fault may take; a fault that makes them hang is noticed.
    """

    def __init__(self, copy: Path, seconds: float) -> None:
        self._copy = copy
        self._seconds = seconds
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / name)

    def is_noticed(self, path: Path, tree: ast.Module, tests: Sequence[str]) -> bool:
        """Whether one of the groups of tests fails on a changed module."""
        original = (self._copy / path).read_text()
        self._write(path, ast.unparse(ast.fix_missing_locations(tree)))
        try:
            return any(not self.passes(group) for group in tests)
        finally:
            self._write(path, original)

    def _write(self, path: Path, text: str) -> None:
        """Change a module; its compiled form could pass for new within the same second."""
        target = self._copy / path
        target.write_text(text)
        for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*"):
            compiled.unlink()

    def passes(self, tests: str) -> bool:
        """Whether a group of tests passes in time."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
        # What is installed is the original: the copy must be found first.
        env = {**os.environ, "PYTHONPATH": str(self._copy)}
        try:
            done = subprocess.run(
                [*command, tests],
                cwd=self._copy,
                env=env,
                capture_output=True,
                timeout=self._seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def modules_of(room: str) -> list[Path]:
    """The modules of a room, relative to the root."""
    return sorted(path.relative_to(ROOT) for path in (ROOT / "scheduler" / room).rglob("*.py"))


def tests_of(room: str, *, scenario: bool) -> list[str]:
    """The tests that may notice a fault in a room, the quickest first."""
    rooms = (room, *ALSO_TESTED_BY.get(room, ()))
    tests = [f"tests/unit/{name}" for name in rooms if (ROOT / "tests" / "unit" / name).is_dir()]
    tests += [
        str(p.relative_to(ROOT)) for p in sorted((ROOT / "tests/unit").glob(f"test_{room}.py"))
    ]
    return tests + ["tests/scenario"] * scenario


def drawn(room: str, draw: Random, count: int) -> list[tuple[Path, int]]:
    """Different faults of a room, as module and number in it, each as likely as the others."""
    places = [
        (path, number)
        for path in modules_of(room)
        for number in range(len(faults_in(ast.parse((ROOT / path).read_text()))))
    ]
    return draw.sample(places, min(count, len(places)))


def planted(path: Path, number: int) -> tuple[ast.Module, Fault]:
    """A module with the fault of that number in it."""
    tree = ast.parse((ROOT / path).read_text())
    fault = faults_in(tree)[number]
    fault.plant()
    return tree, fault


def try_room(planter: Planter, room: str, draw: Random, count: int, *, scenario: bool) -> float:
    """Plant faults in a room; tells each, and gives the share that was noticed."""
    tests = tests_of(room, scenario=scenario)
    for group in tests:
        if not planter.passes(group):
            sys.exit(f"{group} fails (or takes too long) without any fault")
    places = drawn(room, draw, count)
    noticed = 0
    for path, number in places:
        tree, fault = planted(path, number)
        found = planter.is_noticed(path, tree, tests)
        noticed += found
        print(f"{'noticed' if found else 'MISSED '}  {path}:{fault.line}  {fault.what}", flush=True)
    return noticed / len(places) if places else 1.0


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--room", action="append", required=True, help="a package of scheduler/")
    parser.add_argument("--seed", type=int, default=None, help="draw the same faults again")
    parser.add_argument("--count", type=int, default=30, help="faults per room")
    parser.add_argument("--seconds", type=float, default=120.0, help="time limit of each run")
    parser.add_argument("--scenario", action="store_true", help="run the scenario tests, too")
    told = parser.parse_args()
    seed = Random().randrange(10**6) if told.seed is None else told.seed
    print(f"seed {seed}")
    shares = {}
    with tempfile.TemporaryDirectory() as copy:
        planter = Planter(Path(copy), told.seconds)
        for room in told.room:
            draw = Random(f"{seed} {room}")
            shares[room] = try_room(planter, room, draw, told.count, scenario=told.scenario)
    for room, share in shares.items():
        print(f"{room}: {share:.0%} noticed")


if __name__ == "__main__":
    main()
