"""The unbound volumes of one class, as columns, and the best of them for a claim.

Source: k8s.io/component-helpers storage/volume/pv_helpers.go (FindMatchingVolume) v0.36.
Differs: of equally large volumes the one known longest is taken; upstream takes any.
"""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.api.selectors import selector_from_label_selector
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.volumes.reach import EVERYWHERE, AreaIndex, Groups, area_of_affinity

Slots: TypeAlias = NDArray[np.intp]

NONE: Final = -1
_ROOM: Final = 16
_SPARE_AREAS: Final = 64
_MAX_KNOWN: Final = 8
"""Largest number of kinds of claims whose choice is updated when volumes are removed."""
_MAX_FOLLOWED: Final = 8
"""Largest number of groups that choose again one by one; for more, one pass is as fast."""

_Profile: TypeAlias = tuple[str, str, tuple[str, ...]]


class _Chosen:
    """The volumes chosen for a kind of claims, and the slots removed since."""

    __slots__ = ("by_group", "gone", "groups")

    def __init__(self, groups: Groups, by_group: Slots) -> None:
        self.groups = groups
        self.by_group = by_group
        self.gone: list[int] = []


class FreeVolumes:
    """Volumes of one class that are available and not reserved for a claim.

    Every volume has a slot. Columns hold the compared properties, so that a search through all
    volumes for a claim is a few operations, whatever their number.
    """

    def __init__(self) -> None:
        self._slot_of: dict[str, int] = {}
        self._volumes: list[PersistentVolume] = []
        self._is_given_away = False
        self._known: dict[object, _Chosen] = {}
        self._unused: list[int] = []
        self._areas = AreaIndex()
        self._profiles: dict[_Profile, int] = {}
        self._arrivals = 0
        self._is_free = np.zeros(0, np.bool_)
        self._capacity = np.zeros(0)
        self._arrival = np.zeros(0, np.int64)
        self._area = np.zeros(0, np.intp)
        self._profile = np.zeros(0, np.intp)
        self._order: Slots | None = None
        self._rank = np.zeros(0, np.intp)
        self._by_rank = np.zeros(0, np.intp)

    def __len__(self) -> int:
        return len(self._slot_of)

    def volumes(self) -> list[PersistentVolume]:
        """The present volumes by slot, in a list that later changes do not reach."""
        self._is_given_away = True
        return self._volumes

    def capacity_of(self, slots: Slots) -> NDArray[np.float64]:
        """The sizes of volumes in bytes, 0 for NONE."""
        return np.where(slots == NONE, 0.0, self._capacity[slots])

    def put(self, volume: PersistentVolume) -> None:
        """Add a volume, or replace it by its newest version."""
        if self._is_given_away:
            self._volumes, self._is_given_away = self._volumes.copy(), False
        self._known.clear()
        slot = self._slot_of.get(volume.key)
        if slot is None:
            slot = self._slot_of[volume.key] = self._new_slot(volume)
        area = self._areas.intern(area_of_affinity(volume.affinity))
        profile = (volume.volume_mode, volume.attributes_class, volume.access_modes)
        capacity = float(volume.capacity)
        if not self._is_free[slot] or (self._capacity[slot], self._area[slot]) != (capacity, area):
            self._order = None
        self._volumes[slot] = volume
        self._is_free[slot] = True
        self._capacity[slot] = capacity
        self._area[slot] = area
        self._profile[slot] = self._profiles.setdefault(profile, len(self._profiles))

    def drop(self, name: str) -> None:
        """Remove a volume, if it is known."""
        slot = self._slot_of.pop(name, None)
        if slot is not None:
            self._is_free[slot] = False
            self._unused.append(slot)
            for known in self._known.values():
                known.gone.append(slot)
            if self._areas.count > 2 * len(self._slot_of) + _SPARE_AREAS:
                self._compact()

    def groups(self, snapshot: Snapshot) -> Groups:
        """The rows, grouped by the volumes they reach."""
        return self._areas.groups(snapshot)

    def choose(self, claim: PersistentVolumeClaim, groups: Groups) -> Slots:
        """By group, the smallest volume that fits the claim, or NONE. The result is read-only.

        Cost: O(volumes + groups) for the first claim of a kind, then O(volumes removed since).
        """
        if claim.selector is not None:
            return self._choose(claim, groups)
        kind = _kind(claim)
        known = self._known.get(kind)
        if known is None or known.groups is not groups or not self._follow(claim, known):
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            known = self._known[kind] = _Chosen(groups, self._choose(claim, groups))
        return known.by_group

    def _follow(self, claim: PersistentVolumeClaim, known: _Chosen) -> bool:
        """Choose again for groups whose volume was removed; return False if these are too many."""
        if len(known.gone) > _MAX_FOLLOWED:
            return False
        chosen, groups = known.by_group, known.groups
        lost = [each for gone in known.gone for each in np.flatnonzero(chosen == gone).tolist()]
        if len(lost) > _MAX_FOLLOWED:
            return False
        known.gone.clear()
        of_slot = self._area[: len(self._volumes)]
        for group in lost:
            reached = of_slot == EVERYWHERE
            for area in groups.areas[groups.members == group].tolist():
                reached |= of_slot == area
            slots = np.flatnonzero(reached)
            slots = slots[self._fits(claim, slots)]
            chosen[group] = slots[self._rank[slots].argmin()] if len(slots) else NONE
        return True

    def _choose(self, claim: PersistentVolumeClaim, groups: Groups) -> Slots:
        nothing_taken = np.zeros((0, groups.count), np.intp)
        return self.options(claim, groups).first_not_in(nothing_taken)

    def options(self, claim: PersistentVolumeClaim, groups: Groups) -> "_Options":
        """The volumes that fit the claim."""
        order = self._sorted()
        slots = order[self._fits(claim, order)]
        bounds = self._area[slots].searchsorted(np.arange(self._areas.count + 1))
        return _Options(slots, bounds, groups, self._rank, self._by_rank)

    def _fits(self, claim: PersistentVolumeClaim, slots: Slots) -> NDArray[np.bool_]:
        wanted = set(claim.access_modes)
        suits = np.fromiter(
            (
                (mode, attributes) == (claim.volume_mode, claim.attributes_class)
                and wanted.issubset(allowed)
                for mode, attributes, allowed in self._profiles
            ),
            np.bool_,
            len(self._profiles),
        )
        if not len(suits):
            return self._is_free[slots]
        fits: NDArray[np.bool_] = (
            self._is_free[slots]
            & (self._capacity[slots] >= float(claim.request or 0))
            & suits[self._profile[slots]]
        )
        if claim.selector is not None:
            selector = selector_from_label_selector(claim.selector)
            for at in np.flatnonzero(fits).tolist():
                fits[at] = selector.matches(self._volumes[slots.item(at)].metadata.labels)
        return fits

    def _sorted(self) -> Slots:
        """The slots by area and then by size, those known longest first."""
        order = self._order
        if order is None:
            size = len(self._volumes)
            capacity, arrival = self._capacity[:size], self._arrival[:size]
            order = self._order = np.lexsort((arrival, capacity, self._area[:size]))
            self._by_rank = np.lexsort((arrival, capacity))
            self._rank = np.empty(size, np.intp)
            self._rank[self._by_rank] = np.arange(size)
        return order

    def _new_slot(self, volume: PersistentVolume) -> int:
        if self._unused:
            slot = self._unused.pop()
        else:
            slot = len(self._volumes)
            self._volumes.append(volume)
            if slot == len(self._is_free):
                self._grow()
        self._arrivals += 1
        self._arrival[slot] = self._arrivals
        self._order = None
        return slot

    def _grow(self) -> None:
        for name in ("_is_free", "_capacity", "_arrival", "_area", "_profile"):
            old = getattr(self, name)
            grown = np.zeros(2 * len(old) + _ROOM, old.dtype)
            grown[: len(old)] = old
            setattr(self, name, grown)

    def _compact(self) -> None:
        """Drop the areas and profiles that no volume has any more."""
        fresh = FreeVolumes()
        for slot in self._slot_of.values():
            fresh.put(self._volumes[slot])
        self.__dict__.update(fresh.__dict__)


