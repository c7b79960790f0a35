"""Changes to the cluster that accompany the measured pods."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count

from bench import objects
from bench.workload import Churn, Size, Workload
from e2e.support.api import Api, ApiRefusedError, Call
from e2e.support.objects import Json

_NAMESPACE = "churn"
_NOT_FOUND = 404


@asynccontextmanager
async def churning(api: Api, workload: Workload, size: Size) -> AsyncIterator[None]:
    """Run the workload's churn until the context ends."""
    tasks = [
        asyncio.create_task(_Source(api, churn, workload, size, f"churn-{number}").run())
        for number, churn in enumerate(workload.churn)
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for problem in ended:
            if isinstance(problem, Exception):
                raise problem


class _Source:
    """One source of changes at a fixed rate."""

    def __init__(self, api: Api, churn: Churn, workload: Workload, size: Size, prefix: str) -> None:
        self._api = api
        self._churn = churn
        self._prefix = prefix
        names = [f"node-{number:05}" for number in range(size.nodes)]
        self._pods = objects.PodFactory(churn.pod, names, prefix) if churn.pod else None
        self._waiting = iter(range(size.waiting if churn.delete_waiting else 0))
        self._created: list[str] = []

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        for tick in count(1):
            # Catch up after late ticks, since the rate is part of the workload.
            await asyncio.sleep(start + tick * self._churn.every_seconds - loop.time())
            await self._tick(tick)

    async def _tick(self, tick: int) -> None:
        if self._churn.recreate:
            for path in self._created:
                await self._delete(path)
            self._created.clear()
        for collection, name, body in self._creations(tick):
            await self._api.call_all([Call("POST", collection, body)], 1)
            self._created.append(f"{collection}/{name}")
        for number in self._next_waiting():
            await self._delete(f"/api/v1/namespaces/waiting/pods/waiting-{number:06}")

    def _creations(self, tick: int) -> Iterator[tuple[str, str, object]]:
        name = f"{self._prefix}-{tick:06}"
        if self._churn.node is not None:
            yield "/api/v1/nodes", f"{self._prefix}-00000", self._node()
        if self._pods is not None:
            path = f"/api/v1/namespaces/{_NAMESPACE}/pods"
            yield path, name, self._pods.waiting(tick, _NAMESPACE)
        if self._churn.service:
            path = f"/api/v1/namespaces/{_NAMESPACE}/services"
            yield path, name, objects.make_service(name, _NAMESPACE, {"app": "churn"})

    def _node(self) -> Json:
        assert self._churn.node is not None
        return objects.nodes_of(self._churn.node, 1, self._prefix)[0]

    def _next_waiting(self) -> Sequence[int]:
        number = next(self._waiting, None)
        return () if number is None else (number,)

    async def _delete(self, path: str) -> None:
        try:
            await self._api.delete(f"{path}?gracePeriodSeconds=0")
        except ApiRefusedError as problem:
            if problem.status != _NOT_FOUND:
                raise
