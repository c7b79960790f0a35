"""VolumeBinding: the pod's claims have, or can get, volumes that its node reaches.

Bound claims restrict the pod to nodes that reach their volumes. Claims that wait for their first
consumer get a volume with the decision: a free one, or one provisioned for the node.
Reserve assumes it, PreBind writes it and waits for the binding controller.

Extension points: PreFilter, Filter, PreScore, Score, Reserve, PreBind.
Events: claims of the pod, volumes, classes, capacities, CSI nodes and drivers change; a node is
added or its labels change.
Source: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go (v1.36).
Differs: PreBind checks after events of claims, volumes and the node, instead of once a second.
"""

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import msgspec
import numpy as np
from typing_extensions import override

from scheduler.api.objects import Node, ObjectMeta
from scheduler.api.pod_shape import VOLUMES
from scheduler.api.pods import PodInfo
from scheduler.config.args import VolumeBindingArgs
from scheduler.errors import SchedulerError
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.events import NODE_KIND, ClusterEventWithHint, ObjectKind
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import (
    Bits,
    EnqueueExtensions,
    FilterPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ReservePlugin,
    ScorePlugin,
    Scores,
    SignPlugin,
)
from scheduler.kernel.framework.results import PreFilterResult, Reason
from scheduler.kernel.framework.shortcuts import Shortcuts
from scheduler.kernel.framework.status import SKIP, SUCCESS, Code, Status, error, unresolvable
from scheduler.kernel.plugins.columns import count_of
from scheduler.kernel.plugins.volume_binding_hints import EVENTS
from scheduler.kernel.plugins.volume_scores import VolumeScores
from scheduler.kernel.snapshot import Rows, Snapshot
from scheduler.kernel.volumes import binding
from scheduler.kernel.volumes.assume_cache import OutOfSyncError
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.kernel.volumes.claims import (
    UNBOUND_IMMEDIATE,
    ClaimError,
    PodVolumeClaims,
    claim_names,
    obstacle,
    sorted_claims,
)
from scheduler.kernel.volumes.decision import REASONS, Binding, PodVolumes, VolumeDecision
from scheduler.kernel.volumes.translation import TranslationError
from scheduler.observability.volume_metrics import VolumeMetrics

_REASONS: Final = tuple(Reason(text, Code.UNSCHEDULABLE_AND_UNRESOLVABLE) for text in REASONS)


class _Attempt:
    """The volume claims of one pod, and the decision about them.

    Attributes:
        claims: its claims.
        decision: the nodes that can satisfy them; computed when a filter first needs it, kept until
            Reserve.
        assumed: the volumes taken by Reserve, in the versions last written.
    """

    __slots__ = ("assumed", "claims", "decision")

    def __init__(self, claims: PodVolumeClaims) -> None:
        self.claims = claims
        self.decision: VolumeDecision | None = None
        self.assumed: PodVolumes | None = None


_ATTEMPT: Final[StateKey[_Attempt]] = StateKey("VolumeBinding/attempt")


