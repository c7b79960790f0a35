"""The server of the pages, which answers with JSON and never changes the cluster.

Pages of other origins must not be able to send requests. So the Host header must name this server
(against DNS rebinding), and posts must be JSON from its own pages.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Final

import msgspec
from aiohttp import web
from aiohttp.client_exceptions import ClientConnectionError

from scheduler.clock import Clock
from scheduler.config.write import to_yaml
from scheduler.daemon.client.session import ApiSession
from scheduler.errors import SchedulerError
from scheduler.observability.build_info import stowage_version
from scheduler.tools.console.past import past_of
from scheduler.tools.console.questions import (
    CompareQuestion,
    SaveQuestion,
    WhatIfQuestion,
    answer_comparison,
    answer_what_if,
)
from scheduler.tools.console.scenes import ClusterScene, RecordingScene, Scene
from scheduler.tools.console.views import names_of, now_of, pod_of, pods_of, with_past
from scheduler.tools.console.work import ProgressUpdate, Work
from scheduler.tools.offline.admission import Admission
from scheduler.tools.offline.asked_changes import Reader, readers_of
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.progress import Progress
from scheduler.tools.offline.reading import (
    ClusterObjects,
    InputError,
    documents_from_text,
)
from scheduler.tools.pages.shell import POLICY, STATIC, Page, saved_page, served_page

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
AdmissionOf = Callable[[ClusterObjects], tuple[Admission, tuple[str, ...]]]
"""Reads the defaults of a cluster's admission; see `InputSource.admission_beside`."""

PAGES: Final[dict[str, Page]] = {
    "/": "now",
    "/pod": "pod",
    "/what-if": "what-if",
    "/replay": "replay",
}
_MAX_BODY_BYTES: Final = 32 * 1024 * 1024
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_JSON: Final = "application/json"
_LINES: Final = "application/x-ndjson"
_SAMPLE_SECONDS: Final = 1.0
_LAST_ANSWER_SECONDS: Final = 0.5
"""Time that an answer may still take when the console ends."""
_NAMES: Final = frozenset({"localhost"})
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger(__name__)


async def check_address(host: str, port: int) -> None:
    """Check that the address can be listened on, before a cluster is watched.

    Raises:
        InputError: the address cannot be listened on.
    """
    with _binding(host, port):
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port)
    server.close()
    await server.wait_closed()


