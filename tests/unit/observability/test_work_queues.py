"""Work queues are told of as client-go tells of its own."""

from prometheus_client import CollectorRegistry, generate_latest

from scheduler.observability.instruments import Instruments
from scheduler.observability.work_queues import WorkQueueMetrics


def test_a_queue_is_shown_by_its_name() -> None:
    """What is to be asked for at a scrape is asked for then."""
    registry = CollectorRegistry()
    metrics = WorkQueueMetrics(Instruments(registry))

    metrics.depth.from_source(lambda: {"binds": 2})
    metrics.adds["binds"].inc()

    samples = generate_latest(registry).decode().splitlines()
    assert 'workqueue_depth{name="binds"} 2.0' in samples
    assert 'workqueue_adds_total{name="binds"} 1.0' in samples
