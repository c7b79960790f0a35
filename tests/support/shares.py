"""Measurements that no test looks at."""

from scheduler.observability.instruments import Instruments
from scheduler.observability.loop_shares import LoopMetrics, LoopShares
from scheduler.observability.work_queues import WorkQueueMetrics


def unseen_shares() -> LoopShares:
    """Adds up what nobody asks for; time stands still."""
    return LoopShares(LoopMetrics(Instruments()), lambda: 0.0, lambda: 0.0)


def unseen_queues() -> WorkQueueMetrics:
    """Counts what nobody asks for."""
    return WorkQueueMetrics(Instruments())
