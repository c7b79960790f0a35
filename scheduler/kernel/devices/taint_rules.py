"""Slices with the taints that DeviceTaintRules add to their devices.

Source: k8s.io/dynamic-resource-allocation resourceslice/tracker/tracker.go (applyPatches, v0.36.3).
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from scheduler.api.device_taint_rules import DeviceTaintRule
from scheduler.api.devices import Device, ResourceSlice


class TaintRules:
    """The rules, and the slices without the taints of rules.

    Cost: a change of a rule takes O(slices), and an update of each slice that it applies to.
    """

    def __init__(self) -> None:
        self._rules: dict[str, DeviceTaintRule] = {}
        self._slices: dict[str, ResourceSlice] = {}

    def publish(self, published: ResourceSlice) -> ResourceSlice:
        """Add or replace a slice; returns it with the taints of rules."""
        self._slices[published.metadata.name] = published
        return self._tainted(published)

    def withdraw(self, name: str) -> None:
        """Remove a slice."""
        self._slices.pop(name, None)

    def change(
        self, old: DeviceTaintRule | None, new: DeviceTaintRule | None
    ) -> Iterator[ResourceSlice]:
        """Handle a rule that was added, changed or deleted; yields the affected slices."""
        changed = [rule for rule in (old, new) if rule is not None]
        for rule in changed:
            self._rules.pop(rule.metadata.name, None)
        if new is not None:
            self._rules[new.metadata.name] = new
        for published in self._slices.values():
            if any(_concerns(rule, published) for rule in changed):
                yield self._tainted(published)

    def fork(self) -> "TaintRules":
        """An independent copy."""
        copy = TaintRules()
        copy._rules, copy._slices = self._rules.copy(), self._slices.copy()
        return copy

    def _tainted(self, published: ResourceSlice) -> ResourceSlice:
        rules = [rule for rule in self._rules.values() if _concerns(rule, published)]
        if not rules:
            return published
        devices = tuple(_with_taints(device, rules) for device in published.spec.devices)
        return replace(published, spec=replace(published.spec, devices=devices))


def _concerns(rule: DeviceTaintRule, published: ResourceSlice) -> bool:
    selector, spec = rule.spec.device_selector, published.spec
    return selector.driver in (None, spec.driver) and selector.pool in (None, spec.pool.name)


def _with_taints(device: Device, rules: Iterable[DeviceTaintRule]) -> Device:
    taints = tuple(
        rule.spec.taint for rule in rules if rule.spec.device_selector.device in (None, device.name)
    )
    return replace(device, taints=(*device.taints, *taints)) if taints else device
