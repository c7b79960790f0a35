"""The preemptor, for which pods are evicted: a pod, or a pod group with its members.

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
    """A pod or a pod group that needs the room of its victims.

    Attributes:
        uid: its UID.
        key: `namespace/name`.
        word: `pod` or `podgroup`, for messages.
        profile: the scheduler name of its pods.
        about: the related object of the victims' events.
        pods: UIDs of the pods that wait for the room.
        place: the place in messages; empty for the node of each victim.
    """

    uid: str
    key: str
    word: str
    profile: str
    about: ObjectReference
    pods: tuple[str, ...]
    place: str = ""


def preemptor_of(pod: PodInfo) -> Preemptor:
    """The preemptor of a pod that needs room for itself."""
    profile = pod.spec.scheduler_name
    return Preemptor(pod.uid, pod.key, "pod", profile, reference(pod), (pod.uid,))


def preemptor_of_group(group: PodGroup, members: Sequence[PodInfo]) -> Preemptor:
    """The preemptor of a pod group, with the members that wait for room."""
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
    """The event of a victim."""
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
