"""Writes the condition of a pod group to the API that the group comes from.

If all tries fail, the next attempt of the group writes the condition. A scheduled group has none.
"""

import msgspec

from scheduler.api.pod_group_apis import CONDITIONS
from scheduler.clock import Clock
from scheduler.daemon.client.writes import PodWrites
from scheduler.daemon.driver.status_tries import in_tries
from scheduler.kernel.engine.events import GroupStatusFailed
from scheduler.kernel.engine.instructions import PatchGroupStatus
from scheduler.observability.logs import get_logger

log = get_logger(__name__)


async def write_group_status(
    writes: PodWrites, patch: PatchGroupStatus, clock: Clock
) -> GroupStatusFailed | None:
    """Set the condition under its name in the group's API; foreign APIs have no such condition.

    Returns:
        The event for the engine if the condition is not written.
    """
    called = CONDITIONS.get(patch.api_version)
    if called is None:
        return None
    condition = msgspec.structs.replace(patch.condition, type=called)
    problem = await in_tries(
        lambda: writes.patch_group_status(
            patch.api_version, patch.namespace, patch.name, patch.uid, clock.wall(), condition
        )
    )
    if problem is None:
        return None
    group = f"{patch.namespace}/{patch.name}"
    log.warning("Error updating pod group", pod_group=group, err=str(problem))
    return GroupStatusFailed(patch.namespace, patch.name, patch.uid)
