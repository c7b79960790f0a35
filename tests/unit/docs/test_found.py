"""The findings that `tests.mutants.undone` goes through are still as it says, and are told."""

import re
from pathlib import Path

import pytest

from tests.mutants.undone import FOUND, Undone

CHECKOUT = Path(__file__).parents[3]
PAGES = "".join(
    (CHECKOUT / "docs" / name).read_text() for name in ("reliability.md", "security.md")
)


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.finding)
def test_a_fix_can_be_undone_and_has_its_test(found: Undone) -> None:
    """The piece of it is there, once; so is the test, and a page names it."""
    file, *_, name = found.test.split("::")

    assert (CHECKOUT / found.path).read_text().count(found.fix) == 1
    assert re.search(rf"\bdef {name}\(", (CHECKOUT / file).read_text())
    assert f"`{file}::{name}`" in PAGES
