"""Objects for histories with all sorts of devices, of which there are few.

Slices, classes and requests are those of the family `devices`: shares with request policies,
partitions with counters, taints, prioritized lists, binding conditions, admin access, and extended
resources that a class stands for. Each pool has one count, and no more slices than that.
"""

from collections.abc import Callable
from dataclasses import replace

from tests.parity.generator.device_requests import (
    ANY,
    EXTENDED,
    IMPLICIT,
    claim_spec,
    device_classes,
)
from tests.parity.generator.device_slices import GPU, NIC, Habits, publish
from tests.parity.generator.devices import ADMIN_LABEL
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.histories import make_case_of
from tests.parity.generator.history_claims import API, name_claims
from tests.parity.generator.wide_devices import publish_wide

MARK = "anything"
"""The class that every such case has."""
PREEMPTING = 0.3
"""The share of cases whose pods may preempt others."""
MODEST = 0.7
"""The share of claims that most devices satisfy."""
RESOURCES = (EXTENDED, EXTENDED, "example.com/big-gpu", "example.com/interface", ANY)
IMPLICIT_RESOURCES = (f"{IMPLICIT}gpu", f"{IMPLICIT}nic")


def make_devices_history_case(seed: int) -> Object:
    """Make the objects of one seed; the same seed always makes the same objects."""
    preemption = Draw(f"history with devices and preemption:{seed}")
    case = make_case_of(seed, preemption if preemption.maybe(PREEMPTING) else None)
    return with_devices(seed, case)


def with_devices(
    seed: int, case: Object, may_have: Callable[[Object], bool] = lambda _: True
) -> Object:
    """Let some pods without a node have devices; change the case, and return one with slices."""
    draw = Draw(f"history with devices:{seed}")
    objects, habits = case["objects"], habits_of(seed)
    nodes = [each for each in objects if each["kind"] == "Node"]
    names = [each["metadata"]["name"] for each in nodes]
    asked = draw.pick((0.0, 0.0, 0.3, 0.6))
    for each in objects:
        if each["kind"] == "Namespace" and draw.maybe(0.25):
            each["metadata"].setdefault("labels", {})[ADMIN_LABEL] = "true"
    for node in nodes:
        if asked and draw.maybe(0.3):
            amount = draw.pick(("0", "1", "2"))
            for key in ("allocatable", "capacity"):
                node["status"][key][EXTENDED] = amount
    slices = publish(draw, draw.some(names, 1, 3), habits).slices
    density, claims = draw.pick((0.4, 0.7, 0.9)), dict[str, list[Object]]()
    for pod in objects:
        if pod["kind"] != "Pod" or "nodeName" in pod["spec"] or not may_have(pod):
            continue
        may_ask, may_claim = draw.maybe(asked), draw.maybe(density)
        if may_ask:
            ask(draw, pod)
        if may_claim and not (may_ask and draw.maybe(0.7)):
            # Of two plugins that gate a pod kube-scheduler asks any first.
            pod["spec"].pop("schedulingGates", None)
            # A nomination of a pod that is gated when it comes does not count: see docs/parity.md.
            pod["status"].pop("nominatedNodeName", None)
            admin = is_admin(objects, pod["metadata"].get("namespace"))
            maker = ClaimMaker(habits, admin=admin)
            name_claims(draw, pod, claims, maker)
    made = [claim for some in claims.values() for claim in some]
    draw.shuffle(made)
    return {**case, "objects": [*_classes(draw, extended=asked > 0), *slices, *made, *objects]}


def make_wide_history_case(seed: int) -> Object:
    """Make the objects of one seed, with pools that several nodes publish together."""
    case, draw = make_devices_history_case(seed), Draw(f"history with wide pools:{seed}")
    nodes = [each["metadata"]["name"] for each in case["objects"] if each["kind"] == "Node"]
    wide = publish_wide(draw, draw.some(nodes, 2, 4), habits_of(seed))
    return {**case, "objects": [*wide.slices, *case["objects"]]}


def has_devices(case: Object) -> bool:
    """Whether a case is one of those with all sorts of devices."""
    return any(
        each["kind"] == "DeviceClass" and each["metadata"]["name"] == MARK
        for each in case["objects"]
    )


