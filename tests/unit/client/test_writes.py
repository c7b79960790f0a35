"""Bindings, patches, leases and reviews: the bytes that go out, and what comes back."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import pytest
import uvloop
from aiohttp import web

from scheduler.api.written import NORMAL, Condition, ObjectReference
from scheduler.daemon.client.errors import (
    ApiError,
    ConflictError,
    FencedError,
    ForbiddenError,
    UnavailableError,
)
from scheduler.daemon.client.event_series import Occurrence
from scheduler.daemon.client.events import EventEntry
from scheduler.daemon.client.leases import LeaseLock, LeaseSpec
from scheduler.daemon.client.patches import pod_status_patch
from scheduler.daemon.client.reviews import ApiReviews, User
from scheduler.daemon.client.session import STRATEGIC_MERGE_PATCH, ApiSession
from scheduler.daemon.client.status_tries import TRIES
from scheduler.daemon.client.throttle import TokenBucket
from scheduler.daemon.client.writes import PLUGIN_REQUESTS, PodWrites
from scheduler.daemon.driver.plugin_api import PluginApi
from scheduler.errors import RequestError
from scheduler.observability.client_metrics import ReviewMetrics
from scheduler.observability.instruments import Instruments
from tests.support.clock import FakeClock
from tests.support.virtual_time import run_in
from tests.unit.client.scripted_server import Seen, json_answer, serving, status_answer, until

R = TypeVar("R")
WALL = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EVENT = EventEntry(
    regarding=ObjectReference("Pod", "p", "ns", "u"),
    event_type=NORMAL,
    reason="Scheduled",
    action="Binding",
    note="there",
    reporting_controller="stowage",
    reporting_instance="stowage-host",
    event_time=WALL,
)
OCCURRENCE = Occurrence(EVENT, 1, WALL)


def exchange(
    answer: web.Response, action: Callable[[ApiSession], Awaitable[R]]
) -> tuple[R, list[Seen]]:
    """Runs the action against a server that always gives one answer."""

    async def give(_: web.Request) -> web.Response:
        return web.Response(
            status=answer.status, body=answer.body, content_type=answer.content_type
        )

    async def scenario() -> tuple[R, list[Seen]]:
        async with serving(give) as (server, session):
            return await action(session), server.seen

    return uvloop.run(scenario())


def decoded(seen: Seen) -> Any:
    return msgspec.json.decode(seen.body)


def test_the_condition_of_a_group_is_patched_into_its_status() -> None:
    """A metav1.Condition, which has no time of a probe; a successor of the name is left alone."""
    condition = Condition(
        "PodGroupScheduled", "False", "Unschedulable", "why", has_moved=True, observed_generation=2
    )

    async def write(session: ApiSession) -> None:
        await PodWrites(session).patch_group_status(
            "scheduling.k8s.io/v1alpha2", "ml", "train", "u", WALL, condition
        )

    _, [seen] = exchange(json_answer({}), write)
    place = "/apis/scheduling.k8s.io/v1alpha2/namespaces/ml/podgroups/train/status"
    assert (seen.method, seen.path) == ("PATCH", place)
    assert decoded(seen) == {
        "metadata": {"uid": "u"},
        "status": {
            "conditions": [
                {
                    "type": "PodGroupScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "why",
                    "lastTransitionTime": "2026-01-02T03:04:05Z",
                    "observedGeneration": 2,
                }
            ]
        },
    }


class TestEvictions:
    """One victim: why it goes, and that it goes."""

    CONDITION = Condition("DisruptionTarget", "True", "PreemptionByScheduler", "for another")

    def evict(
        self, *answers: web.Response, condition: Condition | None = CONDITION
    ) -> tuple[bool, list[Seen]]:
        """Evict a pod from a server that gives these answers, in order."""
        left = iter(answers)

        async def give(_: web.Request) -> web.Response:
            return next(left)

        async def scenario() -> tuple[bool, list[Seen]]:
            async with serving(give) as (server, session):
                gone = await PodWrites(session).evict("ns", "p", "u", WALL, condition)
                return gone, server.seen

        return uvloop.run(scenario())

    def test_the_status_says_why_first(self) -> None:
        """Both requests are about this very pod; the grace period is its own."""
        gone, [patch, delete] = self.evict(json_answer({}), json_answer({}))

        assert gone
        assert (patch.method, patch.path) == ("PATCH", "/api/v1/namespaces/ns/pods/p/status")
        assert patch.body == pod_status_patch("u", self.CONDITION, None, WALL)
        assert (delete.method, delete.path) == ("DELETE", "/api/v1/namespaces/ns/pods/p")
        assert decoded(delete) == {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u"},
        }

    def test_a_status_that_says_so_is_not_written(self) -> None:
        _, seen = self.evict(json_answer({}), condition=None)

        assert [each.method for each in seen] == ["DELETE"]

    def test_a_pod_that_is_gone_is_fine(self) -> None:
        """Whichever request finds out; nothing is deleted after the first has."""
        gone, [patch] = self.evict(status_answer(404))

        assert (gone, patch.method) == (False, "PATCH")
        assert not self.evict(json_answer({}), status_answer(404))[0]

    @pytest.mark.parametrize(("refused", "tries"), [(409, TRIES), (422, 1)])
    def test_a_refused_status_is_settled_by_the_deletion(self, refused: int, tries: int) -> None:
        """A busy pod goes all the same; a successor of the same name, of another UID, stays."""
        patches = [status_answer(refused) for _ in range(tries)]
        gone, seen = self.evict(*patches, json_answer({}))

        assert gone
        assert [each.method for each in seen] == ["PATCH"] * tries + ["DELETE"]
        again = [status_answer(refused) for _ in range(tries)]
        assert not self.evict(*again, status_answer(409))[0]

    @pytest.mark.parametrize("refused", [409, 500, 503])
    def test_the_status_is_tried_again(self, refused: int) -> None:
        """A job may count a pod without the condition as failed."""
        gone, seen = self.evict(status_answer(refused), json_answer({}), json_answer({}))

        assert gone
        assert [each.method for each in seen] == ["PATCH", "PATCH", "DELETE"]

    def test_other_answers_are_errors(self) -> None:
        with pytest.raises(ForbiddenError):
            self.evict(json_answer({}), status_answer(403))


class TestPods:
    def test_a_binding_names_pod_uid_and_node(self) -> None:
        """The answer to it is a Status, which is what success looks like."""
        _, [seen] = exchange(
            status_answer(201), lambda s: PodWrites(s).bind("ns", "pod-1", "u-1", "node 1")
        )

        assert (seen.method, seen.path) == ("POST", "/api/v1/namespaces/ns/pods/pod-1/binding")
        assert decoded(seen) == {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "pod-1", "namespace": "ns", "uid": "u-1"},
            "target": {"kind": "Node", "name": "node 1"},
        }

    def test_names_cannot_break_out_of_json_or_path(self) -> None:
        """Whatever a node is called."""
        _, [seen] = exchange(
            status_answer(201), lambda s: PodWrites(s).bind("n/s", "p?", "u", 'a","x":"\n')
        )

        assert seen.path == "/api/v1/namespaces/n%2Fs/pods/p%3F/binding"
        assert decoded(seen)["target"]["name"] == 'a","x":"\n'

    def test_a_refused_binding_says_why(self) -> None:
        """In the server's words."""
        refusal = status_answer(409, "Conflict", 'pod p is already assigned to node "n2"')

        with pytest.raises(ConflictError, match="already assigned to node"):
            exchange(refusal, lambda s: PodWrites(s).bind("ns", "p", "u", "n1"))

    def test_pods_are_written_only_within_the_fence(self) -> None:
        """Bindings and patches alike."""

        async def scenario() -> int:
            async def give(_: web.Request) -> web.Response:
                return status_answer(201)

            async with serving(give) as (server, session):
                pods = PodWrites(session, fence=lambda: False)
                with pytest.raises(FencedError):
                    await pods.bind("ns", "p", "u", "n")
                with pytest.raises(FencedError):
                    await pods.patch_status("ns", "p", "u", WALL, nominated_node_name="n")
                with pytest.raises(FencedError):
                    await pods.request("POST", "/api/v1/things", {})
                return len(server.seen)

        assert uvloop.run(scenario()) == 0

    def test_reads_and_events_need_no_fence(self) -> None:
        """They change nothing that another scheduler decides about."""

        async def scenario() -> list[str]:
            async def give(_: web.Request) -> web.Response:
                return json_answer({})

            async with serving(give) as (server, session):
                pods = PodWrites(session, fence=lambda: False)
                await pods.read("ns", "p")
                await pods.request("GET", "/api/v1/things")
                await pods.event(OCCURRENCE)
                return [seen.method for seen in server.seen]

        assert uvloop.run(scenario()) == ["GET", "GET", "POST"]

    def test_a_condition_is_merged_into_the_status(self) -> None:
        """By the server, so that conditions of others stay."""
        condition = Condition(
            type="PodScheduled",
            status="False",
            reason="Unschedulable",
            message="0/3 nodes",
            has_moved=True,
            observed_generation=2,
        )

        _, [seen] = exchange(
            json_answer({}),
            lambda s: PodWrites(s).patch_status("ns", "p", "u-1", WALL, condition=condition),
        )

        assert (seen.method, seen.path) == ("PATCH", "/api/v1/namespaces/ns/pods/p/status")
        assert seen.headers["Content-Type"] == STRATEGIC_MERGE_PATCH
        assert decoded(seen) == {
            "metadata": {"uid": "u-1"},
            "status": {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/3 nodes",
                        "lastProbeTime": None,
                        "lastTransitionTime": "2026-01-02T03:04:05Z",
                        "observedGeneration": 2,
                    }
                ]
            },
        }

    @pytest.mark.parametrize(
        ("name", "status"),
        [
            pytest.param("n1", {"nominatedNodeName": "n1"}, id="nominated"),
            pytest.param("", {"nominatedNodeName": None}, id="withdrawn"),
            pytest.param(None, {}, id="kept"),
        ],
    )
    def test_nominations(self, name: str | None, status: dict[str, Any]) -> None:
        """None keeps, empty withdraws."""
        _, [seen] = exchange(
            json_answer({}),
            lambda s: PodWrites(s).patch_status("ns", "p", "u", WALL, nominated_node_name=name),
        )

        assert decoded(seen)["status"] == status

    def test_an_unchanged_transition_time_is_left_to_the_server(self) -> None:
        """Only a change of status is a transition."""
        condition = Condition("PodScheduled", "False", "R", "m")

        _, [seen] = exchange(
            json_answer({}),
            lambda s: PodWrites(s).patch_status("ns", "p", "u", WALL, condition=condition),
        )

        assert "lastTransitionTime" not in decoded(seen)["status"]["conditions"][0]


