"""Tables for people: plain columns that survive a pipe, and fit a terminal."""

import os
import re
import shutil
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from scheduler.observability.visible import visible
from scheduler.tools.cli.echo import echo
from scheduler.tools.offline.utilisation import UtilisationChange

_WIDE: Final = 4000
"""In a pipe, tables are as wide as their content."""
_INDENT: Final = 2
_GAP: Final = 2
_NARROWEST_TEXT: Final = 20
_HEADER_WIDTH: Final = 12
_NAMES_SHOWN: Final = 5
_NAMES_IN_ROW: Final = 2
_ROWS_ALIKE: Final = 4
"""Most rows that differ in one name and are still shown one by one."""


def print_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, texts: Container[int] = (0,)
) -> None:
    """Print rows under headers; the columns in `texts` are texts, the others numbers.

    On a terminal, texts that are too long for its width are folded. Numbers stay whole, even if the
    table gets wider than the terminal.
    """
    headers = [visible(header) for header in headers]
    rows = [tuple(map(visible, row)) for row in rows]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    width = terminal_width()
    height = max(header.count("\n") for header in headers)
    for i, header in enumerate(headers):
        is_text = i in texts
        table.add_column(
            "\n" * (height - header.count("\n")) + header,
            justify="left" if is_text else "right",
            no_wrap=width is None or not is_text,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*row)
    is_colored = width is not None and "NO_COLOR" not in os.environ
    console = Console(
        width=_WIDE if width is None else max(width - _INDENT, _least_width(headers, rows, texts)),
        color_system="standard" if is_colored else None,
        force_terminal=is_colored,
        highlight=False,
        markup=False,
        emoji=False,
    )
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        echo(f"{' ' * _INDENT}{line.rstrip()}")


def grouped(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Rows that differ in their first column only, as one where they are more than a few.

    They stand where the first of them stood.
    """
    names_of: dict[tuple[str, ...], list[str]] = {}
    for name, *rest in rows:
        names_of.setdefault(tuple(rest), []).append(name)
    found: list[tuple[str, ...]] = []
    for others, names in names_of.items():
        if len(names) > _ROWS_ALIKE:
            first = ", ".join(names[:_NAMES_IN_ROW])
            found.append((f"{first} and {len(names) - _NAMES_IN_ROW} more", *others))
        else:
            found += ((name, *others) for name in names)
    return found


def print_use(
    use: Mapping[str, Mapping[str, UtilisationChange]], nodes: Mapping[str, int] | None = None
) -> None:
    """Print the requested share by zone and resource, with the number of nodes if it is given."""
    resources = list(dict.fromkeys(name for shares in use.values() for name in shares))
    counts = {} if nodes is None else {zone: (str(nodes[zone]),) for zone in use}
    rows = [
        (zone, *counts.get(zone, ()), *(_change(shares.get(name)) for name in resources))
        for zone, shares in use.items()
    ]
    if not rows:
        return
    echo("Requested of what the nodes have, before and after:")
    print_table(("zone", *(("nodes",) if counts else ()), *resources), rows)


def print_by_reason(pods: Iterable[tuple[str, str]], one: str, several: str) -> None:
    """Print pods with the same outcome by reason, the most frequent reason first.

    Args:
        pods: all of them, each as reason and name.
        one: the outcome of one pod, as in `stays pending`.
        several: the same for several pods.
    """
    by_reason: dict[str, list[str]] = {}
    for reason, name in pods:
        by_reason.setdefault(reason, []).append(name)
    for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        count = f"1 pod {one}" if len(names) == 1 else f"{len(names)} pods {several}"
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        echo(f"{count}: {reason or 'no reason is known'}")
        echo(f"  {', '.join(names[:_NAMES_SHOWN])}{more}\n")


def _change(share: UtilisationChange | None) -> str:
    if share is None or share.after is None:
        return "-"
    before = 0.0 if share.before is None else share.before
    texts = (f"{before:.0%}", f"{share.after:.0%}")
    if texts[0] == texts[1] and before != share.after:
        # Of a large cluster a few pods are less than a percent.
        texts = (f"{before:.1%}", f"{share.after:.1%}")
    return " -> ".join(dict.fromkeys(texts))


def terminal_width() -> int | None:
    """Return the number of characters per line; None if the output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def fits(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, texts: Container[int] = ()
) -> bool:
    """Whether a table can be shown on the terminal if only the columns in `texts` are folded."""
    width = terminal_width()
    return width is None or _INDENT + _least_width(headers, rows, texts) <= width


def _least_width(
    headers: Sequence[str], rows: Iterable[Sequence[str]], texts: Container[int]
) -> int:
    """Return the width of a table whose texts are folded as narrowly as they can be read."""
    total = -_GAP
    for i, column in enumerate(zip(headers, *rows, strict=True)):
        widest = max(cell_len(line) for cell in column for line in cell.split("\n"))
        total += _GAP + (min(widest, _NARROWEST_TEXT) if i in texts else widest)
    return total


def plugin_header(name: str, weight: int | None = None) -> str:
    """A plugin's name, or an extender's URL, on as many lines as make a narrow column."""
    lines = [""]
    for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^A-Z/.]+[/.]*|[/.]+", name):
        if lines[-1] and len(lines[-1]) + len(word) > _HEADER_WIDTH:
            lines.append("")
        lines[-1] += word
    if weight is not None:
        lines.append(f"x{weight}")
    return "\n".join(lines)
