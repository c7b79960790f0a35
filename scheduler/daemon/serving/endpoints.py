"""The endpoints except health: metrics, configuration, flags, cache and queue.

Source: cmd/kube-scheduler/app server.go newEndpointsHandler; k8s.io/apiserver pkg/server/routes,
statusz, flagz (1.36.3). Differs: /debug/cache, /debug/queue, /debug/explain and /debug/recording
are ours; there is no /debug/pprof.
"""

import asyncio
import platform
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from scheduler.api.pods import PodInfo
from scheduler.clock import Clock
from scheduler.daemon.serving.answers import NOT_CACHED, as_json, plain
from scheduler.daemon.serving.health import Check, HealthMetrics, HealthPath
from scheduler.daemon.serving.pod_resources import pod_resource_slices
from scheduler.observability.build_info import KUBERNETES_VERSION, stowage_version
from scheduler.observability.dumps import json_slices
from scheduler.observability.exposition import CONTENT_TYPE, exposition
from scheduler.observability.logs import get_logger, verbose

_FOR_PEOPLE: Final = "For people to read: any version may write it differently."
_MAX_LEVEL_DIGITS: Final = 4
_EXPLAIN_USAGE: Final = """\
expected ?pod=NAMESPACE/NAME, and optionally
&nodes=all   every node by itself, not only how many there are of each sort
&node=NAME   these nodes by themselves; as often as wanted
&changes=1   what would help, too
&estimate=1  when a pod fits that does not fit now
"""

_log = get_logger(__name__)


class DebugQuery(msgspec.Struct, frozen=True):
    """A query to /debug/explain about a pod.

    Attributes:
        pod: `namespace/name`.
        nodes: the nodes to list one by one; if empty, `all_nodes` decides.
        all_nodes: whether to list all nodes one by one, instead of counting them.
        changes: whether to look for changes that would make the pod fit.
        estimate: whether to estimate the time at which a pod fits that does not fit now.
    """

    pod: str
    nodes: Sequence[str] = ()
    all_nodes: bool = False
    changes: bool = False
    estimate: bool = False


