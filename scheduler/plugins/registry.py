"""The in-tree plugins. Adding one is a line here.

Source: kubernetes pkg/scheduler/framework/plugins/registry.go v1.36.
"""

from collections.abc import Mapping
from typing import Final

from scheduler.framework.interface import Plugin
from scheduler.plugins.default_binder import DefaultBinder
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.plugins.dynamic_resources import DynamicResources
from scheduler.plugins.gang_scheduling import GangScheduling
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.inter_pod_affinity import InterPodAffinity
from scheduler.plugins.keep_room import KeepRoom
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from scheduler.plugins.node_name import NodeName
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.node_volume_limits import NodeVolumeLimits
from scheduler.plugins.pod_topology_spread import PodTopologySpread
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.plugins.scheduling_gates import SchedulingGates
from scheduler.plugins.taint_toleration import TaintToleration
from scheduler.plugins.volume_binding import VolumeBinding
from scheduler.plugins.volume_restrictions import VolumeRestrictions
from scheduler.plugins.volume_zone import VolumeZone

IN_TREE: Final[Mapping[str, type[Plugin]]] = {
    plugin_type.NAME: plugin_type
    for plugin_type in (
        DefaultBinder,
        DefaultPreemption,
        DynamicResources,
        ImageLocality,
        InterPodAffinity,
        KeepRoom,
        NodeAffinity,
        NodeDeclaredFeatures,
        NodeName,
        NodePorts,
        NodeResourcesBalancedAllocation,
        NodeResourcesFit,
        NodeUnschedulable,
        NodeVolumeLimits,
        PodTopologySpread,
        PrioritySort,
        SchedulingGates,
        TaintToleration,
        VolumeBinding,
        VolumeRestrictions,
        VolumeZone,
    )
}
"""By the name that configurations use."""

IN_EVERY_PROFILE: Final[tuple[type[Plugin], ...]] = (GangScheduling,)
"""Those that run first at their extension points, whatever a configuration says."""
