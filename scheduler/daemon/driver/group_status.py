"""Writes the condition of a pod group to the API that the group comes from.

A request that may succeed later is repeated: a scheduled group has no later attempt that would
write its condition. If it still fails, the next attempt of the group writes the condition.
"""

import asyncio
from typing import Final

import msgspec

from scheduler.api.pod_group_apis import CONDITIONS
from scheduler.clock import Clock
from scheduler.daemon.client.errors import NotFoundError
from scheduler.daemon.client.writes import PodWrites
from scheduler.errors import RequestError
from scheduler.kernel.engine.events import GroupStatusFailed
from scheduler.kernel.engine.instructions import PatchGroupStatus
from scheduler.observability.logs import get_logger

TRIES: Final = 4
FIRST_PAUSE_SECONDS: Final = 0.01
LONGER: Final = 5
"""Source: client-go util/retry/util.go (DefaultBackoff) v0.36."""

log = get_logger(__name__)


async def write_group_status(
    writes: PodWrites, patch: PatchGroupStatus, clock: Clock
) -> GroupStatusFailed | None:
    """Set the condition under its name in the group's API; foreign APIs have no such condition.

    Returns:
        The event for the engine if the condition is not written.

    Source: pkg/scheduler/util/utils.go (Retriable, PatchPodGroupStatus) v1.36.
    """
    called = CONDITIONS.get(patch.api_version)
    if called is None:
        return None
    condition = msgspec.structs.replace(patch.condition, type=called)
    pause = FIRST_PAUSE_SECONDS
    for left in reversed(range(TRIES)):
        try:
            await writes.patch_group_status(
                patch.api_version, patch.namespace, patch.name, patch.uid, clock.wall(), condition
            )
        except NotFoundError:
            return None  # the group is gone, and its status with it
        except RequestError as problem:
            if not left or problem.is_certain:
                group = f"{patch.namespace}/{patch.name}"
                log.warning("Error updating pod group", pod_group=group, err=str(problem))
                break
        else:
            return None
        await asyncio.sleep(pause)
        pause *= LONGER
    return GroupStatusFailed(patch.namespace, patch.name, patch.uid)
