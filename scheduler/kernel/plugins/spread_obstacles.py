"""The spread of pods over the domains of a constraint that rejects nodes, for `explain`."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.kernel.framework.obstacles import DomainCount, SpreadObstacle
from scheduler.kernel.plugins.spread_constraints import SpreadConstraint
from scheduler.kernel.plugins.topology_scope import Domains
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.snapshot.label_columns import ABSENT

_DOMAINS: Final = 20
"""Largest number of domains reported: the emptiest and the fullest."""


def obstacle(  # noqa: PLR0913 - the data of one constraint in the state of an attempt
    path: str,
    constraint: SpreadConstraint,
    domains: Domains,
    sums: NDArray[np.float64],
    *,
    lowest: float,
    limit: float,
    snapshot: Snapshot,
    rows: NDArray[np.intp],
) -> SpreadObstacle | None:
    """The obstacle of a constraint that excludes rows; None if it excludes none.

    Args:
        path: the field path of the constraint.
        constraint: the constraint.
        domains: its domains.
        sums: pods by domain.
        lowest: number of pods in the emptiest domain.
        limit: largest number of pods in a domain that admits one more.
        snapshot: the cluster.
        rows: the rows.
    """
    ids = domains.ids[rows]
    missing = int(np.count_nonzero(ids == ABSENT))
    skewed = sums > limit
    skewed[ABSENT] = False
    nodes = missing + int(np.count_nonzero(skewed[ids]))
    if not nodes:
        return None
    present = np.arange(domains.count)[domains.present]
    names = snapshot.label_column(constraint.topology_key).values.values
    adds = constraint.max_skew + lowest - limit
    return SpreadObstacle(
        path=path,
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=constraint.min_domains,
        selector=constraint.selector.text,
        nodes=nodes,
        missing_key=missing,
        lowest=int(lowest),
        domain_count=len(present),
        domains=tuple(
            DomainCount(
                str(names[i]),
                int(sums[i]),
                int(sums[i] - lowest),
                int(sums[i] + adds - lowest),
            )
            for i in _chosen(present, sums)
        ),
    )


def _chosen(present: NDArray[np.intp], sums: NDArray[np.float64]) -> Sequence[int]:
    """The emptiest and the fullest domains, by number of pods."""
    ordered = present[np.argsort(sums[present], kind="stable")]
    if len(ordered) > _DOMAINS:
        ordered = np.concatenate((ordered[: _DOMAINS // 2], ordered[-_DOMAINS // 2 :]))
    chosen: list[int] = ordered.tolist()
    return chosen
