"""Objects for histories with resource claims: few devices, and pods that share and wait for them.

Nodes publish devices of their own; others are for some nodes, or for all. Claims have no parts that
`tests.parity.generator.devices` draws: these are about the decision, histories about its results.
"""

from collections.abc import Callable

from tests.parity.generator.draw import ZONE, Draw, Object
from tests.parity.generator.histories import make_case_of

API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
CLASSES = {
    "gpu": f'device.driver == "{DRIVER}"',
    "fast": f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].model == "fast"',
}
MODELS = ("fast", "slow", "slow")
FINALIZER = "resource.kubernetes.io/delete-protection"
TEMPLATE = "template"
PREEMPTING = 0.5
"""The share of cases whose pods may preempt others."""


def make_claims_history_case(seed: int) -> Object:
    """Make the objects of one seed; the same seed always makes the same objects."""
    preemption = Draw(f"history with claims and preemption:{seed}")
    case = make_case_of(seed, preemption if preemption.maybe(PREEMPTING) else None)
    return with_claims(Draw(f"history with claims:{seed}"), case)


def with_claims(
    draw: Draw, case: Object, may_have: Callable[[Object], bool] = lambda _: True
) -> Object:
    """Let some pods without a node have claims; change the case, and return one with devices."""
    objects = case["objects"]
    nodes = [each["metadata"]["name"] for each in objects if each["kind"] == "Node"]
    added = [device_class(name, expression) for name, expression in CLASSES.items()]
    slices = [
        *(new_slice(draw, name, {"nodeName": name}) for name in draw.some(nodes, 1, 4)),
        *([new_slice(draw, "everywhere", {"allNodes": True})] if draw.maybe(0.4) else []),
        *([new_slice(draw, "zone", _in_zone(draw))] if draw.maybe(0.4) else []),
    ]
    density, claims = draw.pick((0.4, 0.7, 0.9)), dict[str, list[Object]]()
    for pod in objects:
        is_waiting = pod["kind"] == "Pod" and "nodeName" not in pod["spec"]
        if is_waiting and may_have(pod) and draw.maybe(density):
            # Of two plugins that gate a pod kube-scheduler asks any first.
            pod["spec"].pop("schedulingGates", None)
            name_claims(draw, pod, claims, new_claim)
    made = [claim for some in claims.values() for claim in some]
    draw.shuffle(made)
    return {**case, "objects": [*added, *slices, *made, *objects]}


def has_claims(case: Object) -> bool:
    """Whether a case is one of those with claims."""
    return any(each["kind"] == "DeviceClass" for each in case["objects"])


def name_claims(
    draw: Draw,
    pod: Object,
    claims: dict[str, list[Object]],
    make: Callable[[Draw, str, str | None], Object],
) -> None:
    """Let a pod name claims by themselves or by template; `claims` are those of each namespace."""
    there = claims.setdefault(pod["metadata"].get("namespace", "default"), [])
    number = sum(map(len, claims.values()))
    named: list[Object] = []
    for index in range(draw.pick((1, 1, 1, 2))):
        entry: Object = {"name": f"r{index}"}
        if draw.maybe(0.25):
            entry["resourceClaimTemplateName"] = TEMPLATE
        elif there and draw.maybe(0.35):
            entry["resourceClaimName"] = draw.pick(there)["metadata"]["name"]
        else:
            claim = make(draw, f"c-{number + index}", pod["metadata"].get("namespace"))
            there.append(claim)
            entry["resourceClaimName"] = claim["metadata"]["name"]
        if entry.get("resourceClaimName") not in [
            each.get("resourceClaimName", "") for each in named
        ]:
            named.append(entry)
    pod["spec"]["resourceClaims"] = named
    resources = pod["spec"]["containers"][0].setdefault("resources", {})
    resources["claims"] = [{"name": entry["name"]} for entry in named]


def new_claim(draw: Draw, name: str, namespace: str | None) -> Object:
    """Make a claim for one or two devices, or for one of two kinds."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    claim = {"apiVersion": API, "kind": "ResourceClaim", "metadata": metadata}
    return {**claim, "spec": {"devices": {"requests": [_request(draw)]}}, "status": {}}


def _request(draw: Draw) -> Object:
    if draw.maybe(0.15):
        names = draw.some((*CLASSES, *CLASSES, *CLASSES, "gone"), 2, 2)
        alternatives = [
            {"name": f"a{index}", **_wanted(name, 1)} for index, name in enumerate(names)
        ]
        return {"name": "r", "firstAvailable": alternatives}
    name = draw.pick((*("gpu",) * 16, *("fast",) * 7, "gone"))
    return {"name": "r", "exactly": _wanted(name, draw.pick((1, 1, 1, 2)))}


def _wanted(name: str, count: int) -> Object:
    return {"deviceClassName": name, "allocationMode": "ExactCount", "count": count}


def device_class(name: str, expression: str) -> Object:
    """Make a class of devices."""
    kind = {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}}
    return {**kind, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def new_slice(draw: Draw, name: str, where: Object) -> Object:
    """Make a slice that is a pool of its own."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, **where, "pool": pool}
    spec["devices"] = [new_device(draw, f"d{number}") for number in range(draw.randint(1, 3))]
    kind = {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": f"slice-{name}"}}
    return {**kind, "spec": spec}


def new_device(draw: Draw, name: str) -> Object:
    """Make a device of one of the models."""
    return {"name": name, "attributes": {"model": {"string": draw.pick(MODELS)}}}


def _in_zone(draw: Draw) -> Object:
    values = [draw.pick(("z1", "z2"))]
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": values}]}]
    return {"nodeSelector": {"nodeSelectorTerms": terms}}
