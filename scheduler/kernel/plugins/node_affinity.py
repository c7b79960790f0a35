"""NodeAffinity: the pod's node selector and node affinity, and the profile's added affinity.

Required terms reject nodes; preferred terms that match earn their weight. Where every required term
names its nodes (as for the pods of a daemon set), only those nodes are filtered.

Extension points: PreFilter, Filter, PreScore, Score, NormalizeScore.
Events: a node is added or its labels change.
Source: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go (v1.36).
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.api.objects import Node, NodeAffinitySpec, NodeSelectorTerm
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import SelectorError
from scheduler.config.args import NodeAffinityArgs
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import (
    Bits,
    EnqueueExtensions,
    FilterPlugin,
    NormalizeScorePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    Scores,
    SignPlugin,
)
from scheduler.kernel.framework.obstacles import Obstacle
from scheduler.kernel.framework.results import PreFilterResult, Reason
from scheduler.kernel.framework.status import SKIP, SUCCESS, Code, Status, error, unresolvable
from scheduler.kernel.plugins.columns import share_of_highest
from scheduler.kernel.plugins.label_obstacles import (
    ADDED_AFFINITY,
    NODE_AFFINITY,
    of_selector,
    of_terms,
)
from scheduler.kernel.plugins.node_predicates import (
    NAME_FIELD,
    NodeTerm,
    PreferredNodeTerms,
    RequiredNodeAffinity,
    any_term_matches,
    labels_match_node,
    node_selector_terms,
    preferred_node_terms,
    required_node_affinity_of,
)
from scheduler.kernel.snapshot import Rows, Snapshot

REASON_ENFORCED: Final = "node(s) didn't match scheduler-enforced node affinity"
REASON_POD: Final = "node(s) didn't match Pod's node affinity/selector"
REASON_CONFLICT: Final = "pod affinity terms conflict"

REASONS: Final = (
    Reason(REASON_ENFORCED, Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
    Reason(REASON_POD, Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
)
_ENFORCED: Final = np.uint64(1)
_POD: Final = np.uint64(2)

DEFAULT_ARGS: Final = NodeAffinityArgs()
_NO_AFFINITY: Final = NodeAffinitySpec()

_REQUIRED: Final[StateKey[RequiredNodeAffinity]] = StateKey("NodeAffinity/required")
_PREFERRED: Final[StateKey[PreferredNodeTerms]] = StateKey("NodeAffinity/preferred")


class NodeAffinity(
    PreFilterPlugin,
    FilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    NormalizeScorePlugin,
    EnqueueExtensions,
    SignPlugin,
):
    """Rejects and prefers nodes by their labels and names."""

    NAME: ClassVar[str] = "NodeAffinity"
    ARGS: ClassVar[type] = NodeAffinityArgs
    READS: ClassVar[Reads] = Reads.NODE

    def __init__(self, args: NodeAffinityArgs = DEFAULT_ARGS, handle: Handle | None = None) -> None:
        """Parse the added affinity.

        Raises:
            SelectorError: a term of the added affinity cannot be read.
        """
        super().__init__(args, handle)
        self._added = added = args.added_affinity or _NO_AFFINITY
        required = added.required_during_scheduling_ignored_during_execution
        self._added_required: tuple[NodeTerm, ...] | None = None
        if required is not None:
            self._added_required = node_selector_terms(required)
        preferred = added.preferred_during_scheduling_ignored_during_execution
        self._added_preferred = preferred_node_terms(preferred) if preferred else None

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        node_changes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        event = ClusterEvent(EventResource.NODE, node_changes)
        return (ClusterEventWithHint(event, self.is_schedulable_after_node_change),)

    @override
    def sign(self, pod: PodInfo) -> Hashable | None:
        """Return the selector and the affinity; None if terms name nodes.

        Each pod of a daemon set names another node, so its answers are of no use to other pods.
        """
        affinity = _affinity_of(pod)
        if any(term.match_fields for term in _all_terms(affinity)):
            return None
        return frozenset(pod.spec.node_selector.items()), affinity

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        """Skip pods without requirements; limit the search if all required terms name nodes."""
        required = required_node_affinity_of(pod.spec)
        if required.is_empty and self._added_required is None:
            return None, SKIP
        state.write(_REQUIRED, required)
        names = _named_nodes(pod)
        if names is None:
            return None, SUCCESS
        if not names:
            return None, unresolvable(REASON_CONFLICT)
        return PreFilterResult(names), SUCCESS

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        required = state.get(_REQUIRED) or required_node_affinity_of(pod.spec)
        matched = required.matches(snapshot, rows)
        bits = None if matched is None or matched.all() else np.where(matched, np.uint64(0), _POD)
        if self._added_required is None:
            return bits
        enforced = any_term_matches(self._added_required, snapshot, rows)
        if enforced.all():
            return bits
        return np.where(enforced, np.uint64(0) if bits is None else bits, _ENFORCED)

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        return REASONS

    @override
    def obstacles(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: NDArray[np.intp]
    ) -> Sequence[Obstacle]:
        """The unmet requirements; see `FilterPlugin.obstacles`."""
        required = _affinity_of(pod).required_during_scheduling_ignored_during_execution
        added = self._added.required_during_scheduling_ignored_during_execution
        return (
            *of_selector(pod.spec.node_selector, snapshot, rows),
            *of_terms(required, NODE_AFFINITY, snapshot, rows),
            *of_terms(added, ADDED_AFFINITY, snapshot, rows),
        )

    @override
    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip when neither the pod nor the profile prefers anything."""
        terms = _affinity_of(pod).preferred_during_scheduling_ignored_during_execution
        if not terms and self._added_preferred is None:
            return SKIP
        try:
            state.write(_PREFERRED, preferred_node_terms(terms))
        except SelectorError as problem:
            return error(str(problem))
        return SUCCESS

    @override
    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        """The weights of all preferred terms that match, before normalisation."""
        preferred = state.get(_PREFERRED)
        if preferred is None:
            terms = _affinity_of(pod).preferred_during_scheduling_ignored_during_execution
            preferred = preferred_node_terms(terms)
        total = preferred.score(snapshot, rows)
        if self._added_preferred is not None:
            total += self._added_preferred.score(snapshot, rows)
        return total

    @override
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Scale scores so that the best node gets 100."""
        return share_of_highest(scores)

    def is_schedulable_after_node_change(
        self, pod: PodInfo, old: Node | None, new: Node
    ) -> QueueingHint:
        """Queue if the node satisfies the pod and the profile, and did not before.

        The old node is checked against the pod's own demands only, as upstream does. A term that
        cannot be parsed is an error for upstream, unless another term matches; then it queues.
        """
        if self._added_required is not None and not any(
            term.matches_node(new) for term in self._added_required
        ):
            return QueueingHint.SKIP
        required = required_node_affinity_of(pod.spec)
        if not required.matches_node(new):
            is_doubtful = not required.is_readable and labels_match_node(required.labels, new)
            return QueueingHint.QUEUE if is_doubtful else QueueingHint.SKIP
        if old is not None and required.matches_node(old):
            return QueueingHint.SKIP
        return QueueingHint.QUEUE


def _affinity_of(pod: PodInfo) -> NodeAffinitySpec:
    affinity = pod.spec.affinity
    return (affinity.node_affinity if affinity is not None else None) or _NO_AFFINITY


def _all_terms(affinity: NodeAffinitySpec) -> Iterable[NodeSelectorTerm]:
    selector = affinity.required_during_scheduling_ignored_during_execution
    if selector is not None:
        yield from selector.node_selector_terms
    for preferred in affinity.preferred_during_scheduling_ignored_during_execution:
        yield preferred.preference


def _named_nodes(pod: PodInfo) -> frozenset[str] | None:
    """The nodes that the required terms name, taken together; None if a term names none."""
    selector = _affinity_of(pod).required_during_scheduling_ignored_during_execution
    if selector is None or not selector.node_selector_terms:
        return None
    names: frozenset[str] = frozenset()
    for term in selector.node_selector_terms:
        listed = [
            frozenset(field.values)
            for field in term.match_fields
            if field.key == NAME_FIELD and field.operator == "In"
        ]
        if not listed:
            return None
        names |= frozenset.intersection(*listed)
    return names
