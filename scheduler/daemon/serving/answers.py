"""Builds answers in the forms of kube-scheduler."""

from http import HTTPStatus
from typing import Any, Final

import msgspec
from aiohttp import web

NOT_CACHED: Final = {"Cache-Control": "no-cache, private"}


def plain(text: str, status: int = 200) -> web.Response:
    """Build an answer with a text."""
    return web.Response(
        text=text,
        status=status,
        content_type="text/plain",
        charset="utf-8",
        headers={"X-Content-Type-Options": "nosniff"},
    )


def as_json(body: bytes, status: int = 200) -> web.Response:
    """Build an answer with encoded JSON."""
    return web.Response(
        body=body,
        status=status,
        content_type="application/json",
        headers={"X-Content-Type-Options": "nosniff"},
    )


def failure(status: HTTPStatus, message: str) -> web.Response:
    """Build a refusal: a metav1.Status, as in Kubernetes."""
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
