"""The requests of the operator, as they go to the server."""

import asyncio
import json
from typing import Any

import pytest

from scheduler.daemon.client.errors import NotFoundError, TooLargeError, UnavailableError
from scheduler.daemon.client.http_connection import Response
from scheduler.operator.cluster import (
    MAX_PAGE_BYTES,
    PROFILES,
    SCHEDULERS,
    FencedClient,
    path_of,
    reference_of,
)
from scheduler.operator.desired import Reference
from scheduler.operator.resources import Scheduler, SchedulingProfile
from tests.unit.operator.objects import make_profile


class FakeSession:
    """Stands in for `ApiSession`: answers in turn, and what was asked."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, Any]] = []

    async def request(
        self, method: str, path: str, body: bytes | None = None, **_: object
    ) -> Response:
        self.asked.append((method, path, None if body is None else json.loads(body)))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return Response(200, {}, body)


def cluster_of(*answers: object) -> tuple[FencedClient, FakeSession]:
    session = FakeSession(*answers)
    return FencedClient(session, lambda: True), session


@pytest.mark.parametrize(
    ("what", "path"),
    [
        (Reference("v1", "Service", "a", "b"), "/api/v1/namespaces/a/services/b"),
        (
            Reference("networking.k8s.io/v1", "NetworkPolicy", "a", "b"),
            "/apis/networking.k8s.io/v1/namespaces/a/networkpolicies/b",
        ),
        (
            Reference("rbac.authorization.k8s.io/v1", "ClusterRole", "", "stowage:a:b"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/stowage%3Aa%3Ab",
        ),
    ],
    ids=["of the core", "an odd plural", "without a namespace"],
)
def test_where_objects_are(what: Reference, path: str) -> None:
    """As the server has them."""
    assert path_of(what) == path


def test_all_pages_are_read() -> None:
    """With what the server gives to go on."""
    metadata = {"name": "a", "namespace": "n"}
    cluster, session = cluster_of(
        {"items": [{"metadata": metadata}], "metadata": {"continue": "x/y"}},
        {"items": [{"metadata": {**metadata, "name": "b"}}], "metadata": {}},
    )

    found, unreadable = asyncio.run(cluster.list_objects(PROFILES, SchedulingProfile))

    assert [each.metadata.name for each in found] == ["a", "b"]
    assert unreadable == []
    assert session.asked[1][1].endswith("schedulingprofiles?limit=200&continue=x%2Fy")


def test_what_cannot_be_read_is_named_and_hides_nothing() -> None:
    """A newer operator may have stored what this one does not understand."""
    good = {"metadata": {"name": "good", "namespace": "n"}}
    bad = {"metadata": {"name": "bad", "namespace": "n"}, "spec": {"replicas": "many"}}
    cluster, _ = cluster_of({"items": [bad, {"spec": {}}, good], "metadata": {}})

    found, [nameless] = asyncio.run(cluster.list_objects(SCHEDULERS, Scheduler))

    told = {each.metadata.name: each.unreadable for each in found}
    assert told == {"bad": "Expected `int`, got `str` - at `$.replicas`", "good": ""}
    assert nameless.startswith("schedulers: an object cannot be read: expected an object with")


def test_an_object_that_no_decoder_takes_hides_nothing() -> None:
    """4,500 brackets are 9 KB; the object is there, with its name and what is wrong with it."""
    deep = b'{"metadata":{"managedFields":[%b],"name":"deep","namespace":"n"},"spec":{"x":%b}}'
    deep %= (b"[" * 4500 + b"]" * 4500,) * 2
    good = b'{"metadata":{"name":"good","namespace":"n"},"spec":{"schedulerName":"good"}}'
    cluster, _ = cluster_of(b'{"items":[%b,%b],"metadata":{}}' % (deep, good))

    found, nameless = asyncio.run(cluster.list_objects(PROFILES, SchedulingProfile))

    assert {each.metadata.name: each.unreadable for each in found} == {
        "deep": "expected at most 64 levels of nesting, got 4501",
        "good": "",
    }
    assert nameless == []


def test_large_objects_come_on_smaller_pages() -> None:
    """Down to one; that one is too large is told."""
    page = {"items": [{"metadata": {"name": "a", "namespace": "n"}}], "metadata": {}}
    too_large = TooLargeError("GET", message="longer")
    cluster, session = cluster_of(too_large, b" " * (MAX_PAGE_BYTES + 1), page)
    hopeless, _ = cluster_of(too_large, too_large, too_large, too_large)

    found, _ = asyncio.run(cluster.list_objects(PROFILES, SchedulingProfile))

    assert [each.metadata.name for each in found] == ["a"]
    assert [path.partition("limit=")[2].partition("&")[0] for _, path, _ in session.asked] == [
        *("200", "20", "2"),
    ]
    with pytest.raises(TooLargeError):
        asyncio.run(hopeless.list_objects(PROFILES, SchedulingProfile))


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b"[" * 5000, b'{"items": 1}'])
def test_an_answer_that_is_something_else_is_no_answer(body: bytes) -> None:
    """As of a proxy: it is asked for again, and no list is taken for empty."""
    cluster, _ = cluster_of(body, body, body, body, body)

    for asking in (
        cluster.list_objects(PROFILES, SchedulingProfile),
        cluster.namespaces(),
    ):
        with pytest.raises(UnavailableError):
            asyncio.run(asking)
    if body[:1] != b"{":
        with pytest.raises(UnavailableError, match="not a JSON object"):
            asyncio.run(cluster_of(body)[0].read(Reference("v1", "Service", "a", "b")))


def test_a_status_replaces_the_one_before() -> None:
    """A merge would keep what an earlier profile had in force."""
    cluster, session = cluster_of({})

    asyncio.run(cluster.set_status(reference_of(make_profile("p")), {"inForce": None}))

    [(method, path, body)] = session.asked
    assert (method, path.partition("?")[0]) == (
        "PATCH",
        "/apis/stowage.dev/v1alpha1/namespaces/stowage/schedulingprofiles/p/status",
    )
    assert body == [{"op": "add", "path": "/status", "value": {"inForce": None}}]


def test_what_is_gone_already_needs_neither_status_nor_deletion() -> None:
    """That is what was wanted."""
    what = Reference("v1", "Service", "a", "b")
    gone = NotFoundError("x", status=404)
    cluster, session = cluster_of(gone, gone, gone)

    asyncio.run(cluster.delete(what, "uid"))
    asyncio.run(cluster.set_status(what, {}))

    assert asyncio.run(cluster.read(what)) is None
    assert [method for method, _, _ in session.asked] == ["DELETE", "PATCH", "GET"]


def test_a_write_is_for_the_object_that_was_looked_at() -> None:
    """Its UID goes along; what is new is not forced upon what came meanwhile."""
    written = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "b", "namespace": "a"}}
    cluster, session = cluster_of({}, {}, {})

    asyncio.run(cluster.apply(written, "7"))
    asyncio.run(cluster.apply(written, ""))
    asyncio.run(cluster.delete(Reference("v1", "Service", "a", "b"), "7"))

    there, new, deleted = session.asked
    assert "force=true" in there[1]
    assert there[2]["metadata"]["uid"] == "7"
    assert "force" not in new[1]
    assert new[2] == written
    assert deleted[2]["preconditions"] == {"uid": "7"}


def test_held_leases_are_named() -> None:
    """One that was given back belongs to a scheduler that is gone."""
    items = [
        {"metadata": {"name": "mine"}, "spec": {"holderIdentity": "pod"}},
        {"metadata": {"name": "gone"}, "spec": {"holderIdentity": ""}},
        {"metadata": {"name": "new"}},
    ]
    cluster, session = cluster_of({"items": items, "metadata": {}})

    assert asyncio.run(cluster.leases("kube-system")) == ["mine"]
    [(_, path, _)] = session.asked
    assert path.startswith("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?")
