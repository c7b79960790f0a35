"""VolumeZone, VolumeRestrictions and NodeVolumeLimits as plugins."""

from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.api.pod_shape import VOLUMES
from scheduler.api.pods import PodInfo
from scheduler.api.storage import READ_WRITE_ONCE_POD, CSIDriver, CSISource
from scheduler.api.volume_sources import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    GCEPersistentDiskVolumeSource,
    ISCSIVolumeSource,
    RBDVolumeSource,
    Volume,
)
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import QueueingHint
from scheduler.kernel.framework.status import SKIP, SUCCESS, Status, unresolvable
from scheduler.kernel.framework.types import PreBindWork
from scheduler.kernel.plugins.node_volume_limits import (
    NodeVolumeLimits,
    NodeVolumeLimitsWithScaling,
    after_volume_detached,
)
from scheduler.kernel.plugins.volume_binding import VolumeBinding
from scheduler.kernel.plugins.volume_restrictions import VolumeRestrictions
from scheduler.kernel.plugins.volume_zone import VolumeZone
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.kernel.volumes.translation import BETA_ZONE, TranslationError
from scheduler.tools.offline.cluster import Profiles
from tests.support.builders import ZONE, make_node, make_pod_info
from tests.support.handles import make_handle
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
)

POD = make_pod_info("p", volumes=claims_of("c"))
ONE_POD = make_claim("c", access_modes=(READ_WRITE_ONCE_POD,))


def judged(
    plugin_type: Any, catalog: VolumeCatalog, snapshot: Snapshot, pod: PodInfo = POD
) -> Status | set[str]:
    """What PreFilter says, or the nodes that Filter rejects."""
    plugin = plugin_type(None, make_handle({VolumeCatalog: catalog}, snapshot=snapshot))
    state = CycleState()
    _, status = plugin.pre_filter(state, pod, snapshot)
    if status != SUCCESS:
        assert isinstance(status, Status)
        return status
    bits = plugin.filter(state, pod, snapshot, snapshot.table.all_rows)
    rows = () if bits is None else np.flatnonzero(bits)
    return {snapshot.table.names[row] for row in rows}


@pytest.mark.parametrize("plugin", [VolumeZone, VolumeRestrictions, NodeVolumeLimits])
def test_pods_without_volumes_are_skipped(plugin: Any) -> None:
    """They pay for nothing."""
    pod = make_pod_info("p")

    assert judged(plugin, make_catalog(), cluster_of([make_node()]), pod) == SKIP


# --- VolumeZone -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "rejected"),
    [
        pytest.param({}, SKIP, id="no zone"),
        pytest.param({ZONE: "a"}, {"b", "beta"}, id="one zone"),
        pytest.param({ZONE: "a__b"}, {"beta"}, id="several zones"),
        pytest.param({ZONE: "a____b"}, SKIP, id="a list that cannot be read"),
        pytest.param({BETA_ZONE: "b"}, {"a", "beta"}, id="beta label, found under either key"),
    ],
)
def test_volumes_stay_in_their_zone(labels: dict[str, str], rejected: Any) -> None:
    """A node without any zone takes them all."""
    nodes = [
        make_node("a", zone="a"),
        make_node("b", zone="b"),
        make_node("beta", labels={BETA_ZONE: "c"}),
        make_node("none"),
    ]
    catalog = make_catalog(bound_claim("c", "pv"), make_volume("pv", labels=labels))

    assert judged(VolumeZone, catalog, cluster_of(nodes)) == rejected


@pytest.mark.parametrize(
    ("objects", "status"),
    [
        pytest.param((), unresolvable('persistentvolumeclaim "c" not found'), id="no claim"),
        pytest.param(
            (bound_claim("c", "pv"),),
            unresolvable('persistentvolume "pv" not found'),
            id="no volume",
        ),
        pytest.param(
            (make_claim("c", class_name=""),),
            unresolvable("PersistentVolumeClaim had no pv name and storageClass name"),
            id="no class",
        ),
        pytest.param(
            (make_claim("c"),),
            unresolvable('storageclass.storage.k8s.io "local" not found'),
            id="unknown class",
        ),
        pytest.param(
            (make_claim("c"), make_class(volume_binding_mode=None)),
            unresolvable('VolumeBindingMode not set for StorageClass "local"'),
            id="class without a mode",
        ),
        pytest.param(
            (make_claim("c"), make_class(volume_binding_mode="Immediate")),
            unresolvable("PersistentVolume had no name"),
            id="unbound",
        ),
        pytest.param((make_claim("c"), make_class()), SKIP, id="gets one with the decision"),
    ],
)
def test_claims_without_a_volume(objects: tuple[Any, ...], status: Status) -> None:
    """Only those that wait for their first consumer may pass."""
    assert judged(VolumeZone, make_catalog(*objects), cluster_of([make_node()])) == status


