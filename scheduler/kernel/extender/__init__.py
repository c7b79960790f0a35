"""Scheduler extenders: their requests, and the meaning of their answers.

Pure: requests and answers are values, bodies are bytes. `client.extenders` sends them, the engine
decides when.

Source: kubernetes pkg/scheduler/extender.go, staging/src/k8s.io/kube-scheduler/extender/v1 (v1.36).
"""

from scheduler.kernel.extender.advice import Advice
from scheduler.kernel.extender.calls import ExtenderCalls, ExtenderError
from scheduler.kernel.extender.extenders import Extenders, KnownExtender
from scheduler.kernel.extender.questions import (
    Answer,
    Filtered,
    MetaVictims,
    NoAnswer,
    Preempted,
    Prioritized,
    Question,
    Verb,
)

__all__ = [
    "Advice",
    "Answer",
    "ExtenderCalls",
    "ExtenderError",
    "Extenders",
    "Filtered",
    "KnownExtender",
    "MetaVictims",
    "NoAnswer",
    "Preempted",
    "Prioritized",
    "Question",
    "Verb",
]
