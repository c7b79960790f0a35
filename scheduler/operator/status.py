"""Builds the status of the custom resources: conditions and a few facts. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from scheduler.config.problems import Problem, render_path
from scheduler.daemon.client.wire import seconds_time
from scheduler.daemon.leader_election.elector import host_of
from scheduler.operator.plans import Configuration, Verdict
from scheduler.operator.resources import Json, Scheduler, SchedulingProfile

MAX_MESSAGE: Final = 32_768
"""Source: k8s.io/apimachinery meta/v1 Condition.Message (MaxLength)."""
_SHOWN_PROBLEMS: Final = 50


def scheduler_status(
    scheduler: Scheduler,
    configuration: Configuration,
    *,
    deployment: Json | None,
    leader: str,
    failures: Sequence[str],
    now: datetime,
) -> Json:
    """Return the status of an instance.

    `scheduler` has the previous status. `deployment` is None and `leader` empty if there is none.
    """
    found = (deployment or {}).get("status", {})
    profiles = f"{len(configuration.taken)}/{configuration.selected}"
    if configuration.text is None:
        # The earlier configuration stays, with its profiles.
        profiles = scheduler.status.get("profiles", profiles)
    status = {
        "observedGeneration": scheduler.metadata.generation,
        "replicas": found.get("replicas", 0),
        "availableReplicas": found.get("availableReplicas", 0),
        "leader": leader,
        "schedulerNames": list(configuration.names),
        "profiles": profiles,
        "problems": _problems(configuration.problems),
    }
    conditions = (
        _available(deployment),
        _progressing(deployment, failures),
        _configuration_valid(configuration),
    )
    status["conditions"] = _dated(conditions, scheduler.status, scheduler.metadata.generation, now)
    return status


def profile_status(profile: SchedulingProfile, verdict: Verdict, now: datetime) -> Json:
    """Return the status of a profile."""
    is_accepted = verdict.reason == "InForce"
    accepted = _condition("Accepted", verdict.reason, verdict.message, is_true=is_accepted)
    served = (verdict.in_force or {}).get("schedulerName", "")
    return {
        "observedGeneration": profile.metadata.generation,
        "scheduler": "" if verdict.scheduler is None else str(verdict.scheduler),
        "schedulerName": served,
        "inForce": verdict.in_force,
        "problems": _problems(verdict.problems),
        "conditions": _dated((accepted,), profile.status, profile.metadata.generation, now),
    }


def leader_in(lease: Json | None, now: datetime) -> str:
    """Return the pod that holds a Lease; empty if none does, or if its term has expired."""
    spec = (lease or {}).get("spec") or {}
    renewed, seconds = spec.get("renewTime"), spec.get("leaseDurationSeconds")
    if renewed and seconds and datetime.fromisoformat(renewed) + timedelta(seconds=seconds) < now:
        return ""
    return host_of(spec.get("holderIdentity") or "")


def _problems(problems: Iterable[Problem]) -> list[Json]:
    listed = [{"path": render_path(each.path), "message": each.message} for each in problems]
    return listed[:_SHOWN_PROBLEMS]


def _available(deployment: Json | None) -> Json:
    if deployment is None:
        return _condition("Available", "NoDeployment", "There is no Deployment.", is_true=False)
    for each in deployment.get("status", {}).get("conditions", ()):
        if each.get("type") == "Available":
            return _condition(
                "Available",
                each.get("reason") or "Unknown",
                each.get("message", ""),
                is_true=each.get("status") == "True",
            )
    return _condition("Available", "Starting", "No replica has started yet.", is_true=False)


def _progressing(deployment: Json | None, failures: Sequence[str]) -> Json:
    """Build the condition Progressing: True until all objects have their desired state."""
    if failures:
        return _condition("Progressing", "ApplyFailed", "; ".join(failures), is_true=True)
    if deployment is None:
        message = "The configuration must be mended first."
        return _condition("Progressing", "ConfigurationInvalid", message, is_true=False)
    status = deployment.get("status", {})
    wanted = deployment.get("spec", {}).get("replicas", 1)
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    generation = deployment.get("metadata", {}).get("generation", 0)
    is_seen = status.get("observedGeneration", 0) >= generation
    if is_seen and counts == [wanted] * 3:
        return _condition("Progressing", "Complete", f"{wanted} replicas run.", is_true=False)
    there, updated, available = counts
    message = f"{updated} of {wanted} replicas are new, {available} of {there} available."
    return _condition("Progressing", "RollingOut", message, is_true=True)


def _configuration_valid(configuration: Configuration) -> Json:
    if configuration.text is not None:
        message = f"{len(configuration.names)} profiles."
        return _condition("ConfigurationValid", "Valid", message, is_true=True)
    message = "; ".join(map(str, configuration.problems))
    return _condition("ConfigurationValid", "Invalid", message, is_true=False)


def _condition(kind: str, reason: str, message: str, *, is_true: bool) -> Json:
    return {
        "type": kind,
        "status": str(is_true),
        "reason": reason,
        "message": message[:MAX_MESSAGE],
    }


def _dated(
    conditions: Iterable[Json], before: Json, generation: int, now: datetime
) -> list[dict[str, Any]]:
    """Add the observed generation and the time of the last transition to conditions."""
    since = {
        (each.get("type"), each.get("status")): each.get("lastTransitionTime")
        for each in before.get("conditions", ())
    }
    return [
        {
            **each,
            "observedGeneration": generation,
            "lastTransitionTime": since.get((each["type"], each["status"])) or seconds_time(now),
        }
        for each in conditions
    ]
