"""The diagnosis of a pod that fits no node, and its FailedScheduling message.

Source: kubernetes pkg/scheduler/framework/types.go (Diagnosis, FitError) v1.36.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.results import Candidate
from scheduler.kernel.framework.runtime.pod_class import PodClass
from scheduler.kernel.framework.runtime.verdicts import FEASIBLE, FilterAttempt, Verdicts
from scheduler.kernel.framework.status import EXTENDER, SUCCESS, Code, Status
from scheduler.kernel.framework.types import Excess
from scheduler.kernel.snapshot import Snapshot


class Reviewed(msgspec.Struct, frozen=True):
    """The preemption candidates that remain after extenders have processed them.

    Attributes:
        candidates: the candidates to choose from.
        problem: the error of an extender, which leaves no choice; empty without one.
    """

    candidates: tuple[Candidate, ...] = ()
    problem: str = ""


class Feasibility(msgspec.Struct):
    """The result of filtering for one pod.

    Attributes:
        state: the state of the attempt, for scoring.
        pod_class: the row-local columns the verdicts started from.
        verdicts: the first rejection per judged row; None when the pod as a whole is rejected.
        pre_filter: the rejection of the pod as a whole, or success.
        node_names: the nodes to which PreFilter plugins limit the search; None means all.
        restricting: the plugins that limit it.
        absent: the status of nodes that were not judged, or None.
        attempt: the filters that judged nodes, for simulations such as preemption; None when
            PreFilter ended the attempt.
        is_row_local: whether the verdicts are the class's own columns, and depend on nothing else.
        silent: the plugins whose `skips_all` spared their PreFilter and PreScore.
    """

    state: CycleState
    pod_class: PodClass
    verdicts: Verdicts | None = None
    pre_filter: Status = SUCCESS
    node_names: frozenset[str] | None = None
    restricting: frozenset[str] = frozenset()
    absent: Status | None = None
    attempt: FilterAttempt | None = None
    is_row_local: bool = False
    silent: list[str] = msgspec.field(default_factory=list)

    def restrict(self, plugin: str, names: frozenset[str]) -> None:
        """Limit the search to these nodes on behalf of a plugin."""
        self.restricting |= {plugin}
        self.node_names = names if self.node_names is None else self.node_names & names

    @property
    def is_of_class(self) -> bool:
        """Whether the verdicts are the class's own columns: no other filter rejects a row."""
        return self.verdicts is not None and self.verdicts.is_shared

    @property
    def looks_at_few(self) -> bool:
        """Whether PreFilter limited the search: then the columns of the class are not filled."""
        return self.verdicts is not None and self.verdicts.rows is not None

    def feasible_rows(self, within: NDArray[np.intp] | None = None) -> NDArray[np.intp]:
        """The rows no filter rejects, in order; only those among `within`, if it is given."""
        rows = np.zeros(0, np.intp) if self.verdicts is None else self.verdicts.feasible_rows()
        return rows if within is None else np.intersect1d(rows, within, assume_unique=True)

    def diagnosis(
        self,
        snapshot: Snapshot,
        refused: Mapping[str, Status | None] | None = None,
        within: NDArray[np.intp] | None = None,
    ) -> "AttemptDiagnosis":
        """Sum up the rejections of all nodes, or of the rows `within`.

        `refused` has the rejections of extenders by node; None without a reason.

        Raises:
            PluginError: a plugin that rejects nodes failed to return its reasons.
        """
        found, verdicts = self, self.verdicts
        if within is not None and verdicts is not None:
            judged = verdicts.rows
            at = within if judged is None else np.flatnonzero(np.isin(judged, within))
            found = replace(self, verdicts=verdicts.at(at))
        return AttemptDiagnosis(found, snapshot, refused, within)


