"""PackGpus: pods are packed onto GPUs so that big holes remain for big pods.

The fewer GPUs a node has left once the pod is on it, the better: a pod that needs two takes the
node with two free ones before it breaks up a node with eight. Pods that need none keep away from
free GPUs by the same rule.

Extension points: Score; in column form: one answer for all nodes at once, in numpy.
"""

from collections.abc import Hashable
from typing import Annotated, ClassVar

import msgspec
import numpy as np
from typing_extensions import override

from scheduler.plugin import (
    CycleState,
    Handle,
    PodInfo,
    Reads,
    Rows,
    ScorePlugin,
    Scores,
    SignPlugin,
    Snapshot,
)


class PackGpusArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the configuration may say."""

    resource: str = "nvidia.com/gpu"
    largest_hole: Annotated[int, msgspec.Meta(ge=1)] = 8
    """So many free GPUs on one node are the most that any pod asks for: more are no better."""


class PackGpus(ScorePlugin, SignPlugin):
    """Scores nodes by the hole they would be left with; the smaller the better."""

    NAME: ClassVar[str] = "PackGpus"
    ARGS: ClassVar[type] = PackGpusArgs
    # What is said about a node changes when pods come to it or go from it, and with nothing else:
    # so the answers for all pods of one kind are kept, and only changed nodes are scored again.
    READS: ClassVar[Reads] = Reads.PODS

    def __init__(self, args: PackGpusArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._args = args

    @override
    def sign(self, pod: PodInfo) -> Hashable:
        """Pods that ask for as many GPUs get the same scores."""
        return self._asked(pod)

    @override
    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        table = snapshot.table
        line = table.resources.get(self._args.resource)
        if line is None:
            # No node offers any: there are no holes.
            return np.full_like(table.max_pods[rows], 100.0)
        free = table.allocatable[line, rows] - table.requested[line, rows]
        hole = np.clip(free - self._asked(pod), 0, self._args.largest_hole)
        scores: Scores = np.floor(100 - 100 * hole / self._args.largest_hole)
        return scores

    def _asked(self, pod: PodInfo) -> int:
        return pod.shape.requests.get(self._args.resource, 0)
