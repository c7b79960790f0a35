"""The names that a plugin imports: the extension points and the types in their signatures.

    from scheduler.plugin import NodeFilterPlugin, NodeInfo, Pod, Status, SUCCESS, unschedulable

Names that are not listed here may move between releases. Tests of a plugin import
`scheduler.testing`. docs/plugins.md explains each name with an example.

Source of the vocabulary: k8s.io/kube-scheduler framework (v0.36).
"""

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Node, Pod
from scheduler.api.pods import PodInfo
from scheduler.api.resources import whole_units
from scheduler.config.problems import ConfigError
from scheduler.errors import RequestError
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.events import (
    NAMESPACE_KIND,
    NODE_KIND,
    POD_KIND,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    ObjectKind,
    QueueingHint,
)
from scheduler.kernel.framework.handle import Handle, HandleError, SharedState
from scheduler.kernel.framework.interface import (
    BindPlugin,
    EnqueueExtensions,
    FilterPlugin,
    NodeFilterPlugin,
    NodeScorePlugin,
    NormalizeScorePlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    Reads,
    ReservePlugin,
    ScorePlugin,
    Scores,
    SignPlugin,
)
from scheduler.kernel.framework.results import PostFilterResult, PreFilterResult, Reason
from scheduler.kernel.framework.shortcuts import Shortcuts
from scheduler.kernel.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from scheduler.kernel.snapshot import Rows, Snapshot

__all__ = [
    "NAMESPACE_KIND",
    "NODE_KIND",
    "POD_KIND",
    "SKIP",
    "SUCCESS",
    "ActionType",
    "BindPlugin",
    "ClusterEvent",
    "ClusterEventWithHint",
    "Code",
    "ConfigError",
    "CycleState",
    "EnqueueExtensions",
    "EventResource",
    "FilterPlugin",
    "Handle",
    "HandleError",
    "Node",
    "NodeFilterPlugin",
    "NodeInfo",
    "NodeScorePlugin",
    "NormalizeScorePlugin",
    "ObjectKind",
    "PermitPlugin",
    "Plugin",
    "Pod",
    "PodInfo",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterExtensions",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "QueueSortPlugin",
    "QueueingHint",
    "Reads",
    "Reason",
    "RequestError",
    "ReservePlugin",
    "Rows",
    "ScorePlugin",
    "Scores",
    "SharedState",
    "Shortcuts",
    "SignPlugin",
    "Snapshot",
    "StateKey",
    "Status",
    "error",
    "unresolvable",
    "unschedulable",
    "whole_units",
]
