"""Profiles in which a plugin may fail, because the half of it that prepares is switched off."""

from typing_extensions import override

from tests.parity.generator.cluster import Cluster
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.feature import Feature

HALVES = {
    "preFilter": (
        "NodePorts",
        "NodeResourcesFit",
        "PodTopologySpread",
        "InterPodAffinity",
        "NodeDeclaredFeatures",
    ),
    "preScore": (
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
        "PodTopologySpread",
        "InterPodAffinity",
    ),
}
"""Plugins whose Filter or Score reads what they have prepared at another extension point."""


class Halves(Feature):
    """Profiles that kube-scheduler accepts, and in which some pods end in an error."""

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        names = ("default-scheduler", "second", "third")
        cluster.profiles = [{"schedulerName": name} for name in names]
        for profile in cluster.profiles:
            if draw.maybe(self.density):
                point = draw.pick(tuple(HALVES))
                disabled = [{"name": name} for name in draw.some(HALVES[point], 1, 2)]
                profile["plugins"] = {point: {"disabled": disabled}}

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        profile = draw.pick(tuple(cluster.profiles))
        pod["spec"]["schedulerName"] = profile["schedulerName"]