def habits_of(seed: int) -> Habits:
    """How the drivers of a case publish."""
    draw = Draw(f"habits of drivers:{seed}")
    return replace(Habits.drawn(draw), unfinished=0.0, conditions=draw.pick((0.0, 0.0, 0.4, 0.8)))


def is_admin(objects: list[Object], namespace: str | None) -> bool:
    """Whether claims of a namespace may ask for admin access."""
    return any(
        each["kind"] == "Namespace"
        and each["metadata"]["name"] == (namespace or "default")
        and ADMIN_LABEL in each["metadata"].get("labels", {})
        for each in objects
    )


class ClaimMaker:
    """Makes claims of a case, as the API server holds them."""

    def __init__(self, habits: Habits, *, admin: bool) -> None:
        self._habits = habits
        self._admin = admin

    def __call__(self, draw: Draw, name: str, namespace: str | None) -> Object:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        spec = claim_spec(draw, self._habits, admin=self._admin, fragile=0.0)
        if draw.maybe(MODEST):
            _moderate(draw, spec["devices"])
        _configure(draw, spec["devices"])
        for request in spec["devices"]["requests"]:
            for wanted in (request.get("exactly"), *request.get("firstAvailable", ())):
                if (
                    wanted is not None
                    and wanted.setdefault("allocationMode", "ExactCount") != "All"
                ):
                    wanted.setdefault("count", 1)
        kind = {"apiVersion": API, "kind": "ResourceClaim", "metadata": metadata}
        return {**kind, "spec": spec, "status": {}}


def _moderate(draw: Draw, wanted: Object) -> None:
    """Let a claim ask for one thing that most devices are."""
    wanted.pop("constraints", None)
    wanted["requests"] = wanted["requests"][:1]
    [request] = wanted["requests"]
    for each in _alternatives(request):
        each.pop("selectors", None)
        each["count"] = draw.pick((1, 1, 1, 2))
        if each.pop("allocationMode", None) or each["deviceClassName"] in ("gone", "second-gpu"):
            each["deviceClassName"] = draw.pick(("gpu", "nic"))


def _configure(draw: Draw, wanted: Object) -> None:
    """Let a claim have settings for all its requests, or for some or parts of them."""
    names = [request["name"] for request in wanted["requests"]]
    parts = [
        f"{request['name']}/{each['name']}"
        for request in wanted["requests"]
        for each in request.get("firstAvailable", ())
    ]
    settings = [
        {"requests": draw.some((*names, *parts), 0, 2), **_setting(draw)}
        for _ in range(draw.pick((0, 0, 0, 1, 2)))
    ]
    if settings:
        wanted["config"] = settings


def _setting(draw: Draw) -> Object:
    parameters = {"mode": draw.pick(("fast", "slow")), "deep": {"list": [1, {"x": ""}]}}
    return {"opaque": {"driver": draw.pick((GPU, NIC)), "parameters": parameters}}


def _alternatives(request: Object) -> list[Object]:
    exactly = [request["exactly"]] if "exactly" in request else []
    return [*exactly, *request.get("firstAvailable", ())]


def ask(draw: Draw, pod: Object) -> None:
    """Let containers request extended resources."""
    containers = pod["spec"]["containers"]
    if draw.maybe(0.2):
        containers.append({"name": "second", "image": "registry.example/main:1"})
    inits: list[Object] = []
    if draw.maybe(0.25):
        inits.append({"name": "init", "image": "registry.example/init:1"})
        if draw.maybe(0.4):
            inits[0]["restartPolicy"] = "Always"
        pod["spec"].setdefault("initContainers", []).extend(inits)
    for container in (*containers, *inits):
        resources = container.setdefault("resources", {})
        limits, requests = resources.setdefault("limits", {}), resources.setdefault("requests", {})
        for resource in draw.some((*RESOURCES, *RESOURCES, *IMPLICIT_RESOURCES), 1, 1):
            limits[resource] = requests[resource] = draw.pick(("1", "1", "1", "2", "0"))


def _classes(draw: Draw, *, extended: bool) -> list[Object]:
    """Make the classes; that with the mark is always there."""
    while True:
        classes = device_classes(draw, extended=extended)
        if any(each["metadata"]["name"] == MARK for each in classes):
            break
    for each in classes:
        settings = [_setting(draw) for _ in range(draw.pick((0, 0, 1, 2)))]
        if settings:
            each["spec"]["config"] = settings
    return classes
