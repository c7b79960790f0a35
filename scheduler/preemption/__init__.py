"""Whom to evict so that a more important pod fits: decisions over a snapshot, nothing is done here.

Source: kubernetes pkg/scheduler/framework/preemption (v1.36).
"""

from scheduler.preemption.estimate import soonest_start
from scheduler.preemption.evaluator import Evaluator, rows_that_may_help
from scheduler.preemption.evictions import Evictions
from scheduler.preemption.importance import Importance

__all__ = ["Evaluator", "Evictions", "Importance", "rows_that_may_help", "soonest_start"]
