"""Connections of our own: whatever a server may send back, each request gets its own answer."""

import asyncio
import select
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any, Self

import pytest
import uvloop
from aiohttp import web
from hypothesis import given, settings, strategies as st

from scheduler.clock import SystemClock
from scheduler.daemon.client import event_loop, session as session_module
from scheduler.daemon.client.connection import Access, Connection
from scheduler.daemon.client.direct import DirectConnections, Request
from scheduler.daemon.client.errors import FencedError, UnavailableError
from scheduler.daemon.client.http_connection import NoAnswerError, Response, TooLongError
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.client.tls import ResumingContext, Tls, TlsFiles, load_tls
from scheduler.daemon.serving.certificates import as_files, self_signed_pair
from tests.unit.client.scripted_server import ScriptedServer, json_answer, until

END = b"\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class RawServer:
    """Answers each request, whose end is the end of its headers, with bytes.

    Attributes:
        connections: how many were made.
        requests: what arrived.
        has_request: something did.
    """

    def __init__(self, answers: list[list[bytes]]) -> None:
        self.connections = 0
        self.requests: list[bytes] = []
        self.has_request = asyncio.Event()
        self._answers = answers
        self._tasks: set[asyncio.Task[None] | None] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._tasks.add(asyncio.current_task())
        # Cancelled is who still waits for a request when the test is over.
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            await self._answer(reader, writer)
        writer.close()

    async def stop(self) -> None:
        for task in self._tasks:
            assert task is not None
            task.cancel()
            await asyncio.wait([task])

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            self.requests.append(await reader.readuntil(END))
            self.has_request.set()
            for part in self._answers.pop(0):
                # The client may have closed its end: uvloop raises when that is written to.
                if not part or writer.is_closing():
                    return
                writer.write(part)
                await asyncio.sleep(0.002)


@asynccontextmanager
async def raw(*answers: list[bytes]) -> AsyncIterator[tuple[RawServer, DirectConnections]]:
    server = RawServer(list(answers))
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    connections = DirectConnections(url, None, None, {"Authorization": "Bearer x"})
    try:
        yield server, connections
    finally:
        connections.close()
        listener.close()
        await server.stop()
        await listener.wait_closed()


async def get(connections: DirectConnections, timeout: float = 60.0) -> Response:
    return await connections.exchange(Request("GET", "/x"), timeout)


async def given_up(connections: DirectConnections) -> None:
    """Wait until no connection is left that the next request could use."""
    await until(lambda: not any(each.is_reusable for each in connections._idle))


def play(story: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await story()

    uvloop.run(limited())


@pytest.mark.parametrize(
    "parts",
    [
        [OK],
        [OK[index : index + 1] for index in range(len(OK))],
        [
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n",
            b"1\r\nk\r\n0\r\n\r\n",
        ],
        [b"HTTP/1.1 100 Continue\r\n\r\n", OK],
    ],
    ids=["at once", "byte by byte", "in chunks", "after an interim answer"],
)
def test_an_answer_in_any_shape(parts: list[bytes]) -> None:
    """And the connection serves the next request."""

    async def story() -> None:
        async with raw(parts, [OK]) as (server, connections):
            for _ in range(2):
                answer = await get(connections)
                assert (answer.status, answer.body) == (200, b"ok")
            assert server.connections == 1
            assert b"Authorization: Bearer x\r\n" in server.requests[1]

    play(story)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([b""], "Server disconnected"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", b""], "Server disconnected"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], "the answer is not HTTP"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"], "no answer in time"),
    ],
    ids=["nothing", "half of it", "another protocol", "silence"],
)
def test_no_answer_is_said_so_and_hurts_only_that_request(parts: list[bytes], message: str) -> None:
    """The next request has a connection of its own."""

    async def story() -> None:
        async with raw(parts, [OK]) as (server, connections):
            with pytest.raises(NoAnswerError, match=message):
                await get(connections, timeout=0.2 if "in time" in message else 60.0)
            assert (await get(connections)).body == b"ok"
            assert server.connections == 2

    play(story)


def test_each_request_has_its_own_time() -> None:
    """Whatever time an earlier one on the connection had, which was answered."""
    slow = [*[b"HTTP/1.1 100 Continue\r\n\r\n"] * 600, OK]  # takes longer than a second

    async def story() -> None:
        async with raw([OK], slow, [b"HTTP/1.1 200 OK"]) as (server, connections):
            assert (await get(connections, timeout=1.0)).body == b"ok"
            assert (await get(connections, timeout=50.0)).body == b"ok"
            with pytest.raises(NoAnswerError, match="no answer in time"):
                await get(connections, timeout=0.2)
            assert server.connections == 1

    play(story)


