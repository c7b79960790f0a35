"""The table of waits leaves out no state in which an attempt waits, and names tests."""

from pathlib import Path

from scheduler.kernel.engine.attempt import ACQUIRED, UNDECIDED

PAGE = (Path(__file__).parents[3] / "docs" / "reliability.md").read_text()
WAITS = PAGE.partition("\n## Waits\n")[2].partition("\n## ")[0]


def test_each_wait_has_its_test() -> None:
    """`test_security.py` checks that the tests exist."""
    rows = [line for line in WAITS.splitlines() if line.startswith("| ") and "::" not in line]

    assert [row for row in rows if "| test |" not in row] == []
    assert WAITS.count("\n| ") > 40


def test_each_state_that_waits_is_told() -> None:
    """An attempt leaves the others in the step in which it enters them."""
    first_cells = " ".join(line.split("|")[1] for line in WAITS.splitlines() if "|" in line)

    waiting = {state.name for state in ACQUIRED.keys() - UNDECIDED}
    assert {name for name in waiting if name not in first_cells} == set()
