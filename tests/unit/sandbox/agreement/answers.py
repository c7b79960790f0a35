"""Sending the steps, and what of an answer can be compared."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from tests.unit.sandbox.agreement.steps import STEPS, Step

VOLATILE = {
    "creationTimestamp",
    "deletionTimestamp",
    "lastProbeTime",
    "lastTransitionTime",
    "managedFields",
    "resourceVersion",
    "uid",
    # Go writes these for every node, empty or not.
    "daemonEndpoints",
}
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CURRENT = re.compile(r"current: \d+")
Answer = dict[str, Any]


async def answers(session: aiohttp.ClientSession) -> AsyncIterator[tuple[Step, Answer]]:
    """The comparable part of the answer to every step."""
    for step in STEPS:
        data = (
            step.body if isinstance(step.body, str) or step.body is None else json.dumps(step.body)
        )
        headers = {"Content-Type": step.media_type} if data is not None else {}
        request = session.request(step.method, step.path, data=data, headers=headers)
        async with request as response:
            text = await response.text()
            found = {name: response.headers.get(name) for name in ("Warning", "Retry-After")}
            answer = {"code": response.status, "headers": found, "body": _parsed(text)}
        yield step, comparable(answer)


def _parsed(text: str) -> Any:
    try:
        return [json.loads(line) for line in text.splitlines() if line]
    except json.JSONDecodeError:
        return text


def comparable(value: Any) -> Any:
    """An answer without times and versions, and without what means nothing: null, empty."""
    if isinstance(value, dict):
        kept = {name: comparable(inner) for name, inner in value.items() if name not in VOLATILE}
        return {name: inner for name, inner in kept.items() if inner not in (None, "", [], {})}
    if isinstance(value, list):
        return [comparable(inner) for inner in value]
    if isinstance(value, str):
        return CURRENT.sub("current: N", UID.sub("UID", value))
    return value
