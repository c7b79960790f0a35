"""`stowage top`: what the screen shows, and what its keys do."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from textual.widgets import DataTable, Static

from scheduler.api.pods import PodInfo
from scheduler.kernel.devices.catalog import DeviceShare
from scheduler.kernel.engine.events import ObjectGone, ObjectSet
from scheduler.tools.cli.top.app import ExplainScreen, TopApp, counts_text, heat_map
from scheduler.tools.cli.top.command import top
from scheduler.tools.cli.top.sources import TopSource
from scheduler.tools.cli.top.view import SOON, Cell, Rates, View, view_of
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import documents_from_text, objects_from_documents
from tests.support.builders import make_pod_info
from tests.support.device_manifests import (
    DRIVER,
    claim_manifest,
    class_manifest,
    slice_manifest,
)
from tests.support.manifests import Manifest, node_manifest, pod_manifest
from tests.unit.client.scripted_server import until

ZONE = "topology.kubernetes.io/zone"


def view(*objects: Manifest, decides: bool = True) -> View:
    profiles = Profiles(None)
    text = json.dumps({"kind": "List", "items": objects})
    cluster = profiles.load(objects_from_documents(documents_from_text(text, "test")))
    return view_of(cluster.engine, profiles, Rates(), 0.0, decides=decides)


def being_deleted(pod: Manifest) -> Manifest:
    pod["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    return pod


# --- what is shown --------------------------------------------------------------------------------


def test_nodes_stand_in_their_zones_with_what_is_fullest() -> None:
    """CPU or memory, whichever there is less of; cordoned ones are marked."""
    found = view(
        node_manifest("a", labels={ZONE: "z2"}),
        node_manifest("b", labels={ZONE: "z1"}, unschedulable=True),
        node_manifest("c", labels={ZONE: "z1"}),
        pod_manifest("p", requests={"cpu": "1", "memory": "6Gi"}, nodeName="c"),
    )

    assert found.zones == {
        "z1": (Cell("b", 0.0, is_closed=True), Cell("c", 0.75, is_closed=False)),
        "z2": (Cell("a", 0.0, is_closed=False),),
    }
    assert found.pods == 1
    assert heat_map(found).plain == "z1  2 nodes, 38%\nx▆\n\nz2  1 nodes, 0%\n \n\n"


def test_devices_in_use_are_counted_by_class_and_by_driver() -> None:
    """Claims that have none as well; clusters without devices have no such line."""
    found = view(
        node_manifest("a"),
        slice_manifest("a", "x", "y", "z"),
        class_manifest("gpu"),
        class_manifest("none", "false"),
        claim_manifest("held", has=("a/x",)),
        claim_manifest("mine"),
    )

    assert found.devices == (
        DeviceShare(DRIVER, is_class=False, devices=3, in_use=1),
        DeviceShare("gpu", is_class=True, devices=3, in_use=1),
        DeviceShare("none", is_class=True, devices=0, in_use=0),
    )
    assert counts_text(found).splitlines()[2] == (
        "devices in use: gpu 1/3  none 0/0  claims without devices: 1"
    )
    assert len(counts_text(view(node_manifest("a"))).splitlines()) == 2


def test_pods_wait_for_reasons_and_the_most_frequent_comes_first() -> None:
    """Also those that nothing stands in the way of, and those that are gated."""
    found = view(
        node_manifest("a"),
        *(pod_manifest(f"big-{i}", requests={"cpu": "9"}) for i in range(3)),
        pod_manifest("small"),
        pod_manifest("gated", schedulingGates=[{"name": "later"}]),
    )

    assert [(each.message, len(each.pods)) for each in found.waiting] == [
        ("1 Insufficient cpu", 3),
        ("a node fits: its scheduler has not placed it yet", 1),
        ("waiting for scheduling gates: [later]", 1),
    ]
    assert found.queue["gated"] == 1


def test_pods_that_lack_different_claims_are_one_row() -> None:
    """Each is judged by its own; a row of several leaves the names out."""

    def pod(name: str, claim: str) -> Manifest:
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim}}
        return pod_manifest(name, volumes=[volume])

    def told(*pods: Manifest) -> list[tuple[str, int]]:
        return [(row.message, len(row.pods)) for row in view(node_manifest("n"), *pods).waiting]

    assert told(pod("a", "x"), pod("b", "y")) == [('persistentvolumeclaim "…" not found', 2)]
    assert told(pod("a", "x"), pod("b", "x")) == [('persistentvolumeclaim "x" not found', 2)]


def test_a_pod_that_is_being_deleted_does_not_wait() -> None:
    """No scheduler places it, whatever the engine's queue still has."""
    going = being_deleted(pod_manifest("going"))
    gated = being_deleted(pod_manifest("gated", schedulingGates=[{"name": "later"}]))

    found = view(node_manifest("a"), going, gated, pod_manifest("p"), decides=False)

    assert [(each.message, len(each.pods)) for each in found.waiting] == [(SOON, 1)]
    assert found.queue == {"active": 1, "unschedulable": 0, "gated": 0}


