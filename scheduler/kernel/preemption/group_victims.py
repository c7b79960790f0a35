"""Preemption for a whole pod group: the pods that leave so that the group fits, or none.

All pods of less important units are removed hypothetically. If the group fits then, units are added
back one by one, most important first, if it still fits. The units that cannot be added back are the
victims; the last successful trial lacked exactly these.

Source: kubernetes pkg/scheduler/framework/preemption/podgrouppreemption.go v1.36.
Differs: of very many units, several are added back at once; see `ALONE`.
"""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.interface import Plugin
from scheduler.kernel.framework.status import SUCCESS, Status, unresolvable, unschedulable
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.preemption.evaluator import NEVER
from scheduler.kernel.preemption.units import Units
from scheduler.kernel.snapshot import Snapshot

NO_VICTIMS: Final = unresolvable("No preemption victims found for incoming preemptor")
ALONE: Final = 64
"""The most units that are added back one by one, as upstream does.

Of more units, each trial adds back twice as many as the last, while the group still fits. The
outcome is the same if fewer pods never harm the group. The number of trials grows with the number
of victims, and not with the pods of the cluster.
"""
_AT_ONCE: Final = 64
"""The most units added back, or pods removed, in one go."""


class HypotheticalCluster(Protocol):
    """A hypothetical cluster, in which the group can be placed."""

    def remove(self, pods: Sequence[PodInfo]) -> None:
        """Remove pods."""
        ...

    def add(self, pods: Sequence[PodInfo]) -> None:
        """Add pods back."""
        ...

    def run(self) -> Steps[Status]:
        """Place the group in a few steps and take it away again; return the status."""
        ...


class GroupVictims(msgspec.Struct, frozen=True):
    """The outcome of preemption for a group.

    Attributes:
        status: Success if the group fits once the victims are gone.
        victims: the pods that leave, unit by unit, the most important unit first.
    """

    status: Status = SUCCESS
    victims: tuple[PodInfo, ...] = ()


Search: TypeAlias = Steps[GroupVictims]


class PodGroupPostFilterPlugin(Plugin, Protocol):
    """A PostFilter plugin that is called when a whole group does not fit.

    Source: pkg/scheduler/framework/interface.go (PodGroupPostFilterPlugin).
    """

    @abstractmethod
    def pod_group_post_filter(
        self,
        group: PodGroup,
        members: Sequence[PodInfo],
        snapshot: Snapshot,
        placed: Collection[PodInfo],
        world: HypotheticalCluster,
    ) -> Search:
        """Search victims for a group; each step of the search needs a bounded time.

        Args:
            group: the object.
            members: the pods that need room, in the order of their turns.
            snapshot: the cluster, in which some members may be assumed in this attempt.
            placed: the members that are assumed.
            world: the same cluster without them, where the group is tried.
        """


def select_victims(
    members: Sequence[PodInfo],
    units: Units,
    violates: NDArray[np.bool_],
    world: HypotheticalCluster,
) -> Search:
    """Choose the victims of a group that does not fit.

    Args:
        members: the pods that need room.
        units: the units that may leave, most important first.
        violates: a mask of the units for which a budget has nothing left; they come back first.
        world: the cluster where the group is tried.
    """
    if any(pod.spec.preemption_policy == "Never" for pod in members):
        return GroupVictims(unschedulable(NEVER))
    if not len(units):
        return GroupVictims(NO_VICTIMS)
    found = yield from fits_without(units.pods.pods(), world)
    if not found.status.is_success:
        return found
    turns = np.argsort(~violates, kind="stable").tolist()
    leaving = yield from _left_away(turns, units, world)
    return GroupVictims(SUCCESS, tuple(units.of(sorted(leaving))))


def fits_without(pods: Sequence[PodInfo], world: HypotheticalCluster) -> Search:
    """Try the group without some pods, which are the victims if it fits."""
    for at in range(0, len(pods), _AT_ONCE):
        world.remove(pods[at : at + _AT_ONCE])
        yield
    status = yield from world.run()
    return GroupVictims(status, tuple(pods) if status.is_success else ())


def _left_away(turns: Sequence[int], units: Units, world: HypotheticalCluster) -> Steps[list[int]]:
    """Add units back while the group fits; return the units that cannot be added back."""
    leaving: list[int] = []
    most = 1 if len(turns) <= ALONE else _AT_ONCE
    at, size = 0, 1
    while at < len(turns):
        tried = turns[at : at + size]
        pods = units.of(tried)
        world.add(pods)
        status = yield from world.run()
        if status.is_success:
            at, size = at + size, min(2 * size, most)
            continue
        world.remove(pods)
        if size > 1:
            size //= 2
            continue
        leaving += tried
        at += 1
    return leaving
