"""Stands in for `PodWrites`: notes what is sent, and answers when and as it is told."""

import asyncio
from collections import deque
from datetime import datetime
from typing import Any

from scheduler.api.written import Condition
from scheduler.daemon.client.event_series import Occurrence

TURNS = 400
"""Turns of the loop after which everything that can happen has happened."""


class FakeWrites:
    """Requests to nobody.

    Attributes:
        sent: what was sent, in order: verb and name of the pod.
        held: verbs whose requests are not answered until `release`.
        problems: by verb, what the next requests raise; None for success.
        pod: what `read` gives.
        absent: victims that are not found.
        most: the most requests under way at a time.
        plugin_requests: how many of plugins are under way.
    """

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.bodies: list[Any] = []
        self.held: set[str] = set()
        self.problems: dict[str, deque[Exception | None]] = {}
        self.pod: bytes | None = None
        self.absent: set[str] = set()
        self.most = 0
        self.plugin_requests = 0
        self._under_way = 0
        self._waiting: list[tuple[str, str, asyncio.Future[None]]] = []

    def fail(self, verb: str, *problems: Exception | None) -> None:
        """What the next requests of a kind raise, one each."""
        self.problems.setdefault(verb, deque()).extend(problems)

    def release(self, verb: str, count: int | None = None) -> None:
        """Answer held requests, all or the oldest."""
        waiting = [entry for entry in self._waiting if entry[0] == verb][:count]
        for entry in waiting:
            self._waiting.remove(entry)
            entry[2].set_result(None)

    def hanging(self, verb: str) -> int:
        """How many requests of a kind wait for an answer."""
        return sum(entry[0] == verb for entry in self._waiting)

    def names(self, verb: str) -> list[str]:
        """The pods that requests of a kind were about, in order."""
        return [name for sent, name in self.sent if sent == verb]

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        await self._send("bind", name)

    async def read(self, namespace: str, name: str) -> bytes | None:
        await self._send("read", name)
        return self.pod

    async def patch_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        now: datetime,
        *,
        condition: Condition | None = None,
        nominated_node_name: str | None = None,
    ) -> None:
        self.bodies.append((now, condition, nominated_node_name))
        await self._send("patch", name)

    async def patch_group_status(
        self,
        api_version: str,
        namespace: str,
        name: str,
        uid: str,
        now: datetime,
        condition: Condition,
    ) -> None:
        self.bodies.append((api_version, uid, now, condition))
        await self._send("group", name)

    async def evict(
        self, namespace: str, name: str, uid: str, now: datetime, condition: Condition | None
    ) -> bool:
        self.bodies.append((uid, now, condition))
        await self._send("evict", name)
        return name not in self.absent

    async def event(self, occurrence: Occurrence) -> None:
        self.bodies.append(occurrence)
        await self._send("event", occurrence.event.regarding.name)

    async def _send(self, verb: str, name: str) -> None:
        self.sent.append((verb, name))
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        try:
            if verb in self.held:
                answer = asyncio.get_running_loop().create_future()
                self._waiting.append((verb, name, answer))
                await answer
            else:
                await asyncio.sleep(0)
        finally:
            self._under_way -= 1
        problems = self.problems.get(verb)
        problem = problems.popleft() if problems else None
        if problem is not None:
            raise problem


async def settle() -> None:
    """Let everything happen that can happen without time passing."""
    for _ in range(TURNS):
        await asyncio.sleep(0)
