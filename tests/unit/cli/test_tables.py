"""Tables that people read."""

import pytest

from scheduler.tools.cli.tables import grouped, print_table


def test_rows_that_differ_in_a_name_are_one() -> None:
    """Where they are more than a few; the others stay as they are, in their order."""
    rows = [(f"p{i}", "-", "n1") for i in range(6)] + [("q", "n2", "n1")]

    assert grouped(rows) == [("p0, p1 and 4 more", "-", "n1"), ("q", "n2", "n1")]
    assert grouped(rows[:4]) == rows[:4]


def test_numbers_stay_whole_and_stand_beside_the_first_line_of_a_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table gets wider than the terminal rather than losing a digit."""
    monkeypatch.setattr("scheduler.tools.cli.tables.terminal_width", lambda: 24)
    monkeypatch.setenv("NO_COLOR", "1")
    text = "a reason of more than twenty letters"

    print_table(("why", "nodes\nin all", "cpu"), [(text, "1234567", "100% -> 120%")])

    assert capsys.readouterr().out.splitlines() == [
        "                          nodes",
        "  why                    in all           cpu",
        "  a reason of more      1234567  100% -> 120%",
        "  than twenty letters",
    ]
