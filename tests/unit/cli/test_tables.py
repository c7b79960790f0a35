"""Tables that people read."""

from scheduler.tools.cli.tables import grouped


def test_rows_that_differ_in_a_name_are_one() -> None:
    """Where they are more than a few; the others stay as they are, in their order."""
    rows = [(f"p{i}", "-", "n1") for i in range(6)] + [("q", "n2", "n1")]

    assert grouped(rows) == [("p0, p1 and 4 more", "-", "n1"), ("q", "n2", "n1")]
    assert grouped(rows[:4]) == rows[:4]