class TestReading:
    def test_a_pod_is_given_as_its_bytes(self) -> None:
        """Whoever asks knows what they mean."""
        body, [seen] = exchange(json_answer({"a": 1}), lambda s: PodWrites(s).read("n s", "p"))

        assert (seen.method, seen.path) == ("GET", "/api/v1/namespaces/n%20s/pods/p")
        assert body == b'{"a":1}'

    def test_no_pod(self) -> None:
        """That there is none is an answer."""
        body, _ = exchange(status_answer(404, "NotFound"), lambda s: PodWrites(s).read("ns", "p"))

        assert body is None

    def test_no_answer(self) -> None:
        """That there may be one is none."""
        with pytest.raises(UnavailableError):
            exchange(status_answer(503), lambda s: PodWrites(s, timeout=0.01).read("ns", "p"))


class TestEvents:
    def test_a_first_event_is_made(self) -> None:
        """In the namespace of what it is about."""
        _, [seen] = exchange(json_answer({}, 201), lambda s: PodWrites(s).event(OCCURRENCE))

        assert (seen.method, seen.path) == ("POST", "/apis/events.k8s.io/v1/namespaces/ns/events")
        assert decoded(seen)["metadata"]["name"] == EVENT.name
        assert "series" not in decoded(seen)

    def test_a_repetition_changes_the_event(self) -> None:
        """Its count and its time, nothing else."""
        again = Occurrence(EVENT, 7, WALL)

        _, [seen] = exchange(json_answer({}), lambda s: PodWrites(s).event(again))

        assert (seen.method, seen.path) == (
            "PATCH",
            f"/apis/events.k8s.io/v1/namespaces/ns/events/{EVENT.name}",
        )
        assert seen.headers["Content-Type"] == STRATEGIC_MERGE_PATCH
        assert decoded(seen) == {
            "series": {"count": 7, "lastObservedTime": "2026-01-02T03:04:05.000000Z"}
        }

    def test_a_series_whose_event_is_gone_is_made_anew(self) -> None:
        """Events expire on the server after an hour."""

        async def scenario() -> list[Seen]:
            async def give(request: web.Request) -> web.Response:
                if request.method == "PATCH":
                    return status_answer(404, "NotFound")
                return json_answer({}, 201)

            async with serving(give) as (server, session):
                await PodWrites(session).event(Occurrence(EVENT, 7, WALL))
                return server.seen

        patch, post = uvloop.run(scenario())
        assert (patch.method, post.method) == ("PATCH", "POST")
        assert decoded(post)["series"]["count"] == 7