class _Options:
    """The volumes that fit a claim, and by group and area the smallest that is not taken."""

    def __init__(
        self, slots: Slots, bounds: Slots, groups: Groups, rank: Slots, by_rank: Slots
    ) -> None:
        """Begin with the smallest volumes.

        Args:
            slots: the volumes, by area and then by size.
            bounds: by area, where its volumes begin; those of the next area follow.
            groups: the groups of rows.
            rank: by slot, its place among all volumes by size.
            by_rank: the slots by size.
        """
        self._rank, self._by_rank = rank, by_rank
        self._groups, areas = groups.members, groups.areas
        if bounds[EVERYWHERE] < bounds[EVERYWHERE + 1]:
            everyone = np.arange(groups.count)
            self._groups = np.concatenate([self._groups, everyone])
            areas = np.concatenate([areas, np.full(len(everyone), EVERYWHERE)])
        self._options = np.append(slots, NONE)
        self._next, self._ends = bounds[areas], bounds[areas + 1]
        self._slots = self._at(slice(None))

    def first_not_in(self, taken: Slots) -> Slots:
        """By group, the smallest volume that is not in the group's column of `taken`, or NONE.

        What is in `taken` must still be in it at the next call, which continues from there.
        """
        slots = self._slots
        clash = (taken.take(self._groups, axis=1) == slots).any(axis=0)
        pairs = np.flatnonzero(clash & (slots != NONE))
        while len(pairs):
            self._next[pairs] += 1
            slots[pairs] = new = self._at(pairs)
            clash = (taken.take(self._groups[pairs], axis=1) == new).any(axis=0)
            pairs = pairs[clash & (new != NONE)]
        found = slots != NONE
        ranks = np.full(taken.shape[1], len(self._rank), np.intp)
        np.minimum.at(ranks, self._groups[found], self._rank[slots[found]])
        chosen = np.full(taken.shape[1], NONE, np.intp)
        found = ranks < len(self._rank)
        chosen[found] = self._by_rank[ranks[found]]
        return chosen

    def _at(self, pairs: Slots | slice) -> Slots:
        """By pair of group and area, its present option, or NONE after the last."""
        places, ends = self._next[pairs], self._ends[pairs]
        found: Slots = self._options[np.where(places < ends, places, -1)]
        return found


