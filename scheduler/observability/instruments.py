"""Counters, gauges and histograms that are cheap to write.

All writers run in one event loop, so no lock is needed and a value is a plain Python number;
prometheus_client only renders it. Measured: 0.05 us for `inc`, 0.2 us for `observe`, with the
look-up of the child (prometheus_client's own: 0.3 and 1.2 us, without the look-up).

    attempts = instruments.counter("attempts_total", "...", "result", "profile")
    attempts["scheduled", "default-scheduler"].inc()
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from math import isfinite
from typing import Any, Final, Generic, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector, CollectorRegistry
from typing_extensions import override

Labels = str | tuple[str, ...]
"""The label values of one child: the value itself for one label, () for none."""

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_RESERVED: Final = "le"
"""The label of a histogram's buckets."""

Source = Callable[[], Mapping[Any, float]]
"""Called at each scrape: returns the values of a gauge or counter by `Labels`."""


class CounterMetric:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        """Add to the value."""
        self.value += amount

    def reset(self) -> None:
        """Set the value to zero."""
        self.value = 0.0


class GaugeMetric:
    """A number that goes up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def set(self, value: float) -> None:
        """Replace the value."""
        self.value = value

    def inc(self, amount: float = 1) -> None:
        """Add to the value; the amount may be negative."""
        self.value += amount

    def reset(self) -> None:
        """Keep the value: a gauge is a state, not a count of events."""


class HistogramMetric:
    """A histogram: counts of values by bucket."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value in the first bucket whose bound is not below it."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def reset(self) -> None:
        """Set all counts to zero."""
        self.counts = [0] * (len(self._bounds) + 1)
        self.sum = 0.0


Child = TypeVar("Child", CounterMetric, GaugeMetric, HistogramMetric)


class Family(dict[Any, Child], Generic[Child]):
    """A metric with its children by label values; a child is created on first use."""

    def __init__(self, new: Callable[[], Child], metric: "_Declaration") -> None:
        super().__init__()
        self._new: Callable[[], Child] = new
        self._metric: _Declaration = metric
        if not metric.labels:
            self[()] = new()

    def __missing__(self, labels: Labels) -> Child:
        given = labels if isinstance(labels, tuple) else (labels,)
        if len(given) != len(self._metric.labels):
            raise KeyError(f"{self._metric.name} has the labels {self._metric.labels}, got {given}")
        child: Child = self._new()
        self[labels] = child
        return child

    def from_source(self, source: Source) -> None:
        """Take values from a callable at each scrape; they replace children of the same labels."""
        self._metric.sources.append(source)


class _Declaration:
    """The declaration of a metric, without its values."""

    __slots__ = ("bounds", "help", "kind", "labels", "name", "sources")

    def __init__(
        self,
        kind: type[CounterMetric | GaugeMetric | HistogramMetric],
        name: str,
        text: str,
        labels: tuple[str, ...],
        bounds: Sequence[float] = (),
    ) -> None:
        self.kind = kind
        self.name = name
        self.help = text
        self.labels = labels
        self.bounds = bounds
        self.sources: list[Source] = []


class Instruments(Collector):
    """All metrics of one process.

    Args:
        registry: serves the metrics; without one they are only counted.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._families: dict[str, tuple[_Declaration, Family[Any]]] = {}
        if registry is not None:
            registry.register(self)

    def counter(self, name: str, text: str, *labels: str) -> Family[CounterMetric]:
        """Declare a counter; its name ends in `_total`.

        Raises:
            ValueError: the name or a label is none, or the metric is declared in another way.
        """
        return self._add(_Declaration(CounterMetric, name, text, labels), CounterMetric)

    def gauge(self, name: str, text: str, *labels: str) -> Family[GaugeMetric]:
        """Declare a gauge."""
        return self._add(_Declaration(GaugeMetric, name, text, labels), GaugeMetric)

    def histogram(
        self, name: str, text: str, *labels: str, bounds: Sequence[float]
    ) -> Family[HistogramMetric]:
        """Declare a histogram with the upper bounds of its buckets."""
        declaration = _Declaration(HistogramMetric, name, text, labels, bounds)
        return self._add(declaration, lambda: HistogramMetric(bounds))

    def reset(self) -> None:
        """Set counters and histograms to zero; references to children stay valid."""
        for _, family in self._families.values():
            for child in family.values():
                child.reset()

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; prometheus_client calls this at each scrape."""
        for declaration, family in self._families.values():
            yield _rendered(declaration, family)

    def _add(self, declaration: _Declaration, new: Callable[[], Child]) -> Family[Child]:
        known = self._families.get(declaration.name)
        if known is not None:
            return _same(declaration, *known)
        _check(declaration)
        family = Family(new, declaration)
        self._families[declaration.name] = declaration, family
        return family


