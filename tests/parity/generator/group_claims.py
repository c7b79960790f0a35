"""Pod groups whose members name claims for devices that are not allocated: they share them.

All nodes reach the devices: where they do not, kube-scheduler 1.36 sends the second member to a
node without its device. And one group alone has claims: the judge does not keep the devices of an
attempt for the next one.
"""

from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.groups import make_groups_case, make_topology_case

_API = "resource.k8s.io/v1"
_DRIVER = "gpu.example.com"


def make_claims_case(seed: int) -> Object:
    """Make the case of one seed in which the members of a group share claims."""
    return _with_claims(make_groups_case(seed), Draw(f"claims:{seed}"))


def make_claims_topology_case(seed: int) -> Object:
    """Make the case of one seed with claims and racks."""
    return _with_claims(make_topology_case(seed), Draw(f"claims-topology:{seed}"))


def _with_claims(case: Object, draw: Draw) -> Object:
    members: dict[tuple[str, str], list[Object]] = {}
    for each in case["objects"]:
        if each["kind"] == "Pod" and "nodeName" not in each["spec"]:
            group = each["spec"].get("schedulingGroup", {}).get("podGroupName")
            if group:
                key = each["metadata"].get("namespace", "default"), group
                members.setdefault(key, []).append(each)
    if not members:
        return case
    namespace, group = draw.pick(sorted(members))
    claims = [f"shared-{number}" for number in range(draw.randint(1, 2))]
    for pod in members[namespace, group]:
        named = [name for name in claims if draw.maybe(0.7)]
        _name_claims(pod, named)
    wanted = [_claim(name, namespace, draw.randint(1, 2)) for name in claims]
    added = [_device_class(), _slice(draw.randint(1, 4)), *wanted]
    return {**case, "objects": [*case["objects"], *added]}


def _name_claims(pod: Object, claims: list[str]) -> None:
    first, *others = pod["spec"]["containers"]
    resources = {**first.get("resources", {}), "claims": [{"name": name} for name in claims]}
    pod["spec"] = {
        **pod["spec"],
        "containers": [{**first, "resources": resources}, *others],
        "resourceClaims": [{"name": name, "resourceClaimName": name} for name in claims],
    }


def _device_class() -> Object:
    selector = {"cel": {"expression": f'device.driver == "{_DRIVER}"'}}
    metadata = {"name": "gpu"}
    return {
        "apiVersion": _API,
        "kind": "DeviceClass",
        "metadata": metadata,
        "spec": {"selectors": [selector]},
    }


def _slice(count: int) -> Object:
    return {
        "apiVersion": _API,
        "kind": "ResourceSlice",
        "metadata": {"name": "everywhere"},
        "spec": {
            "driver": _DRIVER,
            "allNodes": True,
            "pool": {"name": "everywhere", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"d{number}"} for number in range(count)],
        },
    }


def _claim(name: str, namespace: str, count: int) -> Object:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    return {
        "apiVersion": _API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
