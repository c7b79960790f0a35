"""The choice among equally good nodes in a history, which is chance otherwise."""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from typing_extensions import override

from scheduler.kernel.engine.algorithm import ScheduleResult, SchedulingAlgorithm
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.runtime import Feasibility
from scheduler.kernel.framework.runtime.scoring import Best
from scheduler.kernel.snapshot import Snapshot


class FirstOfEqual(SchedulingAlgorithm):
    """Takes the first of equally good nodes; events come while an attempt that fails is made."""

    def __init__(self, meanwhile: Callable[[], None], percentage: int = 0) -> None:
        super().__init__(Random(0), percentage)
        self._meanwhile = meanwhile

    @override
    def schedule_pod(self, *args: Any, **kwargs: Any) -> Any:
        found = super().schedule_pod(*args, **kwargs)
        if not isinstance(found, ScheduleResult):
            self._meanwhile()
        return found

    @override
    def _pick(
        self, state: CycleState, best: Best, snapshot: Snapshot, found: Feasibility
    ) -> ScheduleResult:
        names = snapshot.table.names
        row = min(range(len(best.rows)), key=lambda at: names[best.rows.item(at)])
        return super()._pick(
            state, msgspec.structs.replace(best, rows=best.rows[row : row + 1]), snapshot, found
        )
