"""Checks whether pods fit after some running pods have ended, on a copy of the snapshot.

The copy is independent, so a check may take many steps while the engine continues. The engine's
own algorithm decides on the copy, with the plugins of the profile. So all rules of plugins apply,
and members of a group are placed one after the other, as in an attempt.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from random import Random
from typing import Final, TypeAlias

from scheduler.api.pods import PodInfo, PodKind
from scheduler.errors import SchedulerError
from scheduler.kernel.answers.orders import without
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.algorithm import ScheduleResult, SchedulingAlgorithm
from scheduler.kernel.engine.cluster_copy import EndedPods
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.snapshot import Indices, PodAdded, PodRemoved

_Placed: TypeAlias = tuple[PodInfo, CycleState]

MOST_AT_ONCE: Final = 128
"""Pods at most that are added or removed in one step."""


class LooksSpentError(SchedulerError):
    """No searches for a node are left; no further check is possible."""


class Ahead:
    """Checks whether enough pods find a node if certain running pods are gone.

    Attributes:
        places: the nodes of the pods placed by the last successful check.
        looks: number of searches for a node.
        running: the assigned pods that checks may remove; set before the first check.
    """

    def __init__(
        self,
        engine: Engine,
        framework: Framework,
        pods: Sequence[PodInfo],
        needed: int,
        domains: Sequence[Indices | None],
        most_looks: int,
    ) -> None:
        """Copy the snapshot.

        Args:
            engine: the engine with the cluster; its snapshot must be up to date.
            framework: the framework of the pods' profile.
            pods: the pending pods, in the order in which they are placed.
            needed: the number of them that must fit.
            domains: the rows of each domain, in one of which the pods must fit; None for all nodes.
            most_looks: searches for a node at most.

        Raises:
            PluginError: a plugin's shared state cannot be forked.
        """
        core = engine.core
        self.places: frozenset[str] = frozenset()
        self.looks = 0
        self.running: Sequence[PodInfo] = ()
        self._services = engine.services
        # The pods may use all room that is kept for any of them.
        self._nominated = without(core.queue.nominator.copy(), {pod.uid: pod for pod in pods})
        self._framework = framework.beside()
        self._algorithm = SchedulingAlgorithm(
            Random(0),  # noqa: S311 - breaks ties, keeps no secret
            core.algorithm.percentage_of_nodes_to_score,
        )
        kinds: dict[PodKind, PodKind] = {}
        self._pods = [_of_own_kind(pod, kinds) for pod in pods]
        self._needed = needed
        self._domains = domains
        self._most_looks = most_looks
        self._gone: set[int] = set()
        self._world = core.snapshot.copy()
        # Not a fork: plugins may keep values about this copy and update them by its changes.
        self._world.is_fork = False
        has_own = any(pod.needs for pod in pods) or not framework.plugins.are_trusted
        self._states = core.states.fork() if has_own else core.states
        self._ended = EndedPods(self._world, self._states if has_own else None)
        self._reserves = has_own

    def pods_by_node(self) -> Iterator[Iterable[PodInfo]]:
        """Yield the pods of each node of the copy."""
        for row in self._world.table.live_rows().tolist():
            yield self._world.info(row).pods.values()

    def fits_without(self, gone: Collection[int]) -> Steps[bool]:
        """Return whether enough pods fit without the `running` pods at these indices.

        Raises:
            LooksSpentError: no searches for a node are left.
            PluginError: a plugin failed.
        """
        yield from self._let_go(set(gone))
        for rows in self._domains:
            placed: list[_Placed] = []
            fits = yield from self._place(placed, rows)
            self._take_back(placed)
            if fits:
                self.places = frozenset(pod.node_name for pod, _ in placed)
                return True
        return False

    def _let_go(self, wanted: set[int]) -> Steps[None]:
        """Remove exactly these of the running pods from the copy."""
        for change, numbers in (
            (self._ended.end, wanted - self._gone),
            (self._ended.revive, self._gone - wanted),
        ):
            left = iter(sorted(numbers))
            while several := list(islice(left, MOST_AT_ONCE)):
                change([self.running[number] for number in several])
                yield
        self._gone = wanted

    def _place(self, placed: list[_Placed], rows: Indices | None) -> Steps[bool]:
        """Place one pod after the other on these rows, until enough fit or too many do not."""
        failed: PodKind | None = None
        for number, pod in enumerate(self._pods):
            if len(placed) + len(self._pods) - number < self._needed:
                return False
            if pod.kind is failed and not pod.has_own_objects:
                continue
            if not (self._has_place(pod, rows, placed) or pod.has_own_objects):
                failed = pod.kind
            if len(placed) >= self._needed:
                return True
            yield
        return False

    def _has_place(self, pod: PodInfo, rows: Indices | None, placed: list[_Placed]) -> bool:
        """Place and reserve a pod on the copy; return False if no node fits or Reserve fails."""
        if self.looks >= self._most_looks:
            raise LooksSpentError
        self.looks += 1
        framework = self._framework
        with self._services.on_fork(self._world, self._states):
            found = self._algorithm.schedule_pod(framework, pod, self._world, self._nominated, rows)
            if not isinstance(found, ScheduleResult):
                return False
            there = pod.on_node(found.suggested_host)
            placed.append((there, found.state))
            self._world.update([PodAdded(there)])
            if not self._reserves:
                return True
            self._states.reserved(there)
            if framework.run_reserve_plugins(found.state, there).is_success:
                return True
        self._take_back([placed.pop()])
        return False

    def _take_back(self, placed: Sequence[_Placed]) -> None:
        """Unreserve and remove placed pods, the last placed first."""
        with self._services.on_fork(self._world, self._states):
            for pod, state in reversed(placed) if self._reserves else ():
                self._framework.run_unreserve_plugins(state, pod)
                self._states.unreserved(pod)
        self._world.update(PodRemoved(pod) for pod, _ in placed)


def _of_own_kind(pod: PodInfo, kinds: dict[PodKind, PodKind]) -> PodInfo:
    """Return the pod with a new kind: the engine's caches must not get values about the copy."""
    kind, own = pod.kind, kinds.get(pod.kind)
    if own is None:
        own = kinds[kind] = PodKind(kind.shape, kind.namespace, kind.labels, kind.owners)
    return PodInfo(pod.pod, own)
