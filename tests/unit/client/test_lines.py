"""Lines of a body: whatever the chunks, none lost, none kept longer than allowed."""

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
import uvloop
from aiohttp import web
from aiohttp.client_proto import ResponseHandler
from hypothesis import given, strategies as st

from scheduler.daemon.client.errors import UnavailableError
from scheduler.daemon.client.lines import LineSplitter, StreamedLines
from tests.unit.client.scripted_server import serving

LINES = st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=8)


@given(LINES, st.lists(st.integers(1, 12), min_size=1))
def test_lines_do_not_depend_on_chunks(lines: list[bytes], sizes: list[int]) -> None:
    """Those that are too long are cut, the others are whole."""
    body = b"".join(line + b"\n" for line in lines)
    splitter = LineSplitter(max_bytes=20, kept_bytes=5)

    got: list[bytes] = []
    while body:
        size = sizes[len(got) % len(sizes)]
        got += splitter.feed(body[:size])
        body = body[size:]

    assert not splitter.is_within_line
    assert [g if len(line) <= 20 else g[:5] for g, line in zip(got, lines, strict=True)] == [
        line if len(line) <= 20 else line[:5] for line in lines
    ]


def test_a_line_without_end_is_not_kept() -> None:
    """A hundred megabytes pass through sixteen."""
    splitter = LineSplitter(max_bytes=1000, kept_bytes=100)

    most = 0
    for _ in range(1000):
        assert splitter.feed(b"x" * 900) == []
        most = max(most, len(splitter._begun))

    assert most <= 1900
    assert splitter.feed(b"\nnext\n") == [b"x" * 100, b"next"]


def read_until_broken(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> tuple[list[bytes], str]:
    async def scenario() -> tuple[list[bytes], str]:
        got: list[bytes] = []
        async with serving(answer) as (_, session):
            try:
                async with session.stream("/", read_timeout=60.0) as lines:
                    while batch := await lines.read():
                        got.extend(batch)
            except UnavailableError as problem:
                return got, problem.message
        return got, ""

    return uvloop.run(scenario())


def test_a_byte_now_and_then_is_not_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that has begun must end."""
    monkeypatch.setattr("scheduler.daemon.client.lines.LINE_SECONDS", 0.1)

    async def trickle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"whole\n")
        while True:
            await response.write(b"x")
            await asyncio.sleep(0.02)

    assert read_until_broken(trickle) == ([b"whole"], "no answer in time")


def test_a_body_that_ends_within_a_line_is_broken() -> None:
    """What came of the line is not told as one."""

    async def half(request: web.Request) -> web.StreamResponse:
        return web.Response(text="whole\nha")

    assert read_until_broken(half) == ([b"whole"], "the answer ended within a line")


def test_a_read_right_after_the_connection_is_lost_is_no_bug() -> None:
    """Until the body has been told of the loss, a read raises a RuntimeError."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        content = aiohttp.StreamReader(ResponseHandler(loop), 2**16, loop=loop)
        with pytest.raises(UnavailableError, match="Connection closed"):
            await StreamedLines("GET /w", content).read()

    asyncio.run(scenario())
