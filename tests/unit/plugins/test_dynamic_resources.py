"""DynamicResources: claims are looked up, judged, taken, written and given back.

Which devices a claim gets is the matter of `scheduler.kernel.devices`; here is what becomes of it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest

from scheduler.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from scheduler.api.limits import MAX_DEVICE_REQUESTS
from scheduler.api.objects import Pod
from scheduler.api.pods import PodInfo, pod_info
from scheduler.config.args import DynamicResourcesArgs
from scheduler.daemon.client.turns import Place
from scheduler.daemon.client.writes import PodWrites
from scheduler.daemon.driver.plugin_api import PluginApi
from scheduler.errors import RequestError
from scheduler.kernel.devices.candidates import AllocationError
from scheduler.kernel.devices.claim_catalog import CLAIM, CLASS, SLICE, ClaimCatalog
from scheduler.kernel.framework.cycle_state import NEEDS_NO_NODE, CycleState
from scheduler.kernel.framework.events import ActionType, EventResource, ObjectKind, QueueingHint
from scheduler.kernel.framework.results import Write
from scheduler.kernel.framework.runtime import Framework, PluginError
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.status import SKIP, SUCCESS, Code, Status, unresolvable
from scheduler.kernel.plugins.dynamic_resources import DynamicResources
from scheduler.observability.device_metrics import DeviceMetrics
from tests.support.builders import make_node, make_pod_info, make_snapshot
from tests.support.fake_plugins import ColumnFilter, PodLimit, make_framework
from tests.support.handles import make_handle
from tests.support.plugin_answers import statuses

GPU = "example.com/gpu"
NOW = 1_800_000_000.0
LONG_AGO = "2020-01-01T00:00:00Z"
JUST_NOW = "2027-01-15T08:00:00Z"
NOT_ALLOCATED = unresolvable("cannot allocate all claims")
ELSEWHERE = unresolvable("resourceclaim not available on the node")

Object = dict[str, Any]


class ConflictError(RequestError):
    """Another client was faster."""

    is_certain = False


class UnavailableError(RequestError):
    """No answer."""

    is_certain = False


class FakeApi:
    """Takes requests, and answers with the objects as they are afterwards.

    Attributes:
        sent: method, path and body of each.
        claims: by path, what claims are at the server.
        failures: what the next requests raise.
        waited: for how long was waited at most.
        last_answer: the claim as it was answered last.
    """

    def __init__(self, catalog: ClaimCatalog) -> None:
        self.sent: list[tuple[str, str, Any]] = []
        self.failures: list[RequestError | None] = []
        self.waited: list[float] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.last_answer: Any = None
        self._catalog = catalog

    run_to_end = staticmethod(PluginApi.run_to_end)

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        raise AssertionError("not its job")

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        self.sent.append((method, path, msgspec.json.decode(msgspec.json.encode(body))))
        problem = self.failures.pop(0) if self.failures else None
        if problem is not None:
            raise problem
        if "/pods/" in path:
            return {"kind": "Pod"}
        if method == "DELETE":
            return {"kind": "Status"}
        self.last_answer = self._claim(method, path, self.sent[-1][2])
        return self.last_answer

    @asynccontextmanager
    async def turn(self, uid: str) -> AsyncIterator[None]:
        yield

    async def until(
        self, holds: Callable[[], bool], listen: Callable[[Any], Any], seconds: float
    ) -> bool:
        self.waited.append(seconds)
        if holds():
            return True
        self.meanwhile()
        return holds()

    def _claim(self, method: str, path: str, body: Any) -> Any:
        name = path.partition("/resourceclaims/")[2].partition("/")[0]
        if method == "POST":
            return {**body, "metadata": {**body["metadata"], "name": "made", "uid": "made"}}
        known = self._catalog.claims.get(f"default/{name}")
        claim = {"metadata": {"name": name, "namespace": "default", "uid": name}}
        if known is not None:
            claim = msgspec.json.decode(msgspec.json.encode(known))
        for key, value in (body or {}).items():
            claim[key] = {**claim.get(key, {}), **value}
        return claim


class World:
    """Devices, claims and the plugin.

    Attributes:
        catalog: what the plugin knows.
        api: the API server.
        told: events.
        metrics: what was counted.
    """

    def __init__(self, *nodes: str, **args: Any) -> None:
        self.catalog = ClaimCatalog()
        self.api = FakeApi(self.catalog)
        self.told: list[tuple[str, str, str]] = []
        handle = make_handle(
            {ClaimCatalog: self.catalog},
            profile="prof",
            api=self.api,
            epoch=NOW,
            random=Random(0),
            record_event=lambda _, *what: self.told.append(what),
        )
        self.plugin = DynamicResources(DynamicResourcesArgs(**args), handle)
        self.metrics = DeviceMetrics(handle.metrics)
        self.snapshot = make_snapshot([make_node(name) for name in nodes or ("a", "b")])
        self.tell(CLASS, device_class())

    def tell(self, kind: ObjectKind, new: Any, old: Any = None) -> None:
        """Tell of an object."""
        if kind is CLAIM and old is None:
            old = self.catalog.claims.get(new.key)
        self.catalog.on_event(kind, old, new)

    def devices(self, node: str, *names: str, **device: Any) -> None:
        """A node has devices."""
        self.tell(SLICE, resource_slice(node, *names, **device))

    def claim(self, name: str, **more: Any) -> ResourceClaim:
        """A claim is there, or is now like this."""
        new = make_claim(name, **more)
        self.tell(CLAIM, new)
        return new

    def attempt(self, pod: PodInfo) -> tuple[CycleState, Status]:
        """PreFilter."""
        state = CycleState()
        _, status = self.plugin.pre_filter(state, pod, self.snapshot)
        return state, status

    def on_nodes(self, state: CycleState, pod: PodInfo) -> dict[str, Status]:
        """Filter."""
        return statuses(self.plugin, state, pod, self.snapshot)

    def reserved(self, pod: PodInfo, node: str = "a") -> CycleState:
        """A pod that has its devices."""
        state, status = self.attempt(pod)
        assert status == SUCCESS
        assert self.on_nodes(state, pod)[node] == SUCCESS
        assert self.plugin.reserve(state, pod, node) == SUCCESS
        return state

    def waited(self) -> dict[tuple[str, ...], float]:
        """How waiting for devices ended, by profile, driver and outcome; each once timed."""
        counted = {key: each.value for key, each in self.metrics.waited_allocations.items()}
        timed = {key: sum(each.counts) for key, each in self.metrics.wait_duration.items()}
        assert timed == counted
        return counted

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str = "a") -> Status:
        return asyncio.run(self.plugin.pre_bind(state, pod, node))


def device_class(name: str = "gpu", resource: str | None = None) -> DeviceClass:
    spec = {"selectors": [{"cel": {"expression": "true"}}], "extendedResourceName": resource}
    return read(DeviceClass, {"metadata": {"name": name}, "spec": spec})


def resource_slice(node: str, *names: str, **device: Any) -> ResourceSlice:
    spec = {
        "driver": "gpu.example.com",
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": name, **device} for name in names],
    }
    return read(ResourceSlice, {"metadata": {"name": node}, "spec": spec})


def make_claim(
    name: str,
    *,
    on: str = "",
    reaches: tuple[str, ...] = (),
    request: str = "r",
    users: tuple[str, ...] = (),
    owner: str = "",
    conditions: tuple[str, ...] = (),
    since: str = JUST_NOW,
    requests: list[Object] | None = None,
    devices: list[Object] | None = None,
    **metadata: Any,
) -> ResourceClaim:
    """A claim for a GPU; allocated if it says on which node."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    status: Object = {"reservedFor": [{"resource": "pods", "name": u, "uid": u} for u in users]}
    if on:
        result = {"request": request, "driver": "gpu.example.com", "pool": on, "device": "gpu-0"}
        if conditions:
            result["bindingConditions"] = [*conditions]
            result["bindingFailureConditions"] = ["Failed"]
        fields = [
            {"key": "metadata.name", "operator": "In", "values": [name]} for name in reaches or [on]
        ]
        status["allocation"] = {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [each]} for each in fields]},
            "allocationTimestamp": since,
        }
    if devices is not None:
        status["devices"] = devices
    owners = [{"kind": "Pod", "name": owner, "uid": owner, "controller": True}] if owner else []
    return read(
        ResourceClaim,
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": name,
                "resourceVersion": "7",
                "ownerReferences": owners,
                **metadata,
            },
            "spec": {"devices": {"requests": requests or [{"name": "r", "exactly": exactly}]}},
            "status": status,
        },
    )


