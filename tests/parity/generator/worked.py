"""Clusters made by hand for the rules of device allocation that are easily got wrong.

Each is small enough to be worked out on paper, and says which answer tells the rule from its
likely misreadings. kube-scheduler's own answers are recorded beside those of the families.
"""

from collections.abc import Callable
from typing import Any

from tests.parity.generator.draw import Object

GPU, NIC = "gpu.example.com", "nic.example.com"
NUMA = "numa.example.org/node"


def _node(name: str, **allocatable: str) -> Object:
    room = {"cpu": "4", "memory": "8Gi", "pods": "110", **allocatable}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": room, "capacity": dict(room)},
    }


def _resource(kind: str, name: str, spec: Object, **metadata: Any) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def _device(name: str, memory: str | None = None, **attributes: Any) -> Object:
    found: Object = {"name": name}
    if attributes:
        named = {NUMA if key == "numa" else key: value for key, value in attributes.items()}
        kinds = {str: "string", int: "int", bool: "bool"}
        found["attributes"] = {key: {kinds[type(value)]: value} for key, value in named.items()}
    if memory:
        found["capacity"] = {"memory": {"value": memory}}
    return found


def _slice(
    name: str,
    devices: list[Object] | None,
    *,
    driver: str = GPU,
    pool: str = "n1",
    generation: int = 1,
    count: int = 1,
    **where: Any,
) -> Object:
    spec: Object = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        **(where or {"nodeName": "n1"}),
    }
    if devices is not None:
        spec["devices"] = devices
    return _resource("ResourceSlice", name, spec)


def _cel(expression: str) -> Object:
    return {"cel": {"expression": expression}}


def _class(name: str, *expressions: str, **spec: Any) -> Object:
    return _resource("DeviceClass", name, {"selectors": [_cel(e) for e in expressions], **spec})


GPU_CLASS = _class("gpu", f'device.driver == "{GPU}"')
NIC_CLASS = _class("nic", f'device.driver == "{NIC}"')


def _exactly(name: str, *expressions: str, of: str = "gpu", **more: Any) -> Object:
    return {"name": name, "exactly": _wanted(of, *expressions, **more)}


def _wanted(of: str, *expressions: str, **more: Any) -> Object:
    selectors = {"selectors": [_cel(e) for e in expressions]} if expressions else {}
    return {"deviceClassName": of, **selectors, **more}


def _claim(name: str, *requests: Object, status: Object | None = None, **devices: Any) -> Object:
    spec = {"devices": {"requests": list(requests), **devices}}
    found = _resource("ResourceClaim", name, spec, namespace="default")
    if status is not None:
        found["status"] = status
    return found


def _allocated(
    *devices: str,
    request: str = "r",
    node: str | None = None,
    driver: str = GPU,
    pool: str = "n1",
    readers: tuple[str, ...] = (),
    **result: Any,
) -> Object:
    results = [
        {"request": request, "driver": driver, "pool": pool, "device": device, **result}
        for device in devices
    ]
    allocation: Object = {"devices": {"results": results}}
    if node is not None:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    reserved = [
        {"resource": "pods", "name": reader, "uid": f"Pod/default/{reader}"} for reader in readers
    ]
    return {"allocation": allocation, **({"reservedFor": reserved} if reserved else {})}


def _pod(name: str, *claims: str, node: str | None = None, **containers: Object) -> Object:
    main: Object = {"name": "main", "image": "registry.example/main:1"}
    if "main" in containers:
        main["resources"] = containers["main"]
    spec: Object = {"containers": [main]}
    if claims:
        spec["resourceClaims"] = [{"name": c, "resourceClaimName": c} for c in claims]
        main["resources"] = {"claims": [{"name": c} for c in claims]}
    if "init" in containers:
        init = {"name": "init", "image": "registry.example/init:1", "resources": containers["init"]}
        spec["initContainers"] = [init]
    if node:
        spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
        "status": {"phase": "Running" if node else "Pending"},
    }


