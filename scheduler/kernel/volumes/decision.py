"""The nodes that can satisfy the claims of one pod, and the volumes for them there.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go (FindPodVolumes, checkBoundClaims,
findMatchingVolumes, checkVolumeProvisions) v1.36.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.quantity import ceil
from scheduler.api.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.kernel.snapshot import Mask, Snapshot
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.kernel.volumes.claims import PodVolumeClaims
from scheduler.kernel.volumes.free_volumes import NONE, FreeVolumes, PodChoices
from scheduler.kernel.volumes.reach import area_of_affinity, area_of_topologies
from scheduler.kernel.volumes.translation import csi_affinity, plugin_of

NODE_CONFLICT: Final = np.uint64(1)
BIND_CONFLICT: Final = np.uint64(2)
NOT_ENOUGH_SPACE: Final = np.uint64(4)
VOLUME_MISSING: Final = np.uint64(8)
REASONS: Final = (
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) didn't find available persistent volumes to bind",
    "node(s) did not have enough free storage",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
)
"""By bit. Removing other pods cannot resolve any of them."""

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_ZERO: Final = Decimal(0)

Bits = NDArray[np.uint64]


class Binding(msgspec.Struct, frozen=True):
    """A volume for a claim."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


class PodVolumes(msgspec.Struct, frozen=True):
    """The bindings and provisions for the claims of a pod on one node.

    Attributes:
        bindings: volumes to reserve.
        provisions: claims for which volumes are to be provisioned.
    """

    bindings: tuple[Binding, ...] = ()
    provisions: tuple[PersistentVolumeClaim, ...] = ()

    @property
    def claims(self) -> tuple[PersistentVolumeClaim, ...]:
        """All claims of the bindings and provisions."""
        return (*(binding.claim for binding in self.bindings), *self.provisions)

    def with_binding(self, place: int, binding: Binding) -> "PodVolumes":
        """A copy with another binding at an index."""
        bindings = (*self.bindings[:place], binding, *self.bindings[place + 1 :])
        return PodVolumes(bindings, self.provisions)

    def with_provision(self, place: int, claim: PersistentVolumeClaim) -> "PodVolumes":
        """A copy with another claim at an index."""
        provisions = (*self.provisions[:place], claim, *self.provisions[place + 1 :])
        return PodVolumes(self.bindings, provisions)


class _Match:
    """The volumes found for one claim, by row.

    Attributes:
        claim: the claim.
        found: per row whether a volume was found.
        capacity: returns per row the volume's size in bytes, 0 where there is none.
        volume_on: returns the volume of a row that has one.
    """

    __slots__ = ("capacity", "claim", "found", "volume_on")

    def __init__(
        self,
        claim: PersistentVolumeClaim,
        found: Mask,
        capacity: Callable[[], NDArray[np.float64]],
        volume_on: Callable[[int], PersistentVolume],
    ) -> None:
        self.claim = claim
        self.found = found
        self.capacity = capacity
        self.volume_on = volume_on