def read(kind: Any, raw: Object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(raw), type=kind)


def pod_of(*claims: str, name: str = "p", statuses: Object | None = None, **more: Any) -> PodInfo:
    """A pod with claims; those of templates begin with `template:`."""
    wanted = []
    for each in claims:
        source, _, template = each.partition(":")
        called = {"name": template or each}
        wanted.append(
            {**called, "resourceClaimTemplateName": template}
            if template
            else {**called, "resourceClaimName": source}
        )
    raw = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "c"}], "resourceClaims": wanted, **more},
        "status": {
            "resourceClaimStatuses": [
                {"name": each, "resourceClaimName": found}
                for each, found in (statuses or {}).items()
            ]
        },
    }
    return pod_info(read(Pod, raw))


def member_of(name: str, *claims: str, group: str = "g") -> PodInfo:
    """A pod of a group, with claims."""
    return pod_of(*claims, name=name, schedulingGroup={"podGroupName": group})


# --- before nodes are looked at -------------------------------------------------------------------


def test_pods_without_claims_are_not_filtered_and_score_nothing() -> None:
    """As upstream: it is among the scores, as 0."""
    world = World()
    framework = make_framework(world.plugin)
    pod = make_pod_info("p", requests={"cpu": 1})
    found = framework.filtering.find_nodes_that_fit(pod, world.snapshot)

    table = framework.scoring.score_table(found, pod, world.snapshot, found.feasible_rows())

    assert world.attempt(pod)[1] == SKIP
    assert [(name, column.tolist()) for name, _, column in table] == [
        ("DynamicResources", [0.0, 0.0])
    ]


@pytest.mark.parametrize("has_list", [False, True], ids=["one way", "a list"])
def test_only_prioritized_lists_are_scored(has_list: bool) -> None:
    """Without one, all nodes are worth the same: the runtime need not ask about each."""
    world, pod = World(), pod_of("c")
    world.devices("a", "gpu-0")
    one = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    request = {"firstAvailable": [{"name": "one", **one}]} if has_list else {"exactly": one}
    world.claim("c", requests=[{"name": "r", **request}])
    framework = make_framework(world.plugin)
    found = framework.filtering.find_nodes_that_fit(pod, world.snapshot)

    assert world.plugin.skips_score(pod, world.snapshot) is not has_list
    assert framework.scoring.best_nodes(found, pod, world.snapshot).rows.tolist() == [
        world.snapshot.table.row_of["a"]
    ]


def test_a_pod_whose_claim_is_missing_is_not_said_to_be_scored_alike() -> None:
    """It is rejected before that; the shortcut must not fail."""
    world = World()

    assert not world.plugin.skips_score(pod_of("c"), world.snapshot)


def test_pods_that_need_no_devices_are_not_asked_about() -> None:
    """They pay nothing: no extension point but PreEnqueue and Unreserve is called for them."""
    calls: list[str] = []

    class Counted(DynamicResources):
        def pre_filter(self, *args: Any) -> Any:
            calls.append("pre_filter")
            return super().pre_filter(*args)

        def filter(self, *args: Any) -> Any:
            calls.append("filter")
            return super().filter(*args)

        def score(self, *args: Any) -> Any:
            calls.append("score")
            return super().score(*args)

        def reserve(self, *args: Any) -> Any:
            calls.append("reserve")
            return super().reserve(*args)

        def pre_bind_pre_flight(self, *args: Any) -> Any:
            calls.append("pre_bind_pre_flight")
            return super().pre_bind_pre_flight(*args)

    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    handle = make_handle({ClaimCatalog: world.catalog}, random=Random(0))
    framework = make_framework(Counted(DynamicResourcesArgs(), handle))

    def go(pod: PodInfo) -> list[str]:
        calls.clear()
        found = framework.filtering.find_nodes_that_fit(pod, world.snapshot)
        framework.scoring.best_nodes(found, pod, world.snapshot)
        framework.run_reserve_plugins(found.state, pod.on_node("a"))
        framework.pre_bind_work(found.state, pod.on_node("a"))
        return [*calls]

    assert go(make_pod_info("p", requests={"cpu": 1})) == []
    assert go(pod_of("c")) == ["pre_filter", "filter", "reserve", "pre_bind_pre_flight"]


@pytest.mark.parametrize(
    ("pod", "claims", "problem"),
    [
        (
            pod_of("template:t"),
            [],
            'pod "default/p": ResourceClaim not created yet',
        ),
        (pod_of("c"), [], 'could not find ResourceClaim "default/c"'),
        (
            pod_of("c"),
            [make_claim("c", deletionTimestamp=LONG_AGO)],
            'resourceclaim "c" is being deleted',
        ),
        (
            pod_of("template:t", statuses={"t": "c"}),
            [make_claim("c", owner="q")],
            "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)",
        ),
        (pod_of("template:t", statuses={"t": "c"}), [make_claim("c", owner="p")], ""),
        (pod_of("template:t", statuses={"t": None}), [], ""),
        (pod_of("c"), [make_claim("c")], ""),
    ],
)
def test_a_pod_is_held_until_its_claims_are_there(
    pod: PodInfo, claims: list[ResourceClaim], problem: str
) -> None:
    """In upstream's words; a pod that was let go all the same is rejected with them."""
    world = World()
    for claim in claims:
        world.tell(CLAIM, claim)

    expected = unresolvable(problem) if problem else SUCCESS
    assert world.plugin.pre_enqueue(pod) == expected
    if problem:
        assert world.attempt(pod)[1] == expected


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (
            {"name": "r", "exactly": {"deviceClassName": "x", "allocationMode": "All"}},
            "request r: device class x does not exist",
        ),
        (
            {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "x"}]},
            "request r/s: device class x does not exist",
        ),
        ({"name": "r"}, "resource claim default/c, request r: unknown request type"),
    ],
)
def test_a_claim_that_cannot_be_allocated_anywhere_is_said_so(
    request_: Object, problem: str
) -> None:
    """Before any node is looked at."""
    world = World()
    world.claim("c", requests=[request_])

    assert world.attempt(pod_of("c"))[1] == unresolvable(problem)


def test_a_claim_that_another_pod_is_about_to_allocate_is_waited_for() -> None:
    """Two pods must not allocate it twice."""
    world = World()
    world.devices("a", "gpu-0", "gpu-1")
    world.claim("c")
    world.reserved(pod_of("c"))

    assert world.attempt(pod_of("c", name="q"))[1] == unresolvable(
        "resource claim default/c is in the process of being allocated"
    )


