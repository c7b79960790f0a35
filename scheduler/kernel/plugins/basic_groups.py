"""GangScheduling where GenericWorkload is on without it: all pod groups are basic, gangs as well.

Members are placed together, by priority, and each that fits is bound. The plugin holds none of them
and ignores `minCount`. It replaces `gang_scheduling` in each profile.

Extension points: none that rejects pods.
Source: kubernetes pkg/scheduler/schedule_one_podgroup.go v1.36, which no Permit plugin holds then.
"""

from typing import Any

from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.status import SUCCESS, Status
from scheduler.kernel.groups import PodGroups
from scheduler.kernel.plugins.gang_scheduling import GangScheduling


class BasicGroups(GangScheduling):
    """Has members of a group placed together, whatever their number."""

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.shared(PodGroups).make_basic()

    @override
    def pre_enqueue(self, pod: PodInfo) -> Status:
        return SUCCESS

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        return SUCCESS, 0.0
