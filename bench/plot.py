"""Draws pods per second of every workload as a bar chart in SVG."""

from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from bench.contestants import KUBE_SCHEDULER, STOWAGE, WALL, WALL_WITH_EVENTS
from bench.results import Throughput
from bench.summary import median_of, throughput_groups

_COLOURS: Final = {
    KUBE_SCHEDULER: "#8a94a6",
    STOWAGE: "#2f6fde",
    WALL: "#d9b44a",
    WALL_WITH_EVENTS: "#b98d1f",
}
_BAR: Final = 9
_GAP: Final = 9
_LEFT: Final = 370
_WIDTH: Final = 1000
_TOP: Final = 46
_STEPS: Final = (1, 2, 5)
_TICKS: Final = 6


class _Line(NamedTuple):
    title: str
    bars: list[tuple[str, float]]


def draw_throughput(runs: list[Throughput], titles: dict[str, str]) -> str:
    """Return an SVG bar chart of the medians of ``runs``, all of one size."""
    lines = [
        _Line(
            titles.get(next(iter(group.values()))[0].workload, ""),
            [
                (contestant, median_of(group[contestant], lambda run: run.pods_per_second) or 0.0)
                for contestant in _COLOURS
                if contestant in group
            ],
        )
        for group in throughput_groups(runs)
    ]
    most = max((value for line in lines for _, value in line.bars), default=1.0)
    scale = (_WIDTH - _LEFT - 60) / most
    parts: list[str] = []
    y = _TOP
    for line in lines:
        height = _BAR * len(line.bars)
        parts.append(_text(_LEFT - 8, y + height / 2 + 4, line.title, "end"))
        for contestant, value in line.bars:
            parts.append(
                f'<rect x="{_LEFT}" y="{y}" width="{value * scale:.1f}" height="{_BAR - 1}" '
                f'fill="{_COLOURS[contestant]}"/>'
            )
            parts.append(_text(_LEFT + value * scale + 4, y + _BAR - 1, f"{value:.0f}", size=9))
            y += _BAR
        y += _GAP
    grid = [_grid_line(value, scale, y) for value in _grid(most)]
    size = f'width="{_WIDTH}" height="{y + 10}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">',
            f'<rect {size} fill="white"/>',
            *grid,
            *_legend(lines),
            *parts,
            "</svg>\n",
        ]
    )


def _legend(lines: list[_Line]) -> list[str]:
    shown = {contestant for line in lines for contestant, _ in line.bars}
    parts = []
    x = _LEFT
    for contestant in (each for each in _COLOURS if each in shown):
        fill = _COLOURS[contestant]
        parts.append(f'<rect x="{x}" y="8" width="10" height="10" fill="{fill}"/>')
        parts.append(_text(x + 14, 17, f"{contestant}, pods/s"))
        x += 180
    return parts


def _grid(most: float) -> list[float]:
    power = 1
    while True:
        for step in _STEPS:
            if most / (step * power) <= _TICKS:
                return [step * power * n for n in range(int(most / (step * power)) + 1)]
        power *= 10


def _grid_line(value: float, scale: float, bottom: float) -> str:
    x = _LEFT + value * scale
    return (
        f'<line x1="{x:.1f}" y1="{_TOP - 10}" x2="{x:.1f}" y2="{bottom}" stroke="#e3e6eb"/>'
        + _text(x, _TOP - 14, f"{value:g}", "middle", 10)
    )


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="#333">{escape(text)}</text>'
    )
