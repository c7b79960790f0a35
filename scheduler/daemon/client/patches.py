"""Strategic merge patches of the status of pods and pod groups."""

from datetime import datetime
from typing import Any

from scheduler.api.written import Condition
from scheduler.daemon.client.wire import json_string, seconds_time, well_formed


def pod_status_patch(
    uid: str, condition: Condition | None, nominated_node_name: str | None, now: datetime
) -> bytes:
    """The patch that sets a condition, the nominated node, or both; `now` is when.

    Source: pkg/scheduler/util/utils.go (PatchPodStatus) v1.36.
    Differs: it carries the UID, as the kubelet's patch does, so that a pod that was deleted and
        made anew under the same name does not get its predecessor's condition.
    """
    status: dict[str, Any] = {}
    if condition is not None:
        status["conditions"] = [{**_condition(condition, now), "lastProbeTime": None}]
    if nominated_node_name is not None:
        status["nominatedNodeName"] = nominated_node_name or None
    return json_string({"metadata": {"uid": uid}, "status": status})


def pod_group_status_patch(uid: str, condition: Condition, now: datetime) -> bytes:
    """The patch that sets a condition of a pod group; `now` is when.

    Source: pkg/scheduler/util/utils.go (PatchPodGroupStatus) v1.36. Differs: as for pods.
    """
    return json_string(
        {"metadata": {"uid": uid}, "status": {"conditions": [_condition(condition, now)]}}
    )


def _condition(condition: Condition, now: datetime) -> dict[str, Any]:
    body: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": well_formed(condition.message),
    }
    if condition.has_moved:
        body["lastTransitionTime"] = seconds_time(now)
    if condition.observed_generation:
        body["observedGeneration"] = condition.observed_generation
    return body
