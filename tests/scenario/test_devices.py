"""Pods with resource claims, from the template to the device, in the whole daemon."""

from collections import Counter
from typing import Any, Final

import pytest

from apistub import Settings
from scheduler.daemon.driver import daemon as driver_daemon
from tests.scenario.test_pod_group_stories import GROUPS, Stage
from tests.scenario.world import LEASES, LIMIT_SECONDS, Object, World, play, pod_object

API: Final = "resource.k8s.io/v1"
CLAIMS: Final = "resourceclaims.resource.k8s.io"
DRIVER: Final = "gpu.example.com"
CONTROLLED: Final = Settings(run_workloads=True)


def device_class(name: str = "gpu", **spec: Any) -> Object:
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors, **spec},
    }


def resource_slice(node: str, *devices: str, generation: int = 1, **device: Any) -> Object:
    """The devices of a node."""
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{generation}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
            "devices": [{"name": name, **device} for name in devices],
        },
    }


def request(count: int = 1, **more: Any) -> Object:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **more}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def template(name: str = "one", count: int = 1) -> Object:
    return {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": request(count)},
    }


def claim(name: str = "shared", **more: Any) -> Object:
    metadata = {"name": name}
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": request(**more),
    }


def from_template(name: str = "one") -> list[Object]:
    return [{"name": "gpu", "resourceClaimTemplateName": name}]


def named(name: str = "shared") -> list[Object]:
    return [{"name": "gpu", "resourceClaimName": name}]


def allocated(node: str) -> Object:
    """The status of a claim that has a device of a node, and no user."""
    device = {"request": "gpu", "driver": DRIVER, "pool": node, "device": "gpu-0"}
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelectorTerms": [{"matchFields": [here]}]}
    return {"allocation": {"devices": {"results": [device]}, "nodeSelector": selector}}


def claim_of(*users: str) -> Object:
    """The claim `shared`; if it has users, with a device of node `a`."""
    reserved = [{"resource": "pods", "name": user, "uid": user} for user in users]
    status = {**allocated("a"), "reservedFor": reserved} if users else {}
    return {**claim(), "status": status}


def users_of_shared(world: World) -> list[str]:
    return [user["name"] for user in world.sandbox.get(CLAIMS, "shared")["status"]["reservedFor"]]


def devices_of(found: Object) -> list[str]:
    """What a claim was allocated, as node/device."""
    allocation = found.get("status", {}).get("allocation") or {}
    results = allocation.get("devices", {}).get("results", [])
    return [f"{result['pool']}/{result['device']}" for result in results]


def given(world: World) -> list[str]:
    """All devices that claims have."""
    return sorted(name for found in world.sandbox.list(CLAIMS) for name in devices_of(found))


