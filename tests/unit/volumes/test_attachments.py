"""Volumes per node and driver, kept up to date, are those counted anew."""

import random

import numpy as np
import pytest

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.api.storage import CSISource
from scheduler.api.volume_sources import AWSElasticBlockStoreVolumeSource, Volume
from scheduler.kernel.snapshot import NodeRemoved, NodeSet, PodAdded, PodRemoved, Snapshot
from scheduler.kernel.volumes.catalog import VolumeCatalog
from tests.support.builders import make_node, make_node_info, make_pod_info
from tests.support.storage import (
    bound_claim,
    claims_of,
    cluster_of,
    make_attachment,
    make_catalog,
    make_claim,
    make_class,
    make_csi_node,
    make_volume,
    tell,
)

DRIVER = "csi.example.com"
FAST = make_class("fast", provisioner=DRIVER)


def on(node: str, name: str, *claims: str) -> PodInfo:
    """A pod on a node with these claims."""
    return make_pod_info(name, node_name=node, volumes=claims_of(*claims))


def csi_volume(name: str, handle: str = "") -> object:
    """A volume of the driver."""
    return make_volume(name, csi=CSISource(DRIVER, handle or name))


def is_over(catalog: VolumeCatalog, snapshot: Snapshot, *claims: str) -> list[str]:
    """The nodes on which a pod with these claims would be too much."""
    catalog.refresh(snapshot)
    wanted = catalog.attachments.wanted(make_pod_info("new", volumes=claims_of(*claims)))
    over = catalog.attachments.rows_over_limit(wanted, snapshot, snapshot.table.all_rows)
    return [snapshot.table.names[row] for row in np.flatnonzero(over)]


def test_a_volume_counts_once_however_many_pods_of_a_node_use_it() -> None:
    """Also the new pod's: what its node holds already costs nothing."""
    catalog = make_catalog(
        FAST, csi_volume("pv-a"), csi_volume("pv-b"),
        bound_claim("a", "pv-a"), bound_claim("b", "pv-b"),
        make_csi_node("n", {DRIVER: 1}), make_csi_node("m", {DRIVER: 1}),
    )  # fmt: skip
    snapshot = cluster_of(
        [make_node("n"), make_node("m"), make_node("free")],
        [on("n", "p", "a"), on("n", "q", "a"), on("m", "r", "b")],
    )

    assert is_over(catalog, snapshot, "a") == ["m"]
    assert is_over(catalog, snapshot, "b") == ["n"]
    assert is_over(catalog, snapshot, "a", "b") == ["n", "m"]


def test_nodes_without_the_driver_may_come_in_any_number() -> None:
    """The node of an autoscaler has no CSINode for a while: no limit applies there."""
    catalog = make_catalog(
        FAST, csi_volume("pv-a"), csi_volume("pv-b"),
        bound_claim("a", "pv-a"), bound_claim("b", "pv-b"), make_csi_node("n", {DRIVER: 1}),
    )  # fmt: skip
    snapshot = cluster_of([make_node("n")], [on("n", "p", "a")])
    assert is_over(catalog, snapshot, "b") == ["n"]

    for number in range(300):
        info = make_node_info(make_node(f"new-{number}"))
        snapshot.update([NodeSet(info, info.node)])
        assert is_over(catalog, snapshot, "b") == ["n"]
    tell(catalog, None, make_csi_node("new-299", {DRIVER: 0}))
    assert is_over(catalog, snapshot, "b") == ["n", "new-299"]


def test_a_volume_left_attached_still_takes_its_place() -> None:
    """Until it is detached; one that a pod of the node uses is not counted twice."""
    attached = make_attachment("pv-b", "n", DRIVER)
    catalog = make_catalog(
        FAST, csi_volume("pv-a"), csi_volume("pv-b"), make_claim("new", class_name="fast"),
        bound_claim("a", "pv-a"), make_csi_node("n", {DRIVER: 2}),
        make_attachment("pv-a", "n", DRIVER), attached,
    )  # fmt: skip
    snapshot = cluster_of([make_node("n")], [on("n", "p", "a")])

    assert is_over(catalog, snapshot, "new") == ["n"]
    tell(catalog, attached, None)
    assert is_over(catalog, snapshot, "new") == []


