"""One kind's list and watch: what becomes of the store, and how often the server is asked.

The faults are those under which other clients fall into hot loops, get stuck, or stop.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import msgspec
import pytest
import uvloop
from aiohttp import web
from hypothesis import HealthCheck, given, settings, strategies as st

from scheduler.api.objects import Namespace, Node
from scheduler.clock import SystemClock
from scheduler.daemon.informers.doubts import Doubts
from scheduler.daemon.informers.informer import Informer, InformerOptions
from scheduler.daemon.informers.informers import Informers
from scheduler.daemon.informers.kinds import NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, Kind
from scheduler.daemon.informers.states import State
from scheduler.observability.client_metrics import InformerMetrics
from scheduler.observability.instruments import Instruments
from tests.support.shares import unseen_shares
from tests.unit.client.scripted_server import (
    dropped,
    hang,
    json_answer,
    serving,
    status_answer,
    until,
)
from tests.unit.informers.fake_api import ERROR_410, FakeApi, Mirror, broken

# Only pauses are short: where the machine stands still a while, no time must be over.
QUICK = InformerOptions(
    list_timeout=60.0, read_timeout=60.0, short_watch=60.0, backoff_base=0.03, backoff_cap=0.24
)
IMPATIENT = replace(QUICK, list_timeout=0.35, read_timeout=0.5, short_watch=0.12)
AT_ONCE = InformerOptions(backoff_base=0.0, backoff_cap=0.0, short_watch=0.0)


def node(name: str, uid: str = "", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid or name}, **more}


class Watched:
    """A running informer of nodes with a mirror of what it told."""

    def __init__(self, session: Any, options: InformerOptions, kind: Kind[Any] = NODES) -> None:
        self.metrics = InformerMetrics(Instruments())
        self.doubts = Doubts()
        self.informer: Informer[Any] = Informer(
            kind,
            session,
            clock=SystemClock(),
            rng=random.Random(1),
            metrics=self.metrics,
            options=options,
            doubts=self.doubts,
        )
        self.mirror: Mirror[Any] = Mirror(kind.meta_of)
        self.informer.add_handler(self.mirror)

    @property
    def restarts(self) -> dict[str, int]:
        """How often the watch was over, by reason."""
        return {why: int(n.value) for (_, why), n in self.metrics.watch_restarts.items()}

    @property
    def malformed(self) -> int:
        """How many objects could not be read."""
        return sum(int(number.value) for number in self.metrics.malformed_objects.values())

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self.informer.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        results = await asyncio.gather(self.task, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError), results

    @property
    def names(self) -> set[str]:
        return set(self.informer.store)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(120.0):
            await scenario()

    uvloop.run(limited())


def is_list(path: str) -> bool:
    """Whether a whole list was asked for, not just whether the server was set back."""
    return "watch" not in path and not path.endswith("limit=1")


async def settled(api: FakeApi, watched: Watched) -> None:
    """Waits until the informer is where the server is."""

    def is_settled() -> bool:
        api.bookmark()
        is_watching = api.is_watched and watched.informer.state is State.WATCHING
        return is_watching and watched.informer.version == str(api.version)

    await until(is_settled)


# --- the ordinary course --------------------------------------------------------------------------


class TestCourse:
    def test_the_list_comes_first_and_the_watch_goes_on_from_it(self) -> None:
        """Every object is told once."""

        async def scenario() -> None:
            api = FakeApi()
            api.put("a", node("a"))
            api.put("b", node("b"))
            async with Watched(api, AT_ONCE) as watched:
                await watched.informer.wait_synced()
                assert watched.names == {"a", "b"}
                await settled(api, watched)
                api.put("c", node("c"))
                api.put("a", node("a", spec={"unschedulable": True}))
                api.delete("b")
                await settled(api, watched)

                assert watched.mirror.story == ["+a", "+b", "+c", "~a", "-b"]
                assert watched.informer.store["a"].spec.unschedulable
                assert len(api.requests) == 2
                assert watched.restarts == {}

        run(scenario)

    def test_a_long_list_comes_in_pages(self) -> None:
        """Of the kind's size, the same list throughout; synced only after the last."""

        async def scenario() -> None:
            api = FakeApi()
            for i in range(7):
                api.put(f"n{i}", node(f"n{i}"))
            options = replace(AT_ONCE, page_size=3)
            async with Watched(api, options) as watched:
                await watched.informer.wait_synced()

                assert len(watched.names) == 7
                limits = [path.split("?")[1].split("&")[0] for path in api.requests[:2]]
                assert limits == ["limit=3", "limit=12"]

        run(scenario)

    def test_bookmarks_move_the_version(self) -> None:
        """So that a quiet kind resumes where the server is."""

        async def scenario() -> None:
            api = FakeApi()
            async with Watched(api, AT_ONCE) as watched:
                await settled(api, watched)
                api.version = 1000
                await settled(api, watched)
                api.compact()
                api.cut()
                await settled(api, watched)

                assert "resourceVersion=1000" in api.requests[-1]
                assert watched.restarts == {"ended": 1}

        run(scenario)

    def test_an_ended_watch_resumes_without_a_list(self) -> None:
        """At the last version seen; nothing is told twice."""

        async def scenario() -> None:
            api = FakeApi()
            async with Watched(api, AT_ONCE) as watched:
                await settled(api, watched)
                for i in range(5):
                    api.put("a", node("a", spec={"unschedulable": i % 2 == 0}))
                    await settled(api, watched)
                    api.cut(broken() if i % 2 else None)
                await settled(api, watched)

                assert watched.mirror.story == ["+a", "~a", "~a", "~a", "~a"]
                assert [path for path in api.requests if is_list(path)] == api.requests[:1]
                assert watched.restarts == {"ended": 3, "failed": 2}

        run(scenario)

    @pytest.mark.parametrize("as_event", [False, True], ids=["as status", "as event"])
    def test_an_expired_version_means_a_list_that_tells_only_what_changed(
        self, as_event: bool
    ) -> None:
        """Unchanged objects are not told again; deleted ones are."""

        async def scenario() -> None:
            api = FakeApi()
            api.is_gone_as_event = as_event
            for name in "abcd":
                api.put(name, node(name))
            async with Watched(api, AT_ONCE) as watched:
                await settled(api, watched)
                watched.mirror.story.clear()
                api.cut()
                await asyncio.sleep(0)
                api.cut()
                api.put("a", node("a", spec={"unschedulable": True}))
                api.delete("b")
                api.delete("c")
                api.put("c", node("c", uid="another"))
                api.put("e", node("e"))
                api.compact()
                await settled(api, watched)

                assert sorted(watched.mirror.story) == ["+c", "+e", "-b", "-c", "~a"]
                assert "expired" in watched.restarts

        run(scenario)

    def test_an_expired_continue_token_means_a_new_list_in_larger_pages(self) -> None:
        """Or a server whose tokens live too shortly would be listed for ever."""

        async def scenario() -> None:
            api = FakeApi()
            api.continues_expire = True
            for i in range(5):
                api.put(f"n{i}", node(f"n{i}"))
            options = replace(AT_ONCE, page_size=2)
            async with Watched(api, options) as watched:
                await watched.informer.wait_synced()

                assert len(watched.names) == 5
                pages = [path.partition("limit=")[2] for path in api.requests]
                assert [page.partition("&")[0] for page in pages[:3]] == ["2", "8", "32"]

        run(scenario)

    def test_a_bug_in_a_handler_is_not_hidden(self) -> None:
        """The informer ends with it: the daemon's business."""

        class Wrong(Mirror[Node]):
            def on_add(self, obj: Node) -> None:
                raise ValueError("mine")

        async def scenario() -> None:
            api = FakeApi()
            api.put("a", node("a"))
            watched = Watched(api, AT_ONCE)
            watched.informer.add_handler(Wrong(NODES.meta_of))
            with pytest.raises(ValueError, match="mine"):
                await watched.informer.run()

        run(scenario)

    def test_a_long_list_does_not_hold_up_the_loop(self) -> None:
        """Others run every millisecond or so while it is decoded."""

        async def scenario() -> None:
            api = FakeApi()
            labels = {f"key-{i}": "x" * 50 for i in range(100)}
            for i in range(2000):
                key = f"n{i}"
                api.objects[key] = {
                    "metadata": {
                        "name": key,
                        "uid": key,
                        "resourceVersion": "1",
                        "labels": labels,
                    }
                }
            options = replace(AT_ONCE, page_size=5000)
            turns = 0

            async def other() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            async with Watched(api, options) as watched:
                await asyncio.sleep(0)
                task = asyncio.create_task(other())
                await watched.informer.wait_synced()
                task.cancel()
                assert turns > 10

        run(scenario)


