"""Reads the history of a pod from the Events that the API server still has."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.daemon.client.errors import ApiError
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.client.wire import UNREADABLE
from scheduler.kernel.answers.waiting_model import StoryEntry

_MOST: Final = 200
_POD: Final = "Pod"
_SECONDS: Final = 5.0


class _Read(msgspec.Struct, rename="camel", frozen=True):
    """The fields of an Event that are read; old clusters write null for unset fields."""


class _Named(_Read, frozen=True):
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    creation_timestamp: str | None = None


class _Series(_Read, frozen=True):
    count: int | None = None
    last_observed_time: str | None = None


class _Event(_Read, frozen=True):
    metadata: _Named = _Named()
    involved_object: _Named = _Named()
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    event_time: str | None = None
    last_timestamp: str | None = None
    series: _Series | None = None


class _Events(_Read, frozen=True):
    items: Sequence[_Event] | None = ()


_decoder: Final = msgspec.json.Decoder(_Events)


async def past_of(session: ApiSession, pod: PodInfo) -> tuple[list[StoryEntry], tuple[str, ...]]:
    """Return the events about a pod by time, and a notice if they cannot be read."""
    namespace = pod.namespace
    selector = f"involvedObject.kind={_POD},involvedObject.name={pod.name}"
    query = urlencode({"fieldSelector": selector, "limit": _MOST})
    path = f"/api/v1/namespaces/{quote(namespace)}/events?{query}"
    try:
        answer = await session.request("GET", path, timeout=_SECONDS)
    except ApiError as problem:
        told = problem.message or problem.reason or str(problem.status)
        return [], (f"Events of {namespace} cannot be read: {told}",)
    try:
        events = _decoder.decode(answer.body).items or ()
    except UNREADABLE as problem:
        return [], (f"Events of {namespace} cannot be read: {problem}",)
    about = [each for each in events if _is_about(pod, each.involved_object)]
    return sorted(map(_entry, about), key=lambda entry: entry.time), ()


def _is_about(pod: PodInfo, involved: _Named) -> bool:
    """Return whether an event is about this pod, not an earlier one or another kind of its name."""
    if involved.name != pod.name or involved.kind not in (None, "", _POD):
        return False
    # Of a static pod, the kubelet has a UID of its own.
    is_static = pod.controller is not None and pod.controller.kind == "Node"
    return is_static or involved.uid in (None, "", pod.uid)


def _entry(event: _Event) -> StoryEntry:
    series = event.series or _Series()
    count = series.count or event.count or 1
    time = (
        series.last_observed_time
        or event.last_timestamp
        or event.event_time
        or event.metadata.creation_timestamp
        or ""
    )
    message = event.message or ""
    detail = f"{message} (x{count})" if count > 1 else message
    return StoryEntry(time, 0, event.reason or "Event", detail)