# --- nodes ----------------------------------------------------------------------------------------


def test_nodes_without_devices_are_rejected() -> None:
    """What one pod has taken is not there for the next, until it gives it back."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    world.claim("d")
    state, _ = world.attempt(pod_of("c"))
    assert world.on_nodes(state, pod_of("c")) == {"a": SUCCESS, "b": NOT_ALLOCATED}

    taken = world.reserved(pod_of("c"))
    other, _ = world.attempt(pod_of("d", name="q"))
    assert set(world.on_nodes(other, pod_of("d", name="q")).values()) == {NOT_ALLOCATED}

    world.plugin.unreserve(taken, pod_of("c"), "a")
    again, _ = world.attempt(pod_of("d", name="q"))
    assert world.on_nodes(again, pod_of("d", name="q"))["a"] == SUCCESS


def test_a_claim_that_a_pod_names_twice_is_allocated_once() -> None:
    """kube-scheduler allocates it twice, and fails to write the second allocation each time."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    pod = pod_of("c", "c")

    state = world.reserved(pod)
    assert world.pre_bind(state, pod) == SUCCESS

    written = [body["status"] for _, _, body in world.api.sent if "status" in body]
    assert [
        [each["device"] for each in status["allocation"]["devices"]["results"]]
        for status in written
    ] == [["gpu-0"]]


def test_an_allocated_claim_holds_the_pod_to_its_nodes() -> None:
    """What the second claim lacks counts first, and is no matter of the first."""
    world = World()
    world.devices("b", "gpu-1")
    world.claim("c", on="a")
    world.claim("d")

    state, _ = world.attempt(pod_of("c"))
    assert world.on_nodes(state, pod_of("c")) == {"a": SUCCESS, "b": ELSEWHERE}
    both, _ = world.attempt(pod_of("c", "d"))
    assert world.on_nodes(both, pod_of("c", "d")) == {"a": NOT_ALLOCATED, "b": ELSEWHERE}


def test_a_fault_of_a_claim_ends_the_attempt() -> None:
    """In upstream's words; nodes that another filter rejects do not count."""
    world = World()
    world.devices("a", "gpu-0")
    many = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 33}
    world.claim("c", requests=[{"name": "r", "exactly": many}])
    framework = make_framework(world.plugin)

    with pytest.raises(PluginError, match="number of requested devices 33 exceeds the claim limit"):
        framework.filtering.find_nodes_that_fit(pod_of("c"), world.snapshot)


def test_claims_over_a_limit_end_the_attempt() -> None:
    """Whatever nodes it is asked about, and however often."""
    world = World()
    world.devices("a", "gpu-0")
    one = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    requests = [{"name": f"r{i}", "exactly": one} for i in range(MAX_DEVICE_REQUESTS + 1)]
    world.claim("c", requests=requests)
    pod, state = pod_of("c"), CycleState()
    assert world.plugin.pre_filter(state, pod, world.snapshot) == (None, SUCCESS)

    for _ in range(2):
        with pytest.raises(AllocationError, match=f"pod has {len(requests)} device requests"):
            world.plugin.filter(state, pod, world.snapshot, slice(0, 1))


@pytest.mark.parametrize("point", ["Filter", "Score"])
def test_without_prefilter_it_fails_as_upstream(point: str) -> None:
    """Where a profile switches PreFilter off and leaves the rest on."""
    world = World()
    framework = make_framework(world.plugin)
    framework.plugins.pre_filter.clear()
    if point == "Score":
        framework.plugins.filter.clear()
    framework = Framework(framework.plugins)
    pod = make_pod_info("p")

    def attempt() -> None:
        found = framework.filtering.find_nodes_that_fit(pod, world.snapshot)
        framework.scoring.totals(found, pod, world.snapshot, found.feasible_rows())

    with pytest.raises(PluginError, match=rf'running {point} plugin "DynamicRes.*PreFilter'):
        attempt()


