"""Each page in a browser: on a cluster that lives, on files and on a recording."""

import asyncio
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, Page, expect

from scheduler.clock import SystemClock
from scheduler.tools.cli.explain import explain
from tests.browser.browsing import AXE, PATIENCE, browser, console, create, sandbox
from tests.browser.clusters import cluster
from tests.scenario.world import World, play
from tests.support.manifests import node_manifest, pod_manifest, write_list

NASTY = "<img src=x onerror=alert(1)>"
PATHS = ("/", "/pod", "/pod?pod=data/report-0", "/what-if?like=node-00&add-nodes=2&drain=node-01")


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The directory of a recording of some seconds."""
    folder = tmp_path_factory.mktemp("recording")

    async def story(world: World) -> None:
        world.node("a", cpu="4")
        world.node("b", cpu="4")
        await world.start_daemon(record=str(folder))
        world.pod("first", cpu="3")
        await world.bound("first")
        world.pod("large", cpu="9")
        await world.rejected("large")
        await asyncio.sleep(1.2)  # the rest is at another moment
        world.pod("last", cpu="3")
        await world.bound("last")
        await world.stop_daemon()

    play(story)
    return str(folder)


@pytest.fixture(scope="module")
def chromium(records: str) -> Iterator[Browser]:
    """A browser; its loop runs in this thread, so the recording is made before."""
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def files(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("files")
    written = write_list(folder / "cluster.json", *cluster(12, SystemClock().wall()))
    with console("-f", written) as url:
        yield url


@pytest.fixture(scope="module")
def recording(chromium: Browser, records: str) -> Iterator[str]:
    with console("--recording", records) as url:
        yield url


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A window in which nothing may go wrong unseen."""
    problems: list[str] = []
    context = chromium.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(PATIENCE)
    opened = context.new_page()
    opened.on(
        "console",
        lambda message: problems.append(message.text) if message.type == "error" else None,
    )
    opened.on("pageerror", lambda error: problems.append(str(error)))
    yield opened
    context.close()
    assert problems == []


def drawn(page: Page, url: str) -> None:
    """Open a page, and wait until it shows something."""
    page.goto(url)
    page.wait_for_load_state("networkidle")
    expect(page.locator("main .card").first).to_be_visible()


def serious(page: Page) -> list[tuple[str, str]]:
    """What axe finds that keeps people out, with where."""
    page.evaluate(AXE.read_text())
    found: dict[str, Any] = page.evaluate("axe.run()")
    return [
        (rule["id"], rule["nodes"][0]["html"])
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
    ]


# --- for everyone ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_pages_keep_no_one_out(page: Page, files: str, path: str, scheme: Any) -> None:
    """No serious finding of axe, by day and by night."""
    page.emulate_media(color_scheme=scheme)
    drawn(page, files + path)

    assert serious(page) == []


def test_replay_keeps_no_one_out(page: Page, recording: str) -> None:
    """Its plots included."""
    drawn(page, f"{recording}/replay")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("come to another node").first).to_be_visible()

    assert serious(page) == []


@pytest.mark.parametrize("path", PATHS)
def test_pages_fit_a_narrow_screen(page: Page, files: str, path: str) -> None:
    """400 pixels wide, without moving sideways."""
    page.set_viewport_size({"width": 400, "height": 800})
    drawn(page, files + path)

    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_the_keyboard_is_enough(page: Page, files: str) -> None:
    """From the first page to a node's pods, and to what would help a pod that waits."""
    drawn(page, f"{files}/")
    canvas = page.locator("canvas")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator(".chosen-node")).to_contain_text("node-00: ")
    expect(page.locator(".chosen-node").get_by_role("link").first).to_be_visible()

    page.get_by_role("link", name="data/report-5").focus()
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="What would help")).to_be_visible()


# --- what they show -------------------------------------------------------------------------------


