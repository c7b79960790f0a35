"""What a reconcile applies, what it leaves alone, and what a failure stops."""

import asyncio

import pytest
from structlog.testing import capture_logs

from scheduler.daemon.client.errors import NotFoundError
from scheduler.daemon.client.wire import micro_time
from scheduler.operator.desired import Reference, deployment_of, desired, reference
from scheduler.operator.reconciler import RESYNC_SECONDS, SETTLE_SECONDS, Reconciler
from scheduler.operator.resources import Scheduler
from tests.support.clock import FakeClock
from tests.support.virtual_time import run_in
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import (
    make_config_map,
    make_profile,
    make_scheduler,
    make_wheel,
    planned,
)

CONFIG = Reference("v1", "ConfigMap", "stowage", "stowage-config")


class World:
    """A cluster and its reconciler."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.clock = FakeClock()
        self.reconciler = Reconciler(cluster, "stowage:1", self.clock)

    def reconcile(self, *, after: float = 0.0) -> list[str]:
        """One reconcile; return the writes."""
        self.clock.advance(after)
        del self.cluster.asked[:]
        self.succeeded = asyncio.run(self.reconciler.reconcile())
        return list(self.cluster.asked)


def test_an_instance_is_made_and_then_left_alone() -> None:
    """A second reconcile writes nothing; the status says what there is."""
    scheduler = make_scheduler()
    world = World(FakeCluster(scheduler))

    first, second = world.reconcile(), world.reconcile(after=1)

    assert len([each for each in first if each.startswith("apply")]) == 13
    assert first[-1] == "status Scheduler stowage/stowage"
    assert second == []
    assert world.cluster.status(scheduler)["observedGeneration"] == 3


@pytest.mark.parametrize("separator", ["_", "-"])
def test_the_leader_is_the_pod_that_holds_the_lease(separator: str) -> None:
    """With CoordinatedLeaderElection a dash separates the random part of its identity."""
    scheduler = make_scheduler()
    world = World(FakeCluster(scheduler))
    holder = f"stowage-7d9c{separator}0b5a8f4e-6c1d-4e2f-9a3b-5c7d8e9f0a1b"
    lease = Reference("coordination.k8s.io/v1", "Lease", "stowage", "stowage")
    world.cluster.objects[lease] = {"spec": {"holderIdentity": holder}}

    world.reconcile()

    assert world.cluster.status(scheduler)["leader"] == "stowage-7d9c"


def test_an_expired_lease_has_no_leader() -> None:
    """All replicas may be down: the holder of the last term is no leader."""
    scheduler = make_scheduler()
    world = World(FakeCluster(scheduler))
    lease = Reference("coordination.k8s.io/v1", "Lease", "stowage", "stowage")
    spec = {
        "holderIdentity": "stowage-7d9c_0b5a8f4e-6c1d-4e2f-9a3b-5c7d8e9f0a1b",
        "leaseDurationSeconds": 15,
        "renewTime": micro_time(world.clock.wall()),
    }
    world.cluster.objects[lease] = {"spec": spec}

    world.reconcile(after=14)
    assert world.cluster.status(scheduler)["leader"] == "stowage-7d9c"

    world.reconcile(after=RESYNC_SECONDS)
    assert world.cluster.status(scheduler)["leader"] == ""


def test_the_finalizer_comes_first() -> None:
    """Before anything is made that has no owner."""
    cluster = FakeCluster(make_scheduler(finalizers=()))

    assert World(cluster).reconcile()[0] == "finalizers Scheduler stowage/stowage"


def test_a_change_of_the_configuration_changes_the_configmap_only() -> None:
    """The Deployment is the same: nothing restarts."""
    world = World(FakeCluster(make_scheduler()))
    world.reconcile()
    deployment = deployment_of(make_scheduler())
    generation = world.cluster.objects[deployment]["metadata"]["generation"]

    world.cluster.replace(make_scheduler(configuration={"podMaxBackoffSeconds": 20}))
    world.reconcile(after=1)

    assert "podMaxBackoffSeconds: 20" in world.cluster.objects[CONFIG]["data"]["config.yaml"]
    assert world.cluster.objects[deployment]["metadata"]["generation"] == generation


def test_a_wheel_is_read_again_at_each_reconcile() -> None:
    """Missing it is told, put there it is used, changed it rolls the pods."""
    wheel = {"configMap": "racks", "key": "racks.whl"}
    scheduler = make_scheduler(plugins=[{"name": "racks", "wheel": wheel}])
    world = World(FakeCluster(scheduler))
    place = Reference("v1", "ConfigMap", "stowage", "racks")
    deployment = deployment_of(scheduler)

    def annotations(content: bytes) -> dict[str, str]:
        world.cluster.objects[place] = make_config_map("racks", {"racks.whl": content})
        world.reconcile(after=1)
        found = world.cluster.objects[deployment]["spec"]["template"]["metadata"]["annotations"]
        assert isinstance(found, dict)
        return found

    world.reconcile()
    [problem] = world.cluster.status(scheduler)["problems"]
    was_made = deployment in world.cluster.objects
    first, same, other = (annotations(make_wheel(name)) for name in ("A", "A", "B"))

    assert problem["path"] == "spec.plugins[0].wheel.configMap"
    assert not was_made
    assert first == same != other
    assert world.cluster.status(scheduler)["problems"] == []


def test_a_wheel_that_may_not_be_read_stops_no_other() -> None:
    """Its instance says so."""
    plugins = [{"name": "racks", "wheel": {"configMap": "racks", "key": "racks.whl"}}]
    hidden = make_scheduler("a", plugins=plugins)
    world = World(FakeCluster(hidden, make_scheduler("b")))
    world.cluster.hidden = {"ConfigMap stowage/racks"}

    world.reconcile()

    [problem] = world.cluster.status(hidden)["problems"]
    assert "no such right" in problem["message"]
    assert deployment_of(make_scheduler("b")) in world.cluster.objects


def test_drift_is_put_right() -> None:
    """At once where a watch tells of it, at the next round elsewhere."""
    world = World(FakeCluster(make_scheduler()))
    world.reconcile()
    deployment = deployment_of(make_scheduler())
    service = Reference("v1", "Service", "stowage", "stowage-metrics")

    world.cluster.objects[deployment]["spec"]["replicas"] = 0
    world.cluster.objects[deployment]["metadata"]["generation"] += 1
    world.reconcile(after=1)
    replicas = world.cluster.objects[deployment]["spec"]["replicas"]
    del world.cluster.objects[service]
    world.reconcile(after=1)
    is_back_at_once = service in world.cluster.objects
    world.reconcile(after=RESYNC_SECONDS)

    assert replicas == 2
    assert not is_back_at_once
    assert service in world.cluster.objects


def test_a_deployment_that_is_gone_comes_back() -> None:
    """Its absence is seen at the next reconcile."""
    world = World(FakeCluster(make_scheduler()))
    world.reconcile()

    del world.cluster.objects[deployment_of(make_scheduler())]
    world.reconcile(after=1)

    assert deployment_of(make_scheduler()) in world.cluster.objects


def test_what_is_not_wanted_any_more_goes() -> None:
    """When the spec changes, not at each reconcile."""
    on = make_scheduler(monitoring={"rules": True})
    world = World(FakeCluster(on))
    world.reconcile()
    rules = Reference("monitoring.coreos.com/v1", "PrometheusRule", "stowage", "stowage")
    was_there = rules in world.cluster.objects

    world.cluster.replace(make_scheduler())
    asked = world.reconcile(after=1)
    later = world.reconcile(after=RESYNC_SECONDS)

    assert was_there
    assert rules not in world.cluster.objects
    assert f"delete {rules}" in asked
    assert not [each for each in later if each.startswith("delete")]


def test_leaving_removes_what_has_no_owner() -> None:
    """Then the instance may go; the rest has an owner that is gone."""
    scheduler = make_scheduler()
    world = World(FakeCluster(scheduler))
    world.reconcile()

    world.cluster.replace(make_scheduler(is_leaving=True))
    asked = world.reconcile(after=1)

    assert {each.kind for each in world.cluster.objects}.isdisjoint(
        {"ClusterRole", "ClusterRoleBinding"}
    )
    assert asked[-1] == "finalizers Scheduler stowage/stowage"
    assert world.cluster.customs == {}


def test_leaving_needs_no_profiles() -> None:
    """Both kinds are deleted: that of the profiles is gone while Schedulers have a finalizer."""
    world = World(FakeCluster(make_scheduler()))
    world.reconcile()
    world.cluster.replace(make_scheduler(is_leaving=True))
    listed = world.cluster.list_objects

    async def without_profiles(plural: str, kind: type[Scheduler]) -> object:
        if kind is not Scheduler:
            raise NotFoundError(f"GET {plural}", status=404)
        return await listed(plural, kind)

    world.cluster.list_objects = without_profiles
    with pytest.raises(NotFoundError):
        world.reconcile(after=1)

    assert world.cluster.customs == {}
    assert not [each for each in world.cluster.objects if each.kind.startswith("Cluster")]


def test_a_spec_that_was_half_applied_is_taken_back() -> None:
    """What was applied before it is applied again, however soon it is asked for again."""
    world = World(FakeCluster(make_scheduler()))
    world.reconcile()
    before = world.cluster.objects[CONFIG]["data"]

    world.cluster.refused = {"Deployment stowage/stowage"}
    world.cluster.replace(make_scheduler(replicas=9, configuration={"podMaxBackoffSeconds": 20}))
    world.reconcile(after=1)
    assert world.cluster.objects[CONFIG]["data"] != before
    world.cluster.refused = set()
    world.cluster.replace(make_scheduler())
    world.reconcile(after=1)

    assert world.cluster.objects[CONFIG]["data"] == before


def test_an_object_that_may_not_be_read_stands_in_the_status() -> None:
    """The status would otherwise say of the spec before that all of it is there."""
    scheduler = make_scheduler()
    world = World(FakeCluster(scheduler))
    world.reconcile()

    world.cluster.hidden = {"ServiceAccount stowage/stowage"}
    world.reconcile(after=RESYNC_SECONDS)

    found = {each["type"]: each for each in world.cluster.status(scheduler)["conditions"]}
    assert found["Progressing"]["reason"] == "ApplyFailed"
    assert "no such right" in found["Progressing"]["message"]
    assert not world.succeeded


def test_a_refusal_stops_neither_the_rest_nor_the_others() -> None:
    """It stands in the status, is logged once, and is tried again."""
    monitored = make_scheduler("a", monitoring={"rules": True})
    world = World(FakeCluster(monitored, make_scheduler("b")))
    world.cluster.refused = {"PrometheusRule stowage/a"}

    with capture_logs() as logs:
        world.reconcile()
        world.reconcile(after=5)

    assert not world.succeeded
    assert deployment_of(monitored) in world.cluster.objects
    assert deployment_of(make_scheduler("b")) in world.cluster.objects
    found = {each["type"]: each for each in world.cluster.status(monitored)["conditions"]}
    assert found["Progressing"]["reason"] == "ApplyFailed"
    assert "no such right" in found["Progressing"]["message"]
    assert len(logs) == 1
    world.cluster.refused = set()
    with capture_logs() as logs:
        world.reconcile(after=5)
    assert world.succeeded
    assert [each["event"] for each in logs] == ["Reconcile succeeded again"]


def test_an_instance_that_changed_meanwhile_is_reconciled_again() -> None:
    """Its change wakes; nothing is made for a version that is gone."""
    cluster = FakeCluster(make_scheduler(finalizers=()))
    cluster.outdated = set(cluster.customs)

    assert World(cluster).reconcile() == []


def test_profiles_come_into_force_and_are_told() -> None:
    """One reconcile does both; the next one writes nothing."""
    good, bad = make_profile("good"), make_profile("bad", weights={})
    world = World(FakeCluster(make_scheduler(profileSelector={}), good, bad))

    world.reconcile()
    again = world.reconcile(after=1)

    assert "schedulerName: good" in world.cluster.objects[CONFIG]["data"]["config.yaml"]
    assert world.cluster.status(good)["conditions"][0]["reason"] == "InForce"
    assert world.cluster.status(bad)["conditions"][0]["reason"] == "Invalid"
    assert again == []


def test_a_profile_is_not_in_force_before_its_configuration_is_written() -> None:
    """The daemons still have the configuration before: the profile keeps its earlier version."""
    old = make_profile("batch")
    world = World(FakeCluster(make_scheduler(profileSelector={}), old))
    world.reconcile()
    before = world.cluster.status(old)["inForce"]
    world.cluster.refused = {"ConfigMap stowage/stowage-config"}
    world.cluster.replace(make_profile("batch", percentageOfNodesToScore=50))

    world.reconcile(after=1)

    found = world.cluster.status(old)
    assert found["conditions"][0]["reason"] == "NotApplied"
    assert found["inForce"] == before
    world.cluster.refused = set()
    world.reconcile(after=5)
    found = world.cluster.status(old)
    assert found["conditions"][0]["reason"] == "InForce"
    assert found["inForce"] != before


def test_a_profile_is_in_force_although_another_object_is_refused() -> None:
    """The Prometheus operator may not be installed."""
    profile = make_profile("batch")
    monitored = make_scheduler("a", monitoring={"rules": True}, profileSelector={})
    world = World(FakeCluster(monitored, profile))
    world.cluster.refused = {"PrometheusRule stowage/a"}

    world.reconcile()

    assert not world.succeeded
    assert world.cluster.status(profile)["conditions"][0]["reason"] == "InForce"


def test_a_broken_configuration_leaves_what_runs() -> None:
    """And is told; mended, it is in force."""
    scheduler = make_scheduler()
    world = World(FakeCluster(scheduler))
    world.reconcile()
    before = world.cluster.objects[CONFIG]

    world.cluster.replace(make_scheduler(configuration={"podMaxBackoffSeconds": -1}))
    world.reconcile(after=RESYNC_SECONDS)
    reasons = {
        each["type"]: each["reason"] for each in world.cluster.status(scheduler)["conditions"]
    }

    assert world.cluster.objects[CONFIG] == before
    assert reasons["ConfigurationValid"] == "Invalid"
    assert deployment_of(scheduler) in world.cluster.objects


def test_it_reconciles_periodically_and_after_changes() -> None:
    """Seldom where nothing happens, and once for changes that come together."""
    world = World(FakeCluster(make_scheduler()))
    reconciles: list[tuple[float, bool]] = []
    reconcile = world.reconciler.reconcile

    async def watched() -> bool:
        reconciles.append((world.clock.now, succeeded := await reconcile()))
        return succeeded

    async def story() -> None:
        start = world.clock.now
        world.reconciler.reconcile = watched  # when it reconciles is the point
        running = asyncio.create_task(world.reconciler.run())
        await asyncio.sleep(RESYNC_SECONDS * 2.5)
        often = [time - start for time, _ in reconciles]
        del reconciles[:]
        woken = world.clock.now
        for _ in range(3):
            world.reconciler.wake()
        await asyncio.sleep(SETTLE_SECONDS * 2)
        running.cancel()

        assert often == pytest.approx([0, RESYNC_SECONDS, RESYNC_SECONDS * 2])
        assert [time - woken for time, _ in reconciles] == pytest.approx([SETTLE_SECONDS])

    run_in(world.clock, story())


def test_changes_do_not_defer_the_repair_of_drift() -> None:
    """Each wakes the reconciler shortly before the next resync; that comes when it is due."""
    world = World(FakeCluster(make_scheduler()))
    service = Reference("v1", "Service", "stowage", "stowage-metrics")

    async def story() -> bool:
        running = asyncio.create_task(world.reconciler.run())
        await asyncio.sleep(1)
        del world.cluster.objects[service]
        await asyncio.sleep(RESYNC_SECONDS - 3)
        world.reconciler.wake()
        await asyncio.sleep(3)
        running.cancel()
        return service in world.cluster.objects

    assert run_in(world.clock, story())


def test_a_write_that_is_refused_is_retried_later_and_later() -> None:
    """Until the next resync at most, which repairs the drift of the other instances."""
    world = World(FakeCluster(make_scheduler()))
    world.cluster.refused = {"Deployment stowage/stowage"}
    tries: list[float] = []
    reconcile = world.reconciler.reconcile

    async def watched() -> bool:
        tries.append(world.clock.now)
        return await reconcile()

    async def story() -> None:
        start = world.clock.now
        world.reconciler.reconcile = watched  # when it reconciles is the point
        running = asyncio.create_task(world.reconciler.run())
        await asyncio.sleep(RESYNC_SECONDS * 2.5)
        refused = [time - start for time in tries]
        world.cluster.refused = set()
        await asyncio.sleep(RESYNC_SECONDS)
        del tries[:]
        world.cluster.refused = {"Deployment stowage/stowage"}
        world.cluster.objects[deployment_of(make_scheduler())]["metadata"]["generation"] += 1
        start = world.clock.now
        world.reconciler.wake()
        await asyncio.sleep(6)
        running.cancel()

        assert refused == pytest.approx([0, 5, 15, 30, 60])
        assert [time - start for time in tries] == pytest.approx([SETTLE_SECONDS, 5.3])

    run_in(world.clock, story())


def test_a_reconcile_that_raises_is_logged_and_repeated_later_and_later() -> None:
    """Whatever it raises; changes meanwhile do not make it come sooner."""
    world = World(FakeCluster(make_scheduler()))
    tries: list[float] = []

    async def fails(_plural: str, _kind: type[object]) -> object:
        tries.append(world.clock.now)
        raise RecursionError("too deep")

    async def story() -> None:
        start = world.clock.now
        world.cluster.list_objects = fails
        running = asyncio.create_task(world.reconciler.run())
        world.reconciler.wake()
        await asyncio.sleep(200)
        running.cancel()

        assert [time - start for time in tries] == pytest.approx([0, 5, 15, 35, 75, 135, 195])

    with capture_logs() as logs:
        run_in(world.clock, story())
    [told] = logs
    assert told["event"] == "Reconcile failed; retrying"
    assert told["reason"].startswith("RecursionError: too deep (test_reconciler.py:")


def test_what_one_object_meets_with_is_its_own_failure() -> None:
    """A Deployment that is none, and a profile whose status cannot be made."""
    odd, good = make_scheduler("odd"), make_scheduler("good", created=1)
    cluster = FakeCluster(odd, good, make_profile("p"))
    world = World(cluster)
    world.reconcile()
    cluster.objects[deployment_of(odd)] = {"metadata": "text"}
    cluster.replace(make_scheduler("good", created=1, configuration={"podMaxBackoffSeconds": 20}))

    with capture_logs() as logs:
        world.reconcile(after=1)

    assert not world.succeeded
    [told] = logs
    assert told["reason"].startswith("Scheduler stowage/odd: AttributeError: ")
    config = cluster.objects[Reference("v1", "ConfigMap", "stowage", "good-config")]
    assert "podMaxBackoffSeconds: 20" in config["data"]["config.yaml"]


def test_a_deployment_without_a_spec_is_a_deployment() -> None:
    """Its status is told; the next write gives it one."""
    scheduler = make_scheduler()
    world = World(FakeCluster(scheduler))
    world.reconcile()
    del world.cluster.objects[deployment_of(scheduler)]["spec"]

    world.reconcile(after=RESYNC_SECONDS)

    assert world.succeeded
    assert world.cluster.objects[deployment_of(scheduler)]["spec"]["replicas"] == 2


def test_a_hostile_profile_beside_a_good_one() -> None:
    """The good one is served; the status of the other says why it is not."""
    good = make_profile("good")
    deep = make_profile("deep", unreadable="expected at most 64 levels of nesting, got 4500")
    world = World(FakeCluster(make_scheduler(profileSelector={}), deep, good))

    world.reconcile()

    assert world.succeeded
    assert "schedulerName: good" in world.cluster.objects[CONFIG]["data"]["config.yaml"]
    [condition] = world.cluster.status(deep)["conditions"]
    assert (condition["reason"], condition["message"]) == ("Invalid", f"spec: {deep.unreadable}")


def test_an_unreadable_scheduler_is_left_alone_and_told() -> None:
    """Its objects stay, down to the last; its status says why."""
    scheduler = make_scheduler()
    world = World(FakeCluster(scheduler))
    world.reconcile()
    before = dict(world.cluster.objects)

    world.cluster.replace(make_scheduler(unreadable="expected at most 64 levels of nesting"))
    asked = world.reconcile(after=RESYNC_SECONDS)

    assert asked == ["status Scheduler stowage/stowage"]
    assert world.cluster.objects == before
    assert "64 levels" in str(world.cluster.status(scheduler)["problems"])


FOREIGN = [
    pytest.param("ConfigMap stowage/stowage-config", {}, "and was not made by", id="unmarked"),
    pytest.param(
        "ServiceAccount stowage/stowage",
        {"labels": {"app.kubernetes.io/managed-by": "stowage-operator"}},
        "and was not made by",
        id="marked by a tenant",
    ),
    pytest.param(
        "Service stowage/stowage-metrics",
        {"ownerReferences": [{"kind": "Mesh", "name": "m", "uid": "9", "controller": True}]},
        "and is controlled by Mesh m",
        id="of another controller",
    ),
    pytest.param(
        "Deployment stowage/stowage",
        {
            "labels": {"app.kubernetes.io/managed-by": "stowage-operator"},
            "ownerReferences": [
                {"kind": "Scheduler", "name": "stowage", "uid": "another", "controller": True}
            ],
        },
        "and is controlled by Scheduler stowage",
        id="of a Scheduler that is gone",
    ),
    pytest.param(
        "Deployment stowage/stowage",
        {
            "ownerReferences": [
                {
                    "kind": "Scheduler",
                    "name": "stowage",
                    "uid": "uid-of-stowage",
                    "controller": True,
                }
            ],
        },
        "without the label app.kubernetes.io/managed-by=stowage-operator; restore it",
        id="of the Scheduler, without its label",
    ),
    pytest.param(
        "ClusterRole stowage:stowage:stowage", {}, "and was not made by", id="cluster-wide"
    ),
]


def put(cluster: FakeCluster, what: str, metadata: dict[str, object]) -> Reference:
    """An object that something else has made."""
    kind, _, place = what.partition(" ")
    namespace, _, name = place.rpartition("/")
    [found] = [
        reference(each)
        for each in desired(
            make_scheduler(monitoring={"rules": True, "serviceMonitor": True}),
            planned(make_scheduler()).configurations[make_scheduler().key],
            "i",
        )
        if (each["kind"], each["metadata"]["name"]) == (kind, name)
    ]
    there = {"name": name, "uid": "theirs", **metadata}
    cluster.objects[found] = {
        "metadata": {**there, **({"namespace": namespace} if namespace else {})}
    }
    return found


@pytest.mark.parametrize(("what", "metadata", "why"), FOREIGN)
def test_what_is_foreign_is_neither_changed_nor_given_rights(
    what: str, metadata: dict[str, object], why: str
) -> None:
    """Nothing of the instance is made, as a binding might be for a ServiceAccount of others."""
    scheduler = make_scheduler()
    cluster = FakeCluster(scheduler, make_scheduler("other", created=1))
    there = put(cluster, what, metadata)
    before = dict(cluster.objects)
    world = World(cluster)

    asked = world.reconcile()

    assert cluster.objects[there] == before[there]
    assert not [each for each in asked if each.startswith("apply") and "other" not in each]
    assert deployment_of(make_scheduler("other")) in cluster.objects
    found = {each["type"]: each for each in cluster.status(scheduler)["conditions"]}
    assert found["Progressing"]["reason"] == "ApplyFailed"
    assert f"{what}: exists {why}" in found["Progressing"]["message"]


def test_a_foreign_deployment_is_not_the_instances() -> None:
    """That its pods are available says nothing of the instance."""
    scheduler = make_scheduler()
    world = World(FakeCluster(scheduler))
    there = put(world.cluster, "Deployment stowage/stowage", {})
    available = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}
    counts = {"replicas": 3, "availableReplicas": 3}
    world.cluster.objects[there]["status"] = {**counts, "conditions": [available]}

    world.reconcile()

    status = world.cluster.status(scheduler)
    assert (status["replicas"], status["availableReplicas"]) == (0, 0)
    assert status["conditions"][0]["reason"] == "NoDeployment"


def test_what_no_controller_has_may_be_adopted() -> None:
    """Where the Scheduler says so; what a controller has stays its own."""
    adopting = make_scheduler(annotations={"stowage.dev/adopt": "true"})
    cluster = FakeCluster(adopting)
    loose = put(cluster, "ConfigMap stowage/stowage-config", {})
    world = World(cluster)

    world.reconcile()
    adopted = cluster.objects[loose]["metadata"]
    controlled = {"ownerReferences": [{"kind": "Mesh", "name": "m", "controller": True}]}
    put(cluster, "Service stowage/stowage-metrics", controlled)
    world.reconcile(after=RESYNC_SECONDS)

    assert adopted["uid"] == "theirs"
    assert adopted["ownerReferences"][0]["uid"] == adopting.metadata.uid
    assert not world.succeeded


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PrometheusRule"])
@pytest.mark.parametrize("annotations", [{}, {"stowage.dev/adopt": "true"}], ids=["", "adopting"])
def test_monitoring_of_others_is_not_deleted(kind: str, annotations: dict[str, str]) -> None:
    """By name it would be ours; none is adopted in order to delete it."""
    cluster = FakeCluster(make_scheduler(annotations=annotations))
    there = put(cluster, f"{kind} stowage/stowage", {})

    world = World(cluster)
    world.reconcile()

    assert there in cluster.objects
    assert world.succeeded


def test_a_scheduler_that_leaves_takes_only_its_own_along() -> None:
    """A ClusterRole of its name that something else has made stays."""
    cluster = FakeCluster(make_scheduler(is_leaving=True))
    there = put(cluster, "ClusterRole stowage:stowage:stowage", {})

    World(cluster).reconcile()

    assert there in cluster.objects
    assert cluster.customs == {}


def test_a_scheduler_called_default_gives_no_rights() -> None:
    """Its status says why; nothing is made."""
    refused = make_scheduler("default")
    cluster = FakeCluster(refused)

    asked = World(cluster).reconcile()

    assert asked == ["status Scheduler stowage/default"]
    assert "ServiceAccount" in str(cluster.status(refused)["problems"])


def test_names_that_other_schedulers_serve() -> None:
    """By Leases of kube-system that are not ours, and by the flag."""
    ours = make_scheduler("ours", "kube-system")
    names = ("ours", "theirs", "told", "free")
    profiles = [make_profile(name, labels={"x": "y"}) for name in names]
    takes_in = make_scheduler(created=1, profileSelector={})
    cluster = FakeCluster(ours, takes_in, *profiles)
    cluster.held_leases = {"kube-system": ["ours", "theirs"], "tenant": ["free"]}
    world = World(cluster)
    world.reconciler = Reconciler(cluster, "stowage:1", world.clock, ["told"])

    world.reconcile()

    messages = {
        each.metadata.name: cluster.status(each)["conditions"][0]["message"] for each in profiles
    }
    assert messages == {
        "ours": "spec.schedulerName: Scheduler kube-system/ours has this name already",
        "theirs": "spec.schedulerName: Lease kube-system/theirs has this name already",
        "told": "spec.schedulerName: another scheduler (--reserved-scheduler-name) has this name "
        "already",
        "free": "Part of Scheduler stowage/stowage.",
    }
