"""DeviceTaintRules: taints for devices that drivers publish.

Source: k8s.io/api resource/v1beta2 types.go (DeviceTaintRule, v0.36).
"""

from scheduler.api.devices import DeviceTaint
from scheduler.api.objects import ObjectMeta
from scheduler.api.wire import ApiStruct


class DeviceTaintSelector(ApiStruct, frozen=True):
    """The devices that a rule taints; a field that is not set matches any device."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(ApiStruct, frozen=True):
    """A taint, and the devices that have it."""

    device_selector: DeviceTaintSelector = DeviceTaintSelector()
    """Without a selector, all devices, as upstream reads it (`applyPatches`, v0.36.3)."""
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(ApiStruct, frozen=True):
    """resource.k8s.io/v1beta2 DeviceTaintRule."""

    metadata: ObjectMeta
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
