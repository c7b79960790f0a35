"""The smallest changes of the cluster that would make a pod fit: of nodes, of who runs there."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from scheduler.answers.checks import EveryCheck, shortage
from scheduler.answers.edits import AddNodes, EvictPod, SetLabel, Uncordon
from scheduler.answers.labels import fewest_labels
from scheduler.answers.model import Change
from scheduler.answers.trials import Rows, Trials, change_of
from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.api.taints import UNSCHEDULABLE_TAINT
from scheduler.framework.interface import Reads
from scheduler.framework.runtime.nominated_pods import NominatedPods
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.taint_toleration import TaintToleration
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.candidates import Candidates
from scheduler.preemption.dry_run import DryRun
from scheduler.preemption.importance import Importance
from scheduler.snapshot import Snapshot

HOSTNAME: Final = "kubernetes.io/hostname"
_ZONE: Final = "topology.kubernetes.io/zone"

_NODES_CLEARED: Final = 32
"""So many of the nodes that lack least are tried with fewer pods."""
_NODES_TRIED: Final = 4
_MOST_VICTIMS: Final = 16
_ANY_PRIORITY: Final = 2**31
"""More than any pod has."""


def cluster_changes(every: EveryCheck, trials: Trials) -> Iterator[Change]:
    """Changes of the cluster, kind by kind."""
    yield from uncordon(every, trials)
    yield from set_labels(every, trials)
    yield from evict(every, trials)
    yield from add_nodes(every, trials)


def uncordon(every: EveryCheck, trials: Trials) -> Iterator[Change]:
    """A cordoned node that nothing else is against."""
    rows = every.rejected_by_none_but(NodeUnschedulable.NAME, TaintToleration.NAME)
    rows = np.intersect1d(rows, every.rejected_by(NodeUnschedulable.NAME))
    for row in rows[:_NODES_TRIED].tolist():
        node = every.snapshot.node(row)
        # The control plane keeps a taint with the same meaning in step.
        taints = [t for t in node.spec.taints if t.key != UNSCHEDULABLE_TAINT.key]
        opened = replace(node.spec, unschedulable=False, taints=tuple(taints))
        if trials.fits_with(replace(node, spec=opened)):
            name = node.metadata.name
            yield change_of([Uncordon(name)], 1, name)
            return


def set_labels(every: EveryCheck, trials: Trials) -> Iterator[Change]:
    """The fewest labels that a node lacks to be what the pod wants."""
    rows = every.rejected_by_none_but(NodeAffinity.NAME)
    for row, edits in fewest_labels(trials.pod, every.snapshot, rows, _NODES_TRIED):
        node = every.snapshot.node(row)

        def fits(some: Sequence[SetLabel], node: Node = node) -> bool:
            return trials.fits_with(_labelled(node, some))

        if edits and fits(edits):
            needed = trials.needed(edits, fits)
            yield change_of(needed, 1, node.metadata.name)
            return


def evict(every: EveryCheck, trials: Trials) -> Iterator[Change]:
    """The pods that would have to go from one node, whatever their priority."""
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
        Importance(),
        Budgets(),
        trials.nominated or NominatedPods(),
        below=_ANY_PRIORITY,
    )
    tried = Candidates(every.snapshot, dry_run.run(rows, len(rows)))
    fewest = sorted(tried, key=lambda c: (len(c.victims), c.victims[0].priority, c.node_name))
    for candidate in fewest[:_NODES_TRIED]:
        victims, name = candidate.victims, candidate.node_name

        def fits(some: Sequence[PodInfo], name: str = name) -> bool:
            world = every.snapshot.fork(remove=some)
            return world.table.row_of[name] in trials.rows(snapshot=world)

        if len(victims) <= _MOST_VICTIMS and fits(victims):
            # The most important ones are to stay, if any may.
            needed = trials.needed(victims, fits)
            edits = [EvictPod(victim.key, name, victim.priority) for victim in needed]
            yield change_of(edits, 1, name)
            return


def add_nodes(every: EveryCheck, trials: Trials) -> Iterator[Change]:
    """A node like the smallest one that would do if it were empty."""
    table = every.snapshot.table
    rows = _clearable(every, table.live_rows())
    order = np.lexsort(table.allocatable[::-1, rows])
    looked_at: set[tuple[object, ...]] = set()
    for row in rows[order].tolist():
        node = every.snapshot.node(row)
        zone = node.metadata.labels.get(_ZONE)
        likeness = (*table.allocatable[:, row].tolist(), int(table.taint_set[row]), zone)
        if likeness in looked_at:
            continue
        looked_at.add(likeness)
        if len(looked_at) > _NODES_TRIED:
            return
        if trials.fits_with(_like(node, every.snapshot)):
            name = node.metadata.name
            yield change_of([AddNodes(name, 1)], 1, name)
            return


def _clearable(every: EveryCheck, rows: Rows) -> Rows:
    """Those of the rows on which the pod might fit if nobody else ran there."""
    attempt = every.attempt
    for each in () if attempt is None else attempt.filters:
        if each.plugin.READS is Reads.NODE:
            rows = np.setdiff1d(rows, every.rejected_by(each.plugin.NAME))
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
    """A node of another name that is otherwise the same."""
    name = f"{node.metadata.name}-copy"
    while name in snapshot.table.row_of:
        name += "-copy"
    labels = dict(node.metadata.labels)
    if HOSTNAME in labels:
        labels[HOSTNAME] = name
    return replace(node, metadata=replace(node.metadata, name=name, uid=name, labels=labels))
