"""Histories with resource claims and volumes: some pods have one, some the other, some both.

A pod may be rejected by the plugins of either, and what frees the one may not help with the other.
What is kept out is in `history_claims` and `history_volumes`, and beside that:

- PreBind writes volumes and claims of one pod at the same time: a history ends before.
"""

from collections.abc import Callable, Mapping
from typing import Any

from typing_extensions import override

from scheduler.kernel.engine.instructions import Cancel, Instruction
from scheduler.kernel.framework.services import Wake
from scheduler.kernel.plugins.volume_binding import _ATTEMPT
from tests.parity.generator.draw import Object
from tests.parity.history_claims import HistoryWithClaims
from tests.parity.history_steps import STEPS
from tests.parity.history_volumes import HistoryWithVolumes
from tests.parity.world import CLAIM_KINDS


def live_through_both(case: Object, seed: int, steps: int = STEPS) -> Object:
    """Let our engine live through a history with both; see `history_steps.live_through`."""
    return HistoryWithBoth(case, seed).lived(steps)


class HistoryWithBoth(HistoryWithVolumes, HistoryWithClaims):
    """A life in which pods have volumes or resource claims.

    What both parents do by methods of the same name is done by that of the object, or of the pod.
    """

    _writes_claims = False
    """Whether the PreBind that goes on is that of a pod with resource claims."""

    @override
    def ways(self) -> list[tuple[float, Callable[[], None]]]:
        # There are twice as many sorts of changes, so as many more attempts.
        return [*super().ways(), (self.pace, self._try), (10, self.show_owed)]

    @override
    def _control(self) -> None:
        if self.draw.maybe(0.4):
            HistoryWithClaims._control(self)
        else:
            HistoryWithVolumes._control(self)

    @override
    def _set(self, raw: Object) -> None:
        self._parent_of(raw)._set(self, raw)

    @override
    def _remove(self, raw: Object) -> None:
        self._parent_of(raw)._remove(self, raw)

    @staticmethod
    def _parent_of(raw: Object) -> Any:
        return HistoryWithClaims if raw["kind"] in CLAIM_KINDS else HistoryWithVolumes

    @override
    def _waiting_for(self, node: str) -> list[str]:
        attempts = self.engine.attempts
        writing = [
            key
            for key, (number, _) in self._to_write.items()
            if attempts[number].pod.node_name == node
        ]
        return [*super()._waiting_for(node), *writing]

    @override
    def _pre_bind(self, number: int) -> None:
        attempt = self.engine.attempts[number]
        if "resourceClaims" not in self.world.held["Pod"][attempt.pod.key]["spec"]:
            HistoryWithVolumes._pre_bind(self, number)
            return
        volumes = attempt.cycle_state.get(_ATTEMPT)
        if volumes is not None and volumes.assumed is not None:
            self._end_before()
        HistoryWithClaims._pre_bind(self, number)

    @override
    def _go_on_with(self, key: str) -> None:
        self._writes_claims = key in self._to_write
        parent: Any = HistoryWithClaims if self._writes_claims else HistoryWithVolumes
        parent._go_on_with(self, key)

    @override
    def _is_nominated_in_vain(self, row: Mapping[str, object]) -> bool:
        # A pod that waits for volumes is nominated, and in flight; see also `HistoryWithDevices`.
        if row["queue"] == "inFlight" or row["pod"] == self._renominated:
            return False
        return super()._is_nominated_in_vain(row)

    @override
    def _carry_out(self, instruction: Instruction) -> None:
        numbers = {number for number, _ in self._to_write.values()}
        if isinstance(instruction, Cancel) and instruction.attempt in numbers:
            self._end_before()
        else:
            super()._carry_out(instruction)

    @override
    def written(self, step: Object) -> Object:
        return HistoryWithClaims.written(self, step)

    @override
    async def request(self, method: str, path: str, body: object = None) -> Any:
        parent: Any = HistoryWithClaims if "/resourceclaims/" in path else HistoryWithVolumes
        return await parent.request(self, method, path, body)

    @override
    async def until(
        self, holds: Callable[[], bool], listen: Callable[[Wake], Wake], seconds: float
    ) -> bool:
        if self._writes_claims:
            return await HistoryWithClaims.until(holds)
        return await super().until(holds, listen, seconds)
