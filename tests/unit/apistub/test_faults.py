"""Faults on request: what a client under test will see."""

import asyncio

import aiohttp
import pytest

from apistub import Sandbox
from tests.unit.apistub.support import NODES, PODS, Client, binding, node, pod, serve
from tests.unit.client.scripted_server import until


def test_chosen_requests_are_refused() -> None:
    """The next requests of a verb and path get the error, others and later ones do not."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(pod("p"), pod("q"))
        fault = sandbox.faults.answer(
            429, verb="create", path="*/pods/p/binding", times=2, retry_after_seconds=3
        )

        other = await client.post(f"{PODS}/q/binding", binding("q", "n"))
        answers = [await client.post(f"{PODS}/p/binding", binding("p", "n")) for _ in range(3)]

        assert other.status == 201
        assert [answer.status for answer in answers] == [429, 429, 201]
        assert answers[0].headers["Retry-After"] == "3"
        assert answers[0].object["reason"] == "TooManyRequests"
        assert answers[0].object["details"] == {"retryAfterSeconds": 3}
        assert fault.hits == 2

    serve(story)


@pytest.mark.parametrize(
    ("after_commit", "is_there"),
    [pytest.param(False, False, id="before"), pytest.param(True, True, id="after the commit")],
)
def test_a_connection_is_cut(after_commit: bool, is_there: bool) -> None:
    """The client gets no answer and cannot know whether its request was carried out."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.faults.drop(verb="create", after_commit=after_commit)

        with pytest.raises(aiohttp.ClientError):
            await client.post(PODS, pod("p"))

        assert (sandbox.find("pods", "p") is not None) is is_there
        assert sandbox.requests.count(verb="create", code=0) == 1

    serve(story)


def test_a_request_hangs() -> None:
    """The client gives up by itself, and nothing has happened."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        fault = sandbox.faults.hang(verb="create")

        asking = asyncio.create_task(client.post(PODS, pod("p")))
        await until(lambda: fault.hits == 1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

        assert asking.cancelled()
        assert sandbox.find("pods", "p") is None
        assert (await client.post(PODS, pod("p"))).status == 201

    serve(story)


def test_something_happens_just_before_a_request() -> None:
    """A pod can be deleted between a decision and its binding."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(pod("p"))
        sandbox.faults.before(lambda: sandbox.delete("pods", "p"), path="*/binding")

        answer = await client.post(f"{PODS}/p/binding", binding("p", "n"))

        assert (answer.status, answer.message) == (404, 'pods "p" not found')

    serve(story)


def test_a_delayed_request_is_carried_out_late() -> None:
    """Others overtake it."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.faults.delay(1.0, path="*/pods", verb="create")

        slow, _ = await asyncio.gather(client.post(PODS, pod("p")), client.post(NODES, node("n")))

        assert int(slow.object["metadata"]["resourceVersion"]) > int(
            sandbox.get("nodes", "n")["metadata"]["resourceVersion"]
        )

    serve(story)


def test_all_faults_can_be_ended() -> None:
    """After clear every request is carried out."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.faults.answer(500, times=None)
        broken = [await client.get(NODES) for _ in range(3)]
        sandbox.faults.clear()

        assert [answer.status for answer in broken] == [500] * 3
        assert (await client.get(NODES)).status == 200

    serve(story)


def test_open_watches_are_ended_or_cut() -> None:
    """A watch can end as by a timeout, with 410, or by a broken connection."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        path = f"{NODES}?watch=true&resourceVersion=1"
        async with client.watch(path) as watch, client.watch(f"{PODS}?watch=true") as other:
            sandbox.faults.close_watches("nodes")
            closed = await watch.rest()
            assert sandbox.open_watches == 1
            sandbox.create(pod("p"))
            assert (await other.next())["type"] == "ADDED"
        async with client.watch(path) as watch:
            sandbox.faults.expire_watches()
            expired = await watch.rest()
        async with client.watch(path) as watch:
            sandbox.faults.close_watches(abort=True)
            with pytest.raises(aiohttp.ClientError):
                await watch.rest()

        assert closed == []
        assert [(event["type"], event["object"]["code"]) for event in expired] == [("ERROR", 410)]

    serve(story)


def test_a_watch_goes_silent() -> None:
    """A half-open watch neither shows changes nor ends."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        async with client.watch(f"{NODES}?watch=true&resourceVersion=1") as watch:
            sandbox.faults.silence_watches("nodes")
            sandbox.create(node("n"))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await watch.line()

    serve(story)


def test_a_line_is_injected() -> None:
    """A malformed object comes between the events of a watch."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        async with client.watch(f"{NODES}?watch=true&resourceVersion=1") as watch:
            sandbox.faults.inject(b'{"type":"ADDED","object":{"spec":7}}\n')
            broken = await watch.line()
            sandbox.create(node("n"))
            fine = await watch.next()

        assert broken == b'{"type":"ADDED","object":{"spec":7}}\n'
        assert fine["object"]["metadata"]["name"] == "n"

    serve(story)


def test_requests_are_counted() -> None:
    """A test can ask what a client did, and how it was answered."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        await client.post(PODS, pod("p"))
        await client.post(PODS, pod("p"))
        await client.post(f"{PODS}/p/binding", binding("p", "n"))

        assert sandbox.requests.count(verb="create", resource="pods", subresource="") == 2
        assert sandbox.requests.count(code=409) == 1
        assert sandbox.requests.count(subresource="binding", code=201) == 1

    serve(story)
