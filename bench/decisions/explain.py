"""``python -m bench.decisions.explain``: processor time of the daemon per question about a pod.

The handler of `/debug/explain` over a loaded engine, without a server; a pod is bound before each
question, as happens where a daemon is at work. All threads of the process are counted.
"""

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from itertools import islice, repeat
from statistics import mean, median
from time import process_time_ns
from typing import Any, Final

import click
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from prometheus_client import CollectorRegistry

from bench.explain import KINDS, hopeless
from e2e.support.objects import make_nodes, make_pods
from scheduler.api.pods import PodInfo
from scheduler.clock import SystemClock
from scheduler.config.load import default_configuration
from scheduler.daemon.bootstrap.explaining import LiveExplainer
from scheduler.daemon.serving.endpoints import Endpoints, EndpointSources
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import Bound, Decide, ObjectSet, Tick
from scheduler.kernel.engine.instructions import Bind
from scheduler.tools.offline.cluster import Profiles, events_of
from scheduler.tools.offline.reading import objects_from_documents

LIMIT_MS: Final = 2.0
"""What a question may take in the mean over all kinds of pods, at 5,000 nodes."""
_WARM_UP: Final = 5
"""Questions about each kind that do not count."""

_Handle = Callable[[web.Request], Awaitable[web.Response]]


@click.command()
@click.option("--nodes", default=5000, show_default=True)
@click.option("--questions", default=50, show_default=True, help="About each kind of pod.")
@click.option("--query", default="", help="What is added to the question, such as &nodes=all.")
def main(*, nodes: int, questions: int, query: str) -> None:
    """Time questions about pods that fit nowhere; 1 if it is too long."""
    engine = _engine(nodes)
    asked = _pods(hopeless(len(KINDS)))
    load = _pods(make_pods(len(KINDS) * (_WARM_UP + questions), requests={"cpu": "10m"}))
    for pod in asked:
        engine.handle(ObjectSet("pods", pod), 0.0)
        engine.handle(Decide(), 0.0)
    explainer = LiveExplainer(engine, {pod.key: pod for pod in asked}, lambda: True, SystemClock())
    handle = _handler(explainer)
    binding = iter(load)
    # As the daemon does once its caches are filled.
    gc.collect()
    gc.freeze()
    means: list[float] = []
    for pod in asked:
        target = f"/debug/explain?pod={pod.key}{query}"
        times, size = asyncio.run(
            _ask(engine, handle, target, islice(binding, _WARM_UP + questions))
        )
        counted = times[_WARM_UP:]
        means.append(mean(counted))
        middle = f"median {median(counted):.2f}"
        print(f"{pod.key}: {means[-1]:.2f} ms, {middle}, {size:,} bytes", flush=True)
    print(f"mean: {mean(means):.2f} ms (target: at most {LIMIT_MS:g})")
    sys.exit(mean(means) > LIMIT_MS)


def _engine(nodes: int) -> Engine:
    engine = Profiles(default_configuration("stowage")).engine(0)
    bodies = make_nodes(nodes, allocatable={"pods": "1000", "cpu": "64"})
    for event in events_of(objects_from_documents(zip(repeat("nodes"), bodies))):
        engine.handle(event, 0.0)
    engine.handle(Tick(), 0.0)
    return engine


def _pods(bodies: Any) -> Sequence[PodInfo]:
    return objects_from_documents(zip(repeat("pods"), bodies)).pods


def _handler(explainer: LiveExplainer) -> _Handle:
    sources = EndpointSources(
        metrics=CollectorRegistry(),
        reset_metrics=lambda: None,
        configuration=dict,
        explain=explainer.explain,
    )
    routes = Endpoints(sources, SystemClock()).routes()
    [route] = [route for route in routes if route.path == "/debug/explain"]
    return route.handler  # type: ignore[return-value] # aiohttp's type has old handlers, too


async def _ask(
    engine: Engine, handle: _Handle, target: str, binding: Any
) -> tuple[list[float], int]:
    times, size = [], 0
    for pod in binding:
        _bind(engine, pod)
        request = make_mocked_request("GET", target)
        start = process_time_ns()
        response = await handle(request)
        times.append((process_time_ns() - start) / 1e6)
        if response.status != HTTPStatus.OK or not isinstance(response.body, bytes):
            raise SystemExit(f"{target}: {response.status} {response.text}")
        size = len(response.body)
    return times, size


def _bind(engine: Engine, pod: PodInfo) -> None:
    engine.handle(ObjectSet("pods", pod), 0.0)
    [bind] = [each for each in engine.handle(Decide(), 0.0) if isinstance(each, Bind)]
    engine.handle(Bound(bind.attempt), 0.0)
    engine.handle(ObjectSet("pods", pod.on_node(bind.node)), 0.0)
    engine.handle(Tick(), 0.0)


if __name__ == "__main__":
    main()
