"""The HTTP side: connections in, answers and watch streams out, faults in between."""

import asyncio
import ssl
from random import Random
from typing import Final

from aiohttp import web

from scheduler.sandbox.accounts import Accounts
from scheduler.sandbox.api import Api, Call, Reply, error_reply, kind_at
from scheduler.sandbox.faults import Answer, Before, Delay, Drop, Faults, Hang
from scheduler.sandbox.reading import selection, version_number
from scheduler.sandbox.request_info import RequestInfo, request_info
from scheduler.sandbox.request_log import LoggedRequest, RequestLog
from scheduler.sandbox.status import StatusError, internal, no_such_path
from scheduler.sandbox.store import Store
from scheduler.sandbox.watch_sessions import WatchSession
from scheduler.sandbox.watching import Watch

_OPEN_PATHS: Final = ("/healthz", "/livez", "/readyz", "/version")
_SHUTDOWN_SECONDS: Final = 0.5
_SHORTEST_WATCH_SECONDS: Final = 1800
BOOKMARK_SECONDS: Final = 60.0


class _Unanswered(Exception):  # noqa: N818 - it is not an error but the end of a story
    """The connection is cut on purpose; there is nothing to send."""


class Server:
    """Serves an API over HTTP.

    Args:
        api: what answers.
        store: what watches look at.
        accounts: who may come in.
        faults: what is to go wrong, and the open watches.
        requests: where requests are noted.
        random: for the length of watches without a timeout.
        bookmark_seconds: how often watches get a bookmark.
    """

    def __init__(
        self,
        api: Api,
        store: Store,
        accounts: Accounts,
        faults: Faults,
        *,
        requests: RequestLog,
        random: Random,
        bookmark_seconds: float = BOOKMARK_SECONDS,
    ) -> None:
        self._api = api
        self._store = store
        self._accounts = accounts
        self._faults = faults
        self._requests = requests
        self._random = random
        self._bookmark_seconds = bookmark_seconds
        self._runner = web.ServerRunner(
            # A watch ends when its client goes; aiohttp says so by cancelling the handler.
            web.Server(self._handle, handler_cancellation=True, access_log=None),
            shutdown_timeout=_SHUTDOWN_SECONDS,
        )

    async def start(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Begins to listen; the answer is the port, chosen by the system for port 0."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, ssl_context=context, backlog=1024)
        await site.start()
        address = self._runner.addresses[0]
        return int(address[1])

    async def stop(self) -> None:
        """Ends all watches and stops to listen."""
        self._faults.close_watches()
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        info = request_info(request.method, request.raw_path)
        user = ""
        try:
            if not info.path.startswith(_OPEN_PATHS):
                user = self._accounts.user_of(request.headers.get("Authorization", ""))
            body = await request.content.read() if request.can_read_body else b""
            response = await self._respond(request, info, body, user)
        except StatusError as error:
            response = _response(error_reply(error), error.retry_after_seconds)
        except _Unanswered:
            self._note(request, info, 0, user)
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        except Exception as error:  # one broken request must not take the others with it
            response = _response(error_reply(internal(f"{type(error).__name__}: {error}")), None)
            self._note(request, info, response.status, user)
            raise
        if info.verb != "watch":
            self._note(request, info, response.status, user)
        return response

    def _note(self, request: web.BaseRequest, info: RequestInfo, code: int, user: str) -> None:
        agent = request.headers.get("User-Agent", "")
        self._requests.record(LoggedRequest(info, code, agent, user))

    async def _respond(
        self, request: web.BaseRequest, info: RequestInfo, body: bytes, user: str
    ) -> web.StreamResponse:
        drops_answer = await self._suffer(info)
        headers = request.headers
        call = Call(
            info,
            body,
            content_type=headers.get("Content-Type", ""),
            accept=headers.get("Accept", ""),
            user=user,
        )
        if info.verb == "watch":
            return await self._watch(request, call)
        reply = self._api.respond(call)
        if drops_answer:
            raise _Unanswered
        return _response(reply, None)

    async def _suffer(self, info: RequestInfo) -> bool:
        """Lets the fault happen that is set for a request; whether its answer is to be lost."""
        match self._faults.take(info.verb, info.path):
            case Answer(error):
                raise error
            case Hang():
                await asyncio.Event().wait()
            case Drop(after_commit):
                if not after_commit:
                    raise _Unanswered
                return True
            case Delay(seconds):
                await asyncio.sleep(seconds)
            case Before(act):
                act()
            case None:
                pass
        return False

    async def _watch(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        info = call.info
        kind = kind_at(info)
        if kind is None:
            raise no_such_path()
        wanted = selection(kind, info.namespace, _with_name(info))
        watch = Watch(kind, self._store, wanted, self._api.renderer(kind, call), info.query)
        if watch.failure is not None and self._faults.answers_gone_as_status:
            raise watch.failure
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self._note(request, info, response.status, call.user)
        session = WatchSession(kind, watch)
        self._faults.sessions.add(session)
        unsubscribe = self._store.collection(kind).subscribe(session.wake.set)
        try:
            await self._stream(session, response, self._watch_seconds(info))
        except ConnectionResetError:
            return response
        finally:
            unsubscribe()
            self._faults.sessions.discard(session)
        if session.is_aborted:
            raise _Unanswered
        return response

    def _watch_seconds(self, info: RequestInfo) -> float:
        asked = version_number(info.query.get("timeoutSeconds", ""))
        return asked or _SHORTEST_WATCH_SECONDS * (1 + self._random.random())

    async def _stream(
        self, session: WatchSession, response: web.StreamResponse, seconds: float
    ) -> None:
        """Sends a watch's lines until it is over, closed, or its time is up."""
        now = asyncio.get_running_loop().time
        end, next_bookmark = now() + seconds, now() + self._bookmark_seconds
        watch = session.watch
        while not session.is_closed and now() < end:
            session.wake.clear()
            if session.is_silent:
                await session.wake.wait()
                continue
            if injected := session.take_injected():
                await response.write(injected)
            if watch.has_more:
                if lines := watch.take():
                    await response.write(lines)
                if watch.is_over:
                    return
                # Writing waits only when the client is slow; others need the loop as well.
                await asyncio.sleep(0)
                continue
            if now() >= next_bookmark:
                next_bookmark += self._bookmark_seconds
                await _write(response, watch.bookmark())
            await _wait(session.wake, min(end, next_bookmark) - now())
        if not session.is_closed:
            await _write(response, watch.bookmark())


async def _write(response: web.StreamResponse, lines: bytes) -> None:
    if lines:
        await response.write(lines)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


def _with_name(info: RequestInfo) -> dict[str, str]:
    """The parameters of a watch; one of a single object selects it by name."""
    if not info.name:
        return dict(info.query)
    selectors = [info.query.get("fieldSelector", ""), f"metadata.name={info.name}"]
    return {**info.query, "fieldSelector": ",".join(filter(None, selectors))}


def _response(reply: Reply, retry_after_seconds: int | None) -> web.Response:
    headers = {"Content-Type": reply.content_type}
    if retry_after_seconds is not None:
        headers["Retry-After"] = str(retry_after_seconds)
    response = web.Response(body=reply.body, status=reply.status, headers=headers)
    for warning in reply.warnings:
        escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{escaped}"')
    return response
