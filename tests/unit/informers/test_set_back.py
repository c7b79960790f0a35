"""A server that was restored from a backup: nothing of what it forgot stays known.

Versions count up again from the backup, so a watch from a version of before is answered by silence
or by another story; no request fails.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from typing_extensions import override

from scheduler.clock import SystemClock
from scheduler.daemon.client.errors import GoneError, UnavailableError
from scheduler.daemon.client.http_connection import Response
from scheduler.daemon.informers import doubts as doubts_module
from scheduler.daemon.informers.doubts import Doubts
from scheduler.daemon.informers.informers import Informers
from scheduler.daemon.informers.kinds import NODES, PODS
from scheduler.daemon.informers.states import State
from scheduler.observability.client_metrics import InformerMetrics
from scheduler.observability.instruments import Instruments
from tests.support.shares import unseen_shares
from tests.unit.client.scripted_server import until
from tests.unit.informers.fake_api import FakeApi, broken
from tests.unit.informers.test_informer import AT_ONCE, Watched, is_list, node, run, settled


def lists(api: FakeApi) -> int:
    return sum(is_list(path) for path in api.requests)


@pytest.mark.parametrize("status", [0, 429, 500, 503])
@pytest.mark.parametrize("later", [0, 1, 9], ids=["behind", "as far", "further"])
def test_what_never_happened_is_unlearnt(later: int, status: int) -> None:
    """Whether or not the server has reached the version that was known.

    Until then it gives no answer, or a proxy in its place answers with a status.
    """

    async def scenario() -> None:
        api = FakeApi()
        for name in ("a", "b"):
            api.put(name, node(name))
        async with Watched(api, AT_ONCE) as watched:
            await settled(api, watched)
            backup, version = dict(api.objects), api.version
            api.delete("b")
            api.put("c", node("c"))
            await settled(api, watched)

            api.outage = UnavailableError("GET", status=status, message="no healthy upstream")
            api.cut(broken() if status == 0 else None)
            await until(lambda: watched.restarts.get("failed", 0) > 0)
            api.set_back(backup, version)
            for number in range(later):
                api.put("a", node("a", spec={"unschedulable": number % 2 == 0}))
            api.outage = None
            await until(lambda: watched.names == {"a", "b"})
            await settled(api, watched)

            assert watched.mirror.story[:4] == ["+a", "+b", "-b", "+c"]
            assert set(watched.mirror.story[4:]) <= {"-c", "+b", "~a"}
            assert watched.restarts["expired"] == 1

    run(scenario)


def test_a_change_that_never_happened_is_taken_back() -> None:
    """The newest object is there, as it was before."""

    async def scenario() -> None:
        api = FakeApi()
        api.put("a", node("a"))
        async with Watched(api, AT_ONCE) as watched:
            await settled(api, watched)
            backup, version = dict(api.objects), api.version
            api.put("a", node("a", spec={"unschedulable": True}))
            await settled(api, watched)

            api.cut(broken())
            api.set_back(backup, version)
            for number in range(5):
                api.put(f"x{number}", node(f"x{number}"))
            await until(lambda: not watched.informer.store["a"].spec.unschedulable)
            await settled(api, watched)

            assert watched.names == {"a", *(f"x{number}" for number in range(5))}

    run(scenario)


@pytest.mark.parametrize("later", [0, 3], ids=["as far", "further"])
def test_another_change_at_the_same_version_is_seen(later: int) -> None:
    """Versions count up again: the same object may get the same one for another state."""

    async def scenario() -> None:
        api = FakeApi()
        api.put("a", node("a"))
        async with Watched(api, AT_ONCE) as watched:
            await settled(api, watched)
            backup, version = dict(api.objects), api.version
            api.put("a", node("a", spec={"unschedulable": True}))
            await settled(api, watched)
            known = watched.informer.store["a"].metadata.resource_version

            api.cut(broken())
            api.set_back(backup, version)
            api.put("a", node("a", spec={"providerID": "restored"}))
            for number in range(later):
                api.put(f"x{number}", node(f"x{number}"))
            await until(lambda: not watched.informer.store["a"].spec.unschedulable)

            assert watched.informer.store["a"].metadata.resource_version == known
            assert watched.restarts == {"failed": 1, "expired": 1}

    run(scenario)


def test_a_second_restore_shows_as_well() -> None:
    """Before the versions of the first lost state are reached again."""

    async def scenario() -> None:
        api = FakeApi()
        api.put("a", node("a"))
        async with Watched(api, AT_ONCE) as watched:
            await settled(api, watched)
            backup, version = dict(api.objects), api.version
            for lost in (21, 3):
                for number in range(lost):
                    api.put("a", node("a", spec={"unschedulable": number % 2 == 0}))
                await settled(api, watched)
                assert watched.informer.store["a"].spec.unschedulable

                api.cut(broken())
                api.set_back(backup, version)
                if lost == 3:
                    for name in ("x", "y", "z"):
                        api.put(name, node(name))
                await until(lambda: not watched.informer.store["a"].spec.unschedulable)
                await settled(api, watched)

    run(scenario)


def test_a_server_that_was_only_away_is_asked_one_small_thing() -> None:
    """No list; not even when much has happened meanwhile. The answer ends the doubt."""

    async def scenario() -> None:
        api = FakeApi()
        api.put("a", node("a"))
        async with Watched(api, AT_ONCE) as watched:
            await settled(api, watched)
            api.cut(broken())
            watched.doubts.begin("nodes")
            for number in range(5):
                api.put(f"x{number}", node(f"x{number}"))
            await until(lambda: len(watched.names) == 6)

            assert not watched.doubts.are_open()
            api.cut()
            await settled(api, watched)
            assert lists(api) == 1
            small = [path for path in api.requests if path.endswith("limit=1")]
            assert small == ["/api/v1/nodes?fieldSelector=metadata.name%3Da&limit=1"]

    run(scenario)


def test_a_witness_that_is_gone_proves_nothing() -> None:
    """It may have been deleted meanwhile: the list is asked for again, once."""

    async def scenario() -> None:
        api = FakeApi()
        api.put("a", node("a"))
        api.put("b", node("b"))
        async with Watched(api, AT_ONCE) as watched:
            await settled(api, watched)
            api.cut(broken())
            api.delete("b")
            await settled(api, watched)

            assert watched.names == {"a"}
            assert lists(api) == 2
            assert sum(path.endswith("limit=1") for path in api.requests) == 1

    run(scenario)


class _Held(FakeApi):
    """Holds the requests back whose path contains a text, until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.held = "nothing"
        self.waits = asyncio.Event()
        self.go_on = asyncio.Event()

    async def _pass(self, path: str) -> None:
        if self.held in path:
            self.waits.set()
            await self.go_on.wait()

    @override
    async def request(self, method: str, path: str, *, timeout: float) -> Response:
        answer = await super().request(method, path, timeout=timeout)
        await self._pass(path)
        return answer

    @override
    @asynccontextmanager
    async def stream(self, path: str, *, read_timeout: float) -> AsyncIterator[Any]:
        await self._pass(path)
        async with super().stream(path, read_timeout=read_timeout) as lines:
            yield lines


