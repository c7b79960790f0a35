"""The HTTP side: connections in, answers and watch streams out, faults in between."""

import asyncio
import logging
from http import HTTPStatus
from random import Random
from typing import Final

from aiohttp import web

from apistub.http.api import Api, Call, Reply, json_reply, kind_at
from apistub.http.faults import Faults
from apistub.http.requests import RequestInfo, RequestLog, request_info
from apistub.http.watching import Watch
from apistub.storage.reading import number_in, selection
from apistub.storage.status import StatusError
from apistub.storage.store import Store

_LOG: Final = logging.getLogger(__name__)
_SHUTDOWN_SECONDS: Final = 0.5
_SHORTEST_WATCH_SECONDS: Final = 1800
BOOKMARK_SECONDS: Final = 60.0


class _Unanswered(Exception):  # noqa: N818 - it is not an error but the end of a story
    """The connection is cut on purpose; there is nothing to send."""


class Server:
    """Serves an API over HTTP."""

    def __init__(
        self,
        api: Api,
        store: Store,
        faults: Faults,
        *,
        requests: RequestLog,
        random: Random,
        bookmark_seconds: float = BOOKMARK_SECONDS,
    ) -> None:
        self._api = api
        self._store = store
        self._faults = faults
        self._requests = requests
        self._random = random
        self._bookmark_seconds = bookmark_seconds
        self._runner = web.ServerRunner(
            # A watch ends when its client goes; aiohttp says so by cancelling the handler.
            web.Server(self._handle, handler_cancellation=True, access_log=None),
            shutdown_timeout=_SHUTDOWN_SECONDS,
        )

    async def start(self, host: str, port: int) -> int:
        """Begins to listen; the answer is the port, chosen by the system for port 0."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, backlog=1024)
        await site.start()
        address = self._runner.addresses[0]
        return int(address[1])

    async def stop(self) -> None:
        """Ends all watches and stops to listen."""
        self._faults.close_watches()
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        info = request_info(request.method, request.raw_path)
        try:
            body = await request.content.read() if request.can_read_body else b""
            response = await self._respond(request, info, body)
        except StatusError as error:
            response = _refusal(error)
        except _Unanswered:
            self._requests.record(info, 0)
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        except Exception as error:  # noqa: BLE001 - it must not take the other requests with it
            _LOG.exception("%s %s failed", info.verb, info.path)
            text = f"{type(error).__name__}: {error}"
            response = _refusal(StatusError(HTTPStatus.INTERNAL_SERVER_ERROR, text))
        if info.verb != "watch":
            self._requests.record(info, response.status)
        return response

    async def _respond(
        self, request: web.BaseRequest, info: RequestInfo, body: bytes
    ) -> web.StreamResponse:
        drops_answer = await self._suffer(info)
        headers = request.headers
        call = Call(info, body, headers.get("Content-Type", ""), headers.get("Accept", ""))
        if info.verb == "watch":
            return await self._watch(request, call)
        reply = self._api.respond(call)
        if drops_answer:
            raise _Unanswered
        return _response(reply)

    async def _suffer(self, info: RequestInfo) -> bool:
        """Lets the fault happen that is set for a request; whether its answer is to be lost."""
        fault = self._faults.take(info.verb, info.path)
        if fault is None:
            return False
        if fault.seconds:
            await asyncio.sleep(fault.seconds)
        if fault.act is not None:
            fault.act()
        if fault.error is not None:
            raise fault.error
        if fault.drops_request:
            raise _Unanswered
        return fault.drops_answer

    async def _watch(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        info = call.info
        kind = kind_at(info)
        wanted = selection(kind, info.namespace, _with_name(info))
        watch = Watch(kind, self._store, wanted, self._api.renderer(kind, call), info.query)
        if watch.failure is not None and self._faults.answers_gone_as_status:
            raise watch.failure
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self._requests.record(info, response.status)
        self._faults.watches[watch] = None
        unsubscribe = self._store.collection(kind).subscribe(watch.wake.set)
        try:
            await self._stream(watch, response, self._watch_seconds(info))
        except ConnectionResetError:
            return response
        finally:
            unsubscribe()
            self._faults.watches.pop(watch, None)
        if watch.is_aborted:
            raise _Unanswered
        return response

    def _watch_seconds(self, info: RequestInfo) -> float:
        asked = number_in(info.query, "timeoutSeconds")
        return asked or _SHORTEST_WATCH_SECONDS * (1 + self._random.random())

    async def _stream(self, watch: Watch, response: web.StreamResponse, seconds: float) -> None:
        """Sends a watch's lines until it is over, or its time is up."""
        now = asyncio.get_running_loop().time
        end, next_bookmark = now() + seconds, now() + self._bookmark_seconds
        while not watch.is_over and now() < end:
            watch.wake.clear()
            if watch.is_silent:
                await watch.wake.wait()
            elif watch.has_more:
                await _write(response, watch.take())
                # Writing waits only when the client is slow; others need the loop as well.
                await asyncio.sleep(0)
            else:
                if now() >= next_bookmark:
                    next_bookmark += self._bookmark_seconds
                    await _write(response, watch.bookmark())
                await _wait(watch.wake, min(end, next_bookmark) - now())
        if not watch.is_over:
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


def _refusal(error: StatusError) -> web.Response:
    response = _response(json_reply(error.body(), error.code))
    if seconds := error.details.get("retryAfterSeconds"):
        response.headers["Retry-After"] = str(seconds)
    return response


def _response(reply: Reply) -> web.Response:
    headers = {"Content-Type": reply.content_type}
    response = web.Response(body=reply.body, status=reply.status, headers=headers)
    for warning in reply.warnings:
        response.headers.add("Warning", f'299 - "{warning}"')
    return response
