"""Preemption for a whole pod group: the pods that leave so that the group fits, or none.

All pods of less important units are thought away. If the group fits then, units come back one by
one, most important first, as long as it still fits. What is left away at the end are the victims,
and the last trial that succeeded was made without exactly these.

Source: kubernetes pkg/scheduler/framework/preemption/podgrouppreemption.go v1.36.
Differs: of very many units several are tried back at once, see `ALONE`.
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
"""Up to so many units each is tried back by itself, as upstream does.

Of more, twice as many are tried back each time, while the group still fits. Where fewer pods never
harm the group the outcome is the same. The trials are about as many as the victims, times a small
factor, and not as many as the pods of the cluster.
"""
_AT_ONCE: Final = 64
"""Units that are tried back, and pods that are thought away, in one go."""


class HypotheticalCluster(Protocol):
    """The cluster as it might be, in which the group can be placed."""

    def remove(self, pods: Sequence[PodInfo]) -> None:
        """Pods are thought away."""
        ...

    def add(self, pods: Sequence[PodInfo]) -> None:
        """Pods are there again."""
        ...

    def run(self) -> Steps[Status]:
        """Place the group in a few steps and take it away again; says how that ended."""
        ...


class GroupVictims(msgspec.Struct, frozen=True):
    """What preemption for a group comes to.

    Attributes:
        status: Success if the group fits once the victims are gone.
        victims: the pods that leave, those of a unit together, the most important unit first.
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
            snapshot: the cluster, in which some of them have a place in this attempt.
            placed: these.
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
        units: what may leave, most important first.
        violates: whether a budget has nothing left for a unit; such units come back first.
        world: where the group is tried.
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
    """Whether the group fits without some pods, which are thought away; these are the victims."""
    for at in range(0, len(pods), _AT_ONCE):
        world.remove(pods[at : at + _AT_ONCE])
        yield
    status = yield from world.run()
    return GroupVictims(status, tuple(pods) if status.is_success else ())


def _left_away(turns: Sequence[int], units: Units, world: HypotheticalCluster) -> Steps[list[int]]:
    """The units without which the group fits, after all others have come back."""
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
