"""Plants small faults, one at a time, and reports which test fails.

    python -m tests.mutants --room queue --count 30    # random ones; --room all for every room
    python -m tests.mutants --named                    # those of tests/mutants/named.py

A fault is noticed when a test of `make test` fails; the room's own tests are run first, then those
of others that import from it, then the rest. The seed draws the same faults again.
"""

import argparse
import ast
import json
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

from tests.mutants.faults import Fault, faults_in
from tests.mutants.named import FAULTS
from tests.mutants.planting import ROOT, Planter, is_own, modules_of, rooms
from tests.mutants.reach import Place, Timed

SECONDS: Final = 60.0
"""Assumed duration of a test without a measured time."""


def drawn(room: str, seed: int, count: int) -> list[tuple[Path, int]]:
    """Returns different faults of a room at random, as module and number."""
    places = [
        (path, number)
        for path in modules_of(room)
        for number in range(len(faults_in(ast.parse((ROOT / path).read_text()))))
    ]
    return Random(f"{seed} {room}").sample(places, min(count, len(places)))


def planted(path: Path, number: int) -> tuple[str, Fault]:
    """Returns a module's text with one fault, and the fault."""
    tree = ast.parse((ROOT / path).read_text())
    fault = faults_in(tree)[number]
    fault.plant()
    return ast.unparse(ast.fix_missing_locations(tree)), fault


def try_room(
    planter: Planter,
    room: str,
    places: Sequence[tuple[Path, int]],
    reach: Mapping[str, Timed],
    told: Sequence[str],
) -> int:
    """Plant faults in a room, tell what came of each, and give how many were noticed.

    Args:
        planter: plants.
        room: whose faults; its own tests are run first.
        places: the faults, as module and number in it.
        reach: which tests come by which line.
        told: run these tests instead.
    """
    noticed = 0
    for number, (path, which) in enumerate(places):
        text, fault = planted(path, which)
        tests = dict.fromkeys(told, SECONDS) or reach[f"{path}:{fault.line}"]
        own = {name: seconds for name, seconds in tests.items() if is_own(room, name)}
        rest = {name: seconds for name, seconds in tests.items() if name not in own}
        test = planter.noticed_by(path, text, (own, rest))
        noticed += bool(test)
        outcome = f"noticed by {test}" if test else f"MISSED by {len(own)} and {len(rest)}"
        print(f"{number:3} {path}:{fault.line}  {fault.what}\n        {outcome}", flush=True)
    return noticed


def try_named(planter: Planter) -> list[str]:
    """Plants the named faults; returns those that their test does not detect."""
    missed = []
    for fault in FAULTS:
        test = planter.noticed_by(fault.module, fault.planted(), [{fault.test: SECONDS}])
        print(f"{'noticed' if test else 'MISSED '}  {fault.what}", flush=True)
        if not test:
            missed.append(fault.what)
    return missed


def reached(
    planter: Planter, file: Path | None, drawn_ones: Collection[Place]
) -> Mapping[str, Timed]:
    """Maps places to the tests that reach them; measured once if a file for the result is given."""
    if file and file.exists():
        return json.loads(file.read_text())
    found = planter.reach(drawn_ones)
    if file:
        file.write_text(json.dumps(found))
    return found


def main() -> int:
    """Run the command line; see the module."""
    told = _arguments()
    with tempfile.TemporaryDirectory() as copy:
        planter = Planter(Path(copy))
        if told.named:
            return 1 if try_named(planter) else 0
        seed = Random().randrange(10**6) if told.seed is None else told.seed
        print(f"seed {seed}", flush=True)
        chosen = {
            room: drawn(room, seed, told.count)
            for room in (rooms() if told.room == ["all"] else told.room)
        }
        places = [
            (path, planted(path, at)[1].line) for each in chosen.values() for path, at in each
        ]
        reach = {} if told.tests else reached(planter, told.reach, places)
        for room, drawn_ones in chosen.items():
            faults = [drawn_ones[number] for number in told.only or range(len(drawn_ones))]
            noticed = try_room(planter, room, faults, reach, told.tests or ())
            print(f"{room}: {noticed} of {len(faults)} noticed", flush=True)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--room", action="append", choices=[*rooms(), "all"], metavar="ROOM")
    what.add_argument("--named", action="store_true", help="plant the faults that have a name")
    parser.add_argument("--seed", type=int, default=None, help="draw the same faults again")
    parser.add_argument("--count", type=int, default=30, help="faults per room")
    parser.add_argument("--only", type=int, action="append", help="of these, by number")
    parser.add_argument("--tests", action="append", help="run these and no others")
    parser.add_argument("--reach", type=Path, help="keep here, or take, who comes by which line")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
