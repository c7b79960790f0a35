"""Watches: where they begin, what they show, how they end."""

from apistub import Sandbox, Settings
from tests.unit.apistub.support import NODES, PODS, Client, Object, node, pod, serve
from tests.unit.client.scripted_server import until


def story_of(events: list[Object]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


def test_a_watch_without_version_begins_with_what_is_there() -> None:
    """Existing objects come as ADDED, later changes follow."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(node("a"), node("b"))

        async with client.watch(f"{NODES}?watch=true") as watch:
            there = [await watch.next(), await watch.next()]
            sandbox.patch("nodes", "a", {"spec": {"unschedulable": True}})
            sandbox.delete("nodes", "b")
            changes = [await watch.next(), await watch.next()]

        assert story_of(there) == [("ADDED", "a"), ("ADDED", "b")]
        assert story_of(changes) == [("MODIFIED", "a"), ("DELETED", "b")]
        assert changes[0]["object"]["spec"] == {"unschedulable": True}
        assert changes[0]["object"]["kind"] == "Node"

    serve(story)


def test_a_watch_resumes_after_a_version() -> None:
    """Exactly the changes after the given resourceVersion are shown."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(node("a"))
        version = (await client.get(NODES)).object["metadata"]["resourceVersion"]
        sandbox.create(node("b"))

        async with client.watch(f"{NODES}?watch=1&resourceVersion={version}") as watch:
            first = await watch.next()
            sandbox.delete("nodes", "a")
            second = await watch.next()

        assert story_of([first, second]) == [("ADDED", "b"), ("DELETED", "a")]
        assert int(second["object"]["metadata"]["resourceVersion"]) > int(
            first["object"]["metadata"]["resourceVersion"]
        )

    serve(story)


def test_a_forgotten_version_ends_the_watch_with_an_error_event() -> None:
    """A resourceVersion older than the history gives one ERROR event with code 410."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(node("a"), node("b"))
        sandbox.forget_history("nodes")

        async with client.watch(f"{NODES}?watch=true&resourceVersion=1") as watch:
            events = await watch.rest()

        assert watch.response.status == 200
        assert [event["type"] for event in events] == ["ERROR"]
        status = events[0]["object"]
        assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
        assert status["message"] == "version 1 is forgotten"

    serve(story)


def test_a_forgotten_version_can_be_refused_with_a_status() -> None:
    """On request the same is answered with HTTP 410, as some servers do."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.faults.answers_gone_as_status = True
        sandbox.create(node("a"))
        sandbox.forget_history()

        answer = await client.get(f"{NODES}?watch=true&resourceVersion=1")

        assert (answer.status, answer.object["reason"]) == (410, "Expired")

    serve(story)


def test_history_is_limited() -> None:
    """Old changes are forgotten once the limit is passed, newer ones can be resumed from."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(*(node(f"n{index}") for index in range(20)))
        newest = sandbox.store.version

        async with client.watch(f"{NODES}?watch=true&resourceVersion=2") as watch:
            too_old = await watch.rest()
        async with client.watch(f"{NODES}?watch=true&resourceVersion={newest - 3}") as watch:
            events = [await watch.next() for _ in range(3)]

        assert [event["type"] for event in too_old] == ["ERROR"]
        assert story_of(events) == [("ADDED", "n17"), ("ADDED", "n18"), ("ADDED", "n19")]

    serve(story, Settings(history_limit=5))


def test_a_watch_ends_after_its_timeout_with_a_bookmark() -> None:
    """The parameter timeoutSeconds ends the stream cleanly; the last line says how far it came."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(node("a"))

        path = f"{NODES}?watch=true&resourceVersion=1&timeoutSeconds=1&allowWatchBookmarks=true"
        async with client.watch(path) as watch:
            events = await watch.rest()

        assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
        assert events[-1]["object"]["metadata"] == {
            "resourceVersion": str(sandbox.store.version),
            "creationTimestamp": None,
        }

    serve(story)


def test_bookmarks_come_in_between_when_wanted() -> None:
    """A quiet watch gets bookmarks with the newest version, of its own kind."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        path = f"/api/v1/pods?watch=true&resourceVersion={sandbox.store.version}"
        async with client.watch(f"{path}&allowWatchBookmarks=true") as watch:
            sandbox.create(node("a"))
            events = [await watch.next(), await watch.next()]

        assert {event["type"] for event in events} == {"BOOKMARK"}
        assert events[1]["object"]["kind"] == "Pod"
        assert events[1]["object"]["metadata"]["resourceVersion"] == str(sandbox.store.version)

    serve(story, Settings(bookmark_seconds=0.05))


def test_a_streamed_list_ends_with_its_bookmark() -> None:
    """With sendInitialEvents come all objects, then a marked bookmark, then changes."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(node("a"), node("b"))

        path = f"{NODES}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        async with client.watch(f"{path}&allowWatchBookmarks=true") as watch:
            events = [await watch.next() for _ in range(3)]
            sandbox.create(node("c"))
            later = await watch.next()

        assert story_of(events) == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")]
        assert events[2]["object"]["metadata"]["annotations"] == {
            "k8s.io/initial-events-end": "true"
        }
        assert story_of([later]) == [("ADDED", "c")]

    serve(story)


def test_a_watch_may_begin_without_initial_events() -> None:
    """A watch with sendInitialEvents=false shows only what happens from now on."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(node("a"))

        path = f"{NODES}?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
        async with client.watch(path) as watch:
            sandbox.create(node("b"))
            event = await watch.next()

        assert story_of([event]) == [("ADDED", "b")]

    serve(story)


def test_a_streamed_list_without_its_match_is_refused() -> None:
    """The parameter sendInitialEvents needs resourceVersionMatch."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        answer = await client.get(f"{NODES}?watch=true&sendInitialEvents=true")

        assert answer.status == 400
        assert "resourceVersionMatch" in answer.message

    serve(story)


def test_objects_enter_and_leave_a_selection() -> None:
    """With selectors, a change across the border is shown as ADDED or DELETED."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        path = f"/api/v1/pods?watch=true&resourceVersion={sandbox.store.version}"
        async with (
            client.watch(f"{path}&fieldSelector=spec.nodeName%3D") as unbound,
            client.watch(f"{path}&fieldSelector=spec.nodeName!%3D") as bound,
            client.watch(f"{path}&labelSelector=app%3Dweb") as labelled,
        ):
            sandbox.create(pod("p", labels={"app": "web"}))
            sandbox.patch("pods", "p", {"metadata": {"annotations": {"x": "y"}}})
            sandbox.bind("p", "n")
            version = str(sandbox.store.version)
            sandbox.patch("pods", "p", {"metadata": {"labels": {"app": "db"}}})
            sandbox.delete("pods", "p", grace_seconds=0)
            seen_unbound = [await unbound.next() for _ in range(3)]
            seen_bound = [await bound.next() for _ in range(3)]
            seen_labelled = [await labelled.next() for _ in range(4)]

        assert [event["type"] for event in seen_unbound] == ["ADDED", "MODIFIED", "DELETED"]
        left = seen_unbound[-1]["object"]
        assert "nodeName" not in left["spec"]
        assert left["metadata"]["resourceVersion"] == version
        assert [event["type"] for event in seen_bound] == ["ADDED", "MODIFIED", "DELETED"]
        assert [event["type"] for event in seen_labelled] == [
            "ADDED",
            "MODIFIED",
            "MODIFIED",
            "DELETED",
        ]

    serve(story)


def test_a_watch_sees_only_its_namespace_or_object() -> None:
    """A watch on a namespace, or on one name, leaves out all others."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        start = f"watch=true&resourceVersion={sandbox.store.version}"
        async with (
            client.watch(f"/api/v1/namespaces/team/pods?{start}") as team,
            client.watch(f"{PODS}/b?{start}") as single,
        ):
            other = pod("x")
            other["metadata"]["namespace"] = "team"
            sandbox.create(pod("a"), pod("b"), other)

            assert story_of([await team.next()]) == [("ADDED", "x")]
            assert story_of([await single.next()]) == [("ADDED", "b")]

    serve(story)


def test_a_slow_watch_whose_events_are_forgotten_is_told_so() -> None:
    """A connection that falls behind the history ends with 410, it never misses events silently."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        async with client.watch(f"{NODES}?watch=true&resourceVersion=1") as watch:
            sandbox.create(*(node(f"n{index}") for index in range(20)))
            events = await watch.rest()

        assert [event["type"] for event in events] == ["ERROR"]
        assert events[0]["object"]["code"] == 410

    serve(story, Settings(history_limit=5))


def test_watches_end_with_their_clients() -> None:
    """A client that goes away leaves nothing behind."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        async with client.watch(f"{NODES}?watch=true&resourceVersion=1"):
            assert sandbox.open_watches == 1

        # The server hears of it when its loop gets round to it.
        await until(lambda: sandbox.open_watches == 0)

    serve(story)


def test_every_client_sees_every_change_in_order() -> None:
    """Many writes reach several watches completely and in the order of versions."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        async with (
            client.watch(f"{NODES}?watch=true&resourceVersion=1") as first,
            client.watch(f"{NODES}?watch=true&resourceVersion=1") as second,
        ):
            sandbox.create(*(node(f"n{index:03d}") for index in range(300)))
            for index in range(0, 300, 3):
                sandbox.delete("nodes", f"n{index:03d}")
            seen = [await first.next() for _ in range(400)]
            also_seen = [await second.next() for _ in range(400)]

        versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
        assert versions == sorted(set(versions))
        assert seen == also_seen

    serve(story)
