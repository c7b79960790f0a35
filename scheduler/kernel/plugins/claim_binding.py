"""PreBind of DynamicResources: writes the reserved allocations into claims and awaits readiness.

Source: pkg/scheduler/framework/plugins/dynamicresources dynamicresources.go (PreBind, bindClaim,
isPodReadyForBinding), extendeddynamicresources.go (createExtendedResourceClaim) v1.36.3.
Differs: pods that share a claim write one after the other, and reservations do not conflict. A
change of a claim ends the wait, instead of polling every five seconds. Further claims for a pod's
extended resources, which earlier attempts have left, are deleted before it is bound. It fails if no
event shows its claim; upstream binds it, and frees the devices. If it is unknown whether a write
succeeded, the claim is read and the write repeated. Upstream gives the devices to others if its
watch is behind. The deletion of a pod cancels no write under way.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec

from scheduler.api.devices import AllocationResult, DeviceId, ResourceClaim
from scheduler.api.pods import PodInfo
from scheduler.errors import RequestError
from scheduler.kernel.devices import claim_writes as writes
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.devices.extended_resources import body_of, is_of_extended_resources
from scheduler.kernel.devices.pod_claims import (
    BindingOutcome,
    ClaimStore,
    DeviceBindingError,
    has_binding_conditions,
    is_ready,
    is_reserved_for,
    must_be_made_ready,
)
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.status import SUCCESS, Status, error
from scheduler.observability.device_metrics import DeviceMetrics

_NOT_FOUND: Final = 404
_TOO_MANY_REQUESTS: Final = 429
_TRIES: Final = 5
_PAUSE_SECONDS: Final = 0.01
"""Pause between tries of a write after a conflict. Source: client-go util/retry DefaultRetry."""
_ASK_AGAIN_SECONDS: Final = 5.0
"""Pause between reads of a claim that have no answer."""
_SHOWN_SECONDS: Final = 120.0
"""Source: extendeddynamicresources.go AssumeExtendedResourceTimeoutDefaultSeconds."""


class ClaimWriteError(RequestError):
    """A claim changed after the decision, or a write of it failed; the message is upstream's."""


class TakenClaims:
    """The claims of a pod, and the allocations reserved for it.

    Attributes:
        claims: its claims; the written ones in their new version.
        allocations: the allocations made by Reserve, by index of the claim.
        mappings: the requests that serve each container's extended resources.
    """

    __slots__ = ("allocations", "claims", "mappings")

    def __init__(self, claims: ClaimStore) -> None:
        self.claims = claims
        self.allocations: dict[int, AllocationResult] = {}
        self.mappings: Sequence[Any] = ()

    @property
    def wait_for_devices(self) -> bool:
        """Whether the pod is bound only once drivers have made devices ready."""
        return any(map(must_be_made_ready, self.allocations.values())) or any(
            map(has_binding_conditions, self.claims)
        )


