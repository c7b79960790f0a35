"""Provides a small asynchronous API client for tests and benchmarks.

Credentials come from a kubeconfig, loaded by the kubernetes package, so the client reaches any
cluster that kubectl reaches. It shares no code with the daemon's own client, so a bug there cannot
hide itself.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import aiohttp
import msgspec
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import load_kube_config

from e2e.support.objects import Json

CONCURRENCY = 32
"""Maximum requests in flight during bulk operations; more would only queue in the API server."""

_BAD_REQUEST = 400
_TOO_MANY_REQUESTS = 429
_OVERLOADED = frozenset({500, 503, 504})
"""Statuses of an API server or an etcd that is too busy to answer in time."""
_REPEATS = 5
"""How often a GET request is sent again after such an answer, a second later."""
_SERVER_ERROR = 500
"""Lowest status of errors of the server."""
_CONNECT_SECONDS = 60
"""Limit for a connection with its TLS handshake, for which an overloaded server takes seconds."""


class ApiRefusedError(RuntimeError):
    """The API server answered with an error."""

    def __init__(self, method: str, path: str, status: int, body: bytes) -> None:
        super().__init__(f"{method} {path}: {status} {body[:400].decode(errors='replace')}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Credentials:
    """Address of an API server, and credentials for it."""

    server: str
    context: ssl.SSLContext | None
    headers: Mapping[str, str] = field(default_factory=dict)
    authority: bytes | None = None
    """CA certificate of the server, in PEM."""

    @classmethod
    async def load(cls, kubeconfig: Path) -> "Credentials":
        """Read the credentials from the current context of ``kubeconfig``."""
        loaded = Configuration()
        await load_kube_config(  # type: ignore[no-untyped-call]
            config_file=str(kubeconfig), client_configuration=loaded
        )
        settings = cast(dict[str, Json], await loaded.auth_settings())
        headers = {each["key"]: each["value"] for each in settings.values()}
        context = authority = None
        if loaded.ssl_ca_cert:
            authority = Path(loaded.ssl_ca_cert).read_bytes()  # noqa: ASYNC240 -- a small file
        if loaded.host.startswith("https:"):
            context = ssl.create_default_context(cafile=loaded.ssl_ca_cert)
            if loaded.cert_file:
                context.load_cert_chain(loaded.cert_file, loaded.key_file)
            if not loaded.verify_ssl:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
        return cls(loaded.host, context, headers, authority)


@dataclass(frozen=True, slots=True)
class Call:
    """One request of a bulk operation."""

    method: str
    path: str
    body: object = None
    content_type: str = "application/json"


class Api:
    """Requests to one API server as one user."""

    def __init__(self, session: aiohttp.ClientSession, credentials: Credentials) -> None:
        self._session = session
        self.credentials = credentials

    @classmethod
    @asynccontextmanager
    async def connect(cls, kubeconfig: Path) -> "AsyncIterator[Api]":
        """Open a session with the credentials of ``kubeconfig``, and close it on exit."""
        credentials = await Credentials.load(kubeconfig)
        connector = aiohttp.TCPConnector(limit=0, ssl=credentials.context or True)
        async with aiohttp.ClientSession(
            credentials.server,
            connector=connector,
            headers=credentials.headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            read_bufsize=2**21,
        ) as session:
            yield cls(session, credentials)

    async def get(self, path: str) -> Json:
        return await self.call(Call("GET", path))

    async def post(self, path: str, body: object) -> Json:
        return await self.call(Call("POST", path, body))

    async def put(self, path: str, body: object) -> Json:
        return await self.call(Call("PUT", path, body))

    async def patch(self, path: str, body: object) -> Json:
        """Send a JSON merge patch."""
        return await self.call(Call("PATCH", path, body, "application/merge-patch+json"))

    async def delete(self, path: str) -> Json:
        return await self.call(Call("DELETE", path))

    async def call(self, call: Call) -> Json:
        """Send one request and return the decoded response; see ``call_all`` about repeats.

        As client-go does, it repeats a request that is answered with Retry-After.

        Raises:
            ApiRefusedError: the status is 400 or above.
        """
        answer: Json = msgspec.json.decode(await self._send(call))
        return answer

    async def call_all(self, calls: Iterable[Call], concurrency: int = CONCURRENCY) -> None:
        """Send many requests, ``concurrency`` at a time.

        A GET request is repeated a few times if the API server is too busy to answer.

        Raises:
            ApiRefusedError: a request failed; no further requests are started.
        """
        waiting = iter(calls)

        async def work() -> None:
            for call in waiting:
                await self._send(call)

        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(work())

    async def create_all(
        self, path: str, objects: Iterable[object], concurrency: int = CONCURRENCY
    ) -> None:
        await self.call_all((Call("POST", path, each) for each in objects), concurrency)

    async def list_items(self, path: str) -> list[Json]:
        """Return all objects of a collection at the newest resource version, page by page."""
        items: list[Json] = []
        separator = "&" if "?" in path else "?"
        token = ""
        while True:
            page = await self.get(f"{path}{separator}limit=5000&continue={token}")
            items += page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return items

    async def watch(self, path: str, resource_version: str) -> AsyncIterator[tuple[str, Json]]:
        """Yield (type, object) of each event after ``resource_version``, until cancelled.

        A watch that the API server ends continues after the last event: an overloaded API server
        ends those whose events wait for too long.

        Raises:
            ApiRefusedError: the API server refuses the watch, or has forgotten the version.
            aiohttp.ClientError: the connection broke off.
        """
        separator = "&" if "?" in path else "?"
        while True:
            query = f"{path}{separator}watch=true&resourceVersion={resource_version}"
            async with self._session.get(query) as response:
                if await _was_told_to_repeat(response):
                    continue
                if response.status >= _BAD_REQUEST:
                    raise ApiRefusedError("WATCH", path, response.status, await response.read())
                while line := await response.content.readline():
                    event = msgspec.json.decode(line)
                    kind, found = event["type"], event["object"]
                    if kind == "ERROR":
                        raise ApiRefusedError("WATCH", path, found.get("code", 0), line)
                    resource_version = found["metadata"]["resourceVersion"]
                    yield kind, found

    async def _send(self, call: Call) -> bytes:
        data = None if call.body is None else msgspec.json.encode(call.body)
        headers = {"Content-Type": call.content_type} if data is not None else {}
        repeats = _REPEATS if call.method == "GET" else 0
        while True:
            async with self._session.request(
                call.method, call.path, data=data, headers=headers
            ) as response:
                body = await response.read()
                if await _was_told_to_repeat(response):
                    continue
                if response.status in _OVERLOADED and repeats:
                    repeats -= 1
                    await asyncio.sleep(1)
                    continue
                if response.status >= _BAD_REQUEST:
                    raise ApiRefusedError(call.method, call.path, response.status, body)
                return body


async def _was_told_to_repeat(response: aiohttp.ClientResponse) -> bool:
    """Wait as the response asks for; report whether it asks for the request again."""
    is_passing = response.status == _TOO_MANY_REQUESTS or response.status >= _SERVER_ERROR
    if not is_passing or "Retry-After" not in response.headers:
        return False
    await asyncio.sleep(float(response.headers["Retry-After"]))
    return True
