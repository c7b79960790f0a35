"""Activates the members of pod groups when the reason for which they are held changes."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.preemption_executor import PreemptionExecutor

WOKEN_AT_ONCE: Final = 1024
"""The most members that are activated in one step; that takes 20 ms."""


class GroupWaking:
    """Activates members in portions; no pod is popped before all of them are active.

    So all members of a group are active when it is popped, and activated members are still active
    if the reason changes again meanwhile.

    Attributes:
        at_once: the most members that are activated in a step.
        asleep: for each group, the members still to activate, and whether the group is held now.
    """

    def __init__(self, core: EngineState, executor: PreemptionExecutor) -> None:
        self._core = core
        self._executor = executor
        self.at_once = WOKEN_AT_ONCE
        self.asleep: dict[tuple[str, str], tuple[deque[PodInfo], bool]] = {}

    def some(self) -> None:
        """Collect the groups whose reason has changed, and activate some of their members."""
        groups = self._core.groups
        if groups is not None and groups.changed:
            for place, members, is_held in groups.take_released():
                before = self.asleep.get(place)
                # Members that were activated for the same hold are still active.
                if before is None or before[1] != is_held:
                    self.asleep[place] = deque(members), is_held
        left = self.at_once
        while self.asleep and left > 0:
            place, (asleep, is_held) = next(iter(self.asleep.items()))
            now = [asleep.popleft() for _ in range(min(left, len(asleep)))]
            left -= len(now) or 1
            if not asleep:
                del self.asleep[place]
            self._wake(now, is_held=is_held)

    def _wake(self, members: Sequence[PodInfo], *, is_held: bool) -> None:
        """Activate members, those that were tried after their back-off.

        Members that are held now lose their nominations, and their preemptions end. Other members
        keep the nominations of their status.
        """
        queue = self._core.queue
        if is_held:
            self._executor.drop_for(members)
            nominated = (pod for pod in members if queue.nominator.nodes.get(pod.uid))
            self._executor.clear_nominations(nominated)
        queue.activate((pod.uid for pod in members), after_backoff=True)
        if not is_held:
            self._keep_places(members)

    def _keep_places(self, members: Iterable[PodInfo]) -> None:
        """Nominate the pods that are no longer gated to the nodes that their status names."""
        queue = self._core.queue
        for pod in members:
            if pod.pod.status.nominated_node_name and queue.nominator.nodes.get(pod.uid) is None:
                place = queue.place_of(pod.uid)
                if place is not None and not place.queued.is_gated:
                    queue.add_nominated_pod(pod)
