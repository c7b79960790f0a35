"""What evictions are made for: a pod, or a pod group with its members.

Source: kubernetes pkg/scheduler/framework/preemption/executor.go (ExecutorPreemptor) v1.36.
"""

from collections.abc import Sequence

import msgspec

from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo
from scheduler.api.written import ObjectReference
from scheduler.kernel.engine.failure import reference
from scheduler.kernel.engine.instructions import RecordEvent


class Preemptor(msgspec.Struct, frozen=True):
    """What needs the room.

    Attributes:
        uid: its UID.
        key: `namespace/name`.
        word: what people are told that it is.
        profile: the scheduler name of its pods.
        about: what events name beside the victim.
        pods: UIDs of the pods that wait for the room.
        place: where room is made; empty for the node of each victim.
    """

    uid: str
    key: str
    word: str
    profile: str
    about: ObjectReference
    pods: tuple[str, ...]
    place: str = ""


def preemptor_of(pod: PodInfo) -> Preemptor:
    """A pod that needs room for itself."""
    profile = pod.spec.scheduler_name
    return Preemptor(pod.uid, pod.key, "pod", profile, reference(pod), (pod.uid,))


def preemptor_of_group(group: PodGroup, members: Sequence[PodInfo]) -> Preemptor:
    """A pod group, with the members that wait for room."""
    meta = group.metadata
    about = ObjectReference("PodGroup", meta.name, meta.namespace, meta.uid, group.api_version)
    return Preemptor(
        group.uid,
        f"{group.namespace}/{group.name}",
        "podgroup",
        members[0].spec.scheduler_name,
        about,
        tuple(pod.uid for pod in members),
        "cluster",
    )


def preempted(victim: PodInfo, preemptor: Preemptor, *, in_memory: bool = False) -> RecordEvent:
    """The event of a pod that has to go."""
    place = preemptor.place or victim.node_name
    note = f"Preempted by {preemptor.word} {preemptor.uid} on node {place}"
    return RecordEvent(
        reference(victim),
        "Preempted",
        "Preempting",
        f"{note} (in kube-scheduler memory)." if in_memory else note,
        preemptor.profile,
        related=preemptor.about,
        is_repeatable=in_memory,
    )
