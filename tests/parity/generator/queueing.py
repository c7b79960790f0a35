"""What pods are before any node is looked at: priorities, gates, nominations, other schedulers."""

from typing_extensions import override

from tests.parity.generator.cluster import Cluster
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.feature import Feature


class Queueing(Feature):
    """Priorities, scheduling gates and nominated nodes of waiting pods."""

    def __init__(
        self, density: float = 0.25, *, gated: float = 0.04, foreign: float = 0.04
    ) -> None:
        super().__init__(density)
        self.gated = gated
        self.foreign = foreign

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        spec = pod["spec"]
        if draw.maybe(0.6):
            spec["priority"] = draw.pick((-5, 0, 0, 10, 1000))
        if "nodeName" in spec:
            return
        if draw.maybe(self.gated):
            spec["schedulingGates"] = [{"name": g} for g in draw.some(("example.com/a", "b"), 1, 2)]
        if draw.maybe(self.foreign):
            spec["schedulerName"] = "somebody-else"
        elif draw.maybe(self.foreign) and not cluster.plugin_args and not cluster.profiles:
            spec["schedulerName"] = "stowage"
        if draw.maybe(self.density):
            names = [node["metadata"]["name"] for node in cluster.nodes]
            pod["status"]["nominatedNodeName"] = draw.pick([*names[:4], *names[:4], *names, "gone"])
        if draw.maybe(0.02):
            pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
            pod["metadata"]["deletionGracePeriodSeconds"] = 0