def _taken(device: str) -> list[Object]:
    """Return a claim that has the device, and the pod that uses it."""
    name = f"taken-{device}"
    status = _allocated(device, node="n1", readers=(f"on-{device}",))
    return [_claim(name, _exactly("r"), status=status), _pod(f"on-{device}", name, node="n1")]


def claim_order() -> list[Object]:
    """The order of claims in the pod decides, not that of their names."""
    return [
        _node("n1"),
        GPU_CLASS,
        _slice("s", [_device("gpu-0"), _device("gpu-1")]),
        _claim("a", _exactly("r")),
        _claim("b", _exactly("r")),
        _pod("b-first", "b", "a"),
        _pod("a-first", "a", "b"),
    ]


BIG = 'device.attributes["gpu.example.com"].model == "big"'


def backtracking() -> list[Object]:
    """The first alternative starves the next request where there is but one big device."""
    alternatives = {
        "name": "either",
        "firstAvailable": [
            {"name": "big", **_wanted("gpu", BIG)},
            {"name": "small", **_wanted("gpu", count=2)},
        ],
    }
    small = [_device(f"gpu-{i}", model="small") for i in range(1, 3)]
    return [
        _node("n1"),
        _node("n2"),
        GPU_CLASS,
        _slice("s1", [_device("gpu-0", model="big"), *small]),
        _slice(
            "s2",
            [_device("gpu-0", model="big"), *small, _device("gpu-3", model="big")],
            pool="n2",
            nodeName="n2",
        ),
        _claim("c", alternatives, _exactly("then", BIG)),
        _pod("p", "c"),
    ]


def too_many() -> list[Object]:
    """33 devices are an error; what an alternative exceeds makes the next one be tried."""
    devices = [_device(f"gpu-{i}") for i in range(40)]
    alternatives = {
        "name": "then",
        "firstAvailable": [
            {"name": "many", **_wanted("gpu", count=20)},
            {"name": "few", **_wanted("gpu", count=5)},
        ],
    }
    return [
        _node("n1"),
        GPU_CLASS,
        _slice("s", devices),
        _claim("over", _exactly("r", count=33)),
        _claim("c", _exactly("r", count=20), alternatives),
        _pod("over", "over"),
        _pod("p", "c"),
    ]


def unfinished_foreign_pool() -> list[Object]:
    """All devices cannot be told while any pool on the node is incomplete, of whatever driver."""
    return [
        _node("n1"),
        _node("n2"),
        GPU_CLASS,
        _slice("s1", [_device("gpu-0")]),
        _slice("s2", [_device("gpu-0")], pool="n2", nodeName="n2"),
        _slice("s3", [_device("nic-0")], driver=NIC, count=2),
        _claim("all", _exactly("r", allocationMode="All")),
        _claim("one", _exactly("r")),
        _pod("all", "all"),
        _pod("one", "one"),
    ]


def new_generation_elsewhere() -> list[Object]:
    """A pool whose newer generation has nothing for the node is gone from it, not incomplete."""
    return [
        _node("n1"),
        _node("n2"),
        GPU_CLASS,
        _slice("old", [_device("gpu-0")], pool="p"),
        _slice("new", [_device("gpu-0")], pool="p", generation=2, nodeName="n2"),
        _slice("own", [_device("own-0")], pool="q"),
        _claim("one", _exactly("r")),
        _claim("all", _exactly("r", allocationMode="All")),
        _pod("one", "one"),
        _pod("all", "all"),
    ]


def order_of_pools() -> list[Object]:
    """Pools go by name as text, slices by their own name, those with binding conditions last."""
    waiting = {
        "bindingConditions": ["example.com/a"],
        "bindingFailureConditions": ["example.com/f"],
    }
    return [
        _node("n1"),
        GPU_CLASS,
        _slice("z", [_device("second")], pool="n2", count=2),
        _slice("y", [_device("first")], pool="n2", count=2),
        _slice("x", [_device("ten")], pool="n10"),
        _slice("w", [{**_device("last"), **waiting}], pool="a"),
        _claim("four", _exactly("r", count=4)),
        _claim("one", _exactly("r")),
        _pod("four", "four"),
        _pod("one", "one"),
    ]