def test_a_waiting_pod_is_found_and_its_page_says_what_would_help(page: Page, files: str) -> None:
    """From the first page with one click, in the words of `explain`."""
    drawn(page, f"{files}/")
    page.get_by_role("link", name="ml/train-0").click()

    expect(page.locator("h1")).to_have_text("ml/train-0")
    expect(page.locator(".verdict")).to_contain_text("Fits nowhere: 0/12 nodes are available")
    expect(page.locator(".help-list")).to_contain_text("Tolerate nvidia.com/gpu:NoSchedule")
    expect(page.locator("table.matrix")).to_contain_text("node(s) had untolerated taint(s)")


def test_what_would_help_is_tried_with_one_click(page: Page, files: str) -> None:
    """The pod tolerates the taint on the copy of the cluster, and finds the node."""
    drawn(page, f"{files}/pod?pod=ml/train-0")
    item = page.locator(".help-list li").filter(has_text="Tolerate nvidia.com/gpu:NoSchedule")
    item.get_by_role("link", name="Try it in What if").click()

    expect(page.get_by_label("Changes", exact=True)).to_contain_text("Let a pod tolerate a taint")
    expect(page.locator("table").filter(has_text="ml/train-0").first).to_contain_text("node-03")


def test_verdicts_are_read_on_a_narrow_screen_without_scrolling(page: Page, files: str) -> None:
    """Every mark names its plugin, and nothing is wider than the screen."""
    page.set_viewport_size({"width": 400, "height": 800})
    drawn(page, f"{files}/pod?pod=ml/train-0")

    region = page.get_by_role("region", name="Verdict per node and plugin")
    expect(region).to_contain_text("node(s) had untolerated taint(s)")
    assert region.evaluate("it => it.scrollWidth <= it.clientWidth")


def test_what_if_shows_both_pictures_and_the_pods_that_move(page: Page, files: str) -> None:
    """A change is added, computed, and taken away again."""
    drawn(page, f"{files}/what-if")
    page.get_by_label("Which").fill("node-00")
    page.get_by_role("button", name="Add change").click()
    page.get_by_role("button", name="What would happen?").click()

    expect(page.get_by_role("heading", name="Nodes before and after")).to_be_visible()
    expect(page.locator("canvas")).to_have_count(2)
    expect(page.locator(".verdict .figures")).to_contain_text("would be homeless")
    expect(page.locator("table").filter(has_text="node-00").first).to_be_visible()
    page.get_by_role("button", name="Take away: Drain a node: node-00").click()
    expect(page.get_by_text("No change yet")).to_be_visible()


def test_a_wrong_change_is_said_on_the_page(page: Page, files: str) -> None:
    """In the words of the command."""
    drawn(page, f"{files}/what-if?drain=ghost")

    expect(page.get_by_role("alert")).to_have_text("--drain: there is no node 'ghost'")


def test_a_cluster_is_followed(page: Page, tmp_path: Path) -> None:
    """A pod that comes shows on the open page, without loading it again."""
    kubeconfig = tmp_path / "kubeconfig"
    with sandbox(kubeconfig) as server, console("--kubeconfig", str(kubeconfig)) as url:
        create(server, "nodes", node_manifest("n"))
        drawn(page, url)
        expect(page.get_by_text("No pod waits for a node")).to_be_visible()

        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "9"}}}
        create(server, "namespaces/default/pods", pod_manifest("large", containers=[container]))

        page.get_by_role("link", name="default/large").click()
        expect(page.locator(".help-list")).to_contain_text("Request at most 4 cpu")


def test_a_recording_is_gone_through_and_compared(page: Page, recording: str) -> None:
    """The slider changes what is shown; the comparison has its plots."""
    drawn(page, f"{recording}/replay")
    expect(page.locator(".figures")).to_contain_text("2pods with a node")
    slider = page.get_by_label("Moment of the recording")
    slider.focus()
    page.keyboard.press("Home")
    expect(page.locator(".figures")).to_contain_text("0pods with a node")

    page.get_by_role("button", name="Compare").click()

    expect(page.get_by_text("0 pods of 3 come to another node")).to_be_visible()
    expect(page.get_by_role("heading", name="Pods that wait", exact=True)).to_be_visible()


