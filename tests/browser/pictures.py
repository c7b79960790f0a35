"""`python -m tests.browser.pictures [FOLDER]`: draws the console's pages.

Without a folder the pictures of the documentation: one of each page. With one, each page at two
widths and in the dark, of a small and of a large cluster, to look at after a change.
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, expect

from scheduler.clock import SystemClock
from tests.browser.browsing import browser, console
from tests.browser.clusters import cluster
from tests.scenario.world import World, play
from tests.support.manifests import write_list

DOCS: Final = Path(__file__).parents[2] / "docs" / "pictures"
NODES: Final = (12, 5000)
WIDE, NARROW = 1400, 400
_WIDTH: Final = 1120
_PAGES: Final = {
    "now": "/",
    "pod": "/pod?pod=ml/train-0",
    "placed": "/pod?pod=shop/web-0",
    "what-if": "/what-if?drain={node}&like={node}&add-nodes=2",
}


def _recorded(folder: Path) -> None:
    """Pods come in waves, and in the end more than there is room for."""

    async def story(world: World) -> None:
        for number in range(12):
            zone = {"topology.kubernetes.io/zone": f"zone-{number % 3 + 1}"}
            world.node(f"node-{number:02}", cpu="8", labels=zone)
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


def _sizes() -> Iterator[tuple[int, str]]:
    yield WIDE, "light"
    yield NARROW, "light"
    yield WIDE, "dark"


def _of_docs(opened: Browser, folder: Path) -> None:
    write_list(folder / "cluster.json", *cluster(60, SystemClock().wall()))
    with console("-f", "cluster.json", folder=folder) as url:
        for name in ("now", "pod", "what-if"):
            path = _PAGES[name].format(node="node-01")
            _shoot(opened, url + path, DOCS / f"console-{name}.png", width=_WIDTH)
    with console("--recording", "recording", folder=folder) as url:
        _shoot(opened, f"{url}/replay", DOCS / "console-replay.png", width=_WIDTH)


def _of_everything(opened: Browser, records: str, folder: Path, into: Path) -> None:
    for nodes in NODES:
        written = write_list(folder / f"{nodes}.json", *cluster(nodes, SystemClock().wall()))
        first = f"node-{1:0{len(str(nodes - 1))}}"
        pages: Mapping[str, str] = {k: v.format(node=first) for k, v in _PAGES.items()}
        with console("-f", written) as url:
            for name, path in pages.items():
                for width, scheme in _sizes():
                    file = into / f"{name}-{nodes}-{width}-{scheme}.png"
                    _shoot(opened, url + path, file, width=width, scheme=scheme)
    with console("--recording", records) as url:
        for width, scheme in _sizes():
            file = into / f"replay-{width}-{scheme}.png"
            _shoot(opened, f"{url}/replay", file, width=width, scheme=scheme)


def main() -> None:
    """Draw what the command line asks for."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        records = folder / "recording"
        records.mkdir()
        _recorded(records)
        with browser() as opened:
            if sys.argv[1:]:
                into = Path(sys.argv[1])
                into.mkdir(parents=True, exist_ok=True)
                _of_everything(opened, str(records), folder, into)
            else:
                _of_docs(opened, folder)


if __name__ == "__main__":
    main()