def test_claims_of_templates_are_written_before_their_pods_are_bound() -> None:
    """Each pod gets a device of its own on its node; the next waits until one is free."""

    async def story(world: World) -> None:
        for node in ("a", "b"):
            world.node(node)
            world.sandbox.create(resource_slice(node, "gpu-0"))
        world.sandbox.create(device_class(), template())
        await world.start_daemon()

        for name in ("p", "q"):
            world.pod(name, resourceClaims=from_template())
        nodes = await world.bound("p", "q")

        assert sorted(nodes) == ["a", "b"]
        assert given(world) == ["a/gpu-0", "b/gpu-0"]
        for found in world.sandbox.list(CLAIMS):
            pod = world.sandbox.get("pods", found["metadata"]["ownerReferences"][0]["name"])
            allocation = found["status"]["allocation"]
            node = pod["spec"]["nodeName"]
            assert devices_of(found) == [f"{node}/gpu-0"]
            assert allocation["nodeSelector"] == {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
                ]
            }
            assert allocation["allocationTimestamp"].endswith("Z")
            assert found["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
            assert found["status"]["reservedFor"] == [
                {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            ]
        await world.settled()
        count = world.sandbox.requests.count
        assert count(verb="patch", resource="resourceclaims", subresource="status") == 2

        world.pod("r", resourceClaims=from_template())
        await world.rejected("r")
        condition = world.condition("r")
        assert condition is not None
        assert condition["message"].startswith(
            "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, "
        )
        world.sandbox.delete("pods", "q", grace_seconds=0)
        assert await world.bound("r") == [nodes[1]]

    play(story, CONTROLLED)


def test_two_replicas_give_no_device_twice() -> None:
    """One leads at a time; the other goes on where it was ended without a word."""

    async def story(world: World) -> None:
        # Devices to spare: with one left on each of two nodes, a pod that wants two would wait.
        for node in ("a", "b", "c", "d"):
            world.node(node)
            world.sandbox.create(resource_slice(node, *(f"gpu-{i}" for i in range(8))))
        world.sandbox.create(device_class(), template(), template("two", 2))
        election = {
            "leaderElection": {
                "leaderElect": True,
                # No leader loses it, however long the machine stands still.
                "leaseDuration": "90s",
                "renewDeadline": "60s",
                "retryPeriod": "200ms",
                "resourceNamespace": "default",
            }
        }
        first = await world.start_daemon(election, synced=False)
        names = [f"p{i}" for i in range(16)]
        for i, name in enumerate(names[:8]):
            world.pod(name, resourceClaims=from_template(("one", "two")[i % 2]))
        await world.until(lambda: sum(map(bool, map(world.node_of, names))) >= 3, "a beginning")
        await world.kill_daemon()
        world.end_lease()
        await world.start_daemon(election, synced=False)
        for i, name in enumerate(names[8:]):
            world.pod(name, resourceClaims=from_template(("one", "two")[i % 2]))

        await world.bound(*names)

        assert first is not world.daemon
        assert len(given(world)) == 24
        assert max(Counter(given(world)).values()) == 1
        for found in world.sandbox.list(CLAIMS):
            [user] = found["status"]["reservedFor"]
            node = world.node_of(user["name"])
            assert all(name.startswith(f"{node}/") for name in devices_of(found))

    play(story, CONTROLLED)


def test_a_lease_runs_out_while_an_allocation_is_unanswered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given back, another would give its devices to other claims: it may still be carried out."""
    monkeypatch.setattr(driver_daemon, "DRAIN_SECONDS", 0.3)

    async def story(world: World) -> None:
        world.node("n")
        world.sandbox.create(resource_slice("n", "gpu-0"), device_class(), claim())
        slow = world.sandbox.faults.delay(2 * LIMIT_SECONDS, path="*/resourceclaims/shared/status")
        election = {"leaderElect": True, "resourceNamespace": "default"}
        await world.start_daemon({"leaderElection": election})
        world.pod("p", resourceClaims=named())
        await world.until(lambda: slow.hits, "the allocation to leave")

        await world.stop_daemon()

        [lease] = world.sandbox.list(LEASES)
        assert lease["spec"]["holderIdentity"]

    play(story, CONTROLLED)


def test_a_shared_claim_holds_its_pods_to_one_node() -> None:
    """The first pod allocates it, the second follows; a pod that finds no room there waits."""

    async def story(world: World) -> None:
        world.node("a", cpu="4")
        world.node("b", cpu="4")
        world.sandbox.create(resource_slice("a", "gpu-0"), device_class(), claim())
        await world.start_daemon()

        world.pod("p", cpu="2", resourceClaims=named())
        world.pod("q", cpu="2", resourceClaims=named())
        assert await world.bound("p", "q") == ["a", "a"]
        found = world.sandbox.get(CLAIMS, "shared")
        assert [user["name"] for user in found["status"]["reservedFor"]] == ["p", "q"]

        world.pod("r", cpu="2", resourceClaims=named())
        await world.rejected("r")
        condition = world.condition("r")
        assert condition is not None
        assert condition["message"].startswith(
            "0/2 nodes are available: 1 Insufficient cpu, 1 resourceclaim not available on the node"
        )

    play(story, CONTROLLED)


GANG: Final = ("x", "y", "z")


def gang_with_one_claim(world: World, cpu: str) -> None:
    """A gang whose members all name one claim, which nothing has allocated."""
    world.node("a", cpu="3")
    world.node("b", cpu="9")
    world.sandbox.create(resource_slice("a", "gpu-0"), device_class(), claim())
    Stage(world).group("g", len(GANG))
    for name in GANG:
        member = {"schedulingGroup": {"podGroupName": "g"}, "resourceClaims": named()}
        world.pod(name, cpu=cpu, **member)


@pytest.mark.parametrize(("refused", "failures"), [(0, 0), (4, 0), (5, 1), (15, 3)])
def test_members_of_a_gang_share_a_claim_that_none_had(refused: int, failures: int) -> None:
    """The first whose write succeeds allocates it; a member whose five writes fail comes later."""

    async def story(world: World) -> None:
        gang_with_one_claim(world, "1")
        path = "*/resourceclaims/*/status"
        if refused:
            world.sandbox.faults.answer(500, verb="patch", path=path, times=refused)
        await world.start_daemon(feature_gates=GROUPS)

        assert await world.bound(*GANG) == ["a", "a", "a"]
        found = world.sandbox.get(CLAIMS, "shared")
        assert sorted(user["name"] for user in found["status"]["reservedFor"]) == list(GANG)
        assert devices_of(found) == ["a/gpu-0"]
        failed = {each["regarding"]["name"] for each in world.events(reason="FailedScheduling")}
        # Only those whose own writes were refused.
        assert len(failed) == failures

    play(story, CONTROLLED)


@pytest.mark.parametrize("own", ["claim", "volume"])
def test_a_member_with_a_claim_of_its_own_does_not_fail_for_an_equal_one_without(own: str) -> None:
    """The claim has no device, and the volume's claim does not exist; one member is enough."""
    member = {"schedulingGroup": {"podGroupName": "g"}}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "none"}}

    async def story(world: World) -> None:
        world.node("a", cpu="3")
        world.sandbox.create(device_class(), claim())
        Stage(world).group("g", 1)
        if own == "claim":
            world.pod("x", resourceClaims=named(), **member)
        else:
            world.pod("x", volumes=[volume], **member)
        world.pod("y", **member)
        await world.start_daemon(feature_gates=GROUPS)

        assert await world.bound("y") == ["a"]
        await world.rejected("x")

    play(story, CONTROLLED)


