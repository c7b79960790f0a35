"""A console at work, as a browser or a test asks it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import ClientSession

from scheduler.clock import SystemClock
from scheduler.tools.console.scenes import FileScene, Scene
from scheduler.tools.console.server import Console
from scheduler.tools.offline.admission import Admission
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import documents_from_text, objects_from_documents
from tests.support.manifests import Manifest

JSON: Final = {"Content-Type": "application/json"}


def scene_of(*objects: Manifest) -> FileScene:
    """Objects as `stowage console -f` reads them."""
    text = json.dumps({"kind": "List", "items": objects})
    read = objects_from_documents(documents_from_text(text, "test"), admission=Admission())
    return FileScene(read, Profiles(None), "test", SystemClock())


@asynccontextmanager
async def serving(scene: Scene, **settings: Any) -> AsyncIterator[tuple[str, ClientSession]]:
    """Its address without the last slash, and a client."""
    pages = Console(
        scene,
        SystemClock(),
        admission_of=lambda cluster: (cluster.admission, ()),
        **settings,
    )
    url = await pages.start("127.0.0.1", 0)
    async with ClientSession() as client:
        try:
            yield url.rstrip("/"), client
        finally:
            await pages.stop()


async def lines(answer: Any) -> list[Any]:
    """What a long question was answered, line by line."""
    return [json.loads(line) for line in (await answer.text()).splitlines()]