def test_a_connection_the_server_wants_closed_is_not_used_again() -> None:
    """`Connection: close`."""
    last = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")

    async def story() -> None:
        async with raw([last], [OK]) as (server, connections):
            assert (await get(connections)).body == b"ok"
            assert (await get(connections)).body == b"ok"
            assert server.connections == 2

    play(story)


def test_a_connection_that_ended_while_it_was_idle_is_not_used_again() -> None:
    """The request is not lost on it."""

    async def story() -> None:
        async with raw([OK, b""], [OK]) as (server, connections):
            assert (await get(connections)).body == b"ok"
            await given_up(connections)
            assert (await get(connections)).body == b"ok"
            assert server.connections == 2

    play(story)


def test_a_connection_that_ended_before_its_first_request_gives_no_answer() -> None:
    """A server that hangs up at once: uvloop raises where the request is written."""

    async def story() -> None:
        async with raw([OK]) as (_, connections):
            connection = await connections._connect(60.0)
            connection.abort()
            await asyncio.sleep(0.01)
            due = asyncio.get_running_loop().time() + 60.0
            with pytest.raises(NoAnswerError, match="connection lost"):
                await connection.send(b"GET / HTTP/1.1\r\n\r\n", due)

    play(story)


def test_nobody_gets_the_answer_to_a_cancelled_request() -> None:
    """It may still come; its connection is gone by then."""
    start, end = b"HTTP/1.1 200 OK\r\n", b"Content-Length: 2\r\n\r\nno"

    async def story() -> None:
        async with raw([start, end], [OK]) as (server, connections):
            request = asyncio.create_task(get(connections))
            await server.has_request.wait()
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request
            assert (await get(connections)).body == b"ok"

    play(story)


def test_a_fence_keeps_the_connection() -> None:
    """Nothing was written on it."""

    async def story() -> None:
        async with raw([OK]) as (server, connections):
            with pytest.raises(FencedError):
                await connections.exchange(Request("POST", "/x", b"", fence=lambda: False), 2.0)
            assert (await get(connections)).body == b"ok"
            assert server.connections == 1

    play(story)


