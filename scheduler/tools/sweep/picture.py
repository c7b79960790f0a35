"""Draws the Pareto front of waiting and nodes in use, as PNG and as one HTML page."""

import html
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from matplotlib import rc_context
from matplotlib.figure import Figure

from scheduler.errors import os_reason
from scheduler.tools.offline.reading import InputError
from scheduler.tools.sweep.ranking import Standing, meanings

PNG: Final = "front.png"
PAGE: Final = "front.html"

_FRONT, _OTHER, _RECORDED = "#0b6e4f", "#b8bec6", "#c2410c"
_LABELLED: Final = 8
"""Points at most of the front with their names; the page lists all."""

_STYLE: Final = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
figure { margin: 1rem 0; background: #fff; } svg { width: 100%; height: auto; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid #8884; text-align: right; }
th, td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } tr.front td { font-weight: 600; }
"""


def write_pictures(standings: Sequence[Standing], directory: Path, recorded: str) -> list[Path]:
    """Write `front.png` and `front.html`; `recorded` is the candidate to compare with, if any.

    Raises:
        InputError: the files cannot be written.
    """
    figure = _figure(standings, recorded)
    drawing, picture = io.StringIO(), io.BytesIO()
    # No date and no random ids, so that equal results make equal files.
    with rc_context({"svg.hashsalt": "stowage"}):
        figure.savefig(drawing, format="svg", metadata={"Date": None})
    figure.savefig(picture, format="png", dpi=144, metadata={"Software": None})
    page = _page(standings, drawing.getvalue(), recorded)
    written = [directory / PNG, directory / PAGE]
    try:
        written[0].write_bytes(picture.getvalue())
        written[1].write_text(page, encoding="utf-8")
    except OSError as problem:
        raise InputError(f"{directory}: {os_reason(problem)}") from problem
    return written


def _figure(standings: Sequence[Standing], recorded: str) -> Figure:
    what_ifs = sorted({standing.what_if for standing in standings})
    figure = Figure(figsize=(8.5, 4.6 * len(what_ifs)), layout="constrained")
    axes = figure.subplots(len(what_ifs), 1, squeeze=False)
    for axis, what_if in zip(axes[:, 0], what_ifs, strict=True):
        asked = [s for s in standings if s.what_if == what_if]
        here = [s for s in asked if not s.left_out]
        groups = (
            ([s for s in here if not s.is_on_front], _OTHER, 18, "other configurations"),
            ([s for s in here if s.is_on_front], _FRONT, 46, "best"),
            ([s for s in here if s.config == recorded], _RECORDED, 70, "as recorded"),
        )
        for group, colour, size, label in groups:
            if group:
                points = [s.nodes for s in group], [s.wait_p99 for s in group]
                axis.scatter(*points, s=size, color=colour, label=label, zorder=2)
        front = sorted((s for s in here if s.is_on_front), key=lambda s: s.nodes)
        axis.step([s.nodes for s in front], [s.wait_p99 for s in front], where="post",
                  color=_FRONT, linewidth=1, zorder=1)  # fmt: skip
        for standing in front[:_LABELLED]:
            axis.annotate(
                standing.config,
                (standing.nodes, standing.wait_p99),
                xytext=(6, 6),
                textcoords="offset points",
                fontsize=7,
                parse_math=False,
            )
        title = what_if or "The cluster as it was"
        axis.set_title(title, loc="left", fontsize=10, parse_math=False)
        if len(here) < len(asked):
            left_out = f"not shown: {len(asked) - len(here)} of {len(asked)}"
            axis.set_title(left_out, loc="right", fontsize=8)
        axis.set_xlabel("nodes with a pod on them, mean")
        axis.set_ylabel("wait until placed, p99, seconds")
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        if here:
            axis.legend(fontsize=8, frameon=False)
    return figure


def _page(standings: Sequence[Standing], drawing: str, recorded: str) -> str:
    svg = drawing[drawing.index("<svg") :]
    rows = "\n".join(_rows(standings, recorded))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Stowage sweep</title>
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>{_STYLE}</style></head><body>
<h1>Which configuration waits least, on the fewest nodes</h1>
<p>Each point is one configuration, replayed over all recordings. No other one is better in both
directions than those on the line. Bold rows are on it.{_left_out(standings)}</p>
<figure role="img" aria-label="Waiting against nodes in use">{svg}</figure>
<div class="scroll"><table><thead><tr><th>configuration</th><th>what if</th><th>wait p50</th>
<th>wait p99</th><th>nodes</th><th>CPU requested</th><th>free CPU unusable</th><th>pending</th>
<th>victims</th><th>moves</th></tr></thead><tbody>
{rows}
</tbody></table></div></body></html>
"""


def _left_out(standings: Sequence[Standing]) -> str:
    return "".join(
        f" {each.capitalize()}; such rows are no points." for each in meanings(standings)
    )


def _rows(standings: Sequence[Standing], recorded: str) -> Iterator[str]:
    for standing in standings:
        name = html.escape(standing.config)
        cells = (
            f"{name} (as recorded)" if standing.config == recorded else name,
            html.escape(standing.what_if) or "-",
            *standing.wait_texts,
            f"{standing.nodes:.1f}",
            f"{standing.cpu:.1%}",
            f"{standing.free_cpu_unusable:.1%}",
            str(standing.pending),
            str(standing.victims),
            str(standing.moves),
        )
        mark = ' class="front"' if standing.is_on_front else ""
        yield f"<tr{mark}>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