def plugin_api(session: ApiSession) -> PluginApi:
    """The API server as plugins have it."""
    return PluginApi(PodWrites(session), (), lambda event: None)


def test_plugins_ask_for_what_they_like() -> None:
    """In JSON, both ways."""
    answer, [seen] = exchange(
        json_answer({"b": 2}), lambda s: plugin_api(s).request("PATCH", "/api/v1/x", {"a": 1})
    )

    assert (seen.method, seen.path, decoded(seen)) == ("PATCH", "/api/v1/x", {"a": 1})
    assert seen.headers["Content-Type"] == STRATEGIC_MERGE_PATCH
    assert answer == {"b": 2}


def test_an_answer_to_a_plugin_that_is_no_json_leaves_it_uncertain() -> None:
    """The request may have been carried out, and a proxy have answered."""
    answer = web.Response(body=b"<html>", content_type="text/html")

    with pytest.raises(RequestError, match="PATCH /api/v1/x: not JSON: ") as raised:
        exchange(answer, lambda s: plugin_api(s).request("PATCH", "/api/v1/x", {}))

    assert not raised.value.is_certain


LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {
        "name": "stowage",
        "namespace": "kube-system",
        "resourceVersion": "7",
        "labels": {"keep": "me"},
    },
    "spec": {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-02T03:04:05.000000Z",
        "renewTime": "2026-01-02T03:04:06.000000Z",
        "leaseTransitions": 3,
        "unknownField": 1,
    },
}
SPEC = LeaseSpec(
    holder_identity="a",
    lease_duration_seconds=15,
    acquire_time="2026-01-02T03:04:05.000000Z",
    renew_time="2026-01-02T03:04:06.000000Z",
    lease_transitions=3,
)


