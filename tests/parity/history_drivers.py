"""What drivers and other schedulers do in histories with all sorts of devices.

Drivers replace their slices by newer ones, one after the other; they taint devices, change what
these have, and report whether they are ready.
"""

import copy
from collections.abc import Callable
from typing import Final

from typing_extensions import override

from tests.parity.generator.device_requests import CLASSES
from tests.parity.generator.device_slices import CONDITION, FAILURE, POLICIES, TAINT_KEYS
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.history_claims import FINALIZER
from tests.parity.generator.history_devices import ClaimMaker, habits_of, is_admin
from tests.parity.history_claims import HistoryWithClaims
from tests.parity.world import key_of

_CLAIM: Final = "ResourceClaim"
_SLICE: Final = "ResourceSlice"
LONG_AGO, FAR_AHEAD = "2020-01-01T00:00:00Z", "2036-01-02T03:04:05Z"
"""Times of allocations whose devices are late, and are never late, by any clock."""
_NOW: Final = "2026-01-02T03:04:05Z"


class HistoryWithDrivers(HistoryWithClaims):
    """A life in which drivers do all that they may do."""

    def __init__(self, case: Object, seed: int) -> None:
        super().__init__(case, seed)
        draw = Draw(f"reports of drivers:{seed}")
        self._habits = habits_of(seed)
        self._diligence = draw.pick((4, 12, 25))
        """How often a driver reports something."""

    @override
    def changes(self) -> list[tuple[float, Callable[[], None]]]:
        return [
            *super().changes(),
            (self._diligence, self._report),
            (2, self._renew_pool),
            (8, self._make_claim),
        ]

    # --- drivers ----------------------------------------------------------------------------------

    @override
    def _new_claim(self, name: str, namespace: str) -> Object:
        spaces = list(self.world.held["Namespace"].values())
        return ClaimMaker(self._habits, admin=is_admin(spaces, namespace))(
            self.draw, name, namespace
        )

    @override
    def _change_slice(self) -> None:
        raw = self._some(_SLICE)
        if raw is None:
            return
        spec, draw = raw["spec"], self.draw
        if "devices" not in spec:
            self._change_counters(spec)
        elif draw.maybe(0.25):
            self._change_number(spec["devices"])
        elif spec["devices"]:
            self._change_device(draw.pick(spec["devices"]))
        if draw.maybe(0.3):
            self._advance(raw)
        self._set(raw)

    def _change_counters(self, spec: Object) -> None:
        for each in spec["sharedCounters"]:
            if self.draw.maybe(0.7):
                each["counters"]["slices"]["value"] = str(self.draw.pick((2, 4, 7, 9)))

    def _change_number(self, devices: list[Object]) -> None:
        names = [each["name"] for each in devices]
        if devices and self.draw.maybe(0.5):
            new = copy.deepcopy(self.draw.pick(devices))
            new["name"] += "-b"
            if new["name"] not in names:
                devices.append(new)
        elif devices:
            devices.remove(self.draw.pick(devices))

    def _change_device(self, device: Object) -> None:
        draw = self.draw
        if draw.maybe(0.4):
            if device.pop("taints", None) is None or draw.maybe(0.3):
                device["taints"] = [
                    {
                        "key": draw.pick(TAINT_KEYS),
                        "value": draw.pick(("1", "2", "")),
                        "effect": draw.pick(("NoSchedule", "NoExecute", "NoExecute", "None")),
                        "timeAdded": _NOW,
                    }
                ]
        elif draw.maybe(0.3):
            if device.pop("bindingConditions", None) is None:
                device["bindingConditions"] = [CONDITION]
                device["bindingFailureConditions"] = [FAILURE]
                if draw.maybe(0.5):
                    device["bindsToNode"] = True
            else:
                device.pop("bindingFailureConditions", None)
                device.pop("bindsToNode", None)
        elif "bandwidth" in device.get("capacity", {}):
            capacity = device["capacity"]["bandwidth"]
            if draw.maybe(0.3):
                device["allowMultipleAllocations"] = not device.get("allowMultipleAllocations")
                capacity.pop("requestPolicy", None)
            elif device.get("allowMultipleAllocations") and draw.maybe(0.5):
                policy = draw.pick(POLICIES)
                capacity.pop("requestPolicy", None)
                if policy is not None:
                    capacity["value"], capacity["requestPolicy"] = "10G", copy.deepcopy(policy)
            else:
                capacity["value"] = draw.pick(("8G", "10G", "25G"))
        elif "consumesCounters" in device and draw.maybe(0.5):
            [first, *_] = device["consumesCounters"]
            first["counters"]["slices"]["value"] = str(draw.randint(1, 4))
        elif draw.maybe(0.5):
            device["attributes"]["model"] = {"string": draw.pick(("a100", "h100"))}
        else:
            capacity = device.setdefault("capacity", {})
            capacity["memory"] = {"value": draw.pick(("40Gi", "80Gi"))}

    def _advance(self, raw: Object) -> None:
        """Bring a slice to the newest generation of its pool, or begin a newer one."""
        pool = raw["spec"]["pool"]
        newest = max(each["spec"]["pool"]["generation"] for each in self._pool_of(raw))
        pool["generation"] = newest + (pool["generation"] == newest)

    def _pool_of(self, raw: Object) -> list[Object]:
        spec = raw["spec"]
        return [
            each
            for each in self.world.held[_SLICE].values()
            if (each["spec"]["driver"], each["spec"]["pool"]["name"])
            == (spec["driver"], spec["pool"]["name"])
        ]

    def _renew_pool(self) -> None:
        """Replace all slices of a pool, one after the other."""
        raw = self._some(_SLICE)
        if raw is None:
            return
        pool = copy.deepcopy(sorted(self._pool_of(raw), key=key_of))
        newest = max(each["spec"]["pool"]["generation"] for each in pool)
        for each in pool:
            each["spec"]["pool"]["generation"] = newest + 1
            if each["spec"].get("devices") and self.draw.maybe(0.5):
                self._change_device(self.draw.pick(each["spec"]["devices"]))
            self._set(each)

    @override
    def _change_class(self) -> None:
        raw = self._some("DeviceClass")
        if raw is None:
            return
        selectors, resource = self.draw.pick(list(CLASSES.values()))
        if self.draw.maybe(0.5):
            raw["spec"]["selectors"] = [{"cel": {"expression": text}} for text in selectors]
        elif raw["spec"].pop("extendedResourceName", None) is None:
            raw["spec"]["extendedResourceName"] = resource
        self._set(raw)

    def _report(self) -> None:
        """A driver reports whether a device is ready."""
        draw = self.draw
        found = [
            raw
            for raw in self.world.held[_CLAIM].values()
            if any("bindingConditions" in each for each in _results(raw))
        ]
        raw = self.any(sorted(found, key=key_of))
        if raw is None:
            return
        result = draw.pick([each for each in _results(raw) if "bindingConditions" in each])
        names = ("driver", "pool", "device", "shareID")
        entry: Object = {name: result[name] for name in names if name in result}
        kinds = draw.pick(((CONDITION,),) * 6 + ((CONDITION, FAILURE), (FAILURE,)))
        entry["conditions"] = [
            {
                "type": kind,
                "status": draw.pick(("True", "True", "True", "False", "Unknown")),
                "reason": "Reported",
                "message": "",
                "lastTransitionTime": _NOW,
            }
            for kind in kinds
        ]
        others = [
            each
            for each in raw["status"].get("devices", ())
            if any(each.get(name) != entry.get(name) for name in names)
        ]
        raw["status"]["devices"] = [*others, entry]
        self._set(raw)

    # --- claims -----------------------------------------------------------------------------------

    @override
    def _allocate(self, raw: Object) -> None:
        """Another scheduler gives a device, or a share of one, to a claim."""
        offers = [
            (spec, device)
            for spec in (each["spec"] for each in self.world.held[_SLICE].values())
            for device in spec.get("devices", ())
            if f"{spec['driver']}/{spec['pool']['name']}/{device['name']}" not in self._in_use()
        ]
        if not offers:
            return
        spec, device = self.draw.pick(offers)
        [request, *others] = raw["spec"]["devices"]["requests"]
        if others or request.get("exactly", {}).get("adminAccess"):
            return
        name = request["name"]
        if "firstAvailable" in request:
            name += "/" + self.draw.pick(request["firstAvailable"])["name"]
        result: Object = {
            "request": name,
            "driver": spec["driver"],
            "pool": spec["pool"]["name"],
            "device": device["name"],
        }
        for key in ("bindingConditions", "bindingFailureConditions"):
            if key in device:
                result[key] = device[key]
        if device.get("allowMultipleAllocations"):
            result["shareID"] = f"{self.draw.getrandbits(32):08x}-0000-4000-8000-000000000000"
            amount = self.draw.pick(("1G", "2G", "2500M"))
            if "bandwidth" in device.get("capacity", {}):
                result["consumedCapacity"] = {"bandwidth": amount}
        allocation: Object = {"devices": {"results": [result]}}
        if "nodeName" in spec:
            field = {"key": "metadata.name", "operator": "In", "values": [spec["nodeName"]]}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        if self.draw.maybe(0.6):
            allocation["allocationTimestamp"] = self.draw.pick((LONG_AGO, FAR_AHEAD, FAR_AHEAD))
        raw["status"]["allocation"] = allocation
        raw["metadata"]["finalizers"] = [FINALIZER]

    @override
    def _in_use(self) -> set[str]:
        return set(self._devices())

    @override
    def _devices(self) -> list[str]:
        usage = self._catalog.devices.usage
        return sorted(each.text for each in usage._holders if usage.is_dedicated(each))

    def _consumed(self) -> Object:
        usage = self._catalog.devices.usage
        found = {
            device.text: {name: float(amount) for name, amount in amounts.items() if amount}
            for device, amounts in usage._consumed.items()
        }
        return {device: amounts for device, amounts in found.items() if amounts}

    @override
    def written(self, step: Object) -> Object:
        consumed = self._consumed()
        return {**super().written(step), **({"consumed": consumed} if consumed else {})}

    @override
    def _free(self, raw: Object, left: list[Object]) -> None:
        if left or not self._is_in_flight_claim(raw):
            super()._free(raw, left)

    @override
    def _choices(self, pod: Object) -> int:
        uid = pod["metadata"]["uid"]
        made = [
            raw
            for raw in self.world.held[_CLAIM].values()
            if "annotations" in raw["metadata"]
            and any(owner["uid"] == uid for owner in raw["metadata"].get("ownerReferences", ()))
        ]
        return super()._choices(pod) + len(made)


def _results(raw: Object) -> list[Object]:
    allocation = raw.get("status", {}).get("allocation") or {}
    found: list[Object] = allocation.get("devices", {}).get("results", [])
    return found
