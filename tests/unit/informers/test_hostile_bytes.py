"""No bytes from the API server end an informer.

What cannot be read is one malformed object: counted once, left out, its version passed; the others
are delivered, and the server is not asked in a hot loop.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings, strategies as st

from scheduler.api.objects import ObjectMeta
from scheduler.clock import SystemClock
from scheduler.daemon.client.errors import (
    InvalidError,
    UnavailableError,
    error_from_response,
)
from scheduler.daemon.client.http_connection import Response
from scheduler.daemon.client.lines import KEPT_BYTES, MAX_LINE_BYTES
from scheduler.daemon.informers.informer import BLIND_SECONDS, Informer
from scheduler.daemon.informers.informers import Informers
from scheduler.daemon.informers.kinds import (
    KINDS,
    NODES,
    Kind,
    MalformedObjectError,
    watched_kind,
)
from scheduler.daemon.informers.metadata_peek import peek_metadata
from scheduler.daemon.informers.pages import MAX_HELD_BYTES
from scheduler.daemon.informers.paging import FIRST, TARGET_BYTES, PageSize
from scheduler.kernel.framework.events import ObjectKind
from scheduler.observability.client_metrics import InformerMetrics
from scheduler.observability.instruments import Instruments
from tests.support.clock import FakeClock
from tests.support.shares import unseen_shares
from tests.unit.client.scripted_server import hang, json_answer, serving, status_answer, until
from tests.unit.informers.fake_api import FakeApi
from tests.unit.informers.test_informer import (
    AT_ONCE,
    IMPATIENT,
    QUICK,
    Watched,
    added,
    listed,
    node,
    run,
    settled,
    watching,
)

CONFIG_MAPS = watched_kind(ObjectKind("ConfigMap", plural="configmaps"))
DEEP = b"[" * 100_000 + b"]" * 100_000


def event(name: str, version: int, rest: bytes, event_type: str = "ADDED") -> bytes:
    """A line as Go writes it: names and version first."""
    meta = b'"metadata":{"name":"%b","uid":"u","resourceVersion":"%d"}' % (name.encode(), version)
    start = b'{"type":"%b","object":{"kind":"Node",' % event_type.encode()
    return start + meta + b',"spec":' + rest + b"}}\n"


UGLY = [
    pytest.param(DEEP, id="nested too deeply"),
    pytest.param(b'{"providerID":"\xff","taints":5}', id="no UTF-8"),
    pytest.param(b'{"taints":[{"key":"\xff"}]}', id="no UTF-8 in what is read"),
    pytest.param(b'"' + b"x" * (MAX_LINE_BYTES + 5) + b'"', id="longer than any limit"),
    pytest.param(b'{"taints":[{"key":"\\ud800"}]}', id="half a character"),
    pytest.param(b"{", id="cut off"),
    pytest.param(b'{"taints":[{"key":' + b"9" * 6000 + b"}]}", id="an endless number"),
]


@pytest.mark.parametrize("rest", UGLY)
def test_a_line_that_cannot_be_read_is_one_malformed_object(rest: bytes) -> None:
    """Over real HTTP: its version is passed, the watch goes on, what follows is there."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return listed("a")
        if request.query.get("resourceVersion", "5") == "7":
            return await hang()
        return await watching(request, event("bad", 6, rest), added("b", 7))

    async def scenario() -> None:
        async with serving(answer) as (server, session), Watched(session, QUICK) as watched:
            await until(lambda: watched.informer.version == "7")
            assert watched.names == {"a", "b"}
            assert watched.malformed == 1
            await until(lambda: "resourceVersion=7" in server.seen[-1].path)
            assert watched.restarts == {"ended": 1}

    run(scenario)


def test_a_deletion_that_cannot_be_read_is_one() -> None:
    """The name is enough."""

    async def scenario() -> None:
        api = FakeApi()
        api.put("a", node("a"))
        async with Watched(api, AT_ONCE) as watched:
            await settled(api, watched)
            api.objects.clear()
            api.version = 2
            api.send_raw(event("a", 2, DEEP, "DELETED"))
            await until(lambda: watched.informer.version == "2")
            assert watched.names == set()
            assert watched.malformed == 0

    run(scenario)


