"""Preemption for a group that does not fit: asked for once all of its members were tried.

Source: kubernetes pkg/scheduler/schedule_one_podgroup.go (runWorkloadAwarePreemption) v1.36.
"""

from collections.abc import Sequence
from typing import Final

from scheduler.api.pod_groups import PodGroup
from scheduler.kernel.engine.attempt import Attempt
from scheduler.kernel.engine.core import Core
from scheduler.kernel.engine.group_trial import GroupTrial
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.status import unschedulable
from scheduler.kernel.preemption.group_victims import GroupVictims, PodGroupPostFilterPlugin

CONSTRAINED: Final = GroupVictims(
    unschedulable(
        "workload aware preemption is not supported for pod groups with scheduling constraints"
    )
)


def find_victims(core: Core, group: PodGroup, attempts: Sequence[Attempt]) -> GroupVictims | None:
    """The victims of a group that does not fit; None where a profile has members choose theirs.

    Args:
        core: the engine's state.
        group: the group.
        attempts: those of its members, in the order of their turns; some have a node.

    Raises:
        PluginError: a shared state cannot be forked.
    """
    plugin = _group_preemption_of(attempts[0].framework)
    if plugin is None:
        return None
    if group.topology_key is not None:
        return CONSTRAINED
    trial = GroupTrial(core, attempts)
    members = [each.queued.pod_info for each in attempts]
    placed = [pod for each in attempts for pod in each.placed]
    steps = plugin.pod_group_post_filter(group, members, core.snapshot, placed, trial)
    with trial.shown():
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: GroupVictims = end.value
                return found


def _group_preemption_of(framework: Framework) -> PodGroupPostFilterPlugin | None:
    """The plugin of a profile that chooses the victims of whole groups."""
    named = (framework.plugins.by_name[each.name] for each in framework.plugins.post_filter)
    return next((each for each in named if PodGroupPostFilterPlugin in type(each).__mro__), None)