def test_a_claim_that_gets_its_volume_is_counted_as_that() -> None:
    """Two claims on one volume are one volume as soon as that shows."""
    catalog = make_catalog(
        FAST, csi_volume("pv", "shared"), csi_volume("pv-2", "shared"),
        make_claim("a", class_name="fast"), make_claim("b", class_name="fast"),
        make_claim("c", class_name="fast"), make_csi_node("n", {DRIVER: 2}),
    )  # fmt: skip
    snapshot = cluster_of([make_node("n")], [on("n", "p", "a", "b")])
    assert is_over(catalog, snapshot, "c") == ["n"]

    tell(catalog, make_claim("a", class_name="fast"), bound_claim("a", "pv"))
    tell(catalog, make_claim("b", class_name="fast"), bound_claim("b", "pv-2"))

    assert is_over(catalog, snapshot, "c") == []


def test_a_pod_with_a_malformed_disk_stops_no_other() -> None:
    """Tenants choose the identifiers of the disks in their pods."""
    catalog = make_catalog(
        FAST, csi_volume("pv-a"), csi_volume("pv-b"),
        bound_claim("a", "pv-a"), bound_claim("b", "pv-b"),
        make_csi_node("n", {DRIVER: 1}), make_csi_node("m", {DRIVER: 1}),
    )  # fmt: skip
    disk = AWSElasticBlockStoreVolumeSource("aws://[/vol-1")
    evil = make_pod_info(
        "evil", node_name="n", volumes=(Volume(name="v", aws_elastic_block_store=disk),)
    )
    snapshot = cluster_of([make_node("n"), make_node("m")], [evil, on("m", "p", "a")])

    assert is_over(catalog, snapshot, "b") == ["m"]


def test_a_fault_on_one_node_fails_once_and_leaves_the_others_counted() -> None:
    """Whatever it is: the changes of the other nodes are not lost with it."""
    catalog = make_catalog(
        FAST, csi_volume("pv-a"), csi_volume("pv-b"), make_volume("pv-c", csi=object()),
        bound_claim("a", "pv-a"), bound_claim("b", "pv-b"), bound_claim("c", "pv-c"),
        make_csi_node("n", {DRIVER: 1}), make_csi_node("m", {DRIVER: 1}),
    )  # fmt: skip
    snapshot = cluster_of([make_node("n"), make_node("m")], [on("n", "q", "c"), on("m", "p", "a")])

    with pytest.raises(AttributeError):
        catalog.refresh(snapshot)

    assert is_over(catalog, snapshot, "b") == ["m"]
    tell(catalog, make_volume("pv-c", csi=object()), csi_volume("pv-c"))
    assert is_over(catalog, snapshot, "b") == ["n", "m"]


def test_a_rebuilt_snapshot_may_have_fewer_rows() -> None:
    """Rows of deleted nodes are gone then."""
    catalog = make_catalog(
        FAST, csi_volume("pv"), bound_claim("a", "pv"),
        *(make_csi_node(f"n{number}", {DRIVER: 0}) for number in range(3)),
    )  # fmt: skip
    snapshot = cluster_of([make_node(f"n{number}") for number in range(3)], [on("n2", "p", "a")])
    assert is_over(catalog, snapshot, "a") == ["n0", "n1"]

    info = make_node_info(make_node("n0"))
    snapshot.rebuild([NodeSet(info, info.node)])

    assert is_over(catalog, snapshot, "a") == ["n0"]