class AttemptDiagnosis:
    """The rejections of an attempt that found no node; its message needs no call of a plugin.

    Valid until the snapshot is updated next: its columns may be those of the pod's class.

    Attributes:
        state: the attempt's state, for PostFilter.
        unasked: nodes that fit, and that extenders were not asked about.
        num_all_nodes: nodes in the cluster, or in the placement that was tried.
        is_limited: whether the pod is a member of a group that is placed under constraints.
        pre_filter: the rejection of the pod as a whole, or None.
        verdicts: as in `Feasibility`.
        absent: as in `Feasibility`.
        attempt: as in `Feasibility`.
        groups: distinct rejections of nodes, each with its positions in `verdicts`.
        post_filter_message: the text that PostFilter plugins add to the sentence.
        reviewed: the preemption candidates that extenders left; None if they were not asked.
        places_together: whether a pod is placed together with others; None where none is.
    """

    def __init__(
        self,
        found: Feasibility,
        snapshot: Snapshot,
        refused: Mapping[str, Status | None] | None = None,
        rows: NDArray[np.intp] | None = None,
    ) -> None:
        """Sum up; see `Feasibility.diagnosis`."""
        self.state = found.state
        self.unasked = 0
        self.attempt, self.verdicts, self.absent = found.attempt, found.verdicts, found.absent
        self.pre_filter = found.pre_filter if found.verdicts is None else None
        self.reviewed: Reviewed | None = None
        self.places_together: Callable[[PodInfo], bool] | None = None
        self.is_limited = rows is not None
        self.num_all_nodes = snapshot.table.count if rows is None else len(rows)
        self.post_filter_message = ""
        self._restricting_plugins = found.restricting
        self._row_of = snapshot.table.row_of
        self.groups: list[tuple[Status, NDArray[np.intp]]] = (
            [] if self.verdicts is None else list(self.verdicts.groups())
        )
        self._refused = self._places(refused or {})
        if self._refused:
            self._restricting_plugins |= {EXTENDER}
            self.groups.extend(_grouped(self._refused))

    @property
    def unschedulable_plugins(self) -> frozenset[str]:
        """Every plugin whose registered events may requeue the pod."""
        return self._plugins(pending=False)

    @property
    def pending_plugins(self) -> frozenset[str]:
        """Every plugin that returned Pending."""
        return self._plugins(pending=True)

    def excess(self, snapshot: Snapshot) -> Excess | None:
        """The request that no node could meet even if nothing ran there; None without one.

        Raises:
            PluginError: a filter failed.
        """
        attempt = self.attempt
        if attempt is None or self.verdicts is None:
            return None
        asked = attempt.state, attempt.pod, snapshot
        for each in attempt.filters:
            found = None if each.excess is None else each.excess(*asked)
            if found is not None:
                return found
        return None

    def status_of(self, node_name: str) -> Status:
        """The first rejection of one node."""
        row = self._row_of.get(node_name)
        if self.verdicts is not None and row is not None:
            position = self.verdicts.position_of(row)
            if position is not None and position in self._refused:
                return self._refused[position] or self.absent or _SILENT
            if position is not None:
                return self.verdicts.status(position)
        return self.absent or self.pre_filter or _SILENT

    def rows_of(self, plugin: str) -> NDArray[np.intp]:
        """The rows of the nodes that a plugin rejects first."""
        positions = [of_status for status, of_status in self.groups if status.plugin == plugin]
        if self.verdicts is None or not positions:
            return np.zeros(0, np.intp)
        found, rows = np.concatenate(positions), self.verdicts.rows
        return found if rows is None else rows[found]

    def reason_counts(self) -> Mapping[str, int]:
        """Number of nodes that each reason rejects."""
        if self.pre_filter is not None:
            return dict.fromkeys(self.pre_filter.reasons, self.num_all_nodes)
        counts: dict[str, int] = {}
        looked_at = 0
        for status, positions in self.groups:
            looked_at += len(positions)
            for text in status.reasons:
                counts[text] = counts.get(text, 0) + len(positions)
        if self.absent is not None and looked_at < self.num_all_nodes:
            for text in self.absent.reasons:
                counts[text] = counts.get(text, 0) + self.num_all_nodes - looked_at
        return counts

    def message(self) -> str:
        """The sentence of the FailedScheduling event."""
        if self.pre_filter is None:
            text = no_fit_message(self.num_all_nodes, self.reason_counts())
        else:
            text = no_fit_message(self.num_all_nodes, {})
            if self.pre_filter.message:
                text += f" {self.pre_filter.message}."
        if self.post_filter_message:
            text += f" {self.post_filter_message}"
        return text

    def _places(self, refused: Mapping[str, Status | None]) -> dict[int, Status | None]:
        """The rejections of extenders by position, for nodes that no plugin rejects."""
        verdicts = self.verdicts
        if verdicts is None or not refused:
            return {}
        rows = verdicts.rows
        position_of = None if rows is None else {row: at for at, row in enumerate(rows.tolist())}
        found = {}
        for name, status in refused.items():
            row = self._row_of.get(name)
            at = row if position_of is None or row is None else position_of.get(row)
            if at is not None and verdicts.first[at] == FEASIBLE:
                found[at] = status
        return found

    def _plugins(self, *, pending: bool) -> frozenset[str]:
        statuses = [status for status, _ in self.groups]
        if self.pre_filter is not None and self.pre_filter.plugin:
            statuses.append(self.pre_filter)
        wanted = {s.plugin for s in statuses if (s.code is Code.PENDING) is pending}
        return frozenset(wanted) if pending else frozenset(wanted) | self._restricting_plugins


_SILENT = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
"""The status of a node for which neither a plugin nor an extender gave a reason."""


def _grouped(
    refused: Mapping[int, Status | None],
) -> Iterator[tuple[Status, NDArray[np.intp]]]:
    """Distinct reasons of extenders, each with its positions."""
    found: dict[Status, list[int]] = {}
    for position, status in refused.items():
        if status is not None:
            found.setdefault(status, []).append(position)
    for status, positions in found.items():
        yield status, np.array(positions, np.intp)


def no_fit_message(num_all_nodes: int, reason_counts: Mapping[str, int]) -> str:
    """Format the number of nodes that each reason rejects as a sentence.

    Source: types.go FitError.Error.
    """
    text = f"0/{num_all_nodes} nodes are available:"
    counted = sorted(f"{count} {reason}" for reason, count in reason_counts.items())
    return f"{text} {', '.join(counted)}." if counted else text