class TestLeases:
    def test_reading(self) -> None:
        """The record, whatever else is in the object."""
        lease, [seen] = exchange(
            json_answer(LEASE), lambda s: LeaseLock(s, "kube-system", "stowage").get(1.0)
        )

        assert seen.path == ("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/stowage")
        assert lease is not None
        assert lease.spec == SPEC

    def test_no_lease(self) -> None:
        """It will have to be made."""
        lease, _ = exchange(
            status_answer(404, "NotFound"), lambda s: LeaseLock(s, "ns", "n").get(1.0)
        )

        assert lease is None

    def test_something_that_is_no_lease(self) -> None:
        """An answer of something in between is no answer."""
        with pytest.raises(UnavailableError, match="not a Lease"):
            exchange(json_answer([1]), lambda s: LeaseLock(s, "ns", "n").get(1.0))

    def test_creating(self) -> None:
        """Name and namespace are the lock's."""
        _, [seen] = exchange(
            json_answer(LEASE, 201),
            lambda s: LeaseLock(s, "kube-system", "stowage").create(SPEC, 1.0),
        )

        assert (seen.method, seen.path) == (
            "POST",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
        )
        assert decoded(seen)["metadata"] == {"name": "stowage", "namespace": "kube-system"}
        assert decoded(seen)["spec"]["leaseTransitions"] == 3

    def test_replacing_keeps_metadata_and_with_it_the_version(self) -> None:
        """The server refuses when another was faster, and labels of others stay."""

        async def replace(session: ApiSession) -> None:
            lock = LeaseLock(session, "kube-system", "stowage")
            lease = await lock.get(1.0)
            assert lease is not None
            await lock.update(lease, msgspec.structs.replace(SPEC, renew_time="later"), 1.0)

        _, [_, seen] = exchange(json_answer(LEASE), replace)

        assert seen.method == "PUT"
        assert decoded(seen)["metadata"] == LEASE["metadata"]
        assert decoded(seen)["spec"]["renewTime"] == "later"


