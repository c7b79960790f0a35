"""The life of an attempt as the table in docs/architecture.md, drawn from the code.

    python -m tests.unit.docs.attempt_table      # writes it there

The page has it between two lines of comment; what stands around them is written by people.
"""

from pathlib import Path
from typing import Final

from scheduler.engine.attempt import TAKEN, TRANSITIONS, AttemptEvent, AttemptState

PAGE: Final = Path(__file__).parents[3] / "docs" / "architecture.md"
BEGIN: Final = "<!-- drawn by: python -m tests.unit.docs.attempt_table -->"
END: Final = "<!-- end of what is drawn -->"


def table() -> str:
    """One line per state that something can follow, one column per event."""
    head = ["state", *(event.name.lower() for event in AttemptEvent), "`fail`, `leave` give back"]
    lines = [head, ["---"] * len(head)]
    for state in AttemptState:
        follows = [TRANSITIONS.get((state, event)) for event in AttemptEvent]
        if any(follows):
            cells = ["" if found is None else found.name for found in follows]
            taken = ", ".join(what.value for what in TAKEN[state])
            lines.append([f"**{state.name}**", *cells, taken or "nothing"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def written() -> str:
    """The page as it is to be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written())
