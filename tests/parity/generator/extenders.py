"""Extenders: who is asked what, how, and whether an answer is needed."""

from collections.abc import Sequence

from typing_extensions import override

from tests.parity.extender import LENIENT, ODD, PLACE, STEADY, STRICT
from tests.parity.generator.cluster import Cluster
from tests.parity.generator.device_requests import EXTENDED as DEVICE
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.feature import Feature
from tests.parity.generator.resources import EXTENDED

VERBS = ("filter", "prioritize", "preempt")
PATIENT = {"httpTimeout": "120s"}
"""On a busy machine an answer may take more than the usual five seconds."""


class AskedExtenders(Feature):
    """One to four extenders with some of the verbs, for all pods or those that want a resource."""

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        if not draw.maybe(self.density):
            return
        managed = draw.some(EXTENDED, 1, 2)
        cluster.extenders = [
            new_extender(draw, name, managed, draw.some(VERBS, 1, 3))
            for name in draw.some((*STRICT, *LENIENT), 1, 4)
        ]


class AskedAboutMembers(Feature):
    """One or two extenders that filter or prioritize; most of them never fail."""

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        managed = draw.some(EXTENDED, 1, 2)
        names = draw.some(STEADY, 1, 2)
        if draw.maybe(0.5):
            names[-1] = draw.pick((*STRICT, *LENIENT))
        cluster.extenders = [
            new_extender(draw, name, managed, draw.some(VERBS[:2], 1, 2)) | PATIENT
            for name in names
        ]


class OddExtenders(Feature):
    """Extenders with odd answers, some of whose resources the scheduler ignores."""

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        if not draw.maybe(self.density):
            return
        managed = draw.some((*EXTENDED, DEVICE), 1, 4)
        others = draw.some((*STRICT, *LENIENT), 0, 2)
        for name in (*draw.some(ODD, 1, 2), *others):
            extender = new_extender(draw, name, [], draw.some(VERBS, 1, 3))
            if name in ODD and draw.maybe(0.4):
                extender["ignorable"] = True
            if managed and draw.maybe(0.4):
                extender["managedResources"] = [
                    {"name": managed.pop(), "ignoredByScheduler": draw.maybe(0.6)}
                    for _ in range(min(len(managed), draw.pick((1, 1, 2))))
                ]
            if draw.maybe(0.05):
                extender["nodeCacheCapable"] = False
            cluster.extenders.append(extender)
        if draw.maybe(0.2):
            draw.pick(cluster.extenders)["bindVerb"] = "bind"


def new_extender(draw: Draw, name: str, managed: list[str], verbs: Sequence[str]) -> Object:
    """Make an extender with these verbs; `managed` are resources of which it may take one."""
    extender: Object = {"urlPrefix": f"{PLACE}/{name}"}
    extender |= {f"{verb}Verb": verb for verb in verbs}
    extender["weight"] = draw.pick((1, 1, 2, 5, 100))
    if draw.maybe(0.6):
        extender["nodeCacheCapable"] = True
    if name in LENIENT:
        extender["ignorable"] = True
    if managed and draw.maybe(0.25):
        # No two extenders may manage the same resource.
        extender["managedResources"] = [{"name": managed.pop()}]
    return extender