@contextmanager
def _binding(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        told = problem.strerror or problem
        raise InputError(f"cannot listen on {host} port {port}: {told}") from problem


class Console:
    """Serves the pages of one scene.

    Args:
        scene: the scene to show.
        clock: measures computations.
        notices: notices about the source of the scene.
        admission_of: returns the defaults for submitted objects.
        hosts: more accepted host names.
        session: the session with the API server, for a pod's events; None without a cluster.
    """

    def __init__(
        self,
        scene: Scene,
        clock: Clock,
        *,
        notices: tuple[str, ...] = (),
        admission_of: AdmissionOf,
        hosts: tuple[str, ...] = (),
        session: ApiSession | None = None,
    ) -> None:
        self._scene = scene
        self._notices = notices
        self._admission_of = admission_of
        self._session = session
        self._hosts = _NAMES | {host.lower() for host in hosts}
        self._work = Work(clock)
        self._tasks: list[asyncio.Task[None]] = []
        app = web.Application(middlewares=[self._guard], client_max_size=_MAX_BODY_BYTES)
        app.add_routes([web.get(path, partial(_page, page)) for path, page in PAGES.items()])
        app.add_routes(
            [
                web.get("/static/{name:.+}", _static),
                web.get("/api/about", self._about),
                web.get("/api/now", self._now),
                web.get("/api/pods", self._pods),
                web.get("/api/names", self._names),
                web.get("/api/explain", self._explain),
                web.post("/api/what-if", self._what_if),
                web.post("/api/compare", self._compare),
                web.post("/api/saved", self._saved),
            ]
        )
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=_LAST_ANSWER_SECONDS
        )

    async def start(self, host: str, port: int) -> str:
        """Begin to listen, for port 0 on a free port; return the address.

        Raises:
            InputError: the address cannot be listened on.
        """
        await self._runner.setup()
        try:
            with _binding(host, port):
                await web.TCPSite(self._runner, host, port).start()
        except InputError:
            await self._runner.cleanup()
            raise
        if self._scene.is_live:
            self._tasks.append(asyncio.create_task(self._sample()))
        bound = self._runner.addresses[0]
        self._hosts |= {bound[0], host.lower()}
        name = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        return f"http://{name}:{bound[1]}/"

    async def stop(self) -> None:
        """Stop the server."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._runner.cleanup()
        await asyncio.to_thread(self._work.close)

    async def _sample(self) -> None:
        """Sample the rates of a cluster every second, even if no page is open."""
        scene = self._scene
        while isinstance(scene, ClusterScene):
            await self._work.short(scene.sample)
            await asyncio.sleep(_SAMPLE_SECONDS)

    # --- who may ask ----------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        problem = self._refusal(request)
        if problem:
            response: web.StreamResponse = _failure(HTTPStatus.FORBIDDEN, problem)
        else:
            try:
                response = await handler(request)
            except SchedulerError as error:
                response = _failure(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
            except web.HTTPException as error:
                response = _failure(HTTPStatus(error.status), error.reason)
            except Exception as error:  # noqa: BLE001 - whatever went wrong, the page says so
                response = _failure(HTTPStatus.INTERNAL_SERVER_ERROR, _unexpected(error))
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    def _refusal(self, request: web.Request) -> str:
        """Return the reason why a request is refused; empty if it is not."""
        host = _host_of(request.host)
        if host not in self._hosts:
            return f"Host {host!r} is not served here; --allow-host names another one"
        if request.method in ("GET", "HEAD"):
            return ""
        origin = request.headers.get("Origin", "")
        if origin and origin.partition("://")[2] != request.host:
            return f"{origin} may not ask"
        if request.content_type != _JSON:
            return f"expected {_JSON}"
        return ""

    # --- short questions ------------------------------------------------------------------------

    async def _ask(self, request: web.Request, question: Callable[[Scene], Any]) -> Any:
        """Answer a question about the scene at the requested moment."""
        moment = _moment(request.query.get("at"))

        def ask() -> Any:
            self._scene.go(moment)
            return question(self._scene)

        return await self._work.short(ask)

    async def _about(self, _request: web.Request) -> web.Response:
        scene = self._scene
        about: dict[str, Any] = {
            "title": scene.title,
            "version": stowage_version(),
            "notices": self._notices,
            "hasPast": isinstance(scene, RecordingScene),
        }
        if isinstance(scene, RecordingScene):
            about |= {
                "seconds": scene.seconds,
                "started": scene.header.started,
                "isComplete": scene.header.is_complete,
                "configuration": await self._work.short(lambda: to_yaml(scene.profiles.config)),
            }
        return _json(about)

    async def _now(self, request: web.Request) -> web.Response:
        return _json(await self._ask(request, now_of))

    async def _pods(self, request: web.Request) -> web.Response:
        text, node = request.query.get("q", ""), request.query.get("node", "")
        return _json(await self._ask(request, lambda scene: pods_of(scene, text, node)))

    async def _names(self, request: web.Request) -> web.Response:
        return _json(await self._ask(request, names_of))

    async def _explain(self, request: web.Request) -> web.Response:
        name = request.query.get("pod", "")
        pod, page = await self._ask(request, lambda scene: pod_of(scene, name))
        if self._session is not None:
            page = with_past(page, *await past_of(self._session, pod))
        return _json(page)

    async def _saved(self, request: web.Request) -> web.Response:
        question = await _read(request, SaveQuestion)
        if question.page not in PAGES.values():
            raise InputError(f"{question.page}: there is no such page")
        page: Page = next(page for page in PAGES.values() if page == question.page)
        return web.Response(body=saved_page(page, question.data), content_type="text/html")

    # --- long questions -------------------------------------------------------------------------

    async def _what_if(self, request: web.Request) -> web.StreamResponse:
        question = await _read(request, WhatIfQuestion)
        documents = [
            list(documents_from_text(text, "the objects to apply")) for text in question.apply
        ]

        def cluster() -> tuple[ClusterObjects, Profiles]:
            self._scene.go(question.at)
            return self._scene.objects(), self._scene.profiles.again()

        objects, profiles = await self._work.short(cluster)
        applied = await self._readers(documents, objects, profiles)
        return await self._lines(
            request,
            lambda progress: answer_what_if(question, profiles, objects, applied, progress),
        )

    async def _readers(
        self, files: list[list[tuple[str, Any]]], cluster: ClusterObjects, profiles: Profiles
    ) -> list[Reader]:
        """Return readers of submitted objects, for use in the thread of a long request."""
        if not files:
            return []
        admission, problems = await asyncio.to_thread(self._admission_of, cluster)
        cluster.warnings += problems
        loop = asyncio.get_running_loop()
        readers = readers_of(files, cluster, admission, profiles.watched)
        return [partial(_read_in, loop, read) for read in readers]

    async def _compare(self, request: web.Request) -> web.StreamResponse:
        question, scene = await _read(request, CompareQuestion), self._scene
        if not isinstance(scene, RecordingScene):
            raise InputError("there is no recording here: start with --recording")
        header, records = scene.header, scene.records
        return await self._lines(
            request, lambda progress: answer_comparison(question, header, records, progress)
        )

    async def _lines(
        self, request: web.Request, task: Callable[[Progress], Any]
    ) -> web.StreamResponse:
        """Stream lines of JSON: the progress of a task, and finally its result."""
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": _LINES})
        await response.prepare(request)
        steps: AsyncIterator[Any] = self._work.long(task)
        try:
            async for step in steps:
                line = step if isinstance(step, ProgressUpdate) else {"result": step}
                await response.write(_encode(line) + b"\n")
        except SchedulerError as problem:
            await response.write(_encode({"error": str(problem)}) + b"\n")
        except ClientConnectionError:
            pass  # The page was closed, which ends the computation.
        except Exception as problem:  # noqa: BLE001 - as for short questions
            # The answer has begun: another one would be unreadable in its middle.
            await response.write(_encode({"error": _unexpected(problem)}) + b"\n")
        finally:
            await steps.aclose()  # type: ignore[attr-defined] # it is a generator
        await response.write_eof()
        return response


def _read_in(
    loop: asyncio.AbstractEventLoop, read: Reader, cluster: ClusterObjects
) -> ClusterObjects:
    """Decode submitted objects in the event loop's thread, like watched ones."""

    async def decoded() -> ClusterObjects:
        return read(cluster)

    return asyncio.run_coroutine_threadsafe(decoded(), loop).result()


