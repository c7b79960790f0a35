"""DefaultBinder: binds a pod to its node through the API server.

Extension points: Bind.
Events: none; it rejects no pod.
Source: pkg/scheduler/framework/plugins/defaultbinder/default_binder.go (v1.36).
"""

from typing import ClassVar

from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.errors import SchedulerError
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import BindPlugin
from scheduler.kernel.framework.shortcuts import Shortcuts
from scheduler.kernel.framework.status import SUCCESS, Status, error


class DefaultBinder(BindPlugin, Shortcuts):
    """Binds pods through the API server."""

    NAME: ClassVar[str] = "DefaultBinder"
    ONLY_BINDS: ClassVar[bool] = True

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._handle = handle

    @override
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Bind the pod; if the API server refuses, return an error, so that the attempt fails."""
        try:
            await self._handle.api.bind(pod.namespace, pod.name, pod.uid, node_name)
        except SchedulerError as problem:
            return error(str(problem))
        return SUCCESS
