"""Slices, claims and classes with what few have: nothing in them, doubles, zeros, unknown names."""

from collections.abc import Callable, Sequence

from typing_extensions import override

from tests.parity.generator.cluster import Cluster
from tests.parity.generator.device_requests import ANY, EXTENDED
from tests.parity.generator.device_slices import GPU, NIC, NUMA, TAINT_KEYS
from tests.parity.generator.draw import HOSTNAME, RACK, Draw, Object
from tests.parity.generator.feature import Feature

LONG_AGO = "2026-01-02T03:04:05Z"
MOST_READERS = 256
SAFE_SELECTORS = (
    "true",
    "false",
    'has(device.attributes["gpu.example.com"].model)',
    '!has(device.attributes["gpu.example.com"].model)',
    'device.attributes["unknown.example.org"].size() == 0',
    '"index" in device.attributes["gpu.example.com"]',
    'device.attributes["gpu.example.com"].?none.orValue("x") == "x"',
    'device.capacity["gpu.example.com"].?memory.orValue(quantity("1Gi")).asInteger() > 2',
    'device.driver in ["gpu.example.com"]',
    'device.attributes.size() >= 0 && device.driver != ""',
)


class OddDevices(Feature):
    """Changes objects that `Devices` has made; `density` is how often one is changed.

    Comes last: it sees the objects that other pods' features made before each pod's own.
    """

    def __init__(self, density: float = 0.8, *, configured: float = 0.0) -> None:
        super().__init__(density, configured=configured)
        self._seen: set[int] = set()

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        for found in cluster.others:
            if id(found) not in self._seen:
                self._seen.add(id(found))
                changes = CHANGES.get(found["kind"])
                if changes and draw.maybe(self.density):
                    draw.pick(changes)(draw, found)
        claims = pod["spec"].get("resourceClaims", ())
        if claims and draw.maybe(0.1):
            # No container reads them.
            pod["spec"]["containers"][0]["resources"].pop("claims")


def _fewer_devices(draw: Draw, found: Object) -> None:
    devices = found["spec"].get("devices")
    if devices:
        found["spec"]["devices"] = devices[: draw.pick((0, 0, 1))]


def _plain_devices(draw: Draw, found: Object) -> None:
    for device in found["spec"].get("devices", ()):
        if draw.maybe(0.5):
            kept = draw.pick(({}, {"model": {"string": ""}}, {"index": {"int": 0}}, None))
            device.pop("attributes", None)
            if kept is not None:
                device["attributes"] = kept
        if draw.maybe(0.4) and not device.get("allowMultipleAllocations"):
            device.pop("capacity", None)
            if draw.maybe(0.7):
                device["capacity"] = {
                    "memory": {"value": draw.pick(("0", "1e3", "80e9", "0.5Gi", "8Ei", "1m"))}
                }


def _odd_attributes(draw: Draw, found: Object) -> None:
    for device in found["spec"].get("devices", ()):
        attributes = device.setdefault("attributes", {})
        attributes[draw.pick(("model", NUMA, f"{GPU}/model", f"{NIC}/kind", "other.org/x"))] = (
            draw.pick(
                (
                    {"string": "A100"},
                    {"string": ""},
                    {"int": -(2**63)},
                    {"int": 2**63 - 1},
                    {"bool": False},
                    {"version": "1.0.0-alpha.1+build.5"},
                    {"version": "0.0.0"},
                )
            )
        )


def _odd_taints(draw: Draw, found: Object) -> None:
    for device in found["spec"].get("devices", ()):
        device["taints"] = [
            {
                "key": draw.pick((*TAINT_KEYS, "plain")),
                "effect": draw.pick(("NoSchedule", "NoExecute", "None")),
                **({"value": "a.b-c"} if draw.maybe(0.3) else {}),
                **({"timeAdded": LONG_AGO} if draw.maybe(0.5) else {}),
            }
            for _ in range(draw.randint(0, 3))
        ]


def _odd_pool(draw: Draw, found: Object) -> None:
    pool = found["spec"]["pool"]
    change = draw.random()
    if change < 0.4:
        pool["generation"] = draw.pick((0, 2**62))
    elif change < 0.7:
        pool["resourceSliceCount"] = draw.pick((1, 2, 2**40))
    else:
        pool["name"] = f"a/{draw.getrandbits(32):x}"


def _elsewhere(draw: Draw, found: Object) -> None:
    spec = found["spec"]
    if spec.get("perDeviceNodeSelection"):
        return
    for key in ("nodeName", "allNodes", "nodeSelector"):
        spec.pop(key, None)
    spec.update(
        draw.pick(
            (
                {"nodeName": "node-gone"},
                {"allNodes": True},
                {"nodeSelector": {"nodeSelectorTerms": [_term(RACK, "In", ["", "a"])]}},
                {"nodeSelector": {"nodeSelectorTerms": [_term(HOSTNAME, "DoesNotExist", [])]}},
                {"nodeSelector": {"nodeSelectorTerms": [_term("rank", "Gt", ["4"])]}},
                {"nodeSelector": {"nodeSelectorTerms": [{}]}},
            )
        )
    )


def _term(key: str, operator: str, values: list[str]) -> Object:
    requirement: Object = {"key": key, "operator": operator}
    return {"matchExpressions": [{**requirement, **({"values": values} if values else {})}]}


