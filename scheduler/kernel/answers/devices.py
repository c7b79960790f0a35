"""Finds the devices that the claims of an explained pod would get, and the claim that is freed."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.model import DeviceTaken
from scheduler.kernel.devices.candidates import AllocationError
from scheduler.kernel.framework.runtime import Feasibility, Framework
from scheduler.kernel.framework.runtime.diagnosis import AttemptDiagnosis
from scheduler.kernel.plugins.dynamic_resources import DynamicResources
from scheduler.kernel.snapshot import Snapshot

EXTENDED_RESOURCES: Final = "<extended-resources>"
"""The label of the claim for extended resources, which has no name in the pod."""


def claim_to_free(
    framework: Framework, found: Feasibility, pod: PodInfo, diagnosis: AttemptDiagnosis
) -> str:
    """Return the claim, as namespace/name, that PostFilter frees for the pod; empty for none."""
    names = {plugin.name for plugin in framework.plugins.post_filter}
    if DynamicResources.NAME not in names:
        return ""
    decision = DynamicResources.decision_of(found.state)
    if decision is None:
        return ""
    claim = decision.claim_to_free(pod, diagnosis.rows_of(DynamicResources.NAME))
    return "" if claim is None else claim.key


def devices_taken(
    framework: Framework, found: Feasibility, snapshot: Snapshot, rows: NDArray[np.intp]
) -> Sequence[dict[str, tuple[DeviceTaken, ...]]]:
    """Return by row the devices that each claim would get, or has; empty for no claims.

    Cost: a device search per row.
    """
    decision = DynamicResources.decision_of(found.state)
    if decision is None or DynamicResources.NAME not in framework.plugins.by_name:
        return ()
    taken = []
    for row in rows.tolist():
        try:
            allocation = decision.on_node(snapshot.table.names[row])
        except AllocationError:
            allocation = None
        taken.append(
            {
                name or EXTENDED_RESOURCES: tuple(
                    DeviceTaken(
                        result.request,
                        result.driver,
                        result.pool,
                        result.device,
                        bool(result.admin_access),
                        dict(result.consumed_capacity),
                    )
                    for result in allocated.allocation.devices.results
                )
                for name, allocated in (() if allocation is None else decision.named(allocation))
            }
        )
    return taken
