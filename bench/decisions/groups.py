"""``python -m bench.decisions.groups``: how long gangs take to be decided, without any I/O.

An engine with nodes and pods is told of a gang, and then to decide until the bindings of all
members are out. Times are those of the processor: what else the machine does is left out.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from statistics import median
from time import thread_time
from typing import Final

import click
import msgspec

from bench import objects
from e2e.support.objects import Json, make_nodes, make_pod
from scheduler.config.load import default_configuration
from scheduler.daemon.driver.daemon import spare_collector
from scheduler.daemon.informers.kinds import NODES, POD_GROUPS, PODS
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import Bound, Decide, ObjectSet, Tick
from scheduler.kernel.engine.instructions import Bind
from scheduler.tools.offline.cluster import Profiles

_GATES: Final = ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling")
_RACK: Final = "example.com/rack"
_PER_NODE: Final = 6
_REQUESTS: Final = {"cpu": "100m", "memory": "500Mi"}
_SECONDS: Final = 100
"""Less than the patience with a rejection."""
_FULL: Final = {"cpu": "64"}
"""No node has so much."""


@click.command()
@click.option("--nodes", default=5000, show_default=True, help="Nodes, six pods on each.")
@click.option("--large", default=1000, show_default=True, help="Members of the large gang.")
@click.option("--small", default=750, show_default=True, help="Gangs of four.")
@click.option("--racks", default=50, show_default=True, help="Racks of as many nodes each.")
def main(nodes: int, large: int, small: int, racks: int) -> None:
    """Time decisions about gangs."""
    engine = _engine(nodes, racks)
    spare_collector()
    _report("a gang of 4, the first", [_place(engine, "first", 4)])
    _report(f"a gang of {large}", [_place(engine, "large", large)])
    _report(f"{small} gangs of 4, each", [_place(engine, f"small-{i}", 4) for i in range(small)])
    in_racks = [_place(engine, f"rack-{i}", 4, key=_RACK) for i in range(small)]
    _report(f"{small} gangs of 4, each in one of {racks} racks", in_racks)
    _report(f"a gang of {large} that does not fit", [_refuse(engine, "refused", large)])
    _report("a second in which it waits", [_idle(engine) for _ in range(_SECONDS)])


def _report(title: str, times: Sequence[tuple[float, float]]) -> None:
    spent, longest = zip(*times, strict=True)
    click.echo(
        f"{title}: {median(spent) * 1e3:.2f} ms to decide (median of {len(times)},"
        f" most {max(spent) * 1e3:.2f}), longest step {max(longest) * 1e3:.2f} ms"
    )


def _engine(count: int, racks: int) -> Engine:
    """An engine that knows nodes, and the pods that run on them."""
    configuration = default_configuration(objects.SCHEDULER_NAME, _GATES)
    engine = Profiles(configuration).engine(0)
    nodes = make_nodes(count)
    for index, node in enumerate(nodes):
        node["metadata"].setdefault("labels", {})[_RACK] = f"r{index % racks}"
        engine.handle(ObjectSet(NODES.name, NODES.decode(_stored(node))), 0.0)
    for index in range(count * _PER_NODE):
        body = _pod(f"running-{index}", {})
        body["spec"]["nodeName"] = nodes[index % count]["metadata"]["name"]
        engine.handle(ObjectSet(PODS.name, PODS.decode(_stored(body))), 0.0)
    engine.handle(Tick(), 0.0)
    return engine


def _place(engine: Engine, name: str, count: int, key: str = "") -> tuple[float, float]:
    """Seconds until all members are to be bound, and of the longest step of it."""
    binds, times = _decide(engine, name, count, _REQUESTS, key=key)
    if len(binds) < count:
        raise click.ClickException(f"{len(binds)} of {count} members of {name} were placed")
    for bind in binds:
        attempt = engine.attempts.get(bind.attempt)
        engine.handle(Bound(bind.attempt), engine.core.now)
        if attempt is not None:
            engine.handle(ObjectSet(PODS.name, attempt.pod), engine.core.now)
    return times


def _refuse(engine: Engine, name: str, count: int) -> tuple[float, float]:
    binds, times = _decide(engine, name, count, _REQUESTS, last=_FULL)
    if binds:
        raise click.ClickException(f"{len(binds)} members of {name} were placed")
    return times


def _decide(
    engine: Engine,
    name: str,
    count: int,
    requests: dict[str, str],
    last: dict[str, str] | None = None,
    *,
    key: str = "",
) -> tuple[list[Bind], tuple[float, float]]:
    """Tell the engine of a gang, and let it decide until nothing is ready."""
    engine.handle(
        ObjectSet(POD_GROUPS.name, POD_GROUPS.decode(_stored(_group(name, count, key)))), 0.0
    )
    for body in islice(_members(name, count, requests, last), count):
        engine.handle(ObjectSet(PODS.name, PODS.decode(_stored(body))), engine.core.now)
    binds: list[Bind] = []
    steps: list[float] = []
    while engine.has_ready:
        start = thread_time()
        told = engine.handle(Decide(64), engine.core.now)
        steps.append(thread_time() - start)
        binds += (each for each in told if isinstance(each, Bind))
        if len(steps) > count:
            break
    return binds, (sum(steps), max(steps, default=0.0))


def _idle(engine: Engine) -> tuple[float, float]:
    """A second with nothing but its tick, and whatever it makes ready."""
    start = thread_time()
    engine.handle(Tick(), engine.core.now + 1.0)
    while engine.has_ready:
        engine.handle(Decide(64), engine.core.now)
    spent = thread_time() - start
    return spent, spent


def _members(
    name: str, count: int, requests: dict[str, str], last: dict[str, str] | None
) -> Iterator[Json]:
    group = {"schedulingGroup": {"podGroupName": name}}
    for index in range(count):
        is_last = last is not None and index == count - 1
        yield _pod(f"{name}-{index}", group, last if is_last and last else requests)


def _pod(name: str, spec: Json, requests: dict[str, str] | None = None) -> Json:
    return objects.admitted(
        make_pod(
            name, scheduler_name=objects.SCHEDULER_NAME, requests=requests or _REQUESTS, **spec
        )
    )


def _group(name: str, count: int, key: str) -> Json:
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": count}}}
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _stored(body: Json) -> bytes:
    metadata = body["metadata"]
    uid = f"{metadata.get('namespace', '')}/{metadata['name']}"
    return msgspec.json.encode({**body, "metadata": {**metadata, "uid": uid}})


if __name__ == "__main__":
    main()
