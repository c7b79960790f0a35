"""Preemption: nodes that are full of less important pods, and budgets that protect some of them."""

from typing_extensions import override

from tests.parity.generator.cluster import Cluster
from tests.parity.generator.draw import NAMESPACES, POD_LABELS, Draw, Object
from tests.parity.generator.feature import Feature

LOW = (-10, 0, 0, 1, 5, 5, 50)
HIGH = (0, 5, 10, 50, 100, 100, 1000)
DISRUPTED = "2026-01-01T00:00:00Z"
DAY_SECONDS = 86_400


class Preemption(Feature):
    """Priorities, start times, small nodes, budgets, and pods that are leaving already.

    Comes after the features that shape pods: it takes away host ports that two pods of a node
    would share, which no scheduler places like that.
    """

    def __init__(self, density: float = 0.8, *, configured: float = 0.0) -> None:
        super().__init__(density, configured=configured)
        self._held: set[tuple[str, str, int]] = set()

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        for i in range(draw.pick((0, 1, 1, 2, 4))):
            cluster.others.append(budget(draw, f"pdb{i}"))
        if draw.maybe(self.configured):
            cluster.plugin_args["DefaultPreemption"] = {
                "minCandidateNodesAbsolute": draw.pick((0, 1, 100))
            }

    @override
    def shape_node(self, draw: Draw, node: Object) -> None:
        if draw.maybe(self.density):
            allocatable = node["status"]["allocatable"]
            allocatable["cpu"] = draw.pick(("1", "1500m", "2"))
            allocatable["memory"] = draw.pick(("2Gi", "4Gi", "8Gi"))
            allocatable["pods"] = draw.pick(("2", "4", "6", "110"))
            node["status"]["capacity"] = dict(allocatable)

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        spec, status = pod["spec"], pod["status"]
        if "nodeName" not in spec:
            spec["priority"] = draw.pick(HIGH)
            if draw.maybe(0.05):
                spec["preemptionPolicy"] = "Never"
            if draw.maybe(self.density):
                _ask_for_more(draw, pod)
            return
        spec["priority"] = draw.pick(LOW)
        number = int(pod["metadata"]["name"].removeprefix("run-"))
        if number or draw.maybe(0.5):
            # All start times differ: among pods alike in it kube-scheduler's order is chance.
            second = number * 7919 % DAY_SECONDS
            clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
            status["startTime"] = f"2026-01-01T{clock}Z"
        if "deletionTimestamp" in pod["metadata"] and draw.maybe(0.6):
            status["conditions"] = [*status.get("conditions", ()), _disruption(draw)]
        self._drop_shared_ports(pod)

    def _drop_shared_ports(self, pod: Object) -> None:
        spec = pod["spec"]
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            for port in container.get("ports", ()):
                place = (spec["nodeName"], port.get("protocol", "TCP"), port.get("hostPort", 0))
                if place in self._held:
                    port.pop("hostPort", None)
                    spec.pop("hostNetwork", None)
                self._held.add(place)


class EqualTimes(Feature):
    """Pods of different nodes, or of different priorities, that started together."""

    def __init__(self, density: float = 0.8, *, configured: float = 0.0) -> None:
        super().__init__(density, configured=configured)
        self._known: set[tuple[str, int, str]] = set()

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        spec = pod["spec"]
        if "startTime" not in pod["status"] or not draw.maybe(self.density):
            return
        time = f"2026-01-02T0{draw.randint(0, 3)}:00:00Z"
        at = (spec["nodeName"], spec.get("priority", 0), time)
        if at not in self._known:
            pod["status"]["startTime"] = time
        self._known.add(at)


def budget(draw: Draw, name: str) -> Object:
    """Make a budget that protects some pods, or none."""
    spec: Object = {"minAvailable": 1}
    if draw.maybe(0.95):
        spec["selector"] = draw.label_selector(POD_LABELS)
    status: Object = {
        "disruptionsAllowed": draw.pick((0, 0, 1, 1, 2, 3)),
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    if draw.maybe(0.3):
        names = [f"run-{draw.randint(0, 20)}" for _ in range(draw.randint(1, 4))]
        status["disruptedPods"] = dict.fromkeys(names, DISRUPTED)
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": draw.pick((*NAMESPACES, "default", "default"))},
        "spec": spec,
        "status": status,
    }


def _disruption(draw: Draw) -> Object:
    return {
        "type": "DisruptionTarget",
        "status": draw.pick(("True", "True", "False")),
        "reason": draw.pick(
            ("PreemptionByScheduler", "PreemptionByScheduler", "EvictionByEvictionAPI")
        ),
    }


def _ask_for_more(draw: Draw, pod: Object) -> None:
    container = pod["spec"]["containers"][0]
    requests = container.setdefault("resources", {}).setdefault("requests", {})
    requests["cpu"] = draw.pick(("500m", "900m", "1", "1400m"))
    requests["memory"] = draw.pick(("500Mi", "1Gi", "1900Mi"))
    container["resources"].get("limits", {}).pop("cpu", None)
    pod["spec"].pop("resources", None)
