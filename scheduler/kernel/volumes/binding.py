"""From a decision to bound volumes: assumed objects, patches to write, and completion checks.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go (AssumePodVolumes, bindAPIUpdate,
checkBindings) v1.36; k8s.io/component-helpers storage/volume (GetBindVolumeToClaim).
Differs: each write is a patch of the changed fields, bound to UID and version, instead of the whole
object. Nothing is written where nothing changes. The binding fails if the claim was recreated or
bound to another volume, or the volume to another claim. No volume is written for a claim that is
gone, as the controller would release it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler.api.resource_versions import is_older_version
from scheduler.api.storage import (
    SELECTED_NODE,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
)
from scheduler.api.storage_wire import BOUND_BY_CONTROLLER
from scheduler.kernel.volumes.assume_cache import OutOfSyncError
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.kernel.volumes.decision import Binding, PodVolumes
from scheduler.kernel.volumes.reach import area_of_affinity, contains
from scheduler.kernel.volumes.translation import TranslationError, csi_affinity, plugin_of


class BindingError(ValueError):
    """Volumes will not be bound as decided; the message is upstream's."""


class Patch(msgspec.Struct, frozen=True):
    """A change to one object.

    Attributes:
        path: the API path of the object.
        body: a merge patch that fails if the object has changed since it was read.
    """

    path: str
    body: dict[str, Any]


def assume(catalog: VolumeCatalog, volumes: PodVolumes, node_name: str) -> PodVolumes:
    """Assume the volumes for the pod, so that later decisions count them as taken.

    Returns:
        The volumes and claims in their assumed state.

    Raises:
        OutOfSyncError: an object has changed since the decision; nothing is assumed.
    """
    bindings: list[Binding] = []
    provisions: list[PersistentVolumeClaim] = []
    try:
        for binding in volumes.bindings:
            volume = _bound(binding.volume, binding.claim)
            if volume is not binding.volume:
                catalog.assumed_volumes.assume(volume)
            bindings.append(Binding(binding.claim, volume))
        for claim in volumes.provisions:
            chosen = msgspec.structs.replace(claim, selected_node=node_name, is_annotated=True)
            catalog.assumed_claims.assume(chosen)
            provisions.append(chosen)
    except OutOfSyncError:
        revert(catalog, PodVolumes(tuple(bindings), tuple(provisions)))
        raise
    return PodVolumes(tuple(bindings), tuple(provisions))


def revert(catalog: VolumeCatalog, volumes: PodVolumes) -> None:
    """Drop the assumed objects that the API server has neither confirmed nor changed."""
    for binding in volumes.bindings:
        catalog.assumed_volumes.restore(binding.volume)
    for claim in volumes.provisions:
        catalog.assumed_claims.restore(claim)


