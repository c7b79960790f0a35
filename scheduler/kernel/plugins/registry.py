"""The in-tree plugins. To add a plugin, add a line here.

Source: kubernetes pkg/scheduler/framework/plugins/registry.go v1.36.
"""

from collections.abc import Collection, Mapping
from typing import Final

from scheduler.config.feature_gates import (
    DRA_DEVICE_TAINT_RULES,
    GANG_SCHEDULING,
    GENERIC_WORKLOAD,
    TAINT_TOLERATION_COMPARISON_OPERATORS,
    VOLUME_LIMIT_SCALING,
    WORKLOAD_AWARE_PREEMPTION,
)
from scheduler.kernel.framework.interface import Plugin
from scheduler.kernel.plugins.basic_groups import BasicGroups
from scheduler.kernel.plugins.default_binder import DefaultBinder
from scheduler.kernel.plugins.default_preemption import (
    DefaultPreemption,
    DefaultPreemptionForGroups,
)
from scheduler.kernel.plugins.dynamic_resources import (
    DynamicResources,
    DynamicResourcesWithTaintRules,
)
from scheduler.kernel.plugins.gang_scheduling import GangScheduling
from scheduler.kernel.plugins.held_groups import HeldGroups
from scheduler.kernel.plugins.image_locality import ImageLocality
from scheduler.kernel.plugins.inter_pod_affinity import InterPodAffinity
from scheduler.kernel.plugins.keep_room import KeepRoom
from scheduler.kernel.plugins.node_affinity import NodeAffinity
from scheduler.kernel.plugins.node_declared_features import NodeDeclaredFeatures
from scheduler.kernel.plugins.node_name import NodeName
from scheduler.kernel.plugins.node_ownership import NodeOwnership
from scheduler.kernel.plugins.node_ports import NodePorts
from scheduler.kernel.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from scheduler.kernel.plugins.node_resources_fit import NodeResourcesFit
from scheduler.kernel.plugins.node_unschedulable import NodeUnschedulable
from scheduler.kernel.plugins.node_volume_limits import (
    NodeVolumeLimits,
    NodeVolumeLimitsWithScaling,
)
from scheduler.kernel.plugins.pod_group_pods_count import PodGroupPodsCount
from scheduler.kernel.plugins.pod_topology_spread import (
    PodTopologySpread,
    PodTopologySpreadWithComparisons,
)
from scheduler.kernel.plugins.priority_sort import PrioritySort
from scheduler.kernel.plugins.scheduling_gates import SchedulingGates
from scheduler.kernel.plugins.taint_toleration import (
    TaintToleration,
    TaintTolerationWithComparisons,
)
from scheduler.kernel.plugins.topology_aware import TopologyPlacementGenerator
from scheduler.kernel.plugins.volume_binding import VolumeBinding
from scheduler.kernel.plugins.volume_restrictions import VolumeRestrictions
from scheduler.kernel.plugins.volume_zone import VolumeZone

IN_TREE: Final[Mapping[str, type[Plugin]]] = {
    plugin_type.NAME: plugin_type
    for plugin_type in (
        DefaultBinder,
        DefaultPreemption,
        DynamicResources,
        GangScheduling,
        ImageLocality,
        InterPodAffinity,
        KeepRoom,
        NodeAffinity,
        NodeDeclaredFeatures,
        NodeName,
        NodeOwnership,
        NodePorts,
        NodeResourcesBalancedAllocation,
        NodeResourcesFit,
        NodeUnschedulable,
        NodeVolumeLimits,
        PodGroupPodsCount,
        PodTopologySpread,
        PrioritySort,
        SchedulingGates,
        TaintToleration,
        TopologyPlacementGenerator,
        VolumeBinding,
        VolumeRestrictions,
        VolumeZone,
    )
}
"""By the name that configurations use."""

BEHIND_GATES: Final[Mapping[str, tuple[type[Plugin], ...]]] = {
    DRA_DEVICE_TAINT_RULES: (DynamicResourcesWithTaintRules,),
    TAINT_TOLERATION_COMPARISON_OPERATORS: (
        PodTopologySpreadWithComparisons,
        TaintTolerationWithComparisons,
    ),
    VOLUME_LIMIT_SCALING: (NodeVolumeLimitsWithScaling,),
    WORKLOAD_AWARE_PREEMPTION: (DefaultPreemptionForGroups,),
}
"""The replacements of plugins of the same names while a feature gate is on."""


def stand_ins(feature_gates: Collection[str]) -> tuple[type[Plugin], ...]:
    """Plugins that run first at their extension points in a profile without a plugin of their name.

    No configuration disables both the plugin and its stand-in.
    """
    is_on = {GENERIC_WORKLOAD, GANG_SCHEDULING}.intersection(feature_gates)
    return (BasicGroups if is_on == {GENERIC_WORKLOAD} else HeldGroups,)
