"""The earliest start of a group, or of a pod with claims, if no other pod came.

Running pods are removed hypothetically in the order of their ends. The search finds the fewest
after which the group fits: it doubles their number until the group fits, then bisects. Pods whose
end is not known come last, node by node.
"""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

import msgspec
import numpy as np
from msgspec.structs import replace

from scheduler.api.devices import AllocationResult
from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo
from scheduler.kernel.ends import RunDurations
from scheduler.kernel.framework.interface import Plugin
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.preemption.estimate import NEVER, UNKNOWN, end_of
from scheduler.kernel.preemption.group_victims import HypotheticalCluster
from scheduler.kernel.preemption.importance import importance
from scheduler.kernel.preemption.kept_room import RoomReservation
from scheduler.kernel.snapshot import Snapshot

MOST_LOOKS: Final = 8192
"""The most searches for a node; after these the best result so far counts."""
_FEWEST: Final = 16
"""Number of pods that are removed at first."""
_AT_ONCE: Final = 64
"""Number of pods that are removed, or added back, in one go."""


class GroupWorld(HypotheticalCluster, Protocol):
    """The hypothetical cluster, with the results of runs.

    Attributes:
        places: the node of each member, by UID, in the last run that succeeded.
        devices: the allocations of its claims, by UID, in that run.
    """

    places: Mapping[str, str]
    devices: Mapping[str, Sequence[AllocationResult]]

    @property
    def looks(self) -> int:
        """The most searches for a node in one run."""
        ...

    def read(self, pods: int) -> None:
        """Count this many pods that are read as work of the current step."""
        ...


class GroupStart(msgspec.Struct, frozen=True):
    """A possible start of a group, with the node of each member.

    Attributes:
        places: the node of each member that is needed, by UID.
        time: the time at which enough pods have ended, in seconds since 1970; 0 where unknown.
        unknown: number of pods without a known end among those that have to end.
        is_there: whether these pods are on the nodes of the group.
        devices: the allocations for the claims of each member, by UID.
    """

    places: Mapping[str, str]
    time: float
    unknown: int
    is_there: bool = True
    devices: Mapping[str, Sequence[AllocationResult]] = MappingProxyType({})


class RoomForGroupPlugin(Plugin, Protocol):
    """A plugin that has room kept for a group that does not fit, or for a single pod.

    The engine calls its methods in this order; `search` runs on a copy of the cluster.
    """

    @abstractmethod
    def has_turn(self, group: PodGroup | None, members: Sequence[PodInfo]) -> bool:
        """Whether room is kept for a group, or is to be.

        Args:
            group: the object; None for a single pod, which is the only member.
            members: the pods that need room, in the order of their turns.
        """

    @abstractmethod
    def room_of(self, group: PodGroup | None, members: Sequence[PodInfo]) -> RoomReservation | None:
        """The room that is kept for a group, unless it must be chosen anew."""

    @abstractmethod
    def search(
        self, members: Sequence[PodInfo], snapshot: Snapshot, world: GroupWorld
    ) -> Steps[GroupStart | None]:
        """Search the earliest start of a group; each step of the search needs a bounded time.

        Args:
            members: the pods that need room, in the order of their turns.
            snapshot: the cluster; read before the first step.
            world: a copy of the cluster without the members, where the group is tried.
        """

    @abstractmethod
    def keep(
        self, group: PodGroup | None, members: Sequence[PodInfo], start: GroupStart | None
    ) -> RoomReservation | None:
        """Keep the room that was found, in place of the former room; None gives that up."""


def soonest_group_start(
    members: Collection[PodInfo],
    snapshot: Snapshot,
    world: GroupWorld,
    now: float,
    durations: RunDurations | None,
) -> Steps[GroupStart | None]:
    """Search the earliest start of the group; None if not even an empty cluster holds it.

    Args:
        members: the pods that need room.
        snapshot: the cluster, read at once; of the pods in it those of the group do not end.
        world: the same cluster, where the group is tried.
        now: the time of day, in seconds since 1970.
        durations: the run times of ended pods.

    Cost: O(pods) at once, 2 ms for 50,000; then steps.
    """
    # Rows may hold other nodes after the next change of the cluster.
    nodes = [[*snapshot.info(row).pods.values()] for row in snapshot.table.live_rows().tolist()]
    return _search(members, nodes, world, now, durations)


