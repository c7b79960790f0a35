"""Keeps room for a pod or a pod group by nominations, gives it up, and shows it to plugins.

The choice of that room is in `preemption.kept_room` and the plugin KeepRoom. Without that plugin in
a profile, this module does nothing.
"""

from collections.abc import Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from scheduler.api.devices import AllocationResult
from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Node
from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.engine.attempt import Attempt
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.failure import SCHEDULED, UNSCHEDULABLE
from scheduler.kernel.engine.group_members import (
    WAITS_FOR_VICTIMS,
    Conclusion,
    GroupStep,
)
from scheduler.kernel.engine.group_trial import GroupTrial
from scheduler.kernel.engine.preemption_executor import PreemptionExecutor
from scheduler.kernel.engine.scheduling_failure import DEVICES_FREED
from scheduler.kernel.extender import Verb
from scheduler.kernel.framework.events import ASSIGNED_POD_DELETE
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.framework.types import Failure
from scheduler.kernel.preemption.group_start import GroupStart, RoomForGroupPlugin
from scheduler.kernel.preemption.kept_room import NOT_KEPT, KeptRoom, RoomReservation


class RoomKeeper:
    """Keeps room for groups, and gives up the room of pods and groups alike."""

    def __init__(self, core: EngineState, executor: PreemptionExecutor) -> None:
        self._core = core
        self._executor = executor
        self._devices_shown: Mapping[str, Sequence[AllocationResult]] = {}
        """The kept devices at the last tick."""

    @property
    def _kept(self) -> KeptRoom | None:
        return self._core.states.known(KeptRoom)

    def begin(self, members: Sequence[Attempt]) -> None:
        """Begin a group: drop its nominations, so that all members may use the room kept for it."""
        kept, nominator = self._kept, self._core.queue.nominator
        if kept is not None and kept.rooms():
            for each in members:
                if kept.keeps(each.pod.uid):
                    nominator.delete_nominated_pod_if_exists(each.pod.uid)

    def _started(self, group: PodGroup, members: Sequence[Attempt]) -> None:
        """Free the room that was kept for a group whose members are now placed."""
        kept = self._kept
        if kept is None:
            return
        for turns in kept:
            waiter = turns.group(group)
            room = turns.kept_for(waiter, "")
            turns.forget(waiter)
            if room is not None:
                turns.room = None
                pods = [each.queued.pod_info for each in members]
                kept.freed += [pod for pod in pods if pod.uid in room.places]

    def ended(
        self,
        step: GroupStep,
        conclusion: Conclusion,
        group: PodGroup,
        members: Sequence[Attempt],
    ) -> Steps[Conclusion]:
        """Nominate the members of a group that does not fit, if room is to be kept for it.

        Failed members have their failure set, and may still be assumed. The message of the returned
        conclusion names the kept room.
        """
        reason, message = conclusion
        if reason == SCHEDULED:
            self._started(group, members)
        elif reason == UNSCHEDULABLE and message != WAITS_FOR_VICTIMS:
            kept = yield from self.keep(step, group, members)
            message = f"{message}, {kept}" if kept else message
        return reason, message

    def searches_for(self, attempt: Attempt) -> bool:
        """Whether room is, or is to be, kept for a single pod with volumes or devices."""
        kept, plugin = self._kept, _plugin_of(attempt)
        if kept is None or plugin is None or attempt.pod.group_name:
            return False
        pod = attempt.pod
        return self.holds_more(pod) and self.keeps_for(pod) and plugin.has_turn(None, (pod,))

    def holds_more(self, pod: PodInfo) -> bool:
        """Whether a pod holds volumes or devices as well: its room is then searched on a copy."""
        catalog = self._core.states.known(ClaimCatalog)
        has_devices = catalog is not None and catalog.may_need_devices(pod)
        return has_devices or bool(pod.pod.volumes)

    def keeps_for(self, pod: PodInfo) -> bool:
        """Whether room may be kept for a pod: not if extenders filter for it."""
        return not self._core.extenders.interested_in(pod, Verb.FILTER)

    def keep(
        self, step: GroupStep, group: PodGroup | None, members: Sequence[Attempt]
    ) -> Steps[str]:
        """Nominate failed members, or a failed single pod, to room if it is their turn to have it.

        Returns:
            The message about the kept room, or the reason for none; empty if there is neither.
        """
        plugin = _plugin_of(members[0])
        if plugin is None or self._kept is None:
            return ""
        if not all(map(self.keeps_for, _pods_of(members))):
            return NOT_KEPT
        try:
            room = yield from self._room_for(plugin, step, group, members)
        except Exception as problem:  # noqa: BLE001 - members must not be lost
            self._core.unexpected(members[0].pod.key, problem)
            room = None
        self._show_devices(self._kept)
        if room is None:
            return ""
        for each in members:
            if each.failure is not None and each.failure.is_rejection:
                each.failure = _with_room(each.failure, each.pod.uid, room)
        return room.group_message()

    def _room_for(
        self,
        plugin: RoomForGroupPlugin,
        step: GroupStep,
        group: PodGroup | None,
        members: Sequence[Attempt],
    ) -> Steps[RoomReservation | None]:
        core, waiting = self._core, _pods_of(members)
        if not waiting or not plugin.has_turn(group, waiting):
            return None
        room = plugin.room_of(group, waiting)
        if room is not None:
            return room
        if step.is_over:
            yield
        attempts = [each for each in members if not each.has_left]
        if not attempts:
            return None
        trial = GroupTrial(core, attempts, step, is_nominated=False, pods_end=True)
        pods = [each.queued.pod_info for each in attempts]
        nodes = {name: info.node for name, info in core.cache.nodes.items()}
        search = plugin.search(pods, core.snapshot, trial)
        if group is not None:
            search = _by_placement(trial, pods, search)
        start = yield from trial.tried(search)
        waiting = _pods_of(members)
        room = plugin.keep(group, waiting, start) if waiting else None
        if room is not None:
            used = {name: nodes.get(name) for name in room.places.values()}
            room.nodes = {name: node for name, node in used.items() if node is not None}
        return room

    def rooms(self) -> dict[str, RoomReservation | None]:
        """The room that is kept in each profile with the plugin KeepRoom; None for no room."""
        kept, frameworks = self._kept, self._core.frameworks
        return {
            name: None if kept is None else kept.room_of(name)
            for name, each in frameworks.items()
            if each.plugins.post_filter_as(RoomForGroupPlugin) is not None
        }

    # --- time -----------------------------------------------------------------------------------

    def tick(self) -> None:
        """Give up room that is no longer needed, activate pods at their turn, and move others."""
        kept, core = self._kept, self._core
        if kept is None:
            return
        for turns in kept:
            room = turns.room
            if room is not None and not any(uid in core.queue.in_flight for uid in room.places):
                turns.room = self._reviewed(kept, room)
            turns.forget_gone()
            uid = turns.to_be_tried(core.now)
            if uid:
                core.queue.activate([uid])
        freed, kept.freed = kept.freed, []
        for pod in freed:
            core.queue.move_all_to_active_or_backoff_queue(
                ASSIGNED_POD_DELETE, pod, None, but=pod.uid, max_priority=pod.priority
            )
        self._show_devices(kept)
        self._wake_for_devices()

    def _reviewed(self, kept: KeptRoom, room: RoomReservation) -> RoomReservation | None:
        """Give up the room of pods that lost it; return the rest, due for review if in doubt."""
        nominated, catalog = self._nominated(room), self._core.states.known(ClaimCatalog)
        lost = [pod for pod in nominated if catalog is not None and not catalog.has_claims(pod)]
        if room.is_ending or len(lost) == len(nominated):
            self._give_up(kept, nominated)
            return None
        self._give_up(kept, lost)
        if len(nominated) - len(lost) < len(room.places) or self._has_changed(room):
            room.review_at = min(room.review_at, self._core.now)
        return room

    def _has_changed(self, room: RoomReservation) -> bool:
        """Whether kept nodes or devices have changed, or are gone."""
        catalog, nodes = self._core.states.known(ClaimCatalog), self._core.cache.nodes
        given = chain.from_iterable(room.devices.values())
        if catalog is not None and not all(map(catalog.is_published, given)):
            return True
        return any(not _is_like(nodes.get(name), node) for name, node in room.nodes.items())

    def _wake_for_devices(self) -> None:
        """Move pods that wait for devices, if some devices are no longer kept."""
        catalog, shown = self._core.states.known(ClaimCatalog), self._devices_shown
        if catalog is None:
            return
        self._devices_shown = catalog.kept
        if any(catalog.kept.get(uid) is not each for uid, each in shown.items()):
            self._core.queue.move_all_to_active_or_backoff_queue(*DEVICES_FREED)

    def _show_devices(self, kept: KeptRoom) -> None:
        """Give the kept devices to the `ClaimCatalog`, where the device allocator reads them."""
        catalog = self._core.states.known(ClaimCatalog)
        if catalog is not None:
            rooms = kept.rooms()
            catalog.kept = {uid: each for room in rooms for uid, each in room.devices.items()}

    def drop_all(self) -> None:
        """Give up all kept room: a new configuration may not keep it."""
        kept = self._kept
        if kept is not None:
            for room in kept.rooms():
                self._give_up(kept, self._nominated(room))
            kept.drop_profiles()

    def _give_up(self, kept: KeptRoom, waiting: Sequence[PodInfo]) -> None:
        self._executor.clear_nominations(waiting)
        kept.freed += waiting

    def _nominated(self, room: RoomReservation) -> list[PodInfo]:
        """The pods of some kept room that are still nominated, to a node that exists."""
        queue, cache = self._core.queue, self._core.cache
        found = []
        for uid, node in room.places.items():
            pod = queue.get(uid)
            if pod is not None and cache.has_node(node) and queue.nominator.nodes.get(uid) == node:
                found.append(pod)
        return found


