"""Volumes chosen in columns are those that a walk over nodes and volumes would choose."""

import random
from decimal import Decimal
from time import process_time

import numpy as np
import pytest

from scheduler.api.limits import MAX_VOLUMES
from scheduler.api.objects import (
    LabelSelector,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm as Term,
)
from scheduler.api.selectors import selector_from_label_selector
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.kernel.volumes.claims import PodVolumeClaims
from scheduler.kernel.volumes.decision import BIND_CONFLICT, VolumeDecision
from scheduler.kernel.volumes.reach import area_of_affinity, contains
from tests.support.builders import HOSTNAME, ZONE, make_node
from tests.support.storage import (
    GI,
    cluster_of,
    make_catalog,
    make_claim,
    make_class,
    make_volume,
    tell,
)

NODES = 12


def naive_volume(
    claim: PersistentVolumeClaim,
    volumes: list[PersistentVolume],
    taken: set[str],
    labels: dict[str, str],
) -> PersistentVolume | None:
    """The volume for a claim on one node: what is reserved, else the smallest that fits."""
    best = None
    for volume in volumes:
        if volume.key in taken or (volume.claim is not None and not volume.is_bound_to(claim)):
            continue
        if volume.capacity < (claim.request or 0) or volume.volume_mode != claim.volume_mode:
            continue
        reached = contains(area_of_affinity(volume.affinity), labels)
        if volume.claim is not None:
            return volume if reached else None
        fits = reached and volume.is_available
        fits = fits and set(claim.access_modes) <= set(volume.access_modes)
        if claim.selector is not None:
            selector = selector_from_label_selector(claim.selector)
            fits = fits and selector.matches(volume.metadata.labels)
        if fits and (best is None or volume.capacity < best.capacity):
            best = volume
    return best


def random_affinity(chance: random.Random) -> NodeSelector | None:
    """A node, a zone, several terms, an odd operator, or none."""
    host = NodeSelectorRequirement(HOSTNAME, "In", (f"n{chance.randrange(NODES)}",))
    zone = NodeSelectorRequirement(ZONE, "In", (f"z{chance.randrange(3)}",))
    elsewhere = NodeSelectorRequirement(ZONE, "NotIn", (f"z{chance.randrange(3)}",))
    return chance.choice(
        (
            None,
            NodeSelector((Term((host,)),)),
            NodeSelector((Term((host,)),)),
            NodeSelector((Term((zone,)),)),
            NodeSelector((Term((elsewhere,)),)),
            NodeSelector((Term((host,)), Term((zone, elsewhere)))),
        )
    )


def random_volume(chance: random.Random, number: int) -> PersistentVolume:
    """A volume whose size is its own."""
    return PersistentVolume(
        metadata=make_volume(f"pv-{number}", labels={"tier": chance.choice("ab")}).metadata,
        class_name="local",
        affinity=random_affinity(chance),
        capacity=Decimal(chance.randrange(1, 6) * GI + number),
        access_modes=chance.choice((("ReadWriteOnce",), ("ReadWriteOnce", "ReadOnlyMany"))),
        volume_mode=chance.choice(("Filesystem", "Filesystem", "Block")),
        is_available=chance.random() < 0.9,
    )


def random_claims(chance: random.Random) -> list[PersistentVolumeClaim]:
    """The claims of one pod."""
    return [
        make_claim(
            f"c{i}",
            gi=chance.randrange(5),
            access_modes=chance.choice((("ReadWriteOnce",), ("ReadOnlyMany",))),
            volume_mode=chance.choice(("Filesystem", "Filesystem", "Filesystem", "Block")),
            selector=LabelSelector({"tier": "a"}) if chance.random() < 0.2 else None,
        )
        for i in range(chance.choice((1, 1, 2, 3, 4, 9)))
    ]


def check(
    catalog: VolumeCatalog,
    claims: list[PersistentVolumeClaim],
    known: dict[str, PersistentVolume],
    snapshot: Snapshot,
) -> None:
    """Hold one decision against the walk."""
    decision = VolumeDecision(catalog, PodVolumeClaims((), tuple(claims), ()), snapshot)
    volumes = sorted(known.values(), key=lambda v: int(v.key.removeprefix("pv-")))
    for name, row in snapshot.table.row_of.items():
        labels = snapshot.node(row).metadata.labels
        taken: set[str] = set()
        expected = {}
        for claim in sorted(claims, key=lambda claim: claim.request or Decimal(0)):
            volume = naive_volume(claim, volumes, taken, labels)
            if volume is not None:
                taken.add(volume.key)
                expected[claim.key] = volume.key
        fits = len(expected) == len(claims)
        assert decision.bits[row] == (0 if fits else BIND_CONFLICT), name
        if fits:
            bindings = decision.on_node(name).bindings
            assert {b.claim.key: b.volume.key for b in bindings} == expected, name


