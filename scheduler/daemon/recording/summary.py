"""Sums up the outcome of a recording: waiting times, victims, and the use of nodes."""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil

import msgspec

from scheduler.api.objects import controller_of
from scheduler.api.pods import PodInfo
from scheduler.api.resources import PODS
from scheduler.kernel.snapshot import Snapshot


class PodSummary(msgspec.Struct):
    """The outcome for one pod.

    Attributes:
        pod: `namespace/name`.
        workload: see `workload_of`.
        came: the time at which it was first seen pending, in seconds of the events' clock.
        node: the node of its last placement, or empty.
        placed: the time of that placement.
        is_gone: whether it was deleted, or is terminal.
    """

    pod: str
    came: float
    node: str = ""
    placed: float = 0.0
    is_gone: bool = False
    workload: str = ""

    @property
    def waited(self) -> float | None:
        """Seconds until the placement; None for a pod that is still pending."""
        return self.placed - self.came if self.node else None


class Victim(msgspec.Struct, frozen=True):
    """An evicted pod and its preemptor; both `namespace/name`."""

    pod: str
    preemptor: str


class WaitTimes(msgspec.Struct, frozen=True):
    """The times that pods waited for their placement, in seconds."""

    mean: float
    median: float
    p99: float
    longest: float


class Use(msgspec.Struct, frozen=True):
    """A number over time: on average, and at most."""

    mean: float
    most: float


class Summary(msgspec.Struct, frozen=True):
    """The outcome of all pods under one engine.

    Attributes:
        placed: number of pods that were placed.
        pending: number of pods that were not placed.
        waited: waiting times of the placed pods; None without any.
        victims: the pods that were evicted for others.
        use: by resource, the requests of assigned pods divided by the capacity of all nodes.
        nodes: number of nodes with a pod on them.
    """

    placed: int
    pending: int
    waited: WaitTimes | None
    victims: tuple[Victim, ...]
    use: dict[str, Use]
    nodes: Use


class Meter:
    """Measures the use of nodes; each measurement counts for the time since the previous one.

    Attributes:
        shares: by resource, the share in use at the last measurement.
    """

    def __init__(self) -> None:
        self.shares: dict[str, float] = {}
        self._seconds = 0.0
        self._sums: dict[str, float] = {}
        self._most: dict[str, float] = {}
        self._nodes = 0.0
        self._most_nodes = 0.0

    def look(self, snapshot: Snapshot, seconds: float) -> None:
        """Measure the present use, which has lasted for `seconds`."""
        table = snapshot.table
        rows = table.live_rows()
        has = [*table.allocatable[:, rows].sum(axis=1).tolist(), table.max_pods[rows].sum().item()]
        pods = table.pod_count[rows]
        takes = [*table.requested[:, rows].sum(axis=1).tolist(), pods.sum().item()]
        names = (*table.resources.values[: len(has) - 1], PODS)
        self._seconds += seconds
        for name, whole, taken in zip(names, has, takes, strict=True):
            if whole > 0:
                share = self.shares[name] = taken / whole
                self._sums[name] = self._sums.get(name, 0.0) + share * seconds
                self._most[name] = max(share, self._most.get(name, 0.0))
        used = float((pods > 0).sum())
        self._nodes += used * seconds
        self._most_nodes = max(used, self._most_nodes)

    @property
    def use(self) -> dict[str, Use]:
        """The shares in use by resource, on average and at most."""
        seconds = self._seconds or 1.0
        return {
            name: Use(round(total / seconds, 4), round(self._most[name], 4))
            for name, total in self._sums.items()
        }

    @property
    def nodes(self) -> Use:
        """Number of nodes with a pod on them, on average and at most."""
        return Use(round(self._nodes / (self._seconds or 1.0), 1), self._most_nodes)


def workload_of(pod: PodInfo) -> str:
    """Return `namespace/Kind/name` of the pod's controller, or `namespace/Pod` without one.

    Revisions of a Deployment are one workload: the hash of its ReplicaSet is left out.
    """
    meta = pod.pod.metadata
    owner = controller_of(meta)
    if owner is None:
        return f"{meta.namespace}/Pod"
    revision = meta.labels.get("pod-template-hash")
    name = owner.name.removesuffix(f"-{revision}") if revision else owner.name
    return f"{meta.namespace}/{owner.kind}/{name}"


def summary_of(pods: Iterable[PodSummary], victims: Mapping[str, Victim], meter: Meter) -> Summary:
    """Sum up the decisions of one engine."""
    waited = [summary.waited for summary in pods]
    placed = sorted(seconds for seconds in waited if seconds is not None)
    return Summary(
        len(placed),
        len(waited) - len(placed),
        wait_times(placed),
        tuple(victims.values()),
        meter.use,
        meter.nodes,
    )


def wait_times(seconds: Sequence[float]) -> WaitTimes | None:
    """Return the statistics of times in seconds in ascending order; None for no times."""
    if not seconds:
        return None

    def at(share: float) -> float:
        return round(seconds[max(0, ceil(share * len(seconds)) - 1)], 6)

    return WaitTimes(round(sum(seconds) / len(seconds), 6), at(0.5), at(0.99), at(1.0))