def test_tenants_cannot_choose_the_version_that_is_passed() -> None:
    """Nor the name: what stands in labels and annotations is no field."""
    line = (
        b'{"type":"ADDED","object":{"metadata":{"annotations":{"resourceVersion":"9","name":"x"},'
        b'"labels":{"type":"DELETED"},"name":"p","namespace":"ns","resourceVersion":"7"},'
        b'"spec":{"name":"y","metadata":{"name":"z"}}}}'
    )

    seen = peek_metadata(line)

    assert (seen.type, seen.namespace, seen.name, seen.resource_version) == (
        "ADDED",
        "ns",
        "p",
        "7",
    )
    assert peek_metadata(line[:KEPT_BYTES]) == seen


def test_a_malformed_object_is_reported_once_per_version() -> None:
    """Not again with every list and every watch."""

    async def scenario() -> None:
        api = FakeApi()
        api.put("bad", node("bad", spec={"taints": 5}))
        async with Watched(api, AT_ONCE) as watched:
            for _ in range(3):
                await settled(api, watched)
                api.cut()
                api.put("good", node("good"))
                api.compact()
            await settled(api, watched)
            assert watched.restarts.get("expired", 0) >= 2
            assert watched.malformed == 1
            api.put("bad", node("bad", spec={"taints": 6}))
            await settled(api, watched)
            assert watched.malformed == 2

    run(scenario)


# --- lists ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"status": "ok"}, id="another API's JSON"),
        pytest.param({"kind": "NodeList", "items": []}, id="no version"),
        pytest.param(
            {"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": []},
            id="a list of something else",
        ),
        pytest.param({"metadata": {"resourceVersion": "9"}, "items": []}, id="a list of no kind"),
        pytest.param([], id="an array"),
    ],
)
def test_what_is_no_list_of_that_kind_does_not_empty_the_store(body: Any) -> None:
    """Whatever its status is."""
    is_broken = False

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return status_answer(410, "Expired") if is_broken else await hang()
        return json_answer(body) if is_broken else listed("a", "b")

    async def scenario() -> None:
        nonlocal is_broken
        async with serving(answer) as (server, session), Watched(session, IMPATIENT) as watched:
            await watched.informer.wait_synced()
            is_broken = True
            await until(lambda: len(server.seen) >= 8)
            assert watched.names == {"a", "b"}
            assert watched.mirror.story == ["+a", "+b"]

    run(scenario)


@pytest.mark.parametrize("is_in_order", [True, False])
def test_a_list_of_large_objects_is_never_there_as_a_whole(is_in_order: bool) -> None:
    """Nobody's annotations decide how much memory a start takes.

    Where an object's end cannot be seen before the end of the page, pages are small.
    """
    large = {"metadata": {"annotations": {"x": "y" * 1_400_000}}}

    class Ordered(FakeApi):
        part_bytes = 2**20

        async def request(self, method: str, path: str, *, timeout: float) -> Any:
            answer = await super().request(method, path, timeout=timeout)
            page = msgspec.json.decode(answer.body)
            order = sorted(page, reverse=is_in_order)
            return Response(200, {}, msgspec.json.encode({key: page[key] for key in order}))

    async def scenario() -> None:
        api = Ordered()
        for i in range(60):
            meta = node(f"n{i:02}")["metadata"] | large["metadata"]
            api.put(f"n{i:02}", {"metadata": meta})
        async with Watched(api, AT_ONCE) as watched:
            await watched.informer.wait_synced()
            assert len(watched.names) == 60
            limits = [path.partition("limit=")[2].partition("&")[0] for path in api.requests]
            sizes = [int(limit) for limit in limits if limit]
            assert sizes[0] == FIRST
            assert (sizes[1:] == []) == is_in_order
            assert sizes[3:] == [] or sizes[3] * 1_400_000 < MAX_HELD_BYTES

    run(scenario)


@given(st.lists(st.tuples(st.integers(0, 600), st.integers(0, 2**26)), max_size=30))
def test_pages_grow_and_shrink_within_their_bounds(pages: list[tuple[int, int]]) -> None:
    """At least one object, and never more than fits."""
    size = PageSize(500)
    for count, size_bytes in pages:
        size.took(count, size_bytes)
        assert size.now >= 1
        assert size.now == 1 or size.now * size_bytes <= TARGET_BYTES * max(1, count)