def admin_access() -> list[Object]:
    """An administrator's request sees devices in use, but not those its own claim has taken."""
    return [
        _node("n1"),
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": "default",
                "labels": {"resource.kubernetes.io/admin-access": "true"},
            },
        },
        GPU_CLASS,
        _slice("s", [_device("gpu-0"), _device("gpu-1")]),
        *_taken("gpu-0"),
        _claim("both", _exactly("look", adminAccess=True), _exactly("use")),
        _claim("three", _exactly("look", adminAccess=True, count=2), _exactly("use")),
        _pod("both", "both"),
        _pod("three", "three"),
    ]


CARD = 7
"""Slices of a card that is not partitioned."""


def _card(name: str, card: str, amount: int) -> Object:
    counters = {"slices": {"value": str(amount)}}
    device = _device(name, whole=amount == CARD)
    return {**device, "consumesCounters": [{"counterSet": card, "counters": counters}]}


def _partitions(taken: tuple[str, ...]) -> list[Object]:
    sets = [{"name": "card", "counters": {"slices": {"value": str(CARD)}}}]
    counters = _slice("counters", None, count=2)
    counters["spec"]["sharedCounters"] = sets
    devices = [_card("gpu-0", "card", CARD), *(_card(f"mig-{i}", "card", 1) for i in range(8))]
    return [
        _node("n1"),
        GPU_CLASS,
        counters,
        _slice("devices", devices, count=2),
        *(one for name in taken for one in _taken(name)),
        _claim("whole", _exactly("r", f'device.attributes["{GPU}"].whole')),
        _claim("part", _exactly("r", count=2)),
        _pod("whole", "whole"),
        _pod("part", "part"),
    ]


def partitions_of_a_used_card() -> list[Object]:
    """A card in use leaves nothing for its partitions."""
    return _partitions(("gpu-0",))


def partitions_in_use() -> list[Object]:
    """A partition in use takes the whole card, and leaves the rest of it."""
    return _partitions(tuple(f"mig-{i}" for i in range(5)))


def taints() -> list[Object]:
    """NoExecute is not tolerated unless said so, None says nothing, a key alone may be enough."""

    def tainted(name: str, effect: str, value: str = "1") -> Object:
        taint = {"key": "example.com/bad", "value": value, "effect": effect}
        return {**_device(name), "taints": [taint]}

    key = "example.com/bad"
    return [
        _node("n1"),
        GPU_CLASS,
        _slice(
            "s",
            [
                tainted("gpu-0", "NoExecute"),
                tainted("gpu-1", "NoSchedule", "2"),
                tainted("gpu-2", "None"),
            ],
        ),
        _claim("none", _exactly("r")),
        _claim("two", _exactly("r", count=2)),
        _claim("exists", _exactly("r", tolerations=[{"key": key, "operator": "Exists"}])),
        _claim(
            "equal",
            _exactly("r", tolerations=[{"key": key, "operator": "Equal", "value": "2"}]),
        ),
        _claim(
            "effect",
            _exactly("r", tolerations=[{"operator": "Exists", "effect": "NoSchedule"}]),
        ),
        *(_pod(name, name) for name in ("none", "two", "exists", "equal", "effect")),
    ]


