"""What pages have from the code is what the code says: rooms, imports, attempts, faults."""

import configparser
import re
from pathlib import Path

from tests.rooms import WINGS, path_of, rooms
from tests.unit.docs.drawn import (
    BEGIN,
    BEGIN_CALLS,
    BEGIN_LANES,
    END,
    PAGE,
    TESTING,
    calls,
    faults,
    lanes,
    table,
)

CHECKOUT = Path(__file__).parents[3]
TEXT = PAGE.read_text()


def section(heading: str) -> str:
    """What stands under a heading."""
    return re.split(rf"^## {heading}.*$", TEXT, flags=re.MULTILINE)[1].split("\n## ")[0]


def test_the_table_of_an_attempt_is_the_codes() -> None:
    """`make docs` draws it again."""
    assert drawn_in(TEXT) == table()


def test_the_tables_of_lanes_calls_and_probes_are_the_codes() -> None:
    """`make docs` draws them again."""
    assert drawn_in(TEXT, BEGIN_LANES) == lanes()
    assert drawn_in(TEXT, BEGIN_CALLS) == calls()


def test_the_faults_that_have_a_name_are_those_that_are_planted() -> None:
    """`make docs` draws them again; `make mutants ROOM=named` plants them."""
    assert drawn_in(TESTING.read_text()) == faults()


def drawn_in(text: str, begin: str = BEGIN) -> str:
    """What stands between the two lines of comment."""
    return text.partition(begin)[2].partition(END)[0].strip()


def test_every_room_is_on_the_map() -> None:
    """And nothing else; a module at the top counts as a room."""
    rows = [line.split("|")[1] for line in section("Code map").splitlines() if line[:3] == "| `"]
    mapped = {name.rstrip("/") for row in rows for name in re.findall(r"`([a-z_/]+)`", row)}

    assert mapped == {path_of(room) for room in rooms()}


def test_the_order_of_imports_is_the_contracts() -> None:
    """As `.importlinter` has it, from the top."""
    contracts = configparser.ConfigParser()
    contracts.read(CHECKOUT / ".importlinter")
    for wing in ("wings", *WINGS):
        layers = contracts[f"importlinter:contract:{wing}"]["layers"].split("\n")
        wanted = [set(re.findall(r"\w+", layer)) for layer in layers if layer.strip()]
        told = re.search(rf"^- {wing}: (.* \u203a .*)$", TEXT, re.MULTILINE)
        assert told is not None, wing

        assert [set(re.findall(r"\w+", layer)) for layer in told[1].split("\u203a")] == wanted
