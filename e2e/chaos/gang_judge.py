"""Checks with the API server's audit log that gangs are bound whole.

A gang is bound with at least as many members as its PodGroup requires, or not at all. Bindings are
separate requests, so a gang may be bound partly for a moment; the rest must follow. A gang that
lost a member, or that a restored backup split, is not counted as a violation.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from e2e.chaos.checker import Rewind, Violation, Window
from e2e.support.audit import AuditEvent

PROMISE: Final = "no gang below its minCount by our doing"
_SECONDS: Final = 15.0
"""Time, without a fault, within which the rest of a gang must be bound."""
_NEWS_SECONDS: Final = 3.0
"""Time after which a scheduler must know of a deleted member."""


@dataclass(frozen=True, slots=True)
class GangVerdict:
    """Results of the gangs.

    Attributes:
        violations: gangs of which only some members were bound.
        whole: number of gangs that reached their required number of bound members.
    """

    violations: Sequence[Violation]
    whole: int


@dataclass(slots=True)
class _Member:
    gang: str
    name: str
    is_bound: bool = False


@dataclass(slots=True)
class _Gang:
    """History of one gang; times are in seconds of wall time."""

    least: int
    left: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    """Times of bindings after which enough members were bound."""
    short: list[tuple[float, str, int]] = field(default_factory=list)
    """Time, member and number of bound members of each binding that left too few members bound."""
    lonely: list[tuple[float, str, int]] = field(default_factory=list)
    """The same with the number of existing members, where too few members existed."""


class _Replay:
    """Replays the log and records the history of every gang."""

    def __init__(self, users: Sequence[str], unlogged: Mapping[str, str]) -> None:
        self.gangs: dict[str, _Gang] = {}
        self.members: dict[str, _Member] = {}
        """Existing members by UID."""
        self._users = frozenset(users)
        self._unlogged = dict(unlogged)

    def take(self, event: AuditEvent) -> None:
        """Replay the next completed request."""
        name, is_done = event.object_ref.name, event.code < 300
        if event.resource == "podgroups" and event.verb == "create" and is_done:
            self._found(_decoded(event.response_object))
        elif event.resource == "pods" and event.verb == "create" and is_done:
            self._add(event)
        elif event.resource == "pods" and event.verb == "delete" and (is_done or event.code == 404):
            for uid in [uid for uid, each in self.members.items() if each.name == name]:
                self.leave(uid, _seconds(event.request_received_timestamp))
        elif event.is_binding() and is_done:
            self._bind(event)

    def leave(self, uid: str, at: float) -> None:
        """Record the deletion of a member."""
        member = self.members.pop(uid, None)
        if member is not None and member.gang in self.gangs:
            self.gangs[member.gang].left.append(at)

    def set_back(self, members: dict[str, _Member], at: float) -> None:
        """Restore the state of a backup."""
        for gang in self.gangs.values():
            gang.left.append(at)
        self.members = members

    def _found(self, group: dict[str, Any]) -> None:
        policy = group["spec"]["schedulingPolicy"].get("gang")
        if policy:
            self.gangs[group["metadata"]["name"]] = _Gang(policy["minCount"])

    def _add(self, event: AuditEvent) -> None:
        pod = _decoded(event.response_object)
        group = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
        if group:
            metadata = pod["metadata"]
            self.members[metadata["uid"]] = _Member(group, metadata["name"])

    def _bind(self, event: AuditEvent) -> None:
        binding, at = _decoded(event.request_object), _seconds(event.stage_timestamp)
        name, uid = event.object_ref.name, binding.get("metadata", {}).get("uid")
        known = {each.name: key for key, each in self.members.items()}
        member = self.members.get(uid or known.get(name, ""))
        if member is None and uid in self._unlogged:
            # A killed API server created the pod but did not log it.
            member = self.members[uid] = _Member(self._unlogged.pop(uid), name)
        gang = self.gangs.get(member.gang) if member is not None else None
        if member is None or gang is None:
            return
        member.is_bound = True
        siblings = [each for each in self.members.values() if each.gang == member.gang]
        bound = sum(each.is_bound for each in siblings)
        if bound >= gang.least:
            gang.whole.append(at)
        elif event.user.username in self._users:
            gang.short.append((at, name, bound))
            there = len(siblings) + sum(each == member.gang for each in self._unlogged.values())
            if there < gang.least:
                gang.lonely.append((at, name, there))


def judge_gangs(
    events: Sequence[AuditEvent],
    users: Sequence[str],
    windows: Sequence[Window],
    rewinds: Sequence[Rewind] = (),
    lost: Mapping[str, float] | None = None,
) -> GangVerdict:
    """Check all gangs of a run.

    Args:
        events: completed requests in any order.
        users: user names of the replicas.
        windows: periods of injected faults.
        rewinds: restored backups.
        lost: by UID, when pods were deleted by requests that the log lacks.
    """
    replay = _Replay(users, _unlogged(events))
    moments: list[tuple[float, int, Any]] = [(_seconds(e.stage_timestamp), 1, e) for e in events]
    moments += [(at, 0, uid) for uid, at in (lost or {}).items()]
    for each in rewinds:
        moments += [(each.saved, 2, each), (each.restored, 3, each)]
    saved: dict[Rewind, dict[str, _Member]] = {}
    for at, kind, what in sorted(moments, key=lambda each: each[:2]):
        if kind == 0:
            replay.leave(what, at)
        elif kind == 1:
            replay.take(what)
        elif kind == 2:
            saved[what] = deepcopy(replay.members)
        else:
            replay.set_back(saved[what], at)
    end = max((each[0] for each in moments), default=0.0)
    violations = [
        Violation(at, PROMISE, f"{name}: {what}")
        for name, gang in replay.gangs.items()
        for at, what in _broken(gang, windows, end)
    ]
    return GangVerdict(violations, sum(bool(gang.whole) for gang in replay.gangs.values()))


def _unlogged(events: Sequence[AuditEvent]) -> dict[str, str]:
    """Return bound members whose creation is not in the log, with their gangs."""
    gangs = {e.object_ref.name for e in events if e.resource == "podgroups" and e.verb == "create"}
    made = {
        _decoded(event.response_object)["metadata"]["uid"]
        for event in events
        if event.resource == "pods" and event.verb == "create" and event.code < 300
    }
    bound = (
        (_decoded(event.request_object).get("metadata", {}).get("uid"), event.object_ref.name)
        for event in events
        if event.is_binding()
    )
    return {
        uid: gang
        for uid, name in bound
        if uid and uid not in made and (gang := name.rpartition("-")[0]) in gangs
    }


def _broken(gang: _Gang, windows: Sequence[Window], end: float) -> list[tuple[float, str]]:
    """Return the violations of a gang, at most one of each kind."""
    for at, name, there in gang.lonely:
        if not _excused(gang, at - _NEWS_SECONDS, at):
            return [(at, f"{name} bound with {there} members there, {gang.least} are needed")]
    for at, name, bound in gang.short:
        deadline = _deadline(at, windows)
        is_followed = any(at <= each <= deadline for each in gang.whole)
        if end > deadline and not is_followed and not _excused(gang, at - _NEWS_SECONDS, deadline):
            return [(at, f"{name} bound as number {bound}, {gang.least} are needed")]
    return []


def _excused(gang: _Gang, begin: float, end: float) -> bool:
    return any(begin <= each <= end for each in gang.left)


def _deadline(at: float, windows: Sequence[Window]) -> float:
    """Return the deadline of an event: some seconds after the last overlapping fault."""
    soon = at + _SECONDS
    return max((w.end + _SECONDS for w in windows if w.begin < soon and w.end > at), default=soon)


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def _decoded(raw: msgspec.Raw) -> dict[str, Any]:
    return msgspec.json.decode(raw) or {}
