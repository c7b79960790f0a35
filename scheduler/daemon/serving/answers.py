"""The forms of answers, as in kube-scheduler."""

from http import HTTPStatus
from typing import Any, Final

import msgspec
from aiohttp import web

NOT_CACHED: Final = {"Cache-Control": "no-cache, private"}


def plain(text: str, status: int = 200) -> web.Response:
    """A text."""
    return web.Response(
        text=text,
        status=status,
        content_type="text/plain",
        charset="utf-8",
        headers={"X-Content-Type-Options": "nosniff"},
    )


def as_json(body: bytes, status: int = 200) -> web.Response:
    """JSON that is encoded already."""
    return web.Response(
        body=body,
        status=status,
        content_type="application/json",
        headers={"X-Content-Type-Options": "nosniff"},
    )


def failure(status: HTTPStatus, message: str) -> web.Response:
    """A metav1.Status, as every refusal of Kubernetes is."""
    reason = {HTTPStatus.UNAUTHORIZED: "Unauthorized", HTTPStatus.FORBIDDEN: "Forbidden"}[status]
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": int(status),
    }
    if status is HTTPStatus.FORBIDDEN:
        body["details"] = {}
    return as_json(msgspec.json.encode(body), status)