# --- objects that cannot be read ------------------------------------------------------------------


class TestMalformed:
    BAD: ClassVar = {"spec": {"taints": "not a list"}}

    def test_in_a_list_it_is_left_out(self) -> None:
        """With one warning and one count; the rest is there."""

        async def scenario() -> None:
            api = FakeApi()
            api.put("a", node("a"))
            api.put("bad", node("bad", **self.BAD))
            api.put("c", node("c"))
            async with Watched(api, AT_ONCE) as watched:
                await settled(api, watched)

                assert watched.names == {"a", "c"}
                assert watched.malformed == 1

        run(scenario)

    def test_in_a_watch_it_is_left_out_and_its_version_passed(self) -> None:
        """A resumed watch does not meet it again."""

        async def scenario() -> None:
            api = FakeApi()
            async with Watched(api, AT_ONCE) as watched:
                await settled(api, watched)
                api.put("bad", node("bad", **self.BAD))
                await until(lambda: watched.informer.version == str(api.version))
                api.cut()
                api.put("good", node("good"))
                await settled(api, watched)

                assert watched.names == {"good"}
                assert watched.malformed == 1

        run(scenario)

    def test_what_was_known_before_stays_until_it_is_deleted(self) -> None:
        """Also over a list: the pod still uses its node."""

        async def scenario() -> None:
            api = FakeApi()
            api.put("a", node("a"))
            async with Watched(api, AT_ONCE) as watched:
                await settled(api, watched)
                api.cut()
                api.put("a", node("a", **self.BAD))
                api.compact()
                await settled(api, watched)
                assert watched.restarts == {"ended": 1, "expired": 1}
                assert watched.mirror.story == ["+a"]

                api.delete("a")
                await settled(api, watched)
                assert watched.mirror.story == ["+a", "-a"]

        run(scenario)

    def test_a_pod_with_an_unreadable_quantity_is_left_out(self) -> None:
        """The same path as a wrong type."""

        async def scenario() -> None:
            api = FakeApi()
            request = {"resources": {"requests": {"cpu": "1 apple"}}}
            pod = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}
            api.put("ns/p", pod | {"spec": {"containers": [{"name": "c", **request}]}})
            api.put("ns/q", {"metadata": {"name": "q", "namespace": "ns"}, "spec": {}})
            async with Watched(api, AT_ONCE, PODS) as watched:
                await settled(api, watched)

                assert watched.names == {"ns/q"}
                assert watched.malformed == 1

        run(scenario)

    @pytest.mark.parametrize(
        ("line", "malformed"),
        [
            pytest.param(b"\n", 0, id="blank line"),
            pytest.param(b'{"type":"BOOKMARK","object":{}}\n', 0, id="bookmark of nothing"),
            pytest.param(
                b'{"type":"FUTURE","object":{"metadata":{"name":"x"}}}\n', 1, id="unknown type"
            ),
            pytest.param(b'{"type":"ADDED","object":[]}\n', 1, id="object of no shape"),
        ],
    )
    def test_an_odd_line_is_passed_over(self, line: bytes, malformed: int) -> None:
        """The watch goes on."""

        async def scenario() -> None:
            api = FakeApi()
            async with Watched(api, AT_ONCE) as watched:
                await settled(api, watched)
                api.send_raw(line)
                api.put("a", node("a"))
                await settled(api, watched)

                assert watched.names == {"a"}
                assert watched.malformed == malformed
                assert watched.restarts == {}

        run(scenario)