class VolumeDecision:
    """The nodes that can satisfy the claims of a pod. Made once per attempt, for all nodes.

    Attributes:
        bits: per row the reasons against it, bit i standing for `REASONS[i]`.
        room: by class, per row the size of the pool that its volumes would be provisioned from.
    """

    def __init__(self, catalog: VolumeCatalog, claims: PodVolumeClaims, snapshot: Snapshot) -> None:
        """Judge all rows.

        Raises:
            TranslationError: a volume of a migrated type has no counterpart.
        """
        self._catalog = catalog
        self._snapshot = snapshot
        self._selected = [c for c in claims.delayed if c.selected_node is not None]
        self._matches: list[_Match] = []
        self.room: dict[str, NDArray[np.float64]] = {}
        self.bits = self._bound(claims.bound)
        if claims.delayed:
            unmatched = [c for c in claims.delayed if c.selected_node is None]
            self._match(sorted(unmatched, key=lambda claim: claim.request or _ZERO))
            self.bits |= self._unbound()

    def on_node(self, node_name: str) -> PodVolumes:
        """The bindings and provisions on a node that fits."""
        row = self._snapshot.table.row_of[node_name]
        return PodVolumes(
            tuple(Binding(m.claim, m.volume_on(row)) for m in self._matches if m.found[row]),
            (*self._selected, *(m.claim for m in self._matches if not m.found[row])),
        )

    def static_use(self) -> Iterator[tuple[str, int, Mask, NDArray[np.float64]]]:
        """Per claim: class, requested bytes, the rows with a volume, and its size there."""
        for match in self._matches:
            size = ceil(match.claim.request or _ZERO)
            yield match.claim.class_name, size, match.found, match.capacity()

    def dynamic_use(self) -> Iterator[tuple[str, int, Mask]]:
        """Per claim whose class publishes capacity: class, requested bytes, providing rows."""
        everywhere = np.ones(self._snapshot.table.size, np.bool_)
        pairs = [(claim, everywhere) for claim in self._selected]
        pairs.extend((match.claim, ~match.found) for match in self._matches)
        for claim, where in pairs:
            if claim.class_name in self.room:
                yield claim.class_name, ceil(claim.request or _ZERO), where

    # --- claims that have their volume ------------------------------------------------------------

    def _bound(self, claims: Sequence[PersistentVolumeClaim]) -> Bits:
        size = self._snapshot.table.size
        bits = np.zeros(size, np.uint64)
        for claim in claims:
            volume = self._catalog.volume(claim.volume_name)
            if volume is None:
                # As upstream, do not check the claims after it.
                bits[bits == 0] = VOLUME_MISSING
                break
            bits[(bits == 0) & ~reach_of(volume, self._catalog, self._snapshot)] = NODE_CONFLICT
        return bits

    # --- claims that get one ----------------------------------------------------------------------

    def _match(self, claims: Sequence[PersistentVolumeClaim]) -> None:
        choices: dict[str, PodChoices] = {}
        held: dict[str, Mask] = {}
        for claim in claims:
            # As upstream, a pod that names a claim twice needs two volumes for it.
            reserved = None if claim.key in held else self._reserved(claim)
            free = self._catalog.free_volumes(claim.class_name)
            if reserved is not None:
                match = self._match_reserved(claim, reserved)
                held[claim.key] = match.found
            elif free is not None:
                if claim.class_name not in choices:
                    groups = free.groups(self._snapshot)
                    choices[claim.class_name] = PodChoices(free, groups)
                match = self._match_free(claim, free, choices[claim.class_name])
                match.found &= held.get(claim.key, True)
            else:
                nowhere = np.zeros(self._snapshot.table.size, np.bool_)
                match = _Match(claim, nowhere, partial(nowhere.astype, np.float64), _nothing)
            self._matches.append(match)

    def _reserved(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """The volume reserved to the claim; the claim then binds to no other volume."""
        for volume in self._catalog.reserved_to(claim):
            if (
                volume.class_name == claim.class_name
                and volume.capacity >= (claim.request or _ZERO)
                and volume.volume_mode == claim.volume_mode
                and volume.attributes_class == claim.attributes_class
                and volume.metadata.deletion_timestamp is None
            ):
                return volume
        return None

    def _match_reserved(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> _Match:
        found = self._catalog.rows_in(area_of_affinity(volume.affinity), self._snapshot)
        capacity = float(volume.capacity)
        return _Match(claim, found, lambda: np.where(found, capacity, 0.0), lambda _: volume)

    def _match_free(
        self, claim: PersistentVolumeClaim, free: FreeVolumes, choices: PodChoices
    ) -> _Match:
        slots = choices.choose(claim)[choices.groups.of_row]
        # Keep the present list: when Reserve reads it, a slot may hold another volume.
        volumes = free.volumes()
        return _Match(
            claim,
            slots != NONE,
            lambda: free.capacity_of(slots),
            lambda row: volumes[int(slots[row])],
        )

    # --- claims for which one is made -------------------------------------------------------------

    def _unbound(self) -> Bits:
        snapshot = self._snapshot
        bits = np.zeros(snapshot.table.size, np.uint64)
        for claim in self._selected:
            row = snapshot.table.row_of.get(claim.selected_node or "")
            elsewhere = np.ones(len(bits), np.bool_)
            if row is not None:
                elsewhere[row] = False
            bits[elsewhere] = BIND_CONFLICT
        for claim in self._selected:
            self._provision(claim, bits == 0, bits)
        for match in self._matches:
            self._provision(match.claim, ~match.found & (bits == 0), bits)
        return bits

    def _provision(self, claim: PersistentVolumeClaim, where: Mask, bits: Bits) -> None:
        """Set the bits of the rows in `where` on which no volume can be provisioned."""
        if not where.any():
            return
        found = self._catalog.classes.get(claim.class_name)
        if found is None or found.provisioner in ("", NO_PROVISIONER):
            bits[where] = BIND_CONFLICT
            return
        area = area_of_topologies(found.allowed_topologies)
        inside = self._catalog.rows_in(area, self._snapshot)
        bits[where & ~inside] = BIND_CONFLICT
        if self._tells_capacity(claim, found):
            room = self._room(claim)
            bits[where & inside & (room < 0)] = NOT_ENOUGH_SPACE
            self.room[claim.class_name] = room

    def _tells_capacity(self, claim: PersistentVolumeClaim, found: StorageClass) -> bool:
        if claim.request is None:
            return False
        driver = self._catalog.drivers.get(found.provisioner)
        return driver is not None and bool(driver.spec.storage_capacity)

    def _room(self, claim: PersistentVolumeClaim) -> NDArray[np.float64]:
        capacities = self._catalog.capacities(claim.class_name)
        if capacities is None:
            return np.full(self._snapshot.table.size, -1.0)
        return capacities.room_for(ceil(claim.request or _ZERO), self._snapshot)


def reach_of(volume: PersistentVolume, catalog: VolumeCatalog, snapshot: Snapshot) -> Mask:
    """Per row whether its node reaches the volume, in-tree or through CSI, as the node mounts it.

    Raises:
        TranslationError: a node mounts it through CSI, for which the volume has no counterpart.
    """
    reached = catalog.rows_in(area_of_affinity(volume.affinity), snapshot)
    plugin = plugin_of(volume.in_tree)
    if plugin is None or not plugin.is_migrated:
        return reached
    migrated = catalog.rows_migrated(plugin.name, snapshot)
    if not migrated.any():
        return reached
    translated = catalog.rows_in(area_of_affinity(csi_affinity(volume)), snapshot)
    return np.where(migrated, translated, reached)


def _nothing(row: int) -> PersistentVolume:
    raise KeyError(row)
