"""DefaultBinder: tells the API server which node a pod runs on.

Extension points: Bind.
Events: none; it rejects nothing.
Source: pkg/scheduler/framework/plugins/defaultbinder/default_binder.go (v1.36).
"""

from typing import ClassVar, Protocol

from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.errors import SchedulerError
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.interface import BindPlugin
from scheduler.framework.status import SUCCESS, Status, error


class Binder(Protocol):
    """Who writes bindings."""

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind the pod of that name and UID to the node.

        Raises:
            SchedulerError: the pod may not be bound.
        """
        ...


class DefaultBinder(BindPlugin):
    """Binds pods through the API server.

    Attributes:
        binder: who writes the binding.
    """

    NAME: ClassVar[str] = "DefaultBinder"

    def __init__(self, binder: Binder) -> None:
        self.binder = binder

    @override
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Bind; a refusal fails the attempt, which is repeated after back-off."""
        try:
            await self.binder.bind(pod.namespace, pod.name, pod.uid, node_name)
        except SchedulerError as problem:
            return error(str(problem))
        return SUCCESS
