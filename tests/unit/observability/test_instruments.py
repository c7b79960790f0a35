"""Counters, gauges and histograms render as Prometheus expects."""

import asyncio
from math import inf

import pytest
from hypothesis import given, strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from scheduler.observability.exposition import exposition
from scheduler.observability.instruments import Instruments, exponential


def _text(registry: CollectorRegistry) -> list[str]:
    return generate_latest(registry).decode().splitlines()


def test_children_are_made_when_first_asked_for() -> None:
    """A family with labels has no series before, one without labels begins at zero."""
    registry = CollectorRegistry()
    instruments = Instruments(registry)
    counter = instruments.counter("a_total", "A.", "x", "y")
    instruments.counter("b_total", "B.")

    counter["1", "2"].inc()
    counter["1", "2"].inc(2)

    assert _text(registry) == [
        "# HELP a_total A.",
        "# TYPE a_total counter",
        'a_total{x="1",y="2"} 3.0',
        "# HELP b_total B.",
        "# TYPE b_total counter",
        "b_total 0.0",
    ]


def test_one_label_needs_no_tuple_and_wrong_labels_are_refused() -> None:
    """A mistake shows where it is made, not at the scrape."""
    gauge = Instruments(CollectorRegistry()).gauge("g", "G.", "kind")

    gauge["pods"].set(4)
    gauge["pods"].inc(-1)

    assert gauge["pods"].value == 3
    with pytest.raises(KeyError, match="g has the labels"):
        gauge["pods", "x"].set(1)


@pytest.mark.parametrize(
    ("kind", "name", "labels", "bounds", "told"),
    [
        ("gauge", "bad name", (), None, "metric 'bad name': expected letters, digits"),
        ("gauge", "", (), None, "metric '': expected letters, digits"),
        ("counter", "done", (), None, "expected the name of a counter to end in _total"),
        ("gauge", "g", ("1x",), None, "label '1x': expected letters"),
        ("gauge", "g", ("a", "a"), None, "expected labels that differ"),
        ("histogram", "h", ("le",), (1,), "label 'le': expected letters, digits and '_', no"),
        ("histogram", "h", (), (2, 1), "expected finite bounds that ascend, got (2, 1)"),
        ("histogram", "h", (), (1, inf), "expected finite bounds that ascend, got (1, inf)"),
    ],
)
def test_a_declaration_that_cannot_be_rendered_is_refused(
    kind: str, name: str, labels: tuple[str, ...], bounds: tuple[float, ...] | None, told: str
) -> None:
    """A plugin's own metric would otherwise end every scrape, or change its name there."""
    declare = getattr(Instruments(), kind)

    with pytest.raises(ValueError, match="metric") as refused:
        declare(name, "Text.", *labels, **({} if bounds is None else {"bounds": bounds}))

    assert told in str(refused.value)


def test_histogram_buckets_are_cumulative_and_bounds_are_written_as_go_does() -> None:
    """`le` is a label value; queries compare it as text."""
    registry = CollectorRegistry()
    histogram = Instruments(registry).histogram("h", "H.", bounds=(0.00001, 1, 2.5))[()]

    for value in (0.00001, 0.5, 1, 2, 99):
        histogram.observe(value)

    assert _text(registry)[2:] == [
        'h_bucket{le="1e-05"} 1.0',
        'h_bucket{le="1"} 3.0',
        'h_bucket{le="2.5"} 4.0',
        'h_bucket{le="+Inf"} 5.0',
        "h_count 5.0",
        "h_sum 102.50001",
    ]


def test_sources_are_asked_at_each_scrape() -> None:
    """They add to children, and win over those of the same labels."""
    registry = CollectorRegistry()
    gauge = Instruments(registry).gauge("g", "G.", "kind")
    gauge["a"].set(1)
    gauge["b"].set(2)
    values = {"b": 5.0}
    gauge.from_source(lambda: values)

    values["c"] = 6.0

    assert _text(registry)[2:] == ['g{kind="a"} 1.0', 'g{kind="b"} 5.0', 'g{kind="c"} 6.0']


def test_reset_keeps_children_that_are_held() -> None:
    """What accumulates starts again; gauges say how things are and stay."""
    instruments = Instruments(CollectorRegistry())
    counter = instruments.counter("c_total", "C.", "x")["1"]
    gauge = instruments.gauge("g", "G.")[()]
    histogram = instruments.histogram("h", "H.", bounds=(1.0,))[()]
    counter.inc()
    gauge.set(7)
    histogram.observe(3)

    instruments.reset()
    counter.inc()

    assert (counter.value, gauge.value, histogram.counts, histogram.sum) == (1, 7, [0, 0], 0)


def test_slices_together_are_the_whole() -> None:
    """Rendering in slices gives what rendering at once gives."""
    registry = CollectorRegistry()
    instruments = Instruments(registry)
    histogram = instruments.histogram("h", "H.", "x", bounds=exponential(1, 2, 20))
    for i in range(100):
        histogram[str(i)].observe(i)
    instruments.counter("empty_total", "No children.", "x")
    instruments.counter("c_total", "C.")

    async def collect() -> list[bytes]:
        return [piece async for piece in exposition(registry)]

    pieces = asyncio.run(collect())

    assert len(pieces) > 5
    assert b"".join(pieces) == generate_latest(registry)


def test_slices_give_way_to_other_work() -> None:
    """Between two slices everything else in the loop has its turn."""
    registry = CollectorRegistry()
    histogram = Instruments(registry).histogram("h", "H.", "x", bounds=exponential(1, 2, 20))
    for i in range(100):
        histogram[str(i)].observe(i)
    turns: list[str] = []
    note = turns.append

    async def scrape() -> None:
        async for _ in exposition(registry):
            note("slice")

    async def other_work() -> None:
        for _ in range(3):
            note("work")
            await asyncio.sleep(0)

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(scrape())
            group.create_task(other_work())

    asyncio.run(both())

    assert turns[:6] == ["slice", "work"] * 3


@given(st.lists(st.floats(0, 100, allow_nan=False)))
def test_every_value_is_in_exactly_one_bucket(values: list[float]) -> None:
    """The last bucket counts them all, and each bucket those up to its bound."""
    registry = CollectorRegistry()
    bounds = exponential(0.01, 2, 12)
    histogram = Instruments(registry).histogram("h", "H.", bounds=bounds)[()]

    for value in values:
        histogram.observe(value)

    samples = next(iter(text_string_to_metric_families(generate_latest(registry).decode()))).samples
    counted = {s.labels["le"]: s.value for s in samples if s.name == "h_bucket"}
    assert counted.pop("+Inf") == len(values)
    assert counted == {le: sum(v <= float(le) for v in values) for le in counted}
