"""A console at work, as a browser or a test asks it."""

import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import ClientSession

from scheduler.clock import SystemClock
from scheduler.config.load import default_configuration
from scheduler.tools.console.scenes import FileScene, Scene
from scheduler.tools.console.server import Console
from scheduler.tools.offline.admission import Admission
from scheduler.tools.offline.cluster import DEFAULT_PROFILE, Profiles
from scheduler.tools.offline.reading import documents_from_text, objects_from_documents
from tests.support.manifests import Manifest

JSON: Final = {"Content-Type": "application/json"}


def scene_of(*objects: Manifest, gates: Collection[str] = ()) -> FileScene:
    """Objects as `stowage console -f` reads them, with some feature gates on."""
    config = default_configuration(DEFAULT_PROFILE, gates)
    text = json.dumps({"kind": "List", "items": objects})
    read = objects_from_documents(documents_from_text(text, "test"), admission=Admission())
    return FileScene(read, Profiles(config, is_named=False), "test", SystemClock())


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
