"""Inline disks of pods that only one pod of a node may use, or several readers.

Source: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go
(isVolumeConflict) v1.36.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from scheduler.api.volume_sources import Volume

DISK_TAKEN: Final = "node(s) had no available disk"

Identity: TypeAlias = tuple[str, ...]

_ANY_SERVER: Final = ("",)
"""For disks that have one name on all servers."""


class Disk(msgspec.Struct, frozen=True, gc=False):
    """A disk of a pod.

    Attributes:
        identity: equal for equal disks.
        is_shared: whether the disk is read-only here, and may be shared with other readers.
        servers: the servers that have it; disks without a common one are not equal.
    """

    identity: Identity
    is_shared: bool
    servers: frozenset[str]


ByIdentity: TypeAlias = Mapping[Identity, Sequence[Disk]]


def disks_of(volumes: Iterable[Volume]) -> Sequence[Disk]:
    """The disks among a pod's volumes, each once for all its servers."""
    servers: defaultdict[tuple[Identity, bool], set[str]] = defaultdict(set)
    for volume in volumes:
        for identity, is_shared, named in _named(volume):
            servers[identity, is_shared].update(named)
    return [Disk(*disk, frozenset(named)) for disk, named in servers.items()]


def _named(volume: Volume) -> Iterator[tuple[Identity, bool, Iterable[str]]]:
    if volume.gce_persistent_disk is not None:
        disk = volume.gce_persistent_disk
        yield ("gce", disk.pd_name), disk.read_only, _ANY_SERVER
    if volume.aws_elastic_block_store is not None:
        yield ("ebs", volume.aws_elastic_block_store.volume_id), False, _ANY_SERVER
    if volume.iscsi is not None:
        yield ("iscsi", volume.iscsi.iqn), volume.iscsi.read_only, _ANY_SERVER
    if volume.rbd is not None:
        image = volume.rbd
        yield ("rbd", image.pool, image.image), image.read_only, image.monitors


def by_identity(disks: Iterable[Disk]) -> ByIdentity:
    """The disks of each identity."""
    found: defaultdict[Identity, list[Disk]] = defaultdict(list)
    for disk in disks:
        found[disk.identity].append(disk)
    return dict(found)


def conflict(wanted: ByIdentity, held: Iterable[Disk]) -> bool:
    """Whether the disks of two pods exclude each other on one node."""
    return any(excludes(disk, other) for disk in held for other in wanted.get(disk.identity, ()))


def excludes(one: Disk, other: Disk) -> bool:
    """Whether two disks of one identity exclude each other on one node."""
    return not ((one.is_shared and other.is_shared) or one.servers.isdisjoint(other.servers))