def test_a_gang_that_does_not_fit_leaves_the_device_of_its_claim_to_others() -> None:
    """Two of three have a place beside the device: none is bound, and the device is free."""

    async def story(world: World) -> None:
        gang_with_one_claim(world, "1500m")
        await world.start_daemon(feature_gates=GROUPS)
        await world.rejected(*GANG)
        world.sandbox.create(claim("other"))
        world.pod("single", cpu="1", resourceClaims=named("other"))

        assert await world.bound("single") == ["a"]
        assert [world.node_of(name) for name in GANG] == ["", "", ""]
        assert not world.sandbox.get(CLAIMS, "shared").get("status", {}).get("allocation")

    play(story, CONTROLLED)


def test_a_pod_waits_for_its_claim_without_an_attempt() -> None:
    """As upstream: PreEnqueue holds it, and the claim lets it go."""

    async def story(world: World) -> None:
        world.node("a")
        world.sandbox.create(resource_slice("a", "gpu-0"), device_class())
        await world.start_daemon()

        world.pod("p", resourceClaims=named())
        await world.until(
            lambda: world.daemon.driver.engine.core.queue.counts().gated == 1, "the gate"
        )
        assert world.condition("p") is None
        world.sandbox.create(claim())

        assert await world.bound("p") == ["a"]

    play(story)


def test_another_writer_of_the_claim_is_met_with_another_try() -> None:
    """The write is bound to the version that was decided on, and follows the new one."""

    async def story(world: World) -> None:
        world.node("a")
        world.sandbox.create(resource_slice("a", "gpu-0"), device_class(), claim())
        await world.start_daemon()
        world.sandbox.faults.answer(409, verb="patch", path="*/resourceclaims/*", times=2)

        world.pod("p", resourceClaims=named())

        assert await world.bound("p") == ["a"]
        count = world.sandbox.requests.count
        assert count(verb="get", resource="resourceclaims") == 2
        assert devices_of(world.sandbox.get(CLAIMS, "shared")) == ["a/gpu-0"]

    play(story)


