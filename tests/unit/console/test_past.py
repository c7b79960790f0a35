"""The past of a pod: its Events, of whatever age and shape."""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from scheduler.api.objects import OwnerReference
from scheduler.daemon.client.session import ApiSession
from scheduler.kernel.answers.waiting_model import StoryEntry
from scheduler.tools.console.past import past_of
from tests.support.builders import make_pod_info


class _Answer(msgspec.Struct):
    body: bytes


class _Session:
    """Answers each request with the same bytes."""

    def __init__(self, body: bytes) -> None:
        self._answer = _Answer(body)

    async def request(self, *_: Any, **__: Any) -> _Answer:
        return self._answer


def _past(body: bytes, **fields: Any) -> tuple[list[StoryEntry], tuple[str, ...]]:
    pod = make_pod_info("web", namespace="team", uid="its-uid", **fields)
    return asyncio.run(past_of(cast("ApiSession", _Session(body)), pod))


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


def test_events_of_others_of_its_name_are_no_past() -> None:
    """Another kind, and the pod before it; the kubelet has a UID of its own for a static pod."""

    def event(told: str, **involved: str) -> dict[str, Any]:
        return {"involvedObject": {"name": "web", **involved}, "reason": told}

    items = [
        event("Created", kind="StatefulSet", uid="its-uid"),
        event("Killed", kind="Pod", uid="uid-of-the-last-one"),
        event("Pulled", kind="Pod", uid="its-uid"),
    ]
    body = msgspec.json.encode({"items": items})
    node = OwnerReference("Node", "n", "uid-of-n", controller=True)

    assert [entry.what for entry in _past(body)[0]] == ["Pulled"]
    static, _ = _past(body, owner_references=[node])
    assert [entry.what for entry in static] == ["Killed", "Pulled"]


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"items": [{"count": "x"}]}', b"\xff"])
def test_what_is_no_list_of_events_is_a_notice(body: bytes) -> None:
    """The page shows everything else."""
    told, (notice,) = _past(body)

    assert told == []
    assert notice.startswith("Events of team cannot be read: ")


def test_a_list_without_items_is_no_past() -> None:
    """As some servers write an empty list."""
    assert _past(b'{"items": null}') == ([], ())
