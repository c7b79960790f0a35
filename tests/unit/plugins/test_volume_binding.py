"""VolumeBinding from PreFilter to PreBind."""

import asyncio
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.api.objects import LabelSelector, ObjectMeta
from scheduler.api.pods import PodInfo
from scheduler.api.storage import (
    ClaimReference,
    CSIDriver,
    CSIStorageCapacity,
    MigratableSources,
)
from scheduler.api.volume_sources import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
)
from scheduler.config.args import STORAGE_SHAPE, VolumeBindingArgs
from scheduler.daemon.bootstrap.time_limit import PluginTimeLimit
from scheduler.daemon.client.writes import PodWrites
from scheduler.errors import SchedulerError
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import NODE_KIND
from scheduler.kernel.framework.runtime import answers
from scheduler.kernel.framework.status import SKIP, SUCCESS, Code, error, unresolvable
from scheduler.kernel.plugins.volume_binding import VolumeBinding
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.kernel.volumes.decision import REASONS
from scheduler.kernel.volumes.translation import TranslationError
from tests.support.builders import HOSTNAME, ZONE, make_node, make_pod_info
from tests.support.clock import FakeClock
from tests.support.fake_plugins import make_calls
from tests.support.handles import make_handle
from tests.support.storage import (
    affinity_in,
    bound_claim,
    claims_of,
    cluster_of,
    make_catalog,
    make_claim,
    make_class,
    make_csi_node,
    make_volume,
    tell,
)
from tests.support.virtual_time import run_in

NODES = [make_node(f"n{i}", zone=f"z{i}") for i in range(3)]
DRIVER = msgspec.convert(
    {"metadata": {"name": "csi"}, "spec": {"storageCapacity": True}}, CSIDriver
)
POD = make_pod_info("p", volumes=claims_of("c"))


class RefusedError(SchedulerError):
    """The API server says no."""


class FakeApi:
    """Takes writes down; `answer` says what comes of each. It waits as the real one does."""

    until = staticmethod(PodWrites.until)

    def __init__(self, answer: Callable[[str, Any], None] = lambda *_: None) -> None:
        self.writes: list[tuple[str, Any]] = []
        self._answer = answer

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        assert method == "PATCH"
        self.writes.append((path, body))
        self._answer(path, body)
        return {"metadata": {"resourceVersion": "2"}}


class Attempt:
    """One pod's way through the plugin."""

    def __init__(
        self,
        catalog: VolumeCatalog,
        pod: PodInfo = POD,
        *,
        api: FakeApi | None = None,
        snapshot: Snapshot | None = None,
        timeout: int = 600,
        scoring: bool = False,
    ) -> None:
        self.pod = pod
        self.snapshot = snapshot or cluster_of(NODES)
        handle = make_handle(
            {VolumeCatalog: catalog}, api=api, snapshot=self.snapshot, listed={NODE_KIND: NODES}
        )
        self.states = handle._services.states
        args = VolumeBindingArgs(timeout, shape=STORAGE_SHAPE if scoring else None)
        self.plugin = VolumeBinding(args, handle)
        self.state = CycleState()
        _, self.pre_filter = self.plugin.pre_filter(self.state, pod, self.snapshot)

    @property
    def rejected(self) -> dict[str, list[str]]:
        """The reasons against each node."""
        bits = self.plugin.filter(self.state, self.pod, self.snapshot, self.snapshot.table.all_rows)
        if bits is None:
            return {}
        told = self.plugin.reasons(self.state, self.pod, self.snapshot)
        return {
            name: [reason.text for i, reason in enumerate(told) if int(bits[row]) >> i & 1]
            for name, row in self.snapshot.table.row_of.items()
            if bits[row]
        }

    def reserve(self, node: str) -> Any:
        """Filter and reserve."""
        _ = self.rejected
        return self.plugin.reserve(self.state, self.pod, node)

    async def pre_bind(self, node: str) -> Any:
        """Write and wait."""
        return await self.plugin.pre_bind(self.state, self.pod, node)


