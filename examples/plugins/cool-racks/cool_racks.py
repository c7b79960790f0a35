"""CoolRacks: pods keep away from hot racks and prefer cool ones.

The temperature of a rack is a label on its nodes, kept up to date by an agent that measures it.
A node without a readable label takes pods, and is neither preferred nor avoided.

Extension points: Filter, Score; both in node form, asked node by node.
Events: a node is new, or its labels have changed, and it is not hot.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import msgspec
from typing_extensions import override

from scheduler.plugin import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    Handle,
    Node,
    NodeFilterPlugin,
    NodeInfo,
    NodeScorePlugin,
    Pod,
    PodInfo,
    QueueingHint,
    Status,
    unresolvable,
)

UNKNOWN = 50
"""The score of a node whose temperature is unknown."""


class CoolRacksArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the configuration may say; degrees Celsius."""

    label: str = "acme.com/rack-celsius"
    cool: float = 18.0
    """Up to here a rack could not be better."""
    hot: float = 35.0
    """From here on a rack takes no pods."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense; the message is shown with the line in the file."""
        if self.cool >= self.hot:
            raise ValueError(f"cool must be less than hot, got {self.cool:g} and {self.hot:g}")


class CoolRacks(NodeFilterPlugin, NodeScorePlugin, EnqueueExtensions):
    """Filters out hot racks, and scores the others by how cool they are."""

    NAME: ClassVar[str] = "CoolRacks"
    ARGS: ClassVar[type] = CoolRacksArgs

    def __init__(self, args: CoolRacksArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._args = args

    @override
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        celsius = self._celsius(node.node)
        if celsius is not None and celsius >= self._args.hot:
            return unresolvable("node(s) were in a hot rack")
        return SUCCESS

    @override
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        celsius = self._celsius(node.node)
        if celsius is None:
            return UNKNOWN
        share = (self._args.hot - celsius) / (self._args.hot - self._args.cool)
        return int(100 * min(max(share, 0.0), 1.0))

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changed = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, changed), self._may_help)]

    def _may_help(self, _pod: PodInfo, _old: Node | None, new: Node) -> QueueingHint:
        """A pod that waits is tried again only if the node could take it."""
        celsius = self._celsius(new)
        is_hot = celsius is not None and celsius >= self._args.hot
        return QueueingHint.SKIP if is_hot else QueueingHint.QUEUE

    def _celsius(self, node: Node | None) -> float | None:
        written = "" if node is None else node.metadata.labels.get(self._args.label, "")
        try:
            celsius = float(written)
        except ValueError:
            return None
        return celsius if math.isfinite(celsius) else None