class TestReviews:
    def test_a_valid_token_is_a_user(self) -> None:
        """With everything that authorization may ask about."""
        answer = {
            "status": {
                "authenticated": True,
                "user": {
                    "username": "system:serviceaccount:ns:sa",
                    "uid": "u",
                    "groups": ["g1", "g2"],
                    "extra": {"k": ["v"]},
                },
            }
        }

        user, [seen] = exchange(
            json_answer(answer, 201), lambda s: ApiReviews(s).review_token("t0")
        )

        assert seen.path == "/apis/authentication.k8s.io/v1/tokenreviews"
        assert decoded(seen)["spec"] == {"token": "t0"}
        assert user == User(
            name="system:serviceaccount:ns:sa",
            uid="u",
            groups=("g1", "g2"),
            extra={"k": ("v",)},
        )

    def test_every_review_is_counted(self) -> None:
        """By what it is about and how the server answered."""
        metrics = ReviewMetrics(Instruments())

        async def ask(session: ApiSession) -> None:
            reviews = ApiReviews(session, metrics)
            await reviews.review_token("t0")
            with pytest.raises(ApiError):
                await reviews.review_access(User(name="n"), "/metrics", "get")

        async def give(request: web.Request) -> web.Response:
            if request.path.endswith("tokenreviews"):
                return web.json_response({"status": {}}, status=201)
            return web.json_response({"code": 403, "message": "no"}, status=403)

        async def scenario() -> None:
            async with serving(give) as (_, session):
                await ask(session)

        uvloop.run(scenario())

        counted = {
            about: {code: child.value for code, child in family.items()}
            for about, family in metrics.requests.items()
        }
        assert counted == {"authn": {"201": 1}, "authz": {"403": 1}}
        assert sum(metrics.duration["authn"]["201"].counts) == 1

    def test_an_invalid_token_is_nobody(self) -> None:
        """The server answers without a user."""
        answer = {"status": {"user": {}, "error": "token expired"}}

        user, _ = exchange(json_answer(answer, 201), lambda s: ApiReviews(s).review_token("t0"))

        assert user is None

    @pytest.mark.parametrize(
        ("status", "is_allowed"),
        [
            ({"allowed": True}, True),
            ({"allowed": False, "reason": "no"}, False),
            ({"allowed": True, "denied": True}, False),
        ],
    )
    def test_access(self, status: dict[str, Any], is_allowed: bool) -> None:
        """The whole user is asked about."""
        user = User(name="n", uid="u", groups=("g",), extra={"k": ("v",)})

        allowed, [seen] = exchange(
            json_answer({"status": status}, 201),
            lambda s: ApiReviews(s).review_access(user, "/metrics", "get"),
        )

        assert allowed is is_allowed
        assert seen.path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        assert decoded(seen)["spec"] == {
            "user": "n",
            "uid": "u",
            "groups": ["g"],
            "extra": {"k": ["v"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        }

    def test_an_unreadable_answer_lets_nobody_in(self) -> None:
        """It is an error, not an answer."""
        with pytest.raises(UnavailableError):
            exchange(json_answer([]), lambda s: ApiReviews(s).review_token("t"))


def test_the_bucket_gives_a_burst_and_then_a_rate() -> None:
    """Each caller reserves the next free moment."""
    clock = FakeClock()
    bucket = TokenBucket(10.0, 3, clock)

    first = [round(bucket.reserve(), 3) for _ in range(5)]
    clock.advance(0.2)
    later = round(bucket.reserve(), 3)
    clock.advance(60.0)
    rested = [round(bucket.reserve(), 3) for _ in range(4)]

    assert first == [0.0, 0.0, 0.0, 0.1, 0.2]
    assert later == 0.1
    assert rested == [0.0, 0.0, 0.0, 0.1]


def test_waiting_for_the_bucket_lets_others_run() -> None:
    """It is the caller who waits, not the loop."""

    async def scenario() -> list[str]:
        bucket = TokenBucket(20.0, 1, FakeClock())
        story: list[str] = []

        async def caller() -> None:
            await bucket.acquire()
            await bucket.acquire()
            story.append("served")

        task = asyncio.create_task(caller())
        await asyncio.sleep(0.01)
        story.append("meanwhile")
        await task
        return story

    assert uvloop.run(scenario()) == ["meanwhile", "served"]


def test_a_message_that_utf8_cannot_say_is_written_all_the_same() -> None:
    """A plugin may quote a file name; its odd bytes must not end the task that sends patches."""
    condition = Condition("PodScheduled", "False", "R", "no \udcff here")

    body = msgspec.json.decode(pod_status_patch("u", condition, None, WALL))

    assert body["status"]["conditions"][0]["message"] == "no ? here"


def test_plugins_take_turns() -> None:
    """However many pods are at PreBind, so many connections are enough; others do not wait."""

    async def scenario() -> tuple[int, int]:
        let_go = asyncio.Event()
        under_way: list[str] = []
        most = 0

        async def give(request: web.Request) -> web.Response:
            nonlocal most
            if request.method == "PATCH":
                under_way.append(request.path)
                most = max(most, len(under_way))
                await let_go.wait()
                under_way.remove(request.path)
            return json_answer({})

        async with serving(give) as (server, session):
            writes = PodWrites(session)
            paths = [f"/{i}" for i in range(3 * PLUGIN_REQUESTS)]
            asked = [asyncio.create_task(writes.request("PATCH", path, {})) for path in paths]
            await until(lambda: len(under_way) == PLUGIN_REQUESTS)
            await writes.bind("ns", "p", "u", "n1")
            let_go.set()
            await asyncio.gather(*asked)
            return most, len(server.seen)

    assert uvloop.run(scenario()) == (PLUGIN_REQUESTS, 3 * PLUGIN_REQUESTS + 1)


@pytest.mark.parametrize(
    ("becomes_true_at", "seconds"),
    [
        pytest.param(0.0, 0.0, id="holds already"),
        pytest.param(20.0, 20.0, id="holds after some changes"),
        pytest.param(25.0, 60.0, id="holds without a change that tells"),
        pytest.param(100.0, 60.0, id="never holds"),
    ],
)
def test_a_plugin_waits_for_a_condition_or_in_vain(becomes_true_at: float, seconds: float) -> None:
    """It hears of changes every ten seconds for a while; afterwards it hears no more."""
    clock = FakeClock(0.0)
    listeners: list[Callable[[], None]] = []

    def listen(wake: Callable[[], None]) -> Callable[[], None]:
        listeners.append(wake)
        return lambda: listeners.remove(wake)

    async def change() -> None:
        for _ in range(2):
            await asyncio.sleep(10.0)
            for wake in listeners:
                wake()

    async def story() -> bool:
        changing = asyncio.create_task(change())
        try:
            return await PodWrites.until(lambda: clock.now >= becomes_true_at, listen, 60.0)
        finally:
            changing.cancel()

    assert run_in(clock, story()) is (seconds < 60.0)
    assert clock.now == pytest.approx(seconds)
    assert listeners == []
