"""A server that is made to be far away."""

import asyncio

from bench.distance import listen

SECONDS = 0.05


def test_what_is_sent_arrives_later_whole_and_in_order() -> None:
    """Both ways, many pieces on their way at once; the end arrives too."""

    async def story() -> tuple[bytes, float]:
        near, ended = asyncio.get_running_loop(), asyncio.Event()

        async def echo_until_the_end(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            await _echo(reader, writer)
            ended.set()

        echo = await asyncio.start_server(echo_until_the_end, "127.0.0.1", 0)
        host, port = echo.sockets[0].getsockname()
        far = await listen((host, port), 0, SECONDS)
        reader, writer = await asyncio.open_connection(*far.sockets[0].getsockname())
        start = near.time()
        for number in range(20):
            writer.write(b"%d " % number)
            await asyncio.sleep(0.001)
        writer.write(b".")
        answer = await reader.readuntil(b".")
        seconds = near.time() - start
        writer.close()
        # The end is on its way too.
        await asyncio.wait_for(ended.wait(), 5)
        await asyncio.sleep(2 * SECONDS)
        far.close()
        echo.close()
        return answer, seconds

    answer, seconds = asyncio.run(asyncio.wait_for(story(), 10))

    assert answer == b"".join(b"%d " % number for number in range(20)) + b"."
    assert seconds >= 2 * SECONDS


def test_a_server_that_is_not_there_ends_the_connection() -> None:
    """As it would without the distance."""

    async def story() -> bytes:
        nobody = await asyncio.start_server(_echo, "127.0.0.1", 0)
        host, port = nobody.sockets[0].getsockname()
        nobody.close()
        await nobody.wait_closed()
        far = await listen((host, port), 0, SECONDS)
        reader, writer = await asyncio.open_connection(*far.sockets[0].getsockname())
        answer = await reader.read()
        writer.close()
        far.close()
        return answer

    assert asyncio.run(asyncio.wait_for(story(), 10)) == b""


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)
    writer.close()
    await writer.wait_closed()
