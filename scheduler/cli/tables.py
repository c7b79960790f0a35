"""Tables for people: plain columns that survive a pipe."""

import re
from collections.abc import Container, Iterable, Sequence
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from scheduler.observability.visible import visible

_WIDE: Final = 4000
"""Tables are as wide as what is in them; a terminal wraps better than we would."""
_HEADER_WIDTH: Final = 12


def print_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, texts: Container[int] = (0,)
) -> None:
    """Print rows under headers; the columns in `texts` are texts, the others numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for i, header in enumerate(headers):
        table.add_column(
            header, justify="left" if i in texts else "right", vertical="bottom", no_wrap=True
        )
    for row in rows:
        table.add_row(*map(visible, row))
    console = Console(width=_WIDE, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        click.echo(f"  {line.rstrip()}")


def plugin_header(name: str, weight: int | None = None) -> str:
    """A plugin's name on as many lines as make a narrow column."""
    lines = [""]
    for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^A-Z]+", name):
        if lines[-1] and len(lines[-1]) + len(word) > _HEADER_WIDTH:
            lines.append("")
        lines[-1] += word
    if weight is not None:
        lines.append(f"x{weight}")
    return "\n".join(lines)