def test_pages_of_a_list_that_expired_may_be_longer() -> None:
    """For the rest of that list, however large its objects are."""
    size = PageSize(500)
    size.took(500, TARGET_BYTES)
    assert size.now == 500
    size.grow()
    assert size.now == 2000
    size.took(2000, 4 * TARGET_BYTES)
    assert size.now == 2000


def test_an_object_nobody_can_read_is_passed_in_a_list_too() -> None:
    """It is cornered by smaller pages; the others are delivered."""
    names = [f"n{i}" for i in range(20)]

    def body(start: int, limit: int) -> bytes:
        items = [
            DEEP if name == "n7" else msgspec.json.encode(node(name))
            for name in names[start : start + limit]
        ]
        end = start + limit
        goes_on = b',"continue":"%d"' % end if end < len(names) else b""
        meta = b'{"resourceVersion":"5"%b}' % goes_on
        return b'{"kind":"NodeList","metadata":%b,"items":[%b]}' % (meta, b",".join(items))

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await hang()
        start, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        return web.Response(body=body(start, limit), content_type="application/json")

    async def scenario() -> None:
        async with serving(answer) as (server, session), Watched(session, QUICK) as watched:
            await watched.informer.wait_synced()
            assert watched.names == set(names) - {"n7"}
            assert watched.malformed == 1
            assert len(server.seen) < 25

    run(scenario)


# --- starting over --------------------------------------------------------------------------------


def test_a_watch_refused_as_a_bad_request_lists_again() -> None:
    """Its version may be what the server does not like, as after a restore."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            is_first = sum("watch" not in seen.path for seen in server_seen()) == 1
            return listed("a", version="900" if is_first else "5")
        if request.query["resourceVersion"] == "900":
            return status_answer(400, "BadRequest", "invalid resource version")
        await watching(request)
        return await hang()

    servers: list[Any] = []

    def server_seen() -> list[Any]:
        return servers[0].seen

    async def scenario() -> None:
        async with serving(answer) as (server, session):
            servers.append(server)
            async with Watched(session, QUICK) as watched:
                await until(lambda: watched.informer.blind_since is None)
                assert watched.informer.version == "5"
                assert len(server.seen) == 4

    run(scenario)


def test_versions_that_go_back_mean_a_new_list() -> None:
    """The server was restored: what it has forgotten must not be remembered here."""

    async def scenario() -> None:
        api = FakeApi()
        api.version = 100
        api.put("lost", node("lost"))
        async with Watched(api, AT_ONCE) as watched:
            await settled(api, watched)
            api.set_back({}, 50)
            api.put("new", node("new"))
            # No API server sends this; one without a watch cache of Kubernetes' might.
            api.send_raw(added("new", 51))
            await settled(api, watched)
            assert watched.names == {"new"}
            assert watched.informer.version == "51"

    run(scenario)


@pytest.mark.parametrize("told", ["\xb2", "1e9", "-1", "", "nan", "9" * 400, "Wed, 21 Oct 2026"])
def test_retry_after_is_obeyed_as_far_as_it_makes_sense(told: str) -> None:
    """For ten seconds at most, or not at all where a digit is no number."""
    problem = error_from_response("GET /", 429, {"retry-after": told}, b"")
    seconds = problem.retry_after_seconds

    assert seconds == (10.0 if told.isascii() and told.isdigit() else None)
    body = b'{"details":{"retryAfterSeconds":1e300}}'
    assert error_from_response("GET /", 429, {}, body).retry_after_seconds == 10.0


def test_a_blind_informer_says_so() -> None:
    """Until it has seen a list, and again when no watch comes about; a short gap is none."""

    async def scenario() -> None:
        api, clock = FakeApi(), FakeClock()
        informer = Informer(
            NODES,
            api,
            clock=clock,
            rng=random.Random(1),
            metrics=InformerMetrics(Instruments()),
            options=AT_ONCE,
        )
        clock.advance(BLIND_SECONDS + 1)
        assert informer.is_blind(clock.monotonic())
        task = asyncio.create_task(informer.run())
        await until(lambda: informer.blind_since is None)
        clock.advance(1000)
        assert not informer.is_blind(clock.monotonic())

        stream, api.stream = api.stream, refusing
        api.cut(UnavailableError("watch"))
        await until(lambda: informer.blind_since is not None)
        assert not informer.is_blind(clock.monotonic())
        clock.advance(BLIND_SECONDS + 1)
        await asyncio.sleep(0.01)
        assert informer.is_blind(clock.monotonic())

        api.stream = stream
        await until(lambda: not informer.is_blind(clock.monotonic()))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    @asynccontextmanager
    async def refusing(path: str, *, read_timeout: float) -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        raise UnavailableError(path)
        yield

    run(scenario)


def test_a_watch_that_is_opened_and_dropped_each_time_is_blind() -> None:
    """Being let in is not seeing."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await watching(request) if "watch" in request.query else listed("a")

    async def scenario() -> None:
        async with serving(answer) as (_, session), Watched(session, QUICK) as watched:
            informer = watched.informer
            since = informer.blind_since
            assert since is not None
            await until(lambda: watched.restarts.get("ended", 0) >= 4)
            await until(lambda: informer.blind_since is not None)
            assert informer.blind_since == since

    run(scenario)


