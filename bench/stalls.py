"""The longest stall of stowage's event loop, from its own metrics."""

import math
import urllib.request

from e2e.support.probing import unverified
from e2e.support.processes import Program

_BUCKET = "stowage_loop_stall_seconds_bucket"


def scrape_stalls(program: Program) -> dict[float, float]:
    """Reads how many stalls were at most so many seconds long, by that limit."""
    url = f"{program.url}/metrics"
    with urllib.request.urlopen(url, context=unverified(), timeout=10) as answer:  # noqa: S310
        return stalls_in(answer.read().decode())


def stalls_in(exposition: str) -> dict[float, float]:
    """Reads the same from the text of a scrape."""
    buckets = {}
    for line in exposition.splitlines():
        if line.startswith(_BUCKET):
            labels, _, count = line.rpartition(" ")
            limit = labels.split('le="')[1].split('"')[0]
            buckets[math.inf if limit == "+Inf" else float(limit)] = float(count)
    return buckets


def longest_stall_ms(now: dict[float, float], before: dict[float, float]) -> float | None:
    """Gives a limit no stall between two scrapes was longer than; none when nothing is known."""
    if not now:
        return None
    since = {limit: count - before.get(limit, 0) for limit, count in now.items()}
    total = since[max(since)]
    return 1000 * min(limit for limit, count in since.items() if count == total)