def _check(declaration: _Declaration) -> None:
    """Check a declaration: one that cannot be rendered would end every scrape.

    Raises:
        ValueError: a name is none, or the bounds do not ascend.
    """
    name, labels = declaration.name, declaration.labels
    about = f"metric {name!r}"
    if not _NAME.fullmatch(name):
        raise ValueError(f"{about}: expected letters, digits, '_' and ':', no digit first")
    if declaration.kind is CounterMetric and not name.endswith("_total"):
        raise ValueError(f"{about}: expected the name of a counter to end in _total")
    is_histogram = declaration.kind is HistogramMetric
    for label in labels:
        if not _LABEL.fullmatch(label) or (is_histogram and label == _RESERVED):
            raise ValueError(
                f"{about}: label {label!r}: expected letters, digits and '_', no digit first"
                f"{', and not le' if is_histogram else ''}"
            )
    if len(set(labels)) < len(labels):
        raise ValueError(f"{about}: expected labels that differ, got {labels}")
    bounds = declaration.bounds
    if not (all(map(isfinite, bounds)) and all(low < high for low, high in pairwise(bounds))):
        raise ValueError(f"{about}: expected finite bounds that ascend, got {tuple(bounds)}")


def _same(declaration: _Declaration, known: _Declaration, family: Family[Any]) -> Family[Any]:
    """Return the known family of an equal declaration: several profiles may build one plugin."""
    if (known.kind, known.labels) != (declaration.kind, declaration.labels):
        raise ValueError(f"{known.name} is declared already, in another way")
    return family


def _rendered(declaration: _Declaration, family: Family[Any]) -> Metric:
    if declaration.kind is HistogramMetric:
        return _rendered_histogram(declaration, family)
    values: dict[Labels, float] = {labels: child.value for labels, child in family.items()}
    for source in declaration.sources:
        values.update(source())
    kind = CounterMetricFamily if declaration.kind is CounterMetric else GaugeMetricFamily
    metric = kind(declaration.name, declaration.help, labels=declaration.labels)
    for labels, value in values.items():
        metric.add_metric(_as_tuple(labels), value)
    return metric


def _rendered_histogram(declaration: _Declaration, family: Family[HistogramMetric]) -> Metric:
    metric = HistogramMetricFamily(declaration.name, declaration.help, labels=declaration.labels)
    names = [*(_go_float(bound) for bound in declaration.bounds), "+Inf"]
    for labels, child in family.items():
        buckets = list(zip(names, map(float, accumulate(child.counts)), strict=True))
        metric.add_metric(_as_tuple(labels), buckets, child.sum)
    return metric


def _go_float(value: float) -> str:
    """Format a bound as Go does, `1` and not `1.0`: queries compare it as a label value."""
    return repr(float(value)).removesuffix(".0")


def _as_tuple(labels: Labels) -> tuple[str, ...]:
    return labels if isinstance(labels, tuple) else (labels,)


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return bucket bounds, each the previous one times the factor.

    They are multiplied step by step, as in Go, so that they are equal to the last bit.
    """
    bounds = [start]
    for _ in range(count - 1):
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)
