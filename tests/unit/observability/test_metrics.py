"""The metrics are kube-scheduler's: a dashboard made for it works here (see record.py)."""

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import scheduler
from scheduler.observability.engine_metrics import EngineMetrics
from scheduler.observability.instruments import (
    CounterMetric,
    Family,
    GaugeMetric,
    HistogramMetric,
    Instruments,
)
from scheduler.observability.metrics import SchedulerMetrics

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "kube-scheduler-metrics.json").read_text()
)

NOT_HERE = {
    "scheduler_get_node_hint_duration_seconds": "no hint is looked up: the class has its best rows",
    "scheduler_store_schedule_results_duration_seconds": "no results are stored between pods",
}
"""What kube-scheduler serves and Stowage does not, and why."""


def _everything_used() -> SchedulerMetrics:
    """Metrics with one child in every family."""
    metrics = SchedulerMetrics(CollectorRegistry())
    rooms = (
        metrics,
        metrics.engine,
        metrics.queue,
        metrics.framework,
        metrics.client,
        metrics.loop,
    )
    for family in (family for room in rooms for family in vars(room).values()):
        if isinstance(family, Family):
            labels = family._metric.labels
            child: CounterMetric | GaugeMetric | HistogramMetric = family[("x",) * len(labels)]
            if isinstance(child, HistogramMetric):
                child.observe(0)
    return metrics


def _catalogue(registry: CollectorRegistry) -> dict[str, dict[str, Any]]:
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        bounds = {float(s.labels["le"]) for s in family.samples if "le" in s.labels}
        found[family.name] = {
            "type": family.type,
            "labels": sorted(labels),
            "bounds": [repr(bound) for bound in sorted(bounds)],
        }
    return found


@pytest.mark.parity
@pytest.mark.parametrize("name", sorted(RECORDED.keys() - NOT_HERE.keys()))
def test_metric_is_kube_schedulers(name: str) -> None:
    """Name, type, label names and bucket bounds are equal, the bounds to the last bit."""
    expected = {key: RECORDED[name][key] for key in ("type", "labels", "bounds")}

    assert _catalogue(_everything_used().registry)[name] == expected


def test_bounds_rise() -> None:
    """Of every histogram, in the order in which they were given."""
    text = generate_latest(_everything_used().registry).decode()

    for family in text_string_to_metric_families(text):
        bounds = [float(s.labels["le"]) for s in family.samples if "le" in s.labels]
        assert all(former < later for former, later in pairwise(bounds)), family.name


def test_what_is_not_served_is_known() -> None:
    """A metric that is neither served nor listed as missing fails here."""
    ours = _catalogue(_everything_used().registry)

    assert RECORDED.keys() - ours.keys() == NOT_HERE.keys()


def test_a_metric_is_declared_in_one_place() -> None:
    """Its name and what is said of it; others share the declaration."""
    declaration = re.compile(r'\.(?:counter|gauge|histogram)\(\s*"(\w+)"')
    room = Path(scheduler.__file__).parent
    names = [n for path in room.rglob("*.py") for n in declaration.findall(path.read_text())]

    assert len(names) > 50
    assert [name for name, times in Counter(names).items() if times > 1] == []


def test_a_bound_pod_counts_everywhere() -> None:
    """Attempts, attempt time, time since it was first ready, and the flush that saved it."""
    metrics = EngineMetrics(Instruments())

    metrics.attempt_ended("scheduled", "p", 0.5)
    metrics.pod_bound(2, 3.0, was_flushed=True)
    metrics.pod_bound(40, 4.0, was_flushed=False)
    metrics.pod_bound(1, None, was_flushed=False)

    assert metrics.schedule_attempts["scheduled", "p"].value == 1
    assert metrics.scheduling_attempt_duration["scheduled", "p"].sum == 0.5
    assert metrics.pod_scheduling_sli_duration["2"].sum == 3.0
    assert metrics.pod_scheduling_sli_duration["15+"].sum == 4.0
    assert set(metrics.pod_scheduling_sli_duration) == {"2", "15+"}
    assert metrics.pod_scheduling_attempts.sum == 43
    assert metrics.pod_scheduled_after_flush.value == 1


def test_plugins_begin_at_zero() -> None:
    """As with kube-scheduler, a plugin that never took part is a zero and not a gap."""
    metrics = SchedulerMetrics(CollectorRegistry())

    metrics.declare_plugins("p", {"Filter": ["NodeName"], "Bind": ["DefaultBinder"]})

    metrics.informers.begin(["pods"])

    assert dict.fromkeys(metrics.framework.plugin_evaluation, 0) == {("NodeName", "Filter", "p"): 0}
    assert set(metrics.framework.plugin_errors) == {
        ("NodeName", "Filter"),
        ("DefaultBinder", "Bind"),
    }
    assert set(metrics.informers.watch_restarts) == {
        ("pods", why) for why in ("ended", "failed", "expired")
    }
    assert set(metrics.informers.malformed_objects) == {"pods"}


def test_process_and_build_are_told() -> None:
    """Memory, CPU, and the Kubernetes version whose behaviour this is."""
    text = generate_latest(SchedulerMetrics(CollectorRegistry()).registry).decode()

    assert "process_resident_memory_bytes" in text
    assert 'git_version="v1.36.' in text
    assert "stowage_build_info{" in text
