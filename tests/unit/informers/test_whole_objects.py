"""What is kept of pods and nodes beyond what scheduling reads."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from scheduler.api.objects import Node
from scheduler.daemon.informers.intake import Intake
from scheduler.daemon.informers.kinds import MalformedObjectError
from scheduler.daemon.informers.reports import Reports
from scheduler.daemon.informers.store import Store
from scheduler.daemon.informers.whole_objects import KeptObjects
from scheduler.observability.client_metrics import InformerMetrics
from scheduler.observability.instruments import Instruments
from tests.support.clock import FakeClock


def event(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


def pod(node: str = "", **metadata: Any) -> dict[str, Any]:
    meta = {"name": "p", "namespace": "ns", "uid": "u", **metadata}
    spec = {"containers": [], "hostname": "h", **({"nodeName": node} if node else {})}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec}


def test_pods_are_kept_as_long_as_they_are_wanted() -> None:
    """From lists and watches alike; one that gets a node is let go."""
    kept = KeptObjects(lambda pod: not pod.node_name, keeps_nodes=False)
    kind = kept.pods_kind
    kind.decode(json.dumps(pod()).encode())
    first = kept.pod("u")
    kind.decode_event(event("MODIFIED", pod(annotations={"a": "b"}, managedFields=[{}])))
    second = kept.pod("u")
    kind.decode_event(event("MODIFIED", pod("n")))

    assert first is not None
    assert json.loads(first)["spec"]["hostname"] == "h"
    assert second is not None
    assert json.loads(second)["metadata"] == {
        "name": "p",
        "namespace": "ns",
        "uid": "u",
        "annotations": {"a": "b"},
    }
    assert kept.pod("u") is None
    assert len(kept) == 0


def test_what_is_gone_is_let_go() -> None:
    """A deleted object is not taken in once more."""
    kept = KeptObjects(lambda _: True, keeps_nodes=True)
    _, waiting = kept.pods_kind.decode_event(event("ADDED", pod()))
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1"}}}
    _, known = kept.nodes_kind.decode_event(event("ADDED", node))
    assert kept.node("n") is kept.node("n"), "worked out once"
    kept.pods_kind.decode_event(event("DELETED", pod()))
    kept.pods_handler.on_delete(waiting)
    kept.nodes_handler.on_delete(known)

    assert kept.pod("u") is None
    assert kept.node("n") is None
    assert len(kept) == 0


def test_a_new_version_of_a_node_is_sent() -> None:
    """The one before is forgotten."""
    kept = KeptObjects(lambda _: False, keeps_nodes=True)
    for value in ("old", "new"):
        node = {"metadata": {"name": "n", "annotations": {"a": value}}}
        kept.nodes_kind.decode_event(event("MODIFIED", node))
        sent = kept.node("n")
        assert sent is not None
        assert json.loads(sent)["metadata"]["annotations"] == {"a": value}


@pytest.mark.parametrize("is_asked_before", [True, False])
def test_a_list_replaces_a_node_by_another_of_its_name(is_asked_before: bool) -> None:
    """Extenders get the new one, although the old one is deleted after it was decoded."""
    kept = KeptObjects(lambda _: False, keeps_nodes=True)
    clock, kind = FakeClock(), kept.nodes_kind
    store: Store[Node] = Store(kind.meta_of)
    store.add_handler(kept.nodes_handler)
    intake = Intake(kind, store, Reports("nodes", InformerMetrics(Instruments()), clock), clock)

    def listed(*uids: str) -> bytes | None:
        nodes = [{"metadata": {"name": "n", "uid": uid}} for uid in uids]
        intake.begin_list()
        asyncio.run(intake.take_items([msgspec.Raw(json.dumps(node)) for node in nodes]))
        asyncio.run(intake.end_list())
        return kept.node("n") if is_asked_before else None

    listed("old")
    listed("new")
    sent = kept.node("n")

    assert sent is not None
    assert json.loads(sent)["metadata"]["uid"] == "new"
    listed()
    assert kept.node("n") is None
    assert len(kept) == 0


def test_other_work_goes_on_while_very_many_objects_vanish() -> None:
    """As while a list is read: they are removed in slices."""
    kept = KeptObjects(lambda _: False, keeps_nodes=True)
    clock, kind = FakeClock(), kept.nodes_kind
    store: Store[Node] = Store(kind.meta_of)
    intake = Intake(kind, store, Reports("nodes", InformerMetrics(Instruments()), clock), clock)
    left: list[int] = []

    async def ends() -> None:
        intake.begin_list()
        nodes = [{"metadata": {"name": f"n{number}", "uid": "u"}} for number in range(9)]
        await intake.take_items([msgspec.Raw(json.dumps(node)) for node in nodes])
        intake.begin_list()
        clock.advance(1.0)
        asyncio.get_running_loop().call_soon(lambda: left.append(len(store)))
        await intake.end_list()

    asyncio.run(ends())

    assert left == [8]
    assert len(store) == 0


def test_a_pod_of_any_depth_is_kept_or_malformed() -> None:
    """One that can be read, but not encoded again, is a fault of the pod, not of its informer."""
    kind = KeptObjects(lambda _: True, keeps_nodes=False).pods_kind
    count = 0

    for depth in range(500, 1000):
        fields = b'{"f:a":' * depth + b"1" + b"}" * depth
        written = (
            b'{"metadata":{"name":"p","namespace":"ns","uid":"u","resourceVersion":"1",'
            b'"managedFields":[{"fieldsV1":%b}]},"spec":{"containers":[{"name":"c"}]}}' % fields
        )
        with suppress(MalformedObjectError):
            kind.decode(written)
            count += 1

    assert count > 0
