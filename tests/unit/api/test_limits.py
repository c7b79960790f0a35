"""How much one pod may ask of the scheduler."""

from typing import Any

import msgspec
import pytest

from scheduler.api.limits import (
    MAX_CONTAINERS,
    MAX_HOST_PORTS,
    MAX_MONITORS,
    MAX_NODE_REQUIREMENTS,
    MAX_NODE_VALUES,
    MAX_POD_TERMS,
    MAX_RESOURCE_CLAIMS,
    MAX_RESOURCE_NAMES,
    MAX_SPREAD_CONSTRAINTS,
    MAX_TOLERATIONS,
    MAX_VOLUMES,
    exceeded_limit,
)
from scheduler.api.objects import Pod
from scheduler.api.pods import pod_info


def requests(count: int) -> dict[str, Any]:
    return container(resources={"requests": {f"example.com/r{i}": "1" for i in range(count)}})


def host_ports(count: int) -> dict[str, Any]:
    ports = [{"containerPort": 1 + i, "hostPort": 1 + i} for i in range(count)]
    return container(ports=ports)


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", **fields}]}


def node_selector(count: int) -> dict[str, Any]:
    return {"nodeSelector": {f"k{i}": "v" for i in range(count)}}


def node_values(count: int) -> dict[str, Any]:
    values = [f"v{i}" for i in range(count)]
    term = {"matchExpressions": [{"key": "k", "operator": "In", "values": values}]}
    terms = {"nodeSelectorTerms": [term]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"affinity": {"nodeAffinity": required}}


def pod_terms(count: int) -> dict[str, Any]:
    terms = [{"topologyKey": f"k{i}", "labelSelector": {}} for i in range(count)]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"affinity": {"podAntiAffinity": required}}


def constraints(count: int) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    keys = (f"k{i}" for i in range(count))
    return {"topologySpreadConstraints": [{**constraint, "topologyKey": key} for key in keys]}


def tolerations(count: int) -> dict[str, Any]:
    return {"tolerations": [{"key": f"k{i}", "operator": "Exists"} for i in range(count)]}


def containers(count: int) -> dict[str, Any]:
    names = [{"name": f"c{i}", "image": "i"} for i in range(count)]
    return {"initContainers": names[1:], "containers": names[:1]}


def resource_claims(count: int) -> dict[str, Any]:
    return {"resourceClaims": [{"name": f"e{i}", "resourceClaimName": "c"} for i in range(count)]}


def volumes(count: int) -> dict[str, Any]:
    claim = {"persistentVolumeClaim": {"claimName": "c"}}
    return {"volumes": [{"name": f"v{i}", **claim} for i in range(count)]}


def monitors(count: int) -> dict[str, Any]:
    first, *others = (str(i) for i in range(count))
    disks = [{"rbd": {"monitors": part, "image": "i"}} for part in ([first], others)]
    return {"volumes": [{"name": f"v{i}", **disk} for i, disk in enumerate(disks)]}


def secrets(count: int) -> dict[str, Any]:
    return {"volumes": [{"name": f"v{i}", "secret": {"secretName": "s"}} for i in range(count)]}


def exceeded(spec: dict[str, Any]) -> str:
    manifest = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "p"},
        "spec": {**container(), **spec},
    }
    pod = pod_info(msgspec.json.decode(msgspec.json.encode(manifest), type=Pod))
    return exceeded_limit(pod)


@pytest.mark.parametrize(
    ("asks_for", "limit", "what"),
    [
        (requests, MAX_RESOURCE_NAMES, "requested resources"),
        (node_selector, MAX_NODE_REQUIREMENTS, "node selector requirements"),
        (node_values, MAX_NODE_VALUES, "node affinity values"),
        (pod_terms, MAX_POD_TERMS, "pod affinity terms"),
        (constraints, MAX_SPREAD_CONSTRAINTS, "topology spread constraints"),
        (tolerations, MAX_TOLERATIONS, "tolerations"),
        (host_ports, MAX_HOST_PORTS, "host ports"),
        (containers, MAX_CONTAINERS, "containers"),
        (resource_claims, MAX_RESOURCE_CLAIMS, "resource claims"),
        (volumes, MAX_VOLUMES, "volumes"),
        (monitors, MAX_MONITORS, "monitors of volumes"),
    ],
)
def test_what_is_over_a_limit_is_named_with_it(asks_for: Any, limit: int, what: str) -> None:
    """As much as the limit is looked at, one more is not."""
    assert exceeded(asks_for(limit)) == ""
    assert exceeded(asks_for(limit + 1)) == (
        f"pod has {limit + 1} {what}, more than the {limit} that are looked at"
    )


def test_volumes_that_cost_nothing_are_not_limited() -> None:
    """A pod may have as many ConfigMaps and Secrets as the API server takes."""
    assert exceeded(secrets(MAX_VOLUMES + 1)) == ""
