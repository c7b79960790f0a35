"""Validation of the arguments of in-tree plugins.

Source: pkg/scheduler/apis/config/validation validation_pluginargs.go;
k8s.io/component-helpers/scheduling/corev1/nodeaffinity; apimachinery labels.NewRequirement.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from scheduler.api.objects import NodeSelectorRequirement, NodeSelectorTerm
from scheduler.api.selectors import parse_int64
from scheduler.config.args import (
    DefaultPreemptionArgs,
    DefaultSpreadConstraint,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    KeepRoomArgs,
    NodeAffinityArgs,
    NodeOwnershipArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    PodTopologySpreadConstraintsDefaulting,
    ScoringStrategyType,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from scheduler.config.duration import format_duration
from scheduler.config.names import label_key_error, label_value_error
from scheduler.config.problems import Path, Problems
from scheduler.config.walker import not_among, shown

_PERCENT_MAX: Final = 100
_SCORE_MAX: Final = 10
_INT32: Final = (-(2**31), 2**31 - 1)
_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS: Final = ("In", "NotIn")


def validate_args(args: object, path: Path, problems: Problems) -> None:
    """Check the arguments of one plugin."""
    check = _CHECKS.get(type(args))
    if check is not None:
        check(args, path, problems)


def _inter_pod_affinity(args: InterPodAffinityArgs, path: Path, problems: Problems) -> None:
    weight = args.hard_pod_affinity_weight
    check_range(weight, 0, _PERCENT_MAX, (*path, "hardPodAffinityWeight"), problems)


def _keep_room(args: KeepRoomArgs, path: Path, problems: Problems) -> None:
    check_least(args.after_seconds, 0, (*path, "afterSeconds"), problems)


def _node_ownership(args: NodeOwnershipArgs, path: Path, problems: Problems) -> None:
    place = (*path, "nodeSelector")
    if not args.node_selector:
        problems.add(place, "expected the labels of the nodes that belong to the scheduler")
    for key, value in args.node_selector.items():
        _check_label_key(key, (*place, key), problems)
        error = label_value_error(value)
        if error is not None:
            problems.add((*place, key), error)


def check_range(value: int, least: int, most: int, path: Path, problems: Problems) -> None:
    """Require `least <= value <= most`."""
    if not least <= value <= most:
        problems.add(path, f"expected {least} to {most}, got {value}")


def check_least(value: int, least: int, path: Path, problems: Problems) -> None:
    """Require `least <= value`."""
    if value < least:
        problems.add(path, f"expected {least} or more, got {value}")


def _check_choice(value: str, known: Sequence[str], path: Path, problems: Problems) -> None:
    if value not in known:
        problems.add(path, not_among(value, known, problems))


def _default_preemption(args: DefaultPreemptionArgs, path: Path, problems: Problems) -> None:
    percentage = args.min_candidate_nodes_percentage
    absolute = args.min_candidate_nodes_absolute
    check_range(percentage, 0, 100, (*path, "minCandidateNodesPercentage"), problems)
    check_least(absolute, 0, (*path, "minCandidateNodesAbsolute"), problems)
    if percentage == absolute == 0:
        for name in ("minCandidateNodesPercentage", "minCandidateNodesAbsolute"):
            problems.add(
                (*path, name),
                "expected more than 0 here, or in the other one of minCandidateNodesPercentage "
                "and minCandidateNodesAbsolute: with both 0 preemption has no candidates",
            )


def _dynamic_resources(args: DynamicResourcesArgs, path: Path, problems: Problems) -> None:
    if args.filter_timeout_seconds is not None and args.filter_timeout_seconds < 0:
        got = format_duration(args.filter_timeout_seconds)
        problems.add((*path, "filterTimeout"), f"expected 0s (no limit) or more, got {got}")
    if args.binding_timeout_seconds is not None and args.binding_timeout_seconds < 1:
        got = format_duration(args.binding_timeout_seconds)
        problems.add((*path, "bindingTimeout"), f"expected 1s or more, got {got}")


def _balanced_allocation(
    args: NodeResourcesBalancedAllocationArgs, path: Path, problems: Problems
) -> None:
    seen: set[str] = set()
    for i, resource in enumerate(args.resources):
        place = (*path, "resources", i)
        if resource.name in seen:
            problems.add((*place, "name"), f'"{resource.name}" is listed twice')
        seen.add(resource.name)
        if resource.weight != 1:
            problems.add(
                (*place, "weight"),
                f"expected 1: this plugin weighs all resources alike, got {resource.weight}",
            )


def _fit(args: NodeResourcesFitArgs, path: Path, problems: Problems) -> None:
    for i, name in enumerate(args.ignored_resources):
        _check_label_key(name, (*path, "ignoredResources", i), problems)
    for i, group in enumerate(args.ignored_resource_groups):
        place = (*path, "ignoredResourceGroups", i)
        if "/" in group:
            prefix = group.partition("/")[0]
            problems.add(place, f'expected only the part before the "/": "{prefix}"')
        _check_label_key(group, place, problems)
    strategy = args.scoring_strategy
    place = (*path, "scoringStrategy")
    for i, resource in enumerate(strategy.resources):
        weight_path = (*place, "resources", i, "weight")
        check_range(resource.weight, 1, _PERCENT_MAX, weight_path, problems)
    place = (*place, "requestedToCapacityRatio")
    ratio = strategy.requested_to_capacity_ratio
    if strategy.type is not ScoringStrategyType.REQUESTED_TO_CAPACITY_RATIO:
        if ratio is not None:
            problems.add(
                place,
                "only allowed with scoringStrategy.type RequestedToCapacityRatio, which is "
                f"{strategy.type} here",
            )
    elif ratio is None:
        problems.add(place, "required with scoringStrategy.type RequestedToCapacityRatio")
    else:
        _shape(ratio.shape, (*place, "shape"), problems)


def _shape(shape: Sequence[UtilizationShapePoint], path: Path, problems: Problems) -> None:
    if not shape:
        problems.add(path, "expected at least one point {utilization, score}")
    for i, point in enumerate(shape):
        place = (*path, i)
        check_range(point.utilization, 0, _PERCENT_MAX, (*place, "utilization"), problems)
        check_range(point.score, 0, _SCORE_MAX, (*place, "score"), problems)
        before = shape[i - 1].utilization if i else -1
        if point.utilization <= before:
            problems.add(
                (*place, "utilization"),
                f"expected more than {before}, the utilization of the point before, "
                f"got {point.utilization}",
            )


def _volume_binding(args: VolumeBindingArgs, path: Path, problems: Problems) -> None:
    if args.bind_timeout_seconds < 0:
        place = (*path, "bindTimeoutSeconds")
        problems.add(place, f"expected 0 (do not wait) or more, got {args.bind_timeout_seconds}")
    if args.shape is not None:
        _shape(args.shape, (*path, "shape"), problems)


def _pod_topology_spread(args: PodTopologySpreadArgs, path: Path, problems: Problems) -> None:
    system = PodTopologySpreadConstraintsDefaulting.SYSTEM
    if args.defaulting_type is system and args.default_constraints:
        place = (*path, "defaultingType")
        got = "got System" if problems.is_written(place) else "which is System by default"
        problems.add(place, f"expected List when defaultConstraints are given, {got}")
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(args.default_constraints):
        place = (*path, "defaultConstraints", i)
        _spread_constraint(constraint, place, problems)
        key = (constraint.topology_key, constraint.when_unsatisfiable)
        if key in seen:
            problems.add(place, f"a constraint with {key[0]} and {key[1]} is already there")
        seen.add(key)


def _spread_constraint(constraint: DefaultSpreadConstraint, path: Path, problems: Problems) -> None:
    place = (*path, "maxSkew")
    if not problems.is_written(place):
        problems.add(place, "required: 1 or more")
    else:
        check_least(constraint.max_skew, 1, place, problems)
    if not constraint.topology_key:
        problems.add(
            (*path, "topologyKey"), "required: a node label such as kubernetes.io/hostname"
        )
    else:
        _check_label_key(constraint.topology_key, (*path, "topologyKey"), problems)
    place = (*path, "whenUnsatisfiable")
    if not constraint.when_unsatisfiable:
        problems.add(place, f"required: one of {', '.join(_UNSATISFIABLE)}")
    else:
        _check_choice(constraint.when_unsatisfiable, _UNSATISFIABLE, place, problems)
    if constraint.label_selector is not None:
        place = (*path, "labelSelector")
        problems.add(place, "not allowed: the selector is derived from the Services of each pod")


def _node_affinity(args: NodeAffinityArgs, path: Path, problems: Problems) -> None:
    affinity = args.added_affinity
    if affinity is None:
        return
    path = (*path, "addedAffinity")
    required = affinity.required_during_scheduling_ignored_during_execution
    place = (*path, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for i, term in enumerate(required.node_selector_terms if required is not None else ()):
        _node_selector_term(term, (*place, i), problems)
    place = (*path, "preferredDuringSchedulingIgnoredDuringExecution")
    for i, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        check_range(weighted.weight, *_INT32, (*place, i, "weight"), problems)
        if weighted.weight:
            _node_selector_term(weighted.preference, (*place, i, "preference"), problems)


def _node_selector_term(term: NodeSelectorTerm, path: Path, problems: Problems) -> None:
    for i, requirement in enumerate(term.match_expressions):
        _label_requirement(requirement, (*path, "matchExpressions", i), problems)
    for i, requirement in enumerate(term.match_fields):
        place = (*path, "matchFields", i)
        _check_choice(requirement.operator, _FIELD_OPERATORS, (*place, "operator"), problems)
        if len(requirement.values) != 1:
            _wrong_count("exactly one value", requirement, place, problems)


def _label_requirement(
    requirement: NodeSelectorRequirement, path: Path, problems: Problems
) -> None:
    _check_label_key(requirement.key, (*path, "key"), problems)
    _check_choice(requirement.operator, _LABEL_OPERATORS, (*path, "operator"), problems)
    count = len(requirement.values)
    match requirement.operator:
        case "In" | "NotIn" if count == 0:
            _wrong_count("at least one value", requirement, path, problems)
        case "Exists" | "DoesNotExist" if count > 0:
            _wrong_count("no values", requirement, path, problems)
        case "Gt" | "Lt" if count != 1:
            _wrong_count("exactly one value", requirement, path, problems)
        case _:
            pass
    for i, value in enumerate(requirement.values):
        _label_requirement_value(requirement.operator, value, (*path, "values", i), problems)


def _label_requirement_value(operator: str, value: str, path: Path, problems: Problems) -> None:
    if operator in ("Gt", "Lt") and parse_int64(value) is None:
        problems.add(path, f"expected a whole number as text, got {shown(value)}")
    error = label_value_error(value)
    if error is not None:
        problems.add(path, error)


def _wrong_count(
    expected: str, requirement: NodeSelectorRequirement, path: Path, problems: Problems
) -> None:
    message = f"expected {expected} with operator {requirement.operator}"
    problems.add((*path, "values"), f"{message}, got {len(requirement.values)}")


def _check_label_key(key: str, path: Path, problems: Problems) -> None:
    error = label_key_error(key)
    if error is not None:
        problems.add(path, error)


_CHECKS: Final[Mapping[type, Callable[[Any, Path, Problems], None]]] = {
    DefaultPreemptionArgs: _default_preemption,
    DynamicResourcesArgs: _dynamic_resources,
    InterPodAffinityArgs: _inter_pod_affinity,
    KeepRoomArgs: _keep_room,
    NodeAffinityArgs: _node_affinity,
    NodeOwnershipArgs: _node_ownership,
    NodeResourcesBalancedAllocationArgs: _balanced_allocation,
    NodeResourcesFitArgs: _fit,
    PodTopologySpreadArgs: _pod_topology_spread,
    VolumeBindingArgs: _volume_binding,
}
"""The validation of each plugin's arguments."""
