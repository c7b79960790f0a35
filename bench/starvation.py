"""``python -m bench.starvation``: measures how long unschedulable pods delay a schedulable one.

Unschedulable pods of higher priority wait. A schedulable pod arrives together with an event that
requeues them, or while such events continue. The engine gets the events that a daemon would send,
and its clock is its CPU time. The result is the time from the pod's arrival to its Bind
instruction.
"""

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from math import floor
from multiprocessing import get_context
from time import thread_time_ns
from typing import Any, Final

import click
import msgspec

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import Bound, Decide, Event, ObjectGone, ObjectSet, Tick
from scheduler.kernel.engine.instructions import Bind
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import objects_from_documents

BOUND_SECONDS: Final = 1.0
"""The documented limit; see docs/configuration.md."""
ENDS_PER_SECOND: Final = 100
"""Rate of ended pods, in cases where pods end continuously."""
SMALL_PODS: Final = 3
"""Small pods on each node; their resources do not suffice for an unschedulable pod."""
WARM_UP_SECONDS: Final = 3.0
"""Time that the events have continued when the pod arrives."""
FLUSH_SECONDS: Final = 331.0
"""Time of the periodic flush of unschedulable pods."""

Json = dict[str, Any]

HOSTNAME: Final = "kubernetes.io/hostname"


def _requesting(**requests: str) -> Json:
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    return {"containers": [container]}


def _near(app: str) -> Json:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAffinity": rule}}


HOPELESS: Final[dict[str, Callable[[int], Json]]] = {
    "too big for any node": lambda i: _requesting(cpu=f"{64_000 + i}m"),
    "no room": lambda i: _requesting(cpu=f"{2000 + i % 1900}m", memory=f"{1 + i // 1900}Mi"),
    "nobody to be near": lambda i: _near(f"app-{i}"),
}
"""Spec fields by reason; all pods of a kind are identical."""
SHAPES: Final = ("one shape", "all unlike")
GOES_ON: Final = "pods keep ending"
EVENTS: Final = ("they arrive", "a pod ends", "a node is added", "patience ends", GOES_ON)


@click.command()
@click.option("--nodes", default=1000, show_default=True)
@click.option("--pods", default=100_000, show_default=True, help="Unschedulable pods.")
@click.option("--why", "whys", multiple=True, type=click.Choice(list(HOPELESS)))
@click.option("--shapes", multiple=True, type=click.Choice(SHAPES))
@click.option("--event", "events", multiple=True, type=click.Choice(EVENTS))
@click.option("--limit", default=30.0, show_default=True, help="Time limit in seconds.")
def main(
    *,
    nodes: int,
    pods: int,
    whys: Sequence[str],
    shapes: Sequence[str],
    events: Sequence[str],
    limit: float,
) -> None:
    """Measure how long unschedulable pods delay a schedulable one."""
    longest = 0.0
    for why in whys or tuple(HOPELESS):
        for shape in shapes or SHAPES:
            for event in events or EVENTS:
                case = Case(nodes, pods, why, shape, event, limit)
                # A new process starts without earlier clusters in memory.
                with ProcessPoolExecutor(1, get_context("spawn")) as processes:
                    delay, stall, tried = processes.submit(measure, case).result()
                longest = max(longest, delay)
                told = f"{delay:.2f} s" if delay < limit else f"more than {limit:g} s"
                print(
                    f"{pods:,} pods, {why}, {shape}; {event}: the pod that fits is bound after "
                    f"{told} ({tried:,} others tried; longest step {1000 * stall:.0f} ms)",
                    flush=True,
                )
    print(f"longest: {longest:.2f} s; promised: {BOUND_SECONDS:g} s")
    sys.exit(longest > BOUND_SECONDS)


class Case(msgspec.Struct, frozen=True):
    """A case to measure; see the options."""

    nodes: int
    pods: int
    why: str
    shapes: str
    event: str
    limit: float


