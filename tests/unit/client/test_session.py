"""Requests: what goes over the wire, and what each answer, or the lack of one, becomes."""

import asyncio
import gc
from collections.abc import Awaitable, Callable

import pytest
import uvloop
from aiohttp import web
from typing_extensions import override

from scheduler.daemon.client.connection import Access, Connection
from scheduler.daemon.client.direct import Request
from scheduler.daemon.client.errors import (
    ApiError,
    ConflictError,
    FencedError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from scheduler.daemon.client.http_connection import Response
from scheduler.daemon.client.session import STRATEGIC_MERGE_PATCH, ApiSession
from scheduler.observability.build_info import stowage_version
from tests.support.clock import FakeClock
from tests.support.ports import free_port
from tests.support.virtual_time import run_in
from tests.unit.client.scripted_server import (
    dropped,
    hang,
    json_answer,
    serving,
    session_to,
    status_answer,
)

TOGETHER = 32


async def ok(_: web.Request) -> web.Response:
    return json_answer({"status": "Success"}, 201)


def test_a_request_carries_exactly_what_it_needs() -> None:
    """Bytes, type and identity; no cookies; what is short is not compressed."""

    async def scenario() -> None:
        async with serving(ok) as (server, session):
            answer = await session.request(
                "PATCH", "/api/v1/x?a=b%20c", b'{"a":1}', content_type=STRATEGIC_MERGE_PATCH
            )

        seen = server.seen[0]
        assert (seen.method, seen.path, seen.body) == ("PATCH", "/api/v1/x?a=b%20c", b'{"a":1}')
        del seen.headers["Host"]
        assert seen.headers == {
            "User-Agent": f"stowage/{stowage_version()} scheduler",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": STRATEGIC_MERGE_PATCH,
            "Content-Length": "7",
        }
        assert isinstance(answer, Response)
        assert (answer.status, answer.body) == (201, b'{"status":"Success"}')

    uvloop.run(scenario())


@pytest.mark.parametrize(
    ("status", "reason", "kind", "is_certain"),
    [
        (400, "BadRequest", InvalidError, True),
        (401, "Unauthorized", UnauthorizedError, True),
        (403, "Forbidden", ForbiddenError, True),
        (404, "NotFound", NotFoundError, True),
        (408, "", UnavailableError, False),
        (409, "Conflict", ConflictError, False),
        (410, "Expired", GoneError, True),
        (422, "Invalid", InvalidError, True),
        (429, "TooManyRequests", TooManyRequestsError, True),
        (500, "InternalError", UnavailableError, False),
        (503, "ServiceUnavailable", UnavailableError, False),
        (504, "Timeout", UnavailableError, False),
        (307, "", InvalidError, True),
    ],
)
def test_each_refusal_is_an_error_the_caller_can_tell_apart(
    status: int, reason: str, kind: type[ApiError], is_certain: bool
) -> None:
    """The server's own words come with it, and whether the request may have been carried out."""

    async def refuse(_: web.Request) -> web.Response:
        return status_answer(status, reason, 'pods "p" said no')

    async def scenario() -> ApiError:
        async with serving(refuse) as (_, session):
            with pytest.raises(ApiError) as raised:
                await session.request("POST", "/api/v1/pods", b"{}")
            return raised.value

    problem = uvloop.run(scenario())
    assert (type(problem), problem.is_certain) == (kind, is_certain)
    told = f"{status} {reason}".strip()
    assert str(problem) == f'POST /api/v1/pods: {told}: pods "p" said no'


def test_a_long_answer_is_cut() -> None:
    """A proxy's error page does not fill the log."""

    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=502, text="<html>\n" + "x" * 1000)

    async def scenario() -> ApiError:
        async with serving(refuse) as (_, session):
            with pytest.raises(UnavailableError) as raised:
                await session.request("GET", "/")
            return raised.value

    message = uvloop.run(scenario()).message
    assert len(message) == 256
    assert message.startswith("<html> xxx")
    assert message.endswith("…")


