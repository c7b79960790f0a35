"""A slow cycle tells its steps; a span is made only where spans are wanted."""

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from scheduler.observability import tracing
from scheduler.observability.tracing import (
    CycleTracer,
    SpanExporter,
    TracingUnavailableError,
)
from tests.support.clock import FakeClock


class RecordingLog:
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **keys: Any) -> None:
        self.lines.append((event, keys))

    warning = error = info


def _cycle(clock: FakeClock, tracer: CycleTracer, seconds: float) -> None:
    start = clock.monotonic()
    clock.advance(seconds)
    steps = [(clock.monotonic(), "Filter")]
    clock.advance(0.01)
    steps.append((clock.monotonic(), "Score"))
    end = clock.monotonic()
    tracer.cycle_done("ns/pod", start, end, steps)


def test_a_slow_cycle_logs_its_steps() -> None:
    """More than 100 ms in all; each step with its own time."""
    clock, log = FakeClock(), RecordingLog()

    _cycle(clock, CycleTracer(log), 0.2)

    assert log.lines == [
        (
            "Slow cycle",
            {
                "trace": "Scheduling",
                "pod": "ns/pod",
                "duration_seconds": 0.21,
                "steps": [
                    "Filter 200ms",
                    "Score 10ms",
                    "end 0ms",
                ],
            },
        )
    ]


def test_a_quick_cycle_is_silent() -> None:
    """As are thousands a minute."""
    clock, log = FakeClock(), RecordingLog()

    _cycle(clock, CycleTracer(log), 0.05)

    assert log.lines == []


def test_a_cycle_becomes_a_span_with_its_steps() -> None:
    """Times of the steps are times of day."""
    clock, exported = FakeClock(), InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    spans = SpanExporter(clock, provider)
    began = clock.wall().timestamp()

    _cycle(clock, CycleTracer(RecordingLog(), spans), 0.05)
    spans.close()

    (span,) = exported.get_finished_spans()
    assert span.name == "Scheduling"
    assert dict(span.attributes or {}) == {
        "k8s.namespace.name": "ns",
        "k8s.pod.name": "pod",
    }
    assert [event.name for event in span.events] == [
        "Filter",
        "Score",
    ]
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.start_time / 1e9 == pytest.approx(began)
    assert (span.end_time - span.start_time) / 1e9 == pytest.approx(0.06)


def test_missing_packages_are_one_clear_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named."""

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(tracing, "import_module", missing)

    with pytest.raises(TracingUnavailableError, match=r"install stowage-scheduler\[tracing\]"):
        tracing.open_telemetry(FakeClock())


def test_open_telemetry_is_set_up() -> None:
    """Nothing is sent while nothing is traced."""
    spans = tracing.open_telemetry(FakeClock())

    spans.close()


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_spans_are_wanted_when_it_is_said_where_they_go(
    environment: dict[str, str], wanted: bool
) -> None:
    """By OpenTelemetry's own variables."""
    assert tracing.is_wanted(environment) == wanted
