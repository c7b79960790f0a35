"""The cluster once some running pods have ended, for questions about one pod or one pod group.

A copy of the snapshot changes by itself, so a question may take many steps while the engine goes
on. The engine's own algorithm decides on the copy, with the plugins of the profile. So all that
plugins look at counts, and members of a group are placed one after the other, as in an attempt.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from random import Random
from typing import Final, TypeAlias

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scheduler.api.devices import ResourceClaim, ResourceClaimStatus
from scheduler.api.pods import PodInfo, PodKind
from scheduler.kernel.answers.orders import without
from scheduler.kernel.devices.claim_catalog import CLAIM, ClaimCatalog
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.algorithm import ScheduleResult, SchedulingAlgorithm
from scheduler.kernel.framework.events import POD_KIND
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.runtime.shared_states import SharedStates
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.snapshot import PodAdded, PodRemoved

Indices: TypeAlias = NDArray[np.intp]

MOST_AT_ONCE: Final = 128
"""So many pods come or go within one step."""


class Ahead:
    """Asks whether enough pods find a node if certain running pods are gone.

    Attributes:
        places: the nodes of the pods that were placed when the answer was yes last.
        looks: how often a node was looked for.
        running: of the pods on nodes those that may be gone; to be filled in before any question.
    """

    def __init__(
        self,
        engine: Engine,
        framework: Framework,
        pods: Sequence[PodInfo],
        needed: int,
        domains: Sequence[Indices | None] = (None,),
    ) -> None:
        """Copy the cluster as it is now.

        Args:
            engine: knows it; its snapshot must be up to date.
            framework: the profile that decides.
            pods: those that wait, in the order in which they are placed.
            needed: for how many of them there must be a place.
            domains: the rows of each part of the cluster of which one must have all places; None
                for all nodes.

        Raises:
            PluginError: what plugins know cannot be forked.
        """
        core = engine.core
        self.places: frozenset[str] = frozenset()
        self.looks = 0
        self.running: Sequence[PodInfo] = ()
        self._services = engine.services
        # Places that are kept for the pods are theirs, whichever of them takes which.
        self._nominated = without(core.queue.nominator, {pod.uid: pod for pod in pods})
        self._framework = framework.beside()
        self._algorithm = SchedulingAlgorithm(
            Random(0),  # noqa: S311 - breaks ties, keeps no secret
            core.algorithm.percentage_of_nodes_to_score,
        )
        kinds: dict[PodKind, PodKind] = {}
        self._pods = [_of_own_kind(pod, kinds) for pod in pods]
        self._needed = needed
        self._domains = domains
        self._gone: set[int] = set()
        self._world = core.snapshot.copy()
        # For these plugins it is the cluster: what they keep about it holds as it changes.
        self._world.is_fork = False
        self._states, self._own = core.states, None
        if any(pod.needs for pod in pods) or not framework.plugins.are_trusted:
            self._own = _OwnStates(core.states.fork())
            self._states = self._own.states

    def pods_by_node(self) -> Iterator[Iterable[PodInfo]]:
        """The pods of each node, as they were when the cluster was copied."""
        for row in self._world.table.live_rows().tolist():
            yield self._world.info(row).pods.values()

    def fits_without(self, gone: Collection[int]) -> Steps[bool]:
        """Whether the pods find their places if these of the running pods are gone, by number.

        Raises:
            PluginError: a plugin failed.
        """
        yield from self._let_go(set(gone))
        for rows in self._domains:
            placed: list[PodInfo] = []
            fits = yield from self._place(placed, rows)
            self._world.update(PodRemoved(pod) for pod in placed)
            if self._own is not None:
                for pod in reversed(placed):
                    self._states.unreserved(pod)
            if fits:
                self.places = frozenset(pod.node_name for pod in placed)
                return True
        return False

    def _let_go(self, wanted: set[int]) -> Steps[None]:
        """Have just these of the running pods be gone."""
        changes = iter([*sorted(wanted - self._gone), *sorted(self._gone - wanted)])
        while several := list(islice(changes, MOST_AT_ONCE)):
            pods = [(self.running[number], number in wanted) for number in several]
            self._world.update(PodRemoved(pod) if ends else PodAdded(pod) for pod, ends in pods)
            if self._own is not None:
                for pod, ends in pods:
                    self._own.change(pod, is_gone=ends)
            yield
        self._gone = wanted

    def _place(self, placed: list[PodInfo], rows: Indices | None) -> Steps[bool]:
        """Place one pod after the other on these rows, until there are enough or cannot be."""
        failed: PodKind | None = None
        for number, pod in enumerate(self._pods):
            if len(placed) + len(self._pods) - number < self._needed:
                return False
            if pod.kind is failed and not (pod.pod.volumes or pod.spec.resource_claims):
                continue
            node_name = self._look(pod, rows)
            if node_name:
                there = pod.on_node(node_name)
                self._world.update([PodAdded(there)])
                if self._own is not None:
                    self._states.reserved(there)
                placed.append(there)
            else:
                failed = pod.kind
            if len(placed) >= self._needed:
                return True
            yield
        return False

    def _look(self, pod: PodInfo, rows: Indices | None) -> str:
        """The node for a pod; empty for none."""
        self.looks += 1
        with self._services.on_fork(self._world, self._states):
            found = self._algorithm.schedule_pod(
                self._framework, pod, self._world, self._nominated, rows
            )
        return found.suggested_host if isinstance(found, ScheduleResult) else ""


class _OwnStates:
    """What plugins know beside the snapshot, as it is without some pods.

    Attributes:
        states: a fork.
    """

    def __init__(self, states: SharedStates) -> None:
        self.states = states
        self._catalog = states.known(ClaimCatalog)
        self._claims: dict[str, ResourceClaim] = {}
        """As they were, by `namespace/name`."""
        self._of_pod: defaultdict[str, list[str]] = defaultdict(list)
        if self._catalog is not None:
            self._claims.update(self._catalog.claims)
        for key, claim in self._claims.items():
            for user in claim.status.reserved_for:
                self._of_pod[user.uid].append(key)
        self._gone: set[str] = set()

    def change(self, pod: PodInfo, *, is_gone: bool) -> None:
        """A pod is gone now, or is there again; devices that no pod uses are free."""
        if self.states.hear_of(POD_KIND):
            self.states.object_changed(POD_KIND, *((pod, None) if is_gone else (None, pod)))
        (self._gone.add if is_gone else self._gone.discard)(pod.uid)
        if self._catalog is not None:
            for key in self._of_pod.get(pod.uid, ()):
                before = self._catalog.claims[key]
                self.states.object_changed(CLAIM, before, self._claim_now(self._claims[key]))

    def _claim_now(self, claim: ResourceClaim) -> ResourceClaim:
        users = claim.status.reserved_for
        left = tuple(user for user in users if user.uid not in self._gone)
        if len(left) == len(users):
            return claim
        status = replace(claim.status, reserved_for=left) if left else ResourceClaimStatus()
        return replace(claim, status=status)


def _of_own_kind(pod: PodInfo, kinds: dict[PodKind, PodKind]) -> PodInfo:
    """The pod, of a kind that the engine does not know: what is kept of kinds is kept apart."""
    kind, own = pod.kind, kinds.get(pod.kind)
    if own is None:
        own = kinds[kind] = PodKind(kind.shape, kind.namespace, kind.labels, kind.owners)
    return PodInfo(pod.pod, own)
