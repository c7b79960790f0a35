"""``python -m bench.decisions.device_changes``: the longest step while drivers publish anew.

An engine as the daemon has it, without I/O: slices come as bytes, one after the other at an even
rate, each with another version of the driver. Some pods with claims wait for devices that nowhere
are, and are tried again as changes wake them; others come and get devices. A step is one slice or
other object taken over, one decision, or one tick of a second. Times are those of the processor.
Decisions take what time slices leave, as in a daemon that has a processor for itself.
"""

from collections.abc import Iterator
from statistics import median
from time import process_time
from typing import Any, Final

import click
import msgspec

from e2e.support.objects import make_node, make_pod
from scheduler.api.devices import ResourceClaim, ResourceSlice
from scheduler.api.objects import Pod
from scheduler.api.pods import pod_info
from scheduler.daemon.driver.daemon import spare_collector
from scheduler.kernel.engine.events import Decide, Event, ObjectSet, Tick
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import objects_from_documents

_API: Final = "resource.k8s.io/v1"
_DRIVER: Final = "gpu.example.com"
_MODEL: Final = f'device.attributes["{_DRIVER}"].model'
_PER_NODE: Final = 8
_MINUTE: Final = 60.0
_SLICES_PER_POD: Final = 10
_Object = dict[str, Any]


@click.command()
@click.option("--nodes", default=5000, show_default=True, help="Nodes of 8 devices each.")
@click.option("--changed", default=50_000, show_default=True, help="Devices that change a minute.")
@click.option("--seconds", default=60, show_default=True, help="How long they do.")
@click.option("--waiting", default=200, show_default=True, help="Pods that find no devices.")
@click.option("--limit", default=20.0, show_default=True, help="Milliseconds that a step may take.")
def main(nodes: int, changed: int, seconds: int, waiting: int, limit: float) -> None:
    """Time the steps while devices change; end with 1 if one is too long."""
    bench = Bench(nodes, waiting)
    spare_collector()
    bench.run(changed, seconds)
    longest = max((max(times), what) for what, times in bench.steps.items())
    for what, times in bench.steps.items():
        click.echo(
            f"{what}: {len(times)}, median {median(times):.2f} ms, longest {max(times):.1f} ms"
        )
    busy = sum(sum(times) for what, times in bench.steps.items() if what != "decisions")
    click.echo(
        f"{changed} devices a minute: {busy / seconds / 10:.1f} % of a processor without decisions"
    )
    raise SystemExit(int(longest[0] > limit))


class Bench:
    """A cluster, and how long its steps took.

    Attributes:
        steps: milliseconds by what a step was.
    """

    def __init__(self, nodes: int, waiting: int) -> None:
        self.steps: dict[str, list[float]] = {}
        found = objects_from_documents((f"o{i}", o) for i, o in enumerate(_objects(nodes, waiting)))
        self._engine = Profiles(None).load(found).engine
        self._nodes = nodes
        self._now = self._engine.core.now
        # The first pod of a kind sees all devices for the first time.
        self._let_come("first")
        while self._engine.has_ready:
            self._engine.handle(Decide(), self._now)
        self.steps.clear()

    def run(self, changed: int, seconds: int) -> None:
        """Let devices change for some seconds, so many a minute."""
        pause = _MINUTE * _PER_NODE / changed
        whole = int(self._now)
        for number in range(int(seconds / pause)):
            self._now += pause
            start = process_time()
            self._take_slice(number)
            if number % _SLICES_PER_POD == 0:
                self._let_come(f"comes-{number}")
            if int(self._now) > whole:
                whole = int(self._now)
                self._step("ticks", Tick())
            while self._engine.has_ready and process_time() - start < pause:
                self._step("decisions", Decide())

    def _take_slice(self, number: int) -> None:
        written = msgspec.json.encode(_slice(f"node-{number % self._nodes}", number + 1))
        start = process_time()
        published = msgspec.json.decode(written, type=ResourceSlice)
        self._engine.handle(ObjectSet("resourceslices", published), self._now)
        self._note("slices", start)

    def _let_come(self, name: str) -> None:
        claim = msgspec.convert(_claim(name, "big"), ResourceClaim)
        pod = pod_info(msgspec.convert(_pod(name), Pod))
        self._step("claims", ObjectSet("resourceclaims", claim))
        self._step("pods", ObjectSet("pods", pod))

    def _step(self, what: str, event: Event) -> None:
        start = process_time()
        self._engine.handle(event, self._now)
        self._note(what, start)

    def _note(self, what: str, start: float) -> None:
        self.steps.setdefault(what, []).append((process_time() - start) * 1e3)


def _objects(nodes: int, waiting: int) -> Iterator[_Object]:
    selectors = [{"cel": {"expression": f'device.driver == "{_DRIVER}"'}}]
    yield _made("DeviceClass", "gpu", {"selectors": selectors})
    for node in (f"node-{number}" for number in range(nodes)):
        yield make_node(node)
        yield _slice(node, 0)
    for name in (f"waits-{number}" for number in range(waiting)):
        yield _claim(name, "none")
        yield _pod(name)


def _slice(node: str, version: int) -> _Object:
    devices = [
        {
            "name": f"gpu-{i}",
            "attributes": {
                "model": {"string": "big"},
                "uuid": {"string": f"{node}-{i}"},
                "driverVersion": {"version": f"1.{version}.0"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for i in range(_PER_NODE)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": _DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return _made("ResourceSlice", node, spec)


def _claim(name: str, model: str) -> _Object:
    selectors = [{"cel": {"expression": f'{_MODEL} == "{model}"'}}]
    exactly = {"deviceClassName": "gpu", "selectors": selectors}
    requests = [{"name": "gpu", "exactly": exactly}]
    return _made("ResourceClaim", name, {"devices": {"requests": requests}})


def _made(kind: str, name: str, spec: _Object) -> _Object:
    metadata = {"name": name, "uid": name}
    if kind == "ResourceClaim":
        metadata["namespace"] = "default"
    return {"apiVersion": _API, "kind": kind, "metadata": metadata, "spec": spec}


def _pod(name: str) -> _Object:
    pod = make_pod(name)
    pod["metadata"] |= {"uid": name, "namespace": "default"}
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    return pod


if __name__ == "__main__":
    main()
