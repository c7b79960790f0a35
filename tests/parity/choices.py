"""Compares the daemon's own choice of a node with the scores of kube-scheduler's plugins.

`stowage explain` adds up the scores of every plugin for people. The daemon instead keeps the totals
of a class of pods, rescores only changed rows, and skips scores that make no difference. Its choice
must be one of the nodes with the oracle's highest total, and it must rate all of those nodes equal.
"""

import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import numpy as np

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.algorithm import ScheduleResult, SchedulingAlgorithm
from scheduler.kernel.framework.runtime import Framework, PluginError
from scheduler.kernel.snapshot import PodAdded, PodRemoved
from scheduler.tools.offline.cases import load_case
from scheduler.tools.offline.cluster import ClusterState, Profiles
from tests.parity.compare import Difference
from tests.support.builders import make_pod_info

Case = dict[str, Any]
ERROR = "error"


def choice_differences(
    case: Case, answer: Case, flags: Sequence[str] = ()
) -> tuple[list[Difference], int]:
    """Where the daemon would go elsewhere than the oracle's totals say.

    Each pod is decided about when it is met first, then with everything remembered, and then with
    everything remembered after pods came to every node and went again.

    Args:
        case: configuration and objects.
        answer: the oracle's.
        flags: with which the case is answered.

    Returns:
        The differences, and how often something remembered was used: who remembers nothing proves
        nothing.
    """
    gates = [name for flag in flags for name in re.findall(r"(\w+)=true", flag)]
    profiles, cluster = load_case(case, gates)
    if profiles.config.extenders:
        # They would have to be asked in between, as `engine/pending_extender_calls.py` does.
        return [], 0
    expected = {pod["pod"]: pod for pod in answer["pods"]}
    pods = [pod for pod in cluster.waiting if not expected[pod.key]["preEnqueue"]]
    differences = [
        difference
        for when in ("at first", "remembered", "after changes")
        for difference in _looked_at(when, profiles, cluster, pods, expected)
    ]
    return differences, sum(f.classes.hits for f in profiles.frameworks.values())


def _looked_at(
    when: str, profiles: Profiles, cluster: ClusterState, pods: list[PodInfo], expected: Case
) -> Iterator[Difference]:
    if when == "after changes":
        _come_and_go(profiles, cluster, pods)
    for pod in pods:
        answer = expected[pod.key]
        theirs = _expected(answer, pod.pod.status.nominated_node_name)
        chosen = _chosen(profiles.framework_of(pod), cluster, pod)
        if theirs == ERROR and chosen[0] == 1 and "Score plugin" in answer["error"]:
            continue  # where one node fits, only people want its scores
        if theirs == ERROR and chosen == (1, [pod.pod.status.nominated_node_name]):
            continue  # a nominated node that fits is tried alone, but only people want the others
        if theirs != chosen:
            yield Difference(f"{pod.key} {when}", "choice", theirs, chosen)


def _come_and_go(profiles: Profiles, cluster: ClusterState, pods: list[PodInfo]) -> None:
    """A pod comes to each node, everybody is decided about, and it goes."""
    snapshot = cluster.snapshot
    names = [snapshot.table.names[row] for row in snapshot.table.live_rows().tolist()]
    guests = [
        make_pod_info(f"guest-{name}", node_name=name, requests={"cpu": "1m"}) for name in names
    ]
    snapshot.update([PodAdded(guest) for guest in guests])
    for pod in pods:
        _chosen(profiles.framework_of(pod), cluster, pod)
    snapshot.update([PodRemoved(guest) for guest in guests])


def _expected(answer: Case, nominated: str) -> tuple[int, list[str]] | str:
    """How many nodes fit, and the best of them; "error" where kube-scheduler itself fails."""
    if answer.get("error"):
        return ERROR
    totals = {node["node"]: node["total"] for node in answer["nodes"] if node["feasible"]}
    if nominated in totals:
        return 1, [nominated]
    best = max(totals.values(), default=0)
    return len(totals), sorted(name for name, total in totals.items() if total == best)


def _chosen(
    framework: Framework, cluster: ClusterState, pod: PodInfo
) -> tuple[int, list[str]] | str:
    """The same by the daemon's way; what it chooses must be among its own best."""
    snapshot, nominator = cluster.snapshot, cluster.nominator
    names = np.array(snapshot.table.names, object)
    try:
        decision = SchedulingAlgorithm(Random(0)).schedule_pod(framework, pod, snapshot, nominator)
        if not isinstance(decision, ScheduleResult):
            return 0, []
        if decision.suggested_host == pod.pod.status.nominated_node_name:
            return 1, [decision.suggested_host]
        found = framework.filtering.find_nodes_that_fit(pod, snapshot, nominator)
        best = framework.scoring.best_nodes(found, pod, snapshot)
    except PluginError:
        return ERROR
    assert decision.suggested_host in names[best.rows]
    return best.feasible, sorted(names[best.rows].tolist())
