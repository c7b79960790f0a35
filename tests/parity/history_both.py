"""Histories with devices and volumes: some pods have one, some the other, some both.

A pod may be rejected by the plugins of either, and what frees the one may not help with the other.
What is kept out is in `history_claims`, `history_devices` and `history_volumes`, and beside that:

- PreBind writes volumes and claims of one pod at the same time: a history ends before.
"""

from collections.abc import Callable, Mapping
from typing import Any

from typing_extensions import override

from scheduler.kernel.engine.instructions import Cancel, Instruction
from scheduler.kernel.framework.services import Wake
from scheduler.kernel.plugins import dynamic_resources, volume_binding
from tests.parity.generator.draw import Object
from tests.parity.generator.history_devices import has_devices
from tests.parity.history_claims import HistoryWithClaims
from tests.parity.history_devices import HistoryWithDevices
from tests.parity.history_steps import STEPS
from tests.parity.history_volumes import HistoryWithVolumes
from tests.parity.world import CLAIM_KINDS


def live_through_both(case: Object, seed: int, steps: int = STEPS) -> Object:
    """Let our engine live through a history with both; see `history_steps.live_through`."""
    live = HistoryWithAllDevices if has_devices(case) else HistoryWithBoth
    return live(case, seed).lived(steps)


class HistoryWithBoth(HistoryWithVolumes, HistoryWithClaims):
    """A life in which pods have volumes or resource claims.

    What both parents do by methods of the same name is done by that of the object, or of the pod.
    """

    _is_about_claims = False
    """Whether the PreBind that goes on is that of a pod with resource claims."""

    @property
    def _volumes(self) -> Any:
        return super()

    @property
    def _claims(self) -> Any:
        """The parent that comes after `HistoryWithVolumes`."""
        return super(HistoryWithVolumes, self)

    def _parent_of(self, raw: Object) -> Any:
        return self._claims if raw["kind"] in CLAIM_KINDS else self._volumes

    @override
    def ways(self) -> list[tuple[float, Callable[[], None]]]:
        # There are twice as many sorts of changes, so as many more attempts.
        return [*super().ways(), (self.pace, self._try), (10, self.show_owed)]

    @override
    def _control(self) -> None:
        parent = self._claims if self.draw.maybe(0.4) else self._volumes
        parent._control()

    @override
    def _set(self, raw: Object) -> None:
        self._parent_of(raw)._set(raw)

    @override
    def _remove(self, raw: Object) -> None:
        self._parent_of(raw)._remove(raw)

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
        state = self.engine.attempts[number].cycle_state
        volumes = state.get(volume_binding._ATTEMPT)
        if volumes is None or volumes.assumed is None:
            self._claims._pre_bind(number)
            return
        taken = state.get(dynamic_resources._ATTEMPT)
        if taken is not None and list(taken.claims):
            self._end_before()
        self._volumes._pre_bind(number)

    @override
    def _go_on_with(self, key: str) -> None:
        self._is_about_claims = key in self._to_write
        parent = self._claims if self._is_about_claims else self._volumes
        parent._go_on_with(key)

    @override
    def _is_nominated_in_vain(self, row: Mapping[str, object]) -> bool:
        # A pod that waits for volumes is nominated, and in flight.
        return not self._nomination_ends_later(row) and super()._is_nominated_in_vain(row)

    @override
    def _carry_out(self, instruction: Instruction) -> None:
        numbers = {number for number, _ in self._to_write.values()}
        if isinstance(instruction, Cancel) and instruction.attempt in numbers:
            self._end_before()
        else:
            super()._carry_out(instruction)

    @override
    def written(self, step: Object) -> Object:
        found: Object = self._claims.written(step)
        return found

    @override
    async def request(self, method: str, path: str, body: object = None) -> Any:
        parent = self._volumes if "/persistentvolume" in path else self._claims
        return await parent.request(method, path, body)

    @override
    async def until(
        self, holds: Callable[[], bool], listen: Callable[[Wake], Wake], seconds: float
    ) -> bool:
        parent = self._claims if self._is_about_claims else self._volumes
        is_true: bool = await parent.until(holds, listen, seconds)
        return is_true


class HistoryWithAllDevices(HistoryWithBoth, HistoryWithDevices):
    """The same with all sorts of devices."""
