"""One pod on its way from decision to binding."""

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.runtime import Framework
from scheduler.framework.runtime.waiting_pods import WaitingPod
from scheduler.framework.types import QueuedPodInfo


class Attempt(msgspec.Struct):
    """A pod that has a node in the cache and not yet at the API server.

    Attributes:
        framework: the profile that decided.
        queued: the pod as it was popped.
        pod: the pod, assumed on its node.
        state: what the plugins remember of the attempt.
        start: when the attempt began, monotonic seconds.
        waiting: set while Permit holds the pod.
        evaluated_nodes: nodes looked at.
        feasible_nodes: nodes that fit.
    """

    framework: Framework
    queued: QueuedPodInfo
    pod: PodInfo
    state: CycleState
    start: float
    waiting: WaitingPod | None = None
    evaluated_nodes: int = 0
    feasible_nodes: int = 0

    @property
    def node_name(self) -> str:
        """The node the pod is assumed on."""
        return self.pod.node_name
