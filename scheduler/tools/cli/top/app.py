"""The screen of `stowage top`."""

from contextlib import AsyncExitStack, redirect_stdout
from io import StringIO
from typing import ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Static
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.why import Depth
from scheduler.observability.visible import visible
from scheduler.tools.cli.explain_text import PodReport, print_report
from scheduler.tools.cli.top.sources import TopSource
from scheduler.tools.cli.top.view import Cell, View, view_of
from scheduler.tools.offline.likeness import likeness_of

REFRESH_SECONDS: Final = 1.0
STEP_SECONDS: Final = 5.0
_TOP_NODES: Final = 5
_STEPS: Final = ((0.5, "green"), (0.75, "yellow"), (0.9, "dark_orange"), (float("inf"), "red"))
"""The colour of a node, by the upper bound of its share in use."""
_FILLS: Final = " ▁▂▃▄▅▆▇█"


class ExplainScreen(ModalScreen[None]):
    """A screen with the reason why a pod waits, as in `stowage explain`."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Back")]
    CSS = """
    ExplainScreen { align: center middle; }
    ExplainScreen VerticalScroll { width: 94%; height: 90%; border: round $accent; padding: 0 1;
                                   background: $surface; }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    @override
    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(_text(self._text), id="explanation")


class TopApp(App[None]):
    """Queue, reasons, nodes and rates of one source."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", "Quit"),
        Binding("e", "explain", "Explain (or Enter)"),
        Binding("left,h", "move(-1)", "Back", show=False, priority=True),
        Binding("right,l", "move(1)", "Forward", show=False, priority=True),
        Binding("home", "move(-1000000)", "Start", show=False, priority=True),
        Binding("end", "move(1000000)", "End", show=False, priority=True),
    ]
    CSS = """
    #title { height: 1; text-style: bold; padding: 0 1; }
    #counts { height: auto; max-height: 4; padding: 0 1; }
    #reasons { width: 3fr; }
    #heat { width: 2fr; padding: 0 1; border-left: solid $accent; }
    """

    def __init__(self, source: TopSource) -> None:
        super().__init__()
        self._source = source
        self._view: View | None = None
        self._open = AsyncExitStack()

    @override
    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield Static(id="counts")
        with Horizontal():
            yield DataTable(id="reasons", cursor_type="row")
            with VerticalScroll(id="heat"):
                yield Static(id="nodes")
        yield Footer()

    async def on_mount(self) -> None:
        """Start watching."""
        self.table.add_columns("pods", "why they wait")
        await self._open.enter_async_context(self._source.running())
        self.refresh_view()
        self.set_interval(REFRESH_SECONDS, self.refresh_view)

    async def on_unmount(self) -> None:
        """Stop watching."""
        await self._open.aclose()

    @property
    def table(self) -> "DataTable[Text]":
        """The reasons, one on each row."""
        return self.query_one("#reasons", DataTable)

    def refresh_view(self) -> None:
        """Refresh the screen, unless it has been taken down: the timer outlives its widgets."""
        if not self.query("#title"):
            return
        source = self._source
        view = view_of(
            source.engine, source.profiles, source.rates, source.now, decides=source.decides
        )
        self.query_one("#title", Static).update(_text(f"stowage top  {source.title}"))
        self.query_one("#counts", Static).update(_text(counts_text(view)))
        self.query_one("#nodes", Static).update(heat_map(view))
        if self._view is None or self._view.waiting != view.waiting:
            self._fill(view)
        self._view = view

    def _fill(self, view: View) -> None:
        row = self.table.cursor_row
        self.table.clear()
        for each in view.waiting:
            self.table.add_row(Text(str(len(each.pods)), justify="right"), _text(each.message))
        if view.waiting:
            self.table.move_cursor(row=min(max(row, 0), len(view.waiting) - 1))

    async def on_data_table_row_selected(self) -> None:
        """Enter on a reason."""
        await self.action_explain()

    async def action_explain(self) -> None:
        """Explain the first of the pods that wait for the reason under the cursor."""
        row = self.table.cursor_row
        if self._view is None or not 0 <= row < len(self._view.waiting):
            return
        waiting = self._view.waiting[row]
        await self.push_screen(ExplainScreen(self._explained(waiting.pods)))

    def action_move(self, steps: float) -> None:
        """Go forward or back in a recording."""
        self._source.move(steps * STEP_SECONDS)

    def _explained(self, pods: tuple[PodInfo, ...]) -> str:
        engine, profiles, pod = self._source.engine, self._source.profiles, pods[0]
        likeness = likeness_of(engine, pod)
        explainer = Explainer(engine, profiles.framework_of)
        answer = explainer.explain(pod, Depth.CHANGES)
        report = PodReport(
            pod,
            answer,
            profiles.framework_of(pod),
            engine.core.snapshot.table.count,
            explainer.reasons,
            (),
            _TOP_NODES,
            [other.key for other in pods[1:] if likeness_of(engine, other) == likeness],
        )
        with redirect_stdout(StringIO()) as text:
            print_report(report)
        return text.getvalue()


def _text(text: str) -> Text:
    """Return a text without styles; tenants may have written parts of it."""
    return Text(visible(text))


def counts_text(view: View) -> str:
    """Format two lines of numbers, and one of devices if there are any."""
    queue = "  ".join(f"{name} {number}" for name, number in view.queue.items())
    nodes = sum(map(len, view.zones.values()))
    assumed = f" ({view.assumed} only assumed)" if view.assumed else ""
    return (
        f"{nodes} nodes  {view.pods} pods on them{assumed}  "
        f"{view.binds:.1f} binds/s  {view.arrivals:.1f} new pods/s\n"
        f"waiting: {queue}{devices_text(view)}"
    )


def devices_text(view: View) -> str:
    """Format the devices in use by class, or by driver for devices without a class."""
    if not view.devices and not view.pending_claims:
        return ""
    shares = "  ".join(f"{each.name} {each.in_use}/{each.devices}" for each in view.by_class)
    return f"\ndevices in use: {shares or 'none'}  claims without devices: {view.pending_claims}"


def heat_map(view: View) -> Text:
    """Draw each node as one character, by zone: the higher and the redder, the fuller."""
    text = Text()
    for zone, cells in view.zones.items():
        mean = sum(cell.share for cell in cells) / len(cells)
        text.append(f"{visible(zone)}  {len(cells)} nodes, {mean:.0%}\n", "bold")
        for cell in cells:
            text.append(*_mark(cell))
        text.append("\n\n")
    return text


def _mark(cell: Cell) -> tuple[str, str]:
    if cell.is_closed:
        return "x", "grey50"
    color = next(color for limit, color in _STEPS if cell.share < limit)
    return _FILLS[min(int(cell.share * len(_FILLS)), len(_FILLS) - 1)] or " ", f"{color} on grey15"
