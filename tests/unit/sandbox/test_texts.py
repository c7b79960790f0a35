"""Quantities, times and names as texts."""

from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies

from scheduler.api.quantity import milli_value
from scheduler.sandbox.names import (
    is_dns_label,
    is_dns_subdomain,
    is_label_value,
    is_path_segment,
    is_port_name,
    is_qualified_name,
    is_service_name,
)
from scheduler.sandbox.quantities import QuantityError, canonical_quantity, quantity_value
from scheduler.sandbox.timestamps import canonical_micro_time, canonical_time


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1000m", "1"), ("0.5", "500m"), ("1500m", "1500m"), ("1024Mi", "1Gi"), ("0.5Gi", "512Mi"),
        ("1.5Ki", "1536"), ("1.1Ki", "1126400m"), ("512", "512"), ("1000", "1k"), ("1e3", "1e3"),
        ("12e4", "120e3"), ("1E", "1E"), ("0", "0"), ("0Ki", "0"), ("0.5Ki", "512"),
        ("100n", "100n"), ("0.1n", "1n"), (".5", "500m"), ("1.", "1"), ("-1000m", "-1"),
    ],
)  # fmt: skip
def test_quantities_have_one_canonical_form(text: str, canonical: str) -> None:
    """The stored text is the one the real server writes."""
    assert canonical_quantity(text) == canonical


@pytest.mark.parametrize("text", ["", "1x", "m", "1 Gi", "1KI", "--1", "1e", "0x1", "."])
def test_other_texts_are_no_quantities(text: str) -> None:
    """What does not parse names the syntax."""
    with pytest.raises(QuantityError, match="quantities must match the regular expression"):
        canonical_quantity(text)


SUFFIXES = ["n", "u", "m", "", "k", "M", "G", "Ki", "Mi", "Gi", "Ti", "e3", "e-3"]


@settings(deadline=None)
@given(strategies.decimals(0, 10**6, places=3), strategies.sampled_from(SUFFIXES))
def test_the_canonical_form_is_worth_the_same(number: Decimal, suffix: str) -> None:
    """Canonicalising twice changes nothing, and the scheduler reads the same value from it."""
    text = f"{number}{suffix}"

    canonical = canonical_quantity(text)

    assert canonical_quantity(canonical) == canonical
    assert quantity_value(canonical) == quantity_value(text)
    if quantity_value(text) == Decimal(text.removesuffix(suffix)) and not suffix:
        assert milli_value(canonical) == milli_value(text)


def test_times_are_stored_in_utc() -> None:
    """Fractions of a Time are dropped, those of a MicroTime kept; zones are resolved."""
    assert canonical_time("2026-01-01T01:30:00.9+01:00") == "2026-01-01T00:30:00Z"
    assert canonical_micro_time("2026-01-01T00:00:00.000001Z") == "2026-01-01T00:00:00.000001Z"
    for text in ("yesterday", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z"):
        with pytest.raises(ValueError, match=r"parsing time|month must be"):
            canonical_time(text)


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        pytest.param(is_dns_label, ["a", "a-1"], ["", "A", "a.b", "-a", "a" * 64], id="label"),
        pytest.param(is_dns_subdomain, ["a.b", "1"], ["a..b", "a_b", "a" * 254], id="subdomain"),
        pytest.param(is_service_name, ["a1"], ["1a", "a.b"], id="service"),
        pytest.param(is_path_segment, ["a:b"], ["a/b", ".."], id="role"),
        pytest.param(
            is_qualified_name,
            ["a", "x.y/A_b", "a.b"],
            ["", "/a", "x/", "a/b/c", "A/b", "a b", "a" * 64],
            id="qualified",
        ),
        pytest.param(is_label_value, ["", "a_B.c"], ["-a", "a b", "a" * 64], id="label value"),
        pytest.param(is_port_name, ["http", "h-1"], ["80", "a--b", "-a", "a" * 16, "A"], id="port"),
    ],
)
def test_names_follow_their_rule(rule: object, good: list[str], bad: list[str]) -> None:
    """A good name has no complaints, a bad one at least one."""
    assert callable(rule)

    assert [name for name in good if rule(name)] == []
    assert [name for name in bad if not rule(name)] == []
