"""Devices as scheduling reads and writes them: slices, classes, claims, allocations.

All fields of a claim are kept, because writes return them to the API server. An absent optional
list is None where the allocator distinguishes it from an empty list.

Source: k8s.io/api resource/v1 types.go (v0.36).
"""

from typing import Final, NamedTuple

import msgspec

from scheduler.api.objects import AnnotatedMeta, NodeSelector, ObjectMeta, Quantity
from scheduler.api.wire import ApiStruct

EXACT_COUNT: Final = "ExactCount"
ALL: Final = "All"
FROM_CLASS: Final = "FromClass"
FROM_CLAIM: Final = "FromClaim"

MAX_RESULTS: Final = 32
"""Devices that one claim can be allocated (`AllocationResultsMaxSize`)."""
MAX_ALTERNATIVES: Final = 8
"""Subrequests of one request (`FirstAvailableDeviceRequestMaxSize`)."""
_NOTHING: Final = msgspec.Raw()


class DeviceId(NamedTuple):
    """The name of a device in the cluster."""

    driver: str
    pool: str
    device: str

    @property
    def text(self) -> str:
        """The device as upstream writes it in messages."""
        return f"{self.driver}/{self.pool}/{self.device}"


# --- slices ---------------------------------------------------------------------------------------


class DeviceAttribute(ApiStruct, frozen=True):
    """A value of one kind; exactly one is set."""

    int_value: int | None = msgspec.field(name="int", default=None)
    bool_value: bool | None = msgspec.field(name="bool", default=None)
    string_value: str | None = msgspec.field(name="string", default=None)
    version_value: str | None = msgspec.field(name="version", default=None)


class CapacityRequestPolicyRange(ApiStruct, frozen=True):
    """The amounts that a request may have, from `min` to `max` in steps."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(ApiStruct, frozen=True):
    """The rules that default, round up and limit a request for capacity."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(ApiStruct, frozen=True):
    """A device's amount of one capacity."""

    value: Quantity = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(ApiStruct, frozen=True):
    """A counter in a set that partitions of a device share."""

    value: Quantity = 0


class CounterSet(ApiStruct, frozen=True):
    """The counters that the partitions of a device share."""

    name: str = ""
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class DeviceCounterConsumption(ApiStruct, frozen=True):
    """The counters that a device consumes from one counter set."""

    counter_set: str = ""
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class DeviceTaint(ApiStruct, frozen=True):
    """A taint of a device; unlike those of nodes it may have the effect None."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Device(ApiStruct, frozen=True):
    """One device of a slice."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = msgspec.field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = msgspec.field(default_factory=dict)
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    allow_multiple_allocations: bool = False


class ResourcePool(ApiStruct, frozen=True):
    """The pool that a slice is a part of."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(ApiStruct, frozen=True):
    """Devices of a driver, and where they can be used."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(ApiStruct, frozen=True):
    """resource.k8s.io/v1 ResourceSlice."""

    metadata: ObjectMeta
    spec: ResourceSliceSpec = ResourceSliceSpec()


# --- configuration of devices ---------------------------------------------------------------------


class OpaqueDeviceConfiguration(ApiStruct, frozen=True):
    """Parameters for a driver, as written."""

    driver: str = ""
    parameters: msgspec.Raw = msgspec.Raw(b"{}")


class DeviceClassConfiguration(ApiStruct, frozen=True):
    """Configuration of every device that is allocated through a class."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaimConfiguration(ApiStruct, frozen=True):
    """Configuration of the devices of some requests of a claim, or of all."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationConfiguration(ApiStruct, frozen=True):
    """Configuration that an allocation passes to the drivers of its devices."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


# --- requests -------------------------------------------------------------------------------------


class CELDeviceSelector(ApiStruct, frozen=True):
    """A CEL expression over one device."""

    expression: str = ""


class DeviceSelector(ApiStruct, frozen=True):
    """A condition on devices; without `cel`, of a kind that this version does not know."""

    cel: CELDeviceSelector | None = None


class DeviceToleration(ApiStruct, frozen=True):
    """A toleration of device taints by a request."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(ApiStruct, frozen=True):
    """The capacity that a request needs from a device, by name of the capacity."""

    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)


class ExactDeviceRequest(ApiStruct, frozen=True):
    """A request for devices of one class."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(ApiStruct, frozen=True):
    """One of the alternatives of a request."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(ApiStruct, frozen=True):
    """A request for devices: either `exactly`, or the first of the alternatives that works."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(ApiStruct, frozen=True):
    """An attribute that the devices of some or all requests must share, or must not."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(ApiStruct, frozen=True):
    """All requests and constraints of a claim."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(ApiStruct, frozen=True):
    """The devices that a claim requests; the spec is immutable."""

    devices: DeviceClaim = DeviceClaim()


# --- allocations ----------------------------------------------------------------------------------


class DeviceRequestAllocationResult(ApiStruct, frozen=True):
    """One device allocated to a claim."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(name="shareID", default=None)
    consumed_capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)

    @property
    def id(self) -> DeviceId:
        """The driver, pool and name that identify the device."""
        return DeviceId(self.driver, self.pool, self.device)


class DeviceAllocationResult(ApiStruct, frozen=True):
    """The devices allocated to a claim, and the configuration for their drivers."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(ApiStruct, frozen=True):
    """The devices allocated to a claim, and the nodes that can use them (None: all)."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(ApiStruct, frozen=True):
    """An object that may use a claim."""

    resource: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""


class DeviceCondition(ApiStruct, frozen=True):
    """A condition of an allocated device, reported by its driver."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int = 0


class AllocatedDeviceStatus(ApiStruct, frozen=True):
    """The status that a driver reports for an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(name="shareID", default=None)
    conditions: tuple[DeviceCondition, ...] = ()
    data: msgspec.Raw = _NOTHING
    network_data: msgspec.Raw = _NOTHING

    @property
    def id(self) -> DeviceId:
        """The driver, pool and name that identify the device."""
        return DeviceId(self.driver, self.pool, self.device)


class ResourceClaimStatus(ApiStruct, frozen=True):
    """The allocation of a claim, and its consumers."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class FinalizedMeta(AnnotatedMeta, frozen=True):
    """Metadata of the kinds whose finalizers scheduling reads."""

    finalizers: tuple[str, ...] = ()


class ResourceClaim(ApiStruct, frozen=True):
    """resource.k8s.io/v1 ResourceClaim."""

    metadata: FinalizedMeta
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class ResourceClaimTemplateSpec(ApiStruct, frozen=True):
    """The spec of the claims that are made from a template."""

    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(ApiStruct, frozen=True):
    """resource.k8s.io/v1 ResourceClaimTemplate."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


# --- classes --------------------------------------------------------------------------------------


class DeviceClassSpec(ApiStruct, frozen=True):
    """The selectors of a class, and the configuration that all its devices get."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(ApiStruct, frozen=True):
    """resource.k8s.io/v1 DeviceClass."""

    metadata: ObjectMeta
    spec: DeviceClassSpec = DeviceClassSpec()
