"""Plans the configuration of each instance: its own, and its selected SchedulingProfiles.

Takes objects, returns a plan, and does nothing else. A name stays with the object that has it in
force. Otherwise the oldest object has precedence, as for room in the configuration. An unusable
profile is left out, or keeps its version in force. No other profile is affected. An instance whose
own configuration is wrong keeps the present one.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from scheduler.config.problems import Problem
from scheduler.operator.checking import unexpected
from scheduler.operator.drafts import Draft, Refused, name_in_force
from scheduler.operator.packages import Wheels, packages_of
from scheduler.operator.plans import ConfigurationPlan, Verdict
from scheduler.operator.resources import Scheduler, SchedulingProfile

REFUSED_NAME: Final = "default"
"""A name that no Scheduler may have: pods without a ServiceAccount use the one of this name."""
_WHY_REFUSED: Final = (
    'expected another name than "default": every pod of the namespace would have the rights of the '
    "daemon by the ServiceAccount of this name"
)


async def plan(
    schedulers: Iterable[Scheduler],
    profiles: Iterable[SchedulingProfile],
    namespaces: Mapping[str, Mapping[str, str]],
    wheels: Wheels,
    reserved: Mapping[str, str] | None = None,
) -> ConfigurationPlan:
    """Plan all configurations; other tasks run between two verdicts, which may take long.

    Args:
        schedulers: all instances; those that are being deleted select no profiles.
        profiles: all SchedulingProfiles.
        namespaces: labels of namespaces by name, for instances that select by them.
        wheels: all wheels that instances name, or their problems.
        reserved: schedulerNames that other schedulers serve, each with its owner.
    """
    drafts = []
    for scheduler in sorted(schedulers, key=lambda each: each.age):
        if not scheduler.is_leaving:
            drafts.append(_draft(scheduler, wheels))
            await asyncio.sleep(0)
    by_age = sorted(profiles, key=lambda each: each.age)
    claimed = _claims(drafts)
    for profile in by_age:
        if name := name_in_force(profile):
            claimed.setdefault(name, f"SchedulingProfile {profile.key}")
    verdicts = {}
    for profile in by_age:
        verdicts[profile.key] = _verdict(profile, drafts, namespaces, claimed, reserved or {})
        await asyncio.sleep(0)
    return ConfigurationPlan({draft.scheduler.key: draft.finished() for draft in drafts}, verdicts)


def _draft(scheduler: Scheduler, wheels: Wheels) -> Draft | Refused:
    """Return the configuration of an instance before SchedulingProfiles are added."""
    if scheduler.metadata.name == REFUSED_NAME:
        return Refused(scheduler, Problem(("metadata", "name"), _WHY_REFUSED))
    if scheduler.unreadable:
        return Refused(scheduler, Problem(("spec",), scheduler.unreadable))
    try:
        return Draft(scheduler, packages_of(scheduler, wheels))
    except Exception as problem:  # noqa: BLE001 - one object must not stop the others
        return Refused(scheduler, Problem(("spec",), unexpected(problem)))


def _claims(drafts: Sequence[Draft | Refused]) -> dict[str, str]:
    """Return the instance that has each schedulerName; note the names that others have.

    An instance keeps the names that it serves; age decides about the others. An instance without
    one of its names keeps its present configuration with all names, so the claims begin anew.
    """
    while True:
        claimed: dict[str, str] = {}
        kept = [(name, draft) for draft in drafts for name in draft.kept()]
        asked = [(name, draft) for draft in drafts for name in draft.asked()]
        for name, draft in (*kept, *asked):
            claimed.setdefault(name, f"Scheduler {draft.scheduler.key}")
        stopped = [draft for draft in drafts if draft.is_stopped_by(claimed)]
        if not stopped:
            return claimed


def _verdict(
    profile: SchedulingProfile,
    drafts: Iterable[Draft | Refused],
    namespaces: Mapping[str, Mapping[str, str]],
    claimed: dict[str, str],
    reserved: Mapping[str, str],
) -> Verdict:
    try:
        for draft in drafts:
            if draft.selects(profile, namespaces):
                return draft.judge(profile, claimed, reserved)
    except Exception as problem:  # noqa: BLE001 - one object must not stop the others
        found = Problem(("spec",), unexpected(problem))
        return Verdict("Invalid", str(found), problems=(found,))
    return Verdict("NotSelected", "No Scheduler's profileSelector selects it.")
