"""Volumes that do not come as they were asked for: the pod goes where its volume is, or waits."""

from typing import Final

import pytest

from tests.scenario.test_devices import (
    claim as device_claim,
    device_class,
    given,
    named,
    resource_slice,
)
from tests.scenario.world import Object, World, play

CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
CLAIM: Final = "*/persistentvolumeclaims/data"
VOLUME: Final = "*/persistentvolumes/*"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"


def storage_class(provisioner: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def claim(name: str = "data") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def volume(name: str, node: str) -> Object:
    """A free volume that one node reaches."""
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
        },
        "status": {"phase": "Available"},
    }


async def begin(
    world: World, *objects: Object, provisioner: str = "kubernetes.io/no-provisioner"
) -> None:
    """A daemon that sees two nodes, a class, a claim and other objects."""
    for node in ("a", "b"):
        world.node(node)
    world.sandbox.create(storage_class(provisioner), claim(), *objects)
    await world.start_daemon()
    count = world.sandbox.requests.count
    for resource in (CLAIMS, VOLUMES):
        await world.until(lambda one=resource: count(verb="watch", resource=one), "the watch")


def pod(world: World, name: str = "p", claim_name: str = "data") -> None:
    source = {"persistentVolumeClaim": {"claimName": claim_name}}
    world.pod(name, volumes=[{"name": "data", **source}])


def reserve(world: World, name: str, claim_name: str = "data") -> None:
    """Reserve a volume for a claim, as the binding controller does."""
    meta = world.sandbox.get(CLAIMS, claim_name)["metadata"]
    reference = {"namespace": "default", "name": claim_name, "uid": meta["uid"]}
    world.sandbox.patch(VOLUMES, name, {"spec": {"claimRef": reference}})


def bind(world: World, name: str, claim_name: str = "data") -> None:
    """Bind a claim to a volume, as the binding controller does."""
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    change = {"metadata": {"annotations": annotations}, "spec": {"volumeName": name}}
    world.sandbox.patch(CLAIMS, claim_name, change, "default")


def list_again(world: World, resource: str) -> None:
    """Let the daemon, whose watch shows nothing, see objects as they are now, not what happened."""
    world.sandbox.faults.answer(410, verb="watch", path=f"*/{resource}")
    world.sandbox.faults.close_watches(resource, abort=True)


def user_of(world: World, name: str) -> str:
    """The UID of the claim that a volume is reserved for; empty if there is none."""
    uid: str = world.sandbox.get(VOLUMES, name)["spec"].get("claimRef", {}).get("uid", "")
    return uid


def selected(world: World) -> str:
    """The node that the claim asks a volume for."""
    annotations = world.sandbox.get(CLAIMS, "data")["metadata"].get("annotations", {})
    node: str = annotations.get(SELECTED_NODE, "")
    return node


def test_a_claim_that_comes_again_is_bound_elsewhere() -> None:
    """It was deleted and made again, under the same name, while the pod waited for the first."""

    async def story(world: World) -> None:
        await begin(world, volume("on-a", "a"))
        pod(world)
        await world.until(lambda: user_of(world, "on-a"), "the volume to be reserved")
        world.sandbox.create(volume("on-b", "b"))
        world.sandbox.faults.silence_watches(CLAIMS)
        world.sandbox.delete(CLAIMS, "data", "default")
        world.sandbox.create(claim())
        reserve(world, "on-b")
        bind(world, "on-b")
        list_again(world, CLAIMS)

        assert await world.bound("p") == ["b"]

    play(story)


@pytest.mark.parametrize("is_taken", [False, True], ids=["gone", "another claim's"])
def test_a_volume_that_is_lost_before_any_watch_shows_it(*, is_taken: bool) -> None:
    """Its last event in the daemon says that it is free; the pod takes another at once."""

    async def story(world: World) -> None:
        await begin(world, claim("other"), volume("on-a", "a"))
        pod(world)
        world.sandbox.faults.silence_watches(VOLUMES)
        await world.until(lambda: user_of(world, "on-a"), "the volume to be reserved")
        if is_taken:
            reserve(world, "on-a", "other")
        else:
            world.sandbox.delete(VOLUMES, "on-a")
        world.sandbox.create(volume("on-b", "b"))
        list_again(world, VOLUMES)
        await world.until(lambda: user_of(world, "on-b"), "the other volume to be reserved")
        bind(world, "on-b")

        assert await world.bound("p") == ["b"]

    play(story)