class ClaimBinding:
    """Writes claims, and waits for their devices; one for each profile.

    Args:
        handle: the handle of the plugin.
        timeout_seconds: the time for devices to get ready, from their allocation.
    """

    def __init__(self, handle: Handle, timeout_seconds: float) -> None:
        self._handle = handle
        self._timeout_seconds = timeout_seconds
        self._metrics = DeviceMetrics(handle.metrics)

    async def bind(self, taken: TakenClaims, pod: PodInfo, node_name: str) -> Status:
        """Write the allocations, and wait until the devices are ready."""
        try:
            for place, claim in enumerate(taken.claims):
                if not is_reserved_for(claim, pod):
                    async with self._handle.api.turn(claim.metadata.uid):
                        # Unreserve releases the devices: each write must have its response before.
                        writing = self._bind(taken, place, pod)
                        taken.claims[place] = await self._handle.api.run_to_end(writing)
            if any(map(has_binding_conditions, taken.claims)):
                await self._wait(taken, pod, node_name)
        except (DeviceBindingError, ClaimWriteError) as problem:
            return error(str(problem))
        return SUCCESS

    # --- writing ----------------------------------------------------------------------------------

    async def _bind(self, taken: TakenClaims, place: int, pod: PodInfo) -> ResourceClaim:
        """Write Reserve's allocation and the pod's reservation; return the claim as written."""
        claim, allocation = taken.claims[place], taken.allocations.get(place)
        is_extended = place == taken.claims.own
        if is_extended:
            if allocation is None:
                return claim
            claim = await self._create(pod, claim)
            try:
                return await self._write_extended(claim, taken, pod)
            except ClaimWriteError as problem:
                # Unreserve deletes only a claim that the watch shows.
                if claim.key in self._catalog.claims:
                    raise
                try:
                    await self._delete(claim)
                except ClaimWriteError as further:
                    raise ClaimWriteError(f"{problem}; {further}") from problem
                raise
        if allocation is not None and pod.group_name:
            claim = _same_claim(claim, self._catalog.claims.get(claim.key))
        return await self._write(claim, allocation, pod)

    async def _write_extended(
        self, claim: ResourceClaim, taken: TakenClaims, pod: PodInfo
    ) -> ResourceClaim:
        """Allocate a claim that was created, and write it to the pod's status.

        Then wait for its watch event: Unreserve deletes only claims that the catalog has, and no
        later event may free devices that are in flight for a bound pod.
        """
        claim = await self._write(claim, taken.allocations[taken.claims.own], pod)
        body = writes.status_of_extended_resources(pod, claim.metadata.name, taken.mappings)
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        purpose = f"update pod {pod.key} ExtendedResourceClaimStatus"
        await self._request("PATCH", path, body, purpose)
        shown, listen = partial(self._is_shown, pod), partial(self._catalog.listen, [claim.key])
        if not await self._handle.api.until(shown, listen, _SHOWN_SECONDS):
            raise ClaimWriteError(f"claim {claim.key} for extended resources is not seen allocated")
        # Now the catalog also has the claims that were created before this one.
        for spare in self._catalog.claims_of_extended_resources(pod.uid):
            if spare.metadata.uid != claim.metadata.uid:
                await self._delete(spare)
        return claim

    def _is_shown(self, pod: PodInfo) -> bool:
        return not any(map(is_of_extended_resources, self._catalog.claims_in_flight(pod.uid)))

    async def _delete(self, claim: ResourceClaim) -> None:
        """Delete a claim that was created for a pod that did not get it.

        Raises:
            ClaimWriteError: the claim remains; the pod's next attempt or its deletion removes it.
        """
        try:
            for write in writes.deleting(claim):
                await self._request(write.method, write.path, write.body, "delete")
        except ClaimWriteError as problem:
            if problem.status != _NOT_FOUND:
                told = f"claim {claim.key} for extended resources is left: {problem}"
                raise ClaimWriteError(told) from problem

    async def _create(self, pod: PodInfo, claim: ResourceClaim) -> ResourceClaim:
        path, body = writes.claims_path(pod.namespace), body_of(pod, claim)
        purpose = "create claim for extended resources"
        try:
            created = await self._claim("POST", path, body, purpose)
        except ClaimWriteError:
            self._metrics.claim_creates["failure"].inc()
            raise
        self._metrics.claim_creates["success"].inc()
        return created

    async def _write(
        self, claim: ResourceClaim, allocation: AllocationResult | None, pod: PodInfo
    ) -> ResourceClaim:
        """Write a claim; read it and write again while it is uncertain whether a write succeeded.

        Reading the claim also reports its allocation to the engine. If it has none, the repeated
        write makes the first one, which may still be under way, fail by conflict.
        """
        tried = 0
        while True:
            left = self._to_write(claim, allocation, pod)
            _check_as_decided(claim, left)
            try:
                return await self._write_once(claim, left, pod)
            except ClaimWriteError as problem:
                if problem.is_certain:
                    raise
                tried, failed = tried + 1, problem
            before, claim = claim, await self._current(claim)
            if is_reserved_for(claim, pod) and _has(claim, left or before.status.allocation):
                return claim
            if tried == _TRIES:
                raise failed

    async def _current(self, claim: ResourceClaim) -> ResourceClaim:
        """Read a claim until the API server responds; its devices stay reserved meanwhile."""
        purpose, pause = f"get updated claim {claim.key} after conflict", _PAUSE_SECONDS
        while True:
            await self._handle.api.until(lambda: False, lambda _: lambda: None, pause)
            try:
                current = await self._claim("GET", writes.path_of(claim), None, purpose)
            except ClaimWriteError as problem:
                if problem.is_certain and problem.status != _TOO_MANY_REQUESTS:
                    raise
                pause = _ASK_AGAIN_SECONDS
            else:
                return _same_claim(claim, current)

    def _to_write(
        self, claim: ResourceClaim, allocation: AllocationResult | None, pod: PodInfo
    ) -> AllocationResult | None:
        """The allocation still to be written; None if another pod of the group has written it.

        Raises:
            ClaimWriteError: the claim was deallocated since; other claims may have the devices.
        """
        if allocation is None or not pod.group_name or is_of_extended_resources(claim):
            return allocation
        if claim.status.allocation is not None:
            return None if _has(claim, allocation) else allocation
        pending = self._catalog.in_flight.get(claim.metadata.uid)
        if pending is None or pod.uid not in pending.pods:
            raise ClaimWriteError(f"claim {claim.key} got deallocated elsewhere in the meantime")
        return allocation

    async def _write_once(
        self, claim: ResourceClaim, allocation: AllocationResult | None, pod: PodInfo
    ) -> ResourceClaim:
        purpose = f"add reservation to claim {claim.key}"
        if allocation is not None:
            purpose = f"add allocation and reservation to claim {claim.key}"
            if writes.FINALIZER not in claim.metadata.finalizers:
                body = writes.protecting(claim)
                claim = await self._claim(
                    "PATCH", writes.path_of(claim), body, f"add finalizer to claim {claim.key}"
                )
        body = writes.reserving(claim, pod, allocation, self._handle.wall())
        written = await self._claim("PATCH", writes.path_of(claim, "/status"), body, purpose)
        if allocation is None:
            _check_as_decided(written, None)
            _check_still_allocated(claim, written)
        return written

    async def _claim(self, method: str, path: str, body: object, purpose: str) -> ResourceClaim:
        """Send a request whose response is a claim.

        Raises:
            ClaimWriteError: the request failed, or the response is no claim.
        """
        answer = await self._request(method, path, body, purpose)
        try:
            return self._claim_in(answer)
        except (KeyError, TypeError, msgspec.ValidationError) as problem:
            failed = ClaimWriteError(f"{purpose}: expected a ResourceClaim in the answer")
            failed.is_certain = False
            raise failed from problem

    async def _request(self, method: str, path: str, body: object, purpose: str) -> Any:
        try:
            return await self._handle.api.request(method, path, body)
        except RequestError as problem:
            failed = ClaimWriteError(f"{purpose}: {problem}")
            failed.status, failed.is_certain = problem.status, problem.is_certain
            raise failed from problem

    def _claim_in(self, answer: Any) -> ResourceClaim:
        """The claim in a response; usually the engine has received it with the response."""
        written = answer["metadata"]
        claim = self._catalog.claims.get(f"{written['namespace']}/{written['name']}")
        version = written.get("uid"), written.get("resourceVersion")
        if claim is None or (claim.metadata.uid, claim.metadata.resource_version) != version:
            return writes.as_claim(answer)
        return claim

    # --- waiting ----------------------------------------------------------------------------------

    async def _wait(self, taken: TakenClaims, pod: PodInfo, node_name: str) -> None:
        """Wait until drivers have made all devices ready, and count the outcome.

        Raises:
            DeviceBindingError: a device has failed or was allocated elsewhere, or the time is over.
        """
        note = f"waiting for binding conditions for device on node {node_name}"
        self._handle.record_event(pod, "Normal", "BindingConditionsPending", note)
        began, outcome = self._handle.now(), BindingOutcome.ERROR
        try:
            await self._until_ready(taken.claims)
            outcome = BindingOutcome.SUCCESS
        except DeviceBindingError as problem:
            outcome = problem.outcome
            raise
        finally:
            self._count(taken.claims, outcome.value, self._handle.now() - began)

    async def _until_ready(self, claims: ClaimStore) -> None:
        """Wait until all claims are ready; each has its own deadline, and is awaited in turn.

        A claim that is ready may have been allocated long ago: only the first one that is not
        ready can be too late.
        """
        written = [claim for claim in claims if claim.status.allocation is not None]
        listen = partial(self._catalog.listen, [claim.key for claim in claims])
        latest = self._handle.wall() + self._timeout_seconds
        while (late := self._first_unready(written)) is not None:
            seconds = max(0.0, min(self._ends(late), latest) - self._handle.wall())
            if not await self._handle.api.until(
                partial(self._is_over, late, written), listen, seconds
            ):
                message = f"device binding timeout: claim={late.metadata.name}"
                raise DeviceBindingError(message, BindingOutcome.TIMEOUT)

    def _is_over(self, awaited: ResourceClaim, written: Sequence[ResourceClaim]) -> bool:
        """Whether a claim is no longer the first one that is not ready."""
        found = self._first_unready(written)
        return found is None or found.key != awaited.key

    def _first_unready(self, claims: Sequence[ResourceClaim]) -> ResourceClaim | None:
        """The first claim that is not ready, by the latest watch events; None if all are."""
        for written in claims:
            claim = self._catalog.claims.get(written.key)
            if claim is None or claim.metadata.uid != written.metadata.uid:
                message = f'could not find ResourceClaim "{written.key}"'
                raise DeviceBindingError(message, BindingOutcome.ERROR)
            if claim.status.allocation is not None and _devices(claim) != _devices(written):
                message = f"claim {written.key} got allocated elsewhere in the meantime"
                raise DeviceBindingError(message, BindingOutcome.ERROR)
            if not is_ready(claim):
                return claim
        return None

    def _ends(self, claim: ResourceClaim) -> float:
        """The deadline for a claim to become ready, in seconds since 1970."""
        allocation, now = claim.status.allocation, self._handle.wall()
        began = None if allocation is None else writes.seconds_of(allocation.allocation_timestamp)
        return (now if began is None else min(began, now)) + self._timeout_seconds

    def _count(self, claims: ClaimStore, outcome: str, seconds: float) -> None:
        profile = self._handle.profile
        for claim in claims:
            allocation = claim.status.allocation
            for result in () if allocation is None else allocation.devices.results:
                labels = profile, result.driver, outcome
                self._metrics.wait_duration[labels].observe(seconds)
                if result.binding_conditions:
                    self._metrics.waited_allocations[labels].inc()

    @property
    def _catalog(self) -> ClaimCatalog:
        return self._handle.shared(ClaimCatalog)


