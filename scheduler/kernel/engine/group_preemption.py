"""Preemption for a group that does not fit, after all of its members were tried.

The search for victims runs on a copy of the cluster, in as many steps as it takes. If the cluster
has changed meanwhile, a new copy must confirm that the group fits without the victims, and not with
them. Otherwise no victim is evicted, and the group is retried.

Source: kubernetes pkg/scheduler/schedule_one_podgroup.go (runWorkloadAwarePreemption) v1.36.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.attempt import Attempt
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.group_members import Member
from scheduler.kernel.engine.group_step import SEARCHED, GroupStep
from scheduler.kernel.engine.group_trial import GroupTrial
from scheduler.kernel.extender import Verb
from scheduler.kernel.framework.status import unschedulable
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.preemption.group_victims import (
    GroupVictims,
    PodGroupPostFilterPlugin,
    Search,
    fits_without,
)

_T = TypeVar("_T")
CONSTRAINED: Final = GroupVictims(
    unschedulable(
        "workload aware preemption is not supported for pod groups with scheduling constraints"
    )
)
CHANGED: Final = GroupVictims(unschedulable("the cluster changed while victims were searched"))
"""The group is tried again after backoff: there may be no event to wake it."""
NOT_ASKED: Final = GroupVictims(
    unschedulable(
        "workload aware preemption is not supported for pods that extenders filter nodes for"
    )
)
"""Differs: upstream asks extenders about each member for every victim that it considers."""


def find_victims(
    core: EngineState, step: GroupStep, group: PodGroup, members: Sequence[Member]
) -> Steps[GroupVictims | None]:
    """Find the victims of a group that does not fit; None if its members preempt one by one.

    Some members may be assumed on a node.

    Raises:
        PluginError: a shared state cannot be forked.
    """
    plugins = members[0].attempt.framework.plugins
    plugin: PodGroupPostFilterPlugin | None = plugins.post_filter_as(PodGroupPostFilterPlugin)
    if plugin is None:
        return None
    if group.topology_key is not None:
        return CONSTRAINED
    if step.is_over:
        yield
    attempts = _still_tried(members)
    if not attempts:
        return CHANGED
    if any(core.extenders.interested_in(each.pod, Verb.FILTER) for each in attempts):
        return NOT_ASKED
    step.spend(SEARCHED)
    pods = [each.queued.pod_info for each in attempts]
    placed = [each.placed for each in attempts if each.placed is not None]
    trial, version = GroupTrial(core, attempts, step), core.cluster_version
    search = plugin.pod_group_post_filter(group, pods, core.snapshot, placed, trial)
    found = yield from on_copy(trial, attempts, search)
    if not found.victims or core.cluster_version == version:
        return found
    return (yield from _still_right(core, step, members, found))


def _still_right(
    core: EngineState, step: GroupStep, members: Sequence[Member], found: GroupVictims
) -> Search:
    """Check victims after a change: the group must fit without them, and must not with them."""
    if step.is_over:
        yield
    attempts = _still_tried(members)
    if not attempts:
        return CHANGED
    victims = [pod for victim in found.victims if (pod := _still_there(core, victim)) is not None]
    trial = GroupTrial(core, attempts, step)

    def look() -> Search:
        fits_as_it_is = yield from fits_without((), trial)
        if fits_as_it_is.status.is_success:
            return CHANGED
        fits = yield from fits_without(victims, trial)
        return fits if fits.status.is_success else CHANGED

    return (yield from on_copy(trial, attempts, look()))


def on_copy(trial: GroupTrial, attempts: Sequence[Attempt], search: Steps[_T]) -> Steps[_T]:
    """Search on the copy, after the places of members in this attempt are taken back there."""
    given = [(each.pod, each.cycle_state) for each in attempts if each.placed is not None]

    def steps() -> Steps[_T]:
        yield from trial.take_back(given)
        return (yield from search)

    return trial.steps(steps())


def _still_tried(members: Sequence[Member]) -> list[Attempt]:
    return [each.attempt for each in members if not each.has_left]


def _still_there(core: EngineState, victim: PodInfo) -> PodInfo | None:
    """The present version of a victim, if it is still on its node."""
    pod = core.cache.pods.get(victim.uid)
    return None if pod is None or pod.node_name != victim.node_name else pod