def test_a_pod_without_claims_is_skipped_and_needs_no_binding() -> None:
    """It pays for nothing."""
    attempt = Attempt(make_catalog(), make_pod_info("p"))

    assert attempt.pre_filter == SKIP
    assert attempt.plugin.reserve(attempt.state, attempt.pod, "n0") == SUCCESS
    assert attempt.plugin.pre_bind_pre_flight(attempt.state, attempt.pod, "n0") == SKIP


@pytest.mark.parametrize(
    ("objects", "status"),
    [
        pytest.param((), unresolvable('persistentvolumeclaim "c" not found'), id="missing"),
        pytest.param(
            (make_claim("c", is_lost=True, volume_name="pv"),),
            unresolvable('persistentvolumeclaim "c" bound to non-existent persistentvolume "pv"'),
            id="lost",
        ),
        pytest.param(
            (make_claim("c", deleted="2026-01-01T00:00:00Z"),),
            unresolvable('persistentvolumeclaim "c" is being deleted'),
            id="deleting",
        ),
        pytest.param(
            (make_class(volume_binding_mode="Immediate"), make_claim("c")),
            unresolvable("pod has unbound immediate PersistentVolumeClaims"),
            id="unbound immediate",
        ),
        pytest.param(
            (make_class(), make_claim("c", volume_name="pv")),
            unresolvable("pod has unbound immediate PersistentVolumeClaims"),
            id="bound by name only",
        ),
        pytest.param(
            (make_class(volume_binding_mode=None), make_claim("c")),
            error('VolumeBindingMode not set for StorageClass "local"'),
            id="class without a mode",
        ),
    ],
)
def test_claims_that_no_node_can_satisfy(objects: tuple[Any, ...], status: Any) -> None:
    """The pod is rejected as a whole."""
    assert Attempt(make_catalog(*objects)).pre_filter == status


def test_a_bound_claim_keeps_the_pod_where_its_volume_is() -> None:
    """By the volume's node affinity; a volume that is gone keeps it from everywhere."""
    there = make_catalog(make_volume("pv", hosts=("n1",)), bound_claim("c", "pv"))
    gone = make_catalog(bound_claim("c", "pv"))

    assert Attempt(there).rejected == {"n0": [REASONS[0]], "n2": [REASONS[0]]}
    assert Attempt(gone).rejected == {f"n{i}": [REASONS[3]] for i in range(3)}


def test_volumes_are_made_where_class_and_capacity_allow() -> None:
    """Allowed topologies first, room next."""
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z0", "z1"]}]}]
    wire = {
        "metadata": {"name": "fast"},
        "provisioner": "csi",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": terms,
    }
    catalog = make_catalog(
        msgspec.convert(wire, type(make_class())),
        make_claim("c", class_name="fast", gi=5),
        msgspec.convert(
            {"metadata": {"name": "csi"}, "spec": {"storageCapacity": True}}, CSIDriver
        ),
        capacity("a", {HOSTNAME: "n0"}, "8Gi", "4Gi"),
        capacity("b", {HOSTNAME: "n1"}, "8Gi"),
    )

    assert Attempt(catalog).rejected == {"n0": [REASONS[2]], "n2": [REASONS[1]]}


def capacity(
    name: str, labels: dict[str, str], size: str, largest: str | None = None
) -> CSIStorageCapacity:
    """Room for volumes of the class `fast` on nodes with the labels."""
    return CSIStorageCapacity(
        ObjectMeta(name=name, namespace="ns"), "fast", LabelSelector(labels), size, largest
    )


def test_a_claim_that_was_told_a_node_is_kept_to_it() -> None:
    """As when the scheduler was restarted between writing and binding."""
    catalog = make_catalog(
        make_class("fast", provisioner="csi"),
        make_claim("c", class_name="fast", selected_node="n2"),
    )

    assert set(Attempt(catalog).rejected) == {"n0", "n1"}


