"""Counts the pods of a kind that still fit, the limiting reasons, and unusable resources."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.api.limits import exceeded_limit
from scheduler.api.pods import PodInfo
from scheduler.api.resources import PODS
from scheduler.daemon.informers.kinds import watched_kind
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import Decide, ObjectSet
from scheduler.kernel.engine.instructions import Bind, Evict
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.status import Status
from scheduler.kernel.snapshot import PodAdded, Snapshot
from scheduler.tools.offline.copied_claims import claims_known, with_own_claims
from scheduler.tools.offline.driving import Driving
from scheduler.tools.offline.hypothetical_changes import copy_of
from scheduler.tools.offline.progress import Progress, no_progress

MAX_PODS: Final = 100_000
"""Pods at most that are placed one after the other; per node if the nodes are independent."""
_SHAPES: Final = 200
"""Kinds of pods at most, the most frequent ones, that are checked for unusable resources."""
_NAME: Final = "capacity"


class Capacity(msgspec.Struct, frozen=True, rename="camel"):
    """The output of `stowage capacity -o json`.

    Attributes:
        fits: number of further pods of the kind that fit.
        nodes: number of them by node; nodes without any are left out.
        limits: by reason, the number of nodes that take no further pod because of it.
        fragmentation: by resource, the share of free amounts on nodes on which no kind of pod of
            this cluster fits; resources with nothing free are left out.
        is_at_least: whether the count stopped early.
        warnings: likely mistakes in the input.
    """

    fits: int
    nodes: dict[str, int]
    limits: dict[str, int]
    fragmentation: dict[str, float]
    is_at_least: bool = False
    warnings: tuple[str, ...] = ()


def capacity_of(
    engine: Engine,
    framework: Framework,
    pod: PodInfo,
    pods: Iterable[PodInfo],
    progress: Progress = no_progress,
) -> Capacity:
    """Count the pods like this one that fit beside the assigned pods; the engine is changed.

    Pending pods take no room. No pod is evicted. Scheduling gates are ignored, and a member of a
    pod group is tried alone.

    `pods` are all pods of the cluster: their kinds could use the free resources. A pending pod
    like this one does not count.

    `progress` receives the share of nodes that are full, or of pod slots that are taken. The number
    of pods that fit is not known before.

    Raises:
        PluginError: a plugin failed.
    """
    core = engine.core
    core.catch_up()
    copies = _Copies(engine)
    pod = _alone(framework, pod)
    unused = fragmentation(framework, [pod, *pods], core.snapshot, copies.of)
    refused = exceeded_limit(pod)
    if refused:
        return Capacity(0, {}, {refused: core.snapshot.table.count}, unused)
    kind = copies.of(pod, _NAME)
    found = framework.filtering.find_nodes_that_fit(kind, core.snapshot, core.queue.nominator)
    if found.is_row_local:
        taken, last, is_at_least = _each_node_alone(framework, kind, core.snapshot, progress)
    else:
        taken, is_at_least = _one_by_one(engine, kind, copies, progress)
        core.catch_up()
        names = list(core.snapshot.table.row_of)
        last = framework.filtering.run_filters(kind, core.snapshot, names)
    return Capacity(taken.total(), dict(sorted(taken.items())), _limits(last), unused, is_at_least)


def _alone(framework: Framework, pod: PodInfo) -> PodInfo:
    """Return the pod without its gates and group, which do not depend on room."""
    spec = replace(pod.spec, scheduling_gates=())
    if framework.is_member(pod):
        spec = replace(spec, scheduling_group=None)
    return pod if spec == pod.spec else pod.with_spec(spec)


def _each_node_alone(
    framework: Framework, kind: PodInfo, snapshot: Snapshot, progress: Progress
) -> tuple[Counter[str], Mapping[str, Status], bool]:
    """Add pods to every feasible node until all are full: the nodes are independent.

    Returns:
        The number of pods by node, the rejections of full nodes, and whether it stopped early.
    """
    taken: Counter[str] = Counter()
    last: dict[str, Status] = {}
    names = list(snapshot.table.row_of)
    every = max(1, len(names))
    cluster = snapshot.copy()
    for number in count():
        progress(1 - len(names) / every)
        statuses = framework.filtering.run_filters(kind, cluster, names)
        last.update((name, status) for name, status in statuses.items() if not status.is_success)
        names = [name for name, status in statuses.items() if status.is_success]
        if not names or taken.total() > MAX_PODS * len(snapshot.table.row_of):
            return taken, last, bool(names)
        taken.update(names)
        cluster.update(
            [PodAdded(copy_of(kind, f"{_NAME}-{number}").on_node(name)) for name in names]
        )
    raise AssertionError("counting does not end by itself")


class _Copies:
    """Makes pods like others, with their claims."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def of(self, pod: PodInfo, name: str) -> PodInfo:
        """Return a new pod like another one; add its claims to the engine."""
        own, made = with_own_claims(copy_of(pod, name), pod, claims_known(self._engine))
        for kind, claim in made:
            self._engine.handle(ObjectSet(watched_kind(kind).name, claim), self._engine.core.now)
        return own