def test_a_dropped_connection_a_closed_port_and_a_timeout_are_unavailable() -> None:
    """Each with the library's error as its cause."""

    async def drop(request: web.Request) -> web.Response:
        return dropped(request)

    async def slow(_: web.Request) -> web.Response:
        return await hang()

    async def scenario() -> list[tuple[str, bool]]:
        told = []
        async with serving(drop) as (_, session):
            with pytest.raises(UnavailableError) as raised:
                await session.request("POST", "/x", b"{}")
            told.append((raised.value.message, raised.value.__cause__ is not None))
        async with serving(slow) as (_, session):
            with pytest.raises(UnavailableError) as raised:
                await session.request("POST", "/x", b"{}", timeout=0.05)
            told.append((raised.value.message, raised.value.__cause__ is not None))
        async with session_to(f"http://127.0.0.1:{free_port()}") as session:
            with pytest.raises(UnavailableError) as raised:
                await session.request("POST", "/x", b"{}")
        told.append((raised.value.message.split(":")[0][:14], raised.value.__cause__ is not None))
        return told

    assert uvloop.run(scenario()) == [
        ("Server disconnected", True),
        ("no answer in time", True),
        ("cannot connect", True),
    ]


class TestRetryAfter:
    def run(
        self, waits: list[int | None], first: int = 429, **options: float
    ) -> tuple[int, ApiError | None]:
        """Answers 429 with each Retry-After in turn, then 201; counts requests."""
        left = iter(waits)
        statuses = iter([first])

        async def throttle(_: web.Request) -> web.Response:
            try:
                seconds = next(left)
            except StopIteration:
                return json_answer({}, 201)
            headers = {} if seconds is None else {"Retry-After": str(seconds)}
            return status_answer(next(statuses, 429), "", "slow down", headers=headers)

        async def scenario() -> tuple[int, ApiError | None]:
            async with serving(throttle) as (server, session):
                problem = None
                try:
                    await session.request("POST", "/x", b"{}", **options)
                except ApiError as raised:
                    problem = raised
                return len(server.seen), problem

        return uvloop.run(scenario())

    def test_a_time_to_come_back_is_obeyed(self) -> None:
        """The request is repeated, and the caller does not notice."""
        requests, problem = self.run([0, 1])

        assert (requests, problem) == (3, None)

    def test_not_beyond_the_timeout(self) -> None:
        """Then the caller is told for how long the server wants peace."""
        requests, problem = self.run([60], timeout=5.0)

        assert requests == 1
        assert isinstance(problem, TooManyRequestsError)
        assert problem.retry_after_seconds == 10.0

    def test_without_a_time_nothing_is_repeated(self) -> None:
        """The caller has its own back-off."""
        requests, problem = self.run([None])

        assert requests == 1
        assert isinstance(problem, TooManyRequestsError)
        assert problem.retry_after_seconds is None

    @pytest.mark.parametrize(("first", "is_certain"), [(429, True), (503, False)])
    def test_a_refusal_tells_nothing_of_an_earlier_try(self, first: int, is_certain: bool) -> None:
        """A proxy may have answered for a server that had carried it out."""
        requests, problem = self.run([0, None], first)

        assert requests == 2
        assert isinstance(problem, TooManyRequestsError)
        assert problem.is_certain is is_certain

    def test_not_for_urgent_requests(self) -> None:
        """The elector decides for itself when to try again."""
        requests, problem = self.run([0], is_urgent=True)

        assert requests == 1
        assert isinstance(problem, TooManyRequestsError)

    def test_not_for_ever(self) -> None:
        """Ten repetitions, as upstream's client."""
        requests, problem = self.run([0] * 50)

        assert requests == 11
        assert isinstance(problem, TooManyRequestsError)

    def test_those_refused_together_do_not_come_back_together(self) -> None:
        """None before it was told to, and all within a quarter of that time more."""
        clock = FakeClock(0.0)

        async def story() -> list[float]:
            came: list[float] = []

            class Refusing(ApiSession):
                @override
                async def _send(
                    self, request: Request, timeout: float, *, is_urgent: bool
                ) -> Response:
                    came.append(clock.now)
                    if len(came) <= TOGETHER:
                        raise TooManyRequestsError(str(request), retry_after_seconds=8.0)
                    return Response(201, {}, b"")

            access = Connection(None, Access("http://127.0.0.1:1"))
            async with Refusing(access, clock=clock) as session:
                asked = (session.request("POST", "/x") for _ in range(TOGETHER))
                await asyncio.gather(*asked)
            return came

        came = run_in(clock, story())[TOGETHER:]

        assert len(set(came)) == TOGETHER
        assert 8.0 <= min(came) < 9.0 < max(came) <= 10.0