def _by_placement(
    trial: GroupTrial, pods: Sequence[PodInfo], search: Steps[GroupStart | None]
) -> Steps[GroupStart | None]:
    """Search in each placement of a group.

    The placements are those of the copy, where places of this attempt do not limit them.
    """
    if trial.framework.tries_placements:
        found, status = trial.framework.run_placement_generate_plugins(pods, trial.world)
        if not status.is_success:
            return None
        trial.parts = found.parts()
    return (yield from search)


def _plugin_of(attempt: Attempt) -> RoomForGroupPlugin | None:
    plugin: RoomForGroupPlugin | None
    plugin = attempt.framework.plugins.post_filter_as(RoomForGroupPlugin)
    return plugin


def _pods_of(members: Sequence[Attempt]) -> list[PodInfo]:
    return [each.queued.pod_info for each in members if not each.is_gone]


def _with_room(failure: Failure, uid: str, room: RoomReservation) -> Failure:
    """The failure of a member, with its nomination if room is kept for it."""
    text = failure.message
    message = f"{text}{'' if text.endswith('.') else ','} {room.pod_message(uid)}"
    node = room.places.get(uid, "")
    if not node:
        return replace(failure, message=message)
    return replace(
        failure, message=message, nominated_node_name=node, needed_at=room.until, fits_nowhere=False
    )


def _is_like(info: NodeInfo | None, before: Node) -> bool:
    """Whether a node is as it was before, as far as that decides which pods it takes."""
    node = None if info is None else info.node
    if node is None or node is before:
        return node is before
    return (node.spec, node.metadata.labels, node.status.allocatable) == (
        before.spec,
        before.metadata.labels,
        before.status.allocatable,
    )