def _host_of(given: str) -> str:
    """Return the host of a Host header, without its port; an address in its shortest form."""
    bare = given.rpartition(":")[0] if given.rpartition(":")[2].isdigit() else given
    host = bare.strip("[]").lower()
    try:
        return str(ip_address(host))
    except ValueError:
        return host


def _moment(text: str | None) -> float | None:
    """Parse the seconds since the start, if given.

    Raises:
        InputError: the text is no number.
    """
    if text is None:
        return None
    try:
        return float(text)
    except ValueError as problem:
        raise InputError(f"at={text}: expected seconds since the start") from problem


async def _read(request: web.Request, kind: Any) -> Any:
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except msgspec.MsgspecError as problem:
        raise InputError(f"the question cannot be read: {problem}") from problem


async def _page(page: Page, _request: web.Request) -> web.Response:
    return web.Response(text=served_page(page), content_type="text/html")


async def _static(request: web.Request) -> web.StreamResponse:
    path = (STATIC / request.match_info["name"]).resolve()
    if not path.is_relative_to(STATIC) or not path.is_file() or path.suffix not in _TYPES:
        return _failure(HTTPStatus.NOT_FOUND, "there is no such file")
    text = await asyncio.to_thread(path.read_text, encoding="utf-8")
    return web.Response(text=text, content_type=_TYPES[path.suffix], charset="utf-8")


def _json(value: object) -> web.Response:
    return web.Response(body=_encode(value), content_type=_JSON)


def _failure(status: HTTPStatus, told: str) -> web.Response:
    return web.Response(body=_encode({"error": told}), content_type=_JSON, status=status)


def _unexpected(error: Exception) -> str:
    """Log an error that is no answer to a question, and return its text for the page."""
    _log.error("A page was not answered", exc_info=error)
    return f"{type(error).__name__}: {error}"
