"""Extenders of which an engine is told; a test gives their answers."""

from typing import Any

from scheduler.config.types import Extender


def extender(**fields: Any) -> Extender:
    return Extender(**{"url_prefix": "http://e", "weight": 100, **fields})


FILTERS = extender(filter_verb="f")
SCORES = extender(prioritize_verb="p")
EVICTS = extender(preempt_verb="x")
BINDS = extender(bind_verb="b")