def test_a_nominated_pod_is_judged_by_itself() -> None:
    """Room is kept for it that another pod of its kind may not use."""
    large = {"cpu": "3"}
    nominated = pod_manifest("a", requests=large, nominated="n")

    found = view(node_manifest("n"), nominated, pod_manifest("b", requests=large))

    told = {pod.name: each.message for each in found.waiting for pod in each.pods}
    assert told == {"a": SOON, "b": "1 Insufficient cpu"}


def test_the_conditions_tell_which_pods_were_tried() -> None:
    """Where another process decides: its queue is not this engine's."""
    tried = pod_manifest("big", requests={"cpu": "9"})
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    tried["status"] = {"conditions": [condition]}
    gated = pod_manifest("gated", schedulingGates=[{"name": "later"}])

    found = view(node_manifest("a"), tried, gated, pod_manifest("new"), decides=False)

    assert found.queue == {"active": 1, "unschedulable": 1, "gated": 1}


def test_rates_are_of_the_last_seconds() -> None:
    """A pod that is bound, one that comes with its node, one that is gone."""
    rates = Rates()

    def told(pod: PodInfo, now: float) -> None:
        rates.note(ObjectSet("pods", pod), now)

    told(make_pod_info("old", node_name="n"), 0.0)
    rates.forget()
    told(make_pod_info("a"), 1.0)
    told(make_pod_info("a", node_name="n"), 2.0)
    told(make_pod_info("a", node_name="n", labels={"x": "y"}), 3.0)
    told(make_pod_info("b", node_name="n"), 3.0)
    gone = make_pod_info("b")
    rates.note(ObjectGone("pods", gone.namespace, gone.name, gone.uid), 4.0)

    assert rates.per_second(5.0) == (0.2, 0.2)
    assert rates.per_second(12.5) == (0.1, 0.1)
    assert rates.per_second(99.0) == (0.0, 0.0)


# --- the screen -----------------------------------------------------------------------------------


class Still(TopSource):
    """A source that does not change by itself."""

    def __init__(self, *objects: Manifest) -> None:
        self.profiles = Profiles(None)
        text = json.dumps({"kind": "List", "items": objects})
        read = objects_from_documents(documents_from_text(text, "test"))
        self.engine = self.profiles.load(read).engine
        self.rates = Rates()
        self.decides = True
        self.moved: list[float] = []

    @property
    def title(self) -> str:
        return "still"

    @property
    def now(self) -> float:
        return 0.0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        yield

    def move(self, seconds: float) -> None:
        self.moved.append(seconds)


def shown(app: TopApp, name: str) -> str:
    return str(app.query_one(f"#{name}", Static).content)


def explanation(app: TopApp) -> str:
    """What the screen above explains; empty without one. A key that was pressed takes a while."""
    found = app.screen.query("#explanation").results(Static)
    return "".join(str(each.content) for each in found)


def rows(app: TopApp) -> list[list[str]]:
    table: DataTable[Any] = app.query_one("#reasons", DataTable)
    return [[str(cell) for cell in table.get_row_at(i)] for i in range(table.row_count)]


def test_enter_explains_the_pods_under_the_cursor() -> None:
    """And escape goes back."""

    async def play() -> None:
        app = TopApp(
            Still(
                node_manifest("a"),
                pod_manifest("big-0", requests={"cpu": "9"}),
                pod_manifest("big-1", requests={"cpu": "9"}),
                pod_manifest("far", nodeSelector={"disk": "ssd"}),
            )
        )
        async with app.run_test(size=(100, 30)) as pilot:
            assert shown(app, "title") == "stowage top  still"
            assert "1 nodes  0 pods on them  0.0 binds/s  0.0 new pods/s" in shown(app, "counts")
            assert [row[0] for row in rows(app)] == ["2", "1"]
            await pilot.press("down", "enter")
            await until(lambda: explanation(app) != "")
            assert isinstance(app.screen, ExplainScreen)
            text = explanation(app)
            assert "default/far" in text
            assert "label node a disk=ssd: then it fits on a" in text
            await pilot.press("escape")
            await until(lambda: not isinstance(app.screen, ExplainScreen))
            await pilot.press("up", "e")
            await until(lambda: explanation(app) != "")
            assert "and 1 more like it: default/big-1" in explanation(app)

    asyncio.run(play())


