"""Resources: requests in every shape a pod can state them, nodes that are tight, all strategies."""

from typing_extensions import override

from tests.parity.generator.cluster import Cluster
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.feature import Feature

EXTENDED = ("example.com/gpu", "example.com/nic", "vendor.io/fpga")
HUGEPAGES = "hugepages-2Mi"
VOLUMES = "attachable-volumes-csi-example"
CPU = ("0", "50m", "100m", "333m", "500m", "1", "1500m", "2", "5", "0.1005")
MEMORY = (
    "0",
    "64Mi",
    "200Mi",
    "300M",
    "1.5Gi",
    "2Gi",
    "1e9",
    "3Gi",
    "9Gi",
    "1500000k",
    "1000000001m",
)
STORAGE = ("1Gi", "10Gi", "20Gi", "60Gi")
COUNT = ("0", "1", "1", "2", "4")
SCORED = (
    "cpu",
    "memory",
    "ephemeral-storage",
    "pods",
    *EXTENDED,
    HUGEPAGES,
    VOLUMES,
    "unheard.of/thing",
)


class Resources(Feature):
    """What pods ask for and nodes offer."""

    @override
    def shape_node(self, draw: Draw, node: Object) -> None:
        allocatable = node["status"]["allocatable"]
        allocatable["cpu"] = draw.pick(("1", "2", "4", "3900m", "8"))
        allocatable["memory"] = draw.pick(("2Gi", "4Gi", "8Gi", "7900M", "16Gi", "8123456789500m"))
        allocatable["pods"] = draw.pick(("1", "3", "5", "110", "110"))
        if draw.maybe(0.1):
            del allocatable["ephemeral-storage"]
        if draw.maybe(0.03):
            allocatable["cpu"] = "0"
        if draw.maybe(0.02):
            del allocatable["pods"]
        for name in EXTENDED:
            if draw.maybe(0.4):
                allocatable[name] = draw.pick(COUNT)
        if draw.maybe(0.3):
            allocatable[HUGEPAGES] = draw.pick(("128Mi", "512Mi"))
        if draw.maybe(0.2):
            allocatable[VOLUMES] = draw.pick(COUNT)
        node["status"]["capacity"] = dict(allocatable)

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        spec = pod["spec"]
        containers = spec["containers"]
        if draw.maybe(0.25):
            containers.append({"name": "side", "image": "registry.example/side:1"})
        if draw.maybe(0.3):
            spec["initContainers"] = [_init_container(draw, i) for i in range(draw.randint(1, 3))]
        for container in (*containers, *spec.get("initContainers", ())):
            if draw.maybe(self.density):
                container["resources"] = _container_resources(draw, small="nodeName" in spec)
        if draw.maybe(0.15):
            spec["overhead"] = {"cpu": draw.pick(("10m", "250m")), "memory": "50Mi"}
        if draw.maybe(0.2):
            _add_pod_level(draw, pod)
        if draw.maybe(0.25):
            add_resize_status(draw, pod)

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        if not draw.maybe(self.configured):
            return
        fit: Object = {}
        if draw.maybe(0.4):
            fit["ignoredResources"] = draw.some((*EXTENDED, HUGEPAGES), 1, 2)
        if draw.maybe(0.4):
            fit["ignoredResourceGroups"] = draw.some(("example.com", "vendor.io"), 1, 1)
        if draw.maybe(0.8):
            fit["scoringStrategy"] = scoring_strategy(draw)
        cluster.plugin_args["NodeResourcesFit"] = fit
        if draw.maybe(0.6):
            cluster.plugin_args["NodeResourcesBalancedAllocation"] = {
                "resources": [{"name": name, "weight": 1} for name in draw.some(SCORED, 1, 5)]
            }


def _init_container(draw: Draw, index: int) -> Object:
    container: Object = {"name": f"init{index}", "image": "registry.example/init:1"}
    if draw.maybe(0.5):
        container["restartPolicy"] = "Always"
    return container


