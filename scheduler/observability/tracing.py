"""Traces scheduling cycles by step: logs slow ones, and exports all as spans on request.

The steps are the extension points, which are measured for metrics, so a fast cycle costs nothing
more. With OpenTelemetry (extra `stowage-scheduler[tracing]`) each cycle also becomes a span with
its steps as events; the span is made after the cycle, which passes no context.

Source: pkg/scheduler/schedule_one.go (utiltrace "Scheduling"), k8s.io/utils/trace.
"""

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

from scheduler.clock import Clock
from scheduler.errors import SchedulerError
from scheduler.observability.logs import Logger

SLOW_SECONDS: Final = 0.1
"""Source: schedule_one.go, `trace.LogIfLong(100 * time.Millisecond)`."""

_NAME: Final = "Scheduling"
_SERVICE_NAME: Final = "stowage"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class TracingUnavailableError(SchedulerError):
    """Spans were requested, but OpenTelemetry is not installed."""


class CycleTrace(NamedTuple):
    """One completed scheduling cycle."""

    pod: str
    """`namespace/name`"""
    start: float
    end: float
    steps: Sequence[tuple[float, str]]
    """The end time and the name of each step."""


class CycleTracer:
    """Traces scheduling cycles: slow ones are logged, all are exported if spans are requested.

    Args:
        log: the log of slow cycles.
        spans: exports all cycles as spans.
    """

    def __init__(self, log: Logger, spans: "SpanExporter | None" = None) -> None:
        self._log = log
        self._spans = spans

    def cycle_done(
        self, pod: str, start: float, end: float, steps: Sequence[tuple[float, str]]
    ) -> None:
        """Note the end of a scheduling cycle.

        Args:
            pod: `namespace/name` of the pod.
            start: the start of the cycle, in seconds of the monotonic clock.
            end: the end of the cycle.
            steps: the end time and the name of each step; read before this method returns.
        """
        is_slow = end - start > SLOW_SECONDS
        if not is_slow and self._spans is None:
            return
        trace = CycleTrace(pod, start, end, tuple(steps))
        if is_slow:
            self._log_slow(trace)
        if self._spans is not None:
            self._spans.export(trace)

    def _log_slow(self, trace: CycleTrace) -> None:
        steps = []
        before = trace.start
        for at, text in trace.steps:
            steps.append(f"{text} {_milliseconds(at - before)}ms")
            before = at
        steps.append(f"end {_milliseconds(trace.end - before)}ms")
        self._log.info(
            "Slow cycle",
            trace=_NAME,
            pod=trace.pod,
            duration_seconds=round(trace.end - trace.start, 4),
            steps=steps,
        )


class SpanExporter:
    """Exports traces of cycles as OpenTelemetry spans.

    Environment variables of OpenTelemetry configure the export: `OTEL_EXPORTER_OTLP_ENDPOINT`,
    `OTEL_TRACES_SAMPLER` and others.

    Args:
        clock: converts monotonic time to the time of day.
        provider: an OpenTelemetry TracerProvider.
    """

    def __init__(self, clock: Clock, provider: Any) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(_SERVICE_NAME)
        self._wall_offset = clock.wall().timestamp() - clock.monotonic()

    def export(self, trace: CycleTrace) -> None:
        """Make the span; the provider sends it later, from its own thread."""
        namespace, _, name = trace.pod.partition("/")
        attributes = {"k8s.namespace.name": namespace, "k8s.pod.name": name}
        start = self._nanoseconds(trace.start)
        span = self._tracer.start_span(_NAME, start_time=start, attributes=attributes)
        for at, text in trace.steps:
            span.add_event(text, timestamp=self._nanoseconds(at))
        span.end(end_time=self._nanoseconds(trace.end))

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()

    def _nanoseconds(self, monotonic: float) -> int:
        return int((monotonic + self._wall_offset) * 1e9)


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Return whether environment variables of OpenTelemetry name a destination of spans."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    return any(environment.get(name) for name in _ENDPOINTS)


def open_telemetry(clock: Clock) -> SpanExporter:
    """Set up OpenTelemetry with its OTLP exporter.

    Raises:
        TracingUnavailableError: the packages are not installed.
    """
    try:
        sdk = import_module("opentelemetry.sdk.trace")
        export = import_module("opentelemetry.sdk.trace.export")
        otlp = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        resources = import_module("opentelemetry.sdk.resources")
    except ImportError as error:
        raise TracingUnavailableError(
            "spans need OpenTelemetry: install stowage-scheduler[tracing], or run without tracing"
        ) from error
    resource = resources.Resource.create(
        {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": _SERVICE_NAME}
    )
    provider = sdk.TracerProvider(resource=resource)
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return SpanExporter(clock, provider)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
