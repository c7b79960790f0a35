"""The nodes that can satisfy the claims of a pod, and the devices allocated there.

Source: pkg/scheduler/framework/plugins/dynamicresources (Filter, filterExtendedResources,
computeScore) v1.36.3.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from scheduler.api.devices import AllocationResult, ResourceClaim, ResourceSliceSpec
from scheduler.api.pods import PodInfo
from scheduler.kernel.devices.allocator import (
    ALLOCATABLE,
    CANNOT_ALLOCATE,
    FAILED,
    INVALID_POOLS,
    INVALID_POOLS_SEEN,
    NOT_ALLOCATABLE,
    TIMED_OUT,
    Allocator,
)
from scheduler.kernel.devices.candidates import AllocationError, OutOfStepsError
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.devices.claim_writes import seconds_of
from scheduler.kernel.devices.conditions import EVERYWHERE, NodePredicate, condition_of
from scheduler.kernel.devices.extended_resources import (
    RequestMapping,
    claim_of,
    requests_and_mappings,
    resources_asked,
)
from scheduler.kernel.devices.pod_claims import (
    ClaimStore,
    DeviceBindingError,
    has_binding_conditions,
    is_free_for,
    is_ready,
)
from scheduler.kernel.devices.results import (
    ClaimAllocation,
    PodAllocation,
    alternatives_score,
)
from scheduler.kernel.framework.interface import Bits, Scores
from scheduler.kernel.snapshot import Rows, Snapshot

REASONS: Final = (
    "resourceclaim not available on the node",
    "cannot schedule extended resource claim",
    "cannot fit resource",
    CANNOT_ALLOCATE,
    INVALID_POOLS_SEEN,
)
_NOT_AVAILABLE, _STALE, _CANNOT_FIT, _CANNOT_ALLOCATE, _INVALID = (
    np.uint64(1 << index) for index in range(len(REASONS))
)
_BITS_OF_CODE: Final = np.zeros(INVALID_POOLS + 1, np.uint64)
_BITS_OF_CODE[[NOT_ALLOCATABLE, INVALID_POOLS]] = _CANNOT_ALLOCATE, _INVALID


class TimedOutError(AllocationError):
    """The search for devices took too long; the message is upstream's."""


class _Case:
    """The claims to be allocated on nodes on which devices serve the same extended resources."""

    def __init__(
        self,
        claims: Sequence[tuple[int, ResourceClaim]],
        mappings: tuple[RequestMapping, ...],
        allocator: Allocator | None,
    ) -> None:
        self.claims = claims
        self.mappings = mappings
        self.allocator = allocator