def test_without_pre_filter_what_it_would_say_rejects_every_node() -> None:
    """A profile may have the plugin at Filter only."""
    nodes = [make_node("a", zone="a"), make_node("none")]
    plugin = VolumeZone(None, make_handle({VolumeCatalog: make_catalog()}))
    state, snapshot = CycleState(), cluster_of(nodes)

    bits = plugin.filter(state, POD, snapshot, snapshot.table.all_rows)

    second = plugin.reasons(state, POD, snapshot)[1]
    assert bits is not None
    assert bits.tolist() == [0b10, 0b10]
    assert second.text == 'persistentvolumeclaim "c" not found'


# --- VolumeRestrictions ---------------------------------------------------------------------------


def gce(*, read_only: bool) -> Volume:
    return Volume(gce_persistent_disk=GCEPersistentDiskVolumeSource("pd", read_only))


def iscsi(*, read_only: bool) -> Volume:
    return Volume(iscsi=ISCSIVolumeSource("iqn", read_only))


def rbd(*monitors: str, read_only: bool = False, pool: str = "rbd") -> Volume:
    return Volume(rbd=RBDVolumeSource(monitors, pool, "image", read_only))


EBS = Volume(aws_elastic_block_store=AWSElasticBlockStoreVolumeSource("vol-1"))


@pytest.mark.parametrize(
    ("held", "wanted", "is_rejected"),
    [
        pytest.param(gce(read_only=True), gce(read_only=True), False, id="GCE, all read"),
        pytest.param(gce(read_only=True), gce(read_only=False), True, id="GCE, one writes"),
        pytest.param(EBS, EBS, True, id="EBS"),
        pytest.param(iscsi(read_only=True), iscsi(read_only=True), False, id="ISCSI, all read"),
        pytest.param(iscsi(read_only=False), iscsi(read_only=True), True, id="ISCSI, one writes"),
        pytest.param(rbd("a", "b"), rbd("b", "c"), True, id="RBD, a common monitor"),
        pytest.param(rbd("a"), rbd("c"), False, id="RBD, other monitors"),
        pytest.param(rbd("a"), rbd("a", pool="other"), False, id="RBD, another pool"),
        pytest.param(EBS, gce(read_only=False), False, id="other disks"),
    ],
)
def test_a_disk_that_the_node_has_already(held: Volume, wanted: Volume, is_rejected: bool) -> None:
    """Only the node that has it is rejected."""
    running = make_pod_info("r", node_name="n", volumes=[held])
    snapshot = cluster_of([make_node("n"), make_node("free")], [running])
    pod = make_pod_info("p", volumes=[wanted])

    found = judged(VolumeRestrictions, make_catalog(), snapshot, pod)

    assert found == ({"n"} if is_rejected else set())


def test_a_claim_for_one_pod_that_another_pod_uses_rejects_every_node() -> None:
    """Taking that pod away would help, so it is not unresolvable; other namespaces do not count."""
    user = make_pod_info("r", node_name="n", volumes=claims_of("c"))
    foreign = make_pod_info("f", namespace="other", node_name="n", volumes=claims_of("c"))
    nodes = [make_node("n"), make_node("m")]
    catalog = make_catalog(ONE_POD)

    assert judged(VolumeRestrictions, catalog, cluster_of(nodes, [user])) == {"n", "m"}
    assert judged(VolumeRestrictions, catalog, cluster_of(nodes, [foreign])) == SKIP


def test_pods_tried_on_and_off_change_who_uses_the_claim() -> None:
    """By name only: pods of other namespaces count here, upstream too."""
    user = make_pod_info("r", node_name="n", volumes=claims_of("c"))
    snapshot = cluster_of([make_node("n")], [user])
    handle = make_handle({VolumeCatalog: make_catalog(ONE_POD)}, snapshot=snapshot)
    plugin, state = VolumeRestrictions(None, handle), CycleState()
    plugin.pre_filter(state, POD, snapshot)

    trial = state.clone()
    plugin.remove_pod(trial, POD, snapshot, user, 0)
    assert plugin.filter(trial, POD, snapshot, slice(0, 1)) is None
    plugin.add_pod(
        trial, POD, snapshot, make_pod_info("f", namespace="x", volumes=claims_of("c")), 0
    )
    assert plugin.filter(trial, POD, snapshot, slice(0, 1)) is not None
    assert plugin.filter(state, POD, snapshot, slice(0, 1)) is not None


# --- NodeVolumeLimits -----------------------------------------------------------------------------


