"""The cells that sum up a pod.

Source: pkg/printers/internalversion/printers.go (printPod).
"""

from collections.abc import Iterator

from scheduler.sandbox.schema.codec import Object


def _statuses(pod: Object) -> list[Object]:
    statuses: list[Object] = pod.get("status", {}).get("containerStatuses") or []
    return statuses


def pod_ready(pod: Object) -> str:
    """Ready containers of all."""
    ready = sum(
        1 for status in _statuses(pod) if status.get("ready") and "running" in _state(status)
    )
    spec = pod["spec"]
    sidecars = sum(
        1
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    )
    return f"{ready}/{len(spec.get('containers') or ()) + sidecars}"


def pod_restarts(pod: Object) -> int:
    """Restarts of all containers."""
    return sum(status.get("restartCount", 0) for status in _statuses(pod))


def pod_status(pod: Object) -> str:
    """The one word for how the pod is doing."""
    status = pod.get("status", {})
    phase = status.get("phase", "")
    if "deletionTimestamp" in pod["metadata"] and phase not in {"Succeeded", "Failed"}:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    if any(
        condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated"
        for condition in status.get("conditions") or ()
    ):
        return "SchedulingGated"
    reason: str = next(_container_reasons(pod), "") or status.get("reason") or phase
    return reason


def _container_reasons(pod: Object) -> Iterator[str]:
    for status in _statuses(pod):
        state = _state(status)
        if state.get("waiting", {}).get("reason"):
            yield state["waiting"]["reason"]
        elif "terminated" in state:
            ended = state["terminated"]
            yield ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"


def _state(status: Object) -> Object:
    state: Object = status.get("state") or {}
    return state
