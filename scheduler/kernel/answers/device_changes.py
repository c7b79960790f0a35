"""Finds the smallest changes of claims that would get a pod its devices."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from scheduler.api.devices import ResourceClaim, ResourceClaimStatus
from scheduler.kernel.answers.checks import EveryCheck
from scheduler.kernel.answers.claim_edits import (
    Written,
    changes_of_claims,
    edited,
    selectors_loosened,
)
from scheduler.kernel.answers.edits import ClaimEdit, FreeClaim, LowerCount
from scheduler.kernel.answers.model import SuggestedChange
from scheduler.kernel.answers.smallest import applied, highest
from scheduler.kernel.answers.trials import Trials
from scheduler.kernel.devices.decision import DeviceDecision
from scheduler.kernel.devices.obstacles import pods_of
from scheduler.kernel.framework.obstacles import DeviceObstacle
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.plugins.dynamic_resources import DynamicResources
from scheduler.kernel.plugins.node_resources_fit import NodeResourcesFit
from scheduler.kernel.snapshot import Indices, Snapshot

MOST_TRIALS: Final = 16
"""Filter runs at most for one kind of change: each examines all devices."""
_NODES_FREED: Final = 4
_MOST_FREED: Final = 8
"""Claims at most that one change frees on a node."""
_MOST_ATOMS: Final = 8
_NAME: Final = DynamicResources.NAME


def lower_counts(every: EveryCheck, trials: Trials) -> Iterator[SuggestedChange | None]:
    """Yield for each request that fails the largest count of devices with which the pod fits."""
    written = _written(every, trials)
    for obstacle in _requests(trials) if written is not None else ():
        if written is not None and obstacle.claim in written.templates:
            yield (yield from _lower_count(obstacle, written, trials))


def _lower_count(
    obstacle: DeviceObstacle, written: Written, trials: Trials
) -> Steps[SuggestedChange | None]:
    wanted = obstacle.wanted or 0
    where = obstacle.claim, written.templates[obstacle.claim], obstacle.request

    def rows_with(count: int) -> Indices:
        return _rows_with(trials, written, [LowerCount(*where, wanted, count)])

    # Bisection: `high` does not fit; `low` fits, unless it is 0. `obstacle.most` is the best guess.
    low, high = 0, wanted
    for count in (obstacle.most, 1):
        if low < count < high:
            low, high = (count, high) if len(rows_with(count)) else (low, count)
            yield
    while 0 < low < high - 1 and low < obstacle.most:
        middle = (low + high) // 2
        low, high = (middle, high) if len(rows_with(middle)) else (low, middle)
        yield
    return trials.change([LowerCount(*where, wanted, low)], rows_with(low)) if low else None


def lower_extended_resources(every: EveryCheck, trials: Trials) -> Iterator[SuggestedChange | None]:
    """Yield the largest request with which the pod fits, of an extended resource of devices."""
    if trials.devices is None or _decision(every) is None:
        return
    class_of = trials.devices.catalog.class_names.class_of
    most = max((each.most for each in _requests(trials)), default=0)
    for resource in trials.pod.shape.requests:
        if class_of(resource) is not None and len(every.rejected_by_none_but(_NAME)):
            lower = yield from highest(trials, resource, (), most)
            if lower is not None:
                yield trials.change([lower], trials.rows(applied(trials.pod.spec, [lower])))


def loosen_selectors(every: EveryCheck, trials: Trials) -> Iterator[SuggestedChange | None]:
    """Yield for each selector the strictest looser one, with values of devices, that helps."""
    written = _written(every, trials)
    if written is None or trials.devices is None:
        return
    columns = trials.devices.catalog.devices.table.columns
    for edits in selectors_loosened(written, columns):
        for edit in edits:
            rows = _rows_with(trials, written, [edit])
            yield trials.change([edit], rows) if len(rows) else None
            if len(rows):
                break


def change_claims(every: EveryCheck, trials: Trials) -> Iterator[SuggestedChange | None]:
    """Yield the fewest selectors and constraints to drop, and taints to tolerate."""
    written = _written(every, trials)
    if written is None:
        return
    atoms = list(changes_of_claims(written, _requests(trials)))[:_MOST_ATOMS]

    def try_edits(some: Sequence[ClaimEdit]) -> Indices:
        return _rows_with(trials, written, some)

    for found in trials.smallest_sets(atoms, try_edits, lambda: ()):
        yield None if found is None else trials.change(*found)


def free_claims(every: EveryCheck, trials: Trials) -> Iterator[SuggestedChange | None]:
    """Yield the fewest other claims to free on one node, with the pods that use them."""
    hypothetical = trials.devices
    decision = _decision(every)
    if hypothetical is None or decision is None:
        return
    yield from _allocated_elsewhere(every, trials, decision)
    if not decision.claims_to_allocate:
        return
    rows = every.rejected_by_none_but(_NAME, NodeResourcesFit.NAME)
    devices = hypothetical.catalog.devices
    to_allocate, world = decision.claims_to_allocate, every.world
    known = {claim.metadata.uid: claim for claim in hypothetical.catalog.claims.values()}
    may_free = partial(_may_free, trials, known)
    nodes = devices.examination(to_allocate, world).to_free(rows, _NODES_FREED, may_free)
    best: SuggestedChange | None = None
    for node in nodes:
        claims = [known[uid] for uid in node.claims][:_MOST_FREED]
        if not claims or (best is not None and len(claims) >= len(best.edits)):
            continue

        def rows_without(some: Sequence[ResourceClaim], row: int = node.row) -> Indices:
            return _rows_without(trials, some, row)

        # Claims are sorted by devices freed: drop those with the fewest from the change first.
        if len(rows_without(claims)):
            needed = yield from trials.needed(
                claims[::-1], lambda some: len(rows_without(some)) > 0
            )
            name = world.table.names[node.row]
            edits = [FreeClaim(c.key, pods_of(c), name, _devices_of(c)) for c in needed]
            best = trials.change(edits, rows_without(needed))
        yield None
    if best is not None:
        yield best


def _may_free(trials: Trials, known: Mapping[str, ResourceClaim], uid: str, row: int) -> bool:
    """Whether the pod may have a claim's devices if the claim's pods on a row are evicted."""
    if uid not in known:
        return False
    pods = trials.snapshot.info(row).pods
    users = (pods[user.uid] for user in known[uid].status.reserved_for if user.uid in pods)
    return all(map(trials.gets_room_of, users))


def _allocated_elsewhere(
    every: EveryCheck, trials: Trials, decision: DeviceDecision
) -> Iterator[SuggestedChange]:
    """Yield the freeing of a claim of the pod that other pods use on another node.

    If no other pod uses the claim, PostFilter frees it.
    """
    for claim, _, usable in decision.misplaced(every.rejected_by(_NAME)):
        pods = tuple(key for key in pods_of(claim) if key != trials.pod.key)
        if pods and len(usable):
            row = int(usable[0])
            rows = _rows_without(trials, [claim], row)
            if len(rows):
                name = every.world.table.names[row]
                edit = FreeClaim(claim.key, pods, name, _devices_of(claim))
                yield trials.change([edit], rows)


def rows_if_free(every: EveryCheck, trials: Trials) -> Indices:
    """Return the nodes with the devices that the pod needs, in use or not."""
    decision = _decision(every)
    if trials.devices is None or decision is None or not decision.claims_to_allocate:
        return every.snapshot.table.live_rows()
    devices = trials.devices.catalog.devices
    return devices.examination(decision.claims_to_allocate, every.world).rows_if_free()


def _requests(trials: Trials) -> list[DeviceObstacle]:
    obstacles = (each for check in trials.checks for each in check.obstacles)
    return [each for each in obstacles if isinstance(each, DeviceObstacle)]


def _rows_with(trials: Trials, written: Written, edits: Iterable[ClaimEdit]) -> Indices:
    """Return the rows on which the pod fits if its claims are edited."""
    hypothetical = trials.devices
    if hypothetical is None:
        raise LookupError("no plugin reads claims")
    with hypothetical.claims(edited(written.claims, edits), trials.snapshot):
        return trials.rows()


def _rows_without(trials: Trials, claims: Sequence[ResourceClaim], row: int) -> Indices:
    """Return the rows on which the pod fits without claims and their pods on the node of `row`."""
    hypothetical = trials.devices
    if hypothetical is None:
        raise LookupError("no plugin reads claims")
    users = {user.uid for claim in claims for user in claim.status.reserved_for}
    pods = trials.snapshot.info(row).pods
    gone = [pod for uid, pod in pods.items() if uid in users]
    world: Snapshot = trials.snapshot.fork(remove=gone)
    free = [replace(claim, status=ResourceClaimStatus()) for claim in claims]
    with hypothetical.claims(free, world):
        return trials.rows(snapshot=world)


def _written(every: EveryCheck, trials: Trials) -> Written | None:
    """Return the claims to allocate that exist in the API, not those of extended resources."""
    decision = _decision(every)
    if trials.devices is None or decision is None or not len(every.rejected_by_none_but(_NAME)):
        return None
    known = trials.devices.catalog.claims
    return Written(
        trials.pod, [claim for claim in decision.claims_to_allocate if claim.key in known]
    )


def _decision(every: EveryCheck) -> DeviceDecision | None:
    """Return the decision about the pod's devices; None if DynamicResources rejects no node."""
    if every.attempt is None or _NAME not in every.names:
        return None
    return DynamicResources.decision_of(every.attempt.state)


def _devices_of(claim: ResourceClaim) -> int:
    allocation = claim.status.allocation
    return 0 if allocation is None else len(allocation.devices.results)
