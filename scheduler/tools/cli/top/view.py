"""The contents of the screen, read from an engine. No terminal here."""

import re
from collections import Counter, deque
from collections.abc import Hashable
from typing import Final

import msgspec
import numpy as np

from scheduler.api.pods import PodInfo
from scheduler.api.resources import CPU, MEMORY
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.devices.catalog import DeviceShare
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import Event, ObjectGone, ObjectSet
from scheduler.kernel.engine.failure import UNSCHEDULABLE
from scheduler.kernel.engine.instructions import POD_SCHEDULED
from scheduler.kernel.queue import GATED, SchedulingQueue
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.likeness import likeness_of
from scheduler.tools.offline.utilisation import NO_ZONE, ZONE_KEY

RATE_SECONDS: Final = 10.0
"""Rates are means over so many seconds."""
MAX_SHAPES: Final = 100
"""Kinds of waiting pods that are judged for one view, the most frequent first. On 5,000 nodes a
kind takes 1 ms."""
SOON: Final = "a node fits: its scheduler has not placed it yet"
TOGETHER: Final = "a node fits, but the pod's group is placed as a whole, and waits"
_QUOTED: Final = re.compile('"[^"]*"')
NOT_JUDGED: Final = "(not judged: too many kinds of pods wait)"


class Cell(msgspec.Struct, frozen=True):
    """One node of the heat map.

    Attributes:
        name: its name.
        share: how full it is, 0 to 1 and more: the fuller one of CPU and memory.
        is_closed: whether it takes no pods.
    """

    name: str
    share: float
    is_closed: bool


class WaitingRow(msgspec.Struct, frozen=True):
    """Pods that wait for the same reason; the first of them stands for all."""

    message: str
    pods: tuple[PodInfo, ...]


class View(msgspec.Struct, frozen=True):
    """One picture.

    Attributes:
        pods: number of pods with a node.
        queue: waiting pods by part of the queue: active, backoff, unschedulable, gated. For a
            watched cluster the back-off is unknown.
        assumed: pods on a node that the API server does not know of yet; `kubectl describe node`
            leaves them out.
        binds: pods that got a node, per second.
        arrivals: new pods, per second.
        zones: nodes by zone, both in the order of their names.
        waiting: pods without a node by reason, the most frequent one first.
        devices: number in use by driver and class; empty if there are none.
        pending_claims: claims that have no devices.
    """

    pods: int
    queue: dict[str, int]
    assumed: int
    binds: float
    arrivals: float
    zones: dict[str, tuple[Cell, ...]]
    waiting: tuple[WaitingRow, ...]
    devices: tuple[DeviceShare, ...] = ()
    pending_claims: int = 0

    @property
    def by_class(self) -> tuple[DeviceShare, ...]:
        """The devices of each class; of each driver where there are no classes."""
        return tuple(each for each in self.devices if each.is_class) or self.devices


class Rates:
    """Counts binds and arrivals of pods over the last seconds."""

    def __init__(self) -> None:
        self._binds: deque[float] = deque()
        self._arrivals: deque[float] = deque()
        self._nodes: dict[str, str] = {}
        """The node of each pod by UID; empty while it waits."""

    def note(self, event: Event, now: float) -> None:
        """Count a change at a time in seconds."""
        if isinstance(event, ObjectGone) and event.kind == "pods":
            self._nodes.pop(event.uid, None)
        elif isinstance(event, ObjectSet) and isinstance(pod := event.object, PodInfo):
            before = self._nodes.get(pod.uid)
            if before is None:
                self._arrivals.append(now)
            if pod.node_name and not before:
                self._binds.append(now)
            self._nodes[pod.uid] = pod.node_name

    def forget(self) -> None:
        """Forget the changes so far: they existed before the user looked."""
        self._binds.clear()
        self._arrivals.clear()

    def per_second(self, now: float) -> tuple[float, float]:
        """Binds and new pods per second."""
        for times in (self._binds, self._arrivals):
            while times and times[0] < now - RATE_SECONDS:
                times.popleft()
        return len(self._binds) / RATE_SECONDS, len(self._arrivals) / RATE_SECONDS


def view_of(
    engine: Engine, profiles: Profiles, rates: Rates, now: float, *, decides: bool = True
) -> View:
    """Build the view of an engine.

    `now` is of the clock of `rates`. `decides` says whether the engine has made the decisions; if
    not, the conditions of the pods tell which have been tried.
    """
    core = engine.core
    core.catch_up()
    binds, arrivals = rates.per_second(now)
    return View(
        len(core.cache.pods),
        _queue(core.queue) if decides else _by_condition(core.queue),
        len(core.cache.assumed_pods()),
        binds,
        arrivals,
        _zones(engine),
        _waiting(engine, profiles),
        *_devices(engine),
    )


