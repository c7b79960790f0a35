"""The resource claims of a pod.

Source: k8s.io/dynamic-resource-allocation resourceclaim (Name, IsForPod, IsReservedForPod) v0.36.3;
pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (foreachPodResourceClaim,
isClaimReadyForBinding) v1.36.3.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from scheduler.api.devices import (
    AllocatedDeviceStatus,
    AllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from scheduler.api.objects import PodResourceClaim
from scheduler.api.pods import PodInfo

_TRUE = "True"


class ClaimProblem(ValueError):  # noqa: N818 - a reason to reject the pod, no error
    """A claim that the pod cannot use yet; the message is upstream's."""


class BindingOutcome(Enum):
    """The outcome of the wait for devices, as the label values of metrics."""

    SUCCESS = "success"
    FAILURE = "failure"
    TIMEOUT = "timeout"
    ERROR = "error"


class DeviceBindingError(ValueError):
    """Devices cannot be made ready; the message is upstream's."""

    def __init__(self, message: str, outcome: BindingOutcome = BindingOutcome.FAILURE) -> None:
        super().__init__(message)
        self.outcome = outcome


class ClaimStore:
    """The claims of one pod: its own in order, then the one for its extended resources.

    Attributes:
        names: the pod's names for its own claims.
        own: number of its own claims.
    """

    __slots__ = ("_claims", "names", "own")

    def __init__(
        self,
        named: Sequence[tuple[str, ResourceClaim]],
        extended: ResourceClaim | None = None,
    ) -> None:
        self.names = tuple(name for name, _ in named)
        self.own = len(named)
        self._claims = [claim for _, claim in named]
        if extended is not None:
            self._claims.append(extended)

    def __len__(self) -> int:
        return len(self._claims)

    def __iter__(self) -> Iterator[ResourceClaim]:
        return iter(self._claims)

    def __getitem__(self, index: int) -> ResourceClaim:
        return self._claims[index]

    def __setitem__(self, index: int, claim: ResourceClaim) -> None:
        self._claims[index] = claim

    @property
    def extended(self) -> ResourceClaim | None:
        """The claim for extended resources, or None."""
        return self._claims[self.own] if self.own < len(self._claims) else None

    def to_allocate(self) -> list[int]:
        """The indexes of the unallocated claims."""
        return [i for i, claim in enumerate(self._claims) if claim.status.allocation is None]


def claims_of(
    pod: PodInfo, claims: Mapping[str, ResourceClaim]
) -> Iterator[tuple[str, ResourceClaim]]:
    """The claims of a pod, each with the pod's name for it.

    Args:
        pod: the pod.
        claims: by `namespace/name`.

    Raises:
        ClaimProblem: a claim is missing, being deleted, or another pod's.
    """
    for each in pod.resource_claims:
        name = _name_of(pod, each)
        if name is None:
            continue
        claim = claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            raise ClaimProblem(f'could not find ResourceClaim "{pod.namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimProblem(f'resourceclaim "{name}" is being deleted')
        if each.resource_claim_name is None and not is_controlled_by(claim, pod):
            raise ClaimProblem(
                f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)"
            )
        yield each.name, claim


def is_controlled_by(claim: ResourceClaim, pod: PodInfo) -> bool:
    """Whether the pod is the controller of the claim."""
    return any(
        owner.controller and owner.uid == pod.uid for owner in claim.metadata.owner_references
    )


def is_reserved_for(claim: ResourceClaim, pod: PodInfo) -> bool:
    """Whether the pod may use the claim."""
    return any(user.uid == pod.uid for user in claim.status.reserved_for)


def is_free_for(claim: ResourceClaim, pod: PodInfo) -> bool:
    """Whether no other pod may use the claim."""
    return all(user.uid == pod.uid for user in claim.status.reserved_for)


def has_binding_conditions(claim: ResourceClaim) -> bool:
    """Whether the devices of an allocated claim must be made ready before a pod is bound."""
    allocation = claim.status.allocation
    return allocation is not None and must_be_made_ready(allocation)


def must_be_made_ready(allocation: AllocationResult) -> bool:
    """Whether a driver must make devices ready before a pod is bound."""
    return any(result.binding_conditions for result in allocation.devices.results)


def is_ready(claim: ResourceClaim) -> bool:  # noqa: C901 - conditions are read in upstream's order
    """Whether the devices of an allocated claim are ready for a pod to be bound.

    Raises:
        DeviceBindingError: a device will never be ready.
    """
    if claim.status.allocation is None:
        return False
    for result in claim.status.allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = _status_of(claim, result)
        if status is None:
            return False
        conditions = {condition.type: condition for condition in status.conditions}
        for name in result.binding_failure_conditions:
            failed = conditions.get(name)
            if failed is not None and failed.status == _TRUE:
                raise DeviceBindingError(
                    f"device binding failed: claim={claim.metadata.name}, "
                    f'reason={failed.reason}, message="{failed.message}"'
                )
        for name in result.binding_conditions:
            if name not in conditions or conditions[name].status != _TRUE:
                return False
    return True


def _name_of(pod: PodInfo, claim: PodResourceClaim) -> str | None:
    """The name of the ResourceClaim; None where the pod needs none."""
    if claim.resource_claim_name is not None:
        return claim.resource_claim_name
    if claim.resource_claim_template_name is None:
        raise ClaimProblem(
            f'pod "{pod.key}", spec.resourceClaim "{claim.name}": '
            "none of the supported fields are set"
        )
    for status in pod.pod.status.resource_claim_statuses:
        if status.name == claim.name:
            return status.resource_claim_name
    raise ClaimProblem(f'pod "{pod.key}": ResourceClaim not created yet')


def _status_of(
    claim: ResourceClaim, result: DeviceRequestAllocationResult
) -> AllocatedDeviceStatus | None:
    return next((status for status in claim.status.devices if status.id == result.id), None)