def test_earlier_alternatives_score_more() -> None:
    """Whether they are allocated now or were before; normalised as upstream does."""
    world = World("a", "b")
    world.devices("a", "gpu-0")
    world.devices("b", "gpu-0", "gpu-1")
    alternatives = [
        {"name": name, "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
        for name, count in (("two", 2), ("one", 1))
    ]
    world.claim("c", requests=[{"name": "r", "firstAvailable": alternatives}])
    framework = make_framework(world.plugin)
    found = framework.filtering.find_nodes_that_fit(pod_of("c"), world.snapshot)

    [(_, _, scores)] = framework.scoring.score_table(
        found, pod_of("c"), world.snapshot, found.feasible_rows()
    )

    assert scores.tolist() == [87.0, 100.0]


def test_allocated_alternatives_score_where_a_node_has_the_extended_resource_itself() -> None:
    """As where devices serve it: the pod has a claim to allocate, whatever the node."""
    world = World()
    world.snapshot = make_snapshot([make_node("a"), make_node("b", allocatable={GPU: 1})])
    world.devices("a", "gpu-0", "gpu-1")
    one = {"name": "one", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    world.claim(
        "c",
        on="a",
        reaches=("a", "b"),
        request="r/one",
        requests=[{"name": "r", "firstAvailable": [one]}],
    )
    extended(world)

    def scores(pod: PodInfo) -> list[float]:
        state, status = world.attempt(pod)
        assert status == SUCCESS
        assert set(world.on_nodes(state, pod).values()) == {SUCCESS}
        return world.plugin.score(state, pod, world.snapshot, slice(0, 2)).tolist()

    assert scores(make_pod_info("p", requests={GPU: 1}, claims=["c"])) == [8.0, 8.0]
    assert scores(pod_of("c")) == [0.0, 0.0]


# --- binding conditions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "since", "expected"),
    [
        ([{"type": "Ready", "status": "True"}], LONG_AGO, SUCCESS),
        ([], JUST_NOW, SUCCESS),
        ([], LONG_AGO, ELSEWHERE),
        ([{"type": "Failed", "status": "True"}], JUST_NOW, ELSEWHERE),
    ],
)
def test_devices_that_will_not_be_ready_are_not_waited_for(
    conditions: list[Object], since: str, expected: Status
) -> None:
    """They failed, or are late, counted from their allocation, also over restarts."""
    world = World("a")
    status = {"driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}
    world.claim(
        "c",
        on="a",
        conditions=("Ready",),
        since=since,
        devices=[{**status, "conditions": conditions}],
    )
    state, _ = world.attempt(pod_of("c"))

    assert world.on_nodes(state, pod_of("c")) == {"a": expected}


def test_prebind_waits_until_devices_are_ready() -> None:
    """With an event; for no longer than is left since the allocation."""
    world = World("a", binding_timeout_seconds=60.0)
    waiting = world.claim("c", on="a", conditions=("Ready",), users=("p",))
    state = world.reserved(pod_of("c"))
    status = {"driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}
    ready = [{"type": "Ready", "status": "True"}]
    world.api.meanwhile = lambda: world.tell(
        CLAIM,
        make_claim(
            "c",
            on="a",
            conditions=("Ready",),
            users=("p",),
            devices=[{**status, "conditions": ready}],
        ),
        waiting,
    )

    assert world.pre_bind(state, pod_of("c")) == SUCCESS
    assert world.told == [
        (
            "Normal",
            "BindingConditionsPending",
            "waiting for binding conditions for device on node a",
        )
    ]
    assert world.api.waited == [60.0]
    assert world.api.sent == []
    assert world.waited() == {("prof", "gpu.example.com", "success"): 1}


@pytest.mark.parametrize("conditions", [(), ("Ready",)], ids=["at hand", "to be made ready"])
@pytest.mark.parametrize("is_allocated", [False, True], ids=["taken", "allocated"])
def test_prebind_only_writes_where_no_device_must_be_made_ready(
    conditions: tuple[str, ...], is_allocated: bool
) -> None:
    """Whether the pod's claim had its devices before or gets them with the decision."""
    world, pod = World(), pod_of("c")
    world.devices("a", "gpu-0", bindingConditions=[*conditions])
    world.claim("c", **({"on": "a", "conditions": conditions} if is_allocated else {}))

    state = world.reserved(pod)

    assert world.plugin.only_writes(state, pod, "a") is not bool(conditions)


@pytest.mark.parametrize(
    ("condition", "problem", "outcome"),
    [
        (None, "device binding timeout: claim=c", "timeout"),
        (
            {"type": "Failed", "status": "True", "reason": "Broken", "message": "no link"},
            'device binding failed: claim=c, reason=Broken, message="no link"',
            "failure",
        ),
    ],
)
def test_devices_that_do_not_get_ready_fail_the_binding(
    condition: Object | None, problem: str, outcome: str
) -> None:
    """In upstream's words, and counted with how it ended."""
    world = World("a")
    world.claim("c", on="a", conditions=("Ready",), users=("p",))
    state = world.reserved(pod_of("c"))
    status = {"driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}
    told = [{**status, "conditions": [condition]}] if condition else None
    changed = make_claim("c", on="a", conditions=("Ready",), users=("p",), devices=told)
    world.api.meanwhile = lambda: world.tell(CLAIM, changed)

    assert world.pre_bind(state, pod_of("c")) == Status(Code.ERROR, (problem,))
    assert world.waited() == {("prof", "gpu.example.com", outcome): 1}


def test_a_claim_that_has_long_been_ready_is_not_late() -> None:
    """The wait for another claim of the pod takes as long as that has."""
    world = World("a", binding_timeout_seconds=60.0)
    status = {"driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}
    ready = [{**status, "conditions": [{"type": "Ready", "status": "True"}]}]
    common: Object = {"on": "a", "conditions": ("Ready",), "users": ("p",)}
    world.claim("old", since="2020-01-01T00:00:00Z", devices=ready, **common)
    world.claim("new", **common)
    state = world.reserved(pod_of("old", "new"))
    world.api.meanwhile = lambda: world.tell(CLAIM, make_claim("new", devices=ready, **common))

    assert world.pre_bind(state, pod_of("old", "new")) == SUCCESS
    assert world.api.waited == [60.0]


def test_the_first_of_several_late_claims_is_named() -> None:
    """They were allocated at the same time."""
    world = World("a")
    for name in ("b", "c"):
        world.claim(name, on="a", conditions=("Ready",), users=("p",))
    state = world.reserved(pod_of("b", "c"))

    status = world.pre_bind(state, pod_of("b", "c"))

    assert status == Status(Code.ERROR, ("device binding timeout: claim=b",))


def test_a_claim_that_goes_while_its_devices_get_ready() -> None:
    """The binding fails at once, and what was taken for the claim is free."""
    world = World("a")
    claim = world.claim("c", on="a", conditions=("Ready",), users=("p",))
    state = world.reserved(pod_of("c"))
    world.api.meanwhile = lambda: world.tell(CLAIM, None, claim)

    status = world.pre_bind(state, pod_of("c"))

    assert status == Status(Code.ERROR, ('could not find ResourceClaim "default/c"',))
    assert world.waited() == {("prof", "gpu.example.com", "error"): 1}
    assert world.plugin.unreserve(state, pod_of("c"), "a") == []
    assert not world.catalog.devices.usage.allocations


def test_a_claim_that_comes_again_while_its_devices_get_ready() -> None:
    """It has its name and is ready, for another pod."""
    world = World("a")
    claim = world.claim("c", on="a", conditions=("Ready",), users=("p",))
    state = world.reserved(pod_of("c"))

    def comes_again() -> None:
        world.tell(CLAIM, None, claim)
        world.claim("c", on="a", users=("q",), uid="another")

    world.api.meanwhile = comes_again
    status = world.pre_bind(state, pod_of("c"))

    assert status == Status(Code.ERROR, ('could not find ResourceClaim "default/c"',))


def test_a_claim_that_gets_other_devices_while_its_own_get_ready() -> None:
    """They are ready, on another node: there the pod may go with its next attempt."""
    world = World("a")
    claim = world.claim("c", on="a", conditions=("Ready",), users=("p",))
    state = world.reserved(pod_of("c"))
    world.api.meanwhile = lambda: world.tell(CLAIM, make_claim("c", on="b", users=("p",)), claim)

    status = world.pre_bind(state, pod_of("c"))

    problem = "claim default/c got allocated elsewhere in the meantime"
    assert status == Status(Code.ERROR, (problem,))


# --- writing --------------------------------------------------------------------------------------


def test_the_finalizer_comes_before_the_allocation() -> None:
    """Both bound to the version that was decided on; then the claim is in flight no more."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    pod = pod_of("c")
    state = world.reserved(pod)

    assert world.plugin.pre_bind_pre_flight(state, pod, "a") == SUCCESS
    assert world.pre_bind(state, pod) == SUCCESS

    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c"
    identity = {"uid": "c", "resourceVersion": "7"}
    finalizers = ["resource.kubernetes.io/delete-protection"]
    (first, second) = world.api.sent
    assert first == ("PATCH", path, {"metadata": {**identity, "finalizers": finalizers}})
    assert second[:2] == ("PATCH", f"{path}/status")
    assert second[2]["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "p"}]
    allocation = second[2]["status"]["allocation"]
    assert allocation["devices"]["results"] == [
        {"request": "r", "driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}
    ]
    assert allocation["allocationTimestamp"] == JUST_NOW
    assert set(world.catalog.in_flight) == {"c"}
    world.claim("c", on="a", users=("p",))
    assert not world.catalog.in_flight
    assert set(world.catalog.devices.usage.allocations) == {"c"}


def test_a_claim_that_changes_on_the_way_keeps_its_devices() -> None:
    """Its finalizer comes before its allocation, and the watch shows both."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    world.reserved(pod_of("c"))

    world.claim("c", finalizers=["resource.kubernetes.io/delete-protection"])

    assert set(world.catalog.devices.usage.allocations) == {"c"}
    assert set(world.catalog.in_flight) == {"c"}


def test_an_allocated_claim_is_only_reserved() -> None:
    """And not even that where it is reserved already, as after a restart."""
    world = World()
    world.claim("c", on="a", users=("q",))
    world.claim("d", on="a", users=("p",))
    pod = pod_of("c", "d")
    state = world.reserved(pod)

    assert world.pre_bind(state, pod) == SUCCESS

    [(_, path, body)] = world.api.sent
    assert path.endswith("/resourceclaims/c/status")
    # In whatever version: others are reserved at the same time.
    assert body == {
        "metadata": {"uid": "c"},
        "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "p"}]},
    }


@pytest.mark.parametrize(
    ("now", "problem"),
    [
        (make_claim("c", on="a", users=("q", "r")), ""),
        (make_claim("c", on="b", users=("q",)), "got allocated elsewhere in the meantime"),
        (make_claim("c"), "got deallocated elsewhere in the meantime"),
        (make_claim("c", on="a", deletionTimestamp=LONG_AGO), "got deleted in the meantime"),
    ],
)
def test_a_reservation_is_of_what_was_decided_on(now: ResourceClaim, problem: str) -> None:
    """The answer says whether it was; if not, the binding fails."""
    world = World("a")
    world.claim("c", on="a", users=("q",))
    pod = pod_of("c")
    state = world.reserved(pod)
    world.tell(CLAIM, now)

    status = world.pre_bind(state, pod)

    assert status.is_success is not bool(problem)
    assert status.message.endswith(problem)


@pytest.mark.parametrize(
    ("others", "problem"),
    [
        ((), ""),
        ((make_claim("c", on="a", users=("p",)),), ""),
        ((make_claim("c", on="b", users=("p",)),), "got allocated elsewhere in the meantime"),
        (
            (make_claim("c", on="a", users=("p",)), make_claim("c")),
            "got deallocated elsewhere in the meantime",
        ),
    ],
    ids=["not written", "written", "written otherwise", "written and freed"],
)
def test_a_member_writes_a_shared_claim_only_while_its_devices_are_held(
    others: tuple[ResourceClaim, ...], problem: str
) -> None:
    """What was written and is free again may be another claim's by now."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    first, second = member_of("p", "c"), member_of("q", "c")
    world.reserved(first)
    state = world.reserved(second)
    for each in others:
        world.tell(CLAIM, each)

    status = world.pre_bind(state, second)

    assert status.is_success is not bool(problem)
    assert status.message.endswith(problem)
    given = [body["status"].get("allocation") for *_, body in world.api.sent if "status" in body]
    assert len(list(filter(None, given))) == (not others)


def test_a_member_that_comes_again_reserves_a_shared_claim_anew() -> None:
    """Its first attempt took the devices and ended before it wrote; another member has them yet."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    first, second = member_of("p", "c"), member_of("q", "c")
    state, _ = world.reserved(first), world.reserved(second)
    world.plugin.unreserve(state, first, "a")
    again = world.reserved(first)
    assert world.catalog.in_flight["c"].pods == ("q", "p")

    assert world.pre_bind(again, first) == SUCCESS

    [written] = [body["status"] for *_, body in world.api.sent if "status" in body]
    assert written["allocation"]
    assert written["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "p"}]


def test_the_devices_of_a_shared_claim_are_free_with_the_last_member() -> None:
    """A pod of another group, or of none, is not among those that share."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    first, second = member_of("p", "c"), member_of("q", "c")
    states = [world.reserved(first), world.reserved(second)]
    for other in (pod_of("c", name="r"), member_of("s", "c", group="h")):
        assert "in the process of being allocated" in world.attempt(other)[1].message

    for state, pod, held in zip(states, (first, second), ({"c"}, set()), strict=True):
        world.plugin.unreserve(state, pod, "a")
        assert set(world.catalog.devices.usage.allocations) == held


@pytest.mark.parametrize(
    ("now", "problem"),
    [
        (make_claim("c"), ""),
        (make_claim("c", deletionTimestamp=LONG_AGO), "got deleted in the meantime"),
        (make_claim("c", on="b"), "got allocated elsewhere in the meantime"),
        (make_claim("c", uid="another"), "got deleted in the meantime"),
    ],
)
def test_a_conflict_is_met_with_the_claim_as_it_is(now: ResourceClaim, problem: str) -> None:
    """It is read again; it may be another pod's by now."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    pod = pod_of("c")
    state = world.reserved(pod)
    world.api.failures = [ConflictError("409")]
    world.tell(CLAIM, now)

    status = world.pre_bind(state, pod)

    assert [method for method, *_ in world.api.sent][:2] == ["PATCH", "GET"]
    assert status.is_success is not bool(problem)
    assert status.message.endswith(problem)


@pytest.mark.parametrize(
    ("now", "problem"),
    [
        (make_claim("c", on="a", users=("p",)), ""),
        (make_claim("c", on="a", users=("q",)), "got allocated elsewhere in the meantime"),
        (make_claim("c", on="b", users=("p",)), "got allocated elsewhere in the meantime"),
        (make_claim("c", on="a", users=("p",), uid="another"), "got deleted in the meantime"),
    ],
    ids=["written", "another pod's", "other devices", "another claim"],
)
def test_a_write_whose_answer_is_lost_is_asked_about(now: ResourceClaim, problem: str) -> None:
    """Its devices may be taken though no watch shows it."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    state = world.reserved(pod_of("c"))
    world.api.failures = [None, UnavailableError("no answer")]
    world.tell(CLAIM, now)

    status = world.pre_bind(state, pod_of("c"))

    assert [method for method, *_ in world.api.sent] == ["PATCH", "PATCH", "GET"]
    assert status.is_success is not bool(problem)
    assert status.message.endswith(problem)


def test_a_claim_is_read_until_there_is_an_answer() -> None:
    """The API server may be down or busy for longer; until then the devices stay taken."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    state = world.reserved(pod_of("c"))
    busy = RequestError("busy")
    busy.status = 429
    world.api.failures = [None, UnavailableError("no answer"), UnavailableError("none again"), busy]
    world.tell(CLAIM, make_claim("c", on="a", users=("p",)))

    assert world.pre_bind(state, pod_of("c")) == SUCCESS
    assert [method for method, *_ in world.api.sent] == ["PATCH", "PATCH", "GET", "GET", "GET"]
    assert world.api.waited == [0.01, 5.0, 5.0]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {"kind": "Status", "status": "Success"},
        {"metadata": "c"},
        {"metadata": {"name": "c", "namespace": "default", "finalizers": 5}},
    ],
    ids=["nothing", "a list", "a Status", "a text", "a number for a list"],
)
def test_an_answer_that_is_no_claim_is_no_answer(answer: object) -> None:
    """The write was accepted, perhaps by something in between: the claim is read."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    state = world.reserved(pod_of("c"))
    world.tell(CLAIM, make_claim("c", on="a", users=("p",)))
    asked = world.api.request

    async def request(method: str, path: str, body: object = None) -> object:
        found = await asked(method, path, body)
        return answer if len(world.api.sent) in (2, 3) else found

    world.api.request = request  # type: ignore[method-assign]

    assert world.pre_bind(state, pod_of("c")) == SUCCESS
    assert [method for method, *_ in world.api.sent] == ["PATCH", "PATCH", "GET", "GET"]


def test_a_claim_that_cannot_be_read_ends_the_binding() -> None:
    """The right is missing, or the claim is gone: no later answer would be another."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    state = world.reserved(pod_of("c"))
    world.api.failures = [None, UnavailableError("no answer"), RequestError("403")]

    status = world.pre_bind(state, pod_of("c"))

    assert status == Status(Code.ERROR, ("get updated claim default/c after conflict: 403",))


def test_the_last_write_without_an_answer_is_asked_about_as_well() -> None:
    """After it the devices would be free for others."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    state = world.reserved(pod_of("c"))
    world.api.failures = [None, UnavailableError("no answer"), None] * 5
    asked = world.api.request

    async def request(method: str, path: str, body: object = None) -> object:
        if len(world.api.sent) == 14:
            world.tell(CLAIM, make_claim("c", on="a", users=("p",)))
        return await asked(method, path, body)

    world.api.request = request  # type: ignore[method-assign]

    assert world.pre_bind(state, pod_of("c")) == SUCCESS
    assert [m for m, *_ in world.api.sent] == ["PATCH", "PATCH", "GET"] * 5


def test_a_write_that_is_carried_out_after_it_was_asked_about_is_found() -> None:
    """The repeated write meets it as a conflict; alone it would give the devices away."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    state = world.reserved(pod_of("c"))
    lost, late = UnavailableError("no answer"), ConflictError("409")
    world.api.failures = [None, lost, None, None, late]
    asked = world.api.request

    async def request(method: str, path: str, body: object = None) -> object:
        if len(world.api.sent) == 4:
            world.tell(CLAIM, make_claim("c", on="a", users=("p",)))
        return await asked(method, path, body)

    world.api.request = request  # type: ignore[method-assign]

    assert world.pre_bind(state, pod_of("c")) == SUCCESS
    assert [m for m, *_ in world.api.sent] == ["PATCH", "PATCH", "GET", "PATCH", "PATCH", "GET"]


def test_a_write_that_was_lost_is_repeated_once_it_was_asked_about() -> None:
    """The first can no longer be carried out: the claim has another version."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    state = world.reserved(pod_of("c"))
    world.api.failures = [None, UnavailableError("no answer")]

    assert world.pre_bind(state, pod_of("c")) == SUCCESS
    assert [method for method, *_ in world.api.sent][:3] == ["PATCH", "PATCH", "GET"]
    *_, (_, _, written) = world.api.sent
    assert written["status"]["allocation"]


def test_conflicts_without_end_fail_the_binding() -> None:
    """After five tries, with the reason of the last."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    state = world.reserved(pod_of("c"))
    world.api.failures = [ConflictError("409"), None] * 5

    status = world.pre_bind(state, pod_of("c"))

    assert status == Status(Code.ERROR, ("add finalizer to claim default/c: 409",))
    assert [method for method, *_ in world.api.sent].count("PATCH") == 5


class TakesTurns(FakeApi):
    """Answers late, and sees how many write to one claim at a time."""

    def __init__(self, catalog: ClaimCatalog) -> None:
        super().__init__(catalog)
        self.turn = PodWrites(self).turn  # type: ignore[method-assign] # its other parts send
        self.writing: list[str] = []
        self.most = 0
        self.order: list[str] = []

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        self.writing.append(path)
        self.most = max(self.most, self.writing.count(path))
        for _ in range(3):
            await asyncio.sleep(0)
        self.writing.remove(path)
        self.order.append(body["status"]["reservedFor"][0]["name"])
        return await super().request(method, path, body)


def test_pods_that_share_a_claim_write_one_after_the_other() -> None:
    """In the order of their places; one that is cancelled while it waits holds up none."""
    world = World("a")
    world.plugin._handle._services.api = api = TakesTurns(world.catalog)
    world.claim("shared", on="a", users=("q",))
    world.claim("other", on="a", users=("q",))
    pods = [pod_of("shared", name=f"p-{i}") for i in range(5)]
    pods.append(pod_of("other", name="apart"))
    states = [world.reserved(pod) for pod in pods]

    async def all_at_once() -> list[Any]:
        tasks = []
        for at, (state, pod) in enumerate(zip(states, pods, strict=True)):
            with Place.of(-at, at).taken():
                tasks.append(asyncio.create_task(world.plugin.pre_bind(state, pod, "a")))
        await asyncio.sleep(0)
        tasks[2].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    answers = asyncio.run(all_at_once())

    assert [answer == SUCCESS for answer in answers] == [True, True, False, True, True, True]
    assert isinstance(answers[2], asyncio.CancelledError)
    assert [name for name in api.order if name != "apart"] == ["p-0", "p-4", "p-3", "p-1"]
    assert api.order.index("apart") < 2
    assert api.most == 1


def test_what_is_given_back_is_free_at_once() -> None:
    """The reservation of a claim that was written is taken back; the allocation stays."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    pod = pod_of("c")
    state = world.reserved(pod)
    assert world.plugin.unreserve(state, pod, "a") == []
    assert not world.catalog.devices.usage.allocations

    again = world.reserved(pod)
    world.claim("c", on="a", users=("p", "q"))
    left = world.plugin.unreserve(again, pod, "a")

    assert left == [
        Write(
            "PATCH",
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c/status",
            {
                "metadata": {"uid": "c"},
                "status": {"reservedFor": [{"$patch": "delete", "uid": "p"}]},
            },
        )
    ]
    assert set(world.catalog.devices.usage.allocations) == {"c"}


def test_what_a_pod_has_reserved_that_needs_no_node_is_left_to_the_controller() -> None:
    """The controller deallocates a claim only if it removes the last reservation itself."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    pod = pod_of("c")
    state = world.reserved(pod)
    world.claim("c", on="a", users=("p", "q"))
    state.write(NEEDS_NO_NODE, value=True)

    assert not world.plugin.unreserve(state, pod, "a")
    assert not world.catalog.in_flight


def test_the_last_reservation_stays() -> None:
    """If the pod ends before its next attempt, the controller removes it, and deallocates."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c")
    pod = pod_of("c")
    state = world.reserved(pod)
    world.claim("c", on="a", users=("p",))

    assert world.plugin.unreserve(state, pod, "a") == []


def test_the_last_reservation_stays_of_several() -> None:
    """Also if the bindings of several pods fail before an event shows the first removal."""
    world = World()
    world.devices("a", "gpu-0")
    world.claim("c", on="a")
    pods = [pod_of("c", name=name) for name in ("p", "q", "r")]
    states = [world.reserved(pod) for pod in pods]
    world.claim("c", on="a", users=("p", "q", "r"))

    def removed(number: int) -> bool:
        return bool(world.plugin.unreserve(states[number], pods[number], "a"))

    assert removed(0)
    # An event about something else shows no removal.
    world.claim("c", on="a", users=("p", "q", "r"))
    assert [removed(1), removed(2)] == [True, False]
    # A removed pod that has reserved the claim again counts again.
    world.claim("c", on="a", users=("r",))
    world.claim("c", on="a", users=("p", "r"))
    assert [removed(2), removed(0)] == [True, False]


@pytest.mark.parametrize("needs_node", [True, False])
def test_a_claim_for_extended_resources_stays_with_a_pod_that_needs_no_node(
    needs_node: bool,
) -> None:
    """Another client has bound it, and it runs with the claim; else the next attempt makes one."""
    world = World()
    world.devices("a", "gpu-0", "gpu-1")
    pod = extended(world)
    state = world.reserved(pod)
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    world.claim("made", owner=pod.uid, annotations=annotations)
    if not needs_node:
        state.write(NEEDS_NO_NODE, value=True)

    left = world.plugin.unreserve(state, pod, "a") or ()

    assert [write.method for write in left] == ["PATCH", "DELETE"] * needs_node
    assert not world.catalog.in_flight


# --- PostFilter -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("users", "reason"),
    [
        ((), "deallocation of ResourceClaim completed"),
        (("p",), "deallocation of ResourceClaim completed"),
        (("q",), "still not schedulable"),
    ],
)
def test_a_claim_that_is_in_the_way_is_freed(users: tuple[str, ...], reason: str) -> None:
    """Unless another pod uses it."""
    world = World("a")
    world.claim("c", on="gone", users=users)
    pod = pod_of("c")
    framework = make_framework(world.plugin)
    found = framework.filtering.find_nodes_that_fit(pod, world.snapshot)

    result, status = framework.run_post_filter_plugins(
        found.state, pod, world.snapshot, found.diagnosis(world.snapshot)
    )

    assert status.reasons == (reason,)
    writes = () if result is None else result.writes
    assert [write.body for write in writes] == (
        []
        if users == ("q",)
        else [
            {
                "metadata": {"uid": "c", "resourceVersion": "7"},
                "status": {"allocation": None, "reservedFor": None, "devices": None},
            }
        ]
    )


@pytest.mark.parametrize(
    ("full", "reason"),
    [
        ("a", "deallocation of ResourceClaim completed"),
        ("b", "still not schedulable"),
        ("ab", "still not schedulable"),
    ],
)
def test_a_claim_stays_where_another_filter_rejects_its_other_nodes(full: str, reason: str) -> None:
    """The pod waits for room: it loses its devices on `a` only for a node that has some."""
    world = World("a", "b")
    world.claim("c", on="a")
    pod = pod_of("c")
    framework = make_framework(ColumnFilter("Full", dict.fromkeys(full, 1)), world.plugin)
    found = framework.filtering.find_nodes_that_fit(pod, world.snapshot)

    result, status = framework.run_post_filter_plugins(
        found.state, pod, world.snapshot, found.diagnosis(world.snapshot)
    )

    assert status.reasons == (reason,)
    assert (result is not None) == reason.startswith("deallocation")


def test_a_claim_stays_where_a_nominated_pod_takes_the_room_of_its_other_node() -> None:
    """The node is evaluated without the nominated pod first, so also for devices."""
    world = World("a", "b")
    world.claim("c", on="a")
    pod = pod_of("c")
    framework = make_framework(ColumnFilter("Full", {"a": 1}), PodLimit(1), world.plugin)
    nominated = NominatedPods()
    nominated.nominate(make_pod_info("n"), "b")
    found = framework.filtering.find_nodes_that_fit(pod, world.snapshot, nominated=nominated)

    result, status = framework.run_post_filter_plugins(
        found.state, pod, world.snapshot, found.diagnosis(world.snapshot)
    )

    assert (result, status.reasons) == (None, ("still not schedulable",))


# --- extended resources ---------------------------------------------------------------------------


def extended(world: World, count: int = 2) -> PodInfo:
    """A pod that asks for GPUs as an extended resource, for which a class stands."""
    world.tell(CLASS, device_class("gpu", GPU), world.catalog.devices.classes["gpu"])
    return make_pod_info("p", requests={"cpu": 1, GPU: count})


def shown(world: World, pod: PodInfo, name: str = "made", **more: Any) -> None:
    """The watch shows a claim for a pod's extended resources."""
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    world.claim(name, owner=pod.uid, annotations=annotations, **more)


def test_an_extended_resource_gets_a_claim_of_its_own() -> None:
    """It is made, allocated, and named in the pod's status."""
    world = World()
    world.devices("a", "gpu-0", "gpu-1")
    pod = extended(world)
    state = world.reserved(pod)
    assert len(world.catalog.in_flight) == 1
    world.api.meanwhile = lambda: shown(world, pod, on="a")

    assert world.pre_bind(state, pod) == SUCCESS

    made, finalizer, status, of_pod = world.api.sent
    assert made[0] == "POST"
    assert {key: each.value for key, each in world.metrics.claim_creates.items()} == {"success": 1}
    assert made[2]["metadata"]["annotations"] == {
        "resource.kubernetes.io/extended-resource-claim": "true"
    }
    [asked] = made[2]["spec"]["devices"]["requests"]
    assert asked == {
        "name": "container-0-request-1",
        "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
    }
    assert finalizer[1].endswith("/resourceclaims/made")
    assert len(status[2]["status"]["allocation"]["devices"]["results"]) == 2
    assert of_pod[1] == f"/api/v1/namespaces/{pod.namespace}/pods/p/status"
    assert of_pod[2]["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": "made",
        "requestMappings": [
            {
                "containerName": pod.spec.containers[0].name,
                "resourceName": GPU,
                "requestName": "container-0-request-1",
            }
        ],
    }


def test_a_claim_that_cannot_be_made_fails_the_binding() -> None:
    """And is counted."""
    world = World()
    world.devices("a", "gpu-0", "gpu-1")
    pod = extended(world)
    state = world.reserved(pod)
    world.api.failures = [RequestError("403")]

    status = world.pre_bind(state, pod)

    assert status == Status(Code.ERROR, ("create claim for extended resources: 403",))
    assert {key: each.value for key, each in world.metrics.claim_creates.items()} == {"failure": 1}


@pytest.mark.parametrize("failing", [1, 2, 3], ids=["finalizer", "allocation", "status of the pod"])
def test_a_claim_that_was_made_is_deleted_though_no_watch_shows_it(failing: int) -> None:
    """The binding fails after it was made, and before the watch brings it."""
    world = World()
    world.devices("a", "gpu-0", "gpu-1")
    pod = extended(world)
    state = world.reserved(pod)
    world.api.failures = [None] * failing + [RequestError("500")]

    status = world.pre_bind(state, pod)

    assert status.code is Code.ERROR
    assert [(method, path.rpartition("/")[2]) for method, path, _ in world.api.sent[-2:]] == [
        ("PATCH", "made"),
        ("DELETE", "made"),
    ]
    # The engine's events do not tell of the claim, so what it says may not depend on it.
    assert world.plugin.unreserve(state, pod, "a") == []
    assert not world.catalog.devices.usage.allocations


def test_a_claim_that_cannot_be_deleted_is_named_in_the_failure() -> None:
    """Nothing else tells of it until the watch shows it."""
    world = World()
    world.devices("a", "gpu-0", "gpu-1")
    pod = extended(world)
    state = world.reserved(pod)
    world.api.failures = [None, RequestError("500"), RequestError("503")]

    assert world.pre_bind(state, pod).message == (
        "add finalizer to claim default/made: 500; "
        "claim default/made for extended resources is left: delete: 503"
    )
    assert len(world.api.sent) == 3


@pytest.mark.parametrize("is_shown", [True, False], ids=["unallocated", "never"])
def test_a_pod_is_not_bound_if_no_watch_shows_the_allocation_of_a_claim_that_was_made(
    *, is_shown: bool
) -> None:
    """Both may be gone before the watch is back, and no event would free the devices."""
    world = World()
    world.devices("a", "gpu-0", "gpu-1")
    pod = extended(world)
    state = world.reserved(pod)
    if is_shown:
        world.api.meanwhile = lambda: shown(world, pod)

    status = world.pre_bind(state, pod)
    left = world.plugin.unreserve(state, pod, "a")

    told = "claim default/made for extended resources is not seen allocated"
    assert status == Status(Code.ERROR, (told,))
    assert world.api.waited == [120.0]
    by_pre_bind = [method for method, *_ in world.api.sent[4:]]
    by_unreserve = [write.method for write in left or ()]
    deletion = ["PATCH", "DELETE"]
    assert (by_pre_bind, by_unreserve) == (([], deletion) if is_shown else (deletion, []))
    assert not world.catalog.devices.usage.allocations


@pytest.mark.parametrize("answer", ["deleted", 404, 500])
def test_other_claims_that_were_made_for_the_pod_are_deleted(answer: str | int) -> None:
    """An earlier attempt left one that the watch shows with the new one; no pod keeps two."""
    world = World()
    world.devices("a", "gpu-0", "gpu-1")
    pod = extended(world)
    state = world.reserved(pod)

    def meanwhile() -> None:
        shown(world, pod, "left")
        shown(world, pod, on="a")
        if answer != "deleted":
            problem = ConflictError(str(answer))
            problem.status = int(answer)
            world.api.failures = [problem]

    world.api.meanwhile = meanwhile
    status = world.pre_bind(state, pod)

    told = "claim default/left for extended resources is left: delete: 500"
    assert status == (Status(Code.ERROR, (told,)) if answer == 500 else SUCCESS)
    sent = [(method, path.rpartition("/")[2]) for method, path, _ in world.api.sent[4:]]
    assert sent == [("PATCH", "left"), ("DELETE", "left")][: 2 if answer == "deleted" else 1]
    left = world.plugin.unreserve(state, pod, "a")
    assert left is not None
    assert [write.path.rpartition("/")[2] for write in left] == ["left"] * 2 + ["made"] * 2


@pytest.mark.parametrize("is_shown", [True, False], ids=["late", "never"])
def test_devices_of_a_claim_that_was_made_get_ready_before_the_watch_shows_it(
    is_shown: bool,
) -> None:
    """It is waited for as long as kube-scheduler does."""
    world = World()
    world.devices("a", "gpu-0", bindingConditions=["Ready"])
    pod = extended(world, 1)
    state = world.reserved(pod)
    device = {"driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}
    ready = [{**device, "conditions": [{"type": "Ready", "status": "True"}]}]

    if is_shown:
        fields = {"devices": ready, "conditions": ("Ready",)}
        world.api.meanwhile = lambda: shown(world, pod, on="a", **fields)
    status = world.pre_bind(state, pod)

    missing = "claim default/made for extended resources is not seen allocated"
    assert status == (SUCCESS if is_shown else Status(Code.ERROR, (missing,)))
    assert world.api.waited[0] == 120.0


def test_a_resource_that_the_node_has_itself_is_not_waited_for() -> None:
    """The pod has a claim beside it whose devices must be made ready."""
    world = World("a")
    extended(world)
    world.snapshot = make_snapshot([make_node("a", allocatable={GPU: 2})])
    device = {"driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}
    ready = [{**device, "conditions": [{"type": "Ready", "status": "True"}]}]
    world.claim("c", on="a", conditions=("Ready",), users=("p",), devices=ready)
    pod = pod_of("c", containers=[{"name": "c", "resources": {"requests": {GPU: "1"}}}])
    state = world.reserved(pod)

    assert world.pre_bind(state, pod) == SUCCESS


def test_nodes_that_have_the_resource_themselves_need_no_claim() -> None:
    """Devices serve it on the others only."""
    world = World()
    world.snapshot = make_snapshot(
        [make_node("a"), make_node("b", allocatable={GPU: 2}), make_node("c")]
    )
    world.devices("a", "gpu-0", "gpu-1")
    pod = extended(world)
    state, status = world.attempt(pod)

    assert status == SUCCESS
    assert world.on_nodes(state, pod) == {"a": SUCCESS, "b": SUCCESS, "c": NOT_ALLOCATED}
    assert world.plugin.reserve(state, pod, "b") == SUCCESS
    assert not world.catalog.in_flight
    assert world.pre_bind(state, pod, "b") == SUCCESS
    assert world.api.sent == []


def test_a_claim_of_an_earlier_attempt_is_deleted() -> None:
    """It may be for another node; upstream's way is to begin anew."""
    world = World("a")
    world.devices("a", "gpu-0", "gpu-1")
    pod = extended(world)
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    gone = {"deviceClassName": "gone", "allocationMode": "ExactCount", "count": 1}
    requests = [{"name": "r", "exactly": gone}]
    world.claim("old", owner=pod.uid, annotations=annotations, requests=requests)
    framework = make_framework(world.plugin)
    found = framework.filtering.find_nodes_that_fit(pod, world.snapshot)
    diagnosis = found.diagnosis(world.snapshot)

    result, status = framework.run_post_filter_plugins(found.state, pod, world.snapshot, diagnosis)

    assert diagnosis.status_of("a").reasons == ("cannot schedule extended resource claim",)
    assert status.reasons == ("deletion of ResourceClaim completed",)
    assert result is not None
    assert [(write.method, write.path.rpartition("/")[2]) for write in result.writes] == [
        ("PATCH", "old"),
        ("DELETE", "old"),
    ]


def test_the_claim_that_the_watch_shows_takes_the_place_of_what_was_reserved() -> None:
    """Its devices count once, before and after, and go with it."""
    world = World("a")
    world.devices("a", "gpu-0")
    pod = extended(world, 1)
    world.reserved(pod)
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    world.claim("made", owner=pod.uid, annotations=annotations)
    assert len(world.catalog.in_flight) == 1

    claim = world.claim("made", on="a", owner=pod.uid, annotations=annotations)
    assert not world.catalog.in_flight
    assert set(world.catalog.devices.usage.allocations) == {"made"}

    world.catalog.on_event(CLAIM, claim, None)
    assert not world.catalog.devices.usage.allocations


# --- hints ----------------------------------------------------------------------------------------


def hint_of(world: World, resource: EventResource, action: ActionType) -> Any:
    """The hint that the plugin has registered."""
    [found] = [
        registered
        for registered in world.plugin.events_to_register()
        if registered.event.resource is resource and registered.event.action & action
    ]
    return found.queueing_hint


def histories() -> Iterator[Any]:
    new, allocated = make_claim("c"), make_claim("c", on="a")
    yield pytest.param(None, new, QueueingHint.QUEUE, id="its claim is new")
    yield pytest.param(new, allocated, QueueingHint.QUEUE, id="its claim changes")
    yield pytest.param(allocated, allocated, QueueingHint.SKIP, id="nothing that counts changes")
    other, freed = make_claim("x", on="a"), make_claim("x")
    yield pytest.param(other, freed, QueueingHint.QUEUE, id="another claim is freed")
    yield pytest.param(freed, other, QueueingHint.SKIP, id="another claim is allocated")
    yield pytest.param(None, freed, QueueingHint.SKIP, id="another claim is new")


@pytest.mark.parametrize(("old", "new", "expected"), [*histories()])
def test_what_changes_of_claims_wake_a_pod(
    old: ResourceClaim | None, new: ResourceClaim, expected: QueueingHint
) -> None:
    """Its own, and any that gives devices back; none while one of its own is missing."""
    world = World()
    hint = hint_of(world, EventResource.RESOURCE_CLAIM, ActionType.UPDATE)
    world.claim("c")
    world.tell(CLAIM, new)

    assert hint(pod_of("c"), old, new) is expected
    assert hint(pod_of("c", "missing"), old, new) is QueueingHint.SKIP


def test_a_claim_that_goes_wakes_a_pod() -> None:
    """Its own, as one for an extended resource that cannot be used, and any that had devices."""
    world = World()
    hint = hint_of(world, EventResource.RESOURCE_CLAIM, ActionType.DELETE)

    assert hint(pod_of(), make_claim("x", on="a"), None) is QueueingHint.QUEUE
    assert hint(pod_of(), make_claim("x"), None) is QueueingHint.SKIP
    assert hint(pod_of(), make_claim("x", owner="p"), None) is QueueingHint.QUEUE
    assert hint(pod_of(), make_claim("x", owner="q"), None) is QueueingHint.SKIP
    assert hint(pod_of("missing"), make_claim("x", on="a"), None) is QueueingHint.SKIP


def test_a_pod_whose_claims_are_named_is_woken() -> None:
    """By its own change only."""
    world = World()
    hint = hint_of(world, EventResource.POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    waiting = pod_of("template:t")
    named = pod_of("template:t", statuses={"t": "c"})
    assert hint(waiting, waiting, named) is QueueingHint.SKIP
    world.claim("c", owner="p")
    assert hint(waiting, waiting, named) is QueueingHint.QUEUE
    assert hint(pod_of("template:t", name="q"), waiting, named) is QueueingHint.SKIP


def test_slices_classes_and_nodes_wake_whatever_they_say() -> None:
    """As upstream."""
    for resource in (
        EventResource.RESOURCE_SLICE,
        EventResource.DEVICE_CLASS,
        EventResource.NODE,
    ):
        assert hint_of(World(), resource, ActionType.ADD) is None
