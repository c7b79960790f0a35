"""Stores, kinds, back-off and pacing, each for itself."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import uvloop
from hypothesis import given, strategies as st

from scheduler.api.nulls import without_nulls
from scheduler.api.objects import AnnotatedMeta, Node
from scheduler.daemon.client.errors import UnavailableError
from scheduler.daemon.informers.backoff import Backoff
from scheduler.daemon.informers.intake import Pacer
from scheduler.daemon.informers.kinds import (
    KINDS,
    NODES,
    PODS,
    Kind,
    MalformedObjectError,
    watched_kind,
)
from scheduler.daemon.informers.listing import list_all
from scheduler.daemon.informers.pages import PageReader
from scheduler.daemon.informers.paging import PageSize
from scheduler.daemon.informers.store import Store
from scheduler.daemon.informers.wire import list_query, page_decoder, watch_query
from scheduler.kernel.framework.events import ObjectKind
from tests.support.bodies import WholeBody
from tests.support.clock import FakeClock
from tests.unit.informers.fake_api import Mirror

CONFIG_MAPS = watched_kind(ObjectKind("ConfigMap", plural="configmaps"))
CSI_NODES = watched_kind(ObjectKind("CSINode", "storage.k8s.io/v1"))


def node(name: str, version: int = 1, uid: str = "") -> Node:
    return Node(AnnotatedMeta(name=name, uid=uid or name, resource_version=str(version)))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            b'{"kind": "PodList", "metadata": {}, "items": []}',
            "expected NodeList with a version, got 'PodList'",
        ),
        (b"[]", "not a list: Expected `object`"),
    ],
)
def test_what_is_no_list_of_that_kind_is_no_cluster_without_such_objects(
    body: bytes, expected: str
) -> None:
    """For commands that look at a cluster once."""

    class Session:
        @asynccontextmanager
        async def download(self, path: str, *, timeout: float) -> AsyncIterator[WholeBody]:
            yield WholeBody(body)

    with pytest.raises(UnavailableError, match=re.escape(expected)):
        asyncio.run(list_all(Session(), NODES))  # all that is asked of it


TEXTS = st.sampled_from(['},{"metadata":{', '"items":[', "}]}", '\\"', "é"]) | st.text(max_size=5)
ITEMS = st.lists(
    st.builds(
        lambda text, inner: {"metadata": {"name": text}, "spec": inner},
        TEXTS,
        st.recursive(TEXTS, lambda each: st.lists(each) | st.dictionaries(TEXTS, each)),
    )
    | st.just({"metadata": {}, "spec": [{"a": 1}, {"metadata": {}}, {"metadata": {"b": 2}}]})
    | st.just({"spec": {}, "metadata": {}}),
    max_size=8,
)


@given(ITEMS, st.integers(1, 200), st.permutations(["kind", "metadata", "items"]))
def test_a_page_that_is_taken_apart_has_the_objects_of_the_whole(
    items: list[Any], part_bytes: int, order: list[str]
) -> None:
    """Wherever its parts begin, whatever its strings and arrays hold."""
    page = {"kind": "NodeList", "metadata": {"resourceVersion": "7"}, "items": items}
    body = msgspec.json.encode({key: page[key] for key in order})
    found: list[Any] = []

    class Session:
        @asynccontextmanager
        async def download(self, path: str, *, timeout: float) -> AsyncIterator[WholeBody]:
            yield WholeBody(body, part_bytes)

    async def take(some: Sequence[msgspec.Raw]) -> None:
        found.extend(msgspec.json.decode(each) for each in some)

    async def read() -> bytes:
        reader = PageReader(NODES, PageSize(1), "")
        session: Any = Session()
        return await reader.read(session, 1.0, take)

    rest = page_decoder.decode(asyncio.run(read()))
    asyncio.run(take(rest.items or ()))
    assert found == items
    assert (rest.kind, rest.metadata.resource_version) == ("NodeList", "7")


class TestStore:
    def setup_method(self) -> None:
        self.store: Store[Node] = Store(NODES.meta_of)
        self.mirror: Mirror[Node] = Mirror(NODES.meta_of)
        self.store.add_handler(self.mirror)

    def test_handlers_hear_of_additions_changes_and_deletions(self) -> None:
        """Each with the objects as they were told before."""
        self.store.apply(node("a"))
        self.store.apply(node("a", 2))
        self.store.remove("a")

        assert self.mirror.story == ["+a", "~a", "-a"]
        assert dict(self.store) == {}

    def test_the_same_version_is_no_change(self) -> None:
        """Lists repeat what watches have told."""
        self.store.apply(node("a"))
        self.store.apply(node("a"))

        assert self.mirror.story == ["+a"]

    def test_another_uid_is_another_object(self) -> None:
        """Deleted and made anew while nobody watched: two events, not a change."""
        self.store.apply(node("a", 1, "first"))
        self.store.apply(node("a", 2, "second"))

        assert self.mirror.story == ["+a", "-a", "+a"]

    def test_removing_what_is_not_there_is_no_matter(self) -> None:
        """Nobody is told."""
        self.store.remove("a")

        assert self.mirror.story == []

    def test_a_late_handler_hears_of_what_is_there(self) -> None:
        """As if it had been there."""
        self.store.apply(node("a"))
        late: Mirror[Node] = Mirror(NODES.meta_of)
        self.store.add_handler(late)

        assert late.story == ["+a"]


POD = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7"},
    "spec": {
        "nodeName": "n1",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}],
        "fieldOfTheFuture": {"x": 1},
    },
}


class TestKinds:
    def test_a_pod_becomes_what_the_engine_uses(self) -> None:
        """Unknown fields are ignored."""
        pod = PODS.decode(msgspec.json.encode(POD))

        assert (pod.key, pod.node_name) == ("ns/p", "n1")
        assert PODS.meta_of(pod).resource_version == "7"

    def test_an_event_is_decoded_in_one_pass(self) -> None:
        """Type and object."""
        line = msgspec.json.encode({"type": "ADDED", "object": POD, "more": 1}) + b"\n"

        event_type, pod = PODS.decode_event(line)

        assert (event_type, pod.key) == ("ADDED", "ns/p")

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            pytest.param({"containers": 5}, "$.spec.containers", id="wrong type"),
            pytest.param({"containers": [None]}, "$.spec.containers", id="null in a list"),
            pytest.param(
                {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1 apple"}}}]},
                "1 apple",
                id="quantity",
            ),
        ],
    )
    def test_a_malformed_object_is_named_with_the_field(
        self, change: dict[str, object], told: str
    ) -> None:
        """By one error, whatever is wrong."""
        pod = POD | {"spec": POD["spec"] | change}

        with pytest.raises(MalformedObjectError) as raised:
            PODS.decode(msgspec.json.encode(pod))

        assert told in str(raised.value)

    def test_a_node_with_a_broken_quantity_is_malformed(self) -> None:
        """It must be left out here: once in the cache it would break every later change."""
        node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1 apple"}}}

        with pytest.raises(MalformedObjectError, match="1 apple"):
            NODES.decode(msgspec.json.encode(node))

    @pytest.mark.parametrize(
        ("kind", "body"),
        [
            pytest.param(CSI_NODES, {"spec": {"drivers": None}}, id="a node without drivers"),
            pytest.param(
                NODES, {"status": {"images": [{"names": None}]}}, id="an image without names"
            ),
            pytest.param(PODS, {"spec": {"containers": None}, "status": None}, id="an empty pod"),
        ],
    )
    def test_null_is_the_same_as_absent(self, kind: Kind[Any], body: dict[str, Any]) -> None:
        """Go writes it for some lists and maps that are empty; kubelets' CSINodes have it."""
        body = {"metadata": {"name": "x", "creationTimestamp": None, "labels": None}, **body}
        expected = kind.decode(msgspec.json.encode(without_nulls(body)))

        assert kind.decode(msgspec.json.encode(body)) == expected
        line = msgspec.json.encode({"type": "ADDED", "object": body})
        assert kind.decode_event(line) == ("ADDED", expected)
        kept: list[bytes] = []
        keeping = kind.keeping(lambda _, raw: kept.append(raw))
        assert keeping.decode_event(line) == ("ADDED", expected)
        assert kept == [msgspec.json.encode(body)]

    @pytest.mark.parametrize("kind", [*KINDS, CONFIG_MAPS], ids=lambda kind: kind.name)
    def test_listed_and_watched_objects_are_equal(self, kind: Kind[Any]) -> None:
        """Items of lists have no type. A restore is detected by comparing the two."""
        meta = {"name": "x", "namespace": "n", "uid": "u", "labels": {"a": "b"}}
        listed = {"metadata": meta, "spec": {"containers": [{"name": "c"}]}}
        typed = {**listed, "apiVersion": kind.declared.api_version, "kind": kind.declared.kind}
        line = msgspec.json.encode({"type": "ADDED", "object": typed})

        assert kind.decode_event(line) == ("ADDED", kind.decode(msgspec.json.encode(listed)))

    def test_nodes_share_what_they_say_of_an_image(self) -> None:
        """Most nodes of a cluster hold the same images; each is kept in memory once."""
        image = {"names": ["registry.example/app:1"], "sizeBytes": 7}
        nodes = [
            NODES.decode(
                msgspec.json.encode({"metadata": {"name": name}, "status": {"images": [image]}})
            )
            for name in ("a", "b")
        ]

        assert nodes[0].status.images[0] is nodes[1].status.images[0]

    def test_names_and_paths_are_distinct(self) -> None:
        """A copied line that was not changed would watch one kind twice."""
        assert (
            len({kind.name for kind in KINDS}) == len({kind.path for kind in KINDS}) == len(KINDS)
        )

    def test_every_kind_decodes_its_smallest_object(self) -> None:
        """And knows its metadata."""
        for kind in KINDS:
            smallest = {"metadata": {"name": "x"}, "spec": {}}
            obj = kind.decode(msgspec.json.encode(smallest))
            assert kind.meta_of(obj).name == "x"


