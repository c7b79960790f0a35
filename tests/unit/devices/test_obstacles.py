"""What people are told of devices that a pod cannot have."""

from scheduler.kernel.answers.device_words import device_steps, device_text
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.model import PodAnswer
from scheduler.kernel.answers.why import Depth
from scheduler.kernel.framework.obstacles import (
    AllocatedClaimObstacle,
    DeviceHolder,
    DeviceObstacle,
    DevicePoolObstacle,
    DevicesLeft,
    DevicesTogetherObstacle,
    Obstacle,
    TaintedDevices,
)
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import objects_from_documents
from tests.support.device_manifests import (
    DRIVER,
    Object,
    claim_manifest,
    class_manifest,
    device,
    request,
    slice_manifest,
    using,
)
from tests.support.manifests import node_manifest, pod_manifest

BIG = f'device.attributes["{DRIVER}"].model == "big"'
OF_DRIVER = f'device.driver == "{DRIVER}"'


def answered(*objects: Object, depth: Depth = Depth.CHECKS) -> PodAnswer:
    """What is said of the pod p."""
    nodes = [node_manifest("n"), node_manifest("m")]
    documents = [class_manifest("gpu", OF_DRIVER), *nodes, *objects]
    profiles = Profiles(None)
    cluster = profiles.load(objects_from_documents((f"o{i}", o) for i, o in enumerate(documents)))
    pod = next(pod for pod in cluster.waiting if pod.name == "p")
    return Explainer(cluster.engine, profiles.framework_of).explain(pod, depth)


def obstacles(*objects: Object) -> list[Obstacle]:
    """What DynamicResources has against nodes for the pod p."""
    checks = answered(*objects).checks or ()
    return [o for check in checks if check.plugin == "DynamicResources" for o in check.obstacles]


def pod(*claims: str, **more: str) -> Object:
    return pod_manifest("p", resourceClaims=using(*claims), **more)


def test_what_each_step_leaves_is_told_with_who_has_the_rest() -> None:
    devices = [
        device("a", model="big"),
        device("b", "bad", model="big"),
        device("c", model="small"),
        device("d", model="big"),
    ]
    found = obstacles(
        slice_manifest("n", *devices),
        slice_manifest("m", device("a", model="small")),
        claim_manifest("held", has=("n/a",), users=("q",)),
        claim_manifest("mine", request("gpu", 2, BIG)),
        pod("mine"),
    )

    assert found == [
        DeviceObstacle(
            "default/mine",
            "gpu",
            "gpu",
            2,
            nodes=2,
            enough=0,
            most=1,
            nearest="n",
            left=(
                DevicesLeft("seen", 5, 2),
                DevicesLeft("class", 5, 2, OF_DRIVER),
                DevicesLeft("selector", 3, 1, BIG),
                DevicesLeft("taints", 2, 1),
                DevicesLeft("in use", 1, 1),
            ),
            taints=(TaintedDevices("bad=1:NoSchedule", 1),),
            holders=(DeviceHolder("default/held", 1, ("default/q",)),),
            holder_count=1,
        )
    ]
    assert isinstance(found[0], DeviceObstacle)
    assert [device_text(found[0]), *device_steps(found[0])] == [
        "claim default/mine, request gpu: 2 of class gpu, 1 left at most, on n",
        "5 on 2 nodes: devices in all",
        f"5 on 2 nodes: of class gpu: {OF_DRIVER}",
        f"3 on 1 node: that satisfy: {BIG}",
        "2 on 1 node: without taints that it does not tolerate (1 has bad=1:NoSchedule)",
        "1 on 1 node: not in use (1 by claim default/held of pod default/q)",
    ]


def test_requests_that_only_fail_together_are_told_with_their_constraints() -> None:
    same = {"requests": ["gpu", "other"], "matchAttribute": f"{DRIVER}/model"}
    found = obstacles(
        slice_manifest("n", device("a", model="x"), device("b", model="y")),
        claim_manifest("mine", request("gpu"), request("other"), constraints=(same,)),
        pod("mine"),
    )

    assert [type(each) for each in found] == [
        DeviceObstacle,
        DeviceObstacle,
        DevicesTogetherObstacle,
    ]
    assert device_text(found[0]) == (  # type: ignore[arg-type]
        "claim default/mine, request gpu: 1 of class gpu, enough left on 1 node"
    )
    assert device_text(found[2]) == (  # type: ignore[arg-type]
        "on 1 node each request finds devices, but not together with: "
        f"the same {DRIVER}/model for gpu, other"
    )


def test_a_pool_that_cannot_be_used_is_named() -> None:
    unfinished = slice_manifest("n", "a")
    unfinished["spec"]["pool"]["resourceSliceCount"] = 2
    found = obstacles(
        unfinished, slice_manifest("m", "a", "a"), claim_manifest("mine"), pod("mine")
    )

    assert sorted(device_text(o) for o in found if isinstance(o, DevicePoolObstacle)) == [
        f"pool {DRIVER}/m is invalid (duplicate device name a): not used on 1 node",
        f"pool {DRIVER}/n is incomplete, which its driver updates: not used on 1 node",
    ]


def test_a_claim_that_has_its_devices_elsewhere_is_told_with_who_uses_it() -> None:
    found = obstacles(
        slice_manifest("n", "a"),
        claim_manifest("mine", has=("n/a",), users=("q",)),
        pod("mine", nodeSelector={"kubernetes.io/hostname": "m"}),  # type: ignore[arg-type]
    )

    assert found == [AllocatedClaimObstacle("default/mine", 1, "n", ("default/q",))]
    assert device_text(found[0]) == (  # type: ignore[arg-type]
        "claim default/mine is allocated where 1 node cannot use it, n can; used by default/q"
    )


def test_all_means_none_may_be_missing() -> None:
    every = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    found = obstacles(
        slice_manifest("n", "a", "b"),
        claim_manifest("held", has=("n/a",)),
        claim_manifest("mine", every),
        pod("mine"),
    )

    assert isinstance(found[0], DeviceObstacle)
    assert [device_text(found[0]), *device_steps(found[0])][::3] == [
        "claim default/mine, request gpu: all of class gpu, on no node are all that match free",
        "1 on 1 node: not in use (1 by claim default/held, which no pod uses)",
    ]
