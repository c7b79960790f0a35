"""Figures are computed from moments as they say they are."""

import json
from pathlib import Path

import pytest

from bench.latency import percentile, waiting_times_ms
from bench.request_log import RequestLog
from bench.rounds import orders
from bench.stalls import Stall, longest_stall, stalls_in
from bench.throughput import latest, rate

_EXPOSITION = """\
# HELP stowage_loop_stall_seconds How much later.
stowage_loop_stall_seconds_bucket{work="watches",le="0.001"} %d
stowage_loop_stall_seconds_bucket{work="watches",le="0.016"} %d
stowage_loop_stall_seconds_bucket{work="watches",le="+Inf"} %d
stowage_loop_stall_seconds_sum{work="watches"} 0.5
"""


def test_the_audit_log_is_read_as_it_grows(tmp_path: Path) -> None:
    """A line that is not complete yet is read next time; refused bindings are counted apart."""
    path = tmp_path / "audit.log"
    log = RequestLog(path)
    lines = [
        _line("p0", "", "10:00:00.000000"),
        _line("p0", "binding", "10:00:00.250000"),
        _line("p1", "binding", "10:00:00.500000", code=409),
        _line("p0.abc", "", "10:00:01.000000", resource="events"),
        _line("p1", "binding", "10:00:01.250000"),
    ]
    text = "".join(f"{line}\n" for line in lines)

    log.read()
    path.write_text(text[:-40])
    log.read()
    first = (dict(log.bound), dict(log.refused))
    path.write_text(text)
    log.read()

    assert list(first[0]) == list(log.created) == ["p0"]
    assert log.event_created["p0.abc"] - log.created["p0"] == pytest.approx(1.0)
    assert first[1] == log.refused == {409: 1}
    assert log.bound["p0"] - log.created["p0"] == pytest.approx(0.25)
    assert log.bound["p1"] - log.bound["p0"] == pytest.approx(1.0)


def test_rates_are_taken_from_bind_to_bind() -> None:
    """Eleven binds in ten seconds are one a second; the middle leaves a tenth out at each end."""
    moments = [1000.0, *(100.0 + n for n in range(19))]

    assert rate(moments, 0.0) == pytest.approx(19 / 900)
    assert rate(moments, 0.1) == pytest.approx(1.0)


def test_too_few_binds_have_no_rate() -> None:
    """One moment is no duration."""
    assert rate([1.0], 0.0) == 0.0


def test_a_pod_is_done_when_bind_and_event_are_in() -> None:
    """Whichever is later; a pod without an event is not done."""
    bound = {"a": 1.0, "b": 2.0, "c": 3.0}

    assert latest(bound, {"a": 5.0, "b": 1.5}) == {"a": 5.0, "b": 2.0}


def test_each_contestant_runs_at_each_place() -> None:
    """Each round has everybody once; the order changes from round to round."""
    found = list(orders(["a", "b", "c"], 4))

    assert [sorted(order) for order in found] == [["a", "b", "c"]] * 4
    assert len({tuple(order) for order in found[:3]}) == 3
    assert list(orders(["old", "new"], 3)) == [["old", "new"], ["new", "old"], ["old", "new"]]


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        pytest.param(0.5, 50.0, id="half"),
        pytest.param(0.99, 99.0, id="99 of 100"),
        pytest.param(1.0, 100.0, id="all"),
    ],
)
def test_percentiles_are_values_that_occurred(share: float, expected: float) -> None:
    """The smallest value that so many do not exceed."""
    assert percentile([float(n) for n in range(100, 0, -1)], share) == expected
    assert percentile([], share) == 0.0


def test_the_first_pods_do_not_count_and_lost_ones_do(tmp_path: Path) -> None:
    """A tenth is warm-up; a pod that was never bound has waited until now, not zero."""
    log = RequestLog(tmp_path / "none")
    log.created = {f"p{n:02}": 100.0 + n for n in range(20)}
    log.bound = {name: moment + 0.01 for name, moment in log.created.items() if name != "p19"}
    log.bound["p00"] = 200.0
    log.bound["p18"] = log.created["p18"] - 0.001

    waits = waiting_times_ms(log)

    assert len(waits) == 18
    assert waits[:16] == pytest.approx([10.0] * 16)
    assert waits[16] == 0.0
    assert waits[17] > 1e6


def test_the_longest_stall_is_the_highest_bucket_that_grew() -> None:
    """Stalls before the first scrape, such as those of the start, do not count."""
    before = stalls_in(_EXPOSITION % (5, 6, 9))
    after = stalls_in(_EXPOSITION % (25, 27, 30))

    assert longest_stall(after, before) == Stall(16.0, "watches")
    assert longest_stall(after, {}) == Stall(float("inf"), "watches")
    assert longest_stall({}, {}) is None


def _line(name: str, subresource: str, time: str, code: int = 201, resource: str = "pods") -> str:
    return json.dumps(
        {
            "stage": "ResponseComplete",
            "verb": "create",
            "user": {"username": "someone"},
            "requestReceivedTimestamp": "2025-01-01T00:00:00.000000Z",
            "stageTimestamp": f"2025-01-01T{time}Z",
            "objectRef": {
                "resource": resource,
                "subresource": subresource,
                "namespace": "measured",
                "name": name,
            },
            "responseStatus": {"code": code},
        }
    )