def patch_of_binding(binding: Binding, stored: PersistentVolume | None) -> Patch | None:
    """Build the patch that reserves a volume for its claim; None if it is reserved already.

    `binding` has the version that the decision read; `stored` is the API server's version.
    """
    wanted, meta = binding.volume, binding.claim.metadata
    if stored is not None and not _is_same_version(stored, wanted):
        stored = None
    body = _unchanged(wanted)
    if stored is None or stored.claim != wanted.claim:
        body["spec"] = {
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            }
        }
    elif stored.is_bound_by_controller == wanted.is_bound_by_controller:
        return None
    if wanted.is_bound_by_controller:
        body["metadata"]["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
    return Patch(f"/api/v1/persistentvolumes/{wanted.key}", body)


def patch_of_provision(
    claim: PersistentVolumeClaim, stored: PersistentVolumeClaim | None
) -> Patch | None:
    """Build the patch that requests a volume on the selected node; None if it is requested already.

    `claim` has the version that the decision read; `stored` is the API server's version.
    """
    if (
        stored is not None
        and _is_same_version(stored, claim)
        and stored.selected_node == claim.selected_node
    ):
        return None
    body = _unchanged(claim)
    body["metadata"]["annotations"] = {SELECTED_NODE: claim.selected_node}
    meta = claim.metadata
    return Patch(f"/api/v1/namespaces/{meta.namespace}/persistentvolumeclaims/{meta.name}", body)


def are_bound(
    catalog: VolumeCatalog, written: PodVolumes, node_name: str, labels: Mapping[str, str]
) -> bool:
    """Whether the binding controller is done with all objects written for a pod.

    It reads the stored objects, as an assumed volume may belong to another claim by now.

    `written` are volumes and claims in the versions that the writes returned; `labels` are those of
    the node.

    Raises:
        BindingError: the volumes will not be bound as decided.
    """
    migrated = frozenset[str]()
    if node_name in catalog.csi_nodes:
        migrated = catalog.csi_nodes[node_name].migrated_plugins
    for binding in written.bindings:
        volume = catalog.volumes.get(binding.volume.key)
        claim = stored_claim(binding.claim, catalog)
        if volume is None or claim is None:
            missing = (
                f'persistentvolume "{binding.volume.key}"'
                if volume is None
                else (f'persistentvolumeclaim "{binding.claim.metadata.name}"')
            )
            raise BindingError(f"failed to check binding: {missing} not found")
        if _is_older(volume, binding.volume):
            return False
        _check_affinity(volume, node_name, labels, migrated)
        if volume.claim is None or volume.claim.uid != claim.metadata.uid:
            raise BindingError(f'ClaimRef got reset for pv "{volume.key}"')
        if claim.volume_name not in ("", volume.key):
            raise BindingError(f'pvc "{claim.metadata.name}" got pv "{claim.volume_name}"')
        if not claim.is_fully_bound:
            return False
    return all(
        _is_provisioned(catalog, claim, node_name, labels, migrated) for claim in written.provisions
    )


def _is_provisioned(
    catalog: VolumeCatalog,
    written: PersistentVolumeClaim,
    node_name: str,
    labels: Mapping[str, str],
    migrated: frozenset[str],
) -> bool:
    name = written.metadata.name
    claim = stored_claim(written, catalog)
    if claim is None:
        raise BindingError(
            f'failed to check provisioning pvc: persistentvolumeclaim "{name}" not found'
        )
    if _is_older(claim, written):
        return False
    if not claim.is_annotated:
        raise BindingError(f'selectedNode annotation reset for PVC "{name}"')
    if claim.selected_node != node_name:
        # A provisioner reports a failure by changing the annotation.
        raise BindingError(f'provisioning failed for PVC "{name}"')
    if claim.volume_name:
        volume = catalog.volumes.get(claim.volume_name)
        if volume is None:
            return False
        _check_affinity(volume, node_name, labels, migrated)
    return claim.is_fully_bound


def stored_claim(
    decided: PersistentVolumeClaim, catalog: VolumeCatalog
) -> PersistentVolumeClaim | None:
    """The stored version of a claim; a new claim of the same name does not count."""
    claim = catalog.claims.get(decided.key)
    if claim is None or claim.metadata.uid != decided.metadata.uid:
        return None
    return claim


def _bound(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume, reserved to the claim."""
    meta = claim.metadata
    reference = ClaimReference(meta.name, meta.namespace, meta.uid)
    by_controller = volume.is_bound_by_controller or not volume.is_bound_to(claim)
    if volume.claim == reference and by_controller == volume.is_bound_by_controller:
        return volume
    return msgspec.structs.replace(volume, claim=reference, is_bound_by_controller=by_controller)


def _check_affinity(
    volume: PersistentVolume, node_name: str, labels: Mapping[str, str], migrated: frozenset[str]
) -> None:
    plugin = plugin_of(volume.in_tree)
    affinity = volume.affinity
    if plugin is not None and plugin.is_migrated and plugin.name in migrated:
        try:
            affinity = csi_affinity(volume)
        except TranslationError as problem:
            raise BindingError(f"failed to translate pv to csi: {problem}") from problem
    if not contains(area_of_affinity(affinity), labels):
        raise BindingError(
            f'pv "{volume.key}" node affinity doesn\'t match node "{node_name}": '
            "no matching NodeSelectorTerms"
        )


def _unchanged(decided: PersistentVolume | PersistentVolumeClaim) -> dict[str, Any]:
    """A patch that changes nothing, and fails if the object has changed since the decision."""
    meta = decided.metadata
    return {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}}


def _is_same_version(
    one: PersistentVolume | PersistentVolumeClaim, other: PersistentVolume | PersistentVolumeClaim
) -> bool:
    return one.metadata.resource_version == other.metadata.resource_version


def _is_older(
    one: PersistentVolume | PersistentVolumeClaim, other: PersistentVolume | PersistentVolumeClaim
) -> bool:
    return is_older_version(one.metadata.resource_version, other.metadata.resource_version)
