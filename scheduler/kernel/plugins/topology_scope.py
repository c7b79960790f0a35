"""The nodes and domains that topology spread covers, computed again only when nodes change.

Source: kubernetes pkg/scheduler/framework/plugins/podtopologyspread/common.go (v1.36)
matchNodeInclusionPolicies, nodeLabelsMatchSpreadConstraints.
"""

from collections.abc import Hashable
from typing import Final
from weakref import WeakValueDictionary

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.objects import Toleration
from scheduler.api.taints import Tolerations
from scheduler.kernel.plugins.node_predicates import RequiredNodeAffinity, tolerated_taints
from scheduler.kernel.snapshot import Mask, Rows, Snapshot
from scheduler.kernel.snapshot.changes import RowLog
from scheduler.kernel.snapshot.label_columns import ABSENT, Topology
from scheduler.kernel.snapshot.row_counts import RowCounts

NO_PODS: Final = RowCounts()
"""Counts of pods that do not exist."""


class ScopeKey(msgspec.Struct, frozen=True, gc=False):
    """A topology key, and the further conditions on nodes whose pods count."""

    topology_key: str
    honors_affinity: bool
    """Node selector and required node affinity of the pod."""
    honors_taints: bool
    """NoSchedule and NoExecute taints that the pod does not tolerate."""


class Domains:
    """The domains of one topology key.

    Attributes:
        ids: the domain of each row; ABSENT where the node lacks the key.
        count: number of ids.
        eligible: rows whose pods count.
        present: the ids of the domains that eligible rows form.
        present_count: number of those.
        is_complete: whether every node has the key.
        everywhere: number of domains that all rows form, eligible or not.
    """

    __slots__ = (
        "_counted",
        "count",
        "eligible",
        "everywhere",
        "ids",
        "is_complete",
        "present",
        "present_count",
    )

    def __init__(
        self, snapshot: Snapshot, key: str, eligible: Mask, *, absent_is_empty: bool
    ) -> None:
        """Compute the domains of all nodes.

        Args:
            snapshot: the nodes.
            key: the topology key.
            eligible: rows whose pods count.
            absent_is_empty: whether nodes that lack the key are in the domain of those where its
                value is the empty text, instead of in none.
        """
        table, topology = snapshot.table, snapshot.topology(key)
        self.ids = counted_ids = topology.ids
        self.count = topology.count
        self.is_complete = topology.is_complete
        has_key = self.ids != ABSENT
        empty = snapshot.label_column(key).values.get("")
        if absent_is_empty and empty is not None:
            counted_ids = np.where(has_key, self.ids, empty)
        self.eligible = eligible
        candidates = table.alive if absent_is_empty else has_key
        # Rows that lack the key are summed in the domain ABSENT, which is never read.
        mask = eligible if (candidates & ~eligible).any() else None
        self._counted = Topology(counted_ids, self.count, mask)
        self.everywhere = len(self.distinct(table.all_rows))
        present = self.distinct(np.flatnonzero(eligible))
        self.present_count = len(present)
        everything = len(present) == self.count - 1 and ABSENT not in present
        self.present: NDArray[np.intp] | slice = slice(1, None) if everything else present

    def distinct(self, rows: Rows) -> NDArray[np.intp]:
        """The domains that some rows form."""
        return np.flatnonzero(np.bincount(self._counted.ids[rows], minlength=self.count))

    def sums(self, counts: RowCounts) -> NDArray[np.float64]:
        """Counts of eligible rows by domain; meaningless for ABSENT. The caller owns the array."""
        return counts.by_domain(self._counted)


class TopologyScope:
    """The nodes and domains that several constraints of a pod cover.

    Attributes:
        keys: the topology key and the counted pods of each constraint.
        domains: per constraint; valid right after `refresh`.
        has_all_keys: mask of rows with all topology keys; None if all have or need not have them.
    """

    __slots__ = (
        "__weakref__",
        "_affinity",
        "_log",
        "_position",
        "_tolerations",
        "domains",
        "has_all_keys",
        "keys",
        "requires_all_keys",
    )

    def __init__(
        self,
        keys: tuple[ScopeKey, ...],
        affinity: RequiredNodeAffinity,
        tolerations: Tolerations,
        *,
        requires_all_keys: bool,
    ) -> None:
        self.keys = keys
        self.requires_all_keys = requires_all_keys
        self.domains: list[Domains] = []
        self.has_all_keys: Mask | None = None
        self._affinity = affinity
        self._tolerations = tolerations
        self._log: RowLog | None = None
        self._position = -1

    def refresh(self, snapshot: Snapshot) -> None:
        """Compute domains and masks again if nodes have changed since the last call."""
        log = snapshot.node_log
        if log is self._log and log.position == self._position:
            return
        table = snapshot.table
        rows = table.all_rows
        accepted = self._affinity.matches(snapshot, rows)
        tolerated = tolerated_taints(self._tolerations, snapshot, rows)
        base = table.alive.copy()
        if self.requires_all_keys:
            for key in self.keys:
                base &= snapshot.label_column(key.topology_key).ids(table.size) != ABSENT
        all_have = not self.requires_all_keys or int(np.count_nonzero(base)) == table.count
        self.has_all_keys = None if all_have else base
        self.domains = []
        for key in self.keys:
            eligible = base
            if key.honors_affinity and accepted is not None:
                eligible = eligible & accepted
            if key.honors_taints and tolerated is not None:
                eligible = eligible & tolerated
            self.domains.append(
                Domains(
                    snapshot,
                    key.topology_key,
                    eligible,
                    absent_is_empty=not self.requires_all_keys,
                )
            )
        self._log, self._position = log, log.position


class TopologyScopes:
    """Shares scopes between plans of equal demands on nodes, as long as such a plan exists.

    `compares` is for `Tolerations`.
    """

    def __init__(self, *, compares: bool) -> None:
        self._compares = compares
        self._scopes: WeakValueDictionary[Hashable, TopologyScope] = WeakValueDictionary()

    def scope(
        self,
        keys: tuple[ScopeKey, ...],
        affinity: RequiredNodeAffinity,
        tolerations: tuple[Toleration, ...],
        *,
        requires_all_keys: bool,
    ) -> TopologyScope:
        """The scope of some constraints of a pod with these demands on nodes."""
        if not any(key.honors_affinity for key in keys):
            affinity = RequiredNodeAffinity((), None)
        if not any(key.honors_taints for key in keys):
            tolerations = ()
        shared = (keys, affinity, tolerations, requires_all_keys)
        found = self._scopes.get(shared)
        if found is None:
            found = self._scopes[shared] = TopologyScope(
                keys,
                affinity,
                Tolerations(tolerations, compares=self._compares),
                requires_all_keys=requires_all_keys,
            )
        return found