class TestFence:
    def test_nothing_is_sent_when_the_fence_says_no(self) -> None:
        """Neither headers nor body reach the server."""

        async def scenario() -> int:
            async with serving(ok) as (server, session):
                with pytest.raises(FencedError):
                    await session.request("POST", "/x", b"{}", fence=lambda: False)
                await asyncio.sleep(0.05)
                return len(server.seen)

        assert uvloop.run(scenario()) == 0

    def test_the_fence_is_asked_when_the_bytes_leave_not_when_the_request_is_made(self) -> None:
        """A lease that is lost while the connection is still being made holds the request back."""

        async def scenario() -> int:
            async with serving(ok) as (server, session):
                may_write = True
                request = asyncio.create_task(
                    session.request("POST", "/x", b"{}", fence=lambda: may_write)
                )
                await asyncio.sleep(0)
                may_write = False
                with pytest.raises(FencedError):
                    await request
                return len(server.seen)

        assert uvloop.run(scenario()) == 0


def test_an_open_fence_costs_nothing() -> None:
    """The request is made."""

    async def scenario() -> int:
        async with serving(ok) as (server, session):
            await session.request("POST", "/x", b"{}", fence=lambda: True)
            return len(server.seen)

    assert uvloop.run(scenario()) == 1


def test_an_urgent_request_has_a_connection_that_nobody_else_takes() -> None:
    """It is open already, however many others begin at the same time."""
    peers: dict[str, list[object]] = {"PUT": [], "POST": []}

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peers[request.method].append(request.transport.get_extra_info("peername"))
        return await ok(request)

    async def scenario() -> None:
        async with serving(answer) as (_, session):
            for _ in range(3):
                await session.request("PUT", "/lease", b"{}", is_urgent=True)
                await asyncio.gather(*(session.request("POST", "/x", b"{}") for _ in range(4)))

    uvloop.run(scenario())

    assert len(set(peers["PUT"])) == 1
    assert not set(peers["PUT"]) & set(peers["POST"])


def test_qps_limits_requests() -> None:
    """A burst at once, then one per interval, and the waits are measured."""

    async def scenario() -> float:
        async with serving(ok) as (server, _), session_to(server.url, qps=20, burst=2) as session:
            loop = asyncio.get_running_loop()
            started = loop.time()
            await asyncio.gather(*(session.request("POST", "/x", b"{}") for _ in range(6)))
            waits = session._metrics.rate_limiter_duration["POST", server.url.partition("//")[2]]
            assert (sum(waits.counts), waits.sum > 0.1) == (6, True)
            return loop.time() - started

    assert uvloop.run(scenario()) >= 3.9 / 20


def test_the_lease_passes_by_the_limit() -> None:
    """An urgent request waits for nobody: one that did would wait for hours."""

    async def scenario() -> int:
        async with (
            serving(ok) as (server, _),
            session_to(server.url, qps=0.0001, burst=1) as session,
        ):
            await session.request("POST", "/x", b"{}")
            for _ in range(3):
                await session.request("PUT", "/x", b"{}", is_urgent=True)
            return len(server.seen)

    assert uvloop.run(scenario()) == 4


def test_a_watch_passes_by_the_limit() -> None:
    """It would wait for hours, and nothing may be decided without it."""

    async def scenario() -> list[str]:
        async with (
            serving(ok) as (server, _),
            session_to(server.url, qps=0.0001, burst=1) as session,
        ):
            await session.request("POST", "/x", b"{}")
            async with asyncio.timeout(60.0), session.stream("/w?watch=1", read_timeout=60.0):
                pass
            return [seen.path for seen in server.seen]

    assert uvloop.run(scenario()) == ["/x", "/w?watch=1"]