def _same_claim(claim: ResourceClaim, now: ResourceClaim | None) -> ResourceClaim:
    """The current version of a claim; a new claim of the same name does not count.

    Differs: upstream would allocate the devices to the new claim.
    """
    if now is None or now.metadata.uid != claim.metadata.uid:
        raise ClaimWriteError(f"claim {claim.key} got deleted in the meantime")
    return now


def _check_as_decided(claim: ResourceClaim, allocation: AllocationResult | None) -> None:
    if claim.metadata.deletion_timestamp is not None:
        raise ClaimWriteError(f"claim {claim.key} got deleted in the meantime")
    if allocation is not None and claim.status.allocation is not None:
        raise ClaimWriteError(f"claim {claim.key} got allocated elsewhere in the meantime")
    if allocation is None and claim.status.allocation is None:
        raise ClaimWriteError(f"claim {claim.key} got deallocated elsewhere in the meantime")


def _check_still_allocated(claim: ResourceClaim, written: ResourceClaim) -> None:
    """Check that the reserved claim has the same allocation, which the reservation now keeps."""
    if not _has(written, claim.status.allocation):
        raise ClaimWriteError(f"claim {claim.key} got allocated elsewhere in the meantime")


def _devices(claim: ResourceClaim) -> list[DeviceId]:
    allocation = claim.status.allocation
    return [] if allocation is None else [each.id for each in allocation.devices.results]


def _has(claim: ResourceClaim, allocation: AllocationResult | None) -> bool:
    """Whether a claim has the devices of an allocation."""
    there = claim.status.allocation
    if there is None or allocation is None:
        return False
    return there.devices.results == allocation.devices.results