def test_links_lead_to_the_moment_that_is_shown(page: Page, files: str) -> None:
    """Its start included, which is 0; also if the same pods wait at the next moment."""
    drawn(page, f"{files}/")

    found = page.evaluate(
        """async () => {
            const now = await (await fetch("/api/now")).json();
            const { showNow } = await import("/static/now.js");
            const place = document.querySelector("main");
            let moment = 7;
            const update = showNow(place, now, { isLive: true, moment: () => moment });
            moment = 0;
            update(now);
            const links = [...place.querySelectorAll("a[href^='/pod']")];
            return {
                links: links.map((link) => new URL(link.href).searchParams.get("at")),
                form: place.querySelector("input[name=at]").value,
            };
        }"""
    )

    assert set(found["links"]) == {"0"}
    assert found["form"] == "0"


def test_a_page_in_a_ticket_needs_no_server(page: Page, chromium: Browser, tmp_path: Path) -> None:
    """As `-o html` writes it; opened from a file, under its own policy."""
    written = write_list(tmp_path / "cluster.json", *cluster(12))
    result = CliRunner().invoke(explain, ["ml/train-0", "-f", written, "-o", "html"])
    file = tmp_path / "page.html"
    file.write_bytes(result.stdout_bytes)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    page.goto(file.as_uri())

    expect(page.locator("h1")).to_have_text("ml/train-0")
    expect(page.locator(".help-list")).to_contain_text("Tolerate nvidia.com/gpu:NoSchedule")
    assert asked == [file.as_uri()]
    assert serious(page) == []


def test_names_are_text(page: Page, chromium: Browser, tmp_path: Path) -> None:
    """Whatever is in them, on every page."""
    label = {"topology.kubernetes.io/zone": NASTY}
    pod = pod_manifest("p", requests={"cpu": "9"}, nodeSelector={"disk": NASTY})
    gates = [{"name": NASTY}]
    gated = pod_manifest("gated", schedulingGates=gates)
    node = node_manifest("n", labels=label, taints=[{"key": NASTY, "effect": "NoSchedule"}])
    written = write_list(tmp_path / "cluster.json", node, pod, gated)
    with console("-f", written) as url:
        for path in ("/", "/pod?pod=p", "/pod?pod=gated", "/what-if?like=n&add-nodes=1"):
            drawn(page, url + path)
            assert page.locator("img").count() == 0


def test_five_thousand_nodes_are_drawn_within_a_second(
    page: Page, chromium: Browser, tmp_path: Path
) -> None:
    """From the answer to the picture, in the browser; the best of five tries."""
    written = write_list(
        tmp_path / "cluster.json", *(node_manifest(f"node-{n:04}") for n in range(5000))
    )
    with console("-f", written) as url:
        drawn(page, f"{url}/")
        took = page.evaluate(
            """async () => {
                const now = await (await fetch("/api/now")).json();
                const { showNow } = await import("/static/now.js");
                const place = document.querySelector("main");
                const tries = [];
                for (let number = 0; number < 5; number += 1) {
                    const began = performance.now();
                    showNow(place, now, { isLive: false, moment: () => null });
                    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
                    tries.push(performance.now() - began);
                }
                return Math.min(...tries);
            }"""
        )

    assert took < 1000


def test_what_is_bundled_is_what_was_published() -> None:
    """Under the checksums beside it."""
    text = (AXE.parent / "README.md").read_text()
    rows = re.findall(r"^\| `(\S+)` .* `(\w{64})` \|$", text, re.MULTILINE)

    assert len(rows) == 2
    for name, checksum in rows:
        assert sha256((AXE.parent / name).read_bytes()).hexdigest() == checksum


def test_a_page_that_cannot_be_saved_says_why(chromium: Browser, files: str) -> None:
    """No file is written then; the browser itself notes what the server answered."""
    context = chromium.new_context()
    page = context.new_page()
    saved: list[object] = []
    page.on("download", lambda download: saved.append(download))  # noqa: PLW0108 - playwright marks what it calls
    page.route(
        "**/api/saved",
        lambda route: route.fulfill(
            status=413, content_type="application/json", body='{"error": "too large"}'
        ),
    )
    drawn(page, f"{files}/")
    page.get_by_role("button", name="Save page").click()

    expect(page.get_by_role("alert")).to_have_text("The page was not saved: too large")
    context.close()
    assert saved == []
