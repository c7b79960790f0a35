"""Decides by the queueing hints of plugins whether an event requeues a waiting pod.

Source: kubernetes pkg/scheduler/backend/queue/scheduling_queue.go isPodWorthRequeuing,
isEventOfInterest; pkg/scheduler/scheduler.go buildQueueingHintMap; pkg/scheduler/framework/types.go
UnrollWildCardResource v1.36.
Differs: a plugin that registers the addition of nodes is not registered for changes of taints as
well. Upstream does that to make up for the preCheck that it no longer runs; it also moves pods that
no taint ever kept out.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import ClusterEvent, ClusterEventWithHint, QueueingHint
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.types import QueuedPodInfo


class QueueingStrategy(IntEnum):
    """The effect of an event on a waiting pod, from weakest to strongest.

    Source: queueingStrategy.
    """

    SKIP = 0
    """The pod stays unschedulable: no plugin that rejected it returns Queue."""
    AFTER_BACKOFF = 1
    """The pod is tried again once its backoff is over."""
    IMMEDIATELY = 2
    """The pod is tried again at once: a plugin that had returned Pending returns Queue."""


class ProfileInterest(msgspec.Struct, frozen=True):
    """The plugins of a profile that registered for one event, with their hints."""

    hints: dict[str, tuple[ClusterEventWithHint, ...]]
    asked_per_pod: frozenset[str]
    """Plugins whose hints run for each pod: equal pods may get different answers."""


_NO_INTEREST: Final = ProfileInterest({}, frozenset())


class Interest(msgspec.Struct, frozen=True):
    """The plugins that registered for one event."""

    event: ClusterEvent
    label: str
    is_wildcard: bool
    by_profile: dict[str, ProfileInterest]

    @property
    def exists(self) -> bool:
        """Whether the event may requeue any pod."""
        return self.is_wildcard or bool(self.by_profile)

    def of(self, profile: str) -> ProfileInterest:
        """The registrations of one profile's plugins."""
        return self.by_profile.get(profile, _NO_INTEREST)

    def concerns(self, profile: str, rejectors: frozenset[str]) -> bool:
        """Whether one of the plugins that rejected a pod registered for the event."""
        return self.is_wildcard or not rejectors.isdisjoint(self.of(profile).hints)


class ObservedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event that happened, with its object before and after.

    Attributes:
        interest: the plugins that registered for it.
        old: the object before; None when it was added.
        new: the object after; None when it was deleted.
        max_priority: the event moves only waiting pods of this priority or less; None for all.
        but: UID of a waiting pod that the event must not move.
    """

    interest: Interest
    old: object
    new: object
    max_priority: int | None = None
    but: str = ""

    @property
    def pod_uid(self) -> str:
        """The UID of the pod that the event is about; empty for another object."""
        if isinstance(self.new, PodInfo):
            return self.new.uid
        return self.old.uid if isinstance(self.old, PodInfo) else ""


class QueueingHints:
    """The hints of all profiles, and the strategies that follow from them.

    Attributes:
        profiles: the profiles by scheduler name.
        events: the registrations of the plugins of each profile.
    """

    def __init__(self, profiles: Mapping[str, Framework]) -> None:
        """Ask the plugins for their events.

        Raises:
            PluginError: a plugin failed to return its events.
        """
        self.profiles = profiles
        self.events = {name: each.events_to_register() for name, each in profiles.items()}
        self._interests: dict[ClusterEvent, Interest] = {}

    def interest_in(self, event: ClusterEvent) -> Interest:
        """The plugins that registered for the event.

        Cost: a dictionary look-up, after the first time an event is seen.
        """
        interest = self._interests.get(event)
        if interest is None:
            interest = self._interests[event] = self._find_interest(event)
        return interest

    def _find_interest(self, event: ClusterEvent) -> Interest:
        by_profile = {}
        for name, events in self.events.items():
            hints = {
                plugin: matching
                for plugin, registered in events.items()
                if (matching := tuple(e for e in registered if e.event.covers(event)))
            }
            if hints:
                per_pod = frozenset(
                    plugin
                    for plugin, matching in hints.items()
                    if not all(e.reads_pod_shape_only for e in matching)
                )
                by_profile[name] = ProfileInterest(hints, per_pod)
        return Interest(event, event.label, event.is_wildcard, by_profile)

    def observe(self, event: ClusterEvent, old: object, new: object) -> ObservedEvent:
        """An event that happened, with the plugins that registered for it."""
        return ObservedEvent(self.interest_in(event), old, new)

    def strategy(self, queued: QueuedPodInfo, observed: ObservedEvent) -> QueueingStrategy:
        """Return the effect of an event on a rejected pod."""
        pod, pending = queued.pod_info, queued.pending_plugins
        if observed.interest.is_wildcard:
            # A wildcard event with an object is meant for that pod alone.
            is_meant = observed.new is None or observed.pod_uid == pod.uid
            return QueueingStrategy.AFTER_BACKOFF if is_meant else QueueingStrategy.SKIP
        hints = observed.interest.of(pod.spec.scheduler_name).hints
        if any(self._says_queue(p, hints[p], pod, observed) for p in pending if p in hints):
            return QueueingStrategy.IMMEDIATELY
        rejectors = queued.unschedulable_plugins - pending
        if any(self._says_queue(p, hints[p], pod, observed) for p in rejectors if p in hints):
            return QueueingStrategy.AFTER_BACKOFF
        return QueueingStrategy.SKIP

    def strategy_after_attempt(
        self, queued: QueuedPodInfo, events: Iterable[ObservedEvent] | None
    ) -> QueueingStrategy:
        """Return the effect on a failed pod of the events that happened during its attempt.

        A pod is tried again after backoff if no plugin rejected it, or no events were kept for it.
        """
        if events is None or not (queued.unschedulable_plugins or queued.pending_plugins):
            return QueueingStrategy.AFTER_BACKOFF
        strongest = (
            QueueingStrategy.IMMEDIATELY
            if queued.pending_plugins
            else QueueingStrategy.AFTER_BACKOFF
        )
        strategy = QueueingStrategy.SKIP
        for observed in events:
            if observed.but == queued.pod_info.uid:
                continue
            strategy = max(strategy, self.strategy(queued, observed))
            if strategy is strongest:
                break
        return strategy

    def _says_queue(
        self,
        plugin: str,
        hints: tuple[ClusterEventWithHint, ...],
        pod: PodInfo,
        observed: ObservedEvent,
    ) -> bool:
        profile = self.profiles[pod.spec.scheduler_name]
        label = observed.interest.label
        return any(
            profile.run_queueing_hint(plugin, hint, label, pod, observed.old, observed.new)
            is QueueingHint.QUEUE
            for hint in hints
        )
