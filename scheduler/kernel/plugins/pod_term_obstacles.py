"""The terms of pod (anti-)affinity that exclude nodes, and the pods that they match."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.obstacles import PodTermObstacle
from scheduler.kernel.plugins.examples import pods_on
from scheduler.kernel.plugins.own_affinity_terms import OwnTerm, OwnTerms, resolved_term
from scheduler.kernel.snapshot import Mask, Snapshot
from scheduler.kernel.snapshot.label_columns import ABSENT
from scheduler.kernel.snapshot.pod_selectors import PodSelector
from scheduler.kernel.snapshot.row_counts import RowCounts
from scheduler.kernel.snapshot.term_counts import TermClass, TermKey, TermKind, term_keys_of

POD_AFFINITY: Final = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"
POD_ANTI_AFFINITY: Final = (
    "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"
)

_TERMS: Final = 16
"""The most terms of running pods that are reported; any number of terms may select a pod."""


def of_affinity(
    pod: PodInfo, unmet: Mapping[str, Mask], snapshot: Snapshot, rows: NDArray[np.intp]
) -> Iterator[PodTermObstacle]:
    """The terms of the pod's own affinity that exclude rows.

    Args:
        pod: the pod.
        unmet: by topology key, the domains where a term is not satisfied.
        snapshot: the cluster.
        rows: the rows.
    """
    affinity = pod.shape.affinity
    for i, term in enumerate(() if affinity is None else affinity.required):
        ids = snapshot.topology(term.topology_key).ids[rows]
        nodes = int(np.count_nonzero(unmet[term.topology_key][ids]))
        if nodes:
            own = resolved_term(term, pod.namespace, snapshot)
            missing = int(np.count_nonzero(ids == ABSENT))
            counts = snapshot.pod_counts(own.pods)
            yield _obstacle(
                "affinity", f"{POD_AFFINITY}[{i}]", own, (nodes, missing), counts, snapshot
            )


def of_anti_affinity(
    own: OwnTerms, snapshot: Snapshot, rows: NDArray[np.intp]
) -> Iterator[PodTermObstacle]:
    """The terms of the pod's own anti-affinity that exclude rows."""
    for i, term in enumerate(own.away):
        counts = snapshot.pod_counts(term.pods)
        nodes = _held(counts, term.topology_key, snapshot, rows)
        if nodes:
            path = f"{POD_ANTI_AFFINITY}[{i}]"
            yield _obstacle("antiAffinity", path, term, (nodes, 0), counts, snapshot)


def of_running_pods(
    pod: PodInfo, snapshot: Snapshot, rows: NDArray[np.intp]
) -> Iterator[PodTermObstacle]:
    """The anti-affinity terms of running pods that exclude rows, the widest terms first."""
    found: list[tuple[int, TermClass]] = []
    for cls in snapshot.each_term_about(TermKind.REQUIRED_ANTI_AFFINITY, pod):
        nodes = _held(cls.counts, cls.topology_key, snapshot, rows)
        if nodes:
            found.append((nodes, cls))
    found.sort(key=lambda each: -each[0])
    for nodes, cls in found[:_TERMS]:
        yield PodTermObstacle(
            rule="existingAntiAffinity",
            path="",
            topology_key=cls.topology_key,
            selector=cls.pods.selector.text,
            namespaces=_namespaces(cls.pods),
            nodes=nodes,
            missing_key=0,
            count=int(cls.counts.total),
            pods=pods_on(snapshot, cls.counts.rows(), partial(_has_term, cls.key)),
        )


def _has_term(key: TermKey, pod: PodInfo) -> bool:
    return key in term_keys_of(pod)


def _obstacle(
    rule: str,
    path: str,
    term: OwnTerm,
    nodes: tuple[int, int],
    counts: RowCounts,
    snapshot: Snapshot,
) -> PodTermObstacle:
    return PodTermObstacle(
        rule=rule,
        path=path,
        topology_key=term.topology_key,
        selector=term.pods.selector.text,
        namespaces=_namespaces(term.pods),
        nodes=nodes[0],
        missing_key=nodes[1],
        count=int(counts.total),
        pods=pods_on(
            snapshot, counts.rows(), lambda other: term.pods.matches(other, snapshot.namespaces)
        ),
    )


def _held(counts: RowCounts, topology_key: str, snapshot: Snapshot, rows: NDArray[np.intp]) -> int:
    """Number of rows in a domain with at least one counted pod."""
    topology = snapshot.topology(topology_key)
    held = counts.by_domain(topology) > 0
    held[ABSENT] = False
    return int(np.count_nonzero(held[topology.ids[rows]]))


def _namespaces(pods: PodSelector) -> tuple[str, ...]:
    """The namespaces listed by name, without those that a namespace selector selects."""
    return tuple(sorted(pods.namespaces))