# --- faults of the server, over real HTTP ---------------------------------------------------------


def listed(*names: str, version: str = "5", kind: str = "Node") -> web.Response:
    items = [node(name) for name in names]
    meta = {"resourceVersion": version}
    return json_answer({"kind": f"{kind}List", "metadata": meta, "items": items})


async def watching(request: web.Request, *lines: bytes) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for line in lines:
        await response.write(line)
    return response


def added(name: str, version: int) -> bytes:
    obj = node(name)
    obj["metadata"]["resourceVersion"] = str(version)
    return msgspec.json.encode({"type": "ADDED", "object": obj}) + b"\n"


class Observed:
    """What a server that answers badly was asked, and when."""

    def __init__(
        self,
        answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
        requests: int,
        options: InformerOptions = QUICK,
    ) -> None:
        """Let an informer go on until it has asked so often."""
        self._answer = answer
        self._requests = requests
        self._options = options
        self.times: list[float] = []
        self.paths: list[str] = []
        run(self._observe)

    @property
    def pauses(self) -> list[float]:
        """Seconds from one request to the next."""
        return [later - sooner for sooner, later in pairwise(self.times)]

    async def _observe(self) -> None:
        async with (
            serving(self._note) as (_, session),
            Watched(session, self._options) as self.watched,
        ):
            await until(lambda: len(self.times) >= self._requests)

    async def _note(self, request: web.Request) -> web.StreamResponse:
        self.times.append(SystemClock().monotonic())
        self.paths.append(request.path_qs)
        return await self._answer(request)