# --- kinds ----------------------------------------------------------------------------------------


def test_kinds_added_later_are_watched_like_the_others() -> None:
    """One entry each; what they call themselves in lists is what the API calls them."""
    for kind in KINDS:
        assert kind.name.startswith(kind.list_kind.removesuffix("List").lower()[:-1])

    class Widget(msgspec.Struct, frozen=True):
        metadata: ObjectMeta

    async def answer(request: web.Request) -> web.StreamResponse:
        return await hang() if "watch" in request.query else listed("w", kind="Widget")

    async def scenario() -> None:
        later = Kind[Widget]("widgets", ObjectKind("Widget", "example/v1"), Widget)
        async with serving(answer) as (_, session):
            informers = Informers(
                session,
                [later],
                clock=SystemClock(),
                rng=random.Random(1),
                metrics=InformerMetrics(Instruments()),
                shares=unseen_shares(),
                options=QUICK,
            )
            task = asyncio.create_task(informers.run())
            await informers.wait_synced()
            assert list(informers.of(later).store) == ["w"]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(scenario)


@pytest.mark.parametrize(
    ("metadata", "is_malformed"),
    [
        (None, True),
        ([], True),
        ({"name": None}, True),
        ({"name": 5}, True),
        ({"name": "x", "labels": {"a": 1}}, True),
        ({"name": "x", "ownerReferences": [5]}, True),
        ({"name": "x", "labels": None, "ownerReferences": None}, False),
        ({"name": "x", "labels": {"a": None}, "ownerReferences": [{"uid": None}]}, False),
    ],
)
def test_metadata_of_a_kind_that_only_plugins_declare(metadata: Any, is_malformed: bool) -> None:
    """It is checked like that of other kinds: null counts as absent, the rest is malformed."""
    bad = msgspec.json.encode({"type": "ADDED", "object": {"metadata": metadata}}) + b"\n"

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return listed("a", kind="ConfigMap")
        if request.query["resourceVersion"] == "7":
            return await hang()
        return await watching(request, bad, added("b", 7))

    async def scenario() -> None:
        async with (
            serving(answer) as (_, session),
            Watched(session, QUICK, CONFIG_MAPS) as watched,
        ):
            await until(lambda: watched.informer.version == "7", 10.0)
            assert watched.names == ({"a", "b"} if is_malformed else {"a", "b", "x"})
            assert watched.malformed == is_malformed

    run(scenario)


# --- fuzzing --------------------------------------------------------------------------------------

FIELDS = st.sampled_from(
    [
        "metadata",
        "spec",
        "status",
        "name",
        "namespace",
        "uid",
        "labels",
        "annotations",
        "resourceVersion",
        "containers",
        "resources",
        "requests",
        "limits",
        "cpu",
        "memory",
        "pods",
        "taints",
        "key",
        "value",
        "effect",
        "operator",
        "affinity",
        "podAntiAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeAffinity",
        "nodeSelectorTerms",
        "matchExpressions",
        "topologySpreadConstraints",
        "maxSkew",
        "tolerations",
        "priority",
        "overhead",
        "allocatable",
        "capacity",
        "images",
        "names",
        "sizeBytes",
        "selector",
        "matchLabels",
        "template",
        "replicas",
        "ports",
        "hostPort",
        "conditions",
        "type",
        "schedulingGates",
        "ownerReferences",
        "creationTimestamp",
        "deletionTimestamp",
        "nodeName",
        "phase",
        "initContainers",
        "restartPolicy",
        "values",
    ]
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "1", "9" * 5000, "1e999", "100m", "\ud7ff", "n", "\x00", "²", "-0"])
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=12,
)
NAMED = st.dictionaries(FIELDS, JSON, max_size=5)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([*KINDS, CONFIG_MAPS]), NAMED, NAMED, NAMED, st.binary(max_size=60))
def test_every_kinds_decoder_answers_an_object_or_says_it_is_malformed(
    kind: Kind[Any], metadata: Any, spec: Any, status: Any, noise: bytes
) -> None:
    """Nothing else comes out of it, whatever comes in."""
    obj = {"metadata": {"name": "x"} | metadata, "spec": spec, "status": status}
    encoded = msgspec.json.encode(obj)
    cut_at = len(noise) * 7 % max(1, len(encoded))
    for raw in (encoded, noise, encoded[:cut_at] + noise + encoded[cut_at:]):
        with suppress(MalformedObjectError):
            kind.meta_of(kind.decode(raw))
        peek_metadata(raw)