class VolumeBinding(
    PreFilterPlugin,
    FilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
    EnqueueExtensions,
    SignPlugin,
    Shortcuts,
):
    """Rejects nodes on which the pod's claims cannot be satisfied, and satisfies them."""

    NAME: ClassVar[str] = "VolumeBinding"
    ARGS: ClassVar[type] = VolumeBindingArgs
    ALLOW_PARALLEL: ClassVar[bool] = True
    READS: ClassVar[Reads] = Reads.CLUSTER
    NEEDS: ClassVar[int] = VOLUMES
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = VolumeCatalog.WATCHES

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._handle = handle
        self._timeout_seconds = args.bind_timeout_seconds
        # The timeout of the wait begins after the writes, whose time comes on top.
        self.patience_seconds += self._timeout_seconds
        self._scores = None if args.shape is None else VolumeScores(args.shape)
        self._metrics = VolumeMetrics(handle.metrics)
        handle.shared(VolumeCatalog)

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return EVENTS

    @override
    def sign(self, pod: PodInfo) -> Hashable:
        """Return no part: the runtime caches answers of row-local plugins only."""
        return ()

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        """Skip pods without claims; reject those with claims that no node can satisfy yet."""
        if not pod.pod.volumes:
            return None, SKIP
        catalog = self._handle.shared(VolumeCatalog)
        found = []
        for name in claim_names(pod):
            problem = obstacle(pod, name, catalog.claims.get(name.key))
            if problem is not None:
                return None, unresolvable(problem)
            assumed = catalog.claim(name.key)
            if assumed is not None:
                found.append(assumed)
        if not found:
            return None, SKIP
        try:
            claims = sorted_claims(found, catalog.classes)
        except ClaimError as problem:
            return None, error(str(problem))
        if claims.immediate:
            return None, unresolvable(UNBOUND_IMMEDIATE)
        state.write(_ATTEMPT, _Attempt(claims))
        return None, SUCCESS

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        """See `FilterPlugin.filter`.

        Raises:
            LookupError: PreFilter did not run; upstream fails in the same case.
            TranslationError: a volume of a migrated type has no counterpart.
        """
        bits = self._decision(state, snapshot).bits[rows]
        return bits if bits.any() else None

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        return _REASONS

    @override
    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip without the feature gate; with it pods without claims have scores too, all 0."""
        return SKIP if self._scores is None else SUCCESS

    @override
    def skips_score(self, pod: PodInfo, snapshot: Snapshot) -> bool:
        """See `Shortcuts.skips_score`; scores that are all 0 are skipped."""
        return self._scores is None or not pod.pod.volumes

    @override
    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score nodes by the storage that the pod's claims use; 0 without the feature gate."""
        attempt = state.get(_ATTEMPT)
        if self._scores is None or attempt is None:
            return np.zeros(count_of(rows, snapshot.table.size))
        return self._scores.score(self._decision(state, snapshot))[rows]

    @override
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Assume the volumes that the decision found for the node."""
        attempt = state.get(_ATTEMPT)
        if attempt is None or attempt.decision is None:
            return SUCCESS
        # Thousands of pods may wait for their volumes: drop the columns over all nodes now.
        decision, attempt.decision = attempt.decision, None
        if not attempt.claims.delayed:
            return SUCCESS
        catalog = self._handle.shared(VolumeCatalog)
        try:
            attempt.assumed = binding.assume(catalog, decision.on_node(node_name), node_name)
        except OutOfSyncError as problem:
            self._metrics.stage_errors["assume"].inc()
            return error(str(problem))
        return SUCCESS

    @override
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Forget the assumed volumes; objects already written stay unchanged.

        The attempt's state keeps the volumes, as Unreserve may first run on a fork.
        """
        attempt = state.get(_ATTEMPT)
        if attempt is not None and attempt.assumed is not None:
            binding.revert(self._handle.shared(VolumeCatalog), attempt.assumed)

    @override
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Skip pods whose claims were all bound before."""
        attempt = state.get(_ATTEMPT)
        return SKIP if attempt is None or attempt.assumed is None else SUCCESS

    @override
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Write the assumed objects, and wait until the binding controller has bound them."""
        attempt = state.read(_ATTEMPT)
        try:
            if not await self._write_and_wait(attempt, node_name):
                return self._failed("binding volumes: context deadline exceeded")
        except binding.BindingError as problem:
            return self._failed(f"binding volumes: {problem}")
        except SchedulerError as problem:
            return self._failed(str(problem))
        return SUCCESS

    def _decision(self, state: CycleState, snapshot: Snapshot) -> VolumeDecision:
        attempt = state.get(_ATTEMPT)
        if attempt is None:
            raise LookupError("its PreFilter did not run")
        if attempt.decision is None:
            catalog = self._handle.shared(VolumeCatalog)
            try:
                attempt.decision = VolumeDecision(catalog, attempt.claims, snapshot)
            except TranslationError:
                self._metrics.stage_errors["predicate"].inc()
                raise
        return attempt.decision

    async def _write_and_wait(self, attempt: _Attempt, node_name: str) -> bool:
        """Write the assumed objects; return whether all are bound within the timeout."""
        written = await self._write(attempt)
        catalog = self._handle.shared(VolumeCatalog)
        keys = [claim.key for claim in written.claims]
        keys.extend(each.volume.key for each in written.bindings)
        keys.append(node_name)
        return await self._handle.api.until(
            lambda: binding.are_bound(catalog, written, node_name, self._labels(node_name)),
            partial(catalog.listen, keys),
            self._timeout_seconds,
        )

    async def _write(self, attempt: _Attempt) -> PodVolumes:
        """Write volumes first, then claims; written objects are kept in their new version."""
        catalog = self._handle.shared(VolumeCatalog)
        written = attempt.assumed or PodVolumes()
        for i, one in enumerate(written.bindings):
            binding.check_still_wanted(one, catalog)
            patch = binding.patch_of_binding(one, catalog.volumes.get(one.volume.key))
            if patch is not None:
                volume = msgspec.structs.replace(
                    one.volume, metadata=await self._patched(patch, one.volume.metadata)
                )
                attempt.assumed = written = written.with_binding(i, Binding(one.claim, volume))
        for i, claim in enumerate(written.provisions):
            patch = binding.patch_of_provision(claim, catalog.claims.get(claim.key))
            if patch is not None:
                metadata = await self._patched(patch, claim.metadata)
                attempt.assumed = written = written.with_provision(
                    i, msgspec.structs.replace(claim, metadata=metadata)
                )
        return written

    async def _patched(self, patch: binding.Patch, known: ObjectMeta) -> ObjectMeta:
        answer: Any = await self._handle.api.request("PATCH", patch.path, patch.body)
        version = answer["metadata"]["resourceVersion"]
        return msgspec.structs.replace(known, resource_version=version)

    def _labels(self, node_name: str) -> dict[str, str]:
        """The labels of a node as of the latest event; the snapshot may be older."""
        node: Node | None = self._handle.lister(NODE_KIND).get(node_name)
        if node is None:
            raise binding.BindingError(
                f'failed to get node "{node_name}": node "{node_name}" not found'
            )
        return node.metadata.labels

    def _failed(self, reason: str) -> Status:
        self._metrics.stage_errors["bind"].inc()
        return error(reason)