class Timed:
    """An engine whose clock is its own CPU time."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.now = floor(engine.core.now) + 10.0
        self.longest = 0.0
        self.tried = 0
        self._next_tick = self.now
        self._stream: Iterator[Event] = iter(())
        self._next_of_stream = self.now

    def add_stream(self, stream: Iterator[Event]) -> None:
        """Add a stream of events that continues from now on."""
        self._stream, self._next_of_stream = stream, self.now

    def handle(self, event: Event) -> list[Bind]:
        """Handle an event; return the resulting Bind instructions."""
        start = thread_time_ns()
        told = self.engine.handle(event, self.now)
        seconds = (thread_time_ns() - start) / 1e9
        self.now += seconds
        self.longest = max(self.longest, seconds)
        return [each for each in told if isinstance(each, Bind)]

    def decide(self) -> list[Bind]:
        """Decide about one pod, after the due tick."""
        if self.now >= self._next_tick:
            self._next_tick = floor(self.now) + 1.0
            self.handle(Tick())
        while self.now >= self._next_of_stream and (event := next(self._stream, None)) is not None:
            self._next_of_stream += 1 / ENDS_PER_SECOND
            self.handle(event)
        self.tried += 1
        return self.handle(Decide())

    def settle(self) -> None:
        """Let every pod be tried."""
        # Longer than the maximum backoff.
        for _ in range(20):
            while self.engine.has_ready:
                self.engine.handle(Decide(), self.now)
            self.now += 1.0
            self.engine.handle(Tick(), self.now)
        self._next_tick = self.now


def measure(case: Case) -> tuple[float, float, int]:
    """Return the delay, the longest step, and the number of other pods tried meanwhile."""
    engine = Profiles(None).load(objects_from_documents(_cluster(case.nodes))).engine
    timed = Timed(engine)
    for pod in _hopeless(case):
        engine.handle(ObjectSet("pods", pod), timed.now)
    if case.event != "they arrive":
        timed.settle()
    # The daemon does this after its initial lists.
    gc.collect()
    gc.freeze()
    happens = _EVENTS[case.event](case)
    if case.event == "patience ends":
        timed.now += FLUSH_SECONDS
    if case.event == GOES_ON:
        timed.add_stream(_ends(case))
        until = timed.now + WARM_UP_SECONDS
        while timed.now < until:
            if not engine.has_ready:
                timed.now += 1 / ENDS_PER_SECOND
            timed.decide()
    fitting = _pod_info(_pod("fits", "50m", 0))
    start = timed.now
    timed.handle(happens)
    timed.handle(ObjectSet("pods", fitting))
    while timed.now - start < case.limit and engine.has_ready:
        binds = timed.decide()
        for bind in binds:
            timed.handle(Bound(bind.attempt))
        if any(bind.name == "fits" for bind in binds):
            break
    return timed.now - start, timed.longest, timed.tried - 1


_EVENTS: Final[dict[str, Callable[[Case], Event]]] = {
    "they arrive": lambda _: Tick(),
    "a pod ends": lambda _: ObjectGone("pods", "default", "running-0", "uid-running-0"),
    "a node is added": lambda case: ObjectSet("nodes", _node_object(case.nodes)),
    "patience ends": lambda _: Tick(),
    GOES_ON: lambda _: Tick(),
}


def _ends(case: Case) -> Iterator[Event]:
    for i in range(SMALL_PODS * case.nodes):
        yield ObjectGone("pods", "default", f"small-{i}", f"uid-small-{i}")


def _node_object(number: int) -> Any:
    return objects_from_documents([("bench", _node(number))]).nodes[0]


def _cluster(nodes: int) -> Iterator[tuple[str, Json]]:
    """Yield nodes that are almost full with pods that may not be preempted."""
    for i in range(nodes):
        yield "bench", _node(i)
    for i in range(nodes):
        pod = _pod(f"running-{i}", "3900m", 1000)
        pod["spec"]["nodeName"] = f"node-{i}"
        yield "bench", pod
    for i in range(SMALL_PODS * nodes):
        pod = _pod(f"small-{i}", "1m", 1000)
        pod["spec"]["nodeName"] = f"node-{i % nodes}"
        yield "bench", pod


def _node(number: int) -> Json:
    name = f"node-{number}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name}},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
    }


def _hopeless(case: Case) -> Iterator[PodInfo]:
    spec_of = HOPELESS[case.why]
    for i in range(case.pods):
        pod = _pod(f"hopeless-{i}", "0", 10)
        pod["spec"] |= spec_of(0 if case.shapes == "one shape" else i)
        yield _pod_info(pod)


def _pod(name: str, cpu: str, priority: int) -> Json:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"containers": [container], "priority": priority},
    }


def _pod_info(body: Json) -> PodInfo:
    return objects_from_documents([("bench", body)]).pods[0]


if __name__ == "__main__":
    main()
