"""Node-form plugins, called once per candidate node behind the column form.

For plugins written in plain Python: they see one node at a time and answer a Status or a score.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.interface import (
    Bits,
    NodeFilterPlugin,
    NodeScorePlugin,
    Reads,
    Reason,
    Scores,
)
from scheduler.framework.obstacles import Obstacle
from scheduler.framework.runtime import answers
from scheduler.framework.status import Status
from scheduler.snapshot import Rows, Snapshot


def row_indices(rows: Rows) -> NDArray[np.intp]:
    """The rows as indices."""
    if isinstance(rows, slice):
        return np.arange(rows.start or 0, rows.stop, dtype=np.intp)
    return rows


class NodeFilterAdapter:
    """A node-form filter in column form.

    Its answers are no bit sets: an answer is the place, counted from 1, of a Status among those the
    plugin gave in this attempt. So a plugin may say something different about every node.
    """

    READS = Reads.CLUSTER

    def __init__(self, plugin: NodeFilterPlugin) -> None:
        self.NAME = plugin.NAME
        self.plugin = plugin
        self._given: StateKey[dict[Status, int]] = StateKey(f"{plugin.NAME}/given")

    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        """See `FilterPlugin.filter`.

        Raises:
            WrongAnswerError: the plugin answered no Status, or an error.
        """
        given = state.get(self._given)
        if given is None:
            # Copies of the state share this: what is added while pods are tried on a node is
            # looked up in the original.
            given = {}
            state.write(self._given, given)
        indices = row_indices(rows)
        answer = np.zeros(len(indices), np.uint64)
        for i, row in enumerate(indices.tolist()):
            said = self.plugin.filter(state, pod.pod, snapshot.info(row))
            status = answers.status(said, answers.FILTER)
            if not status.is_success:
                answer[i] = given.setdefault(status, len(given) + 1)
        return answer

    def reasons_in(
        self,
        state: CycleState,
        pod: PodInfo,  # noqa: ARG002 - as column plugins have it
        snapshot: Snapshot,  # noqa: ARG002 - as column plugins have it
        answer: int,
        row: int | None = None,  # noqa: ARG002 - as column plugins have it
    ) -> Sequence[Reason]:
        """What an answer for a row means."""
        given = state.read(self._given)
        status = list(given)[answer - 1]
        return [Reason(text, status.code) for text in status.reasons or ("",)]

    def obstacles(self, *_: object) -> Sequence[Obstacle]:
        """What the plugin says about each node is all that is known."""
        return ()


def written_plugin(plugin: object) -> object:
    """The plugin as its author wrote it."""
    return plugin.plugin if isinstance(plugin, NodeFilterAdapter) else plugin


class NodeScoreAdapter:
    """A node-form score in column form."""

    READS = Reads.CLUSTER

    def __init__(self, plugin: NodeScorePlugin) -> None:
        self.NAME = plugin.NAME
        self._plugin = plugin

    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        """See `ScorePlugin.score`."""
        score = self._plugin.score
        infos = [snapshot.info(row) for row in row_indices(rows).tolist()]
        return np.array([answers.number(score(state, pod.pod, info)) for info in infos], np.float64)
