"""What a scheduling cycle spent its time on: always logged when slow, a span when wanted.

A cycle costs a few readings of the clock here. With OpenTelemetry (extra `stowage[tracing]`) each
cycle also becomes a span with its steps as events, made after the fact so that nothing is
carried through the cycle.

Source: pkg/scheduler/schedule_one.go (utiltrace "Scheduling"), k8s.io/utils/trace.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from scheduler.clock import Clock
from scheduler.errors import SchedulerError
from scheduler.observability.logs import Logger

SLOW_SECONDS: Final = 0.1
"""Source: schedule_one.go, `trace.LogIfLong(100 * time.Millisecond)`."""

_SERVICE_NAME: Final = "stowage"


class TracingUnavailableError(SchedulerError):
    """Spans were asked for, but OpenTelemetry is not installed."""


class CycleTrace:
    """The steps of one cycle."""

    __slots__ = ("_now", "_tracer", "name", "pod", "start", "steps")

    def __init__(
        self, tracer: "CycleTracer", now: Callable[[], float], name: str, pod: str
    ) -> None:
        self._tracer = tracer
        self._now = now
        self.name = name
        self.pod = pod
        self.steps: list[tuple[float, str]] = []
        self.start = now()

    def step(self, text: str) -> None:
        """Note that something is done."""
        self.steps.append((self._now(), text))

    def end(self, result: str = "") -> None:
        """Close the trace: log it when it was slow, export it when spans are wanted."""
        self._tracer.ended(self, self._now(), result)


class CycleTracer:
    """Begins traces, and says what becomes of them."""

    def __init__(self, clock: Clock, log: Logger, spans: "SpanExporter | None" = None) -> None:
        self._now = clock.monotonic
        self._log = log
        self._spans = spans

    def begin(self, name: str, pod: str) -> CycleTrace:
        """Begin the trace of a cycle: `Scheduling`, for pod `namespace/name`."""
        return CycleTrace(self, self._now, name, pod)

    def ended(self, trace: CycleTrace, end: float, result: str) -> None:
        """Take over a closed trace."""
        if end - trace.start > SLOW_SECONDS:
            self._log_slow(trace, end, result)
        if self._spans is not None:
            self._spans.export(trace, end, result)

    def _log_slow(self, trace: CycleTrace, end: float, result: str) -> None:
        steps = []
        before = trace.start
        for at, text in trace.steps:
            steps.append(f"{text} {_milliseconds(at - before)}ms")
            before = at
        steps.append(f"end {_milliseconds(end - before)}ms")
        self._log.info(
            "Slow cycle",
            trace=trace.name,
            pod=trace.pod,
            result=result,
            duration_seconds=round(end - trace.start, 4),
            steps=steps,
        )


class SpanExporter:
    """Turns closed traces into OpenTelemetry spans.

    Where they go is OpenTelemetry's own business: the variables `OTEL_EXPORTER_OTLP_ENDPOINT`,
    `OTEL_TRACES_SAMPLER` and so on.

    Args:
        clock: tells how monotonic time relates to the time of day.
        provider: an OpenTelemetry TracerProvider.
    """

    def __init__(self, clock: Clock, provider: Any) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(_SERVICE_NAME)
        self._wall_offset = clock.wall().timestamp() - clock.monotonic()

    def export(self, trace: CycleTrace, end: float, result: str) -> None:
        """Make the span; the provider sends it later, from a thread of its own."""
        namespace, _, name = trace.pod.partition("/")
        attributes = {"k8s.namespace.name": namespace, "k8s.pod.name": name, "result": result}
        start = self._nanoseconds(trace.start)
        span = self._tracer.start_span(trace.name, start_time=start, attributes=attributes)
        for at, text in trace.steps:
            span.add_event(text, timestamp=self._nanoseconds(at))
        span.end(end_time=self._nanoseconds(end))

    def close(self) -> None:
        """Send what is still waiting."""
        self._provider.shutdown()

    def _nanoseconds(self, monotonic: float) -> int:
        return int((monotonic + self._wall_offset) * 1e9)


def open_telemetry(clock: Clock) -> SpanExporter:
    """Set OpenTelemetry up with its OTLP exporter.

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
            "spans need OpenTelemetry: install stowage[tracing], or run without tracing"
        ) from error
    resource = resources.Resource.create({"service.name": _SERVICE_NAME})
    provider = sdk.TracerProvider(resource=resource)
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return SpanExporter(clock, provider)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
