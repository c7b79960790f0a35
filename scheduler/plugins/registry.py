"""The in-tree plugins. Adding one is a line here.

Source: kubernetes pkg/scheduler/framework/plugins/registry.go v1.36.
"""

from typing import Final

from scheduler.framework.interface import Plugin
from scheduler.plugins.dynamic_resources import DynamicResources
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.inter_pod_affinity import InterPodAffinity
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from scheduler.plugins.node_name import NodeName
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.plugins.scheduling_gates import SchedulingGates
from scheduler.plugins.taint_toleration import TaintToleration

IN_TREE: Final[tuple[type[Plugin], ...]] = (
    DynamicResources,
    ImageLocality,
    InterPodAffinity,
    NodeAffinity,
    NodeDeclaredFeatures,
    NodeName,
    NodePorts,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
    NodeUnschedulable,
    PrioritySort,
    SchedulingGates,
    TaintToleration,
)
"""Plugins that need nothing but their arguments: a class with an ARGS type is made with it.

DefaultBinder and PodTopologySpread need more; `bootstrap` makes them.
"""
