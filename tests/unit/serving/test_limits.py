"""The secure port under load and malice: bounded, and still of use to those who may."""

import asyncio
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings, strategies as st
from structlog.testing import capture_logs

from scheduler.clock import Throttle
from scheduler.daemon.client.errors import UnavailableError
from scheduler.daemon.client.reviews import User
from scheduler.daemon.serving.connections import connections_allowed
from scheduler.daemon.serving.limits import MAX_REVIEWS, LimitedReviews
from tests.support.clock import FakeClock
from tests.support.pki import client_context
from tests.unit.client.scripted_server import until
from tests.unit.serving.harness import Instance, serving

Story = Callable[[Instance], Awaitable[None]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
WRITERS: list[asyncio.StreamWriter] = []
"""Of connections that the running test holds."""

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


def tell(story: Story, **options: object) -> None:
    async def run() -> None:
        async with asyncio.timeout(120), serving(**options) as instance:
            try:
                await story(instance)
            finally:
                while WRITERS:
                    WRITERS.pop().close()
                await asyncio.sleep(0.01)

    uvloop.run(run())


def port_of(instance: Instance) -> int:
    return int(instance.url.rpartition(":")[2])


async def connected(instance: Instance) -> Streams:
    return await knocked(instance, client_context())


async def knocked(instance: Instance, context: ssl.SSLContext | None = None) -> Streams:
    """A connection that does not shake hands."""
    streams = await asyncio.open_connection("127.0.0.1", port_of(instance), ssl=context)
    WRITERS.append(streams[1])
    return streams


async def is_ended(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(60):
        try:
            while await reader.read(1000):
                pass
        except (ConnectionError, ssl.SSLError):
            pass
        return True


# --- connections ----------------------------------------------------------------------------------


def test_connections_leave_binds_their_descriptors() -> None:
    """A small part of what the process may open."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        assert connections_allowed() == 32
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert connections_allowed() <= 128


@pytest.mark.parametrize("open_one", [connected, knocked], ids=["idle", "in their handshake"])
def test_held_connections_keep_nobody_out(
    open_one: Callable[[Instance], Awaitable[Streams]],
) -> None:
    """The one that has been silent for longest makes room; never more than the limit are open."""

    async def story(instance: Instance) -> None:
        connections = instance.server._connections
        connections._limit = 5
        held = [await open_one(instance) for _ in range(12)]
        await until(lambda: len(connections) == 5)

        assert (await instance.get("/healthz"))[0] == 200
        assert len(connections) <= 5
        assert await is_ended(held[0][0])
        for _, writer in held:
            writer.close()

    tell(story)


MALFORMED = [
    b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\nA\0: b\r\n\r\n",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01 not HTTP at all\r\n\r\n",
    b"POST /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
]


def test_malformed_requests_are_one_line_without_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    """Anybody can send them: neither the log nor the processor may pay for each."""

    async def story(instance: Instance) -> None:
        async def send_all() -> None:
            for request in MALFORMED:
                reader, writer = await connected(instance)
                writer.write(request)
                assert await is_ended(reader)

        with capture_logs() as logs:
            await send_all()
            await send_all()
            assert len(logs) == 1
            instance.clock.advance(10.0)
            await send_all()

        assert [log["event"] for log in logs] == ["Malformed request"] * 2
        assert not any("exc_info" in log or "\n" in log["err"] for log in logs)
        assert logs[0]["err"].startswith("400, message:")
        assert logs[1]["not_logged"] >= len(MALFORMED)
        assert (await instance.get("/healthz"))[0] == 200

    tell(story)
    assert not caplog.records


def test_answers_under_way_are_not_ended_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """When all are being answered, it is the new one that has to go."""

    async def story(instance: Instance) -> None:
        slow = _held_tokens(instance, monkeypatch)
        connections = instance.server._connections
        asking = await _as_many_as_allowed(instance, "/healthz", ("operator", "nobody"))
        for guarded in connections._open:
            connections.admit(guarded.transport)
        with pytest.raises(OSError):  # noqa: PT011 - reset or closed, as the kernel likes
            await connected(instance)
        slow.set()

        assert [(await one)[0] for one in asking] == [200, 200]

    tell(story)


def test_requests_that_wait_for_a_review_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be of strangers: the probes of the kubelet must get through."""

    async def story(instance: Instance) -> None:
        slow = _held_tokens(instance, monkeypatch)
        strangers = await _as_many_as_allowed(instance, "/metrics", ("0", "1"))

        assert (await instance.get("/healthz"))[0] == 200
        slow.set()
        await asyncio.gather(*strangers, return_exceptions=True)

    tell(story)


async def _as_many_as_allowed(
    instance: Instance, path: str, users: tuple[str, str]
) -> list[asyncio.Task[tuple[int, str, Mapping[str, str]]]]:
    """Ask as each user until all are being answered; allow no more connections than these."""
    connections = instance.server._connections
    connections._limit = len(users)
    asking = [asyncio.create_task(instance.get(path, f"{user}-token")) for user in users]
    await until(lambda: sum(c.is_answering for c in connections._open) == len(users))
    return asking


def _held_tokens(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Hold all reviews of tokens until the event is set."""
    slow = asyncio.Event()
    review = instance.reviews.review_token

    async def hold(token: str, audiences: object = ()) -> User | None:
        await slow.wait()
        return await review(token)

    monkeypatch.setattr(instance.reviews, "review_token", hold)
    return slow


def test_a_handshake_must_come_to_an_end(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """And its failure is no news."""
    monkeypatch.setattr("scheduler.daemon.serving.connections.HANDSHAKE_SECONDS", 0.1)

    async def story(instance: Instance) -> None:
        silent, _ = await knocked(instance)
        wrong, writer = await knocked(instance)
        writer.write(GET + b"\r\n")
        assert await is_ended(wrong)
        assert await is_ended(silent)
        await until(lambda: len(instance.server._connections) == 0)

    tell(story)
    assert [line for line in capfd.readouterr().err.splitlines() if "HTTPS port" not in line] == []


@pytest.mark.parametrize("start", [b"", GET, b"GET"], ids=["nothing", "half", "a word"])
def test_the_headers_of_a_request_must_come_in_time(
    start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of the second one; one byte at a time does not help."""

    def allow(seconds: float) -> None:
        monkeypatch.setattr("scheduler.daemon.serving.connections.HEADER_SECONDS", seconds)

    async def story(instance: Instance) -> None:
        allow(60.0 if start == GET else 0.15)
        reader, writer = await connected(instance)
        for _ in range(2 if start == GET else 0):
            writer.write(GET + b"\r\n")
            assert b"200 OK" in await reader.read(1000)
            [idle] = instance.server._connections._open
            await until(lambda guarded=idle: not guarded.is_answering)
            assert idle._timer is None  # idle is not slow
        allow(0.15)
        writer.write(start)
        trickle = asyncio.create_task(trickled(writer))
        assert await is_ended(reader)
        trickle.cancel()
        await asyncio.gather(trickle, return_exceptions=True)

    async def trickled(writer: asyncio.StreamWriter) -> None:
        while start:
            writer.write(b"x")
            await asyncio.sleep(0.02)

    tell(story)


def test_a_caller_that_hangs_up_is_no_news(capfd: pytest.CaptureFixture[str]) -> None:
    """In the middle of a scrape, or before it."""

    async def story(instance: Instance) -> None:
        for i in range(3000):
            instance.metrics.engine.schedule_attempts["scheduled", f"p{i}"].inc()
        for how in ("close", "abort"):
            for size in (0, 100):
                reader, writer = await connected(instance)
                writer.write(GET.replace(b"/healthz", b"/metrics") + b"\r\n")
                await reader.read(size)
                getattr(writer.transport, how)()
        await until(lambda: len(instance.server._connections) == 0)

    tell(story, serve_without_authorization=True)
    assert [line for line in capfd.readouterr().err.splitlines() if "HTTPS port" not in line] == []


def test_a_caller_that_hangs_up_ends_its_question() -> None:
    """No search goes on for an answer that is not awaited."""
    under_way: list[str] = []

    async def explain(_: object) -> bytes | None:
        under_way.append("question")
        try:
            await asyncio.Event().wait()
        finally:
            under_way.clear()
        return None

    async def story(instance: Instance) -> None:
        _, writer = await connected(instance)
        writer.write(GET.replace(b"/healthz", b"/debug/explain?pod=a/b") + b"\r\n")
        await until(lambda: under_way == ["question"])
        writer.close()
        # Shorter than the time limit of an answer.
        async with asyncio.timeout(10):
            await until(lambda: not under_way)

    tell(story, serve_without_authorization=True, explain=explain)


def test_running_out_of_descriptors_does_not_end_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts again when there are some."""
    monkeypatch.setattr("scheduler.daemon.serving.connections._NO_DESCRIPTORS_PAUSE_SECONDS", 0.02)

    async def story(instance: Instance) -> None:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        caller = socket.socket()
        caller.setblocking(False)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (caller.fileno() + 1, limits[1]))
            caller.connect_ex(("127.0.0.1", port_of(instance)))
            await asyncio.sleep(0.1)
            assert len(instance.server._connections) == 0
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        await until(lambda: len(instance.server._connections) == 1)
        caller.close()

        assert (await instance.get("/healthz"))[0] == 200
        assert instance.server.check_healthy() is None

    tell(story)


# --- reviews and logs -----------------------------------------------------------------------------


class SlowReviews:
    def __init__(self) -> None:
        self.now = self.most = 0
        self.go_on = asyncio.Event()

    async def review_token(self, token: str, audiences: object = ()) -> User | None:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self.go_on.wait()
        finally:
            self.now -= 1
        return None

    async def review_access(self, user: User, path: str, verb: str) -> bool:
        return await self.review_token("") is not None


def test_the_api_server_is_asked_about_so_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up tokens of a hundred callers are twenty reviews; who waits too long is refused."""
    monkeypatch.setattr("scheduler.daemon.serving.limits.REVIEW_SECONDS", 0.2)

    async def story() -> None:
        slow = SlowReviews()
        limited = LimitedReviews(slow)
        asking = [asyncio.create_task(limited.review_token(f"{i}")) for i in range(80)]
        asking += [
            asyncio.create_task(limited.review_access(User(), f"/{i}", "get")) for i in range(20)
        ]
        answers = await asyncio.gather(*asking, return_exceptions=True)
        assert slow.most == MAX_REVIEWS
        assert all(isinstance(answer, UnavailableError) for answer in answers)

        slow.go_on.set()
        assert await limited.review_token("x") is None

    uvloop.run(story())


def test_complaints_that_strangers_cause_are_logged_now_and_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With how many were not."""

    async def story(instance: Instance) -> None:
        instance.reviews.is_down = True
        for i in range(20):
            assert (await instance.get("/metrics", f"made-up-{i}"))[0] == 401
        instance.clock.advance(11)
        await instance.get("/metrics", "made-up")

    tell(story)
    logged = [
        line for line in capsys.readouterr().err.splitlines() if "Who asks is not known" in line
    ]
    assert len(logged) == 2
    assert "not_logged=19" in logged[1]


def test_a_throttle_lets_one_through_per_period() -> None:
    """The first at once."""
    clock = FakeClock()
    throttle = Throttle(clock, 10.0)

    story = [throttle.take(), throttle.take(), throttle.take()]
    clock.advance(10)
    story.append(throttle.take())

    assert story == [0, None, None, 2]


def test_a_right_to_look_is_none_to_change() -> None:
    """Answers are remembered by verb: GET first, then DELETE of the same path."""

    async def story(instance: Instance) -> None:
        assert (await instance.get("/metrics", "operator-token"))[0] == 200
        refused = await instance.get("/metrics", "operator-token", method="DELETE")
        assert refused[0] == 403
        assert ("operator", "/metrics", "delete") in instance.reviews.asked

    tell(story)


def test_tokens_must_be_meant_for_us_when_audiences_are_given() -> None:
    """They are passed on to the review."""

    async def story(instance: Instance) -> None:
        await instance.get("/metrics", "operator-token")
        assert instance.reviews.audiences == [("stowage", "x")]

    tell(story, authentication_token_audiences=("stowage", "x"))


# --- fuzzing --------------------------------------------------------------------------------------

METHODS = st.sampled_from([b"GET", b"PUT", b"POST", b"DELETE", b"OPTIONS", b"\xff", b""])
PATHS = st.sampled_from(
    [
        b"/metrics",
        b"/healthz",
        b"/debug/flags/v",
        b"/readyz?exclude=%zz",
        b"//",
        b"*",
        b"/%00",
        b"/debug/explain?pod=%ff/x&node=%00&node=",
        b"/debug/explain?pod=a/b&changes=1",
        b"/debug/cache?x",
        b"/debug/queue",
        b"/debug/recording",
        b"/configz",
        b"/flagz",
    ]
) | st.binary(max_size=20)
HEADERS = st.lists(
    st.sampled_from(
        [
            b"Host: x",
            b"Content-Length: 5",
            b"Content-Length: -1",
            b"Content-Length: \xb2",
            b"Transfer-Encoding: chunked",
            b"Expect: 100-continue",
            b"Upgrade: websocket",
            b"Connection: close",
            b"Authorization: Bearer \xff",
            b"Authorization: Bearer " + b"x" * 20_000,
        ]
    )
    | st.binary(max_size=30),
    max_size=4,
)
REQUESTS = st.lists(st.tuples(METHODS, PATHS, HEADERS, st.binary(max_size=30)), max_size=3)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(REQUESTS, min_size=1, max_size=5), st.booleans())
def test_whatever_is_sent_the_port_goes_on(
    callers: list[list[tuple[bytes, bytes, list[bytes], bytes]]], is_open: bool
) -> None:
    """It answers or hangs up, and the next caller is served; also where all may see all."""

    async def story(instance: Instance) -> None:
        for requests in callers:
            _, writer = await connected(instance)
            for method, path, headers, body in requests:
                lines = [method + b" " + path + b" HTTP/1.1", *headers]
                writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)
            await asyncio.sleep(0.001)
            writer.close()
        assert (await instance.get("/healthz"))[0] == 200
        assert instance.server.check_healthy() is None

    tell(story, serve_without_authorization=is_open)


def test_a_task_of_the_port_that_ended_is_told() -> None:
    """The process is not alive enough: a restart is what helps."""

    async def story(instance: Instance) -> None:
        assert (await instance.get("/livez"))[0] == 200
        follower = instance.server._tasks[1]
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)

        status, body, _ = await instance.get("/livez")

        assert status == 500
        assert "[-]port failed" in str(body)

    tell(story)
