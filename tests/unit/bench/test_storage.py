"""Workloads with claims: what is created, who binds, what is judged, and what one decision is."""

import asyncio
import gc
from typing import Any, cast

import msgspec
import pytest

from bench import objects, storage
from bench.binder import Binder
from bench.decisions.timing import time_decisions
from bench.workload import SHORT, Workload, load_workloads
from e2e.support.api import Api, Call
from e2e.support.objects import Json

WORKLOADS = load_workloads()
CLAIMING = [workload for workload in WORKLOADS.values() if workload.storage is not None]
with_claims = pytest.mark.parametrize("workload", CLAIMING, ids=[each.name for each in CLAIMING])


@with_claims
def test_measured_pods_name_the_claims_that_are_there(workload: Workload) -> None:
    """One each; what runs from the start has none."""
    size = workload.sizes[SHORT]
    names = [f"n{i}" for i in range(size.nodes)]
    claims = [each["metadata"]["name"] for each in storage.claims_of(workload, 5, 3)]
    waiting = objects.PodFactory(workload.pods, names, "pod")
    running = objects.PodFactory(workload.running_template, names, "pod")

    pods = [msgspec.json.decode(waiting.waiting(5 + i)) for i in range(3)]

    assert [storage.claim_names(pod) for pod in pods] == [[name] for name in claims]
    assert storage.claim_names(msgspec.json.decode(running.running(5, "measured", "n0"))) == []


def test_claims_that_are_bound_already_name_their_volumes_and_the_other_way_round() -> None:
    """As many as the size says, over all nodes."""
    sizes = WORKLOADS["start-30000-claims"].sizes
    pairs = list(storage.bound_pairs(sizes[SHORT], ["a", "b"]))

    assert (len(pairs), sizes["5000"].bound) == (sizes[SHORT].bound, 100_000)
    for claim, volume in pairs[:2]:
        assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
        assert volume["spec"]["claimRef"]["name"] == claim["metadata"]["name"]
    assert [storage.node_of(volume) for _, volume in pairs[:3]] == ["a", "b", "a"]


class FakeApi:
    """Takes writes down."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, str, Any]] = []

    async def post(self, path: str, body: Json) -> Json:
        self.writes.append(("POST", path, body))
        return body

    async def call_all(self, calls: list[Call], _: int) -> None:
        self.writes += [(call.method, call.path, call.body) for call in calls]


def test_each_claim_is_bound_once_as_soon_as_a_scheduler_has_decided() -> None:
    """To the volume that it reserved, or to one made for the node that it selected."""
    api = FakeApi()
    binder = Binder(cast("Api", api))
    reserved, selected = storage.make_claim("r", "bench-local"), storage.make_claim("s", "made")
    volume = storage.make_volume("v", "bench-local", "n1")

    async def story() -> None:
        worker = asyncio.ensure_future(binder.work())
        binder.claim_seen(reserved)
        binder.volume_seen(volume)
        for _ in range(2):
            annotations = {storage.SELECTED_NODE: "n2"}
            binder.claim_seen({**selected, "metadata": {"annotations": annotations, "name": "s"}
                               | {"namespace": "measured"}})  # fmt: skip
            reference = storage.reference(reserved)
            binder.volume_seen({**volume, "spec": {**volume["spec"], "claimRef": reference}})
        for _ in range(20):
            await asyncio.sleep(0)
        worker.cancel()

    asyncio.run(story())

    assert [write[:2] for write in api.writes] == [
        ("POST", storage.VOLUMES),
        ("PATCH", f"{storage.CLAIMS}/s"),
        ("PATCH", f"{storage.CLAIMS}/r"),
    ]
    assert storage.node_of(api.writes[0][2]) == "n2"
    assert [body["spec"]["volumeName"] for _, _, body in api.writes[1:]] == ["made-s", "v"]


def test_a_pod_away_from_its_volume_and_a_volume_with_two_claims_are_violations() -> None:
    """A pod that is where its volume is, or waits, is none."""
    volumes = {name: storage.make_volume(name, "c", f"on-{name}") for name in ("a", "b")}
    claims = {f"c{i}": storage.make_claim(f"c{i}", "c") for i in range(3)}
    for claim, volume in zip(claims.values(), ("a", "b", "b"), strict=True):
        claim["spec"]["volumeName"] = volume
    pods: list[Json] = [
        {
            "metadata": {"name": f"p{i}"},
            "spec": {
                "volumes": [{"persistentVolumeClaim": {"claimName": f"c{i}"}}],
                **({} if node is None else {"nodeName": node}),
            },
        }
        for i, node in enumerate(("on-a", "on-a", None))
    ]

    assert list(storage.violations_of(pods, claims, volumes)) == [
        "volume b has 2 claims",
        "pod p1 is on on-a, where its claim has no volume",
    ]


@with_claims
def test_decisions_about_pods_with_claims_are_timed(workload: Workload) -> None:
    """Every pod finds a volume: what is reserved comes true before the next one."""
    decision = time_decisions(workload, 20, 30)
    # It thaws what it froze, and with it all that tests have imported.
    gc.freeze()

    assert (decision.decisions, decision.note) == (30, "")
    assert decision.median_us > 0
