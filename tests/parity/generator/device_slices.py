"""Devices on offer: pools of two drivers, published in every way that a slice knows.

The driver of accelerators partitions devices. It has pools named after nodes, and pools of several
nodes that are tried before and after these. The driver of networks shares devices. Only one driver
has counters: kube-scheduler keeps them by the name of the pool alone, so that of two such drivers
the node that is asked first decides (docs/parity.md).
"""

from dataclasses import dataclass, field

from tests.parity.generator.draw import RACK, ZONE, Draw, Object

GPU = "gpu.example.com"
NIC = "nic.example.com"
NUMA = "numa.example.org/node"
MODELS = ("a100", "h100", "h100-mig")
TAINT_KEYS = ("example.com/degraded", "example.com/drain")
CONDITION, FAILURE = "example.com/attached", "example.com/failed"
POLICIES: tuple[Object | None, ...] = (
    None,
    {"default": "1G"},
    {"default": "1G", "validRange": {"min": "1G", "step": "1G"}},
    {"default": "2G", "validRange": {"min": "1G", "max": "5G", "step": "500M"}},
    {"default": "1500M", "validRange": {"min": "500M", "max": "8G"}},
    {"default": "1G", "validValues": ["1G", "2500M", "4G"]},
)


@dataclass
class Offer:
    """A device in the words of an allocation, with what claims need to know of it."""

    driver: str
    pool: str
    device: Object
    node: str | None
    """The node that its slice is for; None where it is for several."""

    def result(self, request: str) -> Object:
        """Return the entry of an allocation that gives the device to a request."""
        found = {
            "request": request,
            "driver": self.driver,
            "pool": self.pool,
            "device": self.device["name"],
        }
        for key in ("bindingConditions", "bindingFailureConditions"):
            if key in self.device:
                found[key] = self.device[key]
        return found


@dataclass
class Habits:
    """How the drivers of one case publish, drawn once so that cases concentrate on something."""

    partitions: bool
    shares: bool
    tainted: float
    conditions: float
    network: str | None
    """How the network driver selects nodes: a field of the slice, or None for its own pools."""
    unfinished: float
    """Probability that a pool is incomplete, obsolete in part, or invalid."""
    sparse: float
    """Probability that a device lacks an attribute."""
    around: str | None
    """How pools of accelerators for several nodes select them: a field of the slice, or None."""

    @classmethod
    def drawn(cls, draw: Draw) -> "Habits":
        """Draw the habits of one case."""
        return cls(
            partitions=draw.maybe(0.3),
            shares=draw.maybe(0.4),
            tainted=draw.pick((0.0, 0.0, 0.15, 0.3)),
            conditions=draw.pick((0.0, 0.0, 0.0, 0.3)),
            network=draw.pick(
                (None, None, "nodeSelector", "allNodes", "perDeviceNodeSelection"),
            ),
            unfinished=draw.pick((0.0, 0.0, 0.0, 0.03, 0.15)),
            sparse=draw.pick((0.0, 0.0, 0.0, 0.1)),
            around=draw.pick((None, None, None, "nodeSelector", "allNodes")),
        )


@dataclass
class Published:
    """The slices of a case, and the devices in them that claims may have."""

    slices: list[Object] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)


@dataclass
class Pool:
    """A pool to be published: its devices, and the slices with counters beside them."""

    driver: str
    name: str
    where: Object
    """The field of a slice that says which nodes have the devices."""
    devices: list[Object]
    counters: list[Object] = field(default_factory=list)


