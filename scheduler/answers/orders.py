"""In which orders what happened around a binding may have come to its maker.

A scheduler counts a pod when it decides, a watch tells of it when it is bound. What is known of
each pod is between which two moments it was decided; pods whose times do not overlap came in their
order. Of the others it is asked whether there is an order in which the binding is right: that in
which they appeared, or one that the queue allows. Of two pods that wait, the more important one
goes first, and of equals the one that came first, unless the other was decided before it came.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.cache import Cache
from scheduler.framework.runtime.nominated_pods import NominatedPods
from scheduler.snapshot import Snapshot

AROUND_SECONDS: Final = 5.0
"""So long a binding takes at most, from the decision until the watch tells."""
_MOVES: Final = frozenset((0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233))
"""By how many others a binding is moved at first: most are overtaken by few."""
_TRIES: Final = 100
"""In each order of who may have been decided before."""
_Turn: TypeAlias = tuple[Any, float]


class Change(msgspec.Struct, frozen=True):
    """A pod that came to its node, is being deleted, or went.

    Attributes:
        number: grows from one to the next; that of the promise where there was one.
        pod: which pod, on its node.
        before: the same as it was before; None for one that came.
        after: and afterwards; None for one that went.
        since: not decided before, in seconds of the events' clock.
        until: and not after; of a pod that leaves, when that may have been heard of.
        turn: what orders the queue, and when it came there; None for who did not wait in line.
    """

    number: int
    pod: PodInfo
    before: PodInfo | None
    after: PodInfo | None
    since: float
    until: float
    turn: _Turn | None = None

    @property
    def heard(self) -> float:
        """When the watch told of one that leaves."""
        return (self.since + self.until) / 2

    def may_have_met(self, when: float) -> bool:
        """Whether it may have been decided in the seconds before some moment."""
        return self.since <= when and when - AROUND_SECONDS <= self.until

    def may_swap(self, other: "Change") -> bool:
        """Whether it is not known which of the two came first."""
        return self.since <= other.until and other.since <= self.until


_Counted: TypeAlias = frozenset[int]
"""The numbers of the changes that had happened in the eyes of who made a binding."""


def ways(binding: Change, changes: Sequence[Change]) -> Iterator[_Counted]:
    """What may have been counted when a binding was made, the likeliest first.

    `changes` are all that happened to pods lately, before the binding and after it.

    Cost: at most about two hundred ways, O(changes) each.
    """
    others = [each for each in changes if each.pod.uid != binding.pod.uid]
    unsure = {each.number: each for each in others if each.may_swap(binding)}
    before = frozenset(
        each.number for each in others if each.number < binding.number and each.number not in unsure
    )
    told: set[_Counted] = set()
    for counted in _ways(binding, sorted(unsure.values(), key=lambda each: each.number)):
        if counted not in told:
            told.add(counted)
            yield before | counted


def _ways(binding: Change, unsure: Sequence[Change]) -> Iterator[_Counted]:
    """The same of those of which it is not known.

    They stand in two lines, of each of which a beginning counts: what could be heard of before the
    decision, and who may have been decided before the pod came, or whenever that was.
    """
    yield frozenset(each.number for each in unsure if each.number < binding.number)
    sure: list[int] = []
    heard: list[tuple[float, int]] = []
    decided: list[Change] = []
    own = binding.turn
    for each in unsure:
        if each.before is not None:
            heard.append((each.heard, each.number))
        elif each.turn is None or own is None:
            decided.append(each)
        elif each.turn < own and each.turn[1] <= own[1]:
            sure.append(each.number)
        elif each.turn < own:
            # It is decided about before the pod if it comes in time.
            heard.append((each.turn[1], each.number))
        elif each.turn[1] < own[1] or each.turn == own:
            decided.append(each)
    came = binding.until if own is None else own[1]
    first = sum(when <= came for when, _ in heard)
    known = [number for _, number in sorted(heard)]
    latest = _latest((*unsure, binding))
    by_time: tuple[Callable[[Change], float], ...] = (
        lambda each: latest[each.number],
        lambda each: each.since,
    )
    for time in by_time:
        others = [each.number for each in sorted(decided, key=time)]
        bound = sum(number < binding.number for number in others)
        for i, j in islice(_pairs(_places(first, known), _places(bound, others)), _TRIES):
            yield frozenset((*sure, *known[:i], *others[:j]))


def _latest(changes: Iterable[Change]) -> dict[int, float]:
    """Until when each had been decided at the latest, by number.

    Who waits goes before the less important that came later, so it was decided before any of them
    was bound.
    """
    latest = {each.number: each.until for each in changes}
    # Of those that came later: their turns, each with the earliest of itself and those behind it.
    turns: list[_Turn] = []
    untils: list[float] = []
    waited = [(each.turn[1], each.turn, each.number) for each in changes if each.turn is not None]
    for _, turn, number in sorted(waited, reverse=True):
        place = bisect_left(turns, turn)
        until = min([latest[number], *untils[place : place + 1]])
        latest[number] = until
        first = bisect_left(untils, until, hi=place)
        turns[first:place], untils[first:place] = [turn], [until]
    return latest


def _places(first: int, row: Sequence[int]) -> list[int]:
    """Where a row may be cut: near the likeliest, then everywhere, more and more closely."""

    def order(place: int) -> tuple[bool, int, int]:
        distance = abs(place - first)
        is_near = distance in _MOVES
        return not is_near, 0 if is_near else -(distance & -distance), distance

    return sorted(range(len(row) + 1), key=order)


def _pairs(these: Sequence[int], those: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Each of these with each of those, the first of both first."""
    for both in range(len(these) + len(those) - 1):
        for i in range(max(0, both - len(those) + 1), min(both + 1, len(these))):
            yield these[i], those[both - i]