@pytest.mark.parametrize("code", [409, 500, 403])
def test_a_claim_is_freed_again_after_a_refusal(code: int) -> None:
    """The claim keeps its pod from the node with room; no event follows a refused write."""

    async def story(world: World) -> None:
        for node in ("a", "b"):
            world.node(node, cpu="1")
            world.sandbox.create(resource_slice(node, "gpu-0"))
        world.pod("full", cpu="1", nodeName="a")
        world.sandbox.create(device_class())
        world.sandbox.create({**claim(), "status": allocated("a")}, keep_status=True)
        await world.start_daemon()
        path = "*/resourceclaims/shared/status"
        refused = world.sandbox.faults.answer(code, verb="patch", path=path)

        world.pod("q", cpu="1", resourceClaims=named())

        assert await world.bound("q", seconds=30) == ["b"]
        assert refused.hits == 1
        assert given(world) == ["b/gpu-0"]

    play(story)


@pytest.mark.parametrize("is_lost", [False, True], ids=["answered late", "lost"])
def test_a_deleted_pod_gives_no_device_twice(is_lost: bool) -> None:
    """Its allocation is under way: the API server carries it out after the pod is gone."""

    async def story(world: World) -> None:
        world.node("a")
        world.sandbox.create(resource_slice("a", "gpu-0"), device_class(), claim(), claim("other"))
        await world.start_daemon()
        requests, faults = world.sandbox.requests.count, world.sandbox.faults
        await world.until(lambda: requests(verb="watch", resource="resourceclaims"), "the watch")
        faults.silence_watches("resourceclaims")
        path = "*/resourceclaims/shared/status"
        slow = faults.delay(1.0, verb="patch", path=path)
        if is_lost:
            faults.drop(after_commit=True, verb="patch", path=path)
        world.pod("p", resourceClaims=named())
        await world.until(lambda: slow.hits, "the write to be under way")

        world.sandbox.delete("pods", "p", grace_seconds=0)
        world.pod("q", resourceClaims=named("other"))

        await world.rejected("q")
        await world.until(lambda: given(world), "the write")
        await world.settled()
        assert given(world) == ["a/gpu-0"]
        assert not devices_of(world.sandbox.get(CLAIMS, "other"))

    play(story)


@pytest.mark.parametrize("others", [(), ("other",)], ids=["alone", "shared"])
@pytest.mark.parametrize("finalizers", [[], ["example.com/keep"]], ids=["gone", "kept"])
def test_the_reservation_of_a_deleted_pod_is_left_to_the_controller(
    finalizers: list[str], others: tuple[str, ...]
) -> None:
    """It deallocates a claim only if it removes the last reservation itself; none runs here."""

    async def story(world: World) -> None:
        world.node("a")
        world.sandbox.create(resource_slice("a", "gpu-0"), device_class())
        world.sandbox.create(claim_of(*others), keep_status=True)
        await world.start_daemon()
        slow = world.sandbox.faults.delay(1.0, verb="patch", path="*/resourceclaims/shared/status")
        pod = pod_object("p", resourceClaims=named())
        world.sandbox.create({**pod, "metadata": {**pod["metadata"], "finalizers": finalizers}})
        await world.until(lambda: slow.hits, "the write to be under way")

        world.sandbox.delete("pods", "p", grace_seconds=0)

        await world.until(lambda: given(world), "the write")
        await world.quiet(1.5 if others else 0.5)
        await world.settled()
        assert users_of_shared(world) == [*others, "p"]

    play(story)


