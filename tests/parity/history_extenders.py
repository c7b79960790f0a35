"""Histories with extenders, which both sides ask; see `tests.parity.extender`.

Each of our questions is answered at once. These differences are meant, and are kept out, beside
those of `tests.parity.living` and `history_sampling`:

- Nodes that come back whole are scored as if they were empty: extenders know nodes by name.
- Victims that an extender reduces: none does.
- A preemptor is gated until the watch shows its victims leaving, and an event then wakes a pod that
  an extender rejected, whatever it is: the answer to an eviction comes first.
"""

from typing import Any

from typing_extensions import override

from scheduler.clock import SystemClock
from scheduler.kernel.engine.events import Answered
from scheduler.kernel.engine.instructions import Ask, Instruction, LogError
from scheduler.kernel.engine.pending_extender_calls import SKIPPED
from scheduler.tools.offline.asking import OfflineExtenders, WrittenObjects
from tests.parity.extender import PLACE, moved, serving
from tests.parity.generator.draw import Object
from tests.parity.history_sampling import HistoryOfMany
from tests.parity.history_steps import STEPS


def live_through_extenders(case: Object, seed: int, steps: int = STEPS) -> Object:
    """Let our engine live through a history with extenders; see `history_steps.live_through`."""
    with serving() as address:
        found = HistoryWithExtenders(moved(case, PLACE, address), seed).lived(steps)
        return moved(found, address, PLACE)


class HistoryWithExtenders(HistoryOfMany):
    """A life in which extenders are asked about pods."""

    def __init__(self, case: Object, seed: int) -> None:
        super().__init__(case, seed)
        self._pods: dict[str, Any] = {}
        """All pods that were ever shown, by UID."""
        objects = WrittenObjects(self._pods, {})
        self._asker = OfflineExtenders(self.engine.core.extenders, objects, SystemClock())

    @override
    def show(self, raw: Object) -> None:
        if raw["kind"] == "Pod":
            self._pods[raw["metadata"]["uid"]] = raw
        super().show(raw)

    @override
    def opens_gate(self, uid: str) -> bool:
        return uid in self.engine.preemption_executor._wanted

    def _carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, LogError) and instruction.message == SKIPPED:
            return
        if not isinstance(instruction, Ask):
            super()._carry_out(instruction)
            return
        found = self.engine.extender_calls.question(instruction.question)
        if found is not None:
            question, pod = found
            self.handle(Answered(instruction.question, self._asker.ask(question, pod.uid)))
