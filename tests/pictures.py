"""`python -m tests.pictures`: draws the pictures of the documentation again.

They show a cluster made up here, so that the same command gives the same picture.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final

from typing_extensions import override

from scheduler.cli.top.app import TopApp
from scheduler.cli.top.sources import Source
from scheduler.cli.top.view import Rates
from scheduler.offline.cluster import Profiles
from scheduler.offline.reading import documents_from_text, objects_from_documents
from scheduler.offline.simulate import simulate
from tests.support.manifests import Manifest, node_manifest, pod_manifest

FOLDER: Final = Path(__file__).parent.parent / "docs" / "pictures"
SIZE: Final = (100, 26)


class Made(Source):
    """A cluster in which everything that fits has found its place."""

    def __init__(self) -> None:
        self.profiles = Profiles(None)
        text = json.dumps({"kind": "List", "items": list(_objects())})
        objects = objects_from_documents(documents_from_text(text, "picture"))
        cluster = self.profiles.load(objects, seed=1)
        simulate(cluster)
        self.engine = cluster.engine
        self.rates = Rates()

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


if __name__ == "__main__":
    asyncio.run(_draw())
