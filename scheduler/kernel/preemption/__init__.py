"""Preemption: selects the victims that make room for a pod of higher priority.

It decides over a snapshot; it evicts nothing.

Source: kubernetes pkg/scheduler/framework/preemption (v1.36).
"""

from scheduler.kernel.preemption.estimate import soonest_start
from scheduler.kernel.preemption.evaluator import Evaluator, rows_that_may_help
from scheduler.kernel.preemption.evictions import Evictions
from scheduler.kernel.preemption.importance import Importance

__all__ = ["Evaluator", "Evictions", "Importance", "rows_that_may_help", "soonest_start"]