def test_two_pods_race_for_the_last_volume_and_one_wins() -> None:
    """What the first one reserves is gone for the second; giving it back makes room again."""
    catalog = make_catalog(
        make_class(), make_volume("pv", hosts=("n1",)), make_claim("c"), make_claim("d")
    )
    first = Attempt(catalog)
    late = Attempt(catalog, make_pod_info("late", volumes=claims_of("d")))
    assert late.rejected == first.rejected == {"n0": [REASONS[1]], "n2": [REASONS[1]]}

    assert first.reserve("n1") == SUCCESS
    second = Attempt(catalog, make_pod_info("q", volumes=claims_of("d")))
    assert set(second.rejected) == {"n0", "n1", "n2"}
    assert Attempt(catalog).rejected == first.rejected
    first.plugin.unreserve(first.state, first.pod, "n1")
    assert Attempt(catalog, make_pod_info("q", volumes=claims_of("d"))).reserve("n1") == SUCCESS


def test_a_decision_on_an_old_version_is_not_reserved() -> None:
    """Somebody has changed the volume since."""
    catalog = make_catalog(make_class(), make_volume("pv"), make_claim("c"))
    attempt = Attempt(catalog)
    assert attempt.rejected == {}
    tell(catalog, make_volume("pv"), make_volume("pv", version="2"))

    status = attempt.plugin.reserve(attempt.state, POD, "n0")

    assert status.code is Code.ERROR
    assert "out of sync" in status.message


def test_pre_bind_writes_and_waits_until_the_controller_is_done() -> None:
    """It is woken by the claim's change, not by a clock."""
    catalog = make_catalog(make_class(), make_volume("pv", hosts=("n1",)), make_claim("c"))
    api = FakeApi()
    attempt = Attempt(catalog, api=api)
    assert attempt.reserve("n1") == SUCCESS
    assert attempt.plugin.pre_bind_pre_flight(attempt.state, POD, "n1") == SUCCESS

    async def run() -> Any:
        binding = asyncio.ensure_future(attempt.pre_bind("n1"))
        await asyncio.sleep(0)
        claim = make_claim("c")
        tell(
            catalog,
            catalog.volumes["pv"],
            make_volume("pv", version="2", claim=claim, hosts=("n1",)),
        )
        await asyncio.sleep(0)
        assert not binding.done()
        tell(catalog, claim, bound_claim("c", "pv", version="3"))
        return await binding

    assert asyncio.run(run()) == SUCCESS
    ((path, body),) = api.writes
    assert path == "/api/v1/persistentvolumes/pv"
    assert body["spec"]["claimRef"]["uid"] == "uid-of-c"


def reserved_for_a_provisioner() -> tuple[VolumeCatalog, Attempt]:
    """An attempt on node n1, whose claim a CSI driver is to make a volume for."""
    catalog = make_catalog(
        make_class("fast", provisioner="csi"), make_claim("c", class_name="fast")
    )
    attempt = Attempt(catalog, api=FakeApi())
    assert attempt.reserve("n1") == SUCCESS
    return catalog, attempt


def test_a_provisioner_that_gives_up_fails_the_attempt_at_once() -> None:
    """It takes the node's name away again."""
    catalog, attempt = reserved_for_a_provisioner()

    async def run() -> Any:
        binding = asyncio.ensure_future(attempt.pre_bind("n1"))
        await asyncio.sleep(0)
        tell(catalog, None, make_claim("c", class_name="fast", version="3", is_annotated=True))
        return await binding

    assert asyncio.run(run()) == error('binding volumes: provisioning failed for PVC "c"')


