"""Enumerates the orders in which a scheduler may have seen the changes around its binding.

A scheduler assumes a pod when it decides; a watch reports the pod when it is bound. Each change has
an earliest and a latest time of its decision. Changes whose times do not overlap happened in the
order of these times. For the others, several orders are tried: that of their watch events and those
of the queue, with the binding at several positions.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.kernel.cache import Cache
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.snapshot import Snapshot

AROUND_SECONDS: Final = 5.0
"""The longest time from a decision until the watch reports the binding, by assumption."""
_MOVES: Final = (*range(1, 22), 34, 55, 89, 144, 233)
"""Distances in changes by which a binding is moved: mostly few changes overtake a binding."""


class PodChange(msgspec.Struct, frozen=True):
    """A pod that was placed, terminates, or was deleted.

    Attributes:
        number: increases from change to change; that of the nomination for a nominated pod.
        pod: the pod, on its node.
        before: the pod before the change; None for a placed pod.
        after: the pod after the change; None for a deleted pod.
        since: the earliest time of the decision, in seconds of the events' clock.
        until: the latest time of the decision; for a deletion, the latest time at which the other
            scheduler has seen it.
        turn: its sort key and its arrival in the queue; None for a pod that was not queued.
    """

    number: int
    pod: PodInfo
    before: PodInfo | None
    after: PodInfo | None
    since: float
    until: float
    turn: tuple[Any, float] | None = None

    def may_swap(self, other: "PodChange") -> bool:
        """Return whether the order of the two changes is unknown."""
        return self.since <= other.until and other.since <= self.until


_Counted: TypeAlias = frozenset[int]
"""The numbers of the changes that a scheduler had seen when it decided on a binding."""


def ways(binding: PodChange, changes: Sequence[PodChange]) -> Iterator[_Counted]:
    """Yield the sets of changes that a scheduler may have seen before a binding, likeliest first.

    `changes` are all recent changes of pods, before the binding and after it.

    Cost: at most about a hundred sets, O(changes) each.
    """
    others = [each for each in changes if each.pod.uid != binding.pod.uid]
    unsure = {each.number: each for each in others if each.may_swap(binding)}
    before = frozenset(
        each.number for each in others if each.number < binding.number and each.number not in unsure
    )
    seen: set[_Counted] = set()
    for counted in _ways(binding, sorted(unsure.values(), key=lambda each: each.number)):
        if counted not in seen:
            seen.add(counted)
            yield before | counted


def _ways(binding: PodChange, unsure: Sequence[PodChange]) -> Iterator[_Counted]:
    """Yield these sets among the changes in unknown order only."""
    numbers = [each.number for each in unsure]
    appeared = frozenset(number for number in numbers if number < binding.number)
    # A pod that was not queued has no turn, and counts from its watch event.
    waited = [(each.turn, each.number) for each in unsure if each.turn is not None]
    turns = [number for _, number in sorted(waited)]
    direct = appeared.difference(turns)
    # In the order of arrival, as if the scheduler decided each pod before the next one arrived.
    arrived = [number for _, number in sorted((turn[1], number) for turn, number in waited)]
    own = len(appeared)
    own_turn = own_arrival = 0
    if binding.turn is not None:
        own_turn = sum(turn < binding.turn for turn, _ in waited)
        own_arrival = sum(turn[1] < binding.turn[1] for turn, _ in waited)
    yield appeared
    yield direct.union(turns[:own_turn])
    yield direct.union(arrived[:own_arrival])
    for move in _MOVES:
        yield frozenset(numbers[: own + move])
        yield frozenset(numbers[: max(0, own - move)])
        yield direct.union(turns[: own_turn + move])
        yield direct.union(turns[: max(0, own_turn - move)])
    yield frozenset(numbers)
    yield frozenset()
    # The order with most room on the binding's node and least on others; and the reverse.
    node = binding.pod.node_name
    room = frozenset(
        each.number for each in unsure if (each.pod.node_name == node) is (each.before is not None)
    )
    yield room
    yield frozenset(numbers) - room


def state(  # noqa: C901 - each pod as it was, beside what it is
    binding: PodChange,
    changes: Sequence[PodChange],
    counted: _Counted,
    cache: Cache,
    snapshot: Snapshot,
) -> tuple[Snapshot, Mapping[str, PodInfo]]:
    """Return the snapshot with only some of the changes, without the bound pod.

    Args:
        binding: the binding that is judged.
        changes: all changes of pods after it and shortly before it, in order.
        counted: the numbers of the changes to apply.
        cache: the present cache.
        snapshot: the present snapshot.

    Returns:
        The snapshot, and the pods that are placed in it and are not in the cache yet.
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
        now = cache.pods.get(uid)
        if _placement_state(then) == _placement_state(now):
            continue
        if then is not None and then.node_name in known:
            add.append(then)
            if now is None:
                early[uid] = then
        if now is not None and now.node_name in known:
            remove.append(now)
    return snapshot.fork(add=add, remove=remove), early


def without(nominated: NominatedPods, placed: Mapping[str, PodInfo]) -> NominatedPods:
    """Return the nominated pods without those in `placed`."""
    if not any(nominated.nodes.get(uid) for uid in placed):
        return nominated
    left = NominatedPods()
    left.end_if_started = nominated.end_if_started
    for node in nominated:
        for pod in nominated.nominated_pods_for_node(node):
            if pod.uid not in placed:
                left.nominate(pod, node, nominated.needed_at(pod.uid))
    return left


def _placement_state(pod: PodInfo | None) -> tuple[str, bool]:
    """Return the node of a pod, and whether it is terminating: all that matters here."""
    return ("", False) if pod is None else (pod.node_name, pod.is_terminating)
