"""The plugins' rules once more, for one pod and one node at a time, in whole numbers.

Written from the description of the rules, slowly and plainly, to judge the columns.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.api.host_ports import HostPort
from scheduler.api.objects import Node, NodeSelectorRequirement, NodeSelectorTerm, Toleration
from scheduler.api.pods import PodInfo
from scheduler.api.quantity import ceil, milli_value, parse
from scheduler.kernel.framework.status import Code, Status
from tests.support.plugin_answers import FITS

EXTENDED = "example.com/gpu"
OTHER_EXTENDED = "vendor.example/nic"
HUGE = "hugepages-2Mi"


@dataclass
class Place:
    """A node, the pods on it, and all nodes of the cluster."""

    node: Node
    pods: Sequence[PodInfo]
    nodes: Sequence[Node]

    def allocatable(self, name: str) -> int:
        amount = self.node.status.allocatable.get(name, 0)
        return milli_value(amount) if name == "cpu" else ceil(parse(amount))

    def requested(self, name: str) -> int:
        return sum(pod.shape.occupied.get(name, 0) for pod in self.pods)

    def non_zero_requested(self, name: str) -> int:
        if name in ("cpu", "memory"):
            return sum(p.shape.non_zero_occupied[name == "memory"] for p in self.pods)
        return self.requested(name)


def _no(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


# --- taints -------------------------------------------------------------------------------------


def _tolerated(key: str, taint_value: str, effect: str, tolerations: Sequence[Toleration]) -> bool:
    for t in tolerations:
        same_key = t.key in ("", key)
        same_effect = t.effect in ("", effect)
        same_value = t.operator == "Exists" or (
            t.operator in ("", "Equal") and t.value == taint_value
        )
        if same_key and same_effect and same_value:
            return True
    return False


def taint_filter(pod: PodInfo, place: Place) -> Status:
    for taint in place.node.spec.taints:
        if taint.effect == "PreferNoSchedule":
            continue
        if not _tolerated(taint.key, taint.value, taint.effect, pod.spec.tolerations):
            return _no("node(s) had untolerated taint(s)")
    return FITS


def taint_score(pod: PodInfo, place: Place) -> int:
    return len(
        [
            taint
            for taint in place.node.spec.taints
            if taint.effect == "PreferNoSchedule"
            and not _tolerated(taint.key, taint.value, taint.effect, pod.spec.tolerations)
        ]
    )


def unschedulable_filter(pod: PodInfo, place: Place) -> Status:
    key = "node.kubernetes.io/unschedulable"
    if place.node.spec.unschedulable and not _tolerated(
        key, "", "NoSchedule", pod.spec.tolerations
    ):
        return _no("node(s) were unschedulable")
    return FITS


# --- node affinity ------------------------------------------------------------------------------


def _holds(requirement: NodeSelectorRequirement, have: str | None) -> bool:
    match requirement.operator:
        case "In":
            return have in requirement.values
        case "NotIn":
            return have not in requirement.values
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
    try:
        number, bound = int(have or ""), int(requirement.values[0])
    except ValueError:
        return False
    return number > bound if requirement.operator == "Gt" else number < bound


def _term_holds(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return all(_holds(r, node.metadata.labels.get(r.key)) for r in term.match_expressions) and all(
        _holds(r, node.metadata.name) for r in term.match_fields
    )


def affinity_filter(pod: PodInfo, place: Place) -> Status:
    labels = place.node.metadata.labels
    fits = all(labels.get(k) == v for k, v in pod.spec.node_selector.items())
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    if required:
        fits = fits and any(_term_holds(t, place.node) for t in required.node_selector_terms)
    return FITS if fits else _no("node(s) didn't match Pod's node affinity/selector")


def affinity_score(pod: PodInfo, place: Place) -> int:
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    return sum(t.weight for t in preferred if _term_holds(t.preference, place.node))


# --- ports --------------------------------------------------------------------------------------


def _clash(a: HostPort, b: HostPort) -> bool:
    any_ip = "0.0.0.0"  # noqa: S104 - the API's word for every address
    return (a.protocol, a.port) == (b.protocol, b.port) and (
        a.host_ip == b.host_ip or any_ip in (a.host_ip, b.host_ip)
    )


def ports_filter(pod: PodInfo, place: Place) -> Status:
    held = [port for other in place.pods for port in other.shape.host_ports]
    if any(_clash(want, have) for want in pod.shape.host_ports for have in held):
        reason = "node(s) didn't have free ports for the requested pod ports"
        return Status(Code.UNSCHEDULABLE, (reason,))
    return FITS


# --- features -----------------------------------------------------------------------------------


def features_filter(pod: PodInfo, place: Place) -> Status:
    needed = set()
    if pod.spec.host_network and pod.spec.host_users is False:
        needed.add("UserNamespacesHostNetworkSupport")
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules):
            needed.add("RestartAllContainersOnContainerExits")
    if needed <= set(place.node.status.declared_features):
        return FITS
    return _no("node(s) didn't match Pod's required features")


# --- images -------------------------------------------------------------------------------------


def image_score(pod: PodInfo, place: Place) -> int:
    wanted = [c.image for c in (*pod.spec.init_containers, *pod.spec.containers)]
    count = len(wanted)
    wanted += [v.image.reference for v in pod.spec.volumes if v.image]
    total = 0
    for name in wanted:
        if ":" not in name.rsplit("/", 1)[-1]:
            name += ":latest"  # noqa: PLW2901 - the name meant
        holders = [n for n in place.nodes if any(name in i.names for i in n.status.images)]
        if place.node in holders:
            sizes = [i.size_bytes for i in holders[0].status.images if name in i.names]
            total += int(sizes[0] * (len(holders) / len(place.nodes)))
    mebibyte = 1024 * 1024
    least, most = 23 * mebibyte, 1000 * mebibyte * count
    return 100 * (min(max(total, least), most) - least) // (most - least)


# --- resources ----------------------------------------------------------------------------------


@dataclass
class FitRules:
    """The options of NodeResourcesFit."""

    ignored: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    strategy: str = "LeastAllocated"
    resources: Mapping[str, int] = field(default_factory=lambda: {"cpu": 1, "memory": 1})
    shape: Sequence[tuple[int, int]] = ()


def _is_extended(name: str) -> bool:
    return "/" in name


def fit_filter(pod: PodInfo, place: Place, rules: FitRules) -> Status:
    reasons = []
    hopeless = False
    if len(place.pods) + 1 > place.allocatable("pods"):
        reasons.append("Too many pods")
    order = ("cpu", "memory", "ephemeral-storage", EXTENDED, HUGE, OTHER_EXTENDED)
    for name in order:
        amount = pod.shape.requests.get(name, 0)
        ignored = name in rules.ignored or name.split("/")[0] in rules.groups
        if amount == 0 or (_is_extended(name) and ignored):
            continue
        if amount > place.allocatable(name) - place.requested(name):
            reasons.append(f"Insufficient {name}")
            hopeless = hopeless or amount > place.allocatable(name)
    if not reasons:
        return FITS
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE
    return Status(code, tuple(reasons))


def _go_division(a: int, b: int) -> int:
    return math.trunc(a / b)


def _line(shape: Sequence[tuple[int, int]], x: int) -> int:
    previous: tuple[int, int] | None = None
    for at, score in shape:
        if x <= at:
            if previous is None:
                return score * 10
            x0, y0 = previous[0], previous[1] * 10
            return y0 + _go_division((score * 10 - y0) * (x - x0), at - x0)
        previous = (at, score)
    return shape[-1][1] * 10


def fit_score(pod: PodInfo, place: Place, rules: FitRules) -> int:
    total = weights = 0
    for name, weight in rules.resources.items():
        asked = pod.shape.scoring_requests.get(name, 0)
        have = place.allocatable(name)
        if have == 0 or (asked == 0 and name in (EXTENDED, OTHER_EXTENDED, HUGE)):
            continue
        taken = place.non_zero_requested(name) + asked
        if rules.strategy == "LeastAllocated":
            score = 0 if taken > have else (have - taken) * 100 // have
        elif rules.strategy == "MostAllocated":
            score = min(taken, have) * 100 // have
        else:
            score = _line(rules.shape, 100 if taken > have else taken * 100 // have)
            if score == 0:
                continue
        total += score * weight
        weights += weight
    if weights == 0:
        return 0
    if rules.strategy == "RequestedToCapacityRatio":
        return (2 * total + weights) // (2 * weights)
    return total // weights


def balance_score(pod: PodInfo, place: Place, names: Sequence[str]) -> int:
    without, with_pod = [], []
    for name in names:
        asked = pod.shape.occupied.get(name, 0)
        have = place.allocatable(name)
        if have == 0 or (asked == 0 and name in (EXTENDED, OTHER_EXTENDED, HUGE)):
            continue
        without.append(min(place.requested(name) / have, 1.0))
        with_pod.append(min((place.requested(name) + asked) / have, 1.0))
    return 50 + _go_division(50 + _evenness(with_pod) - _evenness(without), 2)


def _evenness(shares: Sequence[float]) -> int:
    if len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    elif len(shares) > 2:
        total = 0.0
        for share in shares:
            total += share
        mean = total / len(shares)
        squares = 0.0
        for share in shares:
            squares += (share - mean) * (share - mean)
        deviation = math.sqrt(squares / len(shares))
    else:
        deviation = 0.0
    return int((1 - deviation) * 100)