def _queue(queue: SchedulingQueue) -> dict[str, int]:
    counts = queue.counts()
    return {
        "active": counts.active,
        "backoff": counts.backoff,
        "unschedulable": counts.unschedulable,
        "gated": counts.gated,
    }


def _by_condition(queue: SchedulingQueue) -> dict[str, int]:
    """Count another scheduler's pods by part of its queue, inferred from their conditions."""
    pods = _waiting_pods(queue)
    places = (queue.place_of(pod.uid) for pod in pods)
    gated = sum(place is not None and place.name == GATED for place in places)
    tried = sum(
        each.type == POD_SCHEDULED and each.reason == UNSCHEDULABLE
        for pod in pods
        for each in pod.pod.status.conditions
    )
    return {"active": len(pods) - tried - gated, "unschedulable": tried, "gated": gated}


def _waiting_pods(queue: SchedulingQueue) -> list[PodInfo]:
    """Return the pods that wait for a node; no scheduler places a pod that is being deleted."""
    return [pod for pod in queue.pending_pods() if not pod.is_terminating]


def _zones(engine: Engine) -> dict[str, tuple[Cell, ...]]:
    table, snapshot = engine.core.snapshot.table, engine.core.snapshot
    rows = table.live_rows()
    share = np.zeros(table.size)
    for name in (CPU, MEMORY):
        if name in table.resources.values:
            column = table.resources.values.index(name)
            has, takes = table.allocatable[column], table.requested[column]
            used = np.divide(takes, has, out=np.zeros(len(has)), where=has > 0)
            share = np.maximum(share, used[: table.size])
    zones: dict[str, list[Cell]] = {}
    for row in sorted(rows.tolist(), key=lambda row: table.names[row]):
        node = snapshot.node(row)
        zone = node.metadata.labels.get(ZONE_KEY, NO_ZONE)
        cell = Cell(node.metadata.name, float(share[row]), node.spec.unschedulable)
        zones.setdefault(zone, []).append(cell)
    return {zone: tuple(cells) for zone, cells in sorted(zones.items())}


def _devices(engine: Engine) -> tuple[tuple[DeviceShare, ...], int]:
    catalog = engine.core.states.known(ClaimCatalog)
    if catalog is None:
        return (), 0
    usage = catalog.devices.usage
    pending = sum(each.metadata.uid not in usage.allocations for each in catalog.claims.values())
    return tuple(catalog.devices.shares()), pending


def _waiting(engine: Engine, profiles: Profiles) -> tuple[WaitingRow, ...]:
    """Group waiting pods by reason; equal pods are judged once."""
    kinds: dict[Hashable, list[PodInfo]] = {}
    for pod in _waiting_pods(engine.core.queue):
        kinds.setdefault(likeness_of(engine, pod), []).append(pod)
    explainer = Explainer(engine, profiles.framework_of)
    by_message: dict[str, list[PodInfo]] = {}
    frequent = sorted(kinds.values(), key=len, reverse=True)
    for number, pods in enumerate(frequent):
        message = NOT_JUDGED if number >= MAX_SHAPES else _message(engine, explainer, pods[0])
        by_message.setdefault(message, []).extend(pods)
    found = [WaitingRow(message, tuple(pods)) for message, pods in _merged(by_message).items()]
    return tuple(sorted(found, key=lambda each: -len(each.pods)))


def _merged(by_message: dict[str, list[PodInfo]]) -> dict[str, list[PodInfo]]:
    """Merge messages that differ in a quoted name only into one without the name."""
    alike: dict[str, list[str]] = {}
    for message in by_message:
        alike.setdefault(_QUOTED.sub('"…"', message), []).append(message)
    return {
        each[0] if len(each) == 1 else general: [pod for one in each for pod in by_message[one]]
        for general, each in alike.items()
    }


def _message(engine: Engine, explainer: Explainer, pod: PodInfo) -> str:
    """Say why a pod waits, the most frequent reason first."""
    judgement = explainer.judge(pod)
    summary = judgement.summary
    if isinstance(summary.error, str):
        return summary.error
    whole = summary.pre_enqueue or summary.pre_filter
    if whole is not None:
        return "; ".join(whole.reasons)
    reasons: Counter[str] = Counter()
    if judgement.feasible:
        groups = engine.core.groups
        return SOON if groups is None or groups.of_pod(pod) is None else TOGETHER
    for verdict, rows in judgement.rejected:
        for reason in verdict.reasons:
            reasons[reason] += len(rows)
    told = (f"{number} {reason}" for reason, number in reasons.most_common())
    return ", ".join(told) or summary.message
