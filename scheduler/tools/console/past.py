"""The past of a pod, from its Events, as far as the API server still has them."""

from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from scheduler.daemon.client.errors import ApiError
from scheduler.daemon.client.session import ApiSession
from scheduler.kernel.answers.waiting_model import StoryEntry

_MOST: Final = 200
_SECONDS: Final = 5.0


async def past_of(
    session: ApiSession, namespace: str, name: str
) -> tuple[list[StoryEntry], tuple[str, ...]]:
    """Read the events about a pod by time, and a notice if they cannot be read."""
    query = urlencode({"fieldSelector": f"involvedObject.name={name}", "limit": _MOST})
    path = f"/api/v1/namespaces/{quote(namespace)}/events?{query}"
    try:
        answer = await session.request("GET", path, timeout=_SECONDS)
    except ApiError as problem:
        told = problem.message or problem.reason or str(problem.status)
        return [], (f"Events of {namespace} cannot be read: {told}",)
    items: list[dict[str, Any]] = msgspec.json.decode(answer.body).get("items") or []
    about = [each for each in items if (each.get("involvedObject") or {}).get("name") == name]
    return sorted(map(_entry, about), key=lambda entry: entry.time), ()


def _entry(event: dict[str, Any]) -> StoryEntry:
    series = event.get("series") or {}
    count = series.get("count") or event.get("count") or 1
    time = (
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or (event.get("metadata") or {}).get("creationTimestamp")
        or ""
    )
    message = str(event.get("message") or "")
    detail = f"{message} (x{count})" if count > 1 else message
    return StoryEntry(str(time), 0, str(event.get("reason") or "Event"), detail)
