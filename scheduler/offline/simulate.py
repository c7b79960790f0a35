"""Where all waiting pods would go: the real queue, the real decisions, nothing bound."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.bootstrap import build_queue
from scheduler.cycle.algorithm import (
    NoNodesAvailable,
    ScheduleResult,
    SchedulingAlgorithm,
)
from scheduler.cycle.failure import Failure, failure_of, no_nodes, rejected_by
from scheduler.framework.events import ASSIGNED_POD_ADD
from scheduler.framework.runtime import Framework, PluginError
from scheduler.framework.status import Code, Status
from scheduler.framework.types import QueuedPodInfo
from scheduler.offline.cluster import Cluster, Profiles
from scheduler.queue import SchedulingQueue

_TICK_SECONDS: Final = 0.001


class Placement(msgspec.Struct, frozen=True, rename="camel"):
    """What becomes of one pod.

    Attributes:
        pod: namespace/name.
        node: where it goes, or None.
        nominated_node: where room is made for it; None, as nobody is evicted in this version.
        victims: who is evicted for it; empty in this version.
        message: why it stays pending.
    """

    pod: str
    node: str | None = None
    nominated_node: str | None = None
    victims: tuple[str, ...] = ()
    message: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """What becomes of all pods: placed ones in the order of their placement, then pending ones."""

    placements: tuple[Placement, ...]


class _ScriptedClock:
    """Time that passes only where the simulation says so: between the arrivals of pods."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self.now

    def wall(self) -> datetime:
        """See `Clock.wall`."""
        return datetime.fromtimestamp(0, UTC) + timedelta(seconds=self.now)


def simulate(profiles: Profiles, cluster: Cluster, seed: int) -> Outcome:
    """Schedule all waiting pods, each decision building on those before it.

    The cluster's cache and snapshot are as they would be afterwards. Ties between nodes are broken
    by the seed: the same seed gives the same placements.

    A rejected pod is tried again when a later placement may help it, as in the daemon.
    """
    return _Simulation(profiles, cluster, seed).run()


class _Simulation:
    def __init__(self, profiles: Profiles, cluster: Cluster, seed: int) -> None:
        self._profiles = profiles
        self._cluster = cluster
        self._clock = _ScriptedClock()
        self._algorithm = SchedulingAlgorithm(
            Random(seed),  # noqa: S311 - ties are no secrets
            profiles.config.percentage_of_nodes_to_score,
        )
        self._queue: SchedulingQueue = build_queue(
            profiles.config, profiles.frameworks, clock=self._clock
        )
        self._placed: list[Placement] = []
        self._messages: dict[str, str] = {}

    def run(self) -> Outcome:
        """Fill the queue, empty it, and see who is left."""
        self._fill_queue()
        while (queued := self._queue.pop()) is not None:
            self._schedule(queued)
        placed = {placement.pod for placement in self._placed}
        pending = [
            Placement(pod.key, message=self._message(pod))
            for pod in self._cluster.waiting
            if pod.key not in placed
        ]
        return Outcome((*self._placed, *pending))

    def _fill_queue(self) -> None:
        """Pods arrive in the order of their creation."""
        # Those that are being deleted are not scheduled, but the room they wait for stays theirs.
        for pod in _nominated(self._cluster):
            self._queue.nominator.add_nominated_pod(pod)
        arriving = sorted(
            self._cluster.waiting, key=lambda pod: pod.pod.metadata.creation_timestamp or "~"
        )
        for pod in arriving:
            self._clock.now += _TICK_SECONDS
            self._queue.add(pod)

    def _message(self, pod: PodInfo) -> str:
        """Why a pod is pending: its last rejection, or what keeps it out of the queue."""
        known = self._messages.get(pod.uid)
        if known is not None:
            return known
        return self._profiles.framework_of(pod).run_pre_enqueue_plugins(pod).message

    def _schedule(self, queued: QueuedPodInfo) -> None:
        pod = queued.pod_info
        framework = self._profiles.framework_of(pod)
        try:
            failure = self._attempt(framework, queued)
        except PluginError as problem:
            failure = Failure(str(problem))
        if failure is None:
            return
        self._messages[pod.uid] = failure.message
        queued.unschedulable_plugins = failure.unschedulable_plugins
        queued.pending_plugins = failure.pending_plugins
        self._queue.add_unschedulable_if_not_present(queued)

    def _attempt(self, framework: Framework, queued: QueuedPodInfo) -> Failure | None:
        """None when the pod has a node now, else why it has none."""
        pod = queued.pod_info
        cluster = self._cluster
        cluster.cache.update_snapshot(cluster.snapshot)
        nominated = self._queue.nominator
        decision = self._algorithm.schedule_pod(framework, pod, cluster.snapshot, nominated)
        if isinstance(decision, NoNodesAvailable):
            return no_nodes(decision)
        if not isinstance(decision, ScheduleResult):
            return failure_of(decision.diagnosis)
        status = self._reserve(framework, decision, pod.on_node(decision.suggested_host))
        if not status.is_success:
            return rejected_by(status)
        self._place(pod.on_node(decision.suggested_host))
        return None

    def _reserve(self, framework: Framework, decision: ScheduleResult, pod: PodInfo) -> Status:
        """Ask Reserve and Permit plugins; nobody waits in a simulation, so Wait counts as yes."""
        status = framework.run_reserve_plugins(decision.state, pod, pod.node_name)
        if status.is_success:
            status, _ = framework.run_permit_plugins(decision.state, pod, pod.node_name)
            if status.code is Code.WAIT:
                return Status()
        if not status.is_success:
            framework.run_unreserve_plugins(decision.state, pod, pod.node_name)
        return status

    def _place(self, pod: PodInfo) -> None:
        self._placed.append(Placement(pod.key, pod.node_name))
        self._cluster.cache.assume_pod(pod)
        self._queue.nominator.delete_nominated_pod_if_exists(pod.uid)
        self._queue.done(pod.uid)
        # The API server would confirm it, and those who wait for such a pod would be woken.
        self._cluster.cache.add_pod(pod)
        self._queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_ADD, None, pod)


def _nominated(cluster: Cluster) -> Iterator[PodInfo]:
    for node in cluster.nominator:
        yield from cluster.nominator.nominated_pods_for_node(node)