def test_queries() -> None:
    """Terminal pods are left out by the server; tokens are quoted."""
    assert list_query(PODS.field_selector, 500, "a/b=") == (
        "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
        "&limit=500&continue=a%2Fb%3D"
    )
    assert list_query("", 20, "") == "limit=20"
    assert watch_query("", "42", 300) == (
        "watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=42"
    )


class TestBackoff:
    def test_it_grows_to_its_cap(self) -> None:
        """Each pause within half of its limit and the limit."""
        backoff = Backoff(random.Random(1))

        pauses = [backoff.pause() for _ in range(8)]

        limits = [0.5, 1, 2, 4, 4, 4, 4, 4]
        assert all(limit / 2 <= pause <= limit for pause, limit in zip(pauses, limits, strict=True))
        assert len(set(pauses)) == 8

    def test_success_starts_it_over(self) -> None:
        """The next failure is the first again."""
        backoff = Backoff(random.Random(1))
        for _ in range(5):
            backoff.pause()
        backoff.reset()

        assert backoff.pause() <= 0.5

    @given(st.floats(0, 100))
    def test_the_server_is_never_asked_before_it_wants(self, seconds: float) -> None:
        """Retry-After is the least."""
        assert Backoff(random.Random(1)).pause(seconds) >= seconds


def test_the_pacer_gives_the_loop_away_when_its_slice_is_used_up() -> None:
    """Others run in between, and a new slice begins."""

    async def scenario() -> list[object]:
        clock = FakeClock()
        pacer = Pacer(clock)
        story: list[object] = [pacer.is_due]
        asyncio.get_running_loop().call_soon(story.append, "other")
        clock.advance(0.0011)
        story.append(pacer.is_due)
        await pacer.pause()
        story.append(pacer.is_due)
        return story

    assert uvloop.run(scenario()) == [False, True, "other", False]
