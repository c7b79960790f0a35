"""How one binding looks, on the cluster as it was and as its maker may have seen it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.cache import Cache
from scheduler.engine.algorithm import nominated_row
from scheduler.framework.runtime import Framework
from scheduler.framework.runtime.nominated_pods import NominatedPods
from scheduler.snapshot import Snapshot

AROUND_SECONDS: Final = 2.0
"""What happens so long before and after a binding may have come in another order to its maker."""


class Result(Enum):
    """What we think of a binding."""

    AGREED = "agreed"
    """It is one of the nodes that we would choose among."""
    ONLY = "only"
    """The same, and no other node fits."""
    RACED = "raced"
    """It looks so if what happened around it is counted in another way."""
    LOWER = "lower"
    """It fits, and we would choose another."""
    UNFIT = "unfit"
    """It does not fit there."""
    FAILED = "failed"
    """A plugin failed."""


AGREEMENT: Final = (Result.AGREED, Result.ONLY)
DISAGREEMENT: Final = (Result.LOWER, Result.UNFIT)


class Unjudged(Enum):
    """Why we think nothing of a pod with a node."""

    BEFORE = "before"
    """It had it when the watch began."""
    UNSEEN = "unseen"
    """It had it when it was first seen: set by its owner, or bound while the watch was away."""


class Look(msgspec.Struct, frozen=True):
    """What a binding looks like on one state of the cluster.

    Attributes:
        result: what we think of it.
        rank: of its node among those that fit, by total; 0 where it does not fit.
    """

    result: Result
    rank: int = 0


def look_at(
    framework: Framework, pod: PodInfo, node: str, snapshot: Snapshot, nominated: NominatedPods
) -> Look:
    """Whether a node is among those that we would choose from, in columns.

    Args:
        framework: who decides.
        pod: as it waited.
        node: where it is bound.
        snapshot: the cluster without the pod.
        nominated: pods that wait for a node to be cleared.

    Raises:
        PluginError: a plugin failed.
    """
    row = snapshot.table.row_of.get(node)
    if row is None:
        return Look(Result.UNFIT)
    found = framework.find_nodes_that_fit(pod, snapshot, nominated)
    fitting = found.feasible_rows()
    if row not in fitting:
        return Look(Result.UNFIT)
    if len(fitting) == 1:
        return Look(Result.ONLY, 1)
    totals = framework.totals(found, pod, snapshot, fitting)
    rank = 1 + int((totals > totals[fitting == row]).sum())
    alone = nominated_row(found, pod, snapshot)
    is_ours = rank == 1 if alone is None else row == alone[0]
    return Look(Result.AGREED if is_ours else Result.LOWER, rank)


class Change(msgspec.Struct, frozen=True):
    """A pod that came to its node, or went from it.

    Attributes:
        number: grows from one to the next.
        time: in seconds of the events' clock.
        pod: on its node.
        turn: what orders the queue, and when it came there; None for who did not wait.
        is_gone: whether it went.
    """

    number: int
    time: float
    pod: PodInfo
    turn: tuple[Any, float] | None = None
    is_gone: bool = False


_Counts: TypeAlias = Callable[[Change, Change], bool]
"""Whether a change had happened in the eyes of who made a binding, the second one."""


def _appeared(change: Change, binding: Change) -> bool:
    return change.number < binding.number


def _had_turn(change: Change, binding: Change) -> bool:
    """Whether the queue gives it first; who did not wait counts when it appears."""
    if change.turn is None or binding.turn is None:
        return _appeared(change, binding)
    return bool(change.turn < binding.turn)


def _came(change: Change, binding: Change) -> bool:
    """The same in the order of arrival: the first pod is not kept waiting for important ones."""
    if change.turn is None or binding.turn is None:
        return _appeared(change, binding)
    return change.turn[1] < binding.turn[1]


def _leaves_room(change: Change, binding: Change) -> bool:
    """What leaves its node as empty as may be, and the others as full."""
    return (change.pod.node_name == binding.pod.node_name) is change.is_gone


_ORDERS: Final[tuple[_Counts, ...]] = (
    _appeared,
    _had_turn,
    _came,
    lambda _change, _binding: True,
    lambda _change, _binding: False,
    lambda change, binding: not _appeared(change, binding),
    _leaves_room,
    lambda change, binding: not _leaves_room(change, binding),
)
"""In which ways the changes around a binding may have been counted."""


def possible_states(
    binding: Change, changes: Sequence[Change], cache: Cache, snapshot: Snapshot
) -> Iterator[Snapshot]:
    """What the cluster may have looked like to who made a binding.

    Args:
        binding: the pod that came to its node.
        changes: all that happened to pods since it, and shortly before, in order.
        cache: the cluster as it is now.
        snapshot: the same in columns.

    Cost: O(changes) for each state.
    """
    others = [
        (change, abs(change.time - binding.time) <= AROUND_SECONDS)
        for change in changes
        if change.pod.uid != binding.pod.uid
    ]
    for counts in _ORDERS if any(is_near for _, is_near in others) else _ORDERS[:1]:
        pods: dict[str, PodInfo | None] = {binding.pod.uid: None}
        for change, is_near in others:
            pod, is_gone = change.pod, change.is_gone
            pods.setdefault(pod.uid, pod if is_gone else None)
            if (counts if is_near else _appeared)(change, binding):
                pods[pod.uid] = None if is_gone else pod
        yield _with(pods, cache, snapshot)


def _with(pods: Mapping[str, PodInfo | None], cache: Cache, snapshot: Snapshot) -> Snapshot:
    """The cluster as it is but for some pods, which are where they are said to be, or nowhere."""
    known = snapshot.table.row_of
    pairs = [(pod, cache.get_pod(uid)) for uid, pod in pods.items()]
    moved = [(pod, now) for pod, now in pairs if _node_of(pod) != _node_of(now)]
    return snapshot.fork(
        add=[pod for pod, _ in moved if pod is not None and pod.node_name in known],
        remove=[now for _, now in moved if now is not None and now.node_name in known],
    )


def _node_of(pod: PodInfo | None) -> str:
    return "" if pod is None else pod.node_name
