"""The pods that a workload's controller deletes or creates when its replicas change.

Source: kubernetes pkg/controller/controller_utils.go (ActivePodsWithRanks), pkg/controller/
replicaset/replica_set.go (getPodsToDelete), pkg/controller/statefulset/stateful_set_control.go
v1.36.
Differs: readiness, restarts and the annotation pod-deletion-cost are not known here.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count

from scheduler.api.pods import PodInfo
from scheduler.tools.offline.workload_names import STATEFUL_SET


def pods_to_delete(pods: Sequence[PodInfo], number: int) -> list[PodInfo]:
    """Return the pods of one workload that its controller deletes, to have so many fewer.

    `pods` are in the order of their creation.

    A StatefulSet loses its highest ordinals. Other workloads lose pods without a node first, then
    pods on the nodes with most of them, then the newest.
    """
    if _is_stateful(pods[0]):
        return sorted(pods, key=_ordinal, reverse=True)[:number]
    on_node = Counter(pod.node_name for pod in pods)

    def rank(pod: PodInfo) -> tuple[bool, int]:
        return bool(pod.node_name), -on_node[pod.node_name]

    newest_first = pods[::-1]
    return sorted(newest_first, key=rank)[:number]


def names_of_new_pods(like: PodInfo, present: Iterable[PodInfo]) -> Iterator[str]:
    """Yield the names of further pods of the workload of `like`; `present` are all its pods.

    Pods of a StatefulSet have the ordinals that are missing, other pods a name made from `like`.
    """
    if not _is_stateful(like):
        yield from (f"{like.name}-new-{index}" for index in count())
        return
    taken = {_ordinal(pod) for pod in present}
    base = like.name.rpartition("-")[0]
    free = chain(range(min(taken), max(taken)), count(max(taken) + 1))
    yield from (f"{base}-{ordinal}" for ordinal in free if ordinal not in taken)


def _is_stateful(pod: PodInfo) -> bool:
    owner = pod.controller
    return owner is not None and owner.kind == STATEFUL_SET and _ordinal(pod) >= 0


def _ordinal(pod: PodInfo) -> int:
    """Return the ordinal of a pod of a StatefulSet; -1 if its name has none."""
    ordinal = pod.name.rpartition("-")[2]
    return int(ordinal) if ordinal.isdecimal() and ordinal.isascii() else -1
