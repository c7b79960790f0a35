"""How the demo shows itself: live on a terminal, as lines of text elsewhere."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from apistub.demo.cluster import Cluster, NodeView

_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_CELLS_PER_ZONE: Final = 40
_DECISIONS_SHOWN: Final = 8
_PENDING_SHOWN: Final = 4
_STEPS_SHOWN: Final = 6
_OTHER_LINES: Final = 19
"""Progress, three panels and the cursor."""
_WIDE: Final = 120
"""Columns from which the bar fits beside the numbers."""
_APP_WIDTH: Final = 16
_LINE_SECONDS: Final = 1.0
_FRAMES_PER_SECOND: Final = 8


class Screen(ABC):
    """Where the demo shows what happens; leaving it shows the last state."""

    def __init__(
        self, console: Console, cluster: Cluster, total: int, seconds: Callable[[], float]
    ) -> None:
        self._console = console
        self._cluster = cluster
        self._total = total
        self._seconds = seconds

    @abstractmethod
    def tell(self, sentence: str) -> None:
        """Says that something was done."""

    @abstractmethod
    def show(self) -> None:
        """Shows the state as it is."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.show()


class LineScreen(Screen):
    """One line a second, and one for everything that is done."""

    def __init__(
        self, console: Console, cluster: Cluster, total: int, seconds: Callable[[], float]
    ) -> None:
        super().__init__(console, cluster, total, seconds)
        self._next_line = 0.0
        self._reasons: dict[str, str] = {}

    @override
    def tell(self, sentence: str) -> None:
        self._print(f"* {sentence}")

    @override
    def show(self) -> None:
        now = self._seconds()
        if now < self._next_line:
            return
        self._next_line = now + _LINE_SECONDS
        counts = self._cluster.counts()
        self._print(
            f"  {counts.bound}/{self._total} bound, {self._cluster.pods_per_second(now)} pods/s; "
            f"{counts.waiting} waiting, {counts.rejected} unschedulable, {counts.gated} gated; "
            f"cluster {_fill(self._cluster.nodes.values()):.0%} full"
        )
        for app, count, message in _reasons(self._cluster):
            if self._reasons.get(app) != message:
                self._reasons[app] = message
                self._print(f"  pending {_counted(app, count)}: {message}")

    @override
    def __exit__(self, *_error: object) -> None:
        self._next_line = 0.0
        self.show()

    def _print(self, text: str) -> None:
        self._console.print(
            f"{self._seconds():5.1f}s {text}", soft_wrap=True, highlight=False, markup=False
        )


class LiveScreen(Screen):
    """The whole cluster at a glance, redrawn several times a second."""

    def __init__(
        self, console: Console, cluster: Cluster, total: int, seconds: Callable[[], float]
    ) -> None:
        super().__init__(console, cluster, total, seconds)
        self._steps: list[Text] = []
        self._live = Live(
            console=console, refresh_per_second=_FRAMES_PER_SECOND, auto_refresh=False
        )

    @override
    def __enter__(self) -> Self:
        self._live.start()
        return self

    @override
    def tell(self, sentence: str) -> None:
        line = f"{self._seconds():5.1f}s  {sentence}"
        self._steps.append(Text(line, overflow="ellipsis", no_wrap=True))

    @override
    def show(self) -> None:
        self._live.update(self.picture(), refresh=True)

    @override
    def __exit__(self, *_error: object) -> None:
        self.show()
        self._live.stop()

    def picture(self) -> RenderableType:
        """The screen as it is now."""
        return Group(
            self._progress(),
            Panel(self._nodes(), title="nodes by zone, height is cpu promised", title_align="left"),
            Panel(self._decisions(), title="last decisions", title_align="left"),
            Panel(self._pending(), title="pending, and why", title_align="left"),
            *self._steps[-min(_STEPS_SHOWN, max(1, self._console.height - _OTHER_LINES)) :],
        )

    def _progress(self) -> RenderableType:
        counts = self._cluster.counts()
        row = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=self._total, completed=counts.bound, width=30)
        is_wide = self._console.width >= _WIDE
        row.add_row(
            *([Text("Stowage demo", style="bold")] if is_wide else []),
            Text(f"{self._seconds():4.1f}s"),
            *([bar] if is_wide else []),
            Text(f"{counts.bound}/{self._total} bound", style="green"),
            Text(f"{self._cluster.pods_per_second(self._seconds())} pods/s", style="cyan"),
            Text(f"{counts.waiting} waiting"),
            Text(f"{counts.rejected} unschedulable", style="yellow" if counts.rejected else ""),
            Text(f"{counts.gated} gated", style="magenta" if counts.gated else ""),
        )
        return row

    def _nodes(self) -> RenderableType:
        nodes = sorted(self._cluster.nodes.values(), key=lambda node: (node.zone, node.name))
        grid = Table.grid(padding=(0, 2))
        for zone, members in groupby(nodes, key=lambda node: node.zone):
            listed = list(members)
            grid.add_row(
                Text(zone, style="bold"),
                _bars(listed),
                Text(f"{len(listed)} nodes, {sum(node.pods for node in listed)} pods"),
                Text(f"{_fill(listed):.0%} full"),
            )
        return grid

    def _decisions(self) -> RenderableType:
        grid = Table.grid(padding=(0, 3), expand=True)
        for _ in range(2):
            grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        latest = list(self._cluster.decisions)[-_DECISIONS_SHOWN:]
        for left, right in zip(latest[::2], latest[1::2], strict=False):
            grid.add_row(
                *(
                    Text(f"{decision.pod} → {decision.node} after {decision.waited_seconds:.2f}s")
                    for decision in (left, right)
                )
            )
        for _ in range(_DECISIONS_SHOWN // 2 - grid.row_count):
            grid.add_row("")
        return grid

    def _pending(self) -> RenderableType:
        grid = Table.grid(padding=(0, 2), expand=True)
        grid.add_column(no_wrap=True, width=_APP_WIDTH)
        grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for app, count, message in list(_reasons(self._cluster))[:_PENDING_SHOWN]:
            grid.add_row(Text(_counted(app, count), style="yellow"), Text(message))
        for _ in range(_PENDING_SHOWN - grid.row_count):
            grid.add_row("")
        return grid


def _fill(nodes: Iterable[NodeView]) -> float:
    listed = list(nodes)
    total = sum(node.cpu_milli for node in listed)
    return sum(node.used_cpu_milli for node in listed) / total if total else 0.0


def _bars(nodes: list[NodeView]) -> Text:
    """One block per node, or per group of nodes when there are many."""
    size = -(-len(nodes) // _CELLS_PER_ZONE)
    bars = Text()
    for start in range(0, len(nodes), size):
        group = nodes[start : start + size]
        level = min(_fill(group), 1.0)
        block = _BLOCKS[round(level * (len(_BLOCKS) - 1))]
        bars.append(block, style="dim red" if group[0].is_cordoned else "green")
    return bars


def _reasons(cluster: Cluster) -> Iterable[tuple[str, int, str]]:
    """What pending pods wait for: workload, number of pods, the latest reason."""
    by_app: dict[str, list[str]] = {}
    for pod in cluster.pending():
        by_app.setdefault(pod.name.rpartition("-")[0] or pod.name, []).append(pod.message)
    for app, messages in by_app.items():
        yield app, len(messages), messages[-1]


def _counted(app: str, count: int) -> str:
    return f"{app}, {count} pods" if count > 1 else app
