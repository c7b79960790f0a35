"""Resource claims in every state, by name and from templates, and extended resources of classes."""

from typing import Any

from typing_extensions import override

from tests.parity.generator.cluster import Cluster
from tests.parity.generator.device_requests import (
    ANY,
    EXTENDED,
    IMPLICIT,
    claim_spec,
    device_classes,
)
from tests.parity.generator.device_slices import (
    CONDITION,
    FAILURE,
    TAINT_KEYS,
    Habits,
    Offer,
    Published,
    publish,
)
from tests.parity.generator.draw import HOSTNAME, Draw, Object
from tests.parity.generator.feature import Feature

ADMIN_LABEL = "resource.kubernetes.io/admin-access"
LONG_AGO, FAR_AHEAD = "2026-01-02T03:04:05Z", "2036-01-02T03:04:05Z"
STATES = (
    *("waiting",) * 12,
    *("allocated",) * 3,
    "reserved-for-it",
    "elsewhere",
    "elsewhere",
    "deleting",
    "missing",
    "others",
    "unready",
)
"""What has become of a claim that a waiting pod names."""


class Devices(Feature):
    """Claims of running and waiting pods over the devices of a case.

    `asked` is the probability that a pod requests an extended resource of a class instead of, or
    beside, a claim.
    """

    def __init__(
        self, density: float = 0.8, *, asked: float = 0.0, configured: float = 0.0
    ) -> None:
        super().__init__(density, configured=configured)
        self._asked = asked
        self._published = Published()
        self._habits: Habits | None = None
        self._fragile = 0.0
        self._admins: set[str] = set()
        self._taken: set[int] = set()
        self._shared: list[tuple[str, str]] = []
        self._claims = 0

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        names = [node["metadata"]["name"] for node in cluster.nodes]
        self._habits = Habits.drawn(draw)
        self._fragile = draw.pick((0.0, 0.0, 0.0, 0.04))
        self._published = publish(draw, names, self._habits)
        for namespace in cluster.others:
            if namespace["kind"] == "Namespace" and draw.maybe(0.25):
                namespace["metadata"].setdefault("labels", {})[ADMIN_LABEL] = "true"
                self._admins.add(namespace["metadata"]["name"])
        cluster.others.extend(device_classes(draw, extended=self._asked > 0))
        cluster.others.extend(self._published.slices)
        if draw.maybe(self.configured):
            resources = [{"name": draw.pick((EXTENDED, f"{IMPLICIT}gpu", "cpu")), "weight": 2}]
            resources.append({"name": "memory", "weight": 1})
            if draw.maybe(0.7):
                kind = draw.pick(("LeastAllocated", "MostAllocated"))
                args = {"scoringStrategy": {"type": kind, "resources": resources}}
                cluster.plugin_args["NodeResourcesFit"] = args
            if draw.maybe(0.5):
                # Of a class with selectors kube-scheduler's BalancedAllocation panics.
                name = draw.pick((ANY, f"{IMPLICIT}anything"))
                even = [{"name": other, "weight": 1} for other in (name, "cpu", "memory")]
                cluster.plugin_args["NodeResourcesBalancedAllocation"] = {"resources": even}

    @override
    def shape_node(self, draw: Draw, node: Object) -> None:
        if self._asked and draw.maybe(0.3):
            amount = draw.pick(("0", "1", "2", "8"))
            for key in ("allocatable", "capacity"):
                node["status"][key][EXTENDED] = amount

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        runs = "nodeName" in pod["spec"]
        if draw.maybe(self._asked):
            self._ask(draw, pod)
            if not runs and draw.maybe(0.03):
                cluster.others.append(self._earlier_claim(draw, pod))
        if self._asked and draw.maybe(0.7):
            return
        if not draw.maybe(self.density):
            return
        for i in range(draw.pick((1, 1, 1, 2))):
            name = f"c{i}"
            entry = self._running_claim(draw, pod, cluster) if runs else None
            if not runs:
                entry = self._waiting_claim(draw, pod, name, cluster)
            # A claim that is named twice is decided otherwise: see docs/parity.md.
            named = [
                each.get("resourceClaimName") for each in pod["spec"].get("resourceClaims", ())
            ]
            if entry is not None and entry.get("resourceClaimName", "") not in named:
                pod["spec"].setdefault("resourceClaims", []).append({"name": name, **entry})
                main = pod["spec"]["containers"][0].setdefault("resources", {})
                main.setdefault("claims", []).append({"name": name})

    def _ask(self, draw: Draw, pod: Object) -> None:
        """Request extended resources, in containers and init containers."""
        for container in pod["spec"]["containers"]:
            _limit(container, draw, draw.some(_RESOURCES, 1, 2))
        if draw.maybe(0.25):
            init: Object = {"name": "init", "image": "registry.example/init:1"}
            if draw.maybe(0.4):
                init["restartPolicy"] = "Always"
            _limit(init, draw, draw.some(_RESOURCES, 1, 2))
            pod["spec"].setdefault("initContainers", []).append(init)
        if draw.maybe(0.2):
            second: Object = {"name": "second", "image": "registry.example/main:1"}
            _limit(second, draw, draw.some(_RESOURCES, 1, 2))
            pod["spec"]["containers"].append(second)

    def _running_claim(self, draw: Draw, pod: Object, cluster: Cluster) -> Object | None:
        node = pod["spec"]["nodeName"]
        offers = self._free(node)
        if not offers:
            return None
        claim = self._new_claim(draw, pod["metadata"]["namespace"])
        self._allocate(draw, claim, draw.some(offers, 1, 2), [pod])
        cluster.others.append(claim)
        self._shared.append((pod["metadata"]["namespace"], claim["metadata"]["name"]))
        return {"resourceClaimName": claim["metadata"]["name"]}

    def _waiting_claim(self, draw: Draw, pod: Object, name: str, cluster: Cluster) -> Object | None:
        namespace = pod["metadata"]["namespace"]
        if draw.maybe(0.12):
            shared = [claim for where, claim in self._shared if where == namespace]
            if shared:
                return {"resourceClaimName": draw.pick(shared)}
        if draw.maybe(0.25):
            return self._template(draw, pod, name, cluster)
        claim = self._new_claim(draw, namespace)
        state = draw.pick(STATES)
        offers = self._free(None)
        nodes = [node["metadata"]["name"] for node in cluster.nodes]
        match state:
            case "missing":
                return {"resourceClaimName": "claim-gone"} if draw.maybe(0.4) else None
            case "deleting" if draw.maybe(0.4):
                claim["metadata"]["deletionTimestamp"] = LONG_AGO
                claim["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
            case "allocated" | "unready" if offers:
                offer = draw.pick(offers)
                readers = [draw.pick(cluster.running)] if cluster.running else []
                self._allocate(draw, claim, [offer], draw.pick(([], readers)))
            case "reserved-for-it" if offers:
                self._allocate(draw, claim, [draw.pick(offers)], [pod])
            case "elsewhere" if offers and nodes:
                self._allocate(draw, claim, [draw.pick(offers)], [])
                claim["status"]["allocation"]["nodeSelector"] = _on(draw.some(nodes, 1, 3))
        cluster.others.append(claim)
        self._shared.append((namespace, claim["metadata"]["name"]))
        return {"resourceClaimName": claim["metadata"]["name"]}

    def _template(self, draw: Draw, pod: Object, name: str, cluster: Cluster) -> Object | None:
        """Name a template, whose claim is made by the oracle as the controller does."""
        meta = pod["metadata"]
        if draw.maybe(0.05):
            return {"resourceClaimTemplateName": "template-gone"}
        self._claims += 1
        template = f"template-{self._claims}"
        spec = claim_spec(
            draw, self._drawn(), admin=meta["namespace"] in self._admins, fragile=self._fragile
        )
        cluster.others.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": template, "namespace": meta["namespace"]},
                "spec": {"spec": spec},
            }
        )
        if draw.maybe(0.04):
            # The controller found that this pod needs no claim.
            pod["status"].setdefault("resourceClaimStatuses", []).append({"name": name})
        elif draw.maybe(0.04):
            claim = self._new_claim(draw, meta["namespace"])
            claim["metadata"]["ownerReferences"] = [_owner({**meta, "name": "another"})]
            cluster.others.append(claim)
            entry = {"name": name, "resourceClaimName": claim["metadata"]["name"]}
            pod["status"].setdefault("resourceClaimStatuses", []).append(entry)
        return {"resourceClaimTemplateName": template}

    def _earlier_claim(self, draw: Draw, pod: Object) -> Object:
        """Make a claim for extended resources that an earlier attempt has left."""
        claim = self._new_claim(draw, pod["metadata"]["namespace"])
        claim["metadata"]["annotations"] = {
            "resource.kubernetes.io/extended-resource-claim": "true"
        }
        claim["metadata"]["ownerReferences"] = [_owner(pod["metadata"])]
        return claim

    def _new_claim(self, draw: Draw, namespace: str) -> Object:
        self._claims += 1
        spec = claim_spec(
            draw, self._drawn(), admin=namespace in self._admins, fragile=self._fragile
        )
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": f"claim-{self._claims}", "namespace": namespace},
            "spec": spec,
        }

    def _allocate(
        self, draw: Draw, claim: Object, offers: list[Offer], readers: list[Object]
    ) -> None:
        """Give the claim the devices, as an earlier decision might have."""
        request = claim["spec"]["devices"]["requests"][0]
        name = request["name"]
        if "firstAvailable" in request:
            name = f"{name}/{draw.pick(request['firstAvailable'])['name']}"
        results = []
        for offer in offers:
            result = offer.result(name)
            if request.get("exactly", {}).get("adminAccess"):
                result["adminAccess"] = True
            if offer.device.get("allowMultipleAllocations"):
                result["shareID"] = f"{draw.getrandbits(32):08x}-0000-4000-8000-{self._claims:012x}"
                amount = draw.pick(("1G", "2G", "2500M"))
                if "bandwidth" in offer.device["capacity"]:
                    result["consumedCapacity"] = {"bandwidth": amount}
            else:
                self._taken.add(id(offer))
            results.append(result)
        allocation: Object = {"devices": {"results": results}}
        node = next((offer.node for offer in offers if offer.node), None)
        if node is not None:
            allocation["nodeSelector"] = _on([node])
        if draw.maybe(0.7):
            allocation["allocationTimestamp"] = draw.pick((LONG_AGO, FAR_AHEAD))
        claim["status"] = {"allocation": allocation}
        if readers:
            claim["status"]["reservedFor"] = [
                {"resource": "pods", "name": meta["name"], "uid": _uid(meta)}
                for meta in (pod["metadata"] for pod in readers)
            ]
        self._report(draw, claim, results)

    def _report(self, draw: Draw, claim: Object, results: list[Object]) -> None:
        """Say what the driver has written about conditions, if anything."""
        entries = []
        for result in results:
            if "bindingConditions" not in result or not draw.maybe(0.7):
                continue
            conditions = [
                {
                    "type": kind,
                    "status": draw.pick(("True", "True", "False", "Unknown")),
                    "reason": "Reported",
                    "message": "",
                    "lastTransitionTime": LONG_AGO,
                }
                for kind in draw.some((CONDITION, CONDITION, FAILURE), 1, 2)
            ]
            entry: Object = {key: result[key] for key in ("driver", "pool", "device")}
            if "shareID" in result:
                entry["shareID"] = result["shareID"]
            kinds = {condition["type"]: condition for condition in conditions}
            entries.append({**entry, "conditions": list(kinds.values())})
        if entries:
            claim["status"]["devices"] = entries

    def _free(self, node: str | None) -> list[Offer]:
        return [
            offer
            for offer in self._published.offers
            if id(offer) not in self._taken and node in (None, offer.node)
        ]

    def _drawn(self) -> Habits:
        assert self._habits is not None
        return self._habits


