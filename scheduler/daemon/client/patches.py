"""Encodes strategic merge patches of the status of pods and pod groups."""

from datetime import datetime
from typing import Any

from scheduler.api.written import Condition
from scheduler.daemon.client.wire import json_string, seconds_time, well_formed


def pod_status_patch(
    uid: str, condition: Condition | None, nominated_node_name: str | None, now: datetime
) -> bytes:
    """Return the patch that sets a condition (of the time `now`), the nominated node, or both.

    Source: pkg/scheduler/util/utils.go (PatchPodStatus) v1.36.
    Differs: it has the UID, as the kubelet's patch has, so that it does not change another pod that
        was created under the same name.
    """
    status: dict[str, Any] = {}
    if condition is not None:
        status["conditions"] = [{**_condition(condition, now), "lastProbeTime": None}]
    if nominated_node_name is not None:
        status["nominatedNodeName"] = nominated_node_name or None
    return json_string({"metadata": {"uid": uid}, "status": status})


def pod_group_status_patch(uid: str, condition: Condition, now: datetime) -> bytes:
    """Return the patch that sets a condition (of the time `now`) of a pod group.

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
