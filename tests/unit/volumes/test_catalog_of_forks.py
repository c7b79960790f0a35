"""The catalog on forks and copies of a snapshot: what it knows is what one made anew would know."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from scheduler.api.pods import PodInfo
from scheduler.api.storage import CSISource
from scheduler.api.volume_sources import AWSElasticBlockStoreVolumeSource, Volume
from scheduler.kernel.snapshot import NodeRemoved, NodeSet, PodAdded, PodRemoved, Snapshot
from scheduler.kernel.volumes import in_use
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.kernel.volumes.disks import by_identity, disks_of
from tests.support.builders import make_node, make_node_info, make_pod_info
from tests.support.storage import (
    bound_claim,
    claims_of,
    cluster_of,
    make_catalog,
    make_claim,
    make_csi_node,
    make_volume,
)

DRIVER = "csi.example.com"
CLAIMS = tuple(f"c{i}" for i in range(6))
NODES = tuple(f"n{i}" for i in range(4))


def disk(name: str) -> Volume:
    return Volume(name="d", aws_elastic_block_store=AWSElasticBlockStoreVolumeSource(name))


def catalog_of_all() -> VolumeCatalog:
    """Bound claims of one driver, of which each node takes two."""
    return make_catalog(
        *(bound_claim(name, f"pv-{name}") for name in CLAIMS),
        *(make_volume(f"pv-{name}", csi=CSISource(DRIVER, name)) for name in CLAIMS),
        *(make_csi_node(name, {DRIVER: 2}) for name in NODES),
    )


def known(catalog: VolumeCatalog, snapshot: Snapshot) -> object:
    """Everything that decisions read, in names."""
    catalog.refresh(snapshot)
    table, rows = snapshot.table, snapshot.table.all_rows

    def names(found: Sequence[bool]) -> set[str]:
        return {table.names[row] for row in np.flatnonzero(found) if table.alive[row]}

    disks = by_identity(disks_of((disk("shared"),)))
    wanted = catalog.attachments.wanted(make_pod_info("new", volumes=claims_of("c0", "c1")))
    return (
        {key: count for key, count in catalog.in_use.pvc_ref_counts.items() if count},
        names(catalog.in_use.rows_with_conflict(disks, snapshot, rows).tolist()),
        names(catalog.attachments.rows_over_limit(wanted, snapshot, rows).tolist()),
        sorted(pod.key for pod in catalog.in_use.pods(lambda _: True)),
    )


def random_pod(draw: random.Random, number: int) -> PodInfo:
    claims = draw.sample(CLAIMS, draw.randint(0, 2))
    volumes = (*claims_of(*claims), *((disk("shared"),) if draw.random() < 0.3 else ()))
    return make_pod_info(f"p{number}", node_name=draw.choice(NODES), volumes=volumes)


@pytest.mark.parametrize("seed", range(40))
def test_snapshots_may_take_turns(seed: int) -> None:
    """The cluster as it changes, forks of it and copies, in any order."""
    draw, catalog = random.Random(seed), catalog_of_all()
    nodes = {name: make_node_info(make_node(name), ()) for name in NODES}
    snapshot = Snapshot()
    snapshot.update(NodeSet(nodes[name], make_node(name)) for name in NODES)
    running: dict[str, PodInfo] = {}
    copy = snapshot.copy()
    for number in range(30):
        pod = random_pod(draw, number)
        if running and draw.random() < 0.4:
            gone = running.pop(draw.choice(sorted(running)))
            del nodes[gone.node_name].pods[gone.uid]
            snapshot.update([PodRemoved(gone)])
        else:
            running[pod.uid] = pod
            nodes[pod.node_name].pods[pod.uid] = pod
            snapshot.update([PodAdded(pod)])
        some = draw.sample(sorted(running), min(len(running), 2))
        fork = snapshot.fork(
            add=[random_pod(draw, 100 + number)], remove=[running[uid] for uid in some]
        )
        copy = snapshot.copy() if draw.random() < 0.3 else copy
        if draw.random() < 0.3 and len(copy.table.row_of) == len(NODES):
            empty = next((n for n in NODES if not copy.info(copy.table.row_of[n]).pods), None)
            copy.update([] if empty is None else [NodeRemoved(empty)])
        for each in draw.sample((snapshot, fork, copy), 3):
            assert known(catalog, each) == known(catalog_of_all(), each), (number, each)
        assert known(catalog.fork(), snapshot) == known(catalog_of_all(), snapshot)


def test_a_fork_costs_the_rows_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """To and fro: an explanation of a pod with a node must not stop the daemon."""
    pods = [
        make_pod_info(f"p{i}", node_name=f"n{i % 4}", volumes=(disk(f"{i}"),)) for i in range(40)
    ]
    snapshot, catalog = cluster_of([make_node(name) for name in NODES], pods), make_catalog()
    catalog.refresh(snapshot)
    counted: list[PodInfo] = []
    of_pods = in_use.use_of

    def use_of(given: Sequence[PodInfo]) -> in_use.NodeUse:
        pods = list(given)
        counted.extend(pods)
        return of_pods(pods)

    monkeypatch.setattr(in_use, "use_of", use_of)
    fork = snapshot.fork(remove=[pods[0]])
    for each in (fork, snapshot, snapshot.copy(), fork):
        catalog.refresh(each)

    assert {pod.node_name for pod in counted} == {"n0"}
    assert len(counted) <= 30


def test_a_fork_has_the_assumed_and_the_free_volumes() -> None:
    """Independent of what comes to its original."""
    bound = make_volume("taken", claim=make_claim("a"))
    catalog = make_catalog(make_claim("a"), make_volume("free"), make_volume("also"), bound)
    assumed = make_volume("also", claim=make_claim("b"))
    catalog.assumed_volumes.assume(assumed)

    fork = catalog.fork()
    catalog.assumed_volumes.restore(assumed)

    free = fork.free_volumes("local")
    assert free is not None
    assert len(free) == 1
    assert fork.volume("also") == assumed
    assert [each.key for each in fork.reserved_to(make_claim("a"))] == ["taken"]
    assert [each.key for each in fork.reserved_to(make_claim("b"))] == ["also"]
    left = catalog.free_volumes("local")
    assert left is not None
    assert len(left) == 2