def _shared_interface(taken: int) -> list[Object]:
    policy = {"default": "1G", "validRange": {"min": "1G", "step": "1G"}}
    interface = {
        "name": "nic-0",
        "allowMultipleAllocations": True,
        "capacity": {"bandwidth": {"value": "10G", "requestPolicy": policy}},
    }
    shares = []
    for i in range(taken):
        status = _allocated("nic-0", driver=NIC, node="n1", readers=(f"on-{i}",))
        status["allocation"]["devices"]["results"][0].update(
            shareID=f"0000000{i}-0000-4000-8000-000000000000", consumedCapacity={"bandwidth": "3G"}
        )
        claim = _claim(f"share-{i}", _exactly("r", of="nic"), status=status)
        shares.extend((claim, _pod(f"on-{i}", f"share-{i}", node="n1")))
    amounts = {"rounded": "2500M", "unknown": "1G", "less": "10M"}
    asked = [
        _claim(
            name,
            _exactly(
                "r",
                of="nic",
                capacity={"requests": {"other" if name == "unknown" else "bandwidth": amount}},
            ),
        )
        for name, amount in amounts.items()
    ]
    return [
        _node("n1"),
        NIC_CLASS,
        _slice("s", [interface], driver=NIC),
        *shares,
        *asked,
        _claim("default", _exactly("r", of="nic")),
        _claim("twice", _exactly("r", of="nic", count=2)),
        *(_pod(name, name) for name in ("rounded", "unknown", "less", "default", "twice")),
    ]


def shares_that_fit() -> list[Object]:
    """A request is rounded up to a step: three of 2.5 G fit 10 G as 3 G each."""
    return _shared_interface(2)


def shares_that_do_not() -> list[Object]:
    """Where three have 3 G each, the fourth does not fit, and the default does."""
    return _shared_interface(3)


def match_attribute() -> list[Object]:
    """The first choice has no partners, so that combinations are gone through in order."""
    devices = [
        _device("gpu-0", numa=0),
        _device("gpu-1", numa=1),
        _device("gpu-2", numa=2),
        _device("gpu-3", numa=1),
        _device("gpu-4", numa=1),
        _device("gpu-5"),
    ]
    requests = [_exactly(name) for name in ("x", "y", "z")]
    return [
        _node("n1"),
        GPU_CLASS,
        _slice("s", devices),
        _claim("match", *requests, constraints=[{"matchAttribute": NUMA}]),
        _claim("distinct", *requests, constraints=[{"distinctAttribute": NUMA}]),
        _claim(
            "some",
            *requests,
            constraints=[{"requests": ["y", "z"], "matchAttribute": NUMA}],
        ),
        *(_pod(name, name) for name in ("match", "distinct", "some")),
    ]


def absorbed_errors() -> list[Object]:
    """An error on one side of || vanishes where the other side is true, and only there."""
    expression = f'device.attributes["{GPU}"].absent == 1 || device.driver == "{GPU}"'
    everything = _class("everything")
    return [
        _node("n1"),
        _node("n2"),
        everything,
        _slice("s1", [_device("gpu-0")]),
        _slice("s2", [_device("nic-0")], driver=NIC, pool="n2", nodeName="n2"),
        _claim("c", _exactly("r", expression, of="everything")),
        _pod("p", "c"),
    ]


def shared_claim() -> list[Object]:
    """A claim that another pod uses holds the pod to that pod's node."""
    return [
        _node("n1"),
        _node("n2"),
        GPU_CLASS,
        _slice("s1", [_device("gpu-0")]),
        _slice("s2", [_device("gpu-0")], pool="n2", nodeName="n2"),
        *_taken("gpu-0"),
        _pod("second", "taken-gpu-0"),
    ]


def two_reasons() -> list[Object]:
    """Where one claim is elsewhere and another cannot be allocated, the second's reason is told."""
    return [
        _node("n1"),
        _node("n2"),
        GPU_CLASS,
        _slice("s1", [_device("gpu-0")]),
        _slice("s2", [_device("gpu-0")], pool="n2", nodeName="n2"),
        _claim("here", _exactly("r"), status=_allocated("gpu-0", node="n1")),
        _claim("two", _exactly("r", count=2)),
        _claim("one", _exactly("r")),
        _pod("both", "here", "two"),
        _pod("only", "here", "one"),
    ]


