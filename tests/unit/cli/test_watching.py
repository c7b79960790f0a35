"""What is said of a cluster that is watched, when the watch itself has failed."""

import asyncio
from typing import Any, cast

from scheduler.tools.cli.watching import Watched


class _Informers:
    """All lists are complete, and no watch has been missing for long."""

    unsynced = ()

    def blind(self, _: float) -> tuple[str, ...]:
        return ()


def test_a_watch_that_has_failed_is_told() -> None:
    """By its own error, however deep; what is shown gets no newer."""

    async def fails() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(3600))
            raise LookupError("no such thing")

    async def notices() -> tuple[str, str]:
        tasks = (asyncio.create_task(fails()), asyncio.create_task(asyncio.sleep(3600)))
        watched = Watched("server", cast("Any", _Informers()), cast("Any", None), tasks)
        before = watched.notice(0.0)
        await asyncio.wait(tasks[:1])
        after = watched.notice(0.0)
        tasks[1].cancel()
        return before, after

    before, after = asyncio.run(notices())
    assert before == ""
    assert after == "out of date, no longer watched: LookupError('no such thing')"