def test_pods_tried_on_a_node_count_there() -> None:
    """As for nominated pods and for preemption; the cluster itself stays as it is."""
    catalog = make_catalog(
        FAST, *(make_claim(name, class_name="fast") for name in "abc"),
        make_csi_node("n", {DRIVER: 1}),
    )  # fmt: skip
    snapshot = cluster_of([make_node("n")])
    assert is_over(catalog, snapshot, "a") == []

    fork = snapshot.fork(add=[on("n", "tried", "b")])
    wanted = catalog.attachments.wanted(make_pod_info("new", volumes=claims_of("a")))

    assert catalog.attachments.rows_over_limit(wanted, fork, np.array([0])).tolist() == [True]
    assert is_over(catalog, snapshot, "a") == []


class History:
    """A cluster that changes at random."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.catalog = make_catalog(FAST)
        self.snapshot = Snapshot()
        self.objects: dict[str, object] = {}
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, PodInfo] = {}
        self.infos = {f"n{i}": make_node_info(make_node(f"n{i}")) for i in range(5)}

    def step(self) -> None:
        """Let one thing happen."""
        match self.chance.randrange(6):
            case 0:
                self.change_node(f"n{self.chance.randrange(5)}")
            case 1 | 2:
                self.change_pod(f"p{self.chance.randrange(12)}")
            case _:
                self.change_object()

    def change_node(self, name: str) -> None:
        """A node comes or goes; only one without pods goes."""
        info = self.infos[name]
        if name not in self.nodes:
            self.nodes[name] = make_node(name)
            self.snapshot.update([NodeSet(info, self.nodes[name])])
        elif not info.pods:
            del self.nodes[name]
            self.snapshot.update([NodeRemoved(name)])

    def change_pod(self, name: str) -> None:
        """A pod comes or goes."""
        known = self.pods.pop(name, None)
        if known is not None:
            del self.infos[known.node_name].pods[known.uid]
            self.snapshot.update([PodRemoved(known)])
        elif self.nodes:
            claims = self.chance.sample([f"c{i}" for i in range(6)], self.chance.randrange(3))
            pod = on(self.chance.choice(sorted(self.nodes)), name, *claims)
            self.pods[name] = pod
            self.infos[pod.node_name].pods[pod.uid] = pod
            self.snapshot.update([PodAdded(pod)])

    def change_object(self) -> None:
        """A storage object comes, changes or goes."""
        number = self.chance.randrange(6)
        new = self.chance.choice(
            (
                make_claim(f"c{number}", class_name="fast"),
                bound_claim(f"c{number}", f"pv-{self.chance.randrange(6)}"),
                csi_volume(f"pv-{number}", self.chance.choice(("shared", f"h{number}"))),
                make_csi_node(f"n{number % 5}", {DRIVER: self.chance.randrange(4)}),
                make_attachment(f"pv-{number}", f"n{self.chance.randrange(5)}", DRIVER),
            )
        )
        key = f"{type(new).__name__} {new.metadata.name}"
        old = self.objects.get(key)
        if old is not None and self.chance.random() < 0.3:
            del self.objects[key]
            tell(self.catalog, old, None)
        else:
            self.objects[key] = new
            tell(self.catalog, old, new)


@pytest.mark.parametrize("seed", range(20))
def test_counts_kept_up_to_date_are_those_counted_anew(seed: int) -> None:
    """Over random histories of pods, nodes, claims, volumes, limits and attachments."""
    history = History(seed)
    for _ in range(80):
        history.step()
        claims = [
            name for name in ("c0", "c1", "c2") if f"default/{name}" in history.catalog.claims
        ]
        anew = make_catalog(FAST, *history.objects.values())
        snapshot = cluster_of(list(history.nodes.values()), list(history.pods.values()))

        kept = is_over(history.catalog, history.snapshot, *claims)

        assert sorted(kept) == sorted(is_over(anew, snapshot, *claims))
        assert history.catalog.in_use.pvc_ref_counts == anew.in_use.pvc_ref_counts