class EndpointSources(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the endpoints; a callable runs at each request of its endpoint."""

    metrics: CollectorRegistry
    reset_metrics: Callable[[], None]
    configuration: Callable[[], Mapping[str, Any]]
    """The effective configuration in plain values (`config.write.to_object`)."""
    pods: Mapping[str, PodInfo] = {}
    """All non-terminal pods of the cluster, by any key, for /metrics/resources."""
    is_leading: Callable[[], bool] = lambda: True
    """Whether /metrics/resources has series: those of several replicas would add up."""
    flags: Sequence[tuple[str, str]] = ()
    checks: Mapping[str, Mapping[str, Check]] = {}
    """The checks by path: healthz, livez, readyz (`health.scheduler_checks`)."""
    debug: Mapping[str, Callable[[], object]] = {}
    """Served as JSON at /debug/<name>; see `scheduler.observability.dumps`."""
    explain: Callable[[DebugQuery], Awaitable[bytes | None]] | None = None
    """Served at /debug/explain: JSON about a pod; None if there is no such pod."""
    recording: Callable[[], Callable[[], bytes]] | None = None
    """Served at /debug/recording; the function it returns runs in a thread."""
    level_can_be_set: bool = True
    """enableProfiling: whether /debug/flags/v is served."""


class Endpoints:
    """The handlers of all paths."""

    def __init__(self, sources: EndpointSources, clock: Clock) -> None:
        self._sources = sources
        self._clock = clock
        self._started = clock.wall()
        self._health_metrics = HealthMetrics(CollectorRegistry())

    def routes(self) -> list[web.RouteDef]:
        """Return every path with its handler."""
        sources = self._sources
        routes = [
            web.get("/metrics", self._metrics),
            web.delete("/metrics", self._reset_metrics),
            web.get("/metrics/slis", self._slis),
            web.get("/metrics/resources", self._resources),
            web.get("/configz", self._configz),
            web.get("/statusz", self._statusz),
            web.get("/flagz", self._flagz),
        ]
        for kind in ("healthz", "livez", "readyz"):
            health = HealthPath(kind, sources.checks.get(kind, {}), self._health_metrics)
            routes += health.routes()
        for name, show in sources.debug.items():
            routes.append(web.get(f"/debug/{name}", _dump(show)))
        if sources.explain is not None:
            routes.append(web.get("/debug/explain", _explain(sources.explain)))
        if sources.recording is not None:
            routes.append(web.get("/debug/recording", _download(sources.recording)))
        if sources.level_can_be_set:
            routes.append(web.route("*", "/debug/flags/v", _level))
        return routes

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        return await _expose(request, self._sources.metrics)

    async def _slis(self, request: web.Request) -> web.StreamResponse:
        return await _expose(request, self._health_metrics.registry)

    async def _resources(self, request: web.Request) -> web.StreamResponse:
        response = await _begun(request)
        if self._sources.is_leading():
            for text in pod_resource_slices(self._sources.pods):
                await response.write(text)
                await asyncio.sleep(0)
        await response.write_eof()
        return response

    async def _reset_metrics(self, _request: web.Request) -> web.Response:
        self._sources.reset_metrics()
        return plain("metrics start anew\n")

    async def _configz(self, _request: web.Request) -> web.Response:
        return as_json(msgspec.json.encode({"componentconfig": self._sources.configuration()}))

    async def _statusz(self, _request: web.Request) -> web.Response:
        paths = " ".join(sorted(f"/{p}" for p in ("configz", "flagz", "metrics", *_HEALTH_PATHS)))
        lines = {
            "Started": f"{self._started:%a %b %d %H:%M:%S UTC %Y}",
            "Up": _duration(self._started, self._clock.wall()),
            "Python version": platform.python_version(),
            "Binary version": stowage_version(),
            "Kubernetes version": KUBERNETES_VERSION,
            "Paths": paths,
        }
        body = "".join(f"{name}:  {value}\n" for name, value in lines.items())
        return plain(f"\nstowage statusz\n{_FOR_PEOPLE}\n\n{body}")

    async def _flagz(self, _request: web.Request) -> web.Response:
        lines = "".join(f"{name}={value}\n" for name, value in self._sources.flags)
        return plain(f"\nstowage flagz\n{_FOR_PEOPLE}\n\n{lines}")


_HEALTH_PATHS: Final = ("healthz", "livez", "readyz")


async def _begun(request: web.Request) -> web.StreamResponse:
    """Begin an answer with metrics, compressed if the client accepts it."""
    response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE, **NOT_CACHED})
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        response.enable_compression(web.ContentCoding.gzip)
    await response.prepare(request)
    return response


async def _expose(request: web.Request, registry: CollectorRegistry) -> web.StreamResponse:
    response = await _begun(request)
    async for text in exposition(registry):
        await response.write(text)
    await response.write_eof()
    return response


def _dump(show: Callable[[], object]) -> Any:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", **NOT_CACHED})
        await response.prepare(request)
        # The dump of a large cluster has many megabytes: other tasks run between its slices.
        for text in json_slices(show()):
            if text:
                await response.write(text)
            await asyncio.sleep(0)
        await response.write_eof()
        return response

    return handle


def _explain(ask: Callable[[DebugQuery], Awaitable[bytes | None]]) -> Any:
    async def handle(request: web.Request) -> web.Response:
        query = request.query
        pod, nodes = query.get("pod", ""), query.get("nodes", "")
        if "/" not in pod or nodes not in ("", "all"):
            return plain(_EXPLAIN_USAGE, status=400)
        asked = DebugQuery(
            pod,
            query.getall("node", []),
            nodes == "all",
            changes=_is_set(query.get("changes", "")),
            estimate=_is_set(query.get("estimate", "")),
        )
        body = await ask(asked)
        if body is None:
            return plain(f"no pod {pod} that has not ended\n", status=404)
        return as_json(body)

    return handle


def _is_set(value: str) -> bool:
    return value not in ("", "0", "false")


def _download(take: Callable[[], Callable[[], bytes]]) -> Any:
    async def handle(_request: web.Request) -> web.Response:
        body = await asyncio.to_thread(take())
        return web.Response(body=body, content_type="application/octet-stream", headers=NOT_CACHED)

    return handle


async def _level(request: web.Request) -> web.Response:
    """Show or change the log level."""
    if request.method == "GET":
        return plain(f"{verbose.level}\n")
    if request.method != "PUT":
        return plain("only GET and PUT\n", status=405)
    text = (await request.text()).strip()
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_LEVEL_DIGITS):
        return plain(f'expected a whole number, got "{text[:20]}"\n', status=400)
    verbose.level = int(text)
    _log.info("Log level set", level_now=verbose.level)
    return plain(f"the log level is {text}\n")


def _duration(start: datetime, end: datetime) -> str:
    minutes, seconds = divmod(int((end - start).total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} hr {minutes:02} min {seconds:02} sec"
