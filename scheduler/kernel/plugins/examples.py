"""Examples of pods and label values, for `explain`."""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.obstacles import EXAMPLES, PodOnNode, ValueCount
from scheduler.kernel.snapshot import Rows, Snapshot
from scheduler.kernel.snapshot.label_columns import ABSENT

_ROWS_LOOKED_AT: Final = 8
"""Number of nodes whose pods are searched for examples."""


def pods_on(
    snapshot: Snapshot, rows: NDArray[np.intp], is_meant: Callable[[PodInfo], bool]
) -> tuple[PodOnNode, ...]:
    """Some of the pods for which `is_meant` is true, from the first few of these rows."""
    found: list[PodOnNode] = []
    for row in rows[:_ROWS_LOOKED_AT].tolist():
        for pod in snapshot.info(row).pods.values():
            if is_meant(pod):
                found.append(PodOnNode(pod.key, snapshot.table.names[row]))
                if len(found) == EXAMPLES:
                    return tuple(found)
    return tuple(found)


def values_of(snapshot: Snapshot, key: str) -> tuple[int, tuple[ValueCount, ...]]:
    """Number of nodes that have a label, and its most frequent values."""
    column = snapshot.label_column(key)
    table = snapshot.table
    ids = column.ids(table.size)[table.alive]
    counts = np.bincount(ids, minlength=len(column.values))
    counts[ABSENT] = 0
    most = np.argsort(-counts, kind="stable")[:EXAMPLES]
    found = [(str(column.values.values[i]), int(counts[i])) for i in most.tolist() if counts[i]]
    return int(counts.sum()), tuple(ValueCount(value, count) for value, count in found)


def count_in(mask: NDArray[np.bool_], rows: Rows) -> int:
    """Number of the given rows on which a mask over all rows is set."""
    return int(np.count_nonzero(mask[rows]))
