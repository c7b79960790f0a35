"""What every plugin says about every node, for every waiting pod on its own."""

from collections.abc import Iterator

import msgspec
import numpy as np

from scheduler.api.pods import PodInfo
from scheduler.cycle.algorithm import NoNodesAvailable
from scheduler.framework.runtime import Diagnosis, Feasibility, Framework
from scheduler.framework.runtime.diagnosis import FEASIBLE
from scheduler.framework.status import Status
from scheduler.offline.cluster import Profiles
from scheduler.offline.reading import ClusterObjects
from scheduler.snapshot import Snapshot


class Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Common settings of the output types."""


class Rejection(Wire, frozen=True):
    """A plugin that rejects a pod before any node is looked at."""

    plugin: str
    reasons: tuple[str, ...]


class PreFilterRejection(Wire, frozen=True):
    """A plugin that rejects the pod for all nodes at once."""

    plugin: str
    code: str
    reasons: tuple[str, ...]


class PluginScore(Wire, frozen=True):
    """What one plugin gives one node."""

    normalized: int
    weighted: int


class FeasibleNode(Wire, frozen=True):
    """A node that can take the pod, with the scores of every plugin that takes part."""

    node: str
    scores: dict[str, PluginScore]
    total: int
    feasible: bool = True


class RejectedNode(Wire, frozen=True):
    """A node that cannot take the pod, and the first plugin that says so."""

    node: str
    plugin: str
    code: str
    reasons: tuple[str, ...]
    feasible: bool = False


class PodAnswer(Wire, frozen=True):
    """Everything about one pod. See docs for the meaning of each field."""

    pod: str
    profile: str
    pre_enqueue: Rejection | None
    pre_filter: PreFilterRejection | None
    nodes: tuple[FeasibleNode | RejectedNode, ...]
    message: str


class Answer(Wire, frozen=True, omit_defaults=True):
    """The whole output."""

    pods: tuple[PodAnswer, ...] = msgspec.field(default_factory=tuple)
    error: str = ""


def explain(profiles: Profiles, objects: ClusterObjects) -> Iterator[PodAnswer]:
    """Judge every waiting pod on its own, changing nothing.

    Raises:
        PluginError: a plugin failed.
    """
    _, snapshot = profiles.load(objects)
    waiting = profiles.waiting(objects)
    for pod in waiting:
        yield judge(profiles, snapshot, waiting, pod)


def judge(
    profiles: Profiles, snapshot: Snapshot, waiting: list[PodInfo], pod: PodInfo
) -> PodAnswer:
    """What the plugins say about one pod.

    Raises:
        PluginError: a plugin failed.
    """
    framework = profiles.framework_of(pod)
    gate = profiles.gate(pod)
    if not gate.is_success:
        rejection = Rejection(gate.plugin, gate.reasons)
        return PodAnswer(pod.key, framework.profile_name, rejection, None, (), "")
    if not snapshot.table.count:
        message = NoNodesAvailable().message
        return PodAnswer(pod.key, framework.profile_name, None, None, (), message)
    found = framework.find_nodes_that_fit(pod, snapshot, profiles.nominated(waiting, pod))
    if found.verdicts is None:
        return PodAnswer(
            pod.key,
            framework.profile_name,
            None,
            _pre_filter_rejection(found.pre_filter),
            (),
            found.diagnosis(snapshot).message(),
        )
    nodes = _nodes(framework, found, pod, snapshot)
    fits = any(node.feasible for node in nodes)
    message = "" if fits else found.diagnosis(snapshot).message()
    return PodAnswer(pod.key, framework.profile_name, None, None, nodes, message)


def _pre_filter_rejection(status: Status) -> PreFilterRejection:
    return PreFilterRejection(status.plugin, status.code.upstream_name, status.reasons)


def _nodes(
    framework: Framework, found: Feasibility, pod: PodInfo, snapshot: Snapshot
) -> tuple[FeasibleNode | RejectedNode, ...]:
    rejected = _rejected_nodes(found, snapshot)
    feasible = _feasible_nodes(framework, found, pod, snapshot)
    return tuple(sorted((*feasible, *rejected), key=lambda node: node.node))


def _feasible_nodes(
    framework: Framework, found: Feasibility, pod: PodInfo, snapshot: Snapshot
) -> Iterator[FeasibleNode]:
    rows = found.feasible_rows()
    if not len(rows):
        return
    table = framework.score_table(found, pod, snapshot, rows)
    totals = framework.totals(found, pod, snapshot, rows)
    for position, row in enumerate(rows.tolist()):
        scores = {
            name: PluginScore(int(column[position]), int(column[position]) * weight)
            for name, weight, column in table
        }
        yield FeasibleNode(snapshot.table.names[row], scores, int(totals[position]))


def _rejected_nodes(found: Feasibility, snapshot: Snapshot) -> Iterator[RejectedNode]:
    verdicts = found.verdicts
    if verdicts is None:
        return
    names = snapshot.table.names
    diagnosis: Diagnosis = found.diagnosis(snapshot)
    for row in snapshot.table.live_rows().tolist():
        position = row
        if verdicts.rows is not None:
            at = np.flatnonzero(verdicts.rows == row)
            if not len(at):
                yield _rejected_node(names[row], diagnosis.absent or Status())
                continue
            position = int(at[0])
        if verdicts.first[position] != FEASIBLE:
            yield _rejected_node(names[row], verdicts.status(position))


def _rejected_node(name: str, status: Status) -> RejectedNode:
    return RejectedNode(name, status.plugin, status.code.upstream_name, status.reasons)