def backed_off(failures: int) -> float:
    """The least time that so many failures in a row take; timers may fire a millisecond early."""
    limits = (QUICK.backoff_base * 2**number for number in range(failures))
    return sum(min(limit, QUICK.backoff_cap) / 2 - 0.001 for limit in limits)


class TestFaults:
    """However long a fault lasts, the server is asked less and less, and never no more."""

    @pytest.mark.parametrize("status", [500, 503, 401, 403, 404])
    def test_lists_refused(self, status: int) -> None:
        """Back-off grows; nothing is raised."""

        async def answer(_: web.Request) -> web.StreamResponse:
            return status_answer(status, "Reason", "no")

        seen = Observed(answer, 6)

        assert seen.times[5] - seen.times[0] >= backed_off(5)
        assert not seen.watched.informer.has_synced

    @pytest.mark.parametrize("event", [None, ERROR_410], ids=["410 as status", "410 as event"])
    def test_versions_that_are_always_too_old(self, event: bytes | None) -> None:
        """A list follows each, but not in a hot loop; objects are told once."""

        async def answer(request: web.Request) -> web.StreamResponse:
            if "watch" not in request.query:
                return listed("a", "b")
            if event is None:
                return status_answer(410, "Expired", "too old")
            return await watching(request, event)

        seen = Observed(answer, 8)

        assert [is_list(path) for path in seen.paths[:8]] == [True, False] * 4
        assert seen.times[6] - seen.times[1] >= backed_off(3)
        assert seen.watched.mirror.story == ["+a", "+b"]

    def test_a_watch_refused(self) -> None:
        """The list is not asked for again; each time the server is asked if it was set back."""

        async def answer(request: web.Request) -> web.StreamResponse:
            if "watch" not in request.query:
                return listed("a")
            return status_answer(500, "InternalError", "no")

        seen = Observed(answer, 10)

        asked = zip(seen.times, seen.paths, strict=True)
        watches = [time for time, path in asked if "watch" in path]
        assert watches[4] - watches[0] >= backed_off(4)
        assert [is_list(path) for path in seen.paths] == [True] + [False] * 9
        assert seen.watched.names == {"a"}

    def test_a_watch_that_ends_at_once(self) -> None:
        """In good order, but too often: what happened meanwhile is listed at last."""

        async def answer(request: web.Request) -> web.StreamResponse:
            if "watch" not in request.query:
                return listed("a")
            return await watching(request)

        seen = Observed(answer, 6)

        assert seen.times[5] - seen.times[1] >= backed_off(3)
        assert all("resourceVersion=5" in path for path in seen.paths[1:5])
        assert [is_list(path) for path in seen.paths[:6]] == [True, *[False] * 4, True]

    def test_a_watch_that_ends_after_each_event(self) -> None:
        """Each resumes one further on: slow, but not ever slower."""
        version = 5

        async def answer(request: web.Request) -> web.StreamResponse:
            nonlocal version
            if "watch" not in request.query:
                return listed()
            assert request.query["resourceVersion"] == str(version)
            version += 1
            return await watching(request, added(f"n{version}", version))

        seen = Observed(answer, 12)

        assert min(seen.pauses[1:]) >= backed_off(1)
        assert len(seen.watched.names) >= 10

    def test_a_connection_cut_in_the_middle_of_an_event(self) -> None:
        """What came before counts, half an event does not."""

        async def answer(request: web.Request) -> web.StreamResponse:
            if "watch" not in request.query:
                return listed() if is_list(request.path_qs) else listed("a", version="7")
            if request.query["resourceVersion"] == "5":
                await watching(request, added("a", 6), added("b", 7)[:40])
                return dropped(request)
            return await hang()

        seen = Observed(answer, 4)

        assert seen.watched.names == {"a"}
        assert "resourceVersion=6" in seen.paths[3]

    def test_a_silent_half_open_connection(self) -> None:
        """It is given up after the read timeout, and the watch resumed."""

        async def answer(request: web.Request) -> web.StreamResponse:
            if "watch" not in request.query:
                return listed() if is_list(request.path_qs) else listed("a", version="6")
            await watching(request, added("a", 6))
            return await hang()

        seen = Observed(answer, 4, IMPATIENT)

        assert seen.watched.names == {"a"}
        assert seen.pauses[1] >= IMPATIENT.read_timeout
        assert "resourceVersion=6" in seen.paths[3]

    def test_a_list_that_is_no_list(self) -> None:
        """A login page with status 200."""

        async def answer(_: web.Request) -> web.StreamResponse:
            return web.Response(text="<html>log in</html>")

        seen = Observed(answer, 6)

        assert seen.times[5] - seen.times[0] >= backed_off(5)

    def test_a_watch_that_is_no_watch(self) -> None:
        """The list is asked for again at last, in case its version is the trouble."""

        async def answer(request: web.Request) -> web.StreamResponse:
            if "watch" not in request.query:
                return listed()
            return await watching(request, b"<html>\n")

        seen = Observed(answer, 9)

        # Each time it is asked whether the server was set back, before the next watch.
        assert [is_list(path) for path in seen.paths[:9]] == [True] + [False] * 7 + [True]
        assert seen.watched.informer.has_synced

    def test_lists_that_hang(self) -> None:
        """Each is given up after its timeout."""

        async def answer(_: web.Request) -> web.StreamResponse:
            return await hang()

        seen = Observed(answer, 3, IMPATIENT)

        # The time runs from the request; a busy machine notes its arrival later.
        assert min(seen.pauses[:2]) >= IMPATIENT.list_timeout / 2

    def test_throttling_is_obeyed(self) -> None:
        """The server says when."""

        async def answer(request: web.Request) -> web.StreamResponse:
            if "watch" not in request.query:
                return listed()
            return status_answer(429, "TooManyRequests", headers={"Retry-After": "1"})

        seen = Observed(answer, 3)

        assert seen.pauses[1] >= 1.0


