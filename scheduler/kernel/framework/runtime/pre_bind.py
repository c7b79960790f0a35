"""Groups of PreBind plugins; the driver runs those of a group at the same time.

Source: pkg/scheduler/framework/runtime/framework.go (getPreBindPluginGroups) v1.36.3.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias

from scheduler.kernel.framework.status import SUCCESS, Status

Work: TypeAlias = Callable[[], Awaitable[Status]]
"""The PreBind of one plugin."""
RunTogether: TypeAlias = Callable[[Sequence[Work]], Awaitable[Status]]
"""Runs all works, and returns Success or the first failure once all have ended."""


async def one_after_another(works: Sequence[Work]) -> Status:
    """Run works without an event loop; the first failure ends them."""
    for work in works:
        status = await work()
        if not status.is_success:
            return status
    return SUCCESS


def groups_of(plugins: Iterable[tuple[Any, bool]]) -> list[list[Any]]:
    """Group neighbours that allow it; each plugin comes with whether it does."""
    groups: list[list[Any]] = []
    is_open = False
    for plugin, may_join in plugins:
        if is_open and may_join:
            groups[-1].append(plugin)
        else:
            groups.append([plugin])
        is_open = may_join
    return groups
