"""Finds the smallest changes of nodes and their pods that would make a pod fit."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.api.taints import UNSCHEDULABLE_TAINT, Tolerations
from scheduler.kernel.answers.checks import EveryCheck, shortage
from scheduler.kernel.answers.device_changes import rows_if_free
from scheduler.kernel.answers.edits import AddNodes, EvictPod, SetLabel, Uncordon
from scheduler.kernel.answers.hypothetical_nodes import renamed
from scheduler.kernel.answers.labels import fewest_labels
from scheduler.kernel.answers.model import SuggestedChange
from scheduler.kernel.answers.trials import Trials, TrialsSpentError, change_of
from scheduler.kernel.framework.interface import Reads
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.plugins.node_affinity import NodeAffinity
from scheduler.kernel.plugins.node_unschedulable import NodeUnschedulable
from scheduler.kernel.plugins.taint_toleration import TaintToleration, untolerated
from scheduler.kernel.preemption.budgets import Budgets
from scheduler.kernel.preemption.candidates import Candidates
from scheduler.kernel.preemption.dry_run import DryRun
from scheduler.kernel.preemption.importance import Importance
from scheduler.kernel.snapshot import Indices, PodAdded, Snapshot

HOSTNAME: Final = "kubernetes.io/hostname"
_ZONE: Final = "topology.kubernetes.io/zone"

_NODES_CLEARED: Final = 32
"""Nodes at most that are tried with fewer pods, the smallest shortage first."""
_NODES_TRIED: Final = 4
_MOST_VICTIMS: Final = 16
_ANY_PRIORITY: Final = 2**31
"""A priority above that of any pod."""


def uncordon(every: EveryCheck, trials: Trials) -> Iterator[SuggestedChange | None]:
    """Yield the uncordoning of a node that is rejected only for being cordoned."""
    rows = every.rejected_by_none_but(NodeUnschedulable.NAME, TaintToleration.NAME)
    rows = np.intersect1d(rows, every.rejected_by(NodeUnschedulable.NAME))
    order = np.argsort(_has_other_taint(every, rows), kind="stable")
    for row in rows[order[:_NODES_TRIED]].tolist():
        node = every.snapshot.node(row)
        # The control plane removes the taint of a cordoned node too.
        taints = [t for t in node.spec.taints if t.key != UNSCHEDULABLE_TAINT.key]
        opened = replace(node.spec, unschedulable=False, taints=tuple(taints))
        found = trials.nodes_with(replace(node, spec=opened))
        if found:
            yield change_of([Uncordon(node.metadata.name)], found)
            return
        yield None


def _has_other_taint(every: EveryCheck, rows: Indices) -> NDArray[np.bool_]:
    """Return by row whether an untolerated taint is left after the node is uncordoned."""
    table, tolerations = every.snapshot.table, Tolerations(every.pod.spec.tolerations)
    numbers, places = np.unique(table.taint_set[rows], return_inverse=True)
    of_sets = (untolerated(table.taint_sets.values[each], tolerations) for each in numbers.tolist())
    left = [any(each.key != UNSCHEDULABLE_TAINT.key for each in taints) for taints in of_sets]
    found: NDArray[np.bool_] = np.array(left, np.bool_)[places]
    return found


def set_labels(every: EveryCheck, trials: Trials) -> Iterator[SuggestedChange | None]:
    """Yield the fewest labels that make a node satisfy node selector and affinity."""
    rows = every.rejected_by_none_but(NodeAffinity.NAME)
    for found in fewest_labels(trials.pod, every.snapshot, rows, _NODES_TRIED):
        yield None
        if found is None:
            continue
        row, edits = found
        node = every.snapshot.node(row)

        def fits(some: Sequence[SetLabel], node: Node = node) -> bool:
            return len(trials.nodes_with(_labelled(node, some))) > 0

        if edits and fits(edits):
            needed = yield from trials.needed(edits, fits)
            yield change_of(needed, trials.nodes_with(_labelled(node, needed)))
            return


def evict(every: EveryCheck, trials: Trials) -> Iterator[SuggestedChange | None]:
    """Yield the fewest pods to evict from one node, of any priority (see `Trials.gets_room_of`)."""
    found = every.found
    if every.outright or found.attempt is None or found.verdicts is None:
        return
    rows = _clearable(every, np.flatnonzero(every.fails))
    if found.verdicts.rows is not None:
        rows = np.intersect1d(rows, found.verdicts.rows)
    rows = rows[np.argsort(shortage(every, rows), kind="stable")[:_NODES_CLEARED]]
    if not len(rows):
        return
    dry_run = DryRun(
        found.diagnosis(every.snapshot),
        every.snapshot,
        Importance(partial(_priority, trials)),
        Budgets(),
        trials.nominated or NominatedPods(),
        below=_ANY_PRIORITY,
    )

    def rows_without(some: Sequence[PodInfo]) -> Indices:
        return trials.rows(snapshot=every.snapshot.fork(remove=some))

    def fits(some: Sequence[PodInfo]) -> bool:
        return len(rows_without(some)) > 0

    tried = Candidates(every.snapshot, dry_run.run(rows, len(rows)))
    yield None
    fewest = sorted(tried, key=lambda c: (len(c.victims), c.victims[0].priority, c.node_name))
    for candidate in fewest[:_NODES_TRIED]:
        if len(candidate.victims) <= _MOST_VICTIMS and fits(candidate.victims):
            # Keep the most important victims on the node, if the pod fits beside them.
            needed = yield from trials.needed(candidate.victims, fits)
            edits = [EvictPod(v.key, candidate.node_name, v.priority) for v in needed]
            yield trials.change(edits, rows_without(needed))
            return
        yield None


def _priority(trials: Trials, other: PodInfo) -> int:
    """Return the priority of a pod that may be evicted; of others, one that no eviction reaches."""
    return other.priority if trials.gets_room_of(other) else _ANY_PRIORITY


def add_nodes(every: EveryCheck, trials: Trials) -> Iterator[SuggestedChange | None]:
    """Yield the addition of a copy of the smallest node that would be feasible if new.

    A new node runs its pods of DaemonSets and its static pods.
    """
    rows = _clearable(every, every.snapshot.table.live_rows())
    rows = np.intersect1d(rows, rows_if_free(every, trials))
    kinds = _different(every.snapshot, rows)
    for row in kinds[:_NODES_TRIED].tolist():
        node = every.snapshot.node(row)
        found = trials.nodes_with(_like(node, every.snapshot), node.metadata.name)
        if found:
            yield change_of([AddNodes(node.metadata.name, 1)], found)
            return
        yield None
    trials.untried_nodes = len(kinds[_NODES_TRIED:])


def nodes_for_all(trials: Trials, like: str, pods: Sequence[PodInfo]) -> int | None:
    """Return how many copies of a node must be added for some pods that are alike.

    The pods are placed one after the other, each on the first feasible node; for a pod that fits
    nowhere another node is added. None if that does not help, or no trials are left.
    """
    world, node = trials.snapshot.copy(), trials.snapshot.node(trials.snapshot.table.row_of[like])
    nodes = 0
    try:
        with trials.on_new_nodes(world):
            for number, pod in enumerate(pods):
                rows = trials.rows(snapshot=world, pod=pod)
                if not len(rows):
                    nodes += 1
                    added = _like(node, world)
                    trials.add_node(added, like, world)
                    trials.give_drivers(added.metadata.name, like)
                    rows = trials.rows(snapshot=world, pod=pod)
                if not len(rows):
                    return None
                name = world.table.names[int(rows[0])]
                world.update([PodAdded(renamed(pod, str(number)).on_node(name))])
    except TrialsSpentError:
        return None
    return nodes


def _different(snapshot: Snapshot, rows: Indices) -> Indices:
    """Return one row of each set with equal allocatable, taints and zone.

    The smallest nodes come first.
    """
    table = snapshot.table
    zones = snapshot.topology(_ZONE).ids[rows]
    facts = np.vstack((table.allocatable[:, rows], table.taint_set[rows], zones))
    order = np.lexsort(facts[::-1])
    is_new = np.ones(len(rows), np.bool_)
    is_new[1:] = np.any(np.diff(facts[:, order], axis=1) != 0, axis=0)
    return rows[order[is_new]]


def _clearable(every: EveryCheck, rows: Indices) -> Indices:
    """Return the rows on which the pod might fit if no other pod ran there."""
    attempt = every.attempt
    for each in () if attempt is None else attempt.filters:
        if each.reads is Reads.NODE:
            rows = np.setdiff1d(rows, every.rejected_by(each.name))
    table = every.snapshot.table
    for name, amount in every.pod.shape.requests.items():
        column = table.resources.get(name)
        if column is not None:
            rows = rows[table.allocatable[column, rows] >= amount]
    return rows


def _labelled(node: Node, edits: Sequence[SetLabel]) -> Node:
    labels = dict(node.metadata.labels)
    for edit in edits:
        if edit.value is None:
            labels.pop(edit.key, None)
        else:
            labels[edit.key] = edit.value
    return replace(node, metadata=replace(node.metadata, labels=labels))


def _like(node: Node, snapshot: Snapshot) -> Node:
    """Return a copy of a node with another name."""
    names = (f"{node.metadata.name}-copy-{number}" for number in count(1))
    name = next(name for name in names if name not in snapshot.table.row_of)
    labels = dict(node.metadata.labels)
    if HOSTNAME in labels:
        labels[HOSTNAME] = name
    return replace(node, metadata=replace(node.metadata, name=name, uid=name, labels=labels))
