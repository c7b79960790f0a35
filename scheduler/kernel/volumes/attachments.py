"""The volumes of each CSI driver that a node holds, and the driver's limit there.

Source: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go v1.36.
Differs: a running pod whose volumes cannot be resolved counts for nothing; upstream fails every
attempt of every pod that is filtered on its node.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.api.storage import (
    CSINode,
    CSISource,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.api.volume_sources import Volume
from scheduler.kernel.snapshot import Mask, Rows, Snapshot
from scheduler.kernel.snapshot.changes import RowLog
from scheduler.kernel.volumes.claims import ClaimName, is_foreign, not_found, not_owner
from scheduler.kernel.volumes.in_use import NodeUse, PodUse, VolumesInUse, use_of
from scheduler.kernel.volumes.translation import (
    BY_NAME,
    TranslationError,
    csi_source,
    inline_volume,
)

OVER_LIMIT: Final = "node(s) exceed max volume count"

Attached = dict[CSISource, None]
"""Volumes by driver and volume handle, in order."""


class MissingClaimError(LookupError):
    """A claim of the pod does not exist; the message is upstream's."""


class ForeignClaimError(ValueError):
    """Another object owns the claim of an ephemeral volume; the message is upstream's."""


class Attachments:
    """Volumes per node and driver, as columns.

    A row is recomputed when its pods, its node, or an object that it was computed from changes;
    `changed` reports the latter.
    """

    def __init__(
        self,
        claims: Mapping[str, PersistentVolumeClaim],
        volumes: Mapping[str, PersistentVolume],
        classes: Mapping[str, StorageClass],
        csi_nodes: Mapping[str, CSINode],
        in_use: VolumesInUse,
    ) -> None:
        """Bind to the live objects of the API server, and to the volumes in use."""
        self._claims = claims
        self._volumes = volumes
        self._classes = classes
        self._csi_nodes = csi_nodes
        self._in_use = in_use
        self._attached: defaultdict[str, dict[str, VolumeAttachment]] = defaultdict(dict)
        self._capacity = 0
        self._used: dict[str, NDArray[np.float64]] = {}
        self._limit: dict[str, NDArray[np.float64]] = {}
        self._drivers_of: dict[int, tuple[str, ...]] = {}
        self._volumes_of: dict[int, Attached] = {}
        self._holders: defaultdict[CSISource, set[int]] = defaultdict(set)
        self._dependents: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._stale_nodes: set[str] = set()
        self._names: dict[int, str] = {}
        """By row, the name of its node at the last `refresh`."""
        self._log: RowLog | None = None
        self._position = -1

    @property
    def attached(self) -> Iterator[VolumeAttachment]:
        """All VolumeAttachments."""
        return chain.from_iterable(each.values() for each in self._attached.values())

    def attachment_changed(
        self, old: VolumeAttachment | None, new: VolumeAttachment | None
    ) -> None:
        """Handle a VolumeAttachment that was added, updated or deleted."""
        if old is not None:
            name = old.spec.node_name
            self._attached[name].pop(old.metadata.name, None)
            if not self._attached[name]:
                del self._attached[name]
            self.node_changed(name)
        if new is not None:
            self._attached[new.spec.node_name][new.metadata.name] = new
            self.node_changed(new.spec.node_name)

    def node_changed(self, name: str) -> None:
        """Mark a node whose drivers or attachments have changed as stale."""
        self._stale_nodes.add(name)

    def object_changed(self, kind: str, key: str) -> None:
        """Mark the nodes as stale whose volumes depend on a claim, volume or class."""
        self._stale_nodes |= self._dependents.pop((kind, key), set())

    def wanted(self, pod: PodInfo) -> Attached:
        """The volumes that a new pod brings to a node that has CSI drivers.

        Raises:
            MissingClaimError: a claim does not exist.
            ForeignClaimError: another object owns an ephemeral claim.
            TranslationError: a volume of a migrated type has no counterpart.
        """
        found: Attached = {}
        for use in use_of((pod,)).pods:
            for name in use.claims:
                claim = self._claims.get(name.key)
                if claim is None:
                    raise MissingClaimError(f"looking up PVC {name.key}: {not_found(name.name)}")
                if is_foreign(name, claim, pod):
                    raise ForeignClaimError(not_owner(pod, name.name))
            self._add(use, found, None)
            found.update(dict.fromkeys(_inline(use.migratable)))
        return found

    def own_drivers(self, pod: PodInfo) -> set[str]:
        """The drivers of the pod's volumes that are CSI volumes by themselves.

        Volumes of migrated types are CSI volumes only on nodes that have a CSINode.
        """
        found: set[str] = set()
        for use in use_of((pod,)).pods:
            for name in use.claims:
                claim = self._claims.get(name.key)
                if claim is not None and not self._is_migrated(claim):
                    source = self._source_of(claim, name, None)
                    found.update(() if source is None else (source.driver,))
        return found

    def _is_migrated(self, claim: PersistentVolumeClaim) -> bool:
        volume = self._volumes.get(claim.volume_name) if claim.volume_name else None
        if volume is not None:
            return volume.csi is None
        found = self._classes.get(claim.class_name) if claim.class_name else None
        return found is not None and found.provisioner in BY_NAME

    def rows_over_limit(self, wanted: Attached, snapshot: Snapshot, rows: Rows) -> Mask:
        """Per row of the table whether the wanted volumes exceed a limit; only `rows` are valid."""
        over = np.zeros(snapshot.table.size, np.bool_)
        for driver, volumes in by_driver(wanted).items():
            limit = self._limit.get(driver)
            if limit is None:
                continue
            new = np.full(len(over), float(len(volumes)))
            for volume in volumes:
                for row in self._holders.get(volume, ()):
                    new[row] -= 1
            used = self._used[driver][: len(over)]
            over |= (new > 0) & (used + new > limit[: len(over)])
        for row, use in self._in_use.on_fork(snapshot, rows):
            over[row] = self._is_over(wanted, snapshot.table.names[row], use)
        return over

    def attached_for(self, pod: PodInfo, others: Iterable[PodInfo]) -> list[VolumeAttachment]:
        """The attachments of a pod's node that serve this pod alone, and end with the pod.

        Args:
            pod: a pod on a node.
            others: the other pods of the node.
        """
        attached = self._attached.get(pod.node_name)
        if not attached:
            return []
        alone = self._bound_to(use_of((pod,))) - self._bound_to(use_of(others))
        return [
            each for each in attached.values() if each.spec.source.persistent_volume_name in alone
        ]

    def _bound_to(self, use: NodeUse) -> set[str]:
        """The names of the volumes that claims of pods have."""
        claims = (self._claims.get(name.key) for each in use.pods for name in each.claims)
        return {claim.volume_name for claim in claims if claim is not None and claim.volume_name}

    # --- keeping up -------------------------------------------------------------------------------

    def refresh(self, snapshot: Snapshot, rows: Iterable[int]) -> None:
        """Recompute the given rows, stale nodes, and the rows whose nodes changed.

        A row that cannot be computed has no limit until it changes. Its exception is raised once
        all other rows are computed.
        """
        table, log = snapshot.table, snapshot.node_log
        changed = log.since(self._position) if log is self._log else None
        stale = set(rows)
        if changed is None:
            # Of a node, only its name counts here.
            now = dict(enumerate(table.names))
            every = self._names.keys() | now.keys()
            stale |= {row for row in every if self._names.get(row) != now.get(row)}
        else:
            stale.update(changed.tolist())
        stale.update(table.row_of[name] for name in self._stale_nodes if name in table.row_of)
        self._stale_nodes.clear()
        if table.capacity > self._capacity:
            self._grow(table.capacity)
        self._log, self._position = log, log.position
        problems = []
        for row in stale:
            self._forget(row)
            self._names[row] = name = table.names[row] if row < table.size else ""
            try:
                self._work_out(row, name)
            except Exception as problem:  # noqa: BLE001 - compute the other rows in any case
                problems.append(problem)
        if problems:
            raise problems[0]

    def _grow(self, capacity: int) -> None:
        """Extend the columns of all drivers: most new nodes have no limit for some of them."""
        self._capacity = capacity
        for columns, blank in ((self._limit, np.inf), (self._used, 0.0)):
            for driver, column in columns.items():
                columns[driver] = np.full(capacity, blank)
                columns[driver][: len(column)] = column

    def _forget(self, row: int) -> None:
        for driver in self._drivers_of.pop(row, ()):
            self._limit[driver][row] = np.inf
            self._used[driver][row] = 0
        for volume in self._volumes_of.pop(row, ()):
            rows = self._holders[volume]
            rows.discard(row)
            if not rows:
                del self._holders[volume]

    def _work_out(self, row: int, name: str) -> None:
        limits = _limits(self._csi_nodes.get(name)) if name else {}
        if not limits:
            return
        held, counts = self._held(name, self._in_use.row(row), depends=name)
        self._drivers_of[row] = tuple(limits)
        self._volumes_of[row] = held
        for volume in held:
            self._holders[volume].add(row)
        for driver, limit in limits.items():
            if driver not in self._limit:
                self._limit[driver] = np.full(self._capacity, np.inf)
                self._used[driver] = np.zeros(self._capacity)
            self._limit[driver][row], self._used[driver][row] = limit, counts[driver]

    def _held(
        self, name: str, use: NodeUse, depends: str | None = None
    ) -> tuple[Attached, Counter[str]]:
        """The volumes of a node's pods, and their number by driver, attachments included."""
        held: Attached = {}
        for pod_use in use.pods:
            self._add(pod_use, held, depends)
            with suppress(TranslationError):
                held.update(dict.fromkeys(_inline(pod_use.migratable)))
        every = Counter(volume.driver for volume in held)
        attached = set()
        for attachment in self._attached.get(name, {}).values():
            volume_name = attachment.spec.source.persistent_volume_name
            if attachment.spec.attacher and volume_name is not None:
                self._note("PersistentVolume", volume_name, depends)
                volume = self._volumes.get(volume_name)
                if volume is not None and volume.csi is not None:
                    attached.add(CSISource(attachment.spec.attacher, volume.csi.volume_handle))
        every.update(volume.driver for volume in attached if volume not in held)
        return held, every

    def _add(self, use: PodUse, found: Attached, depends: str | None) -> None:
        for name in use.claims:
            self._note("PersistentVolumeClaim", name.key, depends)
            claim = self._claims.get(name.key)
            if claim is None or is_foreign(name, claim, use.pod):
                continue
            source = self._source_of(claim, name, depends)
            if source is not None and source.driver and source.volume_handle:
                found[source] = None

    def _source_of(  # noqa: PLR0911 - one case per state of a claim
        self, claim: PersistentVolumeClaim, name: ClaimName, depends: str | None
    ) -> CSISource | None:
        """The CSI source of a claim; for an unprovisioned volume, with a handle from the claim."""
        if claim.volume_name:
            self._note("PersistentVolume", claim.volume_name, depends)
            volume = self._volumes.get(claim.volume_name)
            if volume is not None:
                if volume.csi is not None:
                    return volume.csi
                try:
                    return csi_source(volume)
                except TranslationError:
                    return None
        if not claim.class_name:
            return None
        self._note("StorageClass", claim.class_name, depends)
        found = self._classes.get(claim.class_name)
        if found is None:
            return None
        plugin = BY_NAME.get(found.provisioner)
        if plugin is None:
            return CSISource(found.provisioner, f"\0{name.key}")
        return CSISource(plugin.driver, f"\0{name.key}") if plugin.is_migrated else None

    def _note(self, kind: str, key: str, node_name: str | None) -> None:
        if node_name is not None:
            self._dependents[kind, key].add(node_name)

    def _is_over(self, wanted: Attached, name: str, use: NodeUse) -> bool:
        limits = _limits(self._csi_nodes.get(name))
        if not limits:
            return False
        held, counts = self._held(name, use)
        new = Counter(volume.driver for volume in wanted if volume not in held)
        return any(counts[d] + n > limits[d] for d, n in new.items() if d in limits)


def _inline(volumes: Iterable[Volume]) -> Iterator[CSISource]:
    for volume in volumes:
        source = inline_volume(volume)
        if source is not None:
            yield source


def _limits(csi_node: CSINode | None) -> dict[str, int]:
    if csi_node is None:
        return {}
    return {d.name: d.limit for d in csi_node.spec.drivers if d.limit is not None}


def by_driver(volumes: Attached) -> dict[str, list[CSISource]]:
    """The volumes of each driver."""
    found: dict[str, list[CSISource]] = {}
    for volume in volumes:
        found.setdefault(volume.driver, []).append(volume)
    return found
