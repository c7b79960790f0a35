"""Inline disks of pods that only one pod of a node may use, or several readers.

Source: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go
(isVolumeConflict) v1.36.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from scheduler.api.objects import Volume

DISK_TAKEN: Final = "node(s) had no available disk"


class Disk(msgspec.Struct, frozen=True, gc=False):
    """A disk of a pod.

    Attributes:
        identity: equal for equal disks.
        is_shared: whether the disk is read-only here, and may be shared with other readers.
    """

    identity: tuple[str, ...]
    is_shared: bool = False


def disks_of(volumes: Iterable[Volume]) -> Iterator[Disk]:
    """The disks among a pod's volumes."""
    for volume in volumes:
        if volume.gce_persistent_disk is not None:
            disk = volume.gce_persistent_disk
            yield Disk(("gce", disk.pd_name), disk.read_only)
        if volume.aws_elastic_block_store is not None:
            yield Disk(("ebs", volume.aws_elastic_block_store.volume_id))
        if volume.iscsi is not None:
            yield Disk(("iscsi", volume.iscsi.iqn), volume.iscsi.read_only)
        if volume.rbd is not None:
            image = volume.rbd
            for monitor in image.monitors:
                yield Disk(("rbd", monitor, image.pool, image.image), image.read_only)


def conflict(wanted: Iterable[Disk], held: Iterable[Disk]) -> bool:
    """Whether the disks of two pods exclude each other on one node."""
    shared: dict[tuple[str, ...], bool] = {}
    for disk in held:
        shared[disk.identity] = disk.is_shared and shared.get(disk.identity, True)
    return any(
        disk.identity in shared and not (disk.is_shared and shared[disk.identity])
        for disk in wanted
    )
