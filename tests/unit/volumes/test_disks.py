"""Disks that pods hold, kept up to date, are those found by a walk over all pods."""

import random
from time import process_time

import numpy as np
import pytest

from scheduler.api.pods import PodInfo
from scheduler.api.volume_sources import (
    AWSElasticBlockStoreVolumeSource,
    GCEPersistentDiskVolumeSource,
    ISCSIVolumeSource,
    RBDVolumeSource,
    Volume,
)
from scheduler.kernel.framework.events import QueueingHint
from scheduler.kernel.plugins.volume_restrictions import after_pod_deleted
from scheduler.kernel.snapshot import NodeSet, PodAdded, PodRemoved, Snapshot
from scheduler.kernel.volumes.disks import by_identity, disks_of
from tests.support.builders import make_node, make_node_info, make_pod_info
from tests.support.storage import cluster_of, make_catalog

NODES = ("n0", "n1", "n2")


def a_disk(chance: random.Random) -> Volume:
    """One of a few disks."""
    name, read_only = chance.choice("ab"), chance.random() < 0.6
    monitors = tuple(chance.choice("xyz") for _ in range(chance.randrange(3)))
    return chance.choice(
        (
            Volume(gce_persistent_disk=GCEPersistentDiskVolumeSource(name, read_only)),
            Volume(aws_elastic_block_store=AWSElasticBlockStoreVolumeSource(name)),
            Volume(iscsi=ISCSIVolumeSource(name, read_only)),
            Volume(rbd=RBDVolumeSource(monitors, "rbd", name, read_only)),
            Volume(rbd=RBDVolumeSource(monitors, name, "image", read_only)),
        )
    )


def a_pod(chance: random.Random, name: str, node: str = "") -> PodInfo:
    """A pod with some disks, or with none."""
    volumes = tuple(a_disk(chance) for _ in range(chance.randrange(4)))
    return make_pod_info(name, node_name=node, volumes=volumes)


def exclude(one: Volume, other: Volume) -> bool:
    """Whether two pods cannot have these disks on one node."""
    if one.rbd is not None and other.rbd is not None:
        is_same = bool({*one.rbd.monitors} & {*other.rbd.monitors}) and (
            (one.rbd.pool, one.rbd.image) == (other.rbd.pool, other.rbd.image)
        )
        return is_same and not (one.rbd.read_only and other.rbd.read_only)
    if one.iscsi is not None and other.iscsi is not None:
        return one.iscsi.iqn == other.iscsi.iqn and not (
            one.iscsi.read_only and other.iscsi.read_only
        )
    if one.gce_persistent_disk is not None and other.gce_persistent_disk is not None:
        both = (one.gce_persistent_disk, other.gce_persistent_disk)
        return both[0].pd_name == both[1].pd_name and not all(disk.read_only for disk in both)
    ebs = one.aws_elastic_block_store
    return ebs is not None and ebs == other.aws_elastic_block_store


def are_in_conflict(one: PodInfo, other: PodInfo) -> bool:
    """Whether any two disks of the pods exclude each other."""
    return any(exclude(v, w) for v in one.pod.volumes for w in other.pod.volumes)


@pytest.mark.parametrize("seed", range(10))
def test_disks_kept_up_to_date_are_those_of_a_walk(seed: int) -> None:
    """Over a history in which pods come and go; on a fork as well, and for the hint."""
    chance = random.Random(seed)
    catalog, snapshot = make_catalog(), Snapshot()
    infos = {name: make_node_info(make_node(name)) for name in NODES}
    snapshot.update([NodeSet(info, info.node) for info in infos.values()])
    pods: dict[str, PodInfo] = {}
    for step in range(80):
        name = f"p{step % 9}"
        gone = pods.pop(name, None)
        if gone is not None:
            del infos[gone.node_name].pods[gone.uid]
            snapshot.update([PodRemoved(gone)])
        if chance.random() < 0.7:
            pods[name] = came = a_pod(chance, name, chance.choice(NODES))
            infos[came.node_name].pods[came.uid] = came
            snapshot.update([PodAdded(came)])
        new, tried = a_pod(chance, "new"), a_pod(chance, "tried", "n0")
        catalog.refresh(snapshot)

        for cluster, everyone in (
            (snapshot, [*pods.values()]),
            (snapshot.fork(add=[tried]), [*pods.values(), tried]),
        ):
            wanted = by_identity(disks_of(new.pod.volumes))
            found = catalog.in_use.rows_with_conflict(wanted, cluster, cluster.table.all_rows)

            held = {pod.node_name for pod in everyone if are_in_conflict(new, pod)}
            assert {cluster.table.names[row] for row in np.flatnonzero(found)} == held
        if gone is not None:
            hint = after_pod_deleted(new, gone, None)
            assert (hint is QueueingHint.QUEUE) == are_in_conflict(new, gone)


def test_monitors_without_number_cost_other_pods_little() -> None:
    """A running pod may have any number; only pods that want the same image look at them."""
    many = tuple(f"m{number}" for number in range(50_000))
    running = [
        make_pod_info(
            f"r{number}", node_name="n", volumes=[Volume(rbd=RBDVolumeSource(many, image="i"))]
        )
        for number in range(10)
    ]
    catalog, snapshot = make_catalog(), cluster_of([make_node("n")], running)
    catalog.refresh(snapshot)
    same, other = (
        by_identity(disks_of([Volume(rbd=RBDVolumeSource(("x",), image=image))]))
        for image in ("i", "j")
    )

    began = process_time()
    for wanted in (same, other) * 500:
        assert not catalog.in_use.rows_with_conflict(wanted, snapshot, slice(0, 1)).any()

    assert process_time() - began < 1
