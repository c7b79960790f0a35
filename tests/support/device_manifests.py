"""Slices, classes, claims and pods of devices as objects in a file."""

from typing import Any

API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
Object = dict[str, Any]


def slice_manifest(node: str, *devices: Object | str, **more: Any) -> Object:
    """The devices of a node, by name or as objects."""
    listed = [{"name": each} if isinstance(each, str) else each for each in devices]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": listed, **more}
    return {"kind": "ResourceSlice", "apiVersion": API, "metadata": {"name": node}, "spec": spec}


def device(name: str, *taints: str, **attributes: str) -> Object:
    """A device with attributes, and with taints of the effect NoSchedule."""
    found: Object = {"name": name}
    found["attributes"] = {key: {"string": value} for key, value in attributes.items()}
    found["taints"] = [{"key": key, "value": "1", "effect": "NoSchedule"} for key in taints]
    return found


def class_manifest(name: str = "gpu", expression: str = "true", **more: Any) -> Object:
    """A device class."""
    spec = {"selectors": [{"cel": {"expression": expression}}], **more}
    return {"kind": "DeviceClass", "apiVersion": API, "metadata": {"name": name}, "spec": spec}


def request(name: str = "gpu", count: int = 1, *expressions: str, **more: Any) -> Object:
    """A request for some devices of the class gpu."""
    selectors = [{"cel": {"expression": each}} for each in expressions]
    exactly = {"deviceClassName": "gpu", "count": count, "selectors": selectors, **more}
    return {"name": name, "exactly": exactly}


def claim_manifest(
    name: str,
    *requests: Object,
    has: tuple[str, ...] = (),
    users: tuple[str, ...] = (),
    constraints: tuple[Object, ...] = (),
) -> Object:
    """A claim; it has the devices of `has`, given as `node/device`, and is of the pods `users`."""
    status: Object = {}
    if has:
        results = [
            {"request": "gpu", "driver": DRIVER, "pool": pool, "device": found}
            for pool, _, found in (each.partition("/") for each in has)
        ]
        values = [has[0].partition("/")[0]]
        field = {"key": "metadata.name", "operator": "In", "values": values}
        where = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        status["allocation"] = {"devices": {"results": results}, "nodeSelector": where}
        status["reservedFor"] = [{"resource": "pods", "name": u, "uid": u} for u in users]
    asked = {"requests": list(requests) or [request()], "constraints": list(constraints)}
    metadata = {"name": name, "namespace": "default"}
    return {
        "kind": "ResourceClaim",
        "apiVersion": API,
        "metadata": metadata,
        "spec": {"devices": asked},
        "status": status,
    }


def template_manifest(name: str, *requests: Object) -> Object:
    """A template of claims."""
    spec = {"spec": {"devices": {"requests": list(requests) or [request()]}}}
    metadata = {"name": name, "namespace": "default"}
    return {
        "kind": "ResourceClaimTemplate",
        "apiVersion": API,
        "metadata": metadata,
        "spec": spec,
    }


def using(*claims: str) -> list[Object]:
    """What a pod says of claims that it uses by name."""
    return [{"name": name, "resourceClaimName": name} for name in claims]


def made_from(*templates: str) -> list[Object]:
    """What a pod says of claims that are made for it."""
    return [{"name": name, "resourceClaimTemplateName": name} for name in templates]