def _container_resources(draw: Draw, *, small: bool) -> Object:
    """Requests of one container; extended resources and huge pages need equal limits."""
    requests: Object = {}
    limits: Object = {}
    if draw.maybe(0.75):
        requests["cpu"] = draw.pick(CPU[:4] if small else CPU)
    if draw.maybe(0.75):
        requests["memory"] = draw.pick(MEMORY[:5] if small else MEMORY)
    if draw.maybe(0.2):
        requests["ephemeral-storage"] = draw.pick(STORAGE)
    if draw.maybe(0.15):
        limits["cpu"] = "6"
    for name in EXTENDED:
        if draw.maybe(0.2):
            requests[name] = limits[name] = draw.pick(COUNT)
    if draw.maybe(0.1) and ("cpu" in requests or "memory" in requests):
        requests[HUGEPAGES] = limits[HUGEPAGES] = draw.pick(("64Mi", "256Mi"))
    resources: Object = {}
    if requests:
        resources["requests"] = requests
    if limits:
        resources["limits"] = limits
    return resources


def _add_pod_level(draw: Draw, pod: Object) -> None:
    """Set pod-level requests; the API server wants them no less than the containers' own."""
    names = draw.some(("cpu", "memory"), 1, 2)
    for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
        resources = container.get("resources", {})
        requests = resources.get("requests", {})
        for name in ("cpu", "memory"):
            if name in requests:
                requests[name] = {"cpu": "50m", "memory": "64Mi"}[name]
        for kind in ("requests", "limits"):
            resources.get(kind, {}).pop(HUGEPAGES, None)
        resources.get("limits", {}).pop("cpu", None)
    values = {"cpu": ("500m", "700m", "2", "20"), "memory": ("700Mi", "2Gi", "64Gi")}
    wanted = {name: draw.pick(values[name]) for name in names}
    stated: Object = {"requests": wanted}
    if draw.maybe(0.25):
        # The API server makes requests of limits that have none.
        stated = {"limits": wanted}
    if draw.maybe(0.2):
        for kind in ("requests", "limits"):
            stated[kind] = {**stated.get(kind, {}), HUGEPAGES: "64Mi"}
    pod["spec"]["resources"] = stated


def add_resize_status(draw: Draw, pod: Object) -> None:
    """Say what the kubelet granted, as while a pod is being resized in place."""
    status = pod["status"]
    for kind, statuses in (
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
    ):
        for container in pod["spec"].get(kind, ()):
            if draw.maybe(0.7):
                status.setdefault(statuses, []).append(_container_status(draw, container))
    if draw.maybe(0.5):
        status["conditions"] = [
            {
                "type": "PodResizePending",
                "status": "True",
                "reason": draw.pick(("Infeasible", "Infeasible", "Deferred")),
            }
        ]
    if "resources" in pod["spec"] and draw.maybe(0.6):
        status["resources"] = {"requests": _granted(draw)}
        if draw.maybe(0.7):
            status["allocatedResources"] = _granted(draw)


def _container_status(draw: Draw, container: Object) -> Object:
    status: Object = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": True,
        "restartCount": 0,
    }
    if draw.maybe(0.8):
        status["resources"] = {"requests": _granted(draw)} if draw.maybe(0.85) else {}
    if draw.maybe(0.6):
        status["allocatedResources"] = _granted(draw)
    return status


def _granted(draw: Draw) -> Object:
    granted: Object = {}
    if draw.maybe(0.8):
        granted["cpu"] = draw.pick(("100m", "400m", "1"))
    if draw.maybe(0.8):
        granted["memory"] = draw.pick(("128Mi", "600Mi", "2Gi"))
    return granted


def scoring_strategy(draw: Draw) -> Object:
    """Make a scoring strategy of any type, with resources and weights."""
    kind = draw.pick(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    strategy: Object = {"type": kind}
    if draw.maybe(0.7) or kind == "RequestedToCapacityRatio":
        strategy["resources"] = [
            {"name": name, "weight": draw.pick((1, 2, 3, 5, 100))}
            for name in draw.some(SCORED, 1, 4)
        ]
    if kind == "RequestedToCapacityRatio":
        points = sorted(draw.sample(range(101), draw.randint(1, 4)))
        strategy["requestedToCapacityRatio"] = {
            "shape": [{"utilization": p, "score": draw.randint(0, 10)} for p in points]
        }
    return strategy