def state(
    binding: Change,
    changes: Sequence[Change],
    counted: _Counted,
    cache: Cache,
    snapshot: Snapshot,
) -> tuple[Snapshot, Mapping[str, PodInfo]]:
    """The cluster as it was if some of the changes had happened, without the pod itself.

    Args:
        binding: the pod that came to its node.
        changes: all that happened to pods since it, and shortly before, in order.
        counted: the numbers of those that had happened.
        cache: the cluster as it is now.
        snapshot: the same in columns.

    Returns:
        The cluster, and the pods that are on their nodes in it and are not yet in the cache.
    """
    pods: dict[str, PodInfo | None] = {binding.pod.uid: None}
    for change in changes:
        uid = change.pod.uid
        if uid == binding.pod.uid:
            continue
        pods.setdefault(uid, change.before)
        if change.number in counted:
            pods[uid] = change.after
    known = snapshot.table.row_of
    add: list[PodInfo] = []
    remove: list[PodInfo] = []
    early: dict[str, PodInfo] = {}
    for uid, then in pods.items():
        now = cache.get_pod(uid)
        if _counts(then) == _counts(now):
            continue
        if then is not None and then.node_name in known:
            add.append(then)
            if now is None:
                early[uid] = then
        if now is not None and now.node_name in known:
            remove.append(now)
    return snapshot.fork(add=add, remove=remove), early


def without(nominated: NominatedPods, placed: Mapping[str, PodInfo]) -> NominatedPods:
    """Nominated pods but those that count as placed already."""
    if not any(nominated.node_of(uid) for uid in placed):
        return nominated
    left = NominatedPods()
    for node in nominated:
        for pod in nominated.nominated_pods_for_node(node):
            if pod.uid not in placed:
                left.nominate(pod, node)
    return left


def _counts(pod: PodInfo | None) -> tuple[str, bool]:
    """What of a pod matters here: where it is, and whether it is being deleted."""
    return ("", False) if pod is None else (pod.node_name, pod.is_terminating)
