"""Durations are read and written as Go does."""

import pytest
from hypothesis import given, strategies as st

from scheduler.config.duration import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("15s", 15.0, id="seconds"),
        pytest.param("1m30s", 90.0, id="minutes and seconds"),
        pytest.param("1.5h", 5400.0, id="fraction"),
        pytest.param(".5s", 0.5, id="fraction without a whole part"),
        pytest.param("1.s", 1.0, id="dot without a fraction"),
        pytest.param("-2m", -120.0, id="negative"),
        pytest.param("+3ms", 0.003, id="plus sign"),
        pytest.param("0", 0.0, id="bare zero"),
        pytest.param("100us", 1e-4, id="microseconds"),
        pytest.param("100µs", 1e-4, id="micro sign"),
        pytest.param("1s1s", 2.0, id="units may repeat"),
        pytest.param("", None, id="empty"),
        pytest.param("15", None, id="no unit"),
        pytest.param("1d", None, id="days do not exist"),
        pytest.param("1 h", None, id="space"),
        pytest.param("s", None, id="no number"),
        pytest.param("-", None, id="sign only"),
        pytest.param("1e3s", None, id="exponent"),
        pytest.param("0" * 126 + "1s", 1.0, id="128 characters"),
        pytest.param("0" * 127 + "1s", None, id="129 characters"),
        pytest.param("2562048h", None, id="more than 64 bits of nanoseconds"),
    ],
)
def test_parse(text: str, seconds: float | None) -> None:
    """A duration is a number with a unit, or several, or a bare zero."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(0.0, "0s", id="zero"),
        pytest.param(15.0, "15s", id="seconds"),
        pytest.param(600.0, "10m0s", id="minutes"),
        pytest.param(3600.0, "1h0m0s", id="hours"),
        pytest.param(90.25, "1m30.25s", id="fraction"),
        pytest.param(0.5, "500ms", id="milliseconds"),
        pytest.param(0.0000015, "1.5µs", id="microseconds"),
        pytest.param(1e-9, "1ns", id="nanosecond"),
        pytest.param(-2.0, "-2s", id="negative"),
    ],
)
def test_format(seconds: float, text: str) -> None:
    """The largest unit comes first and none is left out in between."""
    assert format_duration(seconds) == text


@given(st.integers(-(10**15), 10**15))
def test_what_is_written_is_read_back(microseconds: int) -> None:
    """Writing and reading returns the same number of seconds."""
    seconds = microseconds / 1e6

    assert parse_duration(format_duration(seconds)) == seconds
