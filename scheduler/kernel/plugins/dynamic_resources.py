"""DynamicResources: the pod's claims have, or can get, devices that its node reaches.

Allocated claims restrict the pod to nodes on which their devices can be used. Other claims get
devices with the decision: Reserve takes them, PreBind writes them into the claims, and waits until
drivers have made them ready. Extended resources that a device class serves get their own claim.

Extension points: PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind.
Events: claims, slices and classes change; a node is added or its labels or allocatable change; the
pod gets the names of its claims.
Source: pkg/scheduler/framework/plugins/dynamicresources (v1.36.3).
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.api.devices import ResourceClaim
from scheduler.api.pod_shape import DEVICES
from scheduler.api.pods import PodInfo
from scheduler.config.args import DynamicResourcesArgs
from scheduler.kernel.devices import claim_writes as writes
from scheduler.kernel.devices.claim_catalog import TAINT_RULE, ClaimCatalog
from scheduler.kernel.devices.decision import REASONS, DeviceDecision
from scheduler.kernel.devices.extended_resources import IN_MEMORY, claim_in_memory
from scheduler.kernel.devices.obstacles import device_obstacles
from scheduler.kernel.devices.pod_claims import (
    ClaimProblem,
    ClaimStore,
    claims_of,
    is_reserved_for,
)
from scheduler.kernel.framework.cycle_state import (
    NEEDS_NO_NODE,
    NOT_REACHED,
    SKIPPED,
    CycleState,
    StateKey,
)
from scheduler.kernel.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    ObjectKind,
)
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import (
    MAX_NODE_SCORE,
    Bits,
    EnqueueExtensions,
    FilterPlugin,
    NormalizeScorePlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    Reads,
    ReservePlugin,
    ScorePlugin,
    Scores,
    SignPlugin,
)
from scheduler.kernel.framework.obstacles import Obstacle
from scheduler.kernel.framework.results import (
    Diagnosis,
    PostFilterResult,
    PreFilterResult,
    Reason,
    Write,
)
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
from scheduler.kernel.plugins.claim_binding import ClaimBinding, TakenClaims
from scheduler.kernel.plugins.columns import count_of
from scheduler.kernel.plugins.dynamic_resources_hints import events
from scheduler.kernel.snapshot import Rows, Snapshot

_REASONS: Final = tuple(Reason(text, Code.UNSCHEDULABLE_AND_UNRESOLVABLE) for text in REASONS)


class _Attempt(TakenClaims):
    """The claims of one pod, taken or to be decided.

    Attributes:
        decision: the nodes on which they can be satisfied; kept until Reserve.
    """

    __slots__ = ("decision",)

    def __init__(self, claims: ClaimStore, decision: DeviceDecision) -> None:
        super().__init__(claims)
        self.decision: DeviceDecision | None = decision


_ATTEMPT: Final[StateKey[_Attempt]] = StateKey("DynamicResources/attempt")


class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    ScorePlugin,
    NormalizeScorePlugin,
    ReservePlugin,
    PreBindPlugin,
    EnqueueExtensions,
    SignPlugin,
    Shortcuts,
):
    """Rejects nodes on which the pod's claims cannot be satisfied, and satisfies them."""

    NAME: ClassVar[str] = "DynamicResources"
    ARGS: ClassVar[type] = DynamicResourcesArgs
    ALLOW_PARALLEL: ClassVar[bool] = True
    READS: ClassVar[Reads] = Reads.CLUSTER
    NEEDS: ClassVar[int] = DEVICES
    COSTS_BY_ROW: ClassVar[bool] = True
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = ClaimCatalog.WATCHES

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._handle = handle
        timeout = args.binding_timeout_seconds
        self._binding_timeout = 600.0 if timeout is None else timeout
        # The timeout of the wait begins after the writes, whose time comes on top.
        self.patience_seconds += self._binding_timeout
        handle.shared(ClaimCatalog)
        self._binding = ClaimBinding(handle, self._binding_timeout)

    @staticmethod
    def decision_of(state: CycleState) -> DeviceDecision | None:
        """The decision about the pod's claims, for `explain`; None if it needs no devices."""
        attempt = state.get(_ATTEMPT)
        return None if attempt is None else attempt.decision

    @property
    def _catalog(self) -> ClaimCatalog:
        return self._handle.shared(ClaimCatalog)

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return events(lambda: self._catalog)

    @override
    def sign(self, pod: PodInfo) -> Hashable:
        """Return no part: the runtime caches answers of row-local plugins only."""
        return ()

    @override
    def skips_score(self, pod: PodInfo, snapshot: Snapshot) -> bool:
        """Whether no request has alternatives: only their ranks give a score."""
        try:
            claims = [claim for _, claim in claims_of(pod, self._catalog.claims)]
        except ClaimProblem:
            return False
        requests = (each for claim in claims for each in claim.spec.devices.requests)
        return not any(each.first_available for each in requests)

    @override
    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Reject pods until all their claims exist."""
        if not pod.resource_claims:
            return SUCCESS
        try:
            for _ in claims_of(pod, self._catalog.claims):
                pass
        except ClaimProblem as problem:
            return unresolvable(str(problem))
        return SUCCESS

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        """Skip pods that need no devices; reject those whose claims no node can satisfy yet.

        Differs: a claim that the pod names several times is allocated once. Upstream allocates it
        several times, and cannot bind the pod.
        """
        catalog = self._catalog
        named: dict[str, tuple[str, ResourceClaim]] = {}
        try:
            for name, claim in claims_of(pod, catalog.claims):
                named.setdefault(claim.key, (name, catalog.as_for(claim, pod)))
        except ClaimProblem as problem:
            return None, unresolvable(str(problem))
        claims = ClaimStore([*named.values()], _claim_of_extended_resources(pod, catalog))
        if not len(claims):
            return None, SKIP
        for index in claims.to_allocate():
            why = catalog.why_not_to_allocate(claims[index], is_own=index < claims.own)
            if why:
                return None, unresolvable(why)
        if catalog.kept:
            catalog = catalog.leaving_free(pod, self._handle.nominator)
        decision = DeviceDecision(
            catalog,
            pod,
            claims,
            snapshot,
            self._handle.random,
            overdue=self._handle.wall() - self._binding_timeout,
        )
        state.write(_ATTEMPT, _Attempt(claims, decision))
        return None, SUCCESS

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        """See `FilterPlugin.filter`.

        Raises:
            LookupError: PreFilter did not run; upstream fails in the same case.
            AllocationError: the claims cannot be satisfied, for a reason independent of the node;
                upstream ends the attempt as well.
        """
        decision = _prepared(state).decision
        if decision is None:
            raise LookupError("it has reserved already")
        bits = decision.bits(rows)
        return bits if bits.any() else None

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        return _REASONS

    @override
    def obstacles(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: NDArray[np.intp]
    ) -> Sequence[Obstacle]:
        decision = self.decision_of(state)
        if decision is None:
            return ()
        return tuple(device_obstacles(decision.catalog, decision, snapshot, rows))

    @override
    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Free a claim of the pod that excludes nodes, so that it can be allocated again.

        When PreFilter ended before this plugin, upstream fails here, so that later plugins such as
        preemption do not run.
        """
        if self.NAME in (state.get(NOT_REACHED) or ()):
            return None, error("not found")
        attempt = state.get(_ATTEMPT)
        if attempt is None or attempt.decision is None:
            return None, unschedulable("no new claims to deallocate")
        # Upstream's Filter does not see nodes that a filter before it rejects.
        claim = attempt.decision.claim_to_free(pod, diagnosis.rows_of(self.NAME))
        if claim is not None:
            result = PostFilterResult(None, writes=(writes.deallocating(claim),))
            return result, unschedulable("deallocation of ResourceClaim completed")
        extended = attempt.claims.extended
        if extended is not None and extended.metadata.name != IN_MEMORY:
            result = PostFilterResult(None, writes=writes.deleting(extended))
            return result, unschedulable("deletion of ResourceClaim completed")
        return None, unschedulable("still not schedulable")

    @override
    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score nodes by the rank of their alternatives in prioritized lists; earlier is better.

        Raises:
            LookupError: PreFilter did not run; upstream fails in the same case.
        """
        if self.NAME in (state.get(SKIPPED) or ()):
            return np.zeros(count_of(rows, snapshot.table.size))
        decision = _prepared(state).decision
        if decision is None:
            return np.zeros(count_of(rows, snapshot.table.size))
        return decision.scores(rows)

    @override
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        highest = scores.max(initial=0.0)
        return np.floor(scores * MAX_NODE_SCORE / highest) if highest else scores

    @override
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Take the devices that the decision found for the node."""
        attempt = state.get(_ATTEMPT)
        if attempt is None or attempt.decision is None:
            return SUCCESS
        # Thousands of pods may wait for their devices: drop the columns over all nodes now.
        decision, attempt.decision = attempt.decision, None
        found = decision.on_node(node_name)
        if found is None:
            return error("claim allocation not found for node")
        attempt.mappings = found.mappings
        for index, claim in enumerate(attempt.claims):
            pending = claim.status.allocation
            if pending is not None and claim.metadata.uid in self._catalog.in_flight:
                # Another pod of the group has reserved it; the first of them to bind writes it.
                attempt.allocations[index] = pending
                self._catalog.begin(claim, pending, pod)
        for index, claim, allocation in found.allocations:
            why = self._catalog.why_not_to_allocate(claim, is_own=False)
            if why:
                # Another pod of the group has reserved the claim since this pod's decision.
                return unresolvable(why)
            attempt.allocations[index] = allocation
            attempt.claims[index] = claim
            self._catalog.begin(claim, allocation, pod)
        return SUCCESS

    @override
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Sequence[Write] | None:
        """Release the devices, and unreserve the pod's claims; written allocations remain.

        The last reservation of a claim remains, too, and the pod's next attempt uses it. If the pod
        ends before, the resourceclaim controller removes it, and deallocates the claim. It does
        not if it finds no reservation (syncClaim, v1.36.3). All claims of a pod that was deleted,
        or that another client has bound, stay as they are.
        Differs: upstream removes all reservations. Devices may stay allocated to no pod, or a pod
        may run without a reservation.
        """
        attempt = state.get(_ATTEMPT)
        if attempt is None:
            return None
        catalog = self._catalog
        is_retried = state.get(NEEDS_NO_NODE) is None
        left: list[Write] = []
        for index, claim in enumerate([*attempt.claims][: attempt.claims.own]):
            if index in attempt.allocations:
                catalog.give_up(claim.metadata.uid, pod.uid)
            known = catalog.claims.get(claim.key)
            if (
                is_retried
                and known is not None
                and known.metadata.uid == claim.metadata.uid
                and known.status.allocation is not None
                and is_reserved_for(known, pod)
                and catalog.leave(known, pod)
            ):
                left.append(writes.unreserving(known, pod))
        if attempt.claims.extended is not None:
            catalog.give_up(claim_in_memory(pod).metadata.uid, pod.uid)
            for made in catalog.claims_of_extended_resources(pod.uid):
                left.extend(writes.deleting(made))
        return left if is_retried else None

    @override
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Skip pods that need no devices."""
        return SKIP if state.get(_ATTEMPT) is None else SUCCESS

    @override
    def only_writes(self, state: CycleState, pod: PodInfo, node_name: str) -> bool:
        """Whether no device has to be made ready before the pod is bound."""
        return not state.read(_ATTEMPT).wait_for_devices

    @override
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Write the allocations, and wait until the devices are ready."""
        return await self._binding.bind(state.read(_ATTEMPT), pod, node_name)


class DynamicResourcesWithTaintRules(DynamicResources):
    """DynamicResources with the feature gate DRADeviceTaintRules: rules, too, taint devices."""

    WATCHES: ClassVar[tuple[ObjectKind, ...]] = (*DynamicResources.WATCHES, TAINT_RULE)

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        may_help = ClusterEvent(TAINT_RULE, ActionType.UPDATE | ActionType.DELETE)
        return (*super().events_to_register(), ClusterEventWithHint(may_help))


def _prepared(state: CycleState) -> _Attempt:
    attempt = state.get(_ATTEMPT)
    if attempt is None:
        raise LookupError("its PreFilter did not run")
    return attempt


def _claim_of_extended_resources(pod: PodInfo, catalog: ClaimCatalog) -> ResourceClaim | None:
    """The claim for the pod's extended resources, if a class serves one of them."""
    if not catalog.may_serve_resources(pod):
        return None
    return catalog.claim_of_extended_resources(pod.uid) or claim_in_memory(pod)
