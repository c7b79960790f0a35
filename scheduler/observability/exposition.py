"""Renders metrics as text in slices, between which other tasks of the event loop run.

A full scrape takes 5 to 15 us a line, tens of milliseconds together, which would delay decisions.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from typing_extensions import override

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

_SLICE_SAMPLES: Final = 100
"""Samples per slice, which take one or two milliseconds."""

_HEADER_LINES: Final = 2
"""Number of header lines of a metric: HELP and TYPE."""


async def exposition(registry: CollectorRegistry) -> AsyncIterator[bytes]:
    """Yield every metric as text; other tasks run between two slices."""
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
    """A registry with one collected metric."""

    def __init__(self, metric: Metric) -> None:
        super().__init__()
        self._metric = metric

    @override
    def collect(self) -> Iterable[Metric]:
        """Yield the metric."""
        yield self._metric