class _Counting(Driving):
    """Counts the binds of pods of a kind by node."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.taken: Counter[str] = Counter()

    @override
    def bind(self, bind: Bind) -> None:
        self.taken[bind.node] += 1
        super().bind(bind)

    @override
    def evict(self, evict: Evict) -> None:
        """Evict no pod."""


def _one_by_one(
    engine: Engine, kind: PodInfo, copies: _Copies, progress: Progress
) -> tuple[Counter[str], bool]:
    """Schedule pods one after the other until none fits: each placement affects the next."""
    driving = _Counting(engine)
    table = engine.core.snapshot.table
    room = max(1.0, float((table.max_pods - table.pod_count).sum()))
    for number in range(MAX_PODS):
        progress(min(1.0, number / room))
        driving.handle(ObjectSet("pods", copies.of(kind, f"{_NAME}-{number}")))
        while driving.taken.total() == number:
            if not engine.has_ready:
                return driving.taken, False
            driving.handle(Decide())
    return driving.taken, True


def _limits(last: Mapping[str, Status]) -> dict[str, int]:
    """Count the nodes by reason, the most frequent first."""
    reasons = Counter(
        reason for status in last.values() if not status.is_success for reason in status.reasons
    )
    return dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0])))


def fragmentation(
    framework: Framework,
    pods: Iterable[PodInfo],
    snapshot: Snapshot,
    copy: Callable[[PodInfo, str], PodInfo] = copy_of,
) -> dict[str, float]:
    """Return by resource the share (0 to 1) of free amounts on nodes where no kind of pod fits.

    Only the most frequent kinds of `pods` count; `copy` builds a pod like one of them.

    Raises:
        PluginError: a plugin failed.
    """
    table = snapshot.table
    usable = np.zeros(table.size, np.bool_)
    for pod in _kinds(pods):
        found = framework.filtering.find_nodes_that_fit(copy(pod, _NAME), snapshot)
        usable[found.feasible_rows()] = True
    rows = table.live_rows()
    free = np.maximum(table.allocatable[:, rows] - table.requested[:, rows], 0)
    room = np.maximum(table.max_pods[rows] - table.pod_count[rows], 0)
    shares = {PODS: _share(room, usable[rows])}
    for name, column in zip(table.resources.values, free, strict=False):
        shares[name] = _share(column, usable[rows])
    return {name: share for name, share in sorted(shares.items()) if share is not None}


def _share(free: NDArray[np.float64], usable: NDArray[np.bool_]) -> float | None:
    total = float(free.sum())
    return round(float(free[~usable].sum()) / total, 4) if total else None


def _kinds(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """Return one pod of each kind, the most frequent kinds first."""
    first: dict[object, PodInfo] = {}
    frequent: Counter[object] = Counter()
    for pod in pods:
        if exceeded_limit(pod):
            continue
        kind = (pod.kind, pod.resource_claims)
        first.setdefault(kind, pod)
        frequent[kind] += 1
    return [first[kind] for kind, _ in frequent.most_common(_SHAPES)]
