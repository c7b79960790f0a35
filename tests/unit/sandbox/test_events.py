"""Events in their two forms."""

import pytest

from scheduler.sandbox import Sandbox
from tests.unit.sandbox.support import Client, Object, causes, serve

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


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"eventTime": None}, "eventTime", id="time"),
        pytest.param({"reportingController": ""}, "reportingController", id="controller"),
        pytest.param({"reportingInstance": ""}, "reportingInstance", id="instance"),
        pytest.param({"action": ""}, "action", id="action"),
        pytest.param({"reason": ""}, "reason", id="reason"),
        pytest.param({"type": "Odd"}, "type", id="type"),
        pytest.param({"note": "x" * 1025}, "message", id="note too long"),
        pytest.param({"deprecatedCount": 1}, "count", id="old fields"),
        pytest.param({"series": {"count": 1}}, "series.count", id="series of one"),
        pytest.param({"regarding": {"kind": "Node", "name": "n"}}, None, id="about the cluster"),
    ],
)
def test_the_new_form_is_strict(changes: Object, field: str | None) -> None:
    """Events of events.k8s.io must say everything, as the real server wants."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        answer = await client.post(MODERN, event(**changes))

        faults = [] if answer.status == 201 else [field for field, _ in causes(answer)]
        assert faults[:1] == ([field] if field else [])

    serve(story)


def test_the_old_form_takes_what_old_clients_send() -> None:
    """A core event needs nothing but to be about its own namespace."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        about = {"kind": "Pod", "namespace": "default", "name": "p"}
        other = {**about, "namespace": "other"}

        accepted = await client.post(CORE, {"metadata": {"name": "a"}, "involvedObject": about})
        refused = await client.post(CORE, {"metadata": {"name": "b"}, "involvedObject": other})

        assert accepted.status == 201
        assert causes(refused) == [
            (
                "involvedObject.namespace",
                'Invalid value: "other": does not match event.namespace',
            )
        ]

    serve(story)
