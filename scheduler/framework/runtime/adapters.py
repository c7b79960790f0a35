"""Node-form plugins, called once per candidate node behind the column form.

For plugins written in plain Python: they see one node at a time and answer a Status or a score.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from scheduler.api.pods import PodInfo
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.interface import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    Bits,
    NodeFilterPlugin,
    NodeScorePlugin,
    Reads,
    Reason,
    Scores,
)
from scheduler.framework.status import Code, Status
from scheduler.snapshot import Rows, Snapshot

_MAX_REASONS: Final = 64


def row_indices(rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """The rows as indices."""
    if isinstance(rows, slice):
        return np.arange(rows.start or 0, rows.stop, dtype=np.intp)
    return rows


class NodeFilterAdapter:
    """A node-form filter in column form."""

    READS = Reads.CLUSTER

    def __init__(self, plugin: NodeFilterPlugin) -> None:
        self.NAME = plugin.NAME
        self._plugin = plugin
        self._reasons: StateKey[list[Reason]] = StateKey(f"{plugin.NAME}/reasons")

    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        """See `FilterPlugin.filter`."""
        reasons: list[Reason] = []
        state.write(self._reasons, reasons)
        indices = row_indices(rows)
        bits = np.zeros(len(indices), np.uint64)
        for i, row in enumerate(indices.tolist()):
            status = self._plugin.filter(state, pod.pod, snapshot.info(row))
            if status.code is Code.ERROR:
                raise RuntimeError(status.message)
            if not status.is_success:
                bits[i] = _bit_set(status, reasons)
        return bits

    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        """See `FilterPlugin.reasons`."""
        del pod, snapshot
        return state.get(self._reasons) or ()


class NodeScoreAdapter:
    """A node-form score in column form."""

    READS = Reads.CLUSTER

    def __init__(self, plugin: NodeScorePlugin) -> None:
        self.NAME = plugin.NAME
        self._plugin = plugin

    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        """See `ScorePlugin.score`.

        Raises:
            ValueError: a score is not a number from 0 to 100.
        """
        score = self._plugin.score
        infos = [snapshot.info(row) for row in row_indices(rows).tolist()]
        return np.array([score(state, pod.pod, info) for info in infos], np.float64)


def check_range(scores: Scores) -> None:
    """Refuse what cannot be added up.

    Raises:
        ValueError: a score is not a number from 0 to 100.
    """
    good = (scores >= MIN_NODE_SCORE) & (scores <= MAX_NODE_SCORE)
    if not good.all():
        bad = scores[~good][0]
        raise ValueError(
            f"returned an invalid score {bad:g}, "
            f"expected a number from {MIN_NODE_SCORE} to {MAX_NODE_SCORE}"
        )


def _bit_set(status: Status, reasons: list[Reason]) -> int:
    """The bits of a status, with new reasons appended."""
    bits = 0
    for text in status.reasons or ("",):
        reason = Reason(text, status.code)
        if reason not in reasons:
            if len(reasons) == _MAX_REASONS:
                reason = reasons[-1]
            else:
                reasons.append(reason)
        bits |= 1 << reasons.index(reason)
    return bits