def test_a_volume_that_another_claim_gets() -> None:
    """It was reserved for the pod's claim, and shown so: the pod takes another at once."""

    async def story(world: World) -> None:
        await begin(world, claim("other"), volume("on-a", "a"))
        pod(world)
        await world.until(lambda: user_of(world, "on-a"), "the volume to be reserved")
        reserve(world, "on-a", "other")
        world.sandbox.create(volume("on-b", "b"))
        await world.until(lambda: user_of(world, "on-b"), "the other volume to be reserved")
        bind(world, "on-b")

        assert await world.bound("p") == ["b"]

    play(story)


@pytest.mark.parametrize("claim_first", [True, False])
def test_a_provisioner_that_answers_with_another_node(*, claim_first: bool) -> None:
    """The pod follows its volume, whichever of claim and volume is told first."""

    async def story(world: World) -> None:
        await begin(world, provisioner="example.com/disks")
        pod(world)
        await world.until(lambda: selected(world), "a node to be selected")
        other = {"a": "b", "b": "a"}[selected(world)]
        if claim_first:
            bind(world, "made")
        world.sandbox.create(volume("made", other))
        reserve(world, "made")
        if not claim_first:
            bind(world, "made")

        assert await world.bound("p") == [other]

    play(story)


def test_a_provisioner_that_gives_up_on_a_node_that_is_full() -> None:
    """It takes the annotation away. The claim was told a node, and is told another one."""

    async def story(world: World) -> None:
        await begin(world, provisioner="example.com/disks")
        pod(world)
        await world.until(lambda: selected(world), "a node to be selected")
        first = selected(world)
        other = {"a": "b", "b": "a"}[first]
        world.sandbox.patch("nodes", first, {"spec": {"unschedulable": True}})
        await world.quiet()
        world.sandbox.patch(CLAIMS, "data", {"metadata": {"annotations": {SELECTED_NODE: None}}})
        await world.until(lambda: selected(world) == other, "the other node to be selected")
        world.sandbox.create(volume("made", other))
        reserve(world, "made")
        bind(world, "made")

        assert await world.bound("p") == [other]

    play(story)


def test_an_answer_about_a_volume_is_lost() -> None:
    """No other claim gets the volume meanwhile, though no watch shows that it is reserved."""

    async def story(world: World) -> None:
        await begin(world, claim("other"), volume("on-a", "a"))
        world.sandbox.faults.silence_watches(VOLUMES)
        lost = world.sandbox.faults.drop(after_commit=True, verb="patch", path=VOLUME)
        pod(world)
        await world.until(lambda: lost.hits, "the write")
        pod(world, "q", "other")
        await world.rejected("q", reason="SchedulerError")
        [first] = world.sandbox.list(CLAIMS)[:1]
        list_again(world, VOLUMES)
        bind(world, "on-a")

        assert await world.bound("p") == ["a"]
        assert user_of(world, "on-a") == first["metadata"]["uid"]
        await world.rejected("q")

    play(story)


def test_devices_are_allocated_while_the_volume_is_awaited() -> None:
    """A claim for a device is written at once, so that its driver and other pods need not wait."""

    async def story(world: World) -> None:
        await begin(world, volume("on-a", "a"), device_class(), resource_slice("a", "gpu-0"))
        world.sandbox.create(device_claim())
        source = {"persistentVolumeClaim": {"claimName": "data"}}
        world.pod("p", volumes=[{"name": "data", **source}], resourceClaims=named())
        await world.until(lambda: user_of(world, "on-a"), "the volume to be reserved")
        await world.until(lambda: given(world) == ["a/gpu-0"], "the device to be allocated")
        assert not world.sandbox.get("pods", "p")["spec"].get("nodeName")
        bind(world, "on-a")

        assert await world.bound("p") == ["a"]

    play(story)
