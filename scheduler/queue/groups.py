"""Waiting pods that an event cannot tell apart.

Pods of one kind differ in nothing that in-tree plugins look at. Where a profile's plugins judge
them alike, the rejection of one stands for all of its group: an event sends one of them to be tried
again, its scout, and the others follow only if it finds a place.
"""

from typing import TypeAlias

import msgspec

from scheduler.api.pods import LabelSet, PodInfo, PodShape
from scheduler.framework.types import Excess, QueuedPodInfo
from scheduler.queue.hints import Interest, Strategy

Kind: TypeAlias = tuple[PodShape, LabelSet, str, str]
"""Shape, labels, namespace, and UID of the controller."""


class GroupKey(msgspec.Struct, frozen=True):
    """What hints and the way of waking may depend on.

    Attributes:
        kind: what the pods are like.
        unschedulable_plugins: who rejected them.
        pending_plugins: who said Pending.
        gating_plugin: who gates them, or empty.
        excess: why no node could ever hold them, or None.
        shares: whether the rejection of one stands for all.
    """

    kind: Kind
    unschedulable_plugins: frozenset[str]
    pending_plugins: frozenset[str]
    gating_plugin: str
    excess: Excess | None
    shares: bool


def kind_of(pod: PodInfo) -> Kind:
    """The kind of a pod."""
    meta = pod.pod.metadata
    owners, controller = meta.owner_references, ""
    if owners:
        controller = next((o.uid for o in owners if o.controller), "")
    return pod.shape, pod.label_set, meta.namespace, controller


def group_key(queued: QueuedPodInfo, *, shares: bool) -> GroupKey:
    """The group of a pod.

    Args:
        queued: the pod.
        shares: whether its plugins judge equal pods alike, and it has no place of its own kept.
    """
    return GroupKey(
        kind_of(queued.pod_info),
        queued.unschedulable_plugins,
        queued.pending_plugins,
        queued.gating_plugin,
        queued.excess,
        shares and not (queued.pending_plugins or queued.gating_plugin),
    )


class Rejection(msgspec.Struct, frozen=True):
    """One evaluation of a pod that fits nowhere; equal pods need none while it is valid.

    It is valid while the cluster has the same version. Queueing hints do not matter: upstream's
    have false negatives, so an event that they ignore may have helped all the same.

    Attributes:
        message: see `QueuedPodInfo.last_failure`.
        unschedulable_plugins: which plugins rejected the pod.
        excess: why no node could ever hold the pod, or None.
        version: of all that plugins read, when the pod was evaluated; see `Core.cluster_version`.
        since: when that was, in seconds.
    """

    message: str
    unschedulable_plugins: frozenset[str]
    excess: Excess | None
    version: tuple[int, ...]
    since: float


class Wake(msgspec.Struct, frozen=True):
    """How pods of a group are woken.

    Attributes:
        strategy: when they are tried again.
        label: of the event.
        late_before: of pods that waited too long: by when their deadlines were over; each is told
            anew how things are. None where something has happened.
    """

    strategy: Strategy
    label: str
    late_before: float | None = None


class Group:
    """Waiting pods of the same key.

    Attributes:
        key: what they have in common.
        members: the pods by UID, those that came first before others.
        scout: UID of the pod that was woken for all; empty when there is none.
        wake: how it was woken.
        rejection: the last one of a member; None before the first.
        node_changes: how many changes of nodes there had been when a member came last.
    """

    __slots__ = (
        "gating_plugin",
        "key",
        "members",
        "node_changes",
        "priority",
        "profile",
        "rejection",
        "rejectors",
        "scout",
        "wake",
    )

    def __init__(self, key: GroupKey) -> None:
        spec = key.kind[0].spec
        self.key = key
        self.profile = spec.scheduler_name
        self.priority = spec.priority or 0
        self.rejectors = key.unschedulable_plugins | key.pending_plugins
        self.gating_plugin = key.gating_plugin
        self.members: dict[str, QueuedPodInfo] = {}
        self.scout = ""
        self.wake = Wake(Strategy.SKIP, "")
        self.rejection: Rejection | None = None
        self.node_changes = 0

    def may_wake(self, interest: Interest) -> bool:
        """Whether an event is to be looked at for these pods.

        A gated pod cannot leave before its gating plugin lets it, so only what that plugin
        registered for matters.
        """
        return not self.gating_plugin or self.gating_plugin in interest.of(self.profile).hints