def failed_binding_conditions() -> list[Object]:
    """An allocation whose device failed, or was not ready in time, is not available anywhere."""
    conditions = {
        "bindingConditions": ["example.com/attached"],
        "bindingFailureConditions": ["example.com/failed"],
    }

    def reported(name: str, stamp: str, *kinds: tuple[str, str]) -> Object:
        status = _allocated("gpu-0", node="n1", **conditions)
        status["allocation"]["allocationTimestamp"] = stamp
        if kinds:
            status["devices"] = [
                {
                    "driver": GPU,
                    "pool": "n1",
                    "device": "gpu-0",
                    "conditions": [
                        {
                            "type": kind,
                            "status": value,
                            "reason": "Reported",
                            "message": "",
                            "lastTransitionTime": stamp,
                        }
                        for kind, value in kinds
                    ],
                }
            ]
        return _claim(name, _exactly("r"), status=status)

    past, future = "2026-01-02T03:04:05Z", "2036-01-02T03:04:05Z"
    return [
        _node("n1"),
        GPU_CLASS,
        _slice("s", [{**_device("gpu-0"), **conditions}]),
        reported("failed", future, ("example.com/failed", "True")),
        reported("late", past),
        reported("ready", past, ("example.com/attached", "True")),
        reported("waiting", future, ("example.com/attached", "False")),
        *(_pod(name, name) for name in ("failed", "late", "ready", "waiting")),
    ]


def extended_resource() -> list[Object]:
    """One node has a device plugin, another devices, a third neither; an init container re-uses."""
    resource = "example.com/gpu"
    one = {"limits": {resource: "1"}, "requests": {resource: "1"}}
    two = {"limits": {resource: "2"}, "requests": {resource: "2"}}
    implicit = {"deviceclass.resource.kubernetes.io/gpu": "1"}
    return [
        _node("n1"),
        _node("n2", **{resource: "2"}),
        _node("n3"),
        _class("gpu", f'device.driver == "{GPU}"', extendedResourceName=resource),
        _slice("s", [_device("gpu-0"), _device("gpu-1")]),
        _pod("one", main=one),
        _pod("reuses", main=two, init=one),
        _pod("more", main=one, init=two),
        _pod("by-class", main={"limits": implicit, "requests": implicit}),
    ]


def half_done() -> list[Object]:
    """A claim that an earlier attempt has written for this pod is followed to its node."""
    return [
        _node("n1"),
        _node("n2"),
        GPU_CLASS,
        _slice("s1", [_device("gpu-0")]),
        _slice("s2", [_device("gpu-0")], pool="n2", nodeName="n2"),
        _claim(
            "c", _exactly("r"), status=_allocated("gpu-0", pool="n2", node="n2", readers=("p",))
        ),
        _pod("p", "c"),
    ]


def going_objects() -> list[Object]:
    """A claim that is being deleted, one that is gone, and a class that is gone."""
    going = _claim("going", _exactly("r"))
    going["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    going["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    return [
        _node("n1"),
        _slice("s", [_device("gpu-0")]),
        going,
        _claim("classless", _exactly("r")),
        _pod("going", "going"),
        _pod("gone", "gone"),
        _pod("classless", "classless"),
    ]


WORKED: tuple[Callable[[], list[Object]], ...] = (
    claim_order,
    backtracking,
    too_many,
    unfinished_foreign_pool,
    new_generation_elsewhere,
    order_of_pools,
    admin_access,
    partitions_of_a_used_card,
    partitions_in_use,
    taints,
    shares_that_fit,
    shares_that_do_not,
    match_attribute,
    absorbed_errors,
    shared_claim,
    two_reasons,
    failed_binding_conditions,
    extended_resource,
    half_done,
    going_objects,
)


def worked_case(make: Callable[[], list[Object]]) -> Object:
    """Return the case of a worked cluster, as the oracle and `stowage explain --jsonl` read it."""
    return {"objects": make()}