def _search(
    pods: Collection[PodInfo],
    nodes: Sequence[list[PodInfo]],
    world: GroupWorld,
    now: float,
    durations: RunDurations | None,
) -> Steps[GroupStart | None]:
    leaving, ends = yield from _leaving(pods, nodes, world, now, durations)
    return (yield from _after_fewest(len(pods), leaving, ends, world, now))


def _after_fewest(
    members: int, leaving: Sequence[PodInfo], ends: Sequence[float], world: GroupWorld, now: float
) -> Steps[GroupStart | None]:
    """Search the fewest ends after which the group fits."""
    looks_left, gone, too_few = MOST_LOOKS, 0, 0
    found: GroupStart | None = None
    size = max(_FEWEST, members)
    while found is None and gone < len(leaving):
        too_few, enough = gone, min(len(leaving), size)
        yield from _move(world, leaving, gone, enough)
        gone, size = enough, 2 * size
        looks_left -= world.looks
        status = yield from world.run()
        if status.is_success:
            found = _found(world)
        elif not status.is_rejection:
            return None
    if found is None:
        return None
    enough = gone
    while enough - too_few > 1 and looks_left > 0:
        middle = (too_few + enough) // 2
        yield from _move(world, leaving, gone, middle)
        gone = middle
        looks_left -= world.looks
        status = yield from world.run()
        if status.is_success:
            enough, found = middle, _found(world)
        else:
            too_few = middle
    known = int(np.searchsorted(ends, UNKNOWN))
    last = min(known, enough)
    time = max(ends[last - 1], now) if last else now
    if enough <= known:
        return replace(found, time=time)
    yield from _move(world, leaving, gone, enough)
    return (yield from _with_unknown(leaving[known:enough], found, world, time))


def _with_unknown(
    unknown: Sequence[PodInfo], found: GroupStart, world: GroupWorld, time: float
) -> Steps[GroupStart]:
    """Add back pods of unknown end on nodes without members, if the group still fits."""
    nodes = set(found.places.values())
    elsewhere = [pod for pod in unknown if pod.node_name not in nodes]
    if elsewhere:
        yield from _move(world, elsewhere, len(elsewhere), 0)
        status = yield from world.run()
        if not status.is_success:
            return replace(found, unknown=len(unknown), is_there=False)
        found = _found(world)
    count = len(unknown) - len(elsewhere)
    return replace(found, time=0.0 if count else time, unknown=count)


def _found(world: GroupWorld) -> GroupStart:
    return GroupStart(dict(world.places), 0.0, 0, devices=dict(world.devices))


def _leaving(
    members: Collection[PodInfo],
    nodes: Sequence[list[PodInfo]],
    world: GroupWorld,
    now: float,
    durations: RunDurations | None,
) -> Steps[tuple[list[PodInfo], list[float]]]:
    """The running pods of others that end some time, with their ends, the earliest first.

    Pods that end at the same time come node by node, the most important ones first.
    """
    first = next(iter(members))
    group = first.namespace, first.group_name or None
    every: list[PodInfo] = []
    ends: list[float] = []
    for pods in nodes:
        for pod in sorted(pods, key=importance):
            end = end_of(pod, now, durations)
            if end != NEVER and (pod.namespace, pod.group_name) != group:
                every.append(pod)
                ends.append(end)
        world.read(len(pods))
        yield
    order = np.argsort(np.array(ends, np.float64), kind="stable")
    return [every[number] for number in order.tolist()], [ends[n] for n in order.tolist()]


def _move(
    world: HypotheticalCluster, pods: Sequence[PodInfo], gone: int, wanted: int
) -> Steps[None]:
    """Remove or add back pods until the first `wanted` of them are gone."""
    change = world.remove if wanted > gone else world.add
    for at in range(min(gone, wanted), max(gone, wanted), _AT_ONCE):
        change(pods[at : min(at + _AT_ONCE, max(gone, wanted))])
        yield
