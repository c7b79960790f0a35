"""All devices of the cluster: published slices, claims with their requests, and allocations.

Source: pkg/scheduler/framework/plugins/dynamicresources/dra_manager.go (claimTracker) v1.36.3.
Differs: an in-flight allocation counts until a watch event has it, or Unreserve gives it up.
Upstream drops it when the write returns, and keeps the response in an assume cache.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Self

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from scheduler.api.device_taint_rules import DeviceTaintRule
from scheduler.api.devices import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from scheduler.api.objects import controller_of
from scheduler.api.pods import PodInfo
from scheduler.kernel.cel import compile_expression
from scheduler.kernel.devices.catalog import Devices
from scheduler.kernel.devices.claim_writes import reserved, unreserved
from scheduler.kernel.devices.class_names import ClassNames
from scheduler.kernel.devices.extended_resources import (
    is_of_extended_resources,
    resources_asked,
)
from scheduler.kernel.devices.pod_claims import ClaimProblem, claims_of, is_reserved_for
from scheduler.kernel.devices.taint_rules import TaintRules
from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.handle import SharedState
from scheduler.kernel.framework.listeners import Listeners
from scheduler.kernel.framework.services import Nominations, Wake

_RESOURCE: Final = "resource.k8s.io/v1"
CLAIM: Final = ObjectKind("ResourceClaim", _RESOURCE)
SLICE: Final = ObjectKind("ResourceSlice", _RESOURCE)
CLASS: Final = ObjectKind("DeviceClass", _RESOURCE)
TAINT_RULE: Final = ObjectKind("DeviceTaintRule", "resource.k8s.io/v1beta2")


class InFlight(msgspec.Struct, frozen=True):
    """A claim whose allocation is decided, and not in the claim's latest event yet.

    Attributes:
        claim: in its intended state, reserved only for the pods that are to use it.
        group: the name of the pod group of the pods; "" for a pod without one.
    """

    claim: ResourceClaim
    group: str

    @property
    def pods(self) -> tuple[str, ...]:
        """The UIDs of the pods that are to use it, the first one first."""
        return tuple(user.uid for user in self.claim.status.reserved_for)


class ClaimCatalog(SharedState):
    """The state of slices, classes and claims, and the indexes derived from it.

    Attributes:
        claims: by `namespace/name`.
        devices: published and allocated devices, in-flight allocations included.
        class_names: the device class of each extended resource.
        in_flight: by the claim's UID.
        kept: by the UID of a nominated pod, the allocations kept for its claims; filled in by the
            engine.
    """

    WATCHES: ClassVar[tuple[ObjectKind, ...]] = (CLAIM, SLICE, CLASS)
    HEARS_OF: ClassVar[tuple[ObjectKind, ...]] = (TAINT_RULE,)

    def __init__(self) -> None:
        self.claims: dict[str, ResourceClaim] = {}
        self.devices = Devices(compile_expression)
        self.class_names = ClassNames()
        self.in_flight: dict[str, InFlight] = {}
        self.kept: Mapping[str, Sequence[AllocationResult]] = {}
        self._taint_rules = TaintRules()
        self._of_extended: defaultdict[str, set[str]] = defaultdict(set)
        """By the UID of a pod, the keys of the claims for its extended resources."""
        self._leaving: dict[str, set[str]] = {}
        """By the UID of a claim, pods whose reservations are removed, and in its latest event."""
        self._listeners = Listeners()
        self._takers: dict[ObjectKind, Callable[[Any, Any], None]] = {
            CLAIM: self._take_claim,
            SLICE: self._take_slice,
            CLASS: self._take_class,
            TAINT_RULE: self._take_taint_rule,
        }

    # --- questions --------------------------------------------------------------------------------

    def claim_of_extended_resources(self, pod_uid: str) -> ResourceClaim | None:
        """The claim that was made for a pod's extended resources, if there is one."""
        return next(iter(self.claims_of_extended_resources(pod_uid)), None)

    def claims_of_extended_resources(self, pod_uid: str) -> Sequence[ResourceClaim]:
        """All claims made for a pod's extended resources; a late watch may lead to several."""
        return [self.claims[key] for key in sorted(self._of_extended.get(pod_uid, ()))]

    def listen(self, claims: Iterable[str], listener: Wake) -> Wake:
        """Call a function after every event about some claims, given by key.

        Returns:
            A function that ends the subscription.
        """
        return self._listeners.listen(claims, listener)

    def claims_in_flight(self, pod_uid: str) -> Iterator[ResourceClaim]:
        """The claims that are being allocated for a pod."""
        return (each.claim for each in self.in_flight.values() if pod_uid in each.pods)

    def as_for(self, claim: ResourceClaim, pod: PodInfo) -> ResourceClaim:
        """The claim of a pod, in its intended state while in flight for other pods of its group.

        Source: dynamicresources.go (PreFilter, podGroupStateData.pendingAllocations) v1.36.3.
        Differs: upstream shares in-flight allocations within one attempt of the group only.
        """
        known = self.in_flight.get(claim.metadata.uid)
        if known is None or not pod.group_name or known.group != pod.group_name:
            return claim
        return replace(claim, status=known.claim.status)

    def may_need_devices(self, pod: PodInfo) -> bool:
        """Whether a pod has claims, or requests resources that a device class serves."""
        return bool(pod.resource_claims) or self.may_serve_resources(pod)

    def may_serve_resources(self, pod: PodInfo) -> bool:
        """Whether a device class serves one of the resources that a pod requests."""
        class_of = self.class_names.class_of
        return any(class_of(name) is not None for name in resources_asked(pod))

    def has_claims(self, pod: PodInfo) -> bool:
        """Whether all claims that a pod names exist and are usable by it."""
        try:
            return all(claims_of(pod, self.claims))
        except ClaimProblem:
            return False

    def why_not_to_allocate(self, claim: ResourceClaim, *, is_own: bool) -> str:
        """The reason why a claim cannot be allocated now on any node; empty when it can.

        The requests of the claim for extended resources are not checked here.
        """
        if claim.metadata.uid in self.in_flight:
            return f"resource claim {claim.key} is in the process of being allocated"
        for request in claim.spec.devices.requests if is_own else ():
            asked = (
                [(request.name, request.exactly)]
                if request.exactly is not None
                else [
                    (f"{request.name}/{alternative.name}", alternative)
                    for alternative in request.first_available
                ]
            )
            if not asked:
                return f"resource claim {claim.key}, request {request.name}: unknown request type"
            for name, each in asked:
                if each.device_class_name not in self.devices.classes:
                    return f"request {name}: device class {each.device_class_name} does not exist"
        return ""

    def is_published(self, allocation: AllocationResult) -> bool:
        """Whether slices list all devices of an allocation."""
        rows_of = self.devices.table.rows_of
        return all(rows_of(each.id) for each in allocation.devices.results)

    def leaving_free(self, pod: PodInfo, nominations: Nominations) -> Self:
        """A fork in which devices kept for nominated pods count as allocated for this pod."""
        kept = [uid for uid in self.kept if nominations.comes_before(uid, pod)]
        if not kept:
            return self
        copy = self.fork()
        for uid in kept:
            for number, allocation in enumerate(self.kept[uid]):
                copy.devices.allocate(f"{uid}/{number}", allocation)
        return copy

    def keeping_nothing(self) -> Self:
        """A read-only copy in which no device is kept for any pod."""
        copy = self._with_devices(self.devices)
        copy.kept = {}
        return copy

    def to_reserve(self, pod: PodInfo) -> Iterator[ResourceClaim]:
        """The allocated claims of a pod not reserved for it yet, in their reserved state."""
        try:
            claims = [claim for _, claim in claims_of(pod, self.claims)]
        except ClaimProblem:
            return
        for claim in claims:
            if claim.status.allocation is not None and not is_reserved_for(claim, pod):
                yield reserved(claim, pod, None)

    # --- allocations that are under way -----------------------------------------------------------

    def begin(self, claim: ResourceClaim, allocation: AllocationResult, pod: PodInfo) -> None:
        """Mark the allocation of a claim for a pod as in flight: its devices count as allocated.

        If the claim is in flight for other pods of the group, add the pod.
        """
        uid = claim.metadata.uid
        known = self.in_flight.get(uid)
        if known is not None:
            self.in_flight[uid] = replace(known, claim=reserved(known.claim, pod, None))
            return
        free = replace(claim, status=replace(claim.status, reserved_for=()))
        self.in_flight[uid] = InFlight(reserved(free, pod, allocation), pod.group_name)
        self.devices.allocate(uid, allocation)

    def give_up(self, uid: str, pod_uid: str) -> None:
        """Remove a pod from an in-flight claim; without pods, the claim's devices are released.

        Does nothing if a watch event of the claim had the allocation: it is no longer in flight.
        """
        known = self.in_flight.get(uid)
        if known is None or pod_uid not in known.pods:
            return
        left = replace(known, claim=unreserved(known.claim, (pod_uid,)))
        if left.pods:
            self.in_flight[uid] = left
        else:
            del self.in_flight[uid]
            self.devices.release(uid)

    def leave(self, claim: ResourceClaim, pod: PodInfo) -> bool:
        """Take a pod from the users of a claim; return False for the last one, which stays.

        Several bindings may fail before an event shows that the first reservation is removed.
        """
        leaving = self._leaving.get(claim.metadata.uid, set())
        if all(user.uid in leaving or user.uid == pod.uid for user in claim.status.reserved_for):
            return False
        self._leaving[claim.metadata.uid] = {*leaving, pod.uid}
        return True

    # --- events -----------------------------------------------------------------------------------

    @override
    def on_event(self, kind: ObjectKind, old: Any, new: Any) -> None:
        """Handle an event about a claim, a slice or a class."""
        self._takers[kind](old, new)

    @override
    def fork(self) -> Self:
        """An independent copy."""
        return self._with_devices(self.devices.fork())

    def for_new_node(self, like: str, name: str) -> Self:
        """A copy with only the devices that a new node sees; see `Devices.for_new_node`."""
        return self._with_devices(self.devices.for_new_node(like, name))

    def _with_devices(self, devices: Devices) -> Self:
        copy = type(self)()
        copy.claims.update(self.claims)
        copy.devices = devices
        copy.class_names = self.class_names.fork()
        copy.in_flight.update(self.in_flight)
        copy.kept = self.kept
        copy._taint_rules = self._taint_rules.fork()  # noqa: SLF001 - its own
        for uid, keys in self._of_extended.items():
            copy._of_extended[uid] = keys.copy()  # noqa: SLF001 - its own
        return copy

    def _take_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._forget(old)
        if new is not None:
            self.claims[new.key] = new
            if leaving := self._leaving.get(new.metadata.uid):
                leaving.intersection_update(user.uid for user in new.status.reserved_for)
            self._record_allocation(new)
        either = old if new is None else new
        if either is not None:
            self._listeners.notify(either.key)

    def _forget(self, claim: ResourceClaim) -> None:
        uid = claim.metadata.uid
        del self.claims[claim.key]
        self.in_flight.pop(uid, None)
        self._leaving.pop(uid, None)
        self.devices.release(uid)
        pod_uid = pod_of_extended_resources(claim)
        if pod_uid:
            keys = self._of_extended[pod_uid]
            keys.discard(claim.key)
            if not keys:
                del self._of_extended[pod_uid]

    def _record_allocation(self, claim: ResourceClaim) -> None:
        """Record the allocation of a claim: the one in its status, else the one in flight."""
        uid, allocation = claim.metadata.uid, claim.status.allocation
        pod_uid = pod_of_extended_resources(claim)
        if pod_uid:
            self._of_extended[pod_uid].add(claim.key)
        if allocation is None:
            if uid not in self.in_flight:
                self.devices.release(uid)
            return
        self.in_flight.pop(uid, None)
        known = self.devices.usage.allocations.get(uid)
        if known is None or known.devices.results != allocation.devices.results:
            self.devices.release(uid)
            self.devices.allocate(uid, allocation)
        if pod_uid:
            # The in-flight allocation has a provisional UID, as the claim was created later.
            for of_pod in [u for u, each in self.in_flight.items() if pod_uid in each.pods]:
                if is_of_extended_resources(self.in_flight[of_pod].claim):
                    self.give_up(of_pod, pod_uid)

    def _take_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if new is not None:
            self.devices.set_slice(self._taint_rules.publish(new))
        elif old is not None:
            self._taint_rules.withdraw(old.metadata.name)
            self.devices.remove_slice(old.metadata.name)

    def _take_taint_rule(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        for published in self._taint_rules.change(old, new):
            self.devices.set_slice(published)

    def _take_class(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        if new is not None:
            self.devices.set_class(new)
        elif old is not None:
            self.devices.remove_class(old.metadata.name)
        self.class_names.changed(old, new)


def pod_of_extended_resources(claim: ResourceClaim) -> str:
    """The UID of the pod for whose extended resources a claim was made; empty for other claims."""
    if not is_of_extended_resources(claim):
        return ""
    owner = controller_of(claim.metadata)
    return "" if owner is None else owner.uid
