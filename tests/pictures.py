"""`python -m tests.pictures`: draws the pictures of the documentation again.

They show a cluster made up here, so that the same command gives the same picture.
"""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from rich.console import Console
from typing_extensions import override

from apistub.demo.cluster import Cluster
from apistub.demo.load import make_load
from apistub.demo.screen import LiveScreen
from scheduler.api.objects import Node, Pod
from scheduler.tools.cli.top.app import TopApp
from scheduler.tools.cli.top.sources import TopSource
from scheduler.tools.cli.top.view import Rates
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import documents_from_text, objects_from_documents
from scheduler.tools.offline.simulate import simulate
from tests.support.manifests import Manifest, node_manifest, pod_manifest

FOLDER: Final = Path(__file__).parent.parent / "docs" / "pictures"
SIZE: Final = (100, 26)
DEMO_SIZE: Final = (80, 24)


class Made(TopSource):
    """A cluster in which everything that fits has found its place."""

    def __init__(self) -> None:
        self.profiles = Profiles(None)
        text = json.dumps({"kind": "List", "items": list(_objects())})
        objects = objects_from_documents(documents_from_text(text, "picture"))
        cluster = self.profiles.load(objects, seed=1)
        simulate(cluster)
        self.engine = cluster.engine
        self.rates = Rates()
        self.decides = True

    @property
    @override
    def title(self) -> str:
        return "https://cluster.example:6443"

    @property
    @override
    def now(self) -> float:
        return 0.0

    @asynccontextmanager
    @override
    async def running(self) -> AsyncIterator[None]:
        yield

    @override
    def move(self, seconds: float) -> None:
        pass


def _objects() -> Iterator[Manifest]:
    random = Random(1)
    for number in range(96):
        zone = {"topology.kubernetes.io/zone": f"zone-{number % 3 + 1}"}
        closed = {"unschedulable": True} if number % 31 == 30 else {}
        room = {"cpu": random.choice(("4", "8", "16")), "memory": "32Gi"}
        yield node_manifest(f"node-{number:02}", allocatable=room, labels=zone, **closed)
    for number in range(520):
        cpu = random.choice(("250m", "500m", "1", "2", "3"))
        yield pod_manifest(f"web-{number}", requests={"cpu": cpu}, namespace="shop")
    for number in range(14):
        yield pod_manifest(f"train-{number}", requests={"nvidia.com/gpu": "1"}, namespace="ml")
    for number in range(6):
        yield pod_manifest(f"etl-{number}", requests={"cpu": "24"}, namespace="data")
    for number in range(3):
        yield pod_manifest(f"index-{number}", nodeSelector={"disk": "nvme"}, namespace="search")
    yield pod_manifest("night", schedulingGates=[{"name": "example.com/quota"}], namespace="data")


async def _draw() -> None:
    FOLDER.mkdir(exist_ok=True)
    app = TopApp(Made())
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        (FOLDER / "top.svg").write_text(app.export_screenshot(title="stowage top"))
        await pilot.press("down", "enter")
        await pilot.pause()
        (FOLDER / "top-explain.svg").write_text(app.export_screenshot(title="stowage top"))


def _draw_demo() -> None:
    """The demo when most of its pods are placed; where they go is decided as it is there."""
    load = make_load(60, 600, seed=1)
    shown = load.pods[:480]
    text = json.dumps({"kind": "List", "items": [*load.nodes, *shown]})
    profiles = Profiles(None)
    found = profiles.load(objects_from_documents(documents_from_text(text, "demo")), seed=1)
    places = {place.pod.partition("/")[2]: place for place in simulate(found).placements}
    cluster = Cluster()
    for node in load.nodes:
        cluster.node_changed(msgspec.convert(node, Node))
    for number, given in enumerate(shown):
        cluster.pod_changed(msgspec.convert(given, Pod), number / 100)
    for number, given in enumerate(shown):
        if place := places.get(given["metadata"]["name"]):
            spec = {**given["spec"], "nodeName": place.node or ""}
            why = {"type": "PodScheduled", "reason": "Unschedulable", "message": place.message}
            status = {} if place.node else {"conditions": [why]}
            pod = msgspec.convert({**given, "spec": spec, "status": status}, Pod)
            cluster.pod_changed(pod, number / 100 + 0.03)
    width, height = DEMO_SIZE
    console = Console(
        record=True, file=io.StringIO(), force_terminal=True, width=width, height=height
    )
    screen = LiveScreen(console, cluster, len(load.expected), lambda: 5.2)
    for sentence in (
        "60 nodes in 3 zones are ready",
        "the first pod has a node; submitting 600 pods of several workloads",
        "cordoned node-0001, node-0013, node-0025",
    ):
        screen.tell(sentence)
    console.print(screen.picture())
    (FOLDER / "demo.svg").write_text(console.export_svg(title="stowage demo", unique_id="demo"))


if __name__ == "__main__":
    asyncio.run(_draw())
    _draw_demo()
