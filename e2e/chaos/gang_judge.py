"""Whether gangs ran whole: read from the API server's audit log, nothing else.

A gang runs with as many members as its PodGroup says, or not at all. Bindings are single requests,
so for a moment some members have a node and others do not: what counts is that the rest follows.
A gang of which a member left, or that a backup took apart, is below its size by others' doing.
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
"""After so long without a fault the rest of a gang must be bound."""
_NEWS_SECONDS: Final = 3.0
"""After so long a scheduler must know of a member that left."""


@dataclass(frozen=True, slots=True)
class GangVerdict:
    """What came of the gangs.

    Attributes:
        violations: gangs of which some members were bound without the others.
        whole: how many gangs had at some moment as many members bound as they need.
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
    """One gang over time; moments are in seconds of wall time."""

    least: int
    left: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    """When a binding was answered after which enough members were bound."""
    short: list[tuple[float, str, int]] = field(default_factory=list)
    """When we bound a member, its name, and how many were bound then: too few."""
    lonely: list[tuple[float, str, int]] = field(default_factory=list)
    """The same, and how many members there were then: too few to run."""


class _Replay:
    """Plays the log back, and takes down what became of every gang."""

    def __init__(self, users: Sequence[str], unlogged: Mapping[str, str]) -> None:
        self.gangs: dict[str, _Gang] = {}
        self.members: dict[str, _Member] = {}
        """By UID: those that are there."""
        self._users = frozenset(users)
        self._unlogged = dict(unlogged)

    def take(self, event: AuditEvent) -> None:
        """Takes in the next answered request."""
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
        """Takes in that a member has left."""
        member = self.members.pop(uid, None)
        if member is not None and member.gang in self.gangs:
            self.gangs[member.gang].left.append(at)

    def set_back(self, members: dict[str, _Member], at: float) -> None:
        """Takes in that all is as it was when a backup was made."""
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
            # Made by a server that was killed before it could write that down.
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
    """Judges all gangs of a run.

    Args:
        events: all requests that were answered, in any order.
        users: as whom the replicas ask.
        windows: when something was wrong.
        rewinds: when the API server was set back.
        lost: by UID, when pods left of whose leaving nothing is written.
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
    """Members that were bound although nothing says that they were made, with their gangs."""
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
    """What a gang has against us, at most one thing of each kind."""
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
    """When all must be well: so long after the end of what was wrong then or came next."""
    soon = at + _SECONDS
    return max((w.end + _SECONDS for w in windows if w.begin < soon and w.end > at), default=soon)


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def _decoded(raw: msgspec.Raw) -> dict[str, Any]:
    return msgspec.json.decode(raw) or {}
