"""Pools with slices for one node, for some and for all: what is remembered never tells.

The laws of `test_laws` draw all sorts of clusters, and such pools too seldom.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from scheduler.api.devices import AllocationResult, ResourceClaim, ResourceSlice
from scheduler.kernel.devices.candidates import AllocationError
from scheduler.kernel.devices.catalog import Devices
from scheduler.kernel.snapshot import Snapshot
from tests.support.claims import (
    DRIVER,
    a_claim,
    a_device,
    a_slice,
    chosen,
    cluster,
    every,
    exactly,
    nodes_of,
    set_nodes,
)

NODES = ("n0", "n1", "n2", "n3")
IN_RACK = {"key": "rack", "operator": "In", "values": ["a"]}
RACK = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [IN_RACK]}]}}
MODEL = f'device.attributes["{DRIVER}"].model'
CLAIMS: Sequence[ResourceClaim] = (
    a_claim(exactly()),
    a_claim(exactly(selectors=[f'{MODEL} == "big"'])),
    a_claim(exactly(count=2)),
    a_claim(every()),
    a_claim(exactly("a"), exactly("b"), constraints=[{"matchAttribute": f"{DRIVER}/model"}]),
)


class _History:
    """A cluster with two pools, each of a few slices, and with counters."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.labels = {name: {"rack": self.random.choice("ab")} for name in NODES}
        self.snapshot = nodes_of(*NODES, labels=self.labels)
        self.devices = cluster()
        self.slices: dict[str, ResourceSlice] = {}
        self.allocations: dict[str, AllocationResult] = {}
        self._sizes = {pool: self.random.randint(1, 3) for pool in "pq"}

    def fresh(self) -> Devices:
        """The same devices and allocations, with nothing remembered."""
        devices = cluster(self.slices.values())
        for uid, allocation in self.allocations.items():
            devices.allocate(uid, allocation)
        return devices

    def act(self, number: int) -> None:
        """Let something happen."""
        draw = self.random
        match draw.choice(("slice", "slice", "slice", "take", "take", "free", "gone", "node")):
            case "slice":
                self._publish(draw.choice("pq"))
            case "take":
                self._take(draw.choice(CLAIMS), draw.choice(NODES), f"u{number}")
            case "free" if self.allocations:
                uid = draw.choice(sorted(self.allocations))
                del self.allocations[uid]
                self.devices.release(uid)
            case "gone" if self.slices:
                name = draw.choice(sorted(self.slices))
                del self.slices[name]
                self.devices.remove_slice(name)
            case "node":
                name = draw.choice(NODES)
                self.labels[name] = {"rack": draw.choice("ab")}
                set_nodes(self.snapshot, name, labels=self.labels)
            case _:
                pass

    def _publish(self, pool: str) -> None:
        draw, size = self.random, self._sizes[pool]
        part, place = draw.randint(0, size), self._place()
        fields: dict[str, Any] = {"pool": pool, "count": size + 1}
        if part == size:
            sets = [{"name": "s", "counters": {"c": {"value": str(draw.randint(1, 4))}}}]
            published = a_slice(f"{pool}-x", sharedCounters=sets, allNodes=True, **fields)
        else:
            listed = [self._device(f"{part}-{i}") for i in range(draw.randint(1, 2))]
            published = a_slice(f"{pool}-{part}", listed, **fields, **place)
        self.slices[published.metadata.name] = published
        self.devices.set_slice(published)

    def _place(self) -> Mapping[str, Any]:
        own = [{"nodeName": name} for name in NODES]
        return self.random.choice([*own, {"allNodes": True}, RACK])

    def _device(self, name: str) -> dict[str, Any]:
        model = self.random.choice(("big", "small"))
        fields: dict[str, Any] = {"attributes": {"model": model}}
        if self.random.random() < 0.5:
            amounts = {"c": {"value": str(self.random.randint(1, 2))}}
            fields["consumesCounters"] = [{"counterSet": "s", "counters": amounts}]
        return a_device(name, **fields)

    def _take(self, claim: ResourceClaim, node: str, uid: str) -> None:
        row = self.snapshot.table.row_of[node]
        try:
            found = self.devices.allocator([claim], self.snapshot).allocate(row, [claim], node, str)
        except AllocationError:
            return
        if found:
            self.allocations[uid] = found[0]
            self.devices.allocate(uid, found[0])


def _answers(devices: Devices, snapshot: Snapshot, claim: ResourceClaim) -> dict[str, object]:
    allocator = devices.allocator([claim], snapshot)
    codes = allocator.judge().codes
    found: dict[str, object] = {}
    for node, row in snapshot.table.row_of.items():
        try:
            found[node] = int(codes[row]), chosen(allocator.allocate(row, [claim], node, str))
        except AllocationError as problem:
            found[node] = int(codes[row]), str(problem)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_an_old_allocator_says_what_a_new_one_says(seed: int) -> None:
    history = _History(seed)
    for number in range(25):
        history.act(number)
        fresh = history.fresh()
        for claim in CLAIMS:
            expected = _answers(fresh, history.snapshot, claim)
            assert _answers(history.devices, history.snapshot, claim) == expected, number
