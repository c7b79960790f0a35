"""An extender: a web server whose answers a test writes."""

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import msgspec
from aiohttp import web

Body = dict[str, Any]
Reply = Callable[[Body], Any]
"""Gives the answer to a request: a value, bytes as they are, a response, or one of these later."""


class FakeExtender:
    """Answers verbs, and remembers what it was asked.

    Args:
        tls: for HTTPS.
        host: where it listens.
        replies: by verb.

    Attributes:
        asked: verb and body of each request, in order.
        most: the most requests that were under way at a time.
        targets: path and query of each request.
    """

    def __init__(
        self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", **replies: Reply
    ) -> None:
        self.replies = replies
        self.asked: list[tuple[str, Body]] = []
        self.most = 0
        self.headers: list[Any] = []
        self.targets: list[str] = []
        self._under_way = 0
        self._tls = tls
        self._host = host
        self._runner: web.AppRunner | None = None
        self.url = ""

    def count(self, verb: str) -> int:
        """How often a verb was asked."""
        return sum(asked == verb for asked, _ in self.asked)

    def bodies(self, verb: str) -> list[Body]:
        """What a verb was asked."""
        return [body for asked, body in self.asked if asked == verb]

    def config(self, *verbs: str, **fields: Any) -> Body:
        """Its entry in a configuration."""
        named = {f"{verb}Verb": verb for verb in verbs}
        weight = {"weight": 1} if "prioritize" in verbs else {}
        return {"urlPrefix": self.url, **named, **weight, "nodeCacheCapable": True, **fields}

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=2**28)
        app.router.add_post("/{verb}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, 0, ssl_context=self._tls)
        await site.start()
        port = self._runner.addresses[0][1]
        name = "localhost" if self._tls and self._host == "127.0.0.1" else self._host
        self.url = f"{'https' if self._tls else 'http'}://{name}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        verb = request.match_info["verb"]
        body = msgspec.json.decode(await request.read())
        self.asked.append((verb, body))
        self.headers.append(request.headers.copy())
        self.targets.append(request.path_qs)
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        try:
            answer = self.replies[verb](body)
            if isinstance(answer, Awaitable):
                answer = await answer
        finally:
            self._under_way -= 1
        if isinstance(answer, web.StreamResponse):
            return answer
        raw = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
        return web.Response(body=raw, content_type="application/json")


@contextmanager
def serving(extender: FakeExtender) -> Iterator[FakeExtender]:
    """The extender in a thread of its own, for tests that have no loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(extender.__aenter__(), loop).result()
        yield extender
        asyncio.run_coroutine_threadsafe(extender.__aexit__(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def names_of(body: Body) -> list[str]:
    """The nodes a request is about, however they are sent."""
    if body["NodeNames"] is not None:
        return list(body["NodeNames"])
    return [node["metadata"]["name"] for node in body["Nodes"]["items"]]


def only(*names: str, **more: Any) -> Reply:
    """Lets some nodes pass."""
    return lambda body: {"NodeNames": [n for n in names_of(body) if n in names], **more}


def scores(**by_node: int) -> Reply:
    """Scores nodes; others get none."""
    return lambda body: [
        {"Host": name, "Score": by_node[name]} for name in names_of(body) if name in by_node
    ]


def after(seconds: float, reply: Reply) -> Reply:
    """Takes its time."""

    async def answer(body: Body) -> Any:
        await asyncio.sleep(seconds)
        return reply(body)

    return answer


def failing(status: int) -> Reply:
    """Answers with another status."""
    return lambda _: web.Response(status=status)


def closing() -> Reply:
    """Closes the connection without a word."""

    async def answer(_: Body) -> Any:
        raise ConnectionResetError

    return answer


def agreeing(body: Body) -> Body:
    """Has nothing against any candidate of a preemption."""
    given = body["NodeNameToMetaVictims"]
    if given is None:
        given = {
            node: {
                "Pods": [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]],
                "NumPDBViolations": victims["NumPDBViolations"],
            }
            for node, victims in body["NodeNameToVictims"].items()
        }
    return {"NodeNameToMetaVictims": given}
