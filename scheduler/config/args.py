"""Arguments of the in-tree plugins, with their defaults.

They are here, not in the plugins' files: a configuration is read, checked and written without any
plugin. Upstream keeps them in one API group.

Source: k8s.io/kube-scheduler/config/v1 types_pluginargs.go; pkg/scheduler/apis/config/v1
defaults.go (feature gates as 1.36 sets them).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from scheduler.api.objects import NodeAffinitySpec, TopologySpreadConstraint
from scheduler.config.types import ConfigStruct, Int32, Int64, Seconds
from scheduler.config.walker import DEFAULT_IF_EMPTY


class ResourceSpec(ConfigStruct, frozen=True):
    """A resource that a scoring plugin considers; weight 0 counts as 1."""

    name: str
    weight: Int64 = 1


DEFAULT_RESOURCES: Final = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class UtilizationShapePoint(ConfigStruct, frozen=True):
    """A point of a piecewise-linear score function: percent used, score 0 to 10."""

    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatioParam(ConfigStruct, frozen=True):
    """The score function of the strategy RequestedToCapacityRatio."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategyType(StrEnum):
    """The preference of NodeResourcesFit among nodes."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"
    REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


class ScoringStrategy(ConfigStruct, frozen=True):
    """The scoring strategy of NodeResourcesFit, and the resources that it weighs."""

    type: ScoringStrategyType
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class PodTopologySpreadConstraintsDefaulting(StrEnum):
    """The source of default spread constraints."""

    SYSTEM = "System"
    LIST = "List"


class DefaultSpreadConstraint(TopologySpreadConstraint, frozen=True, forbid_unknown_fields=True):
    """A spread constraint whose required fields default to empty, which validation reports."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    min_domains: Int32 | None = None


class PluginArgs(ConfigStruct, frozen=True):
    """Arguments of an in-tree plugin; the class is named after the plugin."""


class DefaultPreemptionArgs(PluginArgs, frozen=True):
    """The minimum of candidate nodes for preemption, as a number and as a percentage of nodes."""

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class DynamicResourcesArgs(PluginArgs, frozen=True):
    """Time limits of device allocation."""

    filter_timeout_seconds: Seconds | None = msgspec.field(name="filterTimeout", default=10.0)
    """0: no limit."""
    binding_timeout_seconds: Seconds | None = msgspec.field(name="bindingTimeout", default=600.0)


class InterPodAffinityArgs(PluginArgs, frozen=True):
    """The weight of running pods' affinity terms."""

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class KeepRoomArgs(PluginArgs, frozen=True):
    """The waiting time after which room is kept for a pod. Not in kube-scheduler."""

    after_seconds: Int64 = 300


class NodeAffinityArgs(PluginArgs, frozen=True):
    """Node affinity that is added to that of every pod."""

    added_affinity: NodeAffinitySpec | None = None


class NodeOwnershipArgs(PluginArgs, frozen=True):
    """The labels that a node must have to belong to the scheduler. Not in kube-scheduler."""

    node_selector: dict[str, str] = msgspec.field(default_factory=dict)


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True):
    """The resources whose use should be balanced."""

    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES


class NodeResourcesFitArgs(PluginArgs, frozen=True):
    """The resources that are not checked, and the scoring of nodes."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(type=ScoringStrategyType.LEAST_ALLOCATED)


class PodTopologySpreadArgs(PluginArgs, frozen=True):
    """Spread constraints for pods that have none."""

    default_constraints: tuple[DefaultSpreadConstraint, ...] = ()
    defaulting_type: Annotated[PodTopologySpreadConstraintsDefaulting, DEFAULT_IF_EMPTY] = (
        PodTopologySpreadConstraintsDefaulting.SYSTEM
    )


class VolumeBindingArgs(PluginArgs, frozen=True):
    """The time limit for binding volumes, and the scoring of their capacity."""

    bind_timeout_seconds: Int64 = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None
    """The scores of nodes; only with the feature gate StorageCapacityScoring, off in 1.36."""


STORAGE_SHAPE: Final = (UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0))
"""The default of `shape` with the gate: nodes with much free capacity are preferred."""


ARGS_TYPES: Final[Mapping[str, type[PluginArgs]]] = {
    kind.__name__.removesuffix("Args"): kind
    for kind in (
        DefaultPreemptionArgs,
        DynamicResourcesArgs,
        InterPodAffinityArgs,
        KeepRoomArgs,
        NodeAffinityArgs,
        NodeOwnershipArgs,
        NodeResourcesBalancedAllocationArgs,
        NodeResourcesFitArgs,
        PodTopologySpreadArgs,
        VolumeBindingArgs,
    )
}
"""The argument type of each plugin that has arguments."""
