"""Reads the longest stall of stowage's event loop, and its cause, from its metrics."""

import math
import urllib.request
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from prometheus_client.parser import text_string_to_metric_families

from e2e.support.probing import unverified
from e2e.support.processes import Program

_METRIC: Final = "stowage_loop_stall_seconds"

Counts: TypeAlias = Mapping[tuple[str, float], float]
"""Cumulative number of stalls, by work and upper bound in seconds."""


class Stall(NamedTuple):
    """Upper bound of the longest stall.

    Attributes:
        ms: upper bound in milliseconds.
        work: the work that caused it.
    """

    ms: float
    work: str


def scrape_stalls(program: Program) -> Counts:
    """Scrape the stall histogram."""
    url = f"{program.url}/metrics"
    with urllib.request.urlopen(url, context=unverified(), timeout=10) as answer:  # noqa: S310
        return stalls_in(answer.read().decode())


def stalls_in(exposition: str) -> Counts:
    """Parse the stall histogram in a scrape."""
    lines = "\n".join(line for line in exposition.splitlines() if _METRIC in line)
    return {
        (sample.labels.get("work", ""), float(sample.labels["le"])): sample.value
        for family in text_string_to_metric_families(f"{lines}\n")
        for sample in family.samples
        if sample.name == f"{_METRIC}_bucket"
    }


def longest_stall(
    now: Counts, before: Counts, counts: Callable[[str], bool] = lambda _: True
) -> Stall | None:
    """Return the longest stall between two scrapes, or None.

    Args:
        now: the later scrape.
        before: the earlier scrape.
        counts: selects the kinds of work.
    """
    stalls = [Stall(0.0, "")] if now else []
    for work in filter(counts, {work for work, _ in now}):
        since = {
            limit: count - before.get((work, limit), 0)
            for (of, limit), count in now.items()
            if of == work
        }
        total = since[math.inf]
        if total:
            limit = min(limit for limit, count in since.items() if count == total)
            stalls.append(Stall(1000 * limit, work))
    return max(stalls, default=None)