class SilentPeer:
    """A server of one connection that answers its first request, and then only listens."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._listener.getsockname()[1]}"
        self._tls = tls
        self._peer: socket.socket
        self._thread = Thread(target=self._answer)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._peer.close()
        self._listener.close()

    def _answer(self) -> None:
        peer, _ = self._listener.accept()
        self._peer = peer if self._tls is None else self._tls.wrap_socket(peer, server_side=True)
        self._peer.recv(65536)
        self._peer.sendall(OK)

    def has_more(self) -> bool:
        """Whether anything arrives while the loop of the client stands still."""
        self._thread.join()
        return bool(select.select([self._peer], [], [], 0.5)[0])


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_bytes_leave_in_the_step_in_which_the_fence_was_asked(scheme: str) -> None:
    """Before the loop does anything else.

    A process frozen between the two, or held up by the next callback, would write long after its
    lease has ended.
    """
    theirs, ours = tls_pair() if scheme == "https" else (None, None)

    async def story() -> None:
        with SilentPeer(theirs) as peer:
            connections = DirectConnections(peer.url, ours, None, {})
            await get(connections)
            diary: list[object] = []

            def fence() -> bool:
                diary.append("asked")
                return True

            request = Request("POST", "/x", b"{}", fence=fence)
            asked = asyncio.create_task(connections.exchange(request, 60.0))
            # The same step of the loop runs both.
            asyncio.get_running_loop().call_soon(lambda: diary.append(peer.has_more()))
            await until(lambda: len(diary) == len(["asked", True]))
            asked.cancel()
            connections.close()
            assert diary == ["asked", True]

    play(story)


def test_many_requests_at_once_each_get_their_own_answer() -> None:
    """Over a connection each, which are used again."""

    async def echo(request: web.Request) -> web.Response:
        await asyncio.sleep(0.01)
        return json_answer(request.path)

    async def story() -> None:
        async with ScriptedServer(echo).running() as server:
            connections = DirectConnections(server.url + "/prefix", None, None, {})
            for _ in range(3):
                answers = await asyncio.gather(
                    *(
                        connections.exchange(Request("POST", f"/{i}", b"{}"), 60.0)
                        for i in range(50)
                    )
                )
                assert [a.body for a in answers] == [f'"/prefix/{i}"'.encode() for i in range(50)]
            connections.close()

    play(story)


def test_a_line_break_in_a_token_is_not_sent() -> None:
    """It would be a header of its own."""

    async def story() -> None:
        connections = DirectConnections(
            "http://127.0.0.1:1", None, None, {"Authorization": "Bearer a\r\nX: y"}
        )
        with pytest.raises(NoAnswerError, match="line break"):
            await get(connections)

    play(story)


def test_a_token_may_have_any_letter() -> None:
    """Whether it is right is for the server to say."""

    async def story() -> str:
        async with ScriptedServer(ok).running() as server:
            connections = DirectConnections(
                server.url, None, None, {"Authorization": "Bearer \u20ac"}
            )
            await get(connections)
            connections.close()
            return server.seen[0].headers["Authorization"]

    assert asyncio.run(story()) == "Bearer \u20ac"


def test_closed_connections_say_that_they_are() -> None:
    """After a rotation, or at the end: credentials are not what is wrong."""

    async def story() -> None:
        connections = DirectConnections("http://127.0.0.1:1", None, None, {"Authorization": "a"})
        connections.close()
        with pytest.raises(NoAnswerError, match="the connections are closed"):
            await get(connections)

    play(story)


async def ok(_: web.Request) -> web.Response:
    return json_answer("ok")


async def never(_: web.Request) -> web.Response:
    raise AssertionError("nobody should come here")


def test_a_certificate_nobody_vouches_for_is_named() -> None:
    """With the place it came from."""

    async def story() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with as_files(self_signed_pair(SystemClock())) as files:
            context.load_cert_chain(*files)
        async with ScriptedServer(never).running(context) as server:
            connections = DirectConnections(server.url, load_tls(TlsFiles()).context, None, {})
            with pytest.raises(NoAnswerError, match=r"cannot trust 127.0.0.1:\d+: .*self-signed"):
                await get(connections)

    play(story)


def _descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


class FirstAddress:
    """The first of two addresses of a name: it refuses connections, or never answers.

    The kernel answers no more connections to a listener whose queue is full.
    """

    def __init__(self, *, is_silent: bool) -> None:
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self._queued = [socket.socket() for _ in range(4 * is_silent)]
        if is_silent:
            self._listener.listen(0)
        for each in self._queued:
            each.setblocking(False)
            each.connect_ex(self.address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._queued):
            each.close()


def tls_pair() -> tuple[ssl.SSLContext, ResumingContext]:
    """The contexts of a server and of a client that trusts it."""
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with as_files(self_signed_pair(SystemClock())) as files:
        theirs.load_cert_chain(*files)
        ours = load_tls(TlsFiles(ca=str(files[0]))).context
    ours.check_hostname = False
    return theirs, ours


@pytest.mark.parametrize("run", [event_loop.run, asyncio.run], ids=["uvloop", "asyncio"])
def test_later_connections_resume_the_session_of_the_first(run: Callable[[Any], Any]) -> None:
    """Which spares the server a signature."""
    theirs, ours = tls_pair()

    async def story() -> list[dict[str, int]]:
        seen = []
        async with ScriptedServer(ok).running(theirs) as server:
            connections = DirectConnections(server.url, ours, None, {})
            for number in (1, 3):
                await asyncio.gather(*(get(connections) for _ in range(number)))
                seen.append(theirs.session_stats())
        return seen

    first, second = run(story())
    assert (first["accept"], first["hits"]) == (1, 0)
    assert (second["accept"], second["hits"]) == (3, 2)


@pytest.mark.parametrize("is_watch", [False, True], ids=["request", "watch"])
def test_a_session_that_is_refused_is_not_offered_again(*, is_watch: bool) -> None:
    """Otherwise no connection would succeed any more."""
    theirs, ours = tls_pair()

    def refuse(connection: ssl.SSLObject, *_: object) -> int | None:
        refused = bool(connection.session_reused)
        seen.append(refused)
        return ssl.ALERT_DESCRIPTION_HANDSHAKE_FAILURE if refused else None

    async def connect(access: Access) -> None:
        async with ApiSession(Connection(None, access), clock=SystemClock()) as session:
            if is_watch:
                async with session.stream("/x", read_timeout=60.0):
                    pass
            else:
                await session.request("GET", "/x")

    seen: list[bool] = []
    theirs.sni_callback = refuse

    async def story() -> None:
        async with ScriptedServer(ok).running(theirs) as server:
            connections = DirectConnections(server.url, ours, None, {})
            await get(connections)
            connections.close()
            access = Access(server.url, tls=Tls(ours, b""))
            with pytest.raises(UnavailableError, match=r"cannot connect to .*: ConnectionReset"):
                await connect(access)
            await connect(access)

    event_loop.run(story())
    assert seen == [False, True, False]


@contextmanager
def named(*addresses: tuple[str, int], name: str = "cluster.example") -> Iterator[str]:
    """A name that the running loop resolves to these addresses."""
    loop = asyncio.get_running_loop()
    resolve = loop.getaddrinfo

    async def getaddrinfo(host: str, *about: Any, **options: Any) -> Any:
        if host != name:
            return await resolve(host, *about, **options)
        kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [(*kind, address) for address in addresses]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "getaddrinfo", getaddrinfo)
        yield name


@pytest.mark.parametrize("run", [event_loop.run, asyncio.run], ids=["uvloop", "asyncio"])
@pytest.mark.parametrize("scheme", ["http", "https"])
class TestAddresses:
    """A name may have several addresses."""

    @pytest.mark.parametrize("is_silent", [True, False])
    def test_a_dead_address_delays_no_request(
        self, run: Callable[[Any], Any], scheme: str, is_silent: bool
    ) -> None:
        """Another one is tried long before the first one has failed."""

        async def story() -> float:
            theirs, ours = tls_pair() if scheme == "https" else (None, None)
            loop = asyncio.get_running_loop()
            async with ScriptedServer(ok).running(theirs) as server:
                port = int(server.url.rpartition(":")[2])
                with (
                    FirstAddress(is_silent=is_silent) as first,
                    named(first.address, ("127.0.0.1", port)) as name,
                ):
                    connections = DirectConnections(f"{scheme}://{name}", ours, None, {})
                    started = loop.time()
                    assert (await get(connections)).body == b'"ok"'
                    connections.close()
                    return loop.time() - started

        assert run(story()) < 5.0

    def test_a_failed_connection_leaves_no_descriptor(
        self, run: Callable[[Any], Any], scheme: str
    ) -> None:
        """Whether it is refused, gets no answer, or is reset within the handshake."""
        ours = tls_pair()[1] if scheme == "https" else None

        async def fail(connections: DirectConnections) -> None:
            with pytest.raises(NoAnswerError):
                await get(connections, timeout=0.1)
            connections.close()

        async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.abort()

        async def story() -> tuple[int, int]:
            listener = await asyncio.start_server(hang_up, "127.0.0.1", 0)
            url = f"{scheme}://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            counts = []
            with (
                FirstAddress(is_silent=True) as silent,
                FirstAddress(is_silent=False) as refusing,
                named(silent.address, refusing.address) as name,
                socket.create_server(("127.0.0.1", 0)) as deaf,
            ):
                to_deaf = f"{scheme}://127.0.0.1:{deaf.getsockname()[1]}"
                for _ in range(4):
                    await fail(DirectConnections(f"{scheme}://{name}", ours, None, {}))
                    await fail(DirectConnections(url, ours, None, {}))
                    await fail(DirectConnections(to_deaf, ours, None, {}))
                    # Transports close their descriptors in later steps of the loop.
                    await asyncio.sleep(0.05)
                    counts.append(_descriptors())
            listener.close()
            return counts[0], counts[-1]

        before, after = run(story())

        assert after <= before


def test_a_name_may_end_with_a_dot() -> None:
    """It excludes search domains, and is not in the certificate."""

    async def story() -> bytes:
        theirs, ours = tls_pair()
        ours.check_hostname = True
        async with ScriptedServer(ok).running(theirs) as server:
            port = int(server.url.rpartition(":")[2])
            with named(("127.0.0.1", port), name="localhost.") as name:
                connections = DirectConnections(f"https://{name}", ours, None, {})
                answer = await get(connections)
                connections.close()
                return answer.body

    assert event_loop.run(story()) == b'"ok"'


def test_an_ip_address_is_not_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default resolver of asyncio is a thread."""

    async def story() -> None:
        monkeypatch.setattr(socket, "getaddrinfo", None)
        async with raw([OK]) as (_, connections):
            assert (await get(connections)).body == b"ok"

    asyncio.run(story())


