"""Asking filters about nodes for one pod, and what their answers mean."""

from collections.abc import Sequence

import msgspec
import numpy as np

from scheduler.api.pods import PodInfo
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.interface import Bits, Reason
from scheduler.framework.runtime.adapters import NodeFilterAdapter
from scheduler.framework.runtime.checks import check_size
from scheduler.framework.runtime.diagnosis import NodeVerdicts
from scheduler.framework.runtime.equivalence import (
    FilterFailures,
    IndexedFilter,
    merge_verdicts,
)
from scheduler.framework.runtime.instrumentation import PluginCalls, PluginError
from scheduler.snapshot import Rows, Snapshot


class FilterAttempt(msgspec.Struct):
    """What stays the same while the filters look at nodes for one pod.

    Attributes:
        calls: calls plugins.
        state: as PreFilter left it.
        pod: the pod.
        filters: the filters that do not skip the pod.
        failures: those among them that failed; taken to reject all they were asked about.
    """

    calls: PluginCalls
    state: CycleState
    pod: PodInfo
    filters: Sequence[IndexedFilter]
    failures: FilterFailures = msgspec.field(default_factory=dict)

    def raise_failure(self, verdicts: NodeVerdicts) -> None:
        """Fail the attempt when a filter failed on a node that no other one before it rejects.

        Upstream does not even ask it about the other nodes.
        """
        for index, problem in self.failures.items():
            if (verdicts.first == index).any():
                raise problem

    def apply(
        self, active: IndexedFilter, state: CycleState, snapshot: Snapshot, verdicts: NodeVerdicts
    ) -> None:
        """Let one filter reject rows that no filter before it rejects."""
        plugin = active.plugin
        if isinstance(plugin, NodeFilterAdapter):
            # Node by node: worth asking about those only that nobody before it rejects.
            candidates = np.flatnonzero(verdicts.first > active.index)
            rows = candidates if verdicts.rows is None else verdicts.rows[candidates]
            answer = self._ask(active, state, snapshot, rows, len(rows))
            if answer is not None:
                hit = candidates[answer != 0]
                verdicts.first[hit] = active.index
                verdicts.bits[hit] = answer[answer != 0]
            return
        all_rows = snapshot.table.all_rows if verdicts.rows is None else verdicts.rows
        answer = self._ask(active, state, snapshot, all_rows, len(verdicts.first))
        if answer is not None:
            merge_verdicts(active.index, answer, verdicts.first, verdicts.bits)

    def _ask(
        self, active: IndexedFilter, state: CycleState, snapshot: Snapshot, rows: Rows, count: int
    ) -> Bits | None:
        plugin = active.plugin
        try:
            answer = self.calls.call(
                plugin, "Filter", plugin.filter, state, self.pod, snapshot, rows
            )
            if answer is not None and answer.shape != (count,):
                self.calls.call(plugin, "Filter", check_size, answer, count)
        except PluginError as problem:
            self.failures[active.index] = problem
            return np.ones(count, np.uint64)
        return answer


class FilterReasons:
    """What answers mean; the plugin is asked only when somebody reads them."""

    def __init__(
        self,
        filters: Sequence[IndexedFilter],
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
    ) -> None:
        self._filters = filters
        self._state = state
        self._pod = pod
        self._snapshot = snapshot

    def reasons(self, index: int, answer: int) -> Sequence[Reason]:
        """See `ReasonTable.reasons`."""
        plugin = next(f.plugin for f in self._filters if f.index == index)
        return plugin.reasons_in(self._state, self._pod, self._snapshot, answer)