@pytest.mark.parametrize("others", [(), ("other",)], ids=["alone", "shared"])
@pytest.mark.parametrize("end", ["gone", "gone, and not read at once", "kept", "bound elsewhere"])
def test_the_reservation_of_a_pod_that_ends_unseen_is_left_to_the_controller(
    end: str, others: tuple[str, ...]
) -> None:
    """It ends just before its binding, and the watch never shows that; no controller runs here."""

    async def story(world: World) -> None:
        world.node("a")
        world.node("b")
        world.sandbox.create(resource_slice("a", "gpu-0"), device_class())
        world.sandbox.create(claim_of(*others), keep_status=True)
        faults = world.sandbox.faults

        def end_unseen() -> None:
            faults.silence_watches("pods")
            if end == "bound elsewhere":
                world.sandbox.bind("p", "b")
            else:
                world.sandbox.delete("pods", "p", grace_seconds=0)

        faults.before(end_unseen, path="*/p/binding")
        unread = []
        if end == "gone, and not read at once":
            unread = [each(verb="get", path="*/pods/p") for each in (faults.drop, faults.drop)]
        await world.start_daemon()
        pod = pod_object("p", resourceClaims=named())
        finalizers = ["example.com/keep"] if end == "kept" else []

        world.sandbox.create({**pod, "metadata": {**pod["metadata"], "finalizers": finalizers}})

        refused = 404 if end.startswith("gone") else 409
        await world.until(lambda: world.bindings(refused), "the refusal")
        await world.until(lambda: all(each.hits for each in unread), "the reads without answer")
        await world.quiet(0.5)
        await world.settled()
        assert users_of_shared(world) == [*others, "p"]
        assert world.bindings(None) == 1

    play(story)


def test_a_pod_whose_binding_fails_keeps_the_last_reservation_of_its_claim() -> None:
    """If it ends before its next attempt, the controller sees its reservation, and deallocates."""

    async def story(world: World) -> None:
        world.node("a")
        world.sandbox.create(resource_slice("a", "gpu-0"), device_class(), claim())
        refused = world.sandbox.faults.answer(403, verb="create", path="*/p/binding")
        await world.start_daemon()

        world.pod("p", resourceClaims=named())

        await world.until(lambda: refused.hits, "the refusal")
        for pods in ([], ["a"]):
            await world.settled()
            shared = world.sandbox.get(CLAIMS, "shared")
            assert devices_of(shared)
            assert [user["name"] for user in shared["status"]["reservedFor"]] == ["p"]
            if not pods:
                assert await world.bound("p") == ["a"]

    play(story)


def test_the_device_of_a_deleted_pod_is_free_again() -> None:
    """It was deleted while its allocation was under way; the next pod gets the device."""

    async def story(world: World) -> None:
        world.node("a")
        world.sandbox.create(resource_slice("a", "gpu-0"), device_class(), claim(), claim("other"))
        await world.start_daemon()
        slow = world.sandbox.faults.delay(1.0, verb="patch", path="*/resourceclaims/shared/status")
        world.pod("p", resourceClaims=named())
        await world.until(lambda: slow.hits, "the write to be under way")
        world.sandbox.delete("pods", "p", grace_seconds=0)

        world.pod("q", resourceClaims=named("other"))

        assert await world.bound("q") == ["a"]
        assert given(world) == ["a/gpu-0"]

    play(story, CONTROLLED)


@pytest.mark.parametrize("unanswered", [0, 1], ids=["read", "not read at first"])
def test_an_answer_that_is_lost_gives_no_device_twice(unanswered: int) -> None:
    """The API server is asked: the watch may be behind for long, and others want the device."""

    async def story(world: World) -> None:
        for node in ("a", "b"):
            world.node(node)
        world.sandbox.create(resource_slice("a", "gpu-0"), device_class(), claim(), claim("other"))
        await world.start_daemon()
        watches = world.sandbox.requests.count
        await world.until(lambda: watches(verb="watch", resource="resourceclaims"), "the watch")
        world.sandbox.faults.silence_watches("resourceclaims")
        path = "*/resourceclaims/shared/status"
        lost = world.sandbox.faults.drop(after_commit=True, verb="patch", path=path)
        if unanswered:
            world.sandbox.faults.drop(verb="get", path="*/resourceclaims/shared", times=unanswered)
        world.pod("p", resourceClaims=named())
        await world.until(lambda: lost.hits, "the write")
        world.pod("q", resourceClaims=named("other"))

        assert await world.bound("p") == ["a"]
        await world.rejected("q")
        assert given(world) == ["a/gpu-0"]
        assert not world.events("p", reason="FailedScheduling")

    play(story, CONTROLLED)