def test_only_equal_pods_are_said_to_be_alike() -> None:
    """Pods of one row wait for the same reason; what would help one may not help another."""

    async def play() -> None:
        sizes = {"a": "9", "b": "10"}
        pods = [pod_manifest(name, requests={"cpu": cpu}) for name, cpu in sizes.items()]
        app = TopApp(Still(node_manifest("n"), *pods))
        async with app.run_test(size=(100, 30)) as pilot:
            assert [row[0] for row in rows(app)] == ["2"]
            await pilot.press("e")
            await until(lambda: explanation(app) != "")
            assert "default/a" in explanation(app)
            assert "like it" not in explanation(app)

    asyncio.run(play())


def test_the_terminal_obeys_no_text_of_tenants() -> None:
    """Neither a reason nor a zone has control characters."""

    async def play() -> None:
        zone = {"topology.kubernetes.io/zone": "z\x1b[2J"}
        gated = pod_manifest("gated", schedulingGates=[{"name": "g\x9b2J"}])
        app = TopApp(Still(node_manifest("a", labels=zone), gated))
        async with app.run_test(size=(100, 30)):
            assert rows(app) == [["1", "waiting for scheduling gates: [g\\u009b2J]"]]
            assert shown(app, "nodes").startswith("z\\u001b[2J  1 nodes")

    asyncio.run(play())


def test_a_screen_that_was_taken_down_is_not_refreshed() -> None:
    """The timer may fire once more while the program ends."""

    async def play() -> None:
        app = TopApp(Still(node_manifest("a")))
        async with app.run_test():
            app.refresh_view()
        app.refresh_view()

    asyncio.run(play())


def test_without_waiting_pods_enter_does_nothing() -> None:
    """There is nobody to explain."""

    async def play() -> None:
        app = TopApp(Still(node_manifest("a")))
        async with app.run_test() as pilot:
            await pilot.press("enter")
            assert not isinstance(app.screen, ExplainScreen)
            await pilot.press("q")
            await until(lambda: app.return_code is not None)
        assert app.return_code == 0

    asyncio.run(play())


def test_arrow_keys_move_through_time() -> None:
    """Where the source has any."""

    async def play() -> None:
        still = Still(node_manifest("a"))
        async with TopApp(still).run_test() as pilot:
            await pilot.press("left", "right", "home", "end")
            await until(lambda: len(still.moved) == 4)
        assert still.moved == [-5.0, 5.0, -5e6, 5e6]

    asyncio.run(play())


# --- the command ----------------------------------------------------------------------------------


def test_a_cluster_that_cannot_be_found_is_one_message() -> None:
    """Before the screen is taken over."""
    result = CliRunner().invoke(top, ["--kubeconfig", "/no/such/file"])

    assert result.exit_code == 2
    assert "/no/such/file" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_server_that_does_not_answer_is_one_message(tmp_path: Path) -> None:
    """The screen would wait for pods and nodes for ever."""
    file = tmp_path / "config"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c"}}
    written = {"clusters": [cluster], "contexts": [context], "users": [], "current-context": "c"}
    file.write_text(json.dumps(written))

    result = CliRunner().invoke(top, ["--kubeconfig", str(file)])

    assert result.exit_code == 2
    assert "stowage top: http://127.0.0.1:1 cannot be reached" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_file_that_is_no_recording_is_one_message(tmp_path: Path) -> None:
    """It names the file."""
    file = tmp_path / "x"
    file.write_text("{}")

    result = CliRunner().invoke(top, ["--recording", str(file)])

    assert result.exit_code == 2
    assert str(file) in result.stderr


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else of the command line needs it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "textual"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "scheduler.tools.cli.top.app")
    monkeypatch.setitem(sys.modules, "textual", None)

    result = CliRunner().invoke(top)

    assert result.exit_code == 2
    assert "pip install 'stowage-scheduler[top]'" in result.stderr