@pytest.mark.parametrize("seed", range(60))
def test_the_columns_choose_what_a_walk_over_the_nodes_chooses(seed: int) -> None:
    """Over a history in which volumes come, change, are reserved and go, and nodes change."""
    chance = random.Random(seed)
    nodes = [make_node(f"n{i}", zone=f"z{i % 3}") for i in range(NODES)]
    snapshot = cluster_of(nodes)
    catalog = make_catalog(make_class())
    volumes: dict[str, PersistentVolume] = {}
    for step in range(12):
        claims = random_claims(chance)
        for number in range(step * 8, step * 8 + chance.randrange(8)):
            volume = random_volume(chance, number)
            if chance.random() < 0.15:
                volume = make_reserved(volume, chance.choice(claims))
            volumes[volume.key] = volume
            tell(catalog, None, volume)
        for name in chance.sample(sorted(volumes), min(len(volumes), chance.randrange(3))):
            tell(catalog, volumes.pop(name), None)

        check(catalog, claims, volumes, snapshot)
        free = catalog.free_volumes("local")
        assert free is None or len(free) == sum(
            v.claim is None and v.is_available for v in volumes.values()
        )


@pytest.mark.parametrize("seed", range(20))
def test_what_is_followed_is_what_is_chosen_anew(seed: int) -> None:
    """Over a history in which volumes mostly go, and now and then one comes or a node changes."""
    chance = random.Random(seed)
    nodes = [make_node(f"n{i}", zone=f"z{i % 3}") for i in range(NODES)]
    snapshot = cluster_of(nodes)
    catalog = make_catalog(make_class())
    volumes = {volume.key: volume for volume in (random_volume(chance, i) for i in range(60))}
    for volume in volumes.values():
        tell(catalog, None, volume)
    kinds = [random_claims(chance)[:1] for _ in range(3)]
    for step in range(100, 150):
        for name in chance.sample(sorted(volumes), min(len(volumes), chance.choice((0, 1, 1, 9)))):
            tell(catalog, volumes.pop(name), None)
        if chance.random() < 0.2:
            came = random_volume(chance, step)
            volumes[came.key] = came
            tell(catalog, None, came)
        if chance.random() < 0.1:
            node = chance.randrange(NODES)
            nodes[node] = make_node(f"n{node}", zone=f"z{chance.randrange(3)}")
            snapshot = cluster_of(nodes)
        claims = chance.choice(kinds)

        check(catalog, claims, volumes, snapshot)


def make_reserved(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume, reserved to a claim."""
    reserved = make_volume(volume.key, claim=claim)
    return PersistentVolume(
        metadata=volume.metadata,
        class_name=volume.class_name,
        claim=reserved.claim,
        affinity=volume.affinity,
        capacity=volume.capacity,
        access_modes=volume.access_modes,
        volume_mode=volume.volume_mode,
        is_available=volume.is_available,
    )


def test_of_equal_volumes_the_one_known_longest_is_taken() -> None:
    """Also when one that came later has the place of one that is gone."""
    snapshot = cluster_of([make_node("n")])
    gone, early, late = (make_volume(name) for name in ("gone", "early", "late"))
    catalog = make_catalog(make_class(), gone, early)
    tell(catalog, gone, None)
    tell(catalog, None, late)

    decision = VolumeDecision(catalog, PodVolumeClaims((), (make_claim(),), ()), snapshot)

    assert [b.volume.key for b in decision.on_node("n").bindings] == ["early"]


def test_nodes_that_no_volume_tells_apart_are_one_group() -> None:
    """What is worked out is worked out per group, however many nodes there are."""
    snapshot = cluster_of([make_node(f"n{i}", zone=f"z{i % 3}") for i in range(300)])
    catalog = make_catalog(make_class(), make_volume("everywhere", gi=2))
    free = catalog.free_volumes("local")
    assert free is not None

    assert free.groups(snapshot).count == 1
    tell(catalog, None, make_volume("one", hosts=("n7",)))
    groups = free.groups(snapshot)
    assert groups.count == 2
    assert np.count_nonzero(groups.of_row == groups.of_row[snapshot.table.row_of["n7"]]) == 1


def test_a_claim_that_a_pod_names_many_times_is_no_long_step() -> None:
    """Each time it needs another volume; the cost grows with the square of their number."""
    snapshot = cluster_of([make_node(f"n{i}") for i in range(10)])
    volumes = [make_volume(f"pv-{number}") for number in range(MAX_VOLUMES)]
    catalog = make_catalog(make_class(), *volumes)
    claims = PodVolumeClaims((), (make_claim(),) * MAX_VOLUMES, ())

    began = process_time()
    decision = VolumeDecision(catalog, claims, snapshot)

    assert process_time() - began < 5
    assert len({b.volume.key for b in decision.on_node("n0").bindings}) == MAX_VOLUMES
