"""Checks placements against scheduling rules, from the API objects alone.

This catches a scheduler that is fast because it is wrong, so it shares no code with the scheduler.
It knows the rules that the workloads use: node resources, required node affinity, required
inter-pod affinity and anti-affinity, and hard topology spread.
"""

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from decimal import Decimal
from functools import cache
from typing import Any, Final

import msgspec

from e2e.support.api import Api

_SHOWN: Final = 5
"""Maximum number of printed violations of each kind."""

_SUFFIXES: Final = {
    "m": Decimal("0.001"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
}

Labels = Mapping[str, str]
Rules = Mapping[str, Any]


class Kind(msgspec.Struct, frozen=True):
    """Pods that are identical for all rules."""

    namespace: str
    labels: tuple[tuple[str, str], ...]
    rules: str
    """Affinity, node selector and spread constraints, as JSON."""


class Placements:
    """All nodes, and the number of pods of each kind on each node."""

    def __init__(self) -> None:
        self.nodes: dict[str, Labels] = {}
        self.namespaces: dict[str, Labels] = {}
        self.room: dict[str, dict[str, Decimal]] = {}
        self.kinds: dict[Kind, Counter[str]] = defaultdict(Counter)
        self._domains: dict[tuple[Kind, str], Counter[str]] = {}

    @classmethod
    async def read(cls, api: Api) -> "Placements":
        """Read nodes and pods from an API server."""
        placements = cls()
        for namespace in await api.list_items("/api/v1/namespaces"):
            metadata = namespace["metadata"]
            placements.namespaces[metadata["name"]] = metadata.get("labels", {})
        for node in await api.list_items("/api/v1/nodes"):
            placements.add_node(node)
        async for pod in _pods(api):
            placements.add_pod(pod)
        return placements

    def add_node(self, node: Rules) -> None:
        """Add a node."""
        name = node["metadata"]["name"]
        self.nodes[name] = node["metadata"].get("labels", {})
        allocatable = node["status"]["allocatable"]
        self.room[name] = {key: _quantity(value) for key, value in allocatable.items()}

    def add_pod(self, pod: Rules) -> None:
        """Add a pod; ignore unbound pods and pods of deleted nodes."""
        spec, metadata = pod["spec"], pod["metadata"]
        node = spec.get("nodeName", "")
        if node not in self.nodes:
            return
        room = self.room[node]
        room["pods"] = room.get("pods", Decimal(0)) - 1
        for container in spec["containers"]:
            for key, value in container.get("resources", {}).get("requests", {}).items():
                room[key] = room.get(key, Decimal(0)) - _quantity(value)
        rules = {
            "affinity": spec.get("affinity", {}),
            "nodeSelector": spec.get("nodeSelector", {}),
            "spread": spec.get("topologySpreadConstraints", []),
        }
        labels = tuple(sorted(metadata.get("labels", {}).items()))
        kind = Kind(metadata["namespace"], labels, msgspec.json.encode(rules).decode())
        self.kinds[kind][node] += 1

    def domains(self, kind: Kind, key: str) -> Counter[str]:
        """Count pods of a kind by the value of a node label."""
        found = self._domains.get((kind, key))
        if found is None:
            found = self._domains[kind, key] = Counter()
            for node, count in self.kinds[kind].items():
                if key in self.nodes[node]:
                    found[self.nodes[node][key]] += count
        return found

    def matching(self, matches: Callable[[Kind], bool], key: str) -> Counter[str]:
        """Count the pods of all matching kinds by the value of a node label."""
        total: Counter[str] = Counter()
        for kind in self.kinds:
            if matches(kind):
                total.update(self.domains(kind, key))
        return total


async def violations_in(api: Api) -> tuple[str, ...]:
    """Return the violations in a cluster."""
    return violations(await Placements.read(api))


def violations(placements: Placements) -> tuple[str, ...]:
    """Return some violations of each kind."""
    found: list[str] = []
    for check in (_overfull, _off_node_affinity, _off_affinity, _off_anti_affinity, _skewed):
        problems = list(check(placements))
        found += problems[:_SHOWN]
        if len(problems) > _SHOWN:
            found.append(f"... and {len(problems) - _SHOWN} more like these")
    return tuple(found)


def _overfull(placements: Placements) -> Iterator[str]:
    for node, room in placements.room.items():
        for resource, left in room.items():
            if left < 0:
                yield f"node {node} is promised {-left} {resource} more than it has"


def _off_node_affinity(placements: Placements) -> Iterator[str]:
    for kind, places in placements.kinds.items():
        admits = _node_rule(kind)
        for node in places:
            if not admits(node, placements.nodes[node]):
                yield f"node {node} has pods of {_name(kind)} whose node affinity excludes it"


def _off_affinity(placements: Placements) -> Iterator[str]:
    for kind, term, matches in _terms(placements, "podAffinity"):
        matching = placements.matching(matches, term["topologyKey"])
        own = 1 if matches(kind) else 0
        domains = placements.domains(kind, term["topologyKey"])
        # The first pod of a self-affine group needs no match.
        alone = [domain for domain in domains if matching[domain] <= own]
        if len(alone) > own:
            yield f"pods of {_name(kind)} are in {alone[-1]} without the pods they must be near"


def _off_anti_affinity(placements: Placements) -> Iterator[str]:
    for kind, term, matches in _terms(placements, "podAntiAffinity"):
        matching = placements.matching(matches, term["topologyKey"])
        own = 1 if matches(kind) else 0
        for domain in placements.domains(kind, term["topologyKey"]):
            if matching[domain] > own:
                yield f"pods of {_name(kind)} share {domain} with pods they must not be near"


def _skewed(placements: Placements) -> Iterator[str]:
    for kind in placements.kinds:
        for constraint in _rules(kind)["spread"]:
            if constraint["whenUnsatisfiable"] == "DoNotSchedule":
                yield from _skewed_by(placements, kind, constraint)


def _skewed_by(placements: Placements, kind: Kind, constraint: Rules) -> Iterator[str]:
    key = constraint["topologyKey"]
    admits = _node_rule(kind)
    domains = {
        labels[key]
        for name, labels in placements.nodes.items()
        if key in labels and admits(name, labels)
    }
    selects = _selector(constraint.get("labelSelector"))

    def matches(other: Kind) -> bool:
        return other.namespace == kind.namespace and selects(dict(other.labels))

    matching = placements.matching(matches, key)
    fewest = min((matching[domain] for domain in domains), default=0)
    for domain in placements.domains(kind, key):
        if matching[domain] - fewest > constraint["maxSkew"]:
            yield f"pods of {_name(kind)}: {matching[domain]} in {domain}, {fewest} elsewhere"


def _terms(
    placements: Placements, field: str
) -> Iterator[tuple[Kind, Rules, Callable[[Kind], bool]]]:
    for kind in placements.kinds:
        rule = _rules(kind)["affinity"].get(field, {})
        for term in rule.get("requiredDuringSchedulingIgnoredDuringExecution", []):
            yield kind, term, _term_matcher(placements, kind, term)


def _term_matcher(placements: Placements, kind: Kind, term: Rules) -> Callable[[Kind], bool]:
    selects = _selector(term.get("labelSelector"))
    namespaces = set(term.get("namespaces", []))
    if "namespaceSelector" in term:
        selects_namespace = _selector(term["namespaceSelector"])
        namespaces |= {
            name for name, labels in placements.namespaces.items() if selects_namespace(labels)
        }
    namespaces = namespaces or {kind.namespace}
    return lambda other: other.namespace in namespaces and selects(dict(other.labels))


def _node_rule(kind: Kind) -> Callable[[str, Labels], bool]:
    rules = _rules(kind)
    wanted = rules["nodeSelector"].items()
    required = rules["affinity"].get("nodeAffinity", {})
    selector = required.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = selector.get("nodeSelectorTerms")

    def admits(name: str, labels: Labels) -> bool:
        if any(labels.get(key) != value for key, value in wanted):
            return False
        return terms is None or any(
            _all_hold(term.get("matchExpressions", []), labels)
            and _all_hold(term.get("matchFields", []), {"metadata.name": name})
            for term in terms
        )

    return admits


def _selector(selector: Rules | None) -> Callable[[Labels], bool]:
    if selector is None:
        return lambda _: False
    wanted = selector.get("matchLabels", {}).items()
    expressions = selector.get("matchExpressions", [])
    return lambda labels: (
        all(labels.get(key) == value for key, value in wanted) and _all_hold(expressions, labels)
    )


def _all_hold(expressions: list[Rules], labels: Labels) -> bool:
    return all(_holds(expression, labels) for expression in expressions)


def _holds(expression: Rules, labels: Labels) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case operator:
            raise NotImplementedError(f"no workload is known to use the operator {operator}")


@cache
def _rules_of(text: str) -> Rules:
    rules: Rules = msgspec.json.decode(text)
    return rules


def _rules(kind: Kind) -> Rules:
    return _rules_of(kind.rules)


@cache
def _quantity(text: str) -> Decimal:
    number = text.rstrip("KMGkim")
    return Decimal(number) * _SUFFIXES[text[len(number) :]]


def _name(kind: Kind) -> str:
    labels = ",".join(f"{key}={value}" for key, value in kind.labels)
    return f"{kind.namespace} [{labels}]"


async def _pods(api: Api) -> AsyncIterator[Rules]:
    """Yield the pods page by page, to limit memory."""
    token = ""
    while True:
        page = await api.get(f"/api/v1/pods?limit=5000&continue={token}")
        for pod in page["items"]:
            yield pod
        token = page["metadata"].get("continue", "")
        if not token:
            return
