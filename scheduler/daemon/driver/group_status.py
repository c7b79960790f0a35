"""Writes the condition of a pod group to the API that the group comes from.

If all tries fail, the next attempt of the group writes the condition. A scheduled group has none.
"""

from math import inf

import msgspec

from scheduler.api.pod_group_apis import CONDITIONS
from scheduler.clock import Clock
from scheduler.daemon.client.errors import NotFoundError
from scheduler.daemon.client.status_tries import in_tries
from scheduler.daemon.client.writes import PodWrites
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
        ),
        within=inf,
    )
    if problem is None or isinstance(problem, NotFoundError):
        return None
    group = f"{patch.namespace}/{patch.name}"
    log.warning("Error updating pod group", pod_group=group, err=str(problem))
    return GroupStatusFailed(patch.namespace, patch.name, patch.uid)