RESERVED = make_volume("pv", version="2", claim=make_claim("c"), hosts=("n1",))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param(make_claim("c"), None, '"c" not found', id="claim deleted"),
        pytest.param(
            make_claim("c"), make_claim("c", uid="again"), '"c" not found', id="recreated"
        ),
        pytest.param(RESERVED, None, '"pv" not found', id="volume deleted"),
        pytest.param(
            RESERVED,
            make_volume("pv", version="3"),
            "ClaimRef got reset",
            id="reservation taken back",
        ),
        pytest.param(
            RESERVED,
            make_volume("pv", version="3", claim=make_claim("d")),
            "ClaimRef got reset",
            id="another claim's",
        ),
        pytest.param(
            make_claim("c"), bound_claim("c", "x", version="2"), 'got pv "x"', id="another volume"
        ),
        pytest.param(
            RESERVED,
            make_volume("pv", version="3", claim=make_claim("c"), hosts=("n2",)),
            "node affinity doesn't match",
            id="volume moved",
        ),
    ],
)
def test_events_that_end_the_wait_for_a_volume_that_never_comes(
    old: Any, new: Any, message: str
) -> None:
    """Each by itself, and at once."""
    catalog = make_catalog(make_class(), make_volume("pv", hosts=("n1",)), make_claim("c"))
    attempt = Attempt(catalog, api=FakeApi())
    assert attempt.reserve("n1") == SUCCESS

    async def run() -> Any:
        binding = asyncio.ensure_future(attempt.pre_bind("n1"))
        await asyncio.sleep(0)
        tell(catalog, catalog.volumes["pv"], RESERVED)
        await asyncio.sleep(0)
        assert not binding.done()
        tell(catalog, old, new)
        return await asyncio.wait_for(binding, 1)

    assert message in asyncio.run(run()).message


def test_a_node_that_leaves_the_volume_s_area_ends_the_wait() -> None:
    """The controller is stopped: no event of the claim or the volume comes."""
    catalog = make_catalog(make_class(), make_volume("pv", hosts=("n1",)), make_claim("c"))
    attempt = Attempt(catalog, api=FakeApi())
    assert attempt.reserve("n1") == SUCCESS

    async def run() -> Any:
        binding = asyncio.ensure_future(attempt.pre_bind("n1"))
        await asyncio.sleep(0)
        written = make_volume("pv", version="2", claim=make_claim("c"), hosts=("n1",))
        tell(catalog, catalog.volumes["pv"], written)
        await asyncio.sleep(0)
        assert not binding.done()
        attempt.states.object_set(NODE_KIND, make_node("n1", labels={HOSTNAME: "other"}))
        async with asyncio.timeout(1):
            return await binding

    status = asyncio.run(run())

    assert status.code is Code.ERROR
    assert 'pv "pv" node affinity doesn\'t match node "n1"' in status.message


def test_a_node_whose_driver_takes_the_volume_over_ends_the_wait() -> None:
    """Its CSINode says so; the driver's zone is another than the node's."""
    source = MigratableSources(aws_elastic_block_store=AWSElasticBlockStoreVolumeSource("vol-1"))
    volume = make_volume("pv", hosts=("n1",), in_tree=source, labels={ZONE: "z2"})
    catalog = make_catalog(make_class(), volume, make_claim("c"))
    attempt = Attempt(catalog, api=FakeApi())
    assert attempt.reserve("n1") == SUCCESS

    async def run() -> Any:
        binding = asyncio.ensure_future(attempt.pre_bind("n1"))
        await asyncio.sleep(0)
        reference = ClaimReference("c", "default", "uid-of-c")
        meta = msgspec.structs.replace(volume.metadata, resource_version="2")
        tell(catalog, volume, msgspec.structs.replace(volume, metadata=meta, claim=reference))
        await asyncio.sleep(0)
        assert not binding.done()
        tell(catalog, None, make_csi_node("n1", migrated="kubernetes.io/aws-ebs"))
        async with asyncio.timeout(1):
            return await binding

    assert "node affinity doesn't match" in asyncio.run(run()).message


def test_a_volume_is_looked_for_by_the_labels_that_the_node_has_now() -> None:
    """The driver has labelled the node since the decision, and made the volume for the label."""
    catalog, attempt = reserved_for_a_provisioner()

    async def run() -> Any:
        binding = asyncio.ensure_future(attempt.pre_bind("n1"))
        await asyncio.sleep(0)
        attempt.states.object_set(NODE_KIND, make_node("n1", labels={"csi/zone": "a"}))
        made = make_volume("made", claim=make_claim("c"), class_name="fast")
        tell(catalog, None, msgspec.structs.replace(made, affinity=affinity_in("csi/zone", "a")))
        bound = bound_claim("c", "made", class_name="fast", version="3", selected_node="n1")
        tell(catalog, catalog.claims["default/c"], bound)
        return await binding

    assert asyncio.run(run()) == SUCCESS