def test_a_full_node_is_rejected() -> None:
    """Nodes whose driver names no limit, and nodes without drivers, hold any number."""
    catalog = make_catalog(
        bound_claim("c", "pv"), bound_claim("d", "pv-2"),
        make_volume("pv", csi=CSISource("csi", "a")),
        make_volume("pv-2", csi=CSISource("csi", "b")),
        make_csi_node("full", {"csi": 1}), make_csi_node("endless", {"csi": None}),
    )  # fmt: skip
    names = ("full", "endless", "bare")
    running = [make_pod_info(f"r-{n}", node_name=n, volumes=claims_of("d")) for n in names]
    snapshot = cluster_of([make_node(name) for name in names], running)

    assert judged(NodeVolumeLimits, catalog, snapshot) == {"full"}


def test_limits_hold_without_pre_filter() -> None:
    """A profile may name the plugin for Filter alone; pods without volumes then fit."""
    catalog = make_catalog(
        bound_claim("c", "pv"),
        make_volume("pv", csi=CSISource("csi", "a")),
        make_csi_node("full", {"csi": 0}),
    )
    snapshot = cluster_of([make_node("full"), make_node("bare")])
    plugin = NodeVolumeLimits(None, make_handle({VolumeCatalog: catalog}, snapshot=snapshot))
    rows = slice(0, snapshot.table.size)

    bits = plugin.filter(CycleState(), POD, snapshot, rows)

    assert bits is not None
    assert (bits != 0).tolist() == [name == "full" for name in snapshot.table.names]
    assert plugin.filter(CycleState(), make_pod_info("plain"), snapshot, rows) is None


def test_a_disk_that_no_driver_takes_over_counts_only_where_there_are_csi_nodes() -> None:
    """Nothing is counted on a node without a CSINode, so nothing is translated for it."""
    disk = AzureDiskVolumeSource("/d", kind="Shared")
    pod = make_pod_info("p", volumes=[Volume(azure_disk=disk)])
    snapshot = cluster_of([make_node("n")])

    assert judged(NodeVolumeLimits, make_catalog(), snapshot, pod) == set()
    with pytest.raises(TranslationError):
        judged(NodeVolumeLimits, make_catalog(make_csi_node("n")), snapshot, pod)


def test_a_claim_that_does_not_exist_rejects_every_node() -> None:
    """For profiles without the plugins that look for it before."""
    snapshot = cluster_of([make_node("n")])
    plugin = NodeVolumeLimits(None, make_handle({VolumeCatalog: make_catalog()}, snapshot=snapshot))
    state = CycleState()
    plugin.pre_filter(state, POD, snapshot)

    bits = plugin.filter(state, POD, snapshot, slice(0, 1))

    assert bits is not None
    (reason,) = (
        r for i, r in enumerate(plugin.reasons(state, POD, snapshot)) if int(bits[0]) >> i & 1
    )
    assert reason.text == 'looking up PVC default/c: persistentvolumeclaim "c" not found'


@pytest.mark.parametrize(
    ("volumes", "is_woken"),
    [
        pytest.param(claims_of("c"), True, id="a claim"),
        pytest.param([EBS], True, id="a disk of the driver"),
        pytest.param([gce(read_only=True)], False, id="a disk of another driver"),
        pytest.param(
            [gce(read_only=True), Volume(azure_disk=AzureDiskVolumeSource("/d", kind="Dedicated"))],
            True,
            id="a disk that no driver takes over",
        ),
        pytest.param([rbd("a")], False, id="no driver's disk"),
    ],
)
def test_a_volume_that_is_detached_wakes_the_pod(volumes: list[Volume], is_woken: bool) -> None:
    """If its own volumes may be of that driver."""
    pod, gone = make_pod_info("p", volumes=volumes), make_attachment("pv", "n", "ebs.csi.aws.com")

    hint = after_volume_detached(pod, gone, None)

    assert (hint is QueueingHint.QUEUE) == is_woken


def test_plugins_about_volumes_are_not_even_asked_about_pods_without() -> None:
    """Such pods pay nothing for them."""
    plugins = (VolumeBinding, VolumeZone, VolumeRestrictions, NodeVolumeLimits)
    asked: list[str] = []

    class Watched(VolumeZone):
        def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Any:
            asked.append(pod.name)
            return super().pre_filter(state, pod, snapshot)

    profiles = Profiles(None, {"VolumeZone": Watched})
    disk = make_pod_info("disk", volumes=[EBS])
    framework, snapshot = profiles.frameworks["default-scheduler"], cluster_of([make_node("n")])

    found = framework.filtering.find_nodes_that_fit(make_pod_info("plain"), snapshot)
    framework.filtering.find_nodes_that_fit(disk, snapshot)

    assert all(plugin.NEEDS == VOLUMES for plugin in plugins)
    assert len(found.feasible_rows()) == 1
    assert asked == ["disk"]