class TestStream:
    def lines(
        self, answer: Callable[[web.Request], Awaitable[web.StreamResponse]], read_timeout: float
    ) -> tuple[list[bytes], Exception | None]:
        async def scenario() -> tuple[list[bytes], Exception | None]:
            got: list[bytes] = []
            async with serving(answer) as (_, session):
                try:
                    async with session.stream("/w?watch=1", read_timeout=read_timeout) as lines:
                        while batch := await lines.read():
                            got.extend(batch)
                except ApiError as problem:
                    return got, problem
            return got, None

        return uvloop.run(scenario())

    def test_lines_come_one_by_one_whatever_the_chunks(self) -> None:
        """A chunk may hold half a line or many."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for chunk in (b"on", b"e\ntwo\nthr", b"ee\n"):
                await response.write(chunk)
            return response

        assert self.lines(answer, 60.0) == ([b"one", b"two", b"three"], None)

    def test_a_line_may_be_megabytes_long(self) -> None:
        """A node with many images is one line."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"x" * 3_000_000 + b"\n")
            return response

        lines, problem = self.lines(answer, 60.0)
        assert problem is None
        assert [len(line) for line in lines] == [3_000_000]

    def test_silence_ends_the_stream(self) -> None:
        """A half-open connection is noticed."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"one\n")
            return await hang()

        lines, problem = self.lines(answer, 1.0)
        assert lines == [b"one"]
        assert isinstance(problem, UnavailableError)
        assert problem.message == "no answer in time"

    def test_a_broken_stream_is_unavailable(self) -> None:
        """The lines before it count."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"one\ntw")
            await asyncio.sleep(0.02)
            return dropped(request)

        lines, problem = self.lines(answer, 60.0)
        assert lines == [b"one"]
        assert isinstance(problem, UnavailableError)

    def test_a_connection_that_ends_within_the_headers_is_told_in_words(self) -> None:
        """The API server was killed while it answered."""

        async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: app")
            writer.close()

        async def scenario() -> str:
            listener = await asyncio.start_server(die, "127.0.0.1", 0)
            url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            async with listener, session_to(url) as session:
                with pytest.raises(UnavailableError) as raised:
                    async with session.stream("/w", read_timeout=60.0):
                        raise AssertionError("no whole headers have arrived")
            return str(raised.value)

        assert uvloop.run(scenario()) == "GET /w: Server disconnected"

    @pytest.mark.parametrize("reads_at_once", [True, False])
    @pytest.mark.parametrize("is_list", [True, False])
    def test_bytes_that_are_not_http_end_a_body(
        self, caplog: pytest.LogCaptureFixture, *, is_list: bool, reads_at_once: bool
    ) -> None:
        """A proxy puts an error into a watch: a read that waits, and a later one, fail at once."""
        has_failed = asyncio.Event()

        async def fail(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n")
            await asyncio.sleep(0.05)
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            # The client closes the connection.
            await reader.read()
            has_failed.set()
            writer.close()

        async def read(session: ApiSession) -> None:
            opened = (
                session.download("/l", timeout=60.0)
                if is_list
                else session.stream("/w", read_timeout=60.0)
            )
            async with opened as body:
                assert await body.read()
                if not reads_at_once:
                    await has_failed.wait()
                    await asyncio.sleep(0.02)
                await body.read()

        async def scenario() -> str:
            listener = await asyncio.start_server(fail, "127.0.0.1", 0)
            url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            async with listener, session_to(url) as session, asyncio.timeout(20.0):
                with pytest.raises(UnavailableError) as raised:
                    await read(session)
            gc.collect()
            return raised.value.message

        assert uvloop.run(scenario()) == "Server disconnected"
        assert not caplog.records

    def test_a_refused_stream_raises_what_the_server_said(self) -> None:
        """As for any request."""

        async def answer(_: web.Request) -> web.StreamResponse:
            return status_answer(410, "Expired", "too old resource version: 1 (2)")

        lines, problem = self.lines(answer, 60.0)
        assert lines == []
        assert isinstance(problem, GoneError)

    def test_an_error_of_the_reader_stays_its_own(self) -> None:
        """A bug in who reads is not a broken connection."""

        async def answer(_: web.Request) -> web.StreamResponse:
            return web.Response(text="one\n")

        async def scenario() -> None:
            async with serving(answer) as (_, session), session.stream("/", read_timeout=60.0):
                raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            uvloop.run(scenario())
