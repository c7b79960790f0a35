"""Which claim, or disk, of a pod keeps it from which nodes."""

from collections.abc import Iterable, Sequence

import pytest

from scheduler.api.storage import CSISource
from scheduler.api.volume_sources import AWSElasticBlockStoreVolumeSource, Volume
from scheduler.kernel.volumes import obstacles
from scheduler.kernel.volumes.attachments import OVER_LIMIT
from scheduler.kernel.volumes.decision import REASONS
from scheduler.kernel.volumes.disks import DISK_TAKEN, Disk, disks_of
from scheduler.kernel.volumes.in_use import CLAIM_IN_USE
from scheduler.kernel.volumes.obstacles import (
    MAX_NODES,
    MAX_OBSTACLES,
    MAX_PODS,
    ClaimObstacle,
    claim_obstacles,
)
from scheduler.kernel.volumes.zones import OUTSIDE_ZONE
from tests.support.builders import ZONE, make_node, make_pod_info
from tests.support.storage import (
    bound_claim,
    claims_of,
    cluster_of,
    make_catalog,
    make_claim,
    make_class,
    make_csi_node,
    make_volume,
)

NODES = [make_node(f"n{i}", zone=f"z{i}") for i in range(3)]
EVERYWHERE = 3, ("n0", "n1", "n2")
CSI = CSISource("csi.example.com", "handle")


def test_each_claim_is_looked_at_on_its_own() -> None:
    """One is bound elsewhere, one is missing, one finds a volume on one node only."""
    catalog = make_catalog(
        make_class(),
        bound_claim("bound", "pv"),
        make_volume("pv", hosts=["n1"], labels={ZONE: "z2"}, claim=make_claim("bound")),
        make_claim("free"),
        make_volume("local", hosts=["n0"]),
    )
    pod = make_pod_info("p", volumes=claims_of("bound", "gone", "free"))

    assert claim_obstacles(pod, catalog, cluster_of(NODES)) == (
        ClaimObstacle("bound", "pv", REASONS[0], 2, ("n0", "n2")),
        ClaimObstacle("bound", "pv", OUTSIDE_ZONE, 2, ("n0", "n1")),
        ClaimObstacle("gone", "", 'persistentvolumeclaim "gone" not found', *EVERYWHERE),
        ClaimObstacle("free", "", REASONS[1], 2, ("n1", "n2")),
    )


def test_a_claim_that_is_going_is_in_the_way_everywhere() -> None:
    """Whatever its volume would have to say."""
    catalog = make_catalog(
        bound_claim("c", "pv", deleted="2026-01-01T00:00:00Z"),
        make_volume("pv", hosts=["n1"], claim=make_claim("c")),
    )

    assert claim_obstacles(
        make_pod_info("p", volumes=claims_of("c")), catalog, cluster_of(NODES)
    ) == (ClaimObstacle("c", "pv", 'persistentvolumeclaim "c" is being deleted', *EVERYWHERE),)


def test_the_limit_of_a_driver_is_that_of_all_claims_together() -> None:
    """Each would fit alone; the nodes are those that cannot take both."""
    catalog = make_catalog(
        *(bound_claim(name, f"pv-{name}") for name in ("a", "b")),
        make_volume("pv-a", csi=CSI),
        make_volume("pv-b", csi=CSISource(CSI.driver, "other")),
        make_csi_node("n0", {CSI.driver: 1}),
        make_csi_node("n1", {CSI.driver: 2}),
    )
    pod = make_pod_info("p", volumes=claims_of("a", "b"))

    assert claim_obstacles(pod, catalog, cluster_of(NODES)) == tuple(
        ClaimObstacle(name, f"pv-{name}", OVER_LIMIT, 1, ("n0",), driver=CSI.driver)
        for name in ("a", "b")
    )


def test_a_claim_for_one_pod_names_who_has_it() -> None:
    """It is in the way everywhere, also where that pod is not."""
    catalog = make_catalog(
        bound_claim("c", "pv", access_modes=("ReadWriteOncePod",)), make_volume("pv")
    )
    running = make_pod_info("other", node_name="n1", volumes=claims_of("c"))
    snapshot = cluster_of(NODES, [running])

    assert claim_obstacles(make_pod_info("p", volumes=claims_of("c")), catalog, snapshot) == (
        ClaimObstacle("c", "pv", CLAIM_IN_USE, *EVERYWHERE, pods=("default/other",)),
    )


def test_a_disk_names_some_of_those_who_have_it() -> None:
    """A disk has no claim, but a name in the pod."""
    disk = Volume(name="d", aws_elastic_block_store=AWSElasticBlockStoreVolumeSource("vol-1"))
    running = [
        make_pod_info(f"r{i}", node_name=f"n{i % 2}", volumes=(disk,)) for i in range(MAX_PODS + 1)
    ]
    names = tuple(f"default/r{i}" for i in range(MAX_PODS))

    found = claim_obstacles(
        make_pod_info("p", volumes=(disk,)), make_catalog(), cluster_of(NODES, running)
    )

    assert found == (ClaimObstacle("", "d", DISK_TAKEN, 2, ("n0", "n1"), pods=names),)


def test_a_disk_on_every_node_costs_few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of its holders are named, so not all of them are looked at."""
    disk = Volume(name="d", aws_elastic_block_store=AWSElasticBlockStoreVolumeSource("vol-1"))
    nodes = [make_node(f"n{i:02}") for i in range(40)]
    running = [make_pod_info(f"r{i:02}", node_name=f"n{i:02}", volumes=(disk,)) for i in range(40)]
    looks: list[object] = []

    def counted(volumes: Iterable[Volume]) -> Sequence[Disk]:
        looks.append(volumes)
        return disks_of(volumes)

    monkeypatch.setattr(obstacles, "disks_of", counted)
    pod = make_pod_info("p", volumes=(disk,))
    [found] = claim_obstacles(pod, make_catalog(), cluster_of(nodes, running))

    assert (found.nodes, found.pods) == (40, tuple(f"default/r{i:02}" for i in range(MAX_PODS)))
    assert len(looks) <= 2 * MAX_PODS


def test_a_pod_without_volumes_has_no_obstacles() -> None:
    """Nothing is looked at."""
    assert claim_obstacles(make_pod_info("p"), make_catalog(), cluster_of(NODES)) == ()


def test_obstacles_do_not_grow_with_volumes_and_nodes() -> None:
    """Only some nodes are named, and only the first obstacles are listed."""
    names = [f"c{i}" for i in range(MAX_OBSTACLES + 1)]
    nodes = [make_node(f"n{i}") for i in reversed(range(MAX_NODES + 1))]

    found = claim_obstacles(
        make_pod_info("p", volumes=claims_of(*names)), make_catalog(), cluster_of(nodes)
    )

    assert [each.claim for each in found] == names[:MAX_OBSTACLES]
    assert {(each.nodes, each.examples) for each in found} == {
        (MAX_NODES + 1, tuple(f"n{i}" for i in range(MAX_NODES)))
    }