def _no_counters(draw: Draw, found: Object) -> None:
    for device in found["spec"].get("devices", ()):
        for consumed in device.get("consumesCounters", ()):
            for counter in consumed["counters"].values():
                counter["value"] = draw.pick(("0", "1", "1e0", "500m", "100"))


def _no_requests(draw: Draw, found: Object) -> None:
    """Ask for nothing; an allocated claim names requests, and keeps them."""
    if "status" not in found:
        spec = found["spec"]
        target = spec["spec"] if found["kind"] == "ResourceClaimTemplate" else spec
        target["devices"] = draw.pick(({}, {"requests": []}))


def _requests(found: Object) -> list[Object]:
    spec = found["spec"]
    devices = (spec["spec"] if found["kind"] == "ResourceClaimTemplate" else spec)["devices"]
    return [
        wanted
        for request in devices.get("requests", ())
        for wanted in (request.get("firstAvailable") or [request["exactly"]])
    ]


def _odd_requests(draw: Draw, found: Object) -> None:
    for wanted in _requests(found):
        change = draw.random()
        if change < 0.15:
            wanted.pop("count", None)
            wanted["allocationMode"] = draw.pick(("All", "ExactCount"))
            if wanted["allocationMode"] == "ExactCount":
                wanted["count"] = draw.pick((1, 5, 32, 33, 2**40))
        elif change < 0.55:
            texts = draw.some(SAFE_SELECTORS, 0, 3)
            wanted["selectors"] = [{"cel": {"expression": text}} for text in texts]
        elif change < 0.75:
            wanted["capacity"] = draw.pick(
                (
                    {},
                    {"requests": {}},
                    {"requests": {"memory": "0"}},
                    {"requests": {"memory": "1m"}},
                    {"requests": {"unknown": "1"}},
                    {"requests": {f"{GPU}/memory": "40Gi"}},
                    {"requests": {"bandwidth": "0"}},
                    {"requests": {"bandwidth": "1e9"}},
                )
            )
        else:
            wanted["tolerations"] = draw.some(
                (
                    {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
                    {"key": TAINT_KEYS[0], "operator": "Exists", "effect": "NoSchedule"},
                    {"key": "plain", "operator": "Equal", "value": "a.b-c"},
                    {"key": "plain", "operator": "Equal"},
                    {"key": "plain"},
                    {"operator": "Exists", "effect": "NoSchedule"},
                ),
                0,
                3,
            )


def _odd_constraints(draw: Draw, found: Object) -> None:
    spec = found["spec"]
    devices = (spec["spec"] if found["kind"] == "ResourceClaimTemplate" else spec)["devices"]
    names = [request["name"] for request in devices.get("requests", ())]
    devices["constraints"] = [
        {
            draw.pick(("matchAttribute", "matchAttribute", "distinctAttribute")): draw.pick(
                (f"{GPU}/absent", NUMA, f"{GPU}/healthy", "other.org/x", f"{NIC}/mtu")
            ),
            **draw.pick(({}, {"requests": []}, {"requests": names[:1]})),
        }
        for _ in range(draw.pick((0, 1, 3)))
    ]


def _odd_status(draw: Draw, found: Object) -> None:
    status = found.get("status", {})
    allocation = status.get("allocation")
    if not allocation:
        return
    change = draw.random()
    if change < 0.25:
        # As many readers as a claim may have.
        status["reservedFor"] = [
            {"resource": "pods", "name": f"reader-{i}", "uid": f"reader-{i}"}
            for i in range(draw.pick((MOST_READERS - 1, MOST_READERS)))
        ]
    elif change < 0.4:
        status["reservedFor"] = [
            {"apiGroup": "example.com", "resource": "jobs", "name": "job", "uid": "job"}
        ]
    elif change < 0.6:
        allocation.pop("nodeSelector", None)
    elif change < 0.8:
        allocation["nodeSelector"] = {
            "nodeSelectorTerms": draw.pick(
                (
                    [{}],
                    [_term("rank", "Gt", ["4"])],
                    [_term(RACK, "In", [""]), _term(HOSTNAME, "In", ["n1", "n2"])],
                    [_term(HOSTNAME, "Exists", [])],
                )
            )
        }
    else:
        # A claim that is being deleted gets no new reader.
        status.pop("reservedFor", None)
        found["metadata"]["deletionTimestamp"] = LONG_AGO
        found["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]


def _odd_class(draw: Draw, found: Object) -> None:
    spec = found["spec"]
    change = draw.random()
    if change < 0.3:
        spec["selectors"] = []
        spec.pop("extendedResourceName", None)
    elif change < 0.6:
        spec.setdefault("selectors", []).append(
            {"cel": {"expression": draw.pick(("true", "false", "has(device.driver)"))}}
        )
        if spec["selectors"][-1]["cel"]["expression"].startswith("has"):
            spec["selectors"].pop()
    elif "extendedResourceName" in spec:
        spec["extendedResourceName"] = draw.pick((EXTENDED, ANY, "example.com/other"))


CHANGES: dict[str, Sequence[Callable[[Draw, Object], None]]] = {
    "ResourceSlice": (
        _fewer_devices,
        _plain_devices,
        _odd_attributes,
        _odd_taints,
        _odd_pool,
        _elsewhere,
        _no_counters,
    ),
    "ResourceClaim": (_no_requests, _odd_requests, _odd_requests, _odd_constraints, _odd_status),
    "ResourceClaimTemplate": (_no_requests, _odd_requests, _odd_constraints),
    "DeviceClass": (_odd_class,),
}
