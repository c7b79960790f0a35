"""The way to extenders: what cannot be used is said at start, and what comes back is bounded."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from scheduler.config.load import load_object
from scheduler.config.types import Extender
from scheduler.daemon.client import extenders as module
from scheduler.daemon.client.errors import ConnectionConfigError
from scheduler.daemon.client.extenders import ExtenderClient
from scheduler.kernel.engine.instructions import Bind
from scheduler.kernel.extender import Extenders, Filtered, NoAnswer, Question, Verb
from scheduler.observability.extender_metrics import ExtenderMetrics
from scheduler.observability.instruments import Instruments
from tests.support.clock import FakeClock
from tests.support.extender import FakeExtender, after, closing, names_of
from tests.support.ports import free_port

METRICS = ExtenderMetrics(Instruments())


class Objects:
    """Knows one pod and two nodes."""

    def pod(self, uid: str) -> bytes | None:
        return b'{"metadata":{"uid":"u"}}' if uid == "u" else None

    def node(self, name: str) -> bytes | None:
        return b'{"metadata":{"name":"%b"}}' % name.encode() if name in ("a", "b") else None


def configured(**fields: Any) -> Extender:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": "https://localhost:1", "filterVerb": "filter", **fields}],
    }
    return load_object(document).extenders[0]


def client_of(config: Extender, **options: Any) -> ExtenderClient:
    return ExtenderClient(
        Extenders([config]).all, Objects(), clock=FakeClock(), metrics=METRICS, **options
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tlsConfig": {"caFile": "/nowhere"}}, r"^extenders\[0\]\.tlsConfig: .*/nowhere"),
        ({"tlsConfig": {"caData": "aGVsbG8="}}, r"^extenders\[0\]\.tlsConfig: .*PEM certificates"),
        ({"tlsConfig": {"insecure": True, "caFile": "/x"}}, r"extenders\[0\]\.tlsConfig\.insecure"),
        (
            {"tlsConfig": {"certFile": "/x"}},
            r"extenders\[0\]\.tlsConfig: a certificate and its key",
        ),
        ({"urlPrefix": "localhost:80"}, r"extenders\[0\]\.urlPrefix: expected http://HOST"),
        (
            {"urlPrefix": "http://u:secret@"},
            r'expected http://HOST or https://HOST, got "http://"$',
        ),
        ({"urlPrefix": "http://host:99999"}, r"extenders\[0\]\.urlPrefix: expected http://HOST"),
        ({"urlPrefix": "http://[x"}, r"extenders\[0\]\.urlPrefix: expected http://HOST"),
    ],
)
def test_what_cannot_be_used_is_told_at_start(fields: dict[str, Any], message: str) -> None:
    """With the path of the field, and without passwords."""
    with pytest.raises(ConnectionConfigError, match=message):
        client_of(configured(**fields))


async def asked(server: FakeExtender, question: Question, uid: str = "u", **fields: Any) -> Any:
    """One question to a server."""
    async with server:
        client = client_of(configured(**server.config("filter", "preempt", **fields)))
        try:
            return await client.ask(question, uid)
        finally:
            await client.close()


def test_a_prefix_with_a_path_and_slashes() -> None:
    """The verb comes after all of it; who logs in by the URL does so by its header."""

    async def run() -> None:
        async with FakeExtender(filter=lambda body: {"NodeNames": names_of(body)}) as server:
            url = server.url.replace("//", "//user:secret@")
            client = client_of(configured(urlPrefix=f"{url}//", nodeCacheCapable=True))
            answer = await client.ask(Question(0, Verb.FILTER, ("a",)), "u")
            await client.close()

            assert answer == Filtered(("a",))
            assert server.headers[0]["Authorization"].startswith("Basic ")

    asyncio.run(run())


def test_a_prefix_with_a_query() -> None:
    """The verb comes after it, as in kube-scheduler."""

    async def run() -> None:
        async with FakeExtender(filter=lambda body: {"NodeNames": names_of(body)}) as server:
            prefix = f"{server.url}/filter?of=x"
            client = client_of(configured(urlPrefix=prefix, filterVerb="y", nodeCacheCapable=True))
            answer = await client.ask(Question(0, Verb.FILTER, ("a",)), "u")
            await client.close()

            assert answer == Filtered(("a",))
            assert server.targets == ["/filter?of=x/y"]

    asyncio.run(run())


def test_an_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless one is given up."""
    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 100)
    server = FakeExtender(filter=lambda _: b" " * 10_000)

    answer = asyncio.run(asked(server, Question(0, Verb.FILTER, ("a",))))

    assert isinstance(answer, NoAnswer)
    assert "the answer is longer than" in answer.problem


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "Bad status line: "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", "Invalid character in Content-Length: "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}", "Not enough data to satisfy content"),
    ],
)
def test_an_answer_that_is_not_http_is_one_line(raw: bytes, expected: str) -> None:
    """It has no status of which the extender knows nothing, and nothing of Python."""

    async def run() -> Any:
        async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(raw)
            writer.close()

        async with await asyncio.start_server(reply, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            client = client_of(configured(urlPrefix=f"http://{host}:{port}", nodeCacheCapable=True))
            try:
                return await client.ask(Question(0, Verb.FILTER, ("a",)), "u")
            finally:
                await client.close()

    answer = asyncio.run(run())

    assert isinstance(answer, NoAnswer)
    _, _, told = answer.problem.partition('/filter": ')
    assert told.startswith(f"the answer cannot be read: {expected}")
    assert "400" not in told
    assert "\n" not in told


def test_a_redirect_is_not_followed() -> None:
    """Its status is told."""
    server = FakeExtender(
        filter=lambda _: web.Response(status=307, headers={"Location": "/filter"})
    )

    answer = asyncio.run(asked(server, Question(0, Verb.FILTER, ("a",))))

    assert isinstance(answer, NoAnswer)
    assert answer.problem.endswith("/filter, code 307")
    assert server.count("filter") == 1


def test_what_is_gone_is_not_sent() -> None:
    """Nodes are left out; without the pod, or any node, nothing is asked."""
    server = FakeExtender(filter=lambda body: {"Nodes": {"items": body["Nodes"]["items"]}})
    question = Question(0, Verb.FILTER, ("a", "gone", "b"))

    answer = asyncio.run(asked(server, question, nodeCacheCapable=False))
    no_pod = asyncio.run(asked(server, question, "gone"))
    no_node = asyncio.run(
        asked(server, Question(0, Verb.FILTER, ("gone",)), nodeCacheCapable=False)
    )

    assert answer == Filtered(("a", "b"))
    assert isinstance(no_pod, NoAnswer)
    assert isinstance(no_node, NoAnswer)
    assert server.count("filter") == 1


@pytest.mark.parametrize(
    ("reply", "is_late"),
    [
        pytest.param(after(30, lambda _: {}), True, id="late"),
        pytest.param(closing(), False, id="closed"),
        pytest.param(lambda _: {"Error": "no"}, False, id="says no"),
        pytest.param(lambda _: b"[]", False, id="nonsense"),
    ],
)
def test_whether_a_pod_may_be_bound_after_all(reply: Any, is_late: bool) -> None:
    """None is sure to have done nothing: it may have lost the answer of the API server."""
    limit = "100ms" if is_late else "60s"

    async def run() -> NoAnswer | None:
        async with FakeExtender(bind=reply) as server:
            client = client_of(configured(**server.config("bind", httpTimeout=limit)))
            failed = await client.bind(0, Bind(1, "ns", "p", "u", "n", extender=0))
            await client.close()
            return failed

    failed = asyncio.run(run())

    assert failed is not None
    assert (failed.is_late, failed.is_certain) == (is_late, False)


def test_nothing_is_bound_after_the_lease_is_lost() -> None:
    """The fence is asked as the bytes leave."""

    async def run() -> None:
        async with FakeExtender(bind=lambda _: {}) as server:
            client = client_of(configured(**server.config("bind")), fence=lambda: False)
            failed = await client.bind(0, Bind(1, "ns", "p", "u", "n", extender=0))
            await client.close()

            assert failed is not None
            assert "the lease may have passed" in failed.problem
            assert server.count("bind") == 0

    asyncio.run(run())


def test_nobody_listens() -> None:
    """It is certain that nothing was done."""

    async def run() -> None:
        url = f"http://127.0.0.1:{free_port()}"
        client = client_of(configured(urlPrefix=url, bindVerb="bind"))
        failed = await client.bind(0, Bind(1, "ns", "p", "u", "n", extender=0))
        await client.close()

        assert failed is not None
        assert "cannot connect to 127.0.0.1" in failed.problem
        assert failed.is_certain

    asyncio.run(run())