def test_plugins_about_volumes_have_nothing_to_do_for_pods_without() -> None:
    """So nothing is lost by not asking: nothing is reserved, prepared or scored for them."""
    profiles = Profiles(None)
    framework, snapshot = profiles.frameworks["default-scheduler"], cluster_of([make_node("n")])
    plain, state = make_pod_info("plain"), CycleState()
    plugins = framework.plugins
    spared = {p.name for p in (*plugins.reserve, *plugins.pre_bind) if p.needs == VOLUMES}

    assert spared == {"VolumeBinding"}
    plugin = plugins.by_name["VolumeBinding"]
    assert isinstance(plugin, VolumeBinding)
    assert plugin.reserve(state, plain, "n") == SUCCESS
    assert plugin.pre_bind_pre_flight(state, plain, "n") == SKIP
    assert plugin.skips_score(plain, snapshot)
    assert framework.pre_bind_work(state, plain.on_node("n")) is PreBindWork.NOTHING
    assert framework.run_reserve_plugins(state, plain.on_node("n")) == SUCCESS


def test_plugins_about_volumes_are_reported_in_a_sampled_cycle_though_they_are_not_asked() -> None:
    """Dashboards find the rows that kube-scheduler has of such a pod, and no others."""

    class Deaf(VolumeBinding):
        """Fails whatever it is asked."""

        def pre_filter(self, *_: Any) -> Any:
            raise AssertionError("asked")

        reserve = pre_bind_pre_flight = pre_filter

    profiles = Profiles(None, {"VolumeBinding": Deaf})
    framework = profiles.frameworks["default-scheduler"]
    snapshot, plain, state = cluster_of([make_node("n")]), make_pod_info("plain"), CycleState()
    framework.calls.begin_cycle(sampled=True)

    framework.filtering.find_nodes_that_fit(plain, snapshot)
    framework.run_reserve_plugins(state, plain.on_node("n"))
    assert framework.pre_bind_work(state, plain.on_node("n")) is PreBindWork.NOTHING

    about = {plugin.name for plugin in framework.plugins.pre_filter if plugin.needs == VOLUMES}
    timed = framework.calls.metrics.plugin_execution_duration
    assert {key for key in timed if key[0] in about} == {
        *((name, "PreFilter", "Skip") for name in about),
        ("VolumeBinding", "Reserve", "Success"),
        ("VolumeBinding", "PreBindPreFlight", "Skip"),
    }


@pytest.mark.parametrize(
    ("plugin_type", "demands", "lacking"),
    [
        pytest.param(NodeVolumeLimitsWithScaling, True, {"other", "bare"}, id="demanded"),
        pytest.param(NodeVolumeLimitsWithScaling, False, set(), id="not demanded"),
        pytest.param(NodeVolumeLimitsWithScaling, None, set(), id="not said"),
        pytest.param(NodeVolumeLimits, True, set(), id="without the gate"),
    ],
)
def test_a_driver_may_demand_to_be_installed(
    plugin_type: type[NodeVolumeLimits], demands: bool | None, lacking: set[str]
) -> None:
    """With the gate VolumeLimitScaling, only where CSIDriver says so; limits are still kept."""
    driver = {"preventPodSchedulingIfMissing": demands}
    catalog = make_catalog(
        bound_claim("c", "pv"), bound_claim("d", "pv-2"),
        make_volume("pv", csi=CSISource("csi", "a")),
        make_volume("pv-2", csi=CSISource("csi", "b")),
        make_csi_node("full", {"csi": 1}), make_csi_node("free", {"csi": None}),
        make_csi_node("other", {"nfs": None}),
        msgspec.convert({"metadata": {"name": "csi"}, "spec": driver}, CSIDriver),
    )  # fmt: skip
    running = [make_pod_info("r", node_name="full", volumes=claims_of("d"))]
    snapshot = cluster_of([make_node(n) for n in ("full", "free", "other", "bare")], running)
    plugin = plugin_type(None, make_handle({VolumeCatalog: catalog}, snapshot=snapshot))
    state = CycleState()
    plugin.pre_filter(state, POD, snapshot)

    bits = plugin.filter(state, POD, snapshot, snapshot.table.all_rows)

    assert bits is not None
    reasons = plugin.reasons(state, POD, snapshot)
    found = {
        name: reasons[int(bits[row]).bit_length() - 1].text
        for name, row in snapshot.table.row_of.items()
        if bits[row]
    }
    not_there = dict.fromkeys(lacking, "csi CSI driver is not installed on the node")
    assert found == {"full": "node(s) exceed max volume count", **not_there}
