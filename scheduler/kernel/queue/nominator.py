"""Which waiting pods are nominated to which node, as far as the queue hears of it.

Source: kubernetes pkg/scheduler/backend/queue/nominator.go v1.36. Differs: pods themselves are
kept, not references; an empty nomination is no entry.
"""

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods


class Nominator(NominatedPods):
    """Nominated pods, following what the API server says of them."""

    def add_nominated_pod(self, pod: PodInfo, node_name: str | None = None) -> None:
        """Nominate a pod, in place of an earlier nomination.

        Args:
            pod: the pod.
            node_name: the node; empty withdraws the nomination; None takes what the pod's status
                says, and withdraws the nomination when it says nothing.
        """
        self.nominate(pod, pod.pod.status.nominated_node_name if node_name is None else node_name)

    def update_nominated_pod(self, old: PodInfo, new: PodInfo) -> None:
        """Take over a newer version of a pod.

        A nomination made here reaches the API server later than other updates of the pod reach us.
        So an update in which neither version has a nomination leaves ours alone.
        """
        current = self.node_of(new.uid)
        if current is None and not new.pod.status.nominated_node_name:
            return
        if not old.pod.status.nominated_node_name and not new.pod.status.nominated_node_name:
            self.add_nominated_pod(new, current)
        else:
            self.add_nominated_pod(new)
