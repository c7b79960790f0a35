"""Placement relative to other pods: topology spread and inter-pod affinity."""

from typing_extensions import override

from tests.parity.generator.cluster import Cluster
from tests.parity.generator.draw import (
    NAMESPACE_LABELS,
    NAMESPACES,
    POD_LABELS,
    TOPOLOGY_KEYS,
    Draw,
    Object,
)
from tests.parity.generator.feature import Feature

MATCH_KEYS = ("ver", "tier", "absent")


class Spread(Feature):
    """Constraints of pods, default constraints, and the controllers that select for the latter."""

    def __init__(
        self, density: float = 0.8, *, configured: float = 0.0, owned: float = 0.25
    ) -> None:
        super().__init__(density, configured=configured)
        self.owned = owned
        """Probability that a case has services and controllers, so that default spreading acts."""

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        if draw.maybe(self.owned):
            cluster.others.extend(_services(draw))
            cluster.others.extend(_controllers(draw))
        if draw.maybe(self.configured):
            args: Object = {"defaultingType": "System"}
            if draw.maybe(0.75):
                args["defaultingType"] = "List"
                args["defaultConstraints"] = spread_constraints(draw, selector=False)
            cluster.plugin_args["PodTopologySpread"] = args

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        owners = [o for o in cluster.others if o["kind"] in OWNER_KINDS]
        if owners and draw.maybe(0.6):
            _own(draw, pod, draw.pick(owners))
        if draw.maybe(self.density):
            pod["spec"]["topologySpreadConstraints"] = spread_constraints(draw, selector=True)


def spread_constraints(draw: Draw, *, selector: bool) -> list[Object]:
    """Make constraints; only those of pods have selectors."""
    constraints: dict[tuple[str, str], Object] = {}
    for _ in range(draw.pick((1, 1, 2, 3))):
        key = draw.pick(TOPOLOGY_KEYS)
        action = draw.pick(("DoNotSchedule", "ScheduleAnyway"))
        constraint: Object = {
            "maxSkew": draw.pick((1, 1, 2, 3)),
            "topologyKey": key,
            "whenUnsatisfiable": action,
        }
        if action == "DoNotSchedule" and draw.maybe(0.3):
            constraint["minDomains"] = draw.randint(1, 5)
        if draw.maybe(0.3):
            constraint["nodeAffinityPolicy"] = draw.pick(("Honor", "Ignore"))
        if draw.maybe(0.3):
            constraint["nodeTaintsPolicy"] = draw.pick(("Honor", "Ignore"))
        if selector and draw.maybe(0.93):
            constraint["labelSelector"] = draw.label_selector(POD_LABELS)
            keys = _free_keys(draw, constraint["labelSelector"])
            if keys and draw.maybe(0.25):
                constraint["matchLabelKeys"] = keys
        constraints[key, action] = constraint
    return list(constraints.values())


def _free_keys(draw: Draw, selector: Object) -> list[str]:
    """Choose label keys the selector does not name: only those may be merged into it."""
    named = set(selector.get("matchLabels", ()))
    named.update(r["key"] for r in selector.get("matchExpressions", ()))
    return draw.some([key for key in MATCH_KEYS if key not in named], 0, 2)


OWNER_KINDS = {
    "ReplicationController": "v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
}


def _services(draw: Draw) -> list[Object]:
    services = []
    for i in range(draw.randint(0, 4)):
        spec: Object = {
            "clusterIP": "None",
            "clusterIPs": ["None"],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
        }
        if draw.maybe(0.85):
            spec["selector"] = draw.labels(POD_LABELS, 0.4)
        services.append(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": f"svc{i}", "namespace": draw.pick(NAMESPACES)},
                "spec": spec,
            }
        )
    return services