class TestProxy:
    """An http proxy is asked for the whole URL."""

    def exchange(self, answer: Callable[[web.Request], Awaitable[web.Response]]) -> list[str]:
        seen: list[str] = []

        async def story() -> None:
            async with ScriptedServer(answer).running() as proxy:
                access = Access("http://cluster.example", "Bearer x", proxy=proxy.url)
                connection = Connection(None, access)
                async with ApiSession(connection, clock=SystemClock()) as session:
                    try:
                        response = await session.request("POST", "/api/v1/x", b"{}")
                        seen.append(response.body.decode())
                    except UnavailableError as problem:
                        seen.append(problem.message)
                    for body in (b"{}", None):
                        with pytest.raises(FencedError):
                            await session.request("DELETE", "/y", body, fence=lambda: False)
                seen.extend(request.headers["Host"] for request in proxy.seen)

        play(story)
        return seen

    def test_requests_take_the_proxy(self) -> None:
        """And keep to the fence."""

        async def answer(request: web.Request) -> web.Response:
            return json_answer(request.headers["Authorization"])

        assert self.exchange(answer) == ['"Bearer x"', "cluster.example"]

    def test_a_proxy_that_says_no(self) -> None:
        """Its words are passed on."""

        async def answer(_: web.Request) -> web.Response:
            return web.Response(status=503, text="no way")

        assert self.exchange(answer) == ["no way", "cluster.example"]

    def test_a_proxy_is_not_told_the_token(self) -> None:
        """It passes an encrypted connection on; requests and watches ask for it in plain text."""
        proxy = RawServer([[b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", b""]] * 2)

        async def story() -> None:
            listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
            url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            access = Access(
                "https://cluster.example", "Bearer x", tls=load_tls(TlsFiles(), None), proxy=url
            )
            async with ApiSession(Connection(None, access), clock=SystemClock()) as session:
                with pytest.raises(UnavailableError, match="403"):
                    await session.request("POST", "/api/v1/x", b"{}")
                with pytest.raises(UnavailableError, match="403"):
                    async with session.stream("/api/v1/y", read_timeout=60.0):
                        raise AssertionError("the proxy refused")
            listener.close()
            await proxy.stop()

        play(story)
        assert [seen.split(b" ")[0] for seen in proxy.requests] == [b"CONNECT"] * 2
        assert not [seen for seen in proxy.requests if b"uthorization" in seen]

    def test_a_proxy_that_does_not_answer_ends_a_watch_soon(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Long before a watch without any event would end."""
        monkeypatch.setattr(session_module, "CONNECT_TIMEOUT_SECONDS", 0.1)

        async def story() -> None:
            with socket.create_server(("127.0.0.1", 0)) as proxy:
                access = Access(
                    "https://cluster.example",
                    tls=load_tls(TlsFiles(), None),
                    proxy=f"http://127.0.0.1:{proxy.getsockname()[1]}",
                )
                async with (
                    ApiSession(Connection(None, access), clock=SystemClock()) as session,
                    asyncio.timeout(20.0),
                ):
                    with pytest.raises(UnavailableError, match="no answer in time"):
                        async with session.stream("/api/v1/y", read_timeout=3600.0):
                            raise AssertionError("the proxy does not answer")

        play(story)

    @pytest.mark.parametrize("host", ["127.0.0.1:{port}", "127.0.0.1:{port}x"])
    def test_no_message_has_the_password_of_the_proxy(self, host: str) -> None:
        """Messages end in events and conditions, which tenants read."""
        proxy = RawServer([[b"HTTP/1.1 407 Proxy Auth\r\nContent-Length: 0\r\n\r\n", b""]] * 2)
        messages: list[str] = []

        async def story() -> None:
            listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
            port = listener.sockets[0].getsockname()[1]
            url = "http://user:hunter2@" + host.format(port=port)
            access = Access("https://cluster.example", tls=load_tls(TlsFiles(), None), proxy=url)
            async with ApiSession(Connection(None, access), clock=SystemClock()) as session:
                with pytest.raises(UnavailableError) as raised:
                    await session.request("POST", "/api/v1/x", b"{}")
                messages.append(str(raised.value))
                with pytest.raises(UnavailableError) as raised:
                    async with session.stream("/api/v1/y", read_timeout=60.0):
                        raise AssertionError("the proxy refused")
                messages.append(str(raised.value))
            listener.close()
            await proxy.stop()

        play(story)
        assert not [message for message in messages if "hunter2" in message]
        told = "cannot be used" if host.endswith("x") else "407 Proxy Auth"
        assert all(message.endswith(told) for message in messages)


# --- bytes nobody asked for -----------------------------------------------------------------------

EVIL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"


@pytest.mark.parametrize(
    "stray",
    [
        pytest.param([OK + EVIL], id="with the answer"),
        pytest.param([OK, EVIL], id="after the answer"),
        pytest.param([OK + EVIL[:9], EVIL[9:]], id="in two parts"),
        pytest.param([OK + b"x"], id="a byte that begins nothing"),
        pytest.param([OK, b"\r\n"], id="an empty line"),
    ],
)
def test_a_connection_that_got_more_than_was_asked_for_is_given_up(stray: list[bytes]) -> None:
    """The next request would get another's answer."""

    async def story() -> None:
        async with raw(stray, [OK]) as (server, connections):
            assert (await get(connections)).body == b"ok"
            await given_up(connections)
            assert (await get(connections)).body == b"ok"
            assert server.connections == 2

    play(story)


@pytest.mark.parametrize(
    ("parts", "body"),
    [
        pytest.param([b"HTTP/1.1 200 OK\r\n\r\nwhole", b""], b"whole", id="HTTP/1.1"),
        pytest.param([b"HTTP/1.0 200 OK\r\n\r\nwho", b"le", b""], b"whole", id="HTTP/1.0"),
        pytest.param([b"HTTP/1.1 200 OK\r\n\r\n", b""], b"", id="empty"),
    ],
)
def test_a_body_may_end_with_the_connection(parts: list[bytes], body: bytes) -> None:
    """When neither length nor chunks say where."""

    async def story() -> None:
        async with raw(parts, [OK]) as (server, connections):
            assert (await get(connections)).body == body
            assert (await get(connections)).body == b"ok"
            assert server.connections == 2

    play(story)


def test_half_a_chunked_body_is_no_answer() -> None:
    """The end of the connection is not its end."""

    async def story() -> None:
        half = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwho"
        async with raw([half, b""]) as (_, connections):
            with pytest.raises(NoAnswerError):
                await get(connections)

    play(story)


def test_headers_of_an_interim_answer_are_not_those_of_the_answer() -> None:
    """`Retry-After` of a 103 would silence us."""

    async def story() -> None:
        hints = b"HTTP/1.1 103 Early Hints\r\nRetry-After: 60\r\n\r\n"
        refusal = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\nno"
        async with raw([hints + refusal]) as (_, connections):
            assert (await get(connections)).headers == {"content-length": "2"}

    play(story)


def test_another_protocol_is_no_answer() -> None:
    """101 without being asked, and what follows is not HTTP."""

    async def story() -> None:
        switch = b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n\x00\x01"
        async with raw([switch], [OK]) as (server, connections):
            with pytest.raises(NoAnswerError, match="not HTTP"):
                await get(connections)
            assert (await get(connections)).body == b"ok"
            assert server.connections == 2

    play(story)


def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is body or headers."""
    monkeypatch.setattr("scheduler.daemon.client.http_connection.MAX_ANSWER_BYTES", 5000)

    async def story() -> None:
        body = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 9000
        head = b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1500
        async with raw([body], [head], [OK]) as (_, connections):
            for _ in range(2):
                with pytest.raises(TooLongError):
                    await get(connections)
            assert (await get(connections)).body == b"ok"

    play(story)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://[::1]:6443", "[::1]:6443"),
        ("https://[fd00::1]", "[fd00::1]"),
        ("https://user:secret@host.example:1", "host.example:1"),
        ("https://host.example/prefix", "host.example"),
    ],
)
def test_the_host_is_named_as_http_wants_it(url: str, host: str) -> None:
    """With brackets around an IPv6 address, without what is none of the host's business."""

    async def story() -> None:
        connections = DirectConnections(url, None, None, {})
        assert f"\r\nHost: {host}" in connections._headers

    play(story)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=40) | st.sampled_from([OK, EVIL, OK[:20], b"\r\n"]), max_size=4))
def test_whatever_comes_back_the_next_request_gets_its_own_answer(parts: list[bytes]) -> None:
    """Or none; never another's."""

    async def story() -> None:
        async with raw([p for p in parts if p] + [b""], [OK.replace(b"ok", b"my")]) as (_, mine):
            with suppress(NoAnswerError):
                await get(mine)
            # What is on its way when a request is written cannot be told from its answer.
            await given_up(mine)
            assert (await get(mine)).body == b"my"

    play(story)
