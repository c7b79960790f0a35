"""Pools that several nodes publish together, and devices that share their names with others.

Every node of such a pool has slices of its own. The pool may be complete only with the slices of
all nodes, and devices of one node may use up counters that others need. A further driver has the
names of the accelerators' pools and devices. Only devices of one driver consume counters of a pool
name: kube-scheduler keeps counters by the name of the pool alone (docs/parity.md).
"""

from typing_extensions import override

from tests.parity.generator.cluster import Cluster
from tests.parity.generator.device_slices import (
    GPU,
    NIC,
    Habits,
    Offer,
    Published,
    make_accelerator,
    make_interface,
    make_selector,
    own_nodes,
)
from tests.parity.generator.devices import Devices
from tests.parity.generator.draw import Draw, Object

NAMESAKE = "alt.example.com"
"""The driver that names pools and devices as that of the accelerators does."""
COUNTERS = "switch"


class WideDevices(Devices):
    """Devices of which many are in pools of several nodes."""

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        super().shape_cluster(draw, cluster)
        names = [node["metadata"]["name"] for node in cluster.nodes]
        added = publish_wide(draw, names, self._drawn())
        cluster.others.extend(added.slices)
        self._published.offers.extend(added.offers)


def publish_wide(draw: Draw, nodes: list[str], habits: Habits) -> Published:
    """Make the slices of wide pools and of namesakes."""
    found = Published()
    for number in range(draw.pick((1, 1, 2))):
        driver = draw.pick((GPU, GPU, NIC))
        # Some pools are tried before those of single nodes.
        name = f"{draw.pick(('a', 'wide'))}-{driver[:3]}-{number}"
        members = draw.some(nodes, 1, 4)
        if members:
            _Wide(draw, driver, name, members, habits).publish(found)
    for node in nodes:
        if draw.maybe(0.3):
            devices = [
                make_accelerator(draw, f"gpu-{i}", habits) for i in range(draw.randint(1, 3))
            ]
            spec = _spec(NAMESAKE, node, {"nodeName": node}, 1)
            found.slices.append(_slice(draw, {**spec, "devices": devices}))
            found.offers += [Offer(NAMESAKE, node, device, node) for device in devices]
    return found


class _Wide:
    """One pool of several nodes."""

    def __init__(
        self, draw: Draw, driver: str, name: str, nodes: list[str], habits: Habits
    ) -> None:
        self._draw = draw
        self._driver, self._name, self._nodes, self._habits = driver, name, nodes, habits
        self._counts = draw.maybe(0.7)
        """Whether devices consume counters of the pool."""
        self._alike = draw.maybe(0.15)
        """Whether devices of several nodes have the same names."""

    def publish(self, found: Published) -> None:
        """Make the slices of the pool, which is finished or not."""
        draw = self._draw
        slices: list[Object] = []
        for place, node in enumerate(self._nodes):
            for part in range(draw.pick((1, 1, 1, 2))):
                label = str(part) if self._alike else f"{place}-{part}"
                devices = self._devices(label)
                slices.append(self._of({"nodeName": node}, devices))
                found.offers += [Offer(self._driver, self._name, each, node) for each in devices]
        if draw.maybe(0.3):
            devices = self._devices("around")
            where = draw.pick(({"allNodes": True}, {"nodeSelector": None}, {"perDevice": None}))
            if "nodeSelector" in where:
                where = {"nodeSelector": make_selector(draw, self._nodes)}
            elif "perDevice" in where:
                where = {"perDeviceNodeSelection": True}
                for device in devices:
                    device.update(own_nodes(draw, self._nodes))
            slices.append(self._of(where, devices))
            found.offers += [Offer(self._driver, self._name, each, None) for each in devices]
        if self._counts:
            slices += self._counter_slices()
        self._number(slices)
        found.slices += slices

    def _number(self, slices: list[Object]) -> None:
        """Give the slices a generation and their count, which may be wrong."""
        draw, count, generation = self._draw, len(slices), self._draw.pick((1, 2))
        fault = ""
        if draw.maybe(self._habits.unfinished):
            fault = draw.pick(("incomplete", "older", "newer", "unknown"))
        for one in slices:
            one["spec"]["pool"].update(
                generation=generation, resourceSliceCount=count + (fault == "incomplete")
            )
        some = draw.pick(slices)["spec"]
        if fault in ("older", "newer"):
            some["pool"]["generation"] += 1 if fault == "newer" else -1
        for device in some.get("devices", ())[:1] if fault == "unknown" else ():
            counters = {"slices": {"value": "1"}}
            device["consumesCounters"] = [{"counterSet": "unknown", "counters": counters}]

    def _devices(self, label: str) -> list[Object]:
        draw = self._draw
        make = make_interface if self._driver == NIC else make_accelerator
        found = []
        for number in range(draw.randint(1, 2)):
            device = make(draw, f"dev-{label}-{number}", self._habits)
            if self._counts and draw.maybe(0.8):
                counters = {"slices": {"value": str(draw.randint(0, 2))}}
                device["consumesCounters"] = [{"counterSet": COUNTERS, "counters": counters}]
            if draw.maybe(0.1):
                device["bindsToNode"] = True
            if device.get("allowMultipleAllocations") and draw.maybe(0.3):
                device["capacity"] = {}
            found.append(device)
        return found

    def _counter_slices(self) -> list[Object]:
        draw = self._draw
        where = draw.pick(({"allNodes": True}, {"nodeName": draw.pick(self._nodes)}))
        found = []
        for name in (COUNTERS, "other")[: draw.pick((1, 1, 2))]:
            counters = {"slices": {"value": str(draw.randint(1, 5))}}
            one = self._of(where, None)
            one["spec"]["sharedCounters"] = [{"name": name, "counters": counters}]
            found.append(one)
        return found

    def _of(self, where: Object, devices: list[Object] | None) -> Object:
        spec = _spec(self._driver, self._name, where, 0)
        return _slice(self._draw, spec if devices is None else {**spec, "devices": devices})


def _spec(driver: str, pool: str, where: Object, count: int) -> Object:
    named = {"name": pool, "generation": 1, "resourceSliceCount": count}
    return {"driver": driver, "pool": named, **where}


def _slice(draw: Draw, spec: Object) -> Object:
    # Slices of a pool are looked at by name, whatever order they come in.
    name = f"{draw.pick('abcdef')}-{spec['driver'][:3]}-{spec['pool']['name']}"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-{draw.getrandbits(32):x}"},
        "spec": spec,
    }
