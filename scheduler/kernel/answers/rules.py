"""Lists the placement rules of a pod, and removes some of them from its specification."""

from collections.abc import Collection, Iterator
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.api.affinity import affinity_terms_of
from scheduler.api.objects import (
    Affinity,
    Container,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinitySpec,
    PodSpec,
)
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import SelectorError, node_requirement, selector_from_label_selector
from scheduler.kernel.answers.edits import DropRule
from scheduler.kernel.plugins.inter_pod_affinity import InterPodAffinity
from scheduler.kernel.plugins.label_obstacles import NODE_AFFINITY, NODE_SELECTOR
from scheduler.kernel.plugins.node_affinity import NodeAffinity
from scheduler.kernel.plugins.node_ports import NodePorts
from scheduler.kernel.plugins.node_predicates import required_terms
from scheduler.kernel.plugins.pod_term_obstacles import POD_AFFINITY, POD_ANTI_AFFINITY
from scheduler.kernel.plugins.pod_topology_spread import PodTopologySpread
from scheduler.kernel.plugins.spread_constraints import HARD

_T = TypeVar("_T")


class Rule(msgspec.Struct, frozen=True):
    """One placement rule of a pod: the plugin that checks it, and the edit that removes it."""

    plugin: str
    drop: DropRule


def rules_of(pod: PodInfo) -> tuple[Rule, ...]:
    """Return the rules of a pod that may reject nodes and could be removed."""
    kinds = (
        (NodeAffinity.NAME, _labels),
        (InterPodAffinity.NAME, _pod_affinity),
        (PodTopologySpread.NAME, _spread),
        (NodePorts.NAME, _host_ports),
    )
    return tuple(
        Rule(plugin, DropRule(path, text))
        for plugin, kind in kinds
        for path, text in kind(pod.spec)
    )


def requirements_of(spec: PodSpec) -> dict[str, tuple[int | None, NodeSelectorTerm]]:
    """Return by path the number of each node requirement's term, and a term with it alone.

    The requirements of `spec.nodeSelector` have no term number.
    """
    found: dict[str, tuple[int | None, NodeSelectorTerm]] = {}
    for key, value in spec.node_selector.items():
        requirement = NodeSelectorRequirement(key, "In", (value,))
        found[f"{NODE_SELECTOR}[{key}]"] = None, NodeSelectorTerm((requirement,))
    for i, term in enumerate(required_terms(spec)):
        for path, requirement in _requirements(i, term):
            is_label = requirement in term.match_expressions
            alone = ((requirement,), ()) if is_label else ((), (requirement,))
            found[path] = i, NodeSelectorTerm(*alone)
    return found


def without_rules(spec: PodSpec, paths: Collection[str]) -> PodSpec:
    """Return the specification without the rules at some paths."""
    selector = {k: v for k, v in spec.node_selector.items() if f"{NODE_SELECTOR}[{k}]" not in paths}
    spread = _kept(spec.topology_spread_constraints, "spec.topologySpreadConstraints", paths)
    containers, sidecars = (
        tuple(_without_ports(c, f"{field}[{i}]", paths) for i, c in enumerate(each))
        for field, each in _containers(spec)
    )
    return replace(
        spec,
        node_selector=selector,
        affinity=None if spec.affinity is None else _affinity(spec, spec.affinity, paths),
        topology_spread_constraints=spread,
        containers=containers,
        init_containers=sidecars,
    )


def _affinity(spec: PodSpec, affinity: Affinity, paths: Collection[str]) -> Affinity:
    node = affinity.node_affinity
    if node is not None:
        terms = [_term(i, term, paths) for i, term in enumerate(required_terms(spec))]
        required = node.required_during_scheduling_ignored_during_execution
        # An empty term matches no node. A term that loses its last requirement must match all.
        is_open = any(
            now == NodeSelectorTerm() != before
            for now, before in zip(terms, required_terms(spec), strict=True)
        )
        if required is not None:
            required = None if is_open else replace(required, node_selector_terms=tuple(terms))
        node = replace(node, required_during_scheduling_ignored_during_execution=required)
    return Affinity(
        node,
        _pod_terms(affinity.pod_affinity, POD_AFFINITY, paths),
        _pod_terms(affinity.pod_anti_affinity, POD_ANTI_AFFINITY, paths),
    )


