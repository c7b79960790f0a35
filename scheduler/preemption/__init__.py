"""Whom to evict so that a more important pod fits: decisions over a snapshot, nothing is done here.

Source: kubernetes pkg/scheduler/framework/preemption (v1.36).
"""

from scheduler.preemption.evaluator import Evaluator
from scheduler.preemption.evictions import Evictions

__all__ = ["Evaluator", "Evictions"]