# --- the law --------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
OPERATIONS = st.one_of(
    st.tuples(st.just("put"), NAMES),
    st.tuples(st.just("put"), NAMES),
    st.tuples(st.just("malformed"), NAMES),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("recreate"), NAMES),
    st.tuples(st.sampled_from(["compact", "end", "break", "error", "blank", "bookmark"])),
    st.tuples(st.just("wait"), st.integers(1, 12)),
    st.tuples(st.just("expire continues"), st.booleans()),
    st.tuples(st.just("gone as event"), st.booleans()),
)


def perform(api: FakeApi, operation: tuple[Any, ...], uids: Iterator[int]) -> None:
    name = operation[1] if len(operation) > 1 else ""
    match operation[0]:
        case "put":
            uid = api.objects.get(name, {"metadata": {"uid": f"u{next(uids)}"}})["metadata"]["uid"]
            api.put(name, node(name, uid))
        case "malformed":
            uid = api.objects.get(name, {"metadata": {"uid": f"u{next(uids)}"}})["metadata"]["uid"]
            api.put(name, node(name, uid, spec={"taints": 5}))
        case "delete":
            api.delete(name)
        case "recreate":
            api.delete(name)
            api.put(name, node(name, f"u{next(uids)}"))
        case "compact":
            api.compact()
        case "end":
            api.cut()
        case "break":
            api.cut(broken())
        case "error":
            api.send_raw(ERROR_410)
        case "blank":
            api.send_raw(b"\n")
        case "bookmark":
            api.bookmark()
        case "expire continues":
            api.continues_expire = name
        case "gone as event":
            api.is_gone_as_event = name


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(OPERATIONS, max_size=60), st.integers(1, 4))
def test_the_store_ends_where_the_server_is(
    operations: list[tuple[Any, ...]], page_size: int
) -> None:
    """Whatever happens in between, and the handlers were told exactly that."""

    async def scenario() -> None:
        api = FakeApi()
        uids = iter(range(10_000))
        options = replace(AT_ONCE, page_size=page_size)
        async with Watched(api, options) as watched:
            for operation in operations:
                if operation[0] == "wait":
                    for _ in range(operation[1]):
                        await asyncio.sleep(0)
                else:
                    perform(api, operation, uids)
            await settled(api, watched)

            readable = {
                name: obj["metadata"]["resourceVersion"]
                for name, obj in api.objects.items()
                if "spec" not in obj
            }
            held = {
                name: obj.metadata.resource_version
                for name, obj in watched.informer.store.items()
                # The last readable state of what is malformed now may be kept.
                if "spec" not in api.objects.get(name, {})
            }
            assert held == readable
            assert watched.mirror.objects == dict(watched.informer.store)

    run(scenario)