class PodChoices:
    """The volumes of one class that the claims of a pod choose, one claim after the other."""

    def __init__(self, free: FreeVolumes, groups: Groups) -> None:
        """Begin without choices.

        Args:
            free: the volumes.
            groups: the rows, grouped by the volumes they reach.
        """
        self._free = free
        self.groups = groups
        self._taken = np.zeros((0, groups.count), np.intp)
        self._claims = 0
        self._options: dict[object, _Options] = {}

    def choose(self, claim: PersistentVolumeClaim) -> Slots:
        """By group, the smallest volume that fits and that no claim has chosen before, or NONE.

        The result is read-only.

        Cost: see `FreeVolumes.choose` for the first claim; for each further one O(claims * groups),
        and O(volumes) if it is the first of its kind.
        """
        if not self._claims:
            chosen = self._free.choose(claim, self.groups)
        else:
            # Claims with selectors are rarely alike, except if a pod names one twice.
            kind = (*_kind(claim), claim.key if claim.selector is not None else "")
            if kind not in self._options:
                self._options[kind] = self._free.options(claim, self.groups)
            chosen = self._options[kind].first_not_in(self._taken[: self._claims])
        if self._claims == len(self._taken):
            room = np.full((max(self._claims, 1), self.groups.count), NONE, np.intp)
            self._taken = np.concatenate([self._taken, room])
        self._taken[self._claims] = chosen
        self._claims += 1
        return chosen


def _kind(claim: PersistentVolumeClaim) -> tuple[object, ...]:
    """Equal for claims without selectors that the same volumes fit."""
    return (claim.request, claim.access_modes, claim.volume_mode, claim.attributes_class)
