"""The claims to volumes of pods that do not exist yet, as controllers would create them.

Source: kubernetes pkg/controller/volume/ephemeral, pkg/controller/statefulset v1.36.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from scheduler.api.objects import ObjectMeta
from scheduler.api.pods import PodInfo
from scheduler.api.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim, StorageClass
from scheduler.api.volume_sources import Volume
from scheduler.tools.offline.workload_names import STATEFUL_SET

Raw = Mapping[str, Any]


def claims_of_ephemeral_volumes(pod: Raw) -> Iterator[dict[str, Any]]:
    """Yield the claims that are made for the ephemeral volumes of a hand-written pod.

    Args:
        pod: with namespace and UID.
    """
    spec, meta = pod.get("spec"), pod["metadata"]
    volumes = spec.get("volumes") if isinstance(spec, Mapping) else None
    for volume in volumes if isinstance(volumes, list) else ():
        source = volume.get("ephemeral") if isinstance(volume, Mapping) else None
        template = source.get("volumeClaimTemplate") if isinstance(source, Mapping) else None
        if isinstance(template, Mapping):
            owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
            given = template.get("metadata")
            metadata = {
                **(given if isinstance(given, Mapping) else {}),
                "name": f"{meta['name']}-{volume.get('name', '')}",
                "namespace": meta["namespace"],
                "ownerReferences": [{**owner, "controller": True}],
            }
            yield {"metadata": metadata, "spec": template.get("spec")}


def with_own_volumes(
    pod: PodInfo,
    like: PodInfo,
    claims: Mapping[str, PersistentVolumeClaim],
    classes: Mapping[str, StorageClass],
) -> tuple[PodInfo, list[PersistentVolumeClaim]]:
    """A pod with the claims that are made for it alone, like those of another pod.

    A claim that waits for a pod has no volume yet. Any other is taken to get a volume like the
    present one, as it is bound before its pod has a node. A pod of a StatefulSet takes the claim
    that an earlier pod of its name left.

    Args:
        pod: the pod that might be there.
        like: a pod whose claims have been made.
        claims: by `namespace/name`, those that are there.
        classes: storage classes by name.

    Returns:
        The pod with the names of its claims, and the claims.
    """
    volumes, made = [], []
    for volume in pod.pod.volumes:
        own, name, before = _own(volume, pod, like)
        source = claims.get(f"{like.namespace}/{before}")
        if source is None or not name:
            volumes.append(volume)
            continue
        volumes.append(own)
        if volume.ephemeral is None and f"{pod.namespace}/{name}" in claims:
            continue
        metadata = ObjectMeta(
            name=name, namespace=pod.namespace, uid=f"claim {pod.uid}/{volume.name}"
        )
        controller = pod.uid if volume.ephemeral is not None else source.controller_uid
        claim = replace(source, metadata=metadata, controller_uid=controller)
        made.append(_unbound(claim) if _waits(claim, classes) else claim)
    if tuple(volumes) == pod.pod.volumes:
        return pod, made
    return PodInfo(replace(pod.pod, volumes=tuple(volumes)), pod.kind), made


def _own(volume: Volume, pod: PodInfo, like: PodInfo) -> tuple[Volume, str, str]:
    """The volume of the pod, its claim, and the claim of the other pod; no name for a shared one.

    A pod of a StatefulSet that is made again keeps its claim.
    """
    if volume.ephemeral is not None:
        return volume, f"{pod.name}-{volume.name}", f"{like.name}-{volume.name}"
    source, owner = volume.persistent_volume_claim, like.controller
    is_stateful = owner is not None and owner.kind == STATEFUL_SET and pod.name != like.name
    if source is None or not is_stateful or source.claim_name != f"{volume.name}-{like.name}":
        return volume, "", ""
    name = f"{volume.name}-{pod.name}"
    own = replace(volume, persistent_volume_claim=replace(source, claim_name=name))
    return own, name, source.claim_name


def _waits(claim: PersistentVolumeClaim, classes: Mapping[str, StorageClass]) -> bool:
    found = classes.get(claim.class_name)
    return found is not None and found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def _unbound(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    return replace(
        claim,
        volume_name="",
        selected_node=None,
        is_annotated=False,
        is_bind_completed=False,
        is_lost=False,
    )
