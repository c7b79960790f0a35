"""Metrics as text, in slices that leave the event loop room to work.

A full scrape takes 5 to 15 us a line, tens of milliseconds together; no decision waits for that.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from typing_extensions import override

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

_SLICE_SAMPLES: Final = 100
"""A millisecond of work, or two."""

_HEADER_LINES: Final = 2
"""HELP and TYPE, which a metric has once."""


async def exposition(registry: CollectorRegistry) -> AsyncIterator[bytes]:
    """Render every metric, giving way to other work between slices."""
    for metric in registry.collect():
        for text in _slices(metric):
            yield text
            await asyncio.sleep(0)


def _slices(metric: Metric) -> Iterator[bytes]:
    samples = metric.samples
    for start in range(0, max(len(samples), 1), _SLICE_SAMPLES):
        part = Metric(metric.name, metric.documentation, metric.type, metric.unit)
        part.samples = samples[start : start + _SLICE_SAMPLES]
        text = generate_latest(_One(part))
        yield text if start == 0 else text.split(b"\n", _HEADER_LINES)[_HEADER_LINES]


class _One(CollectorRegistry):
    """A registry of one metric that is collected already."""

    def __init__(self, metric: Metric) -> None:
        super().__init__()
        self._metric = metric

    @override
    def collect(self) -> Iterable[Metric]:
        """Yield the metric."""
        yield self._metric