def test_time_runs_out() -> None:
    """0 seconds are none; nothing stays assumed once the pod is given up."""
    catalog = make_catalog(make_class(), make_volume("pv"), make_claim("c"))
    attempt = Attempt(catalog, api=FakeApi(), timeout=0)
    assert attempt.reserve("n1") == SUCCESS

    status = asyncio.run(attempt.pre_bind("n1"))

    assert status == error("binding volumes: context deadline exceeded")


def test_a_longer_wait_than_usual_is_waited_out() -> None:
    """The limit on calls of plugins does not cut `bindTimeoutSeconds`; nobody sleeps for it."""
    catalog = make_catalog(make_class(), make_volume("pv"), make_claim("c"))
    attempt = Attempt(catalog, api=FakeApi(), timeout=3600)
    assert attempt.reserve("n1") == SUCCESS
    calls, clock = make_calls(time_limit=PluginTimeLimit), FakeClock()
    check = answers.status_of(answers.OK_OR_NOT, "")
    pre_bind = calls.bound_async(attempt.plugin, "PreBind", attempt.plugin.pre_bind, check)

    status = run_in(clock, pre_bind(attempt.state, POD, "n1"))

    assert status == error("binding volumes: context deadline exceeded")
    assert clock.now == FakeClock().now + 3600


@pytest.mark.parametrize("now", [None, make_claim("c", uid="again")], ids=["gone", "again"])
def test_no_volume_is_written_for_a_claim_that_is_gone(now: Any) -> None:
    """Permit may have held the pod for long; a controller would release the volume, unused."""
    catalog = make_catalog(make_class(), make_volume("pv"), make_claim("c"))
    api = FakeApi()
    attempt = Attempt(catalog, api=api)
    assert attempt.reserve("n1") == SUCCESS
    tell(catalog, catalog.claims["default/c"], now)

    status = asyncio.run(attempt.pre_bind("n1"))
    attempt.plugin.unreserve(attempt.state, attempt.pod, "n1")

    assert status == error('binding volumes: persistentvolumeclaim "c" not found')
    assert api.writes == []
    free = catalog.free_volumes("local")
    assert free is not None
    assert len(free) == 1


def test_no_volume_is_written_for_a_claim_that_has_another() -> None:
    """Another scheduler was faster while Permit held the pod; the volume stays free."""
    catalog = make_catalog(make_class(), make_volume("pv"), make_claim("c"))
    api = FakeApi()
    attempt = Attempt(catalog, api=api)
    assert attempt.reserve("n1") == SUCCESS
    tell(catalog, catalog.claims["default/c"], bound_claim("c", "other", version="2"))

    status = asyncio.run(asyncio.wait_for(attempt.pre_bind("n1"), 1))
    attempt.plugin.unreserve(attempt.state, attempt.pod, "n1")

    assert status == error('binding volumes: pvc "c" got pv "other"')
    assert api.writes == []
    assert catalog.free_volumes("local") is not None


def test_a_refused_write_gives_everything_back() -> None:
    """What was written already stays as it is until the watch tells of it."""

    def refuse_claims(path: str, _: Any) -> None:
        if path.endswith("persistentvolumeclaims/d"):
            raise RefusedError("409 Conflict")

    catalog = make_catalog(
        make_class("local", provisioner="csi"),
        make_volume("pv"),
        make_claim("c"),
        make_claim("d", gi=9),
    )
    pod = make_pod_info("p", volumes=claims_of("c", "d"))
    attempt = Attempt(catalog, pod, api=FakeApi(refuse_claims))
    assert attempt.reserve("n1") == SUCCESS

    status = asyncio.run(attempt.pre_bind("n1"))
    attempt.plugin.unreserve(attempt.state, pod, "n1")

    assert status == error("409 Conflict")
    claim = catalog.claim("default/d")
    assert claim is not None
    assert claim.selected_node is None
    assert len(catalog.reserved_to(make_claim("c"))) == 1


