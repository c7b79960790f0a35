"""The tests that pages name as proofs are there, and limits they tell are those of the code."""

import re
from pathlib import Path

import pytest

from scheduler.api import limits

CHECKOUT = Path(__file__).parents[3]
PAGES = sorted((CHECKOUT / "docs").glob("*.md"))
SECURITY = (CHECKOUT / "docs" / "security.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_exist(page: Path) -> None:
    """File and function."""
    for file, name in re.findall(r"`((?:tests|e2e)/[\w/]+\.py)::(\w+)`", page.read_text()):
        assert re.search(rf"\bdef {name}\(", (CHECKOUT / file).read_text()), name


def test_every_guard_is_proved() -> None:
    """By a test, a family of parity, or not at all, which is said."""
    rows = [line for line in SECURITY.splitlines() if line.startswith("| ") and "::" not in line]

    unproved = [r for r in rows if "what stops it" not in r and "not guarded" not in r]

    assert len(SECURITY.split("::")) > 30
    assert [row for row in unproved if "parity family" not in row] == []


def test_limits_are_told() -> None:
    """Each number, in both pages that have them."""
    numbers = {f"{value:,}" for name, value in vars(limits).items() if name.startswith("MAX_")}
    for text in (SECURITY, (CHECKOUT / "docs" / "parity.md").read_text()):
        assert numbers <= set(re.findall(r"[\d,]*\d", text))