@pytest.mark.parametrize("during", ["limit=1", "watch="], ids=["the question", "a watch begins"])
def test_what_another_kind_finds_out_meanwhile_is_heeded(during: str) -> None:
    """All kinds ask at the same time; a deletion that was forgotten shows in no answer."""

    async def scenario() -> None:
        api = _Held()
        for name in ("a", "b"):
            api.put(name, node(name))
        async with Watched(api, AT_ONCE) as watched:
            await settled(api, watched)
            backup, version = dict(api.objects), api.version
            api.delete("b")
            await settled(api, watched)

            api.set_back(backup, version)
            for number in range(5):
                api.put("a", node("a", spec={"unschedulable": number % 2 == 0}))
            api.held = during
            api.cut(broken())
            await api.waits.wait()
            watched.informer.list_again()
            api.held = "nothing"
            api.go_on.set()

            await until(lambda: watched.names == {"a", "b"})
            await settled(api, watched)

    run(scenario)


def test_only_a_list_ends_a_doubt_that_another_kind_began() -> None:
    """The answer to the kind's own question comes after it: the question was asked too early."""

    async def scenario() -> None:
        api = _Held()
        api.put("a", node("a"))
        async with Watched(api, AT_ONCE) as watched:
            await settled(api, watched)
            api.held = "limit=1"
            api.cut(broken())
            await api.waits.wait()
            watched.informer.list_again()
            api.held = "/nodes?limit="
            api.waits.clear()
            api.go_on.set()
            api.go_on.clear()
            await api.waits.wait()
            assert watched.doubts.are_open()

            api.go_on.set()
            await until(lambda: not watched.doubts.are_open())
            assert lists(api) == 2

    run(scenario)