def publish(draw: Draw, nodes: list[str], habits: Habits) -> Published:
    """Make the slices of a case."""
    found = Published()
    where: Object
    for node in nodes:
        if draw.maybe(0.95):
            _accelerators(draw, node, habits, found)
        if habits.network is None and draw.maybe(0.85):
            devices = [make_interface(draw, f"nic-{i}", habits) for i in range(draw.randint(1, 3))]
            _add(draw, Pool(NIC, node, {"nodeName": node}, devices), habits, found)
    if habits.network is not None and nodes:
        for pool in ("fabric-a", "fabric-b")[: draw.randint(1, 2)]:
            count = draw.randint(1, 4)
            devices = [make_interface(draw, f"nic-{i}", habits) for i in range(count)]
            where = {habits.network: True}
            if habits.network == "nodeSelector":
                where = {"nodeSelector": make_selector(draw, nodes)}
            if habits.network == "perDeviceNodeSelection":
                for device in devices:
                    device.update(own_nodes(draw, nodes))
            _add(draw, Pool(NIC, pool, where, devices), habits, found)
    if habits.around is not None and nodes:
        for pool in draw.some(("a-shared", "b-shared", "y-shared", "z-shared"), 2, 3):
            devices = [
                make_accelerator(draw, f"gpu-{i}", habits) for i in range(draw.randint(1, 3))
            ]
            where = {habits.around: True}
            if habits.around == "nodeSelector":
                where = {"nodeSelector": make_selector(draw, nodes)}
            _add(draw, Pool(GPU, pool, where, devices), habits, found)
    if nodes and draw.maybe(habits.unfinished):
        # A newer generation of one node's pool, with devices for another node only.
        newer = Pool(GPU, draw.pick(nodes), {"nodeName": draw.pick(nodes)}, [])
        found.slices.append(_slice(draw, newer, [make_accelerator(draw, "gpu-0", habits)], 7, 1))
    return found


