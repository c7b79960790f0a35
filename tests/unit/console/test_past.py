"""The past of a pod: its Events, of whatever age and shape."""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from scheduler.daemon.client.session import ApiSession
from scheduler.kernel.answers.waiting_model import StoryEntry
from scheduler.tools.console.past import past_of


class _Answer(msgspec.Struct):
    body: bytes


class _Session:
    """Answers each request with the same bytes."""

    def __init__(self, body: bytes) -> None:
        self._answer = _Answer(body)

    async def request(self, *_: Any, **__: Any) -> _Answer:
        return self._answer


def _past(body: bytes) -> tuple[list[StoryEntry], tuple[str, ...]]:
    return asyncio.run(past_of(cast("ApiSession", _Session(body)), "team", "web"))


def test_events_are_told_by_time_however_they_were_written() -> None:
    """By the client-go of today and of before; those of other pods are left out."""
    about = {"involvedObject": {"name": "web"}}
    series = {"count": 7, "lastObservedTime": "2026-01-01T00:03:00Z"}
    items: list[dict[str, Any]] = [
        {**about, "reason": "New", "message": "m", "eventTime": "2026-01-01T00:01:00.000000Z"},
        {**about, "reason": "Series", "message": "m", "series": series, "eventTime": None},
        {**about, "reason": "Old", "count": 2, "lastTimestamp": "2026-01-01T00:02:00Z"},
        {**about, "message": None, "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}},
        {"involvedObject": {"name": "other"}, "reason": "Other"},
    ]

    told, notices = _past(msgspec.json.encode({"items": items}))

    assert [(entry.what, entry.detail) for entry in told] == [
        ("Event", ""),
        ("New", "m"),
        ("Old", " (x2)"),
        ("Series", "m (x7)"),
    ]
    assert notices == ()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"items": [{"count": "x"}]}', b"\xff"])
def test_what_is_no_list_of_events_is_a_notice(body: bytes) -> None:
    """The page shows everything else."""
    told, (notice,) = _past(body)

    assert told == []
    assert notice.startswith("Events of team cannot be read: ")


def test_a_list_without_items_is_no_past() -> None:
    """As some servers write an empty list."""
    assert _past(b'{"items": null}') == ([], ())
