"""The claims of a pod: their names, their obstacles to scheduling, and their binding.

Source: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go (podHasPVCs), binder.go
(GetPodVolumeClaims) v1.36; k8s.io/component-helpers storage/ephemeral, storage/volume.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.api.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim, StorageClass

UNBOUND_IMMEDIATE: Final = "pod has unbound immediate PersistentVolumeClaims"


class ClaimName(msgspec.Struct, frozen=True, gc=False):
    """A claim that a pod uses.

    Attributes:
        namespace: the namespace of the pod.
        name: the name of the claim.
        is_ephemeral: whether the claim is for a generic ephemeral volume of the pod.
    """

    namespace: str
    name: str
    is_ephemeral: bool = False

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class PodVolumeClaims(msgspec.Struct, frozen=True):
    """The claims of a pod, by binding state.

    Attributes:
        bound: claims that have their volume.
        delayed: claims that get a volume once the pod's node is chosen.
        immediate: other claims; they should be bound before the pod is scheduled.
    """

    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[PersistentVolumeClaim, ...]
    immediate: tuple[PersistentVolumeClaim, ...]


class ClaimError(ValueError):
    """A class without a volume binding mode."""


def claim_names(pod: PodInfo, *, ephemeral: bool = True) -> Iterator[ClaimName]:
    """The claims that the pod uses, in order; ephemeral ones are made for the pod alone."""
    for volume in pod.pod.volumes:
        if volume.persistent_volume_claim is not None:
            yield ClaimName(pod.namespace, volume.persistent_volume_claim.claim_name)
        elif ephemeral and volume.ephemeral is not None:
            yield ClaimName(pod.namespace, f"{pod.name}-{volume.name}", is_ephemeral=True)


def not_found(name: str) -> str:
    """The message for a claim that does not exist."""
    return f'persistentvolumeclaim "{name}" not found'


def not_owner(pod: PodInfo, name: str) -> str:
    """The message about an ephemeral volume's claim that another object owns."""
    return f"PVC {pod.namespace}/{name} was not created for pod {pod.key} (pod is not owner)"


def is_foreign(name: ClaimName, claim: PersistentVolumeClaim, pod: PodInfo) -> bool:
    """Whether the claim is that of an ephemeral volume, and the pod is not its controller."""
    return name.is_ephemeral and claim.controller_uid != pod.uid


def obstacle(pod: PodInfo, name: ClaimName, claim: PersistentVolumeClaim | None) -> str | None:
    """The reason why the pod cannot be scheduled with this claim, or None."""
    if claim is None:
        if name.is_ephemeral:
            return (
                "waiting for ephemeral volume controller to create the persistentvolumeclaim "
                f'"{name.name}"'
            )
        return not_found(name.name)
    if claim.is_lost:
        return (
            f'persistentvolumeclaim "{name.name}" bound to non-existent persistentvolume '
            f'"{claim.volume_name}"'
        )
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name.name}" is being deleted'
    if is_foreign(name, claim, pod):
        return not_owner(pod, name.name)
    return None


def sorted_claims(
    claims: Iterable[PersistentVolumeClaim],
    classes: Mapping[str, StorageClass],
) -> PodVolumeClaims:
    """Sort the claims of a pod by binding state.

    Raises:
        ClaimError: a class has no volume binding mode.
    """
    bound, delayed, immediate = [], [], []
    for claim in claims:
        if claim.is_fully_bound:
            bound.append(claim)
        elif is_delayed(claim, classes) and not claim.volume_name:
            delayed.append(claim)
        else:
            immediate.append(claim)
    return PodVolumeClaims(tuple(bound), tuple(delayed), tuple(immediate))


def is_delayed(claim: PersistentVolumeClaim, classes: Mapping[str, StorageClass]) -> bool:
    """Whether the claim's class waits for its first consumer.

    Raises:
        ClaimError: the class has no volume binding mode.
    """
    found = classes.get(claim.class_name) if claim.class_name else None
    if found is None:
        return False
    if found.volume_binding_mode is None:
        raise ClaimError(f'VolumeBindingMode not set for StorageClass "{claim.class_name}"')
    return found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