def test_without_its_pre_filter_the_filter_fails() -> None:
    """As upstream's does."""
    attempt = Attempt(make_catalog())

    with pytest.raises(LookupError):
        attempt.plugin.filter(CycleState(), POD, attempt.snapshot, slice(0, 3))


def test_a_volume_that_no_driver_can_take_over_is_counted() -> None:
    """Only where a node mounts volumes of its type through CSI."""
    source = MigratableSources(azure_disk=AzureDiskVolumeSource("/d", kind="Shared"))
    catalog = make_catalog(make_volume("pv", in_tree=source), bound_claim("c", "pv"))
    attempt = Attempt(catalog)
    assert attempt.rejected == {}
    tell(catalog, None, make_csi_node("n1", migrated="kubernetes.io/azure-disk"))
    attempt = Attempt(catalog)

    with pytest.raises(TranslationError):
        _ = attempt.rejected

    assert attempt.plugin._metrics.stage_errors["predicate"].value == 1


def test_scores_are_zero_without_the_feature_gate() -> None:
    """Nobody prefers a node for its storage."""
    attempt = Attempt(make_catalog(make_class(), make_volume("pv"), make_claim("c")))

    assert attempt.plugin.skips_score(POD, attempt.snapshot)
    rows = np.arange(3)
    assert attempt.plugin.score(attempt.state, POD, attempt.snapshot, rows).tolist() == [0, 0, 0]


def test_with_the_feature_gate_more_room_left_is_better() -> None:
    """By default 0 % used scores 100 and 100 % scores 0, rounded per class."""
    catalog = make_catalog(
        make_class(),
        make_claim("c", gi=2),
        *(make_volume(f"pv{i}", gi=size, hosts=(f"n{i}",)) for i, size in enumerate((2, 4, 8))),
    )
    attempt = Attempt(catalog, scoring=True)
    assert attempt.rejected == {}

    scores = attempt.plugin.score(attempt.state, POD, attempt.snapshot, np.arange(3))

    assert attempt.plugin.pre_score(attempt.state, POD, attempt.snapshot, np.arange(3)) == SUCCESS
    assert scores.tolist() == [0, 50, 75]


def test_with_the_feature_gate_room_that_drivers_tell_counts() -> None:
    """Where no volume was found, the pool that one would be made from."""
    catalog = make_catalog(
        make_class("fast", provisioner="csi"),
        make_claim("c", class_name="fast", gi=2),
        msgspec.convert(
            {"metadata": {"name": "csi"}, "spec": {"storageCapacity": True}}, CSIDriver
        ),
        *(capacity(f"n{i}", {HOSTNAME: f"n{i}"}, f"{gi}Gi") for i, gi in enumerate((2, 4, 200))),
    )
    attempt = Attempt(catalog, scoring=True)
    assert attempt.rejected == {}

    scores = attempt.plugin.score(attempt.state, POD, attempt.snapshot, np.arange(3))

    assert scores.tolist() == [0, 50, 99]


def test_a_pod_that_waits_for_its_volume_remembers_nothing_per_node() -> None:
    """Thousands may wait for provisioners at a time, in clusters of thousands of nodes."""
    nodes = [make_node(f"n{i}") for i in range(2_000)]
    claims = [make_claim(f"c{i}") for i in range(20)]
    made = make_class(provisioner="csi")
    catalog, snapshot = make_catalog(made, *claims), cluster_of(nodes)
    pods = [make_pod_info(f"p{i}", volumes=claims_of(f"c{i}")) for i in range(20)]
    Attempt(catalog, pods[0], snapshot=snapshot).reserve("n0")

    tracemalloc.start()
    waiting = [Attempt(catalog, pod, snapshot=snapshot) for pod in pods[1:]]
    for attempt in waiting:
        assert attempt.reserve("n7") == SUCCESS
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    one_column = 8 * len(nodes)
    assert held / len(waiting) < one_column