def _pod_terms(
    spec: PodAffinitySpec | None, path: str, paths: Collection[str]
) -> PodAffinitySpec | None:
    if spec is None:
        return None
    required = _kept(spec.required_during_scheduling_ignored_during_execution, path, paths)
    return replace(spec, required_during_scheduling_ignored_during_execution=required)


def _term(i: int, term: NodeSelectorTerm, paths: Collection[str]) -> NodeSelectorTerm:
    at = f"{NODE_AFFINITY}.nodeSelectorTerms[{i}]"
    return NodeSelectorTerm(
        _kept(term.match_expressions, f"{at}.matchExpressions", paths),
        _kept(term.match_fields, f"{at}.matchFields", paths),
    )


def _without_ports(container: Container, path: str, paths: Collection[str]) -> Container:
    return replace(container, ports=_kept(container.ports, f"{path}.ports", paths, ".hostPort"))


def _kept(
    items: tuple[_T, ...], path: str, paths: Collection[str], end: str = ""
) -> tuple[_T, ...]:
    return tuple(item for i, item in enumerate(items) if f"{path}[{i}]{end}" not in paths)


def _requirements(i: int, term: NodeSelectorTerm) -> Iterator[tuple[str, NodeSelectorRequirement]]:
    at = f"{NODE_AFFINITY}.nodeSelectorTerms[{i}]"
    for j, requirement in enumerate(term.match_expressions):
        yield f"{at}.matchExpressions[{j}]", requirement
    for j, requirement in enumerate(term.match_fields):
        yield f"{at}.matchFields[{j}]", requirement


def _containers(spec: PodSpec) -> tuple[tuple[str, tuple[Container, ...]], ...]:
    return (("spec.containers", spec.containers), ("spec.initContainers", spec.init_containers))


def _text(requirement: NodeSelectorRequirement) -> str:
    try:
        return node_requirement(requirement).text
    except SelectorError:
        return f"{requirement.key} {requirement.operator}"


def _labels(spec: PodSpec) -> Iterator[tuple[str, str]]:
    for key, value in spec.node_selector.items():
        yield f"{NODE_SELECTOR}[{key}]", f"{key}={value}"
    for i, term in enumerate(required_terms(spec)):
        for path, requirement in _requirements(i, term):
            yield path, _text(requirement)


def _pod_affinity(spec: PodSpec) -> Iterator[tuple[str, str]]:
    affinity = affinity_terms_of(spec)
    if affinity is None:
        return
    for path, terms in (
        (POD_AFFINITY, affinity.required),
        (POD_ANTI_AFFINITY, affinity.required_anti),
    ):
        for i, term in enumerate(terms):
            yield f"{path}[{i}]", f"{term.selector.text} per {term.topology_key}"


def _spread(spec: PodSpec) -> Iterator[tuple[str, str]]:
    for i, each in enumerate(spec.topology_spread_constraints):
        if each.when_unsatisfiable == HARD:
            selected = selector_from_label_selector(each.label_selector).text
            constraint = f"{selected} per {each.topology_key}, maxSkew {each.max_skew}"
            yield f"spec.topologySpreadConstraints[{i}]", constraint


def _host_ports(spec: PodSpec) -> Iterator[tuple[str, str]]:
    for field, containers in _containers(spec):
        for i, container in enumerate(containers):
            for j, port in enumerate(container.ports):
                if port.host_port > 0:
                    path = f"{field}[{i}].ports[{j}].hostPort"
                    yield path, f"{port.host_port}/{port.protocol or 'TCP'}"
