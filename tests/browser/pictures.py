"""`python -m tests.browser.pictures [FOLDER]`: draws the console's pages.

Without a folder the pictures of the documentation: one of each page. With one, each page at two
widths and in the dark, of a small and of a large cluster, to look at after a change: pages of the
console, and those of `-o html`. Names after the folder choose among these: `now what-if.html`.
That takes some minutes, most of them for 5,000 nodes.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, expect

from scheduler.clock import SystemClock
from tests.browser.browsing import browser, console
from tests.browser.clusters import GATES, busy, cluster
from tests.scenario.world import World, play
from tests.support.manifests import write_list

DOCS: Final = Path(__file__).parents[2] / "docs" / "pictures"
NODES: Final = (12, 5000)
WIDE, NARROW = 1400, 400
_WIDTH: Final = 1120
_PACKED: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: stowage
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
"""
_PAGES: Final = {
    "now": "/",
    "pod": "/pod?pod=ml/train-0",
    "gang": "/pod?pod=ml/fine-0-0",
    "device": "/pod?pod=ml/tune-newer-0",
    "volume": "/pod?pod=data/ledger-0",
    "placed": "/pod?pod=shop/web-0",
    "pods": "/pod",
    "what-if": "/what-if?drain={node}&like={node}&add-nodes=2",
}


def _recorded(folder: Path, nodes: int = 12) -> None:
    """Pods come in waves, and in the end more than twelve nodes have room for."""

    async def story(world: World) -> None:
        for number in range(nodes):
            zone = {"topology.kubernetes.io/zone": f"zone-{number % 3 + 1}"}
            world.node(f"node-{number:0{len(str(nodes - 1))}}", cpu="8", labels=zone)
        await world.start_daemon(record=str(folder))
        for number in range(60):
            world.pod(f"web-{number}", cpu=("250m", "500m", "1", "2")[number % 4])
            if number % 10 == 9:
                await asyncio.sleep(0.7)
        world.pod("large", cpu="9")
        await world.rejected("large")
        for number in range(30):
            world.pod(f"late-{number}", cpu="2")
            if number % 5 == 4:
                await asyncio.sleep(0.7)
        await asyncio.sleep(2)
        await world.stop_daemon()

    play(story)


def _shoot(opened: Browser, url: str, path: Path, *, width: int, scheme: str = "light") -> None:
    dark = scheme == "dark"
    context = opened.new_context(
        viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    page.goto(url)
    page.wait_for_load_state("networkidle", timeout=120_000)
    if url.endswith("/replay"):
        text = page.get_by_label("KubeSchedulerConfiguration").input_value()
        packed = text.replace("LeastAllocated", "MostAllocated")
        page.get_by_label("KubeSchedulerConfiguration").fill(packed)
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("heading", name="Pods that wait", exact=True)).to_be_visible(
            timeout=60_000
        )
    page.wait_for_timeout(400)
    page.screenshot(path=path, full_page=True)
    context.close()


def _of_docs(opened: Browser, folder: Path) -> None:
    write_list(folder / "cluster.json", *cluster(60, SystemClock().wall()))
    with console("-f", "cluster.json", folder=folder) as url:
        for name in ("now", "pod", "what-if"):
            path = _PAGES[name].format(node="node-01")
            _shoot(opened, url + path, DOCS / f"console-{name}.png", width=_WIDTH)
    with console("--recording", "recording", folder=folder) as url:
        _shoot(opened, f"{url}/replay", DOCS / "console-replay.png", width=_WIDTH)


def _wants(chosen: Collection[str], *names: str) -> bool:
    """Whether one of these pages was asked for; all are if none was named."""
    return not chosen or any(name in chosen for name in names)


class _Looks:
    """Draws each page at each width into a folder."""

    def __init__(self, opened: Browser, into: Path, chosen: Collection[str]) -> None:
        self._opened = opened
        self._into = into
        self._chosen = chosen

    def draw(self, name: str, size: int, url: str) -> None:
        """Three pictures of a page that shows a cluster of so many nodes."""
        if not _wants(self._chosen, name):
            return
        for width, scheme in ((WIDE, "light"), (NARROW, "light"), (WIDE, "dark")):
            file = self._into / f"{name}-{size}-{width}-{scheme}.png"
            _shoot(self._opened, url, file, width=width, scheme=scheme)

    def draw_saved(self, name: str, size: int, *command: str) -> None:
        """Three pictures of a page that a command writes."""
        if not _wants(self._chosen, f"{name}.html"):
            return
        page = self._into / f"{name}-{size}.html"
        run = [sys.executable, "-m", "scheduler", *command, "-o", "html"]
        page.write_bytes(subprocess.run(run, check=True, stdout=subprocess.PIPE).stdout)
        self.draw(f"{name}.html", size, page.as_uri())


def _of_everything(into: Path, chosen: Collection[str], folder: Path) -> None:
    # Before the browser, whose loop runs in this thread.
    records = {size: folder / f"recording-{size}" for size in NODES}
    if _wants(chosen, "replay", "replay.html", "explain-then.html"):
        for size, where in records.items():
            where.mkdir()
            _recorded(where, size)
    with browser() as opened:
        looks = _Looks(opened, into, chosen)
        for size in NODES:
            _of_cluster(looks, folder, size)
            if records[size].exists():
                _of_recording(looks, records[size], size)


def _of_cluster(looks: _Looks, folder: Path, size: int) -> None:
    written = write_list(folder / f"{size}.json", *busy(size, SystemClock().wall()))
    first = f"node-{1:0{len(str(size - 1))}}"
    with console("-f", written, GATES) as url:
        for name, path in _PAGES.items():
            looks.draw(name, size, url + path.format(node=first))
    asked = ("-f", written, GATES)
    looks.draw_saved("explain", size, "explain", "ml/train-0", *asked)
    changes = ("--drain", first, "--like", first, "--add-nodes", "2")
    looks.draw_saved("what-if", size, "what-if", *changes, *asked)


def _of_recording(looks: _Looks, records: Path, size: int) -> None:
    with console("--recording", str(records)) as url:
        looks.draw("replay", size, f"{url}/replay")
    packed = records.with_suffix(".yaml")
    packed.write_text(_PACKED)
    looks.draw_saved("replay", size, "replay", str(records), "--config", str(packed))
    looks.draw_saved("explain-then", size, "replay", str(records), "--explain", "default/large")


def main() -> None:
    """Draw what the command line asks for."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if sys.argv[1:]:
            into = Path(sys.argv[1])
            into.mkdir(parents=True, exist_ok=True)
            _of_everything(into.resolve(), sys.argv[2:], folder)
        else:
            (folder / "recording").mkdir()
            _recorded(folder / "recording")
            with browser() as opened:
                _of_docs(opened, folder)


if __name__ == "__main__":
    main()