# --- all kinds together ---------------------------------------------------------------------------


def test_all_kinds_are_synced_when_each_is() -> None:
    """One that cannot be listed holds back `has_synced`, and is named."""

    async def scenario() -> None:
        is_open = False

        async def answer(request: web.Request) -> web.StreamResponse:
            if "watch" in request.query:
                return await hang()
            if request.path == "/api/v1/namespaces" and not is_open:
                return status_answer(403, "Forbidden", "namespaces is forbidden")
            return listed("x", kind="Node" if request.path.endswith("nodes") else "Namespace")

        async with serving(answer) as (_, session):
            informers = Informers(
                session,
                [NODES, NAMESPACES],
                clock=SystemClock(),
                rng=random.Random(1),
                metrics=InformerMetrics(Instruments()),
                shares=unseen_shares(),
                options=QUICK,
            )
            task = asyncio.create_task(informers.run())
            await informers.of(NODES).wait_synced()
            assert informers.unsynced == ["namespaces"]

            is_open = True
            await informers.wait_synced()
            namespaces: Informer[Namespace] = informers.of(NAMESPACES)
            assert not informers.unsynced
            assert list(namespaces.store) == ["x"]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(scenario)


def test_a_kind_that_the_server_does_not_serve_has_no_objects() -> None:
    """The daemon starts all the same; kinds that every server has are waited for."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return status_answer(404, "NotFound")

    async def scenario() -> None:
        async with (
            serving(answer) as (_, session),
            Watched(session, QUICK, RESOURCE_CLAIMS) as claims,
            Watched(session, QUICK) as nodes,
        ):
            await until(lambda: claims.informer.has_synced)
            await until(lambda: nodes.restarts.get("failed", 0) > 1)

            assert not claims.names
            assert claims.restarts == {}
            assert not claims.informer.is_blind(SystemClock().monotonic() + 1000.0)
            assert not nodes.informer.has_synced

    run(scenario)