LINES = st.one_of(
    st.binary(max_size=80),
    st.tuples(
        st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "X"]), JSON
    ).map(lambda pair: msgspec.json.encode({"type": pair[0], "object": pair[1]})),
    st.tuples(NAMED, NAMED).map(
        lambda pair: msgspec.json.encode(
            {"type": "ADDED", "object": {"metadata": pair[0] | {"name": "f"}, "spec": pair[1]}}
        )
    ),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(LINES, max_size=8))
def test_whatever_lines_come_what_follows_is_delivered(lines: list[bytes]) -> None:
    """The informer goes on, and ends where the server is."""

    async def scenario() -> None:
        api = FakeApi()
        api.put("a", node("a"))
        async with Watched(api, AT_ONCE) as watched:
            await settled(api, watched)
            for line in lines:
                api.send_raw(line.replace(b"\n", b" ") + b"\n")
            api.put("b", node("b"))
            await until(lambda: {"a", "b"} <= watched.names)
            # What was made up is gone with the next list.
            api.compact()
            api.put("c", node("c"))
            api.compact()
            api.cut(UnavailableError("watch"))
            await until(lambda: "c" in watched.names)

    run(scenario)


ITEMS = st.lists(JSON | st.sampled_from([node("x"), node("a")]), max_size=3)
PAGES = st.tuples(JSON, JSON, st.sampled_from(["NodeList", "PodList"])).map(
    lambda parts: msgspec.json.encode({"kind": parts[2], "metadata": parts[0], "items": parts[1]})
)


LISTS = st.tuples(st.integers(0, 2**62), ITEMS).map(
    lambda parts: msgspec.json.encode(
        {"kind": "NodeList", "metadata": {"resourceVersion": str(parts[0])}, "items": parts[1]}
    )
)


class Lying(FakeApi):
    """Gives other answers to the first lists."""

    def __init__(self, bodies: list[bytes]) -> None:
        super().__init__()
        self._bodies = bodies

    async def request(self, method: str, path: str, *, timeout: float) -> Response:
        if self._bodies:
            await asyncio.sleep(0)
            return Response(200, {}, self._bodies.pop(0))
        return await super().request(method, path, timeout=timeout)

    @asynccontextmanager
    async def stream(self, path: str, *, read_timeout: float) -> AsyncIterator[Any]:
        if not path.rpartition("=")[2].isdecimal() or len(path) > 200:
            await asyncio.sleep(0)
            raise InvalidError(path, status=400)
        async with super().stream(path, read_timeout=read_timeout) as lines:
            yield lines


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.binary(max_size=60) | JSON.map(msgspec.json.encode) | PAGES, max_size=6),
    st.lists(LISTS, max_size=1),
)
def test_whatever_lists_come_the_true_one_is_taken_at_last(
    bodies: list[bytes], lie: list[bytes]
) -> None:
    """The informer goes on."""

    async def scenario() -> None:
        api = Lying([*bodies, *lie])
        api.put("a", node("a"))
        async with Watched(api, AT_ONCE) as watched:
            await until(lambda: watched.informer.has_synced and not api._bodies)
            # A list that looks like one is believed until there is another, for which versions
            # above all that were told expire.
            api.put("b", node("b"))
            api.version = 2**63
            api.compact()
            api.cut(UnavailableError("watch"))
            await until(lambda: watched.names == {"a", "b"})

    run(scenario)