def test_a_list_that_began_before_is_repeated() -> None:
    """It may be of the lost state."""

    async def scenario() -> None:
        api = _Held()
        api.held = "/nodes?limit="
        async with Watched(api, AT_ONCE) as watched:
            await api.waits.wait()
            watched.informer.list_again()
            api.go_on.set()
            await until(lambda: lists(api) == 2)
            await settled(api, watched)

    run(scenario)


def test_two_kinds_may_find_it_out_in_one_turn_of_the_loop() -> None:
    """The watch is being left then: no kind's informer ends by that."""

    async def scenario() -> None:
        api = FakeApi()
        api.put("a", node("a"))
        async with Watched(api, AT_ONCE) as watched:
            await settled(api, watched)
            watched.informer.list_again()
            assert watched.doubts.are_open()
            await asyncio.sleep(0)
            watched.informer.list_again()
            await until(lambda: lists(api) == 2)
            await settled(api, watched)

    run(scenario)


def _object(name: str) -> dict[str, Any]:
    """A pod, which a node need not differ from."""
    return {"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {}}


class _Both:
    """Two servers of one kind each, behind one port."""

    def __init__(self) -> None:
        self.by_plural = {"pods": FakeApi(), "nodes": FakeApi()}

    def _of(self, path: str) -> FakeApi:
        return next(api for plural, api in self.by_plural.items() if f"/{plural}" in path)

    async def request(self, method: str, path: str, *, timeout: float) -> Any:
        return await self._of(path).request(method, path, timeout=timeout)

    def download(self, path: str, *, timeout: float) -> Any:
        return self._of(path).download(path, timeout=timeout)

    @asynccontextmanager
    async def stream(self, path: str, *, read_timeout: float) -> AsyncIterator[Any]:
        async with self._of(path).stream(path, read_timeout=read_timeout) as lines:
            yield lines


class _Late(FakeApi):
    """Lists nothing until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_list = asyncio.Event()
        self.may_list.set()

    @override
    @asynccontextmanager
    async def download(self, path: str, *, timeout: float) -> AsyncIterator[Any]:
        await self.may_list.wait()
        async with super().download(path, timeout=timeout) as body:
            yield body


def _informers(both: _Both, doubts: Doubts, metrics: InformerMetrics) -> Informers:
    return Informers(
        both,
        [NODES, PODS],
        clock=SystemClock(),
        rng=random.Random(1),
        metrics=metrics,
        shares=unseen_shares(),
        options=AT_ONCE,
        doubts=doubts,
    )


def test_what_both_kinds_find_out_at_once_is_told_once() -> None:
    """Their answers come in one turn of the loop; neither kind lists twice."""

    async def scenario() -> None:
        both, doubts, told = _Both(), Doubts(), list[bool]()
        doubts.on_set_back = lambda: told.append(doubts.are_open())
        servers = list(both.by_plural.values())
        for api in servers:
            api.put("ns/a", _object("a"))
        informers = _informers(both, doubts, InformerMetrics(Instruments()))
        running = asyncio.create_task(informers.run())
        await informers.wait_synced()
        before = [(api, dict(api.objects), api.version) for api in servers]
        for api in servers:
            api.put("ns/a", _object("a"))
        kinds = [informers.of(kind) for kind in (NODES, PODS)]
        await until(lambda: all(kind.version == "2" for kind in kinds))

        for api, objects, version in before:
            api.set_back(objects, version)
            api.cut(broken())
        await until(lambda: told)
        await until(lambda: all(kind.state is State.WATCHING for kind in kinds))
        assert told == [True]
        assert [lists(api) for api in servers] == [2, 2]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run(scenario)


def test_a_list_that_is_older_than_the_one_before_concerns_all_kinds() -> None:
    """The versions of a kind have expired, so it lists without a question."""

    async def scenario() -> None:
        both, doubts, told = _Both(), Doubts(), list[bool]()
        doubts.on_set_back = lambda: told.append(doubts.are_open())
        nodes = both.by_plural["nodes"]
        nodes.put("ns/a", _object("a"))
        informers = _informers(both, doubts, InformerMetrics(Instruments()))
        running = asyncio.create_task(informers.run())
        await informers.wait_synced()
        objects = dict(nodes.objects)
        nodes.put("ns/a", _object("a"))
        await until(lambda: informers.of(NODES).version == "2")

        nodes.set_back(objects, 1)
        nodes.cut(GoneError("watch", status=410, reason="Expired"))
        await until(lambda: lists(both.by_plural["pods"]) == 2)
        assert told == [True]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run(scenario)


def test_what_one_kind_finds_out_concerns_all() -> None:
    """A kind of which only deletions were forgotten cannot find out by itself."""

    async def scenario() -> None:
        both = _Both()
        nodes, pods = both.by_plural["nodes"], both.by_plural["pods"]
        for api in (nodes, pods):
            for name in ("a", "b"):
                api.put(f"ns/{name}", _object(name))
        doubts, told = Doubts(), list[bool]()
        doubts.on_set_back = lambda: told.append(doubts.are_open())
        metrics = InformerMetrics(Instruments())
        informers = _informers(both, doubts, metrics)
        running = asyncio.create_task(informers.run())
        await informers.wait_synced()
        store, watched = informers.of(NODES).store, informers.of(PODS)
        before = [(api, dict(api.objects), api.version) for api in (nodes, pods)]
        nodes.delete("ns/b")
        await until(lambda: set(store) == {"ns/a"})
        pods.put("ns/c", _object("c"))
        await until(lambda: "ns/c" in watched.store)

        for api, objects, version in before:
            api.set_back(objects, version)
        for _ in range(5):
            nodes.put("ns/a", nodes.objects["ns/a"])
        nodes.cut()
        await until(lambda: nodes.is_watched)
        pods.cut(broken())
        await until(lambda: set(store) == {"ns/a", "ns/b"})
        await until(lambda: set(watched.store) == {"ns/a", "ns/b"})

        await until(lambda: watched.state is State.WATCHING)
        assert told == [True], "told once, when no binding leaves any more"
        restarts = {key: number.value for key, number in metrics.watch_restarts.items()}
        assert {n for (_, why), n in restarts.items() if why == "expired"} == {1}
        assert not doubts.are_open()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run(scenario)


def test_a_kind_that_was_waited_for_in_vain_is_waited_for_again_after_a_restore(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its objects are known to be wrong now, where they only may have been before."""

    async def scenario() -> None:
        both, pods = _Both(), _Late()
        both.by_plural["pods"] = pods
        nodes = both.by_plural["nodes"]
        for api in (nodes, pods):
            api.put("ns/a", _object("a"))
        doubts = Doubts()
        informers = _informers(both, doubts, InformerMetrics(Instruments()))
        running = asyncio.create_task(informers.run())
        await informers.wait_synced()
        objects = dict(nodes.objects)
        nodes.put("ns/a", _object("a"))
        await until(lambda: informers.of(NODES).version == "2" and pods.is_watched)
        with monkeypatch.context() as patched:
            patched.setattr(doubts_module, "LIMIT_SECONDS", 0.0)
            doubts.begin("pods")
            await until(lambda: not doubts.are_open())

        pods.may_list.clear()
        nodes.set_back(objects, 1)
        nodes.cut(broken())
        await until(lambda: informers.of(NODES).state is State.WATCHING and lists(nodes) == 2)
        assert doubts.are_open()
        pods.may_list.set()
        await until(lambda: not doubts.are_open())
        assert lists(pods) == 2
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run(scenario)
