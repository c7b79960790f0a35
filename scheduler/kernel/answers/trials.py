"""The pod, or the cluster, as it might be: judged by the filters that decide, changing nothing."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import combinations
from math import comb
from typing import Final, TypeVar

import numpy as np

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Node, PodSpec
from scheduler.api.pod_shape import DEVICES
from scheduler.api.pods import PodInfo
from scheduler.errors import SchedulerError
from scheduler.kernel.answers.edits import Edit
from scheduler.kernel.answers.hypothetical_devices import HypotheticalDevices
from scheduler.kernel.answers.model import Check, SuggestedChange
from scheduler.kernel.framework.runtime import Framework, PluginError
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.snapshot import Indices, NodeRemoved, NodeSet, Snapshot

_T = TypeVar("_T")

SEVERAL: Final = "several"
"""The kind of a change with edits of several kinds."""
_SETS_TOLD: Final = 3
"""Largest number of sets of one kind reported."""


class TrialsSpentError(SchedulerError):
    """The trials for one kind of change are spent; unfinished results are dropped."""


class Trials:
    """Tries changes, a limited number of times for each kind of change.

    Attributes:
        pod: as it is.
        snapshot: the cluster as it is.
        nominated: pods that wait for a node to be cleared for them.
        devices: replaces devices and claims for a trial; None where no plugin reads them.
        checks: the filters' rejections of the pod as it is, if known.
        left: number of trials left for the present kind.
        untried_nodes: number of kinds of new nodes left untried after others did not help.
    """

    def __init__(
        self,
        framework: Framework,
        pod: PodInfo,
        snapshot: Snapshot,
        nominated: NominatedPods | None,
        devices: HypotheticalDevices | None = None,
        checks: Sequence[Check] = (),
    ) -> None:
        self.pod = pod
        self.snapshot = snapshot
        self.nominated = nominated
        self.devices = devices
        self.checks = checks
        self.left = 0
        self.untried_nodes = 0
        self._aside = framework.aside()
        self._world: Snapshot | None = None

    def rows(self, spec: PodSpec | None = None, snapshot: Snapshot | None = None) -> Indices:
        """The rows on which the pod would fit; none where a plugin fails.

        None stands for the actual pod, and for the actual cluster.

        Raises:
            TrialsSpentError: no more trials may be made.
        """
        if self.left <= 0:
            raise TrialsSpentError
        self.left -= 1
        pod = self.pod if spec is None else self.pod.with_spec(spec)
        world = self.snapshot if snapshot is None else snapshot
        try:
            return self._aside.find_nodes_that_fit(pod, world, self.nominated).feasible_rows()
        except PluginError:
            return np.zeros(0, np.intp)

    def nodes_with(self, node: Node, like: str = "") -> list[str]:
        """The nodes on which the pod would fit if a node were added or changed.

        A new node has the devices of the node `like`.
        """
        world = self._world
        if world is None:
            world = self._world = self.snapshot.copy()
        name = node.metadata.name
        row = world.table.row_of.get(name)
        before = None if row is None else world.node(row)
        world.update([NodeSet(blank_info(node), node)])
        try:
            with self._devices_of(name, like, world):
                return sorted(world.table.names[row] for row in self.rows(snapshot=world).tolist())
        finally:
            world.update(
                [NodeRemoved(name) if before is None else NodeSet(blank_info(before), before)]
            )

    def _devices_of(self, name: str, like: str, world: Snapshot) -> AbstractContextManager[None]:
        if not like or self.devices is None or not self.pod.needs & DEVICES:
            return nullcontext()
        return self.devices.devices_of(name, like, world)

    def change(self, edits: Sequence[Edit], rows: Indices) -> SuggestedChange:
        """A change after which the pod fits on some rows."""
        names = self.snapshot.table.names
        return change_of(edits, [names[row] for row in rows.tolist()])

    def smallest_sets(
        self,
        atoms: Sequence[_T],
        try_set: Callable[[Sequence[_T]], Indices],
        likely: Callable[[], Iterable[Sequence[_T]]],
    ) -> Iterator[tuple[Sequence[_T], Indices] | None]:
        """The smallest sets of atoms that make rows feasible; None between two tries.

        All sets of a size are tried while the trials suffice for that; then only likely ones, in
        the given order, each reduced to the necessary atoms.

        `try_set` returns the rows on which the pod fits after a set.
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
            if len(try_set(several)):
                needed = self.needed(several, lambda some: len(try_set(some)) > 0)
                yield needed, try_set(needed)
                return

    def needed(self, atoms: Sequence[_T], fits: Callable[[Sequence[_T]], bool]) -> list[_T]:
        """Reduce atoms that suffice together to a subset of which none can be left out."""
        kept = list(atoms)
        for atom in atoms:
            others = [each for each in kept if each is not atom]
            if others and fits(others):
                kept = others
        return kept


def change_of(edits: Sequence[Edit], nodes: Sequence[str]) -> SuggestedChange:
    """A change after which the pod fits on some nodes, called by the kind of its edits."""
    kinds = {edit.kind for edit in edits}
    kind = kinds.pop() if len(kinds) == 1 else SEVERAL
    return SuggestedChange(kind, tuple(edits), len(nodes), min(nodes))


def blank_info(node: Node) -> NodeInfo:
    """A node as the cache has it while no pod runs there."""
    info = NodeInfo(node.metadata.name)
    info.node = node
    return info
