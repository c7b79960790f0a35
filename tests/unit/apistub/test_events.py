"""Events in their two forms."""

from apistub import Sandbox
from tests.unit.apistub.support import Client, Object, serve

CORE = "/api/v1/namespaces/default/events"
MODERN = "/apis/events.k8s.io/v1/namespaces/default/events"


def event(**changes: object) -> Object:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "p.1"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "stowage",
        "reportingInstance": "stowage-1",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        "note": "Successfully assigned default/p to n",
        "type": "Normal",
        **changes,
    }


def test_an_event_is_seen_in_both_forms() -> None:
    """One stored event is read, listed, selected and watched through both groups."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        version = sandbox.store.version
        created = (await client.post(MODERN, event())).object

        core = (await client.get(f"{CORE}/p.1")).object
        modern = (await client.get(f"{MODERN}/p.1")).object
        by_core = await client.get(f"{CORE}?fieldSelector=involvedObject.name%3Dp")
        by_modern = await client.get(f"{MODERN}?fieldSelector=regarding.name%3Dp,reason%3DNone")
        async with (
            client.watch(f"{CORE}?watch=true&resourceVersion={version}") as core_watch,
            client.watch(f"{MODERN}?watch=true&resourceVersion={version}") as modern_watch,
        ):
            core_seen, modern_seen = await core_watch.next(), await modern_watch.next()

        assert modern == created == modern_seen["object"]
        assert core == core_seen["object"]
        assert (core["apiVersion"], core["message"]) == ("v1", modern["note"])
        assert core["involvedObject"] == modern["regarding"]
        assert core["reportingComponent"] == modern["reportingController"]
        assert len(by_core.object["items"]) == 1
        assert by_modern.object["items"] == []

    serve(story)
