"""Reasons why a pod's claims exclude nodes, in numbers and names."""

from collections.abc import Iterator, Mapping

import numpy as np

from scheduler.api.devices import DeviceConstraint, ResourceClaim
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.devices.decision import DeviceDecision
from scheduler.kernel.devices.findings import Findings, RequestFinding
from scheduler.kernel.devices.pools import Rows
from scheduler.kernel.framework.obstacles import (
    EXAMPLES,
    AllocatedClaimObstacle,
    DeviceHolder,
    DeviceObstacle,
    DevicePoolObstacle,
    DevicesLeft,
    DevicesTogetherObstacle,
    Obstacle,
    TaintedDevices,
)
from scheduler.kernel.snapshot import Snapshot


def device_obstacles(
    catalog: ClaimCatalog, decision: DeviceDecision, snapshot: Snapshot, rows: Rows
) -> Iterator[Obstacle]:
    """The obstacles that keep a pod's claims from getting devices on the given rows.

    Cost: O(nodes and devices).
    """
    for claim, elsewhere, usable in decision.misplaced(rows):
        node = snapshot.table.names[int(usable[0])] if len(usable) else ""
        yield AllocatedClaimObstacle(claim.key, len(elsewhere), node, pods_of(claim)[:EXAMPLES])
    claims = decision.claims_to_allocate
    if not claims:
        return
    found = catalog.devices.findings(claims, snapshot)
    holders = _holders(catalog, found)
    for finding in found.requests:
        yield _request(finding, holders, snapshot.table.count)
    for pool in found.pools:
        yield DevicePoolObstacle(pool.pool, pool.state.value, pool.problem, pool.nodes)
    together = len(np.intersect1d(found.together, decision.without_devices(rows)))
    if together:
        texts = tuple(constraint_text(c) for each in claims for c in each.spec.devices.constraints)
        yield DevicesTogetherObstacle(together, texts)


def constraint_text(constraint: DeviceConstraint) -> str:
    """The constraint as one line of text."""
    name = constraint.match_attribute or constraint.distinct_attribute
    how = "the same" if constraint.match_attribute else "a different"
    whose = ", ".join(constraint.requests) or "all requests"
    return f"{how} {name} for {whose}"


def pods_of(claim: ResourceClaim) -> tuple[str, ...]:
    """The pods that a claim is reserved for, by `namespace/name`."""
    return tuple(
        f"{claim.metadata.namespace}/{user.name}"
        for user in claim.status.reserved_for
        if user.resource == "pods"
    )


def _request(
    finding: RequestFinding, claims: Mapping[str, ResourceClaim], nodes: int
) -> DeviceObstacle:
    examples = list(finding.holders.items())[:EXAMPLES]
    return DeviceObstacle(
        finding.claim,
        finding.request,
        finding.device_class,
        finding.wanted,
        nodes - finding.enough,
        finding.enough,
        finding.most,
        finding.nearest,
        tuple(
            DevicesLeft(s.step.value, s.devices, s.nodes, s.text, s.failing) for s in finding.steps
        ),
        tuple(TaintedDevices(*each) for each in finding.taints.items()),
        tuple(
            DeviceHolder(claims[uid].key, devices, pods_of(claims[uid])[:EXAMPLES])
            for uid, devices in examples
            if uid in claims
        ),
        len(finding.holders),
    )


def _holders(catalog: ClaimCatalog, found: Findings) -> dict[str, ResourceClaim]:
    """By UID, the claims that hold devices and are named as examples."""
    wanted = {uid for f in found.requests for uid in list(f.holders)[:EXAMPLES]}
    if not wanted:
        return {}
    known = {c.metadata.uid: c for c in catalog.claims.values() if c.metadata.uid in wanted}
    # In-flight claims replace these: `claims` lacks their allocations and reservations.
    known |= {uid: each.claim for uid, each in catalog.in_flight.items() if uid in wanted}
    return known
