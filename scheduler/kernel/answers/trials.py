"""Runs the filters on a changed pod or a changed cluster, without an effect on decisions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import combinations
from math import comb
from typing import Final, TypeVar

import numpy as np

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Node, PodSpec
from scheduler.api.pod_shape import DEVICES, VOLUMES
from scheduler.api.pods import PodInfo
from scheduler.errors import SchedulerError
from scheduler.kernel.answers.edits import Edit
from scheduler.kernel.answers.hypothetical_devices import HypotheticalDevices
from scheduler.kernel.answers.hypothetical_nodes import HypotheticalNodes, tied_pods
from scheduler.kernel.answers.model import Check, SuggestedChange
from scheduler.kernel.framework.runtime import Framework, PluginError
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.snapshot import (
    Indices,
    NodeRemoved,
    NodeSet,
    PodAdded,
    PodRemoved,
    Snapshot,
)

_T = TypeVar("_T")

SEVERAL: Final = "several"
"""The kind of a change with edits of several kinds."""
_SETS_TOLD: Final = 3
"""Sets at most that are reported of one kind."""


class TrialsSpentError(SchedulerError):
    """No trials are left for one kind of change; its unfinished results are dropped."""


class Trials:
    """Tries changes, a limited number of times for each kind of change.

    Attributes:
        pod: the actual pod.
        snapshot: the actual cluster.
        nominated: the nominated pods.
        devices: replaces devices and claims for a trial; None if no plugin reads them.
        nodes: gives new nodes drivers and devices; None if plugins read neither.
        checks: the filters' rejections of the actual pod, if known.
        left: number of trials left for the present kind of change.
        untried_nodes: number of kinds of new nodes left untried after others did not help.
    """

    def __init__(  # noqa: PLR0913 - what a pod is judged on
        self,
        framework: Framework,
        pod: PodInfo,
        snapshot: Snapshot,
        nominated: NominatedPods | None,
        devices: HypotheticalDevices | None = None,
        checks: Sequence[Check] = (),
        *,
        nodes: HypotheticalNodes | None = None,
    ) -> None:
        self.pod = pod
        self.snapshot = snapshot
        self.nominated = nominated
        self.devices = devices
        self.nodes = nodes
        self.checks = checks
        self.left = 0
        self.untried_nodes = 0
        self._aside = framework.aside()
        self._world: Snapshot | None = None

    def rows(
        self,
        spec: PodSpec | None = None,
        snapshot: Snapshot | None = None,
        pod: PodInfo | None = None,
    ) -> Indices:
        """Return the rows on which the pod would fit; none if a plugin fails.

        Without `spec` and `pod` the actual pod is tried, without `snapshot` the actual cluster.

        Raises:
            TrialsSpentError: no trials are left.
        """
        if self.left <= 0:
            raise TrialsSpentError
        self.left -= 1
        pod = self.pod if pod is None else pod
        pod = pod if spec is None else pod.with_spec(spec)
        world = self.snapshot if snapshot is None else snapshot
        try:
            return self._aside.find_nodes_that_fit(pod, world, self.nominated).feasible_rows()
        except PluginError:
            return np.zeros(0, np.intp)

    def nodes_with(self, node: Node, like: str = "") -> list[str]:
        """Return the names of feasible nodes after a node is added or changed.

        A new node has the pods, devices and CSI drivers of the node `like`; see `add_node`.
        """
        world = self._world
        if world is None:
            world = self._world = self.snapshot.copy()
        name = node.metadata.name
        row = world.table.row_of.get(name)
        before = None if row is None else world.node(row)
        pods = self.add_node(node, like, world)
        try:
            with self._with_objects_of(name, like, world):
                return sorted(world.table.names[row] for row in self.rows(snapshot=world).tolist())
        finally:
            world.update(map(PodRemoved, pods))
            world.update(
                [NodeRemoved(name) if before is None else NodeSet(blank_info(before), before)]
            )

    def add_node(self, node: Node, like: str, world: Snapshot) -> list[PodInfo]:
        """Add or change a node of a copy of the cluster; return the pods that come with it.

        These are pods like those tied to the node `like`; none if `like` is empty.
        """
        row_of = self.snapshot.table.row_of
        model = self.snapshot.info(row_of[like]).pods.values() if like else ()
        pods = tied_pods(model, node.metadata.name)
        world.update([NodeSet(blank_info(node), node), *map(PodAdded, pods)])
        return pods

    def on_new_nodes(self, world: Snapshot) -> AbstractContextManager[None]:
        """Show plugins a changed cluster, with the CSI drivers that new nodes were given."""
        if self.nodes is None or not self.pod.needs & VOLUMES:
            return nullcontext()
        return self.nodes.shown(world)

    def give_drivers(self, name: str, like: str) -> None:
        """Give a new node the CSI drivers of the node `like`, if the pod has volumes."""
        if self.nodes is not None and self.pod.needs & VOLUMES:
            self.nodes.give_drivers(name, like)

    def _with_objects_of(
        self, name: str, like: str, world: Snapshot
    ) -> AbstractContextManager[None]:
        if not like:
            return nullcontext()
        self.give_drivers(name, like)
        if self.nodes is None or self.devices is None or not self.pod.needs & DEVICES:
            return self.on_new_nodes(world)
        return self.nodes.with_devices(name, like, world)

    def gets_room_of(self, other: PodInfo) -> bool:
        """Whether the pod may have the room of another pod if that one is evicted.

        It may not if the other is terminating already, or comes back to the same node. Nor if a
        controller creates the other again with a higher priority: that pod is scheduled first.
        """
        if other.is_terminating or other.is_tied_to_node:
            return False
        return other.controller is None or other.priority <= self.pod.priority

    def change(self, edits: Sequence[Edit], rows: Indices) -> SuggestedChange:
        """Build the change after which the pod fits on some rows."""
        names = self.snapshot.table.names
        return change_of(edits, [names[row] for row in rows.tolist()])

    def smallest_sets(
        self,
        atoms: Sequence[_T],
        try_set: Callable[[Sequence[_T]], Indices],
        likely: Callable[[], Iterable[Sequence[_T] | None]],
    ) -> Iterator[tuple[Sequence[_T], Indices] | None]:
        """Yield the smallest sets of atoms that make rows feasible, and None between two tries.

        While enough trials are left, all sets of a size are tried. Then only those of `likely` are
        tried, in their order, and the first that helps is reduced to the necessary atoms. `likely`
        may yield None between two sets.

        `try_set` returns the rows on which the pod fits after a set of edits.
        """
        for size in range(1, len(atoms) + 1):
            if comb(len(atoms), size) > self.left // 2:
                break
            found = 0
            for chosen in combinations(atoms, size):
                rows = try_set(chosen)
                is_told = len(rows) and found < _SETS_TOLD
                found += bool(is_told)
                yield (chosen, rows) if is_told else None
            if found:
                return
        for several in likely():
            if several is not None and len(try_set(several)):
                needed = yield from self.needed(several, lambda some: len(try_set(some)) > 0)
                yield needed, try_set(needed)
                return
            yield None

    def needed(self, atoms: Sequence[_T], fits: Callable[[Sequence[_T]], bool]) -> Steps[list[_T]]:
        """Return a subset of sufficient atoms of which none can be left out; a step is a trial."""
        kept = list(atoms)
        for atom in atoms:
            others = [each for each in kept if each is not atom]
            yield
            if others and fits(others):
                kept = others
        return kept


def change_of(edits: Sequence[Edit], nodes: Sequence[str]) -> SuggestedChange:
    """Build the change after which the pod fits on some nodes; its kind is that of its edits."""
    kinds = {edit.kind for edit in edits}
    kind = kinds.pop() if len(kinds) == 1 else SEVERAL
    return SuggestedChange(kind, tuple(edits), len(nodes), min(nodes))


def blank_info(node: Node) -> NodeInfo:
    """Return the NodeInfo of a node without pods."""
    info = NodeInfo(node.metadata.name)
    info.node = node
    return info
