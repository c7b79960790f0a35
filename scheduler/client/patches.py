"""Strategic merge patches of a pod's status."""

from datetime import datetime
from typing import Any

import msgspec

from scheduler.client.wire import json_string, seconds_time, well_formed


class ConditionPatch(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod condition as it shall be.

    Attributes:
        type: the condition's name, also the key by which the server merges.
        status: `True`, `False` or `Unknown`.
        reason: one word for machines.
        message: a sentence for people.
        last_transition_time: when `status` changed; None when it did not change now.
        observed_generation: the pod's generation the condition speaks of; 0 leaves it out.
    """

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0


def pod_status_patch(
    uid: str, condition: ConditionPatch | None, nominated_node_name: str | None
) -> bytes:
    """The patch that sets a condition, the nominated node, or both.

    Source: pkg/scheduler/util/utils.go (PatchPodStatus) v1.36.
    Differs: it carries the UID, as the kubelet's patch does, so that a pod that was deleted and
        made anew under the same name does not get its predecessor's condition.
    """
    status: dict[str, Any] = {}
    if condition is not None:
        status["conditions"] = [_condition(condition)]
    if nominated_node_name is not None:
        status["nominatedNodeName"] = nominated_node_name or None
    return json_string({"metadata": {"uid": uid}, "status": status})


def _condition(condition: ConditionPatch) -> dict[str, Any]:
    body: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": well_formed(condition.message),
        "lastProbeTime": None,
    }
    if condition.last_transition_time is not None:
        body["lastTransitionTime"] = seconds_time(condition.last_transition_time)
    if condition.observed_generation:
        body["observedGeneration"] = condition.observed_generation
    return body
