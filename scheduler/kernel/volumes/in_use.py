"""The volumes that the pods of each node use, by row; updated on rows whose pods changed."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
import numpy as np

from scheduler.api.nodes import NodeInfo
from scheduler.api.pods import PodInfo
from scheduler.api.volume_sources import Volume
from scheduler.kernel.snapshot import Mask, Rows, Snapshot
from scheduler.kernel.snapshot.changes import RowLog
from scheduler.kernel.volumes.claims import ClaimName, claim_names
from scheduler.kernel.volumes.disks import (
    ByIdentity,
    Disk,
    Identity,
    conflict,
    disks_of,
    excludes,
)
from scheduler.kernel.volumes.translation import plugin_of

CLAIM_IN_USE: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)


class PodUse(msgspec.Struct, frozen=True, gc=False):
    """The claims and migratable volumes of one pod."""

    pod: PodInfo
    claims: tuple[ClaimName, ...]
    migratable: tuple[Volume, ...]


class NodeUse(msgspec.Struct, frozen=True, gc=False):
    """The volumes and disks that the pods of one node use."""

    pods: tuple[PodUse, ...] = ()
    disks: tuple[Disk, ...] = ()


UNUSED: Final = NodeUse()


def use_of(pods: Iterable[PodInfo]) -> NodeUse:
    """Collect the volumes and disks of some pods."""
    uses: list[PodUse] = []
    disks: list[Disk] = []
    for pod in pods:
        volumes = pod.pod.volumes
        if volumes:
            migratable = tuple(v for v in volumes if plugin_of(v) is not None)
            uses.append(PodUse(pod, tuple(claim_names(pod)), migratable))
            disks.extend(disks_of(volumes))
    return NodeUse(tuple(uses), tuple(disks)) if uses else UNUSED


class VolumesInUse:
    """The volumes and disks that the pods of each node use.

    Attributes:
        pvc_ref_counts: by claim that is not ephemeral, the number of pods' volumes that name it.
    """

    def __init__(self) -> None:
        self.pvc_ref_counts: Counter[str] = Counter()
        self._infos: list[NodeInfo | None] = []
        self._rows: list[NodeUse] = []
        self._holders: defaultdict[Identity, dict[int, list[Disk]]] = defaultdict(dict)
        """By disk and row, as the row's pods hold it."""
        self._log: RowLog | None = None
        self._position = -1
        self._base: list[NodeInfo | None] | None = None

    def refresh(self, snapshot: Snapshot) -> Iterable[int]:
        """Process the changes of the snapshot since the last call; return the updated rows.

        Cost: the pods of the rows on which pods were added or removed since then. For another
        snapshot, such as a fork, also a look at each pod.
        """
        log, table = snapshot.pod_log, snapshot.table
        rows = log.since(self._position) if log is self._log else None
        missing = table.size - len(self._rows)
        self._rows.extend([UNUSED] * missing)
        self._infos.extend([None] * missing)
        changed = self._differing(table.infos) if rows is None else rows.tolist()
        for row in changed:
            self._set(row, table.infos[row] if row < table.size else None)
        self._log, self._position = log, log.position
        return changed

    def copy(self) -> "VolumesInUse":
        """An independent copy, whose first snapshot may be another one."""
        copy = VolumesInUse()
        copy.pvc_ref_counts = self.pvc_ref_counts.copy()
        copy._infos, copy._rows = self._infos.copy(), self._rows.copy()
        for identity, held in self._holders.items():
            copy._holders[identity] = {row: disks.copy() for row, disks in held.items()}
        return copy

    def _differing(self, infos: list[NodeInfo | None]) -> list[int]:
        """Turn to the nodes of another snapshot; return the rows that use other volumes there.

        Mostly these are few: snapshots in turn are of one cluster.
        """
        self._base = infos
        self._infos[: len(infos)] = infos
        self._infos[len(infos) :] = [None] * (len(self._infos) - len(infos))
        return [
            row
            for row, (info, use) in enumerate(zip(self._infos, self._rows, strict=True))
            if [each.pod for each in use.pods]
            != ([] if info is None else [pod for pod in info.pods.values() if pod.pod.volumes])
        ]

    def row(self, row: int) -> NodeUse:
        """The volumes and disks of a row's pods, as of the last `refresh`."""
        return self._rows[row]

    def pods(self, where: Callable[[PodUse], bool]) -> Iterator[PodInfo]:
        """The pods whose use satisfies a predicate; for explanations, as it visits all pods."""
        return (use.pod for row in self._rows for use in row.pods if where(use))

    def on_fork(self, snapshot: Snapshot, rows: Rows) -> Iterator[tuple[int, NodeUse]]:
        """The rows among those given on which other pods run than at the last `refresh`."""
        infos = snapshot.table.infos
        if infos is self._base:
            return
        wanted = range(*rows.indices(len(infos))) if isinstance(rows, slice) else rows.tolist()
        for row in wanted:
            info = infos[row]
            if info is not self._infos[row]:
                yield row, use_of(() if info is None else info.pods.values())

    def rows_with_conflict(self, wanted: ByIdentity, snapshot: Snapshot, rows: Rows) -> Mask:
        """Per row of the table whether a disk conflicts with the wanted ones.

        Only the given rows are valid.

        Cost: the pods that hold the wanted disks.
        """
        found = np.zeros(snapshot.table.size, np.bool_)
        for identity, disks in wanted.items():
            for row, held in self._holders.get(identity, {}).items():
                found[row] |= any(excludes(disk, other) for disk in disks for other in held)
        for row, use in self.on_fork(snapshot, rows):
            found[row] = conflict(wanted, use.disks)
        return found

    def _set(self, row: int, info: NodeInfo | None) -> None:
        use = use_of(info.pods.values()) if info is not None else UNUSED
        former = self._rows[row]
        for sign, there in ((-1, former), (1, use)):
            for pod_use in there.pods:
                for name in pod_use.claims:
                    if not name.is_ephemeral:
                        self.pvc_ref_counts[name.key] += sign
                        if not self.pvc_ref_counts[name.key]:
                            del self.pvc_ref_counts[name.key]
        self._infos[row] = info
        self._rows[row] = use
        self._hold(row, former.disks, use.disks)

    def _hold(self, row: int, former: Iterable[Disk], disks: Iterable[Disk]) -> None:
        for identity in {disk.identity for disk in former}:
            rows = self._holders[identity]
            del rows[row]
            if not rows:
                del self._holders[identity]
        for disk in disks:
            self._holders[disk.identity].setdefault(row, []).append(disk)
