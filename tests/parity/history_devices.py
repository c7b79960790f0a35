"""Histories with all sorts of devices: shares, partitions, taints, binding conditions.

What drivers do is in `history_drivers`; what other schedulers and the controller do is as in
`history_claims`. Besides what histories with claims compare: what is consumed of shared devices,
and which containers get which requests. These differences are meant, and are kept out, beside those
of `history_claims`:

- A claim that goes, or gets other devices, while its pod waits for them: none does.
- The last reservation of a claim is removed if the watch is behind: a history ends before.
- A claim that was made for extended resources counts before the watch shows it: that shows it at
  once, in both its making and its deletion.
- A pod that has claims, and on its node needs none for extended resources, is bound: a history ends
  before.
- Pools have one count, and no more slices than that: see `generator.history_devices`.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
from typing_extensions import override

from apistub.http.patches import merge_strategically
from scheduler.errors import RequestError
from scheduler.kernel.engine.attempt import AttemptState
from scheduler.kernel.engine.events import ObjectSet, PreBound
from scheduler.kernel.engine.instructions import Write
from scheduler.kernel.engine.scheduling_failure import DEVICES_FREED
from scheduler.kernel.framework.events import ClusterEvent
from scheduler.kernel.framework.services import Wake
from scheduler.kernel.framework.types import PreBindWork
from scheduler.kernel.plugins.claim_binding import TakenClaims
from scheduler.kernel.plugins.dynamic_resources import _ATTEMPT
from tests.parity.generator.draw import Draw, Object
from tests.parity.history_drivers import FAR_AHEAD, LONG_AGO, HistoryWithDrivers
from tests.parity.history_steps import STEPS
from tests.parity.living import PLURAL, REFUSED
from tests.parity.plugin_writes import Pause, refusal, until_it_holds
from tests.parity.world import decoded, key_of

_CLAIM: Final = "ResourceClaim"
_PATIENCE: Final = 1e8
"""Seconds for devices to become ready: three years, after which only `LONG_AGO` is too long ago."""


def live_through_devices(case: Object, seed: int, steps: int = STEPS) -> Object:
    """Let our engine live through a history with devices; see `history_steps.live_through`."""
    return HistoryWithDevices(case, seed).lived(steps)


class HistoryWithDevices(HistoryWithDrivers):
    """A life in which pods wait for devices, and get claims for extended resources."""

    def __init__(self, case: Object, seed: int) -> None:
        super().__init__(case, seed)
        draw = Draw(f"drivers:{seed}")
        self._late = draw.pick((0.0, 0.0, 0.2))
        """How often the time for a claim to become ready is over at once."""
        self._gives_back = False
        """Whether a claim that was made could not be allocated; so its devices wake pods."""
        self._devices_changed: dict[str, bool] = {}
        """By pod that waits for devices, whether they have changed since it was looked at."""
        for framework in self.engine.core.frameworks.values():
            # The judge's clock does not move while it waits: a claim is late from the beginning.
            framework.plugins.by_name["DynamicResources"]._binding._timeout_seconds = _PATIENCE
        self._waits_for_devices = ""
        self._made = 0

    @override
    def ways(self) -> list[tuple[float, Callable[[], None]]]:
        waiting = [(15.0, self._look_at_devices_of_some)] if self._devices_changed else []
        return [*super().ways(), *waiting]

    @override
    def wakes(self, event: ClusterEvent, old: Any = None, new: Any = None) -> bool:
        if old is DEVICES_FREED[1] and self._gives_back:
            # The judge has assumed the allocation, and what the watch shows takes it back.
            return True
        return super().wakes(event, old, new)

    @override
    def may_nominate(self, raw: Object) -> bool:
        place = self.engine.core.queue.place_of(raw["metadata"]["uid"])
        return super().may_nominate(raw) and place is not None and place.name != "gated"

    @override
    def _is_in_flight_claim(self, raw: Object) -> bool:
        """Whether a claim is being allocated, or its pod waits for its devices.

        While victims are evicted that may be the claim of their preemptor, whose gate opens then.
        """
        uids = {self.world.held["Pod"][key]["metadata"]["uid"] for key in self._to_write}
        users = {user["uid"] for user in raw.get("status", {}).get("reservedFor", ())}
        evicts = bool(self.engine.preemption_executor._runs)
        return bool(users & uids) or evicts or super()._is_in_flight_claim(raw)

    @override
    def _is_nominated_in_vain(self, row: Mapping[str, object]) -> bool:
        return not self._nomination_ends_later(row) and super()._is_nominated_in_vain(row)

    # --- PreBind ----------------------------------------------------------------------------------

    @override
    def _pre_bind(self, number: int) -> None:
        """Begin PreBind; that of a pod that waits for devices begins in a later step.

        The watch has shown its nomination then.
        """
        attempt = self.engine.attempts[number]
        if _makes_no_claim(attempt.cycle_state.get(_ATTEMPT)):
            self._end_before()
        state, pod = attempt.cycle_state, attempt.pod
        if attempt.framework.pre_bind_work(state, pod) is not PreBindWork.ANYTHING:
            super()._pre_bind(number)
            return

        async def later() -> Any:
            await Pause()
            return await attempt.framework.run_pre_bind_plugins(state, pod)

        work: Any = later()
        self._to_write[pod.key] = number, work
        self._go_on_with(pod.key)

    def _look_at_devices_of_some(self) -> None:
        if self._devices_changed:
            self._look_at_devices(self.draw.pick(sorted(self._devices_changed)))

    def _look_at_devices(self, key: str) -> None:
        def look() -> None:
            was_woken, self._waits_for_devices = self._devices_changed.pop(key), key
            self._go_on_with(key)
            if key in self._to_write:
                self._devices_changed.setdefault(key, False)
            else:
                assert was_woken, f"{key} was not woken"

        self.step({"do": "check", "pod": key}, look)

    @override
    def _write_some(self) -> None:
        ready = sorted(set(self._to_write) - set(self._devices_changed))
        if ready:
            self._write_claims(self.draw.pick(ready))

    @override
    def _write_claims(self, key: str) -> None:
        if key in self._to_write and key not in self._devices_changed:
            super()._write_claims(key)

    @override
    def _go_on_with(self, key: str) -> None:
        self._waits_for_devices = key
        number = self._to_write[key][0]
        if self.engine.attempts[number].state is AttemptState.CANCELLED:
            _, work = self._to_write.pop(key)
            work.close()
            self.handle(PreBound(number, "cancelled"))
            return
        super()._go_on_with(key)
        self._gives_back = False

    async def until(
        self, holds: Callable[[], bool], listen: Callable[[Wake], Wake], seconds: float
    ) -> bool:
        if holds():
            return True
        if seconds < 1:
            return False
        self._devices_changed[self._waits_for_devices] = False
        return await until_it_holds(holds, listen, self._devices_changed, self._waits_for_devices)

    @override
    async def request(self, method: str, path: str, body: object = None) -> Any:
        if method != "POST" and path.split("/")[1] == "apis":
            if method == "DELETE":
                self._delete_made(path)
                return None
            return await super().request(method, path, body)
        if not self._writes_now:
            await Pause()
        content = json.loads(msgspec.json.encode(body))
        return copy.deepcopy(
            self._made_claim(content) if method == "POST" else self._mapped_pod(path, content)
        )

    def _made_claim(self, claim: Object) -> Object:
        """Make a claim for extended resources; the watch shows it at once."""
        meta = claim["metadata"]
        key = f"{meta['namespace']}/{meta['generateName']}"
        requests = [
            f"{each['name']} {each['exactly']['deviceClassName']} {each['exactly']['count']}"
            for each in claim["spec"]["devices"]["requests"]
        ]
        self._written.setdefault(key, []).append({"requests": requests})
        if self.draw.maybe(self._refuses_writes):
            self._answered.setdefault(key, []).append(None)
            raise refusal(403, REFUSED)
        self._made += 1
        meta["name"] = f"{meta.pop('generateName')}{self._made}"
        meta["uid"] = f"made claim {self._made}"
        raw = self.world.write({**claim, "status": {}})
        self._answered.setdefault(key, []).append(copy.deepcopy(raw))
        self.world.shown[_CLAIM][key_of(raw)] = raw
        self.handle(ObjectSet(PLURAL[_CLAIM], decoded(raw)))
        return raw

    def _mapped_pod(self, path: str, body: Object) -> Object:
        """Write the claim for extended resources to the status of its pod."""
        parts = path.split("/")
        key = f"{parts[-4]}/{parts[-2]}"
        status = body["status"]["extendedResourceClaimStatus"]
        mapped = [
            f"{each['containerName']} {each['resourceName']} {each['requestName']}"
            for each in status["requestMappings"]
        ]
        noted = {"claim": status["resourceClaimName"], "mapped": mapped}
        self._written.setdefault(key, []).append(noted)
        if self.draw.maybe(self._refuses_writes):
            self._answered.setdefault(key, []).append(None)
            raise refusal(403, REFUSED)
        raw = copy.deepcopy(self.world.held["Pod"][key])
        raw["status"] = merge_strategically(raw["status"], body["status"])
        raw = self.world.write(raw)
        self.owed[key] = None
        self._answered.setdefault(key, []).append({})
        return raw

    @override
    def _send(self, write: Write) -> None:
        if write.method == "DELETE":
            self._delete_made(write.path)
        elif not write.path.endswith("/status"):
            return  # the finalizer of a claim that is deleted
        else:
            super()._send(write)
            if any(each == [] for each in self._left()):
                self._end_before()

    def _left(self) -> Iterator[list[str]]:
        """The reservations of claims that were written in this step and have their devices."""
        for noted in self._written.values():
            yield from (each["reservedFor"] for each in noted if each.get("devices"))

    def _delete_made(self, path: str) -> None:
        parts = path.split("/")
        key = f"{parts[-3]}/{parts[-1]}"
        self._written.setdefault(key, []).append({"deleted": True})

        def remove() -> None:
            if key in self.world.held[_CLAIM]:
                self._remove(copy.deepcopy(self.world.held[_CLAIM][key]))

        self._after.append(remove)

    @override
    def _written_claim(self, path: str, body: Any) -> Object:
        """Write to a claim; devices of some are late from the beginning."""
        body = json.loads(msgspec.json.encode(body))
        allocation = body.get("status", {}).get("allocation")
        if allocation is not None and "allocationTimestamp" in allocation:
            late = self.draw.maybe(self._late)
            allocation["allocationTimestamp"] = LONG_AGO if late else FAR_AHEAD
        try:
            return super()._written_claim(path, body)
        except RequestError:
            self._gives_back = "-extended-resources-" in path
            raise


def _makes_no_claim(taken: TakenClaims | None) -> bool:
    """Whether a pod has claims, and resources for which it needs no claim on its node."""
    if taken is None or not taken.claims.own or taken.claims.extended is None:
        return False
    return taken.claims.own not in taken.allocations
