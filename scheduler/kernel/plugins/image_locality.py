"""ImageLocality: prefers nodes that already hold the pod's images.

An image counts with its size times the share of nodes that hold it. So a popular image does not
draw all pods to the few nodes that have it.

Extension points: Score.
Source: pkg/scheduler/framework/plugins/imagelocality/image_locality.go (v1.36).
Differs: upstream uses the number of nodes with the image when the node last changed; here it is
the present number.

Units: bytes.
"""

from collections.abc import Hashable
from typing import ClassVar, Final

import numpy as np
from typing_extensions import override

from scheduler.api.images import image_names
from scheduler.api.objects import PodSpec
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import (
    MAX_NODE_SCORE,
    Reads,
    ScorePlugin,
    Scores,
    SignPlugin,
)
from scheduler.kernel.snapshot import Rows, Snapshot

MEBIBYTE: Final = 1024 * 1024
MIN_THRESHOLD_BYTES: Final = 23 * MEBIBYTE
"""Images that are together smaller than this score 0."""
MAX_CONTAINER_THRESHOLD_BYTES: Final = 1000 * MEBIBYTE
"""Per container: images that are together larger than this score no higher."""


class ImageLocality(ScorePlugin, SignPlugin):
    """Scores nodes by the images they hold."""

    NAME: ClassVar[str] = "ImageLocality"
    READS: ClassVar[Reads] = Reads.IMAGES

    @override
    def sign(self, pod: PodInfo) -> Hashable:
        """The images, and the number of containers, which sets the scale."""
        return image_names(pod.spec), container_count(pod.spec)

    @override
    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score each row from 0 to 100; not normalised."""
        table = snapshot.table
        held_bytes = np.zeros(table.size)
        for name in image_names(pod.spec):
            found = snapshot.images.find(name)
            if found is not None:
                size_bytes, holders = found
                held_bytes[holders] += int(size_bytes * (len(holders) / table.count))
        most = MAX_CONTAINER_THRESHOLD_BYTES * container_count(pod.spec)
        counted = np.clip(held_bytes[rows], MIN_THRESHOLD_BYTES, most)
        counted -= MIN_THRESHOLD_BYTES
        scores: Scores = np.floor(counted * MAX_NODE_SCORE / (most - MIN_THRESHOLD_BYTES))
        return scores


def container_count(spec: PodSpec) -> int:
    """Number of containers of the pod; images mounted as volumes do not raise the scale."""
    return len(spec.init_containers) + len(spec.containers)
