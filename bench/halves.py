"""Compares two daemons that share the nodes with one daemon: pods/s and conflicts.

    python -m bench.halves                                     # 5,000 nodes, 8,000 pods, 3 rounds
    python -m bench.halves --nodes 100 --pods 500 --rounds 1   # small: shows that it works

The plugin NodeOwnership assigns each zone to one daemon; each daemon schedules half of the pods.
The wall binds and writes events without scheduling, as the upper bound. Every run starts a new
control plane from a copy of the same data; the three alternate. A conflict is a rejected binding, a
pod on the other daemon's node, or an overcommitted node. Since two daemons start one after the
other, the rate without the first and last tenth is printed too.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.access import access_kubeconfig
from bench.contestants import STOWAGE, WALL_WITH_EVENTS, Start, contestants
from bench.objects import SCHEDULER_NAME
from bench.placements import violations_in
from bench.processor import wait_until_idle
from bench.request_log import RequestLog
from bench.rounds import orders
from bench.states import Prepared, measured_pods, running_cluster
from bench.throughput import (
    Patience,
    event_times,
    latest,
    rate,
    wait_until_bound,
    wait_until_events,
)
from bench.workload import MEASURED, Size, Workload, chosen, load_workloads
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.go_programs import CONTROL_PLANE, build
from e2e.support.objects import Json
from e2e.support.processes import Program
from e2e.support.stowage import start_stowage

_ZONE: Final = "topology.kubernetes.io/zone"
_HALVES: Final = ("zone-1", "zone-2")
_TWO: Final = "two halves"
_PATIENCE: Final = Patience(total_seconds=300)


class Figure(msgspec.Struct, frozen=True):
    """Result of one run; `middle` is the rate without the first and the last tenth."""

    pods_per_second: float
    middle: float
    cpu_ms_per_pod: float
    conflicts: int
    note: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit status says whether there were conflicts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    build(CONTROL_PLANE)
    [plain] = chosen(load_workloads(), ("plain",))
    workload = msgspec.structs.replace(
        plain, nodes=msgspec.structs.replace(plain.nodes, zones=len(_HALVES))
    )
    size = Size(nodes=options.nodes, pods=options.pods, running=options.nodes // 5)
    named = contestants()
    starts: dict[str, tuple[Callable[[ControlPlane, Path], list[Program]], Sequence[str]]] = {
        WALL_WITH_EVENTS: (_alone(named[WALL_WITH_EVENTS].start), (SCHEDULER_NAME,)),
        STOWAGE: (_alone(named[STOWAGE].start), (SCHEDULER_NAME,)),
        _TWO: (_start_halves, tuple(map(_name, _HALVES))),
    }
    figures: dict[str, list[Figure]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="stowage-bench-") as folder:
        small = msgspec.structs.replace(size, pods=1)
        prepared = Prepared.prepare(workload, small, Path(folder), with_quiet=True)
        for order in orders(list(starts), options.rounds):
            for name in order:
                with running_cluster(workload, prepared.quiet) as cluster:
                    figures[name].append(_measured(cluster, workload, size, *starts[name]))
                print(f"{name}: {_text(figures[name][-1])}", flush=True)
    walls = statistics.median(each.pods_per_second for each in figures[WALL_WITH_EVENTS])
    for name, found in figures.items():
        speed = statistics.median(each.pods_per_second for each in found)
        print(
            f"{name}, median of {len(found)}: {speed:.0f} pods/s, {speed / walls:.2f} of the wall"
        )
    failed = [each for found in figures.values() for each in found if each.note]
    return 1 if failed or sum(each.conflicts for each in figures[_TWO]) else 0


def _text(figure: Figure) -> str:
    return (
        f"{figure.pods_per_second:.0f} pods/s, {figure.middle:.0f} in the middle, "
        f"{figure.cpu_ms_per_pod:.2f} ms of processor time a "
        f"pod, {figure.conflicts} conflicts{f'; {figure.note}' if figure.note else ''}"
    )


def _measured(
    cluster: Cluster,
    workload: Workload,
    size: Size,
    start: Callable[[ControlPlane, Path], list[Program]],
    names: Sequence[str],
) -> Figure:
    """Create waiting pods, alternating between the scheduler names, and measure their binding."""
    control_plane = cluster.control_plane
    assert control_plane is not None
    assert control_plane.audit_log is not None
    cluster.run(
        cluster.api.create_all(f"/api/v1/namespaces/{MEASURED}/pods", _pods(workload, size, names))
    )
    wait_until_idle(control_plane.programs)
    log = RequestLog(control_plane.audit_log)
    started = time.time()
    programs = start(control_plane, access_kubeconfig(cluster))
    note = wait_until_bound(log, size.pods, programs[-1], _PATIENCE)
    if not note:
        wait_until_events(log, size.pods, programs[-1], _PATIENCE)
    wait_until_idle(programs)
    used = sum(program.cpu_seconds() for program in programs)
    log.read()
    done = latest(log.bound, event_times(cluster, log)).values()
    violations = cluster.run(violations_in(cluster.api))
    strays = _misplaced(cluster) if len(names) > 1 else 0
    return Figure(
        pods_per_second=rate([min(log.bound.values(), default=started), *done], 0.0),
        middle=rate(done, 0.1),
        cpu_ms_per_pod=1000 * used / max(1, len(log.bound)),
        conflicts=sum(log.refused.values()) + len(violations) + strays,
        note=note,
    )


def _pods(workload: Workload, size: Size, names: Sequence[str]) -> Iterator[msgspec.Raw]:
    factory = measured_pods(workload, size)
    written = f'"schedulerName":"{SCHEDULER_NAME}"'.encode()
    for index in range(size.pods):
        body = bytes(factory.waiting(size.running + index))
        assert written in body
        name = names[index % len(names)]
        yield msgspec.Raw(body.replace(written, f'"schedulerName":"{name}"'.encode()))


def _misplaced(cluster: Cluster) -> int:
    """Return the number of pods on the other daemon's nodes."""
    zones = {
        node["metadata"]["name"]: node["metadata"]["labels"][_ZONE]
        for node in cluster.run(cluster.api.list_items("/api/v1/nodes"))
    }
    return sum(_is_stray(pod, zones) for pod in cluster.pods(MEASURED))


def _is_stray(pod: Json, zones: dict[str, str]) -> bool:
    spec = pod["spec"]
    name, node = spec["schedulerName"], spec.get("nodeName", "")
    return name != SCHEDULER_NAME and bool(node) and name != _name(zones[node])


def _name(zone: str) -> str:
    return f"{SCHEDULER_NAME}-{zone}"


def _alone(start: Start) -> Callable[[ControlPlane, Path], list[Program]]:
    return lambda control_plane, kubeconfig: [start(control_plane, kubeconfig, ())]


def _start_halves(control_plane: ControlPlane, kubeconfig: Path) -> list[Program]:
    """Start both daemons concurrently."""
    started = [
        start_stowage(
            kubeconfig,
            control_plane.directory,
            name=_name(zone),
            configuration={"profiles": [_profile(zone)]},
            arguments=["--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics"],
            wait=False,
        )
        for zone in _HALVES
    ]
    control_plane.programs.extend(started)
    return started


def _profile(zone: str) -> Json:
    arguments = {"nodeSelector": {_ZONE: zone}}
    return {
        "schedulerName": _name(zone),
        "plugins": {"multiPoint": {"enabled": [{"name": "NodeOwnership"}]}},
        "pluginConfig": [{"name": "NodeOwnership", "args": arguments}],
    }


if __name__ == "__main__":
    sys.exit(main())
