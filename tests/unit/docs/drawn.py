"""What pages have from the code: tables of states and of lanes, lines per room, faults.

    python -m tests.unit.docs.drawn      # writes them there

Tables stand between two lines of comment; the lines of a room in the code map.
"""

import re
from pathlib import Path
from typing import Final

from scheduler.daemon.driver.lanes import CONCURRENCY, LANES
from scheduler.kernel.engine.attempt import ACQUIRED, TRANSITIONS, AttemptEvent, AttemptState
from scheduler.kernel.extender.calls import CALL_TRANSITIONS, CallEvent, CallState
from tests.mutants.named import FAULTS
from tests.unit.docs import not_here

CHECKOUT: Final = Path(__file__).parents[3]
PAGE: Final = CHECKOUT / "docs" / "architecture.md"
TESTING: Final = CHECKOUT / "docs" / "testing.md"
PARITY: Final = CHECKOUT / "docs" / "parity.md"
BEGIN: Final = "<!-- drawn by: python -m tests.unit.docs.drawn -->"
BEGIN_CALLS: Final = "<!-- drawn, calls, by: python -m tests.unit.docs.drawn -->"
BEGIN_LANES: Final = "<!-- drawn, lanes, by: python -m tests.unit.docs.drawn -->"
BEGIN_NOT_HERE: Final = "<!-- drawn, not here, by: python -m tests.unit.docs.drawn -->"
END: Final = "<!-- end of what is drawn -->"


def table() -> str:
    """One line per state that something can follow, one column per event."""
    head = ["state", *(event.name.lower() for event in AttemptEvent), "`fail`, `abandon` give back"]
    lines = [head, ["---"] * len(head)]
    for state in AttemptState:
        follows = [TRANSITIONS.get((state, event)) for event in AttemptEvent]
        if any(follows):
            cells = ["" if found is None else found.name for found in follows]
            taken = ", ".join(what.value for what in ACQUIRED[state])
            lines.append([f"**{state.name}**", *cells, taken or "nothing"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def calls() -> str:
    """One line per state of the calls to extenders, one column per event."""
    lines = [["state", *(event.value for event in CallEvent)]]
    lines.append(["---"] * len(lines[0]))
    for state in CallState:
        found = [CALL_TRANSITIONS.get((state, event)) for event in CallEvent]
        if any(found):
            cells = ["" if to is None else to.name for to in found]
            lines.append([f"**{state.name}**", *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def lanes() -> str:
    """One line per lane of the outbox, in the order in which they are served."""
    lines = ["| lane | leaves while fewer are under way | of | needs room for its event |"]
    lines.append("| --- | ---: | --- | --- |")
    for lane in LANES:
        most, room = lane.share.at_a_time(CONCURRENCY), "yes" if lane.brings_event else ""
        lines.append(f"| {lane.name} | {most} | {lane.share.value} | {room} |")
    return "\n".join(lines)


def faults() -> str:
    """One line per fault that has a name, and the test that notices it."""
    lines = ["| fault | where | noticed by |", "| --- | --- | --- |"]
    for fault in FAULTS:
        file, _, name = fault.test.partition("::")
        test = f"`{file}`, `{name.replace('::', '.')}`" if name else f"`{file}`"
        lines.append(f"| {fault.what} | `{fault.module}` | {test} |")
    return "\n".join(lines)


def with_table(text: str, table: str, begin: str = BEGIN) -> str:
    """A page with what is drawn between the two lines of comment."""
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(END)
    return f"{before}{begin}\n{table}\n{END}{after}"


def lines_of(package: str) -> int:
    """Lines of Python, blank ones and docstrings included."""
    files = (CHECKOUT / package).rglob("*.py")
    return sum(len(file.read_text().splitlines()) for file in files)


def _with_lines(text: str) -> str:
    """The page with the lines of each room, of `scheduler/` and of `apistub/`."""
    text = re.sub(
        r"^(\| `([\w/]+)/` \|) [\d,]+ \|",
        lambda found: f"{found[1]} {lines_of(f'scheduler/{found[2]}'):,} |",
        text,
        flags=re.MULTILINE,
    )
    return re.sub(
        r"(`(scheduler|apistub)/` has) [\d,]+",
        lambda found: f"{found[1]} {lines_of(found[2]):,}",
        text,
    )


if __name__ == "__main__":
    page = with_table(_with_lines(PAGE.read_text()), table())
    page = with_table(page, lanes(), BEGIN_LANES)
    PAGE.write_text(with_table(page, calls(), BEGIN_CALLS))
    PARITY.write_text(with_table(PARITY.read_text(), not_here.table(), BEGIN_NOT_HERE))
    TESTING.write_text(with_table(TESTING.read_text(), faults()))