def _controllers(draw: Draw) -> list[Object]:
    controllers = []
    for i in range(draw.randint(1, 5)):
        kind = draw.pick(list(OWNER_KINDS))
        labels = draw.labels(POD_LABELS, 0.5) or {"app": "a"}
        selector: Object = dict(labels)
        if kind != "ReplicationController":
            selector = {"matchLabels": labels}
            if draw.maybe(0.4):
                key = draw.pick(list(labels))
                selector["matchExpressions"] = [{"key": key, "operator": "Exists"}]
        spec: Object = {
            "replicas": 1,
            "selector": selector,
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "registry.example/main:1"}]},
            },
        }
        if kind == "StatefulSet":
            spec["serviceName"] = "svc0"
        controllers.append(
            {
                "apiVersion": OWNER_KINDS[kind],
                "kind": kind,
                "metadata": {"name": f"owner{i}", "namespace": draw.pick(NAMESPACES)},
                "spec": spec,
            }
        )
    return controllers


def _own(draw: Draw, pod: Object, owner: Object) -> None:
    reference: Object = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": "11111111-2222-3333-4444-555555555555",
        "controller": True,
    }
    change = draw.random()
    if change < 0.05:
        reference["controller"] = False
    elif change < 0.1:
        reference["apiVersion"] = "example.com/v1"
    elif change < 0.15:
        reference["name"] = "deleted-owner"
    pod["metadata"]["ownerReferences"] = [reference]
    if draw.maybe(0.85):
        pod["metadata"]["namespace"] = owner["metadata"]["namespace"]
        pod["metadata"]["labels"].update(owner["spec"]["template"]["metadata"]["labels"])


class PodAffinity(Feature):
    """Required and preferred, affinity and anti-affinity, for waiting and running pods alike."""

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        if draw.maybe(self.configured):
            args: Object = {}
            if draw.maybe(0.7):
                args["hardPodAffinityWeight"] = draw.pick((0, 1, 5, 100))
            if draw.maybe(0.5):
                args["ignorePreferredTermsOfExistingPods"] = draw.maybe(0.7)
            cluster.plugin_args["InterPodAffinity"] = args

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        if not draw.maybe(self.density):
            return
        affinity = pod["spec"].setdefault("affinity", {})
        labels = pod["metadata"]["labels"]
        for kind, required in (("podAffinity", 0.35), ("podAntiAffinity", 0.35)):
            part: Object = {}
            if draw.maybe(required):
                part["requiredDuringSchedulingIgnoredDuringExecution"] = [
                    _affinity_term(draw, labels) for _ in range(draw.pick((1, 1, 2)))
                ]
            if draw.maybe(0.4):
                part["preferredDuringSchedulingIgnoredDuringExecution"] = [
                    {
                        "weight": draw.pick((1, 2, 10, 50, 100)),
                        "podAffinityTerm": _affinity_term(draw, labels),
                    }
                    for _ in range(draw.pick((1, 1, 2)))
                ]
            if part:
                affinity[kind] = part
        if not affinity:
            del pod["spec"]["affinity"]


def _affinity_term(draw: Draw, labels: dict[str, str]) -> Object:
    term: Object = {"topologyKey": draw.pick(TOPOLOGY_KEYS)}
    if draw.maybe(0.95):
        term["labelSelector"] = (
            {"matchLabels": {"app": labels["app"]}}
            if "app" in labels and draw.maybe(0.35)
            else draw.label_selector(POD_LABELS)
        )
        keys = _free_keys(draw, term["labelSelector"])
        if len(keys) > 1 and draw.maybe(0.1):
            term["matchLabelKeys"], term["mismatchLabelKeys"] = keys[:1], keys[1:]
        elif keys and draw.maybe(0.3):
            term[draw.pick(("matchLabelKeys", "mismatchLabelKeys"))] = keys
    if draw.maybe(0.3):
        term["namespaces"] = draw.some((*NAMESPACES, "nowhere"), 1, 2)
    if draw.maybe(0.3):
        term["namespaceSelector"] = {} if draw.maybe(0.3) else draw.label_selector(NAMESPACE_LABELS)
    return term
