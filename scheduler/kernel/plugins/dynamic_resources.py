"""DynamicResources: devices are not allocated in this version, and no pod is bound without its own.

Pods without resource claims are treated as upstream treats them: nothing is filtered, and every
node scores 0. Pods with claims are rejected until a version allocates devices: bound without them,
they would sit on a node on which they cannot start.

Extension points: PreFilter, Filter, PostFilter, Score.
Events: none; nothing that happens in the cluster makes this version allocate devices.
Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (v1.36).
Differs: see above.
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar, Final

import numpy as np
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.events import ClusterEventWithHint
from scheduler.kernel.framework.interface import (
    NOT_REACHED,
    Bits,
    Diagnosis,
    EnqueueExtensions,
    FilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    PreFilterResult,
    Reads,
    Reason,
    ScorePlugin,
    Scores,
    SignPlugin,
)
from scheduler.kernel.framework.status import SKIP, Status, error, unresolvable, unschedulable
from scheduler.kernel.plugins.columns import count_of
from scheduler.kernel.snapshot import Rows, Snapshot

REASON: Final = "pods with resource claims are not supported by this scheduler"

_PREPARED: Final[StateKey[bool]] = StateKey("DynamicResources/prepared")


class DynamicResources(
    PreFilterPlugin, FilterPlugin, PostFilterPlugin, ScorePlugin, EnqueueExtensions, SignPlugin
):
    """Rejects pods that claim devices."""

    NAME: ClassVar[str] = "DynamicResources"
    READS: ClassVar[Reads] = Reads.NODE

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()

    @override
    def sign(self, pod: PodInfo) -> Hashable:
        """Whether the pod claims anything."""
        return bool(pod.spec.resource_claims)

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        if pod.spec.resource_claims:
            return None, unresolvable(REASON)
        state.write(_PREPARED, value=True)
        return None, SKIP

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        """See `FilterPlugin.filter`; not reached, as PreFilter skips or rejects every pod.

        Raises:
            LookupError: PreFilter did not run; upstream fails in the same case.
        """
        _check_prepared(state)
        return None

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        return ()

    @override
    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """There is nothing to deallocate.

        When PreFilter ended before this plugin upstream fails here, which keeps the plugins that
        come next, such as preemption, from trying.
        """
        if self.NAME in (state.get(NOT_REACHED) or ()):
            return None, error("not found")
        return None, unschedulable("no new claims to deallocate")

    @override
    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        """0 on every node.

        Raises:
            LookupError: PreFilter did not run; upstream fails in the same case.
        """
        _check_prepared(state)
        return np.zeros(count_of(rows, snapshot.table.size))


def _check_prepared(state: CycleState) -> None:
    if not state.get(_PREPARED):
        raise LookupError("its PreFilter did not run")
