"""Serves /healthz, /livez and /readyz: liveness and readiness of this instance.

Source: k8s.io/apiserver pkg/server/healthz; cmd/kube-scheduler/app server.go Run (1.36.3).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from scheduler.daemon.serving.answers import plain
from scheduler.observability.instruments import Instruments
from scheduler.observability.logs import get_logger, verbose

Check = Callable[[], str | None]
"""Returns the problem; None if the check passes."""

_PING: Final[Mapping[str, Check]] = {"ping": lambda: None}

_log = get_logger(__name__)


class HealthMetrics:
    """The results of all checks, served at /metrics/slis.

    Source: k8s.io/component-base/metrics/prometheus/slis.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        instruments = Instruments(registry)
        self._last = instruments.gauge(
            "kubernetes_healthcheck",
            "1 when the check passed the last time, else 0.",
            "name",
            "type",
        )
        self._total = instruments.counter(
            "kubernetes_healthchecks_total",
            "How often the check was made, by its result.",
            "name",
            "type",
            "status",
        )

    def observe(self, name: str, kind: str, *, passed: bool) -> None:
        """Count one result of a check, and note it as the last one."""
        self._last[name, kind].set(float(passed))
        self._total[name, kind, "success" if passed else "error"].inc()


class HealthPath:
    """One of the paths /healthz, /livez and /readyz, with its checks."""

    def __init__(self, kind: str, checks: Mapping[str, Check], metrics: HealthMetrics) -> None:
        self.kind = kind
        self._checks = checks or _PING
        self._metrics = metrics

    def routes(self) -> list[web.RouteDef]:
        """Return the path with all checks, and one path for each check."""
        return [
            web.get(f"/{self.kind}", self._all),
            *(web.get(f"/{self.kind}/{name}", _one(check)) for name, check in self._checks.items()),
        ]

    async def _all(self, request: web.Request) -> web.Response:
        excluded = set(request.query.getall("exclude", []))
        lines: list[str] = []
        failed: dict[str, str] = {}
        for name, check in self._checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
                continue
            problem = check()
            self._metrics.observe(name, self.kind, passed=problem is None)
            if problem is None:
                lines.append(f"[+]{name} ok")
            else:
                # Any client may use this path. The problem is shown only at the path of the single
                # check, which needs authorization.
                failed[name] = problem
                lines.append(f"[-]{name} failed, see the log")
        unknown = sorted(excluded - self._checks.keys())
        if unknown:
            quoted = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: {quoted} cannot be excluded, there is no such check")
        return self._answer(lines, failed, is_verbose="verbose" in request.query)

    def _answer(
        self, lines: list[str], failed: Mapping[str, str], *, is_verbose: bool
    ) -> web.Response:
        if failed:
            if verbose(2):
                _log.info("Not healthy", v=2, path=self.kind, failed=dict(failed))
            return plain("\n".join([*lines, f"{self.kind} check failed\n"]), status=500)
        if not is_verbose:
            return plain("ok")
        return plain("\n".join([*lines, f"{self.kind} check passed\n"]))


def _one(check: Check) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(_request: web.Request) -> web.Response:
        problem = check()
        if problem is None:
            return plain("ok")
        return plain(f"internal server error: {problem}\n", status=500)

    return handle


def scheduler_checks(
    leader_election: Check | None,
    is_shutting_down: Callable[[], bool],
    is_synced: Callable[[], bool],
    blind_kinds: Callable[[], Sequence[str]] = list,
    port: Check | None = None,
) -> dict[str, dict[str, Check]]:
    """Return the checks of kube-scheduler by path.

    Args:
        leader_election: the check of the watchdog; None without leader election.
        is_shutting_down: returns whether the process was asked to end.
        is_synced: returns whether all caches have synced.
        blind_kinds: returns the kinds without a watch for too long.
        port: the check that the server of the port runs; for liveness, as a restart helps.
    """
    watchdog = {} if leader_election is None else {"leaderElection": leader_election}
    return {
        "healthz": {**watchdog},
        "livez": {} if port is None else {**_PING, "port": port},
        "readyz": {
            **watchdog,
            "shutdown": lambda: "process is shutting down" if is_shutting_down() else None,
            "sched-handler-sync": lambda: (
                None if is_synced() else "handlers are not fully synchronized"
            ),
            "watches": lambda: blind_message(blind_kinds()),
        },
    }


def blind_message(kinds: Sequence[str]) -> str | None:
    """Return the problem of kinds without a watch for too long; None if there are none."""
    return f"no watch on {', '.join(kinds)}" if kinds else None
