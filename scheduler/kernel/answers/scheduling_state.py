"""Reads a pod's scheduling state and history from the engine of a daemon."""

from collections.abc import Callable

from msgspec.structs import replace

from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.waiting_model import (
    AwaitedEvents,
    GroupStanding,
    Hold,
    SchedulingState,
    StoryEntry,
)
from scheduler.kernel.engine import Engine
from scheduler.kernel.groups import GroupMembers
from scheduler.kernel.queue import QueuePosition

ASSIGNED = "assigned"
ELSEWHERE = "elsewhere"
TERMINATING = "terminating"

_When = Callable[[float], str]
"""A time of the engine's clock as RFC 3339."""


def scheduling_state_of(
    pod: PodInfo, engine: Engine, when: _When, *, leading: bool
) -> SchedulingState:
    """Return the scheduling state of a pod.

    `pod` is the informer's object; `leading` tells whether this instance leads.
    """
    core, uid = engine.core, pod.uid
    story = tuple(
        StoryEntry(when(entry.time), entry.attempt, entry.what, entry.detail)
        for entry in engine.story(uid)
    )
    nominated = core.queue.nominator.nodes.get(uid) or ""
    attempt = engine.attempts.of(uid)
    if attempt is not None:
        held = core.waiting.get(uid)
        holds = () if held is None else sorted(held.deadlines.items())
        return SchedulingState(
            attempt.state.value,
            leading,
            since=when(attempt.since or attempt.start),
            attempts=attempt.queued.attempts,
            node=attempt.pod.node_name,
            nominated_node=nominated,
            held_by=tuple(Hold(plugin, when(deadline)) for plugin, deadline in holds),
            message=attempt.doubt.message,
            group=group_standing(pod, engine),
            story=story,
        )
    if pod.is_terminating and not pod.node_name:
        # Wherever the queue has it: it is skipped when its turn comes.
        return SchedulingState(TERMINATING, leading, nominated_node=nominated, story=story)
    place = core.queue.place_of(uid)
    if place is not None:
        return _in_queue(place, engine, when, leading=leading, nominated=nominated, story=story)
    if pod.node_name:
        group = group_standing(pod, engine)
        return SchedulingState(ASSIGNED, leading, node=pod.node_name, group=group, story=story)
    return SchedulingState(ELSEWHERE, leading, story=story)


def _in_queue(
    place: QueuePosition,
    engine: Engine,
    when: _When,
    *,
    leading: bool,
    nominated: str,
    story: tuple[StoryEntry, ...],
) -> SchedulingState:
    queued = place.queued
    rejectors = queued.unschedulable_plugins | queued.pending_plugins
    if queued.gating_plugin:
        rejectors = frozenset({queued.gating_plugin})
    wakes = (
        AwaitedEvents(plugin, engine.core.queue.registered_events(queued.pod_info, plugin))
        for plugin in sorted(rejectors)
    )
    return SchedulingState(
        place.name,
        leading,
        since=when(queued.timestamp),
        until=when(place.until) if place.until else "",
        attempts=queued.attempts,
        nominated_node=nominated,
        gated_by=queued.gating_plugin,
        rejected_by=tuple(sorted(queued.unschedulable_plugins)),
        pending_by=tuple(sorted(queued.pending_plugins)),
        waits_for=tuple(wakes) if place.is_waiting else (),
        message=queued.last_failure,
        group=group_standing(queued.pod_info, engine),
        story=story,
    )


def group_standing(pod: PodInfo, engine: Engine) -> GroupStanding | None:
    """Return the progress of a pod's group; None without a group."""
    groups = engine.core.groups
    known = None if groups is None else groups.of_pod(pod)
    if groups is None or known is None:
        return None
    held = groups.why_held(pod.namespace, pod.group_name)
    least, last = None if known.group is None else known.group.min_count, known.last
    standing = GroupStanding(
        f"{pod.namespace}/{pod.group_name}", held, min_count=least, running=known.scheduled
    )
    if pod.node_name:
        return replace(standing, text=_wholeness(known))
    if held and least is not None:
        text = f"{known.known(groups.profiles)} of at least {least} pods are there"
        return replace(standing, text=text)
    if held or last is None:
        return standing
    fit = f"{last.placed + last.running} of {last.tried + last.running} fit"
    if last.domain and known.group is not None:
        best = f", the best of {last.domains} domains" if last.domains > 1 else ""
        fit = f"{fit} where {known.group.topology_key} is {last.domain}{best}"
    why = f"; the first of the others: {last.lacking}" if last.lacking else ""
    if last.victims:
        why += f"; these leave for it: {', '.join(last.victims)}"
    return replace(
        standing,
        text=f"{fit}{why}",
        tried=last.tried,
        placed=last.placed,
        lacking=last.lacking,
        victims=last.victims,
    )


def _wholeness(known: GroupMembers) -> str:
    """Describe whether enough members of an assigned pod's group have a node."""
    least = None if known.group is None else known.group.min_count
    count, waiting = known.scheduled, len(known.waiting)
    more = f"; {waiting} more wait{'s' * (waiting == 1)}" if waiting else ""
    have = "members have" if count != 1 else "member has"
    if least is None:
        return f"{count} {have} a node{more}"
    whole = "whole" if known.has_quorum() else "not whole"
    return f"it is {whole}: {count} {have} a node, at least {least} are needed{more}"
