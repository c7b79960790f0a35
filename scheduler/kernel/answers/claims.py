"""Finds the claims and disks that exclude nodes, for the volume plugins of a profile."""

from typing import Final

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.runtime.shared_states import SharedStates
from scheduler.kernel.plugins.node_volume_limits import NodeVolumeLimits
from scheduler.kernel.plugins.volume_binding import VolumeBinding
from scheduler.kernel.plugins.volume_restrictions import VolumeRestrictions
from scheduler.kernel.plugins.volume_zone import VolumeZone
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.volumes.attachments import OVER_LIMIT
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.kernel.volumes.disks import DISK_TAKEN
from scheduler.kernel.volumes.in_use import CLAIM_IN_USE
from scheduler.kernel.volumes.obstacles import ClaimObstacle, claim_obstacles
from scheduler.kernel.volumes.zones import OUTSIDE_ZONE

_PLUGIN_OF: Final = {
    DISK_TAKEN: VolumeRestrictions.NAME,
    CLAIM_IN_USE: VolumeRestrictions.NAME,
    OVER_LIMIT: NodeVolumeLimits.NAME,
    OUTSIDE_ZONE: VolumeZone.NAME,
}
"""By reason, the plugin that has it; VolumeBinding has all others."""


def claims_in_the_way(
    framework: Framework, pod: PodInfo, states: SharedStates, snapshot: Snapshot
) -> tuple[ClaimObstacle, ...]:
    """Return the obstacles of a pod's claims and disks that a filter of its profile sees."""
    catalog = states.known(VolumeCatalog)
    if catalog is None:
        return ()
    filters = {plugin.name for plugin in framework.plugins.filter}
    found = claim_obstacles(pod, catalog, snapshot)
    return tuple(o for o in found if _PLUGIN_OF.get(o.reason, VolumeBinding.NAME) in filters)
