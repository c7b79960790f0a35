"""``python -m bench.decisions.devices``: how long it takes to find devices, without any I/O.

Per kind of claim: a decision is to judge all nodes anew after the last allocation, and to find the
devices on one of them. Then slices change, some between every two decisions. Times are those of the
processor, so that what else the machine does is left out.
"""

from collections.abc import Sequence
from statistics import median, quantiles
from time import process_time
from typing import Any, Final

import click
import msgspec

from scheduler.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import AnnotatedMeta, Node
from scheduler.daemon.driver.daemon import spare_collector
from scheduler.kernel.cel import compile_expression
from scheduler.kernel.devices.catalog import Devices
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.snapshot.changes import NodeSet

_DRIVER: Final = "gpu.example.com"
_PER_NODE: Final = 8
_PER_SOCKET: Final = 4
_DECISIONS: Final = 500
_CHANGED: Final = 50_000
_SLICES_PER_DECISION: Final = 10
_IS_BIG: Final = f'device.attributes["{_DRIVER}"].model == "h100"'

_REQUEST: Final[dict[str, Any]] = {
    "deviceClassName": "gpu",
    "allocationMode": "ExactCount",
    "count": 1,
    "selectors": [{"cel": {"expression": _IS_BIG}}],
}
_SAME_NUMA: Final = [{"matchAttribute": f"{_DRIVER}/numa"}]
_CLAIMS: Final[dict[str, dict[str, Any]]] = {
    "one device": {"requests": [{"name": "gpu", "exactly": _REQUEST}]},
    "4 devices of one NUMA node": {
        "requests": [{"name": "gpu", "exactly": {**_REQUEST, "count": 4}}],
        "constraints": _SAME_NUMA,
    },
    "2 requests, one NUMA node": {
        "requests": [{"name": name, "exactly": _REQUEST} for name in ("a", "b")],
        "constraints": _SAME_NUMA,
    },
    "a prioritized list": {
        "requests": [
            {
                "name": "gpu",
                "firstAvailable": [
                    {"name": "four", **_REQUEST, "count": 4},
                    {"name": "one", **_REQUEST},
                ],
            }
        ],
    },
}


@click.command()
@click.option("--nodes", default=5000, show_default=True, help="Nodes of 8 devices each.")
@click.option("--decisions", default=_DECISIONS, show_default=True, help="Of each kind of claim.")
@click.option("--changed", default=_CHANGED, show_default=True, help="Devices that change.")
def main(nodes: int, decisions: int, changed: int) -> None:
    """Time decisions about devices."""
    names = [f"node-{number}" for number in range(nodes)]
    snapshot = _snapshot(names)
    for title, asked in _CLAIMS.items():
        _report(title, _decide(_devices(names), snapshot, asked, decisions))
    first = next(iter(_CLAIMS.values()))
    partitioned = _devices(names, partitions=True)
    _report("one partition", _decide(partitioned, snapshot, first, decisions))
    steps = _change(_devices(names), snapshot, first, changed)
    click.echo(
        f"{changed} devices change, {_SLICES_PER_DECISION} slices between two decisions: "
        f"longest step {max(steps) * 1e3:.1f} ms, median {median(steps) * 1e3:.2f} ms"
    )


def _report(title: str, times: Sequence[float]) -> None:
    cuts = quantiles(times, n=100)
    click.echo(f"{title}: {median(times) * 1e3:.3f} ms, 99 % within {cuts[98] * 1e3:.3f} ms")


def _decide(devices: Devices, snapshot: Snapshot, asked: dict[str, Any], count: int) -> list[float]:
    """Seconds per decision, after the first one."""
    spare_collector()  # as seldom as the daemon
    times: list[float] = []
    rows = len(snapshot.table.names)
    for number in range(count + 1):
        claim = _claim(f"claim-{number}", asked)
        start = process_time()
        allocator = devices.allocator((claim,), snapshot)
        codes = allocator.judge().codes
        row = (number * 7) % rows
        while codes[row]:
            row = (row + 1) % rows
        found = allocator.allocate(row, (claim,), snapshot.table.names[row], str)
        if found is None:
            raise click.ClickException("a node that was judged fit has no devices")
        devices.allocate(claim.metadata.uid, found[0])
        times.append(process_time() - start)
    return times[1:]


def _change(
    devices: Devices, snapshot: Snapshot, asked: dict[str, Any], changed: int
) -> list[float]:
    """Seconds per step: some changed slices, or the decision after them."""
    names = snapshot.table.names
    claim = _claim("claim", asked)
    devices.allocator((claim,), snapshot).judge()
    spare_collector()  # as seldom as the daemon
    steps: list[float] = []
    for number in range(changed // _PER_NODE):
        published = _slice(names[number % len(names)], f"2.{number}.0")
        start = process_time()
        devices.set_slice(published)
        steps.append(process_time() - start)
        if number % _SLICES_PER_DECISION == 0:
            start = process_time()
            devices.allocator((claim,), snapshot).judge()
            steps.append(process_time() - start)
    return steps


def _snapshot(names: Sequence[str]) -> Snapshot:
    snapshot = Snapshot()
    changes: list[NodeSet] = []
    for name in names:
        node = Node(metadata=AnnotatedMeta(name=name))
        info = NodeInfo(name)
        info.node = node
        changes.append(NodeSet(info, node))
    snapshot.update(changes)
    return snapshot


def _devices(names: Sequence[str], *, partitions: bool = False) -> Devices:
    devices = Devices(compile_expression)
    selectors = [{"cel": {"expression": f'device.driver == "{_DRIVER}"'}}]
    written = {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}
    devices.set_class(msgspec.convert(written, DeviceClass))
    for name in names:
        devices.set_slice(_slice(name, partitions=partitions))
        if partitions:
            devices.set_slice(_counters(name))
    return devices


def _slice(name: str, version: str = "1.0.0", *, partitions: bool = False) -> ResourceSlice:
    listed: list[dict[str, Any]] = []
    for number in range(_PER_NODE):
        device: dict[str, Any] = {
            "name": f"gpu-{number}",
            "attributes": {
                "model": {"string": "h100"},
                "uuid": {"string": f"{name}-{number}"},
                "numa": {"int": number // _PER_SOCKET},
                "driverVersion": {"version": version},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        if partitions:
            taken = {"slices": {"value": "7" if not number else "1"}}
            device["consumesCounters"] = [{"counterSet": "gpu", "counters": taken}]
        listed.append(device)
    return _published(name, f"{name}-devices", 1 + partitions, {"devices": listed})


def _counters(name: str) -> ResourceSlice:
    sets = [{"name": "gpu", "counters": {"slices": {"value": "7"}}}]
    return _published(name, f"{name}-counters", 2, {"sharedCounters": sets})


def _published(node: str, name: str, count: int, fields: dict[str, Any]) -> ResourceSlice:
    pool = {"name": node, "generation": 1, "resourceSliceCount": count}
    spec = {"driver": _DRIVER, "nodeName": node, "pool": pool, **fields}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


def _claim(name: str, asked: dict[str, Any]) -> ResourceClaim:
    metadata = {"name": name, "namespace": "default", "uid": name}
    return msgspec.convert({"metadata": metadata, "spec": {"devices": asked}}, ResourceClaim)


if __name__ == "__main__":
    main()