class RuledDevices(Devices):
    """Devices, some of them tainted by rules."""

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        super().shape_cluster(draw, cluster)
        offers = self._published.offers
        for i in range(draw.pick((1, 1, 2, 3))):
            meant: Object = {}
            if offers:
                offer = draw.pick(offers)
                fields = {
                    "driver": offer.driver,
                    "pool": offer.pool,
                    "device": offer.device["name"],
                }
                meant = {key: value for key, value in fields.items() if draw.maybe(0.5)}
            taint = {
                "key": draw.pick(TAINT_KEYS),
                "value": draw.pick(("", "1")),
                "effect": draw.pick(("NoSchedule", "NoSchedule", "NoExecute", "None")),
                "timeAdded": LONG_AGO,
            }
            spec = {"taint": taint, **({"deviceSelector": meant} if draw.maybe(0.9) else {})}
            rule = {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule"}
            cluster.others.append({**rule, "metadata": {"name": f"rule-{i}"}, "spec": spec})


_RESOURCES = (
    EXTENDED,
    EXTENDED,
    "example.com/big-gpu",
    "example.com/interface",
    ANY,
    f"{IMPLICIT}gpu",
)


def _limit(container: Object, draw: Draw, resources: list[str]) -> None:
    limits = container.setdefault("resources", {}).setdefault("limits", {})
    requests = container["resources"].setdefault("requests", {})
    for resource in resources:
        limits[resource] = requests[resource] = draw.pick(("1", "1", "1", "2", "0"))


def _on(nodes: list[str]) -> Object:
    field: Any = {"key": "metadata.name", "operator": "In", "values": nodes[:1]}
    if len(nodes) == 1:
        return {"nodeSelectorTerms": [{"matchFields": [field]}]}
    hosts = {"key": HOSTNAME, "operator": "In", "values": nodes}
    return {"nodeSelectorTerms": [{"matchExpressions": [hosts]}]}


def _owner(meta: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": meta["name"],
        "uid": _uid(meta),
        "controller": True,
    }


def _uid(meta: Object) -> str:
    return f"Pod/{meta['namespace']}/{meta['name']}"
