"""Which of two versions of an object is the older one."""

import pytest

from scheduler.api.resource_versions import is_older_version


@pytest.mark.parametrize(
    ("version", "other", "is_older"),
    [
        ("7", "12", True),
        ("12", "7", False),
        ("12", "12", False),
        ("9" * 5_000, "1" + "0" * 5_000, True),
        ("", "12", False),
        ("7", "", False),
        ("7", "twelve", False),
        ("-7", "12", False),
    ],
)
def test_versions_are_compared_as_numbers(version: str, other: str, *, is_older: bool) -> None:
    """What is no number comes before nothing, and a long number is no error."""
    assert is_older_version(version, other) is is_older