class DeviceDecision:
    """Verdicts on a pod's claims by row, computed on demand and kept.

    Attributes:
        catalog: the devices that it decides on.
        unavailable: by index of an allocated claim, whether a judged row cannot use it.
    """

    def __init__(
        self,
        catalog: ClaimCatalog,
        pod: PodInfo,
        claims: ClaimStore,
        snapshot: Snapshot,
        random: Random,
        *,
        overdue: float,
    ) -> None:
        """Prepare without judging any row.

        Args:
            catalog: the devices.
            pod: the pod.
            claims: its claims.
            snapshot: the cluster; forks with the same nodes are valid as well.
            random: the source of share names.
            overdue: the binding timeout of allocations before this time, in seconds since 1970, is
                over.
        """
        size = snapshot.table.size
        self.catalog = catalog
        self._pod = pod
        self._claims = claims
        self._snapshot = snapshot
        self._random = random
        self._known = np.zeros(size, np.bool_)
        self._bits = np.zeros(size, np.uint64)
        self._scores = np.zeros(size)
        self._case_of = np.zeros(size, np.intp)
        self._cases: list[_Case] = []
        self._by_resources: dict[frozenset[str], int] = {}
        self.unavailable: dict[int, NDArray[np.bool_]] = {}
        self._to_allocate = claims.to_allocate()
        self._allocated = [
            (index, claim, claim.status.allocation)
            for index, claim in enumerate(claims)
            if claim.status.allocation is not None
        ]
        # Upstream scores only pods with a claim to allocate, the one for extended resources
        # included; also on nodes where no device serves them.
        self._score_of_allocated = 0
        if self._to_allocate:
            self._score_of_allocated = sum(
                alternatives_score(claim, allocation.devices.results)
                for _, claim, allocation in self._allocated
            )
        self._unusable = {
            index for index, claim, _ in self._allocated if _is_unusable(claim, overdue)
        }

    def bits(self, rows: Rows) -> Bits:
        """Per given row the reasons that reject it, as of `REASONS`.

        Raises:
            AllocationError: the claims are faulty or exceed a limit, whatever the node.
        """
        self._judge_new(rows)
        found: Bits = self._bits[rows]
        return found

    def scores(self, rows: Rows) -> Scores:
        """Per given row the score of the chosen alternatives of prioritized lists."""
        self._judge_new(rows)
        return self._scores[rows]

    def on_node(self, node_name: str) -> PodAllocation | None:
        """Allocate the pod's claims on a node; None where they cannot be satisfied.

        Raises:
            AllocationError: the claims are faulty, whatever the node.
        """
        row = self._snapshot.table.row_of[node_name]
        self._judge_new(slice(row, row + 1))
        if self._bits[row]:
            return None
        case = self._cases[self._case_of[row]]
        if case.allocator is None:
            return PodAllocation((), ())
        found = self._allocate(case, row, node_name)
        if found is None:
            return None
        allocations = (
            ClaimAllocation(index, claim, allocation)
            for (index, claim), allocation in zip(case.claims, found, strict=True)
            # Without requests, it is a claim for extended resources that no device serves there.
            if claim.spec.devices.requests or index < self._claims.own
        )
        return PodAllocation(tuple(allocations), case.mappings)

    def named(self, allocation: PodAllocation) -> Iterator[tuple[str, ClaimAllocation]]:
        """Pair each allocation with the pod's name for its claim; empty where it has none."""
        for allocated in allocation.allocations:
            is_own = allocated.claim_index < self._claims.own
            yield self._claims.names[allocated.claim_index] if is_own else "", allocated

    # --- for explanations -------------------------------------------------------------------------

    @property
    def claims_to_allocate(self) -> tuple[ResourceClaim, ...]:
        """The claims to be allocated on the judged nodes.

        Where nodes differ in the extended resources that devices serve: the longest list.
        """
        most = max(self._cases, key=lambda case: len(case.claims), default=None)
        return () if most is None else tuple(claim for _, claim in most.claims)

    def without_devices(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """The rows on which the unallocated claims cannot be allocated."""
        found: NDArray[np.intp] = rows[(self.bits(rows) & _CANNOT_ALLOCATE) != 0]
        return found

    def misplaced(
        self, rows: NDArray[np.intp]
    ) -> Iterator[tuple[ResourceClaim, NDArray[np.intp], NDArray[np.intp]]]:
        """The allocated claims with devices that some rows do not reach; those rows; all others."""
        every = self._snapshot.table.live_rows()
        for index, claim, allocation in self._allocated:
            reaches = np.zeros(len(self._known), np.bool_)
            if index not in self._unusable:
                reaches[every] = _where(allocation).matches(self._snapshot, every)
            elsewhere = rows[~reaches[rows]]
            if len(elsewhere):
                yield claim, elsewhere, every[reaches[every]]

    def claim_to_free(self, pod: PodInfo, rejected: NDArray[np.intp]) -> ResourceClaim | None:
        """The first claim that excludes some of the rows, and that no other pod uses; or None."""
        claims = {index: claim for index, claim, _ in self._allocated}
        for index, is_unavailable in sorted(self.unavailable.items()):
            if is_free_for(claims[index], pod) and is_unavailable[rejected].any():
                return claims[index]
        return None

    # --- judging ----------------------------------------------------------------------------------

    def _judge_new(self, rows: Rows) -> None:
        """Judge the rows that have not been judged before."""
        known = self._known[rows]
        count = np.count_nonzero(known)
        if count == len(known):
            return
        # Mostly `rows` is a slice of all rows, which takes no copies.
        new = self._indices(rows)[~known] if count else rows
        self._judge(new)
        self._known[new] = True

    def _indices(self, rows: Rows) -> NDArray[np.intp]:
        return np.arange(len(self._known))[rows] if isinstance(rows, slice) else rows

    def _judge(self, rows: Rows) -> None:
        extended = self._claims.extended
        if extended is not None and extended.spec.devices.requests:
            self._bits[rows] = _STALE
            return
        for resources, group in self._by_extended_resources(rows):
            if resources is None:
                self._bits[group] = _CANNOT_FIT
            else:
                self._judge_case(self._case(resources), group)

    def _judge_case(self, number: int, rows: Rows) -> None:
        case = self._cases[number]
        if number:
            self._case_of[rows] = number
        if self._score_of_allocated:
            self._scores[rows] = self._score_of_allocated
        if case.allocator is not None:
            self._judge_to_allocate(case, case.allocator, rows)
        if self._allocated and (case.claims or self._claims.own):
            rows = self._indices(rows)
            self._judge_allocated(rows[self._bits[rows] == 0])

    def _judge_to_allocate(self, case: _Case, allocator: Allocator, rows: Rows) -> None:
        """Judge whether the claims of a case can be allocated; a few operations over all rows."""
        codes, scores = allocator.judge()
        if allocator.plan.has_alternatives:
            self._scores[rows] += scores[rows]
        codes = codes[rows]
        worst = codes.max(initial=ALLOCATABLE)
        if worst > INVALID_POOLS:
            for code in (FAILED, TIMED_OUT):
                failed = self._indices(rows)[codes == code]
                if len(failed):
                    self._fail(case, int(failed[0]), code)
        if worst != ALLOCATABLE:
            self._bits[rows] = _BITS_OF_CODE[codes]

    def _judge_allocated(self, rows: NDArray[np.intp]) -> None:
        """Judge whether the allocated claims can be used."""
        for index, _, allocation in self._allocated:
            elsewhere = rows
            if index not in self._unusable:
                elsewhere = rows[~_where(allocation).matches(self._snapshot, rows)]
            if len(elsewhere):
                known = self.unavailable.setdefault(index, np.zeros(len(self._known), np.bool_))
                known[elsewhere] = True
                self._bits[elsewhere] = _NOT_AVAILABLE

    def _fail(self, case: _Case, row: int, code: int) -> None:
        """Raise the error of a row, in upstream's words.

        Raises:
            AllocationError: always.
        """
        node_name = self._snapshot.table.names[row]
        if code == FAILED:
            self._allocate(case, row, node_name)
        raise TimedOutError(f"node {node_name}: timed out trying to allocate devices")

    def _allocate(self, case: _Case, row: int, node_name: str) -> Sequence[AllocationResult] | None:
        if case.allocator is None:
            return ()
        claims = [claim for _, claim in case.claims]
        try:
            return case.allocator.allocate(row, claims, node_name, self._new_share_id)
        except OutOfStepsError:
            raise TimedOutError(f"node {node_name}: timed out trying to allocate devices") from None

    def _new_share_id(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))

    # --- extended resources -----------------------------------------------------------------------

    def _by_extended_resources(self, rows: Rows) -> Iterator[tuple[frozenset[str] | None, Rows]]:
        """Rows grouped by the extended resources that devices serve; None: not all can be met."""
        if self._claims.extended is None:
            yield frozenset(), rows
            return
        rows = self._indices(rows)
        class_of, table = self.catalog.class_names.class_of, self._snapshot.table
        served = np.zeros(len(rows), np.int64)
        lacks = np.zeros(len(rows), np.bool_)
        asked = resources_asked(self._pod)
        for index, name in enumerate(asked):
            column = table.resources.get(name)
            offers = np.zeros(len(rows), np.bool_)
            if column is not None:
                offers = table.allocatable[column, rows] > 0
            if class_of(name) is not None:
                served |= np.where(offers, 0, 1 << index)
            else:
                lacks |= ~offers & ~self._names(name, rows, offers)
        if lacks.any():
            yield None, rows[lacks]
        for pattern in np.unique(served[~lacks]).tolist():
            names = frozenset(n for index, n in enumerate(asked) if pattern >> index & 1)
            yield names, rows[(served == pattern) & ~lacks]

    def _names(
        self, name: str, rows: NDArray[np.intp], offers: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Whether the nodes list a resource with an allocatable amount of 0; rarely needed."""
        found = np.zeros(len(rows), np.bool_)
        for index in np.flatnonzero(~offers).tolist():
            node = self._snapshot.info(int(rows[index])).node
            found[index] = node is not None and name in node.status.allocatable
        return found

    def _case(self, resources: frozenset[str]) -> int:
        number = self._by_resources.get(resources)
        if number is None:
            self._cases.append(self._new_case(resources))
            number = self._by_resources[resources] = len(self._cases) - 1
        return number

    def _new_case(self, resources: frozenset[str]) -> _Case:
        claims = [(index, self._claims[index]) for index in self._to_allocate]
        mappings: tuple[RequestMapping, ...] = ()
        if self._claims.extended is not None and self._to_allocate[-1:] == [self._claims.own]:
            requests, mappings = requests_and_mappings(
                self._pod.spec, resources, self.catalog.class_names
            )
            claims[-1] = (self._claims.own, claim_of(self._claims.extended, requests))
            if not requests:
                claims.pop()
        if not claims:
            return _Case((), (), None)
        allocator = self.catalog.devices.allocator([claim for _, claim in claims], self._snapshot)
        return _Case(claims, mappings, allocator)


def _where(allocation: AllocationResult) -> NodePredicate:
    """The nodes on which an allocation can be used."""
    if allocation.node_selector is None:
        return EVERYWHERE
    return condition_of(ResourceSliceSpec(node_selector=allocation.node_selector))


def _is_unusable(claim: ResourceClaim, overdue: float) -> bool:
    """Whether the devices of an allocated claim will not be ready, or not in time."""
    allocation = claim.status.allocation
    if allocation is None or not has_binding_conditions(claim):
        return False
    try:
        if is_ready(claim):
            return False
    except DeviceBindingError:
        return True
    began = seconds_of(allocation.allocation_timestamp)
    return began is not None and began < overdue
