"""Long bodies that come in parts, compressed or not."""

import asyncio
import gzip
from typing import Any

import pytest
from aiohttp import web

from scheduler.daemon.client.body import PART_BYTES
from scheduler.daemon.client.errors import ForbiddenError, UnavailableError
from tests.unit.client.scripted_server import dropped, hang, serving, status_answer

WORDS = b"many words " * 100_000


async def downloaded(answer: Any, timeout: float = 60.0) -> tuple[list[bytes], dict[str, str]]:
    """The parts that came, and the headers of the request."""
    async with serving(answer) as (server, session):
        parts = []
        async with session.download("/api/v1/pods", timeout=timeout) as body:
            while part := await body.read():
                parts.append(part)
        return parts, server.seen[0].headers


def answering(body: bytes, encoding: str = "gzip") -> Any:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Content-Encoding": encoding})

    return answer


@pytest.mark.parametrize(
    "answer",
    [answering(gzip.compress(WORDS)), answering(WORDS, "identity")],
    ids=["compressed", "as it is"],
)
def test_a_body_comes_in_parts(answer: Any) -> None:
    """All of it, whether or not the server has compressed it as it may."""
    parts, headers = asyncio.run(downloaded(answer))
    assert b"".join(parts) == WORDS
    assert len(parts) > 1
    assert headers["Accept-Encoding"] == "gzip"


def test_no_part_of_a_compressed_body_is_long() -> None:
    """However much a few bytes stand for."""
    parts, _ = asyncio.run(downloaded(answering(gzip.compress(bytes(2**25)))))
    assert sum(map(len, parts)) == 2**25
    assert max(map(len, parts)) <= PART_BYTES


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"plain", "incorrect header check"),
        (gzip.compress(b"words")[:-9], "is not whole"),
        (b"", "is not whole"),
        (gzip.compress(b"words") + b"more", "bytes follow"),
    ],
    ids=["not compressed", "cut off", "empty", "with something behind it"],
)
def test_what_cannot_be_unpacked_has_broken_off(body: bytes, message: str) -> None:
    """With what is wrong, and what was asked for."""
    with pytest.raises(UnavailableError, match=f"GET /api/v1/pods.*{message}"):
        asyncio.run(downloaded(answering(body)))


async def cut_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b"words")
    return dropped(request)


async def stuck(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b"words")
    return await hang()


async def refused(_: web.Request) -> web.StreamResponse:
    return status_answer(403, "Forbidden", "no")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [(cut_off, UnavailableError), (stuck, UnavailableError), (refused, ForbiddenError)],
)
def test_what_goes_wrong_is_said(answer: Any, problem: type[Exception]) -> None:
    """Before the first byte and after it."""
    with pytest.raises(problem):
        asyncio.run(downloaded(answer, timeout=0.3 if answer is stuck else 60.0))