def _accelerators(draw: Draw, node: str, habits: Habits, found: Published) -> None:
    where = {"nodeName": node}
    if not habits.partitions or draw.maybe(0.2):
        devices = [make_accelerator(draw, f"gpu-{i}", habits) for i in range(draw.randint(1, 5))]
        _add(draw, Pool(GPU, node, where, devices), habits, found)
        return
    devices, sets = [], []
    for card in range(draw.randint(1, 2)):
        name = f"card-{card}"
        amount = draw.pick((4, 7))
        counters: Object = {"slices": {"value": str(amount)}}
        if draw.maybe(0.5):
            counters["memory"] = {"value": "80Gi"}
        sets.append({"name": name, "counters": counters})
        whole = make_accelerator(draw, f"gpu-{card}", habits)
        whole["consumesCounters"] = [{"counterSet": name, "counters": counters}]
        devices.append(whole)
        for part in range(draw.randint(1, 3)):
            mig = make_accelerator(draw, f"gpu-{card}-mig-{part}", habits)
            mig["attributes"]["model"] = {"string": "h100-mig"}
            taken: Object = {"slices": {"value": str(draw.randint(1, amount // 2))}}
            if "memory" in counters and draw.maybe(0.7):
                taken["memory"] = {"value": draw.pick(("20Gi", "40Gi", "10Gi"))}
            mig["consumesCounters"] = [{"counterSet": name, "counters": taken}]
            devices.append(mig)
    if draw.maybe(habits.unfinished):
        devices[-1]["consumesCounters"][0]["counterSet"] = "unknown"
    if len(sets) > 1 and draw.maybe(0.3):
        both = make_accelerator(draw, "pair", habits)
        both["consumesCounters"] = [
            {"counterSet": one["name"], "counters": {"slices": {"value": "2"}}} for one in sets
        ]
        devices.append(both)
    pool = Pool(GPU, node, where, devices)
    counters_slice = _slice(draw, pool, None, 1, 2)
    counters_slice["metadata"]["name"] = f"{node}-counters"
    counters_slice["spec"]["sharedCounters"] = sets
    pool.counters.append(counters_slice)
    _add(draw, pool, habits, found)


def _add(draw: Draw, pool: Pool, habits: Habits, found: Published) -> None:
    """Publish a pool in one slice or two, with its generation, finished or not."""
    devices, parts = pool.devices, [pool.devices]
    if len(devices) > 1 and draw.maybe(0.25):
        cut = draw.randint(1, len(devices) - 1)
        parts = [devices[:cut], devices[cut:]]
    generation = draw.pick((0, 1, 1, 5))
    count = len(parts) + len(pool.counters)
    if draw.maybe(habits.unfinished):
        fault = draw.pick(("incomplete", "obsolete", "obsolete", "duplicate"))
        if fault == "incomplete":
            count += 1
        elif fault == "obsolete" and generation:
            old = [*devices, {**devices[0], "name": "old-9"}]
            found.slices.append(_slice(draw, pool, old, generation - 1, 1))
        elif fault == "duplicate" and len(parts) > 1:
            parts[1].append({**parts[0][0]})
    slices = [*(_slice(draw, pool, part, generation, count) for part in parts), *pool.counters]
    for one in slices:
        one["spec"]["pool"].update(generation=generation, resourceSliceCount=count)
    found.slices.extend(slices)
    node = pool.where.get("nodeName")
    found.offers.extend(
        Offer(pool.driver, pool.name, device, node) for part in parts for device in part
    )


def _slice(
    draw: Draw, pool: Pool, devices: list[Object] | None, generation: int, count: int
) -> Object:
    spec: Object = {
        "driver": pool.driver,
        "pool": {"name": pool.name, "generation": generation, "resourceSliceCount": count},
        **pool.where,
    }
    if devices is not None:
        spec["devices"] = devices
    # Slices of a pool are looked at by name, whatever order they come in.
    name = f"{draw.pick('abcdef')}-{pool.driver[:3]}-{pool.name}-{draw.getrandbits(32):x}"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": spec,
    }


def make_accelerator(draw: Draw, name: str, habits: Habits) -> Object:
    """Make a device of the driver that partitions."""
    attributes: Object = {
        "model": {"string": draw.pick(MODELS[:2])},
        "index": {"int": draw.randint(0, 3)},
        NUMA: {"int": draw.randint(0, 1)},
        "driverVersion": {"version": draw.pick(("1.2.3", "1.10.0", "2.0.0-rc.1"))},
        "healthy": {"bool": draw.maybe(0.8)},
    }
    for key in list(attributes):
        if draw.maybe(habits.sparse):
            del attributes[key]
    if draw.maybe(habits.sparse / 3):
        attributes["index"] = {"string": "2"}
    if draw.maybe(habits.sparse / 3):
        attributes[f"{GPU}/index"] = {"int": draw.randint(0, 3)}
        attributes.pop("index", None)
    device: Object = {
        "name": name,
        "attributes": attributes,
        "capacity": {"memory": {"value": draw.pick(("40Gi", "80Gi", "81920Mi", "40960Mi"))}},
    }
    return _surroundings(draw, device, habits)


def make_interface(draw: Draw, name: str, habits: Habits) -> Object:
    """Make a device of the driver that shares."""
    device: Object = {
        "name": name,
        "attributes": {
            "kind": {"string": draw.pick(("rdma", "plain"))},
            NUMA: {"int": draw.randint(0, 1)},
            "mtu": {"int": draw.pick((1500, 9000))},
        },
        "capacity": {"bandwidth": {"value": draw.pick(("10G", "8G", "25G"))}},
    }
    if draw.maybe(habits.sparse):
        del device["attributes"][NUMA]
    if draw.maybe(0.3):
        device["capacity"]["queues"] = {"value": "8"}
    if habits.shares and draw.maybe(0.8):
        device["allowMultipleAllocations"] = True
        policy = draw.pick(POLICIES)
        if policy is not None:
            device["capacity"]["bandwidth"]["requestPolicy"] = policy
    return _surroundings(draw, device, habits)


def _surroundings(draw: Draw, device: Object, habits: Habits) -> Object:
    if draw.maybe(habits.tainted):
        device["taints"] = [
            {
                "key": draw.pick(TAINT_KEYS),
                "value": draw.pick(("1", "2", "")),
                "effect": draw.pick(("NoSchedule", "NoSchedule", "NoExecute", "None")),
            }
            for _ in range(draw.pick((1, 1, 2)))
        ]
    if draw.maybe(habits.conditions):
        device["bindingConditions"] = [CONDITION]
        device["bindingFailureConditions"] = [FAILURE]
        if draw.maybe(0.5):
            device["bindsToNode"] = True
    return device


def make_selector(draw: Draw, nodes: list[str]) -> Object:
    """Make a selector of some nodes."""
    term: Object
    if draw.maybe(0.2):
        fields = [{"key": "metadata.name", "operator": "In", "values": [draw.pick(nodes)]}]
        term = {"matchFields": fields}
    else:
        key, values = draw.pick(((ZONE, ("z1", "z2", "z3", "z4")), (RACK, ("a", "b", "c"))))
        operator = draw.pick(("In", "In", "NotIn", "Exists"))
        requirement: Object = {"key": key, "operator": operator}
        if operator != "Exists":
            requirement["values"] = draw.some(values, 2, 3) if operator == "In" else [values[0]]
        term = {"matchExpressions": [requirement]}
    return {"nodeSelectorTerms": [term]}


def own_nodes(draw: Draw, nodes: list[str]) -> Object:
    """Make the fields of a device that say which nodes have it."""
    return draw.pick(
        (
            {"allNodes": True},
            {"nodeName": draw.pick(nodes)},
            {"nodeSelector": make_selector(draw, nodes)},
            {"nodeSelector": make_selector(draw, nodes)},
        )
    )
