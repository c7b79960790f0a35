"""Workloads with devices: what is created, what a wall writes, and what is judged."""

import asyncio
import gc
from collections.abc import Sequence
from itertools import islice
from typing import Any, cast

import msgspec
import pytest

from bench import devices, objects
from bench.decisions.timing import Timed, time_decisions
from bench.workload import SHORT, DeviceTemplate, Workload, load_workloads
from e2e.support.api import Api
from e2e.support.objects import Json
from scheduler.kernel.devices.claim_writes import FINALIZER
from scheduler.kernel.devices.pod_claims import is_reserved_for
from scheduler.kernel.engine.events import Bound, Decide, Event, ObjectRead, ObjectSet, PreBound
from scheduler.kernel.engine.instructions import Instruction

WORKLOADS = load_workloads()
CLAIMING = [workload for workload in WORKLOADS.values() if workload.devices is not None]
with_devices = pytest.mark.parametrize("workload", CLAIMING, ids=[each.name for each in CLAIMING])


def template_of(workload: Workload) -> DeviceTemplate:
    assert workload.devices is not None
    return workload.devices


@with_devices
def test_measured_pods_name_the_claims_that_are_there(workload: Workload) -> None:
    """One each; what runs from the start has none."""
    size = workload.sizes[SHORT]
    names = [f"n{i}" for i in range(size.nodes)]
    claims = devices.claims_of(template_of(workload), 5, 3)
    waiting = objects.PodFactory(workload.pods, names, "pod")
    running = objects.PodFactory(workload.running_template, names, "pod")

    pods = [msgspec.json.decode(waiting.waiting(5 + i)) for i in range(3)]

    named = [devices.claim_name(pod) for pod in pods]
    assert named == [claim["metadata"]["name"] for claim in claims]
    assert devices.claim_name(msgspec.json.decode(running.running(5, "measured", "n0"))) is None


@with_devices
def test_there_are_devices_for_every_size(workload: Workload) -> None:
    """A wall that takes the first choice of each claim does not run out of them."""
    template = template_of(workload)
    [claim] = devices.claims_of(template, 0, 1)
    _, count = devices.first_request(claim)
    for size in workload.sizes.values():
        slices = devices.slices_of(template, [f"n{i}" for i in range(size.nodes)])
        allocator = devices.DeviceAllocator(slices)
        taken = [allocator.take(count) for _ in range(size.pods)]
        flat = [(node, name) for node, names in taken for name in names]
        assert len(set(flat)) == size.pods * count


@with_devices
def test_decisions_about_pods_with_devices_are_timed(workload: Workload) -> None:
    """Every pod finds devices, and all that follows its decision is timed as well."""
    decision = time_decisions(workload, 100, 20)
    # It thaws what it froze, and with it all that tests have imported.
    gc.freeze()

    assert (decision.decisions, decision.note) == (20, "")
    assert decision.median_us > 0
    assert decision.rest_us > 0


class Log:
    """Keeps the events of an engine."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def note(self, event: Event, now: float, instructions: Sequence[Instruction]) -> None:
        self.events.append(event)


@with_devices
def test_a_timed_pod_is_bound_once_its_claim_is_written_and_seen(workload: Workload) -> None:
    """Both writes are answered and then watched, and the claim has what was decided."""
    log = Log()
    timed = Timed(workload, 5, 1, log=log)
    [pod] = timed.pods

    assert timed.schedule(pod) is not None

    comes, decide, *written, bindable, bound, seen = log.events
    assert [comes, type(decide)] == [ObjectSet("pods", pod), Decide]
    assert [type(each) for each in written] == [ObjectRead, ObjectSet] * 2
    assert [type(each) for each in (bindable, bound, seen)] == [PreBound, Bound, ObjectSet]
    protected, _, _, claim = [each.object for each in written]
    assert protected.metadata.finalizers == claim.metadata.finalizers == (FINALIZER,)
    assert protected.status.allocation is None
    assert is_reserved_for(claim, pod)
    assert {each.pool for each in claim.status.allocation.devices.results} == {
        seen.object.node_name
    }


def test_a_node_has_as_many_devices_as_its_workload_says() -> None:
    """A card and its parts are counted together, and its counters lie beside them."""
    for workload in CLAIMING:
        template = template_of(workload)
        slices = list(devices.slices_of(template, ["n"]))
        assert sum(len(each["spec"].get("devices", ())) for each in slices) == template.each
        assert {each["spec"]["pool"]["resourceSliceCount"] for each in slices} == {len(slices)}


class FakeApi:
    """Keeps what was put where, and answers it with a version."""

    def __init__(self) -> None:
        self.put_at: dict[str, Json] = {}

    async def put(self, path: str, body: Json) -> Json:
        self.put_at[path] = body
        version = {"resourceVersion": str(len(self.put_at) + 1)}
        return {**body, "metadata": {**body["metadata"], **version}}


def test_a_wall_writes_the_claim_and_then_its_status() -> None:
    """The second write names the version that the first one made."""
    [workload] = [each for each in CLAIMING if each.name == "prioritized-devices"]
    [claim] = devices.claims_of(template_of(workload), 7, 1)
    api, pod = FakeApi(), {"metadata": {"name": "p", "uid": "u"}}

    taken = ["gpu-0", "gpu-1"]
    asyncio.run(devices.write_claim(cast(Api, api), claim, pod, "n1", taken))

    first, second = api.put_at.values()
    assert list(api.put_at) == [
        f"{devices.CLAIMS}/claim-000007",
        f"{devices.CLAIMS}/claim-000007/status",
    ]
    assert first["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert second["metadata"]["resourceVersion"] == "2"
    results = second["status"]["allocation"]["devices"]["results"]
    assert [(each["request"], each["pool"], each["device"]) for each in results] == [
        ("r/better", "n1", "gpu-0"),
        ("r/better", "n1", "gpu-1"),
    ]
    assert second["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "u"}]


def claim_with(name: str, pool: str, device: str) -> Json:
    result = {"driver": "gpu.example.com", "pool": pool, "device": device}
    status = {"allocation": {"devices": {"results": [result]}}}
    return {"metadata": {"name": name, "uid": name}, "status": status}


def pod_with(name: str, claim: str, node: str) -> dict[str, Any]:
    claims = [{"name": "device", "resourceClaimName": claim}]
    return {"metadata": {"name": name}, "spec": {"resourceClaims": claims, "nodeName": node}}


def test_what_is_wrong_with_devices_is_told() -> None:
    """A device of two claims, and a pod beside its device; what is right is nothing."""
    claims = {
        "a": claim_with("a", "n1", "gpu-0"),
        "b": claim_with("b", "n1", "gpu-0"),
        "c": claim_with("c", "n2", "gpu-0"),
    }
    pods = [pod_with("right", "a", "n1"), pod_with("beside", "c", "n1")]

    assert list(islice(devices.violations_of(pods, claims), 5)) == [
        "device gpu.example.com/n1/gpu-0 has 2 claims",
        "pod beside is on n1, where its claim has no device",
    ]
    assert list(devices.violations_of(pods[:1], {"a": claims["a"]})) == []
