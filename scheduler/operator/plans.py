"""The plans for custom resources: configurations of instances, and verdicts about profiles."""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.config.problems import Problem
from scheduler.operator.resources import Json, Key


@dataclass(frozen=True, slots=True)
class Configuration:
    """The planned configuration of an instance.

    Attributes:
        text: the text of the file; None if the instance's own configuration is wrong.
        problems: problems, with paths in the Scheduler.
        names: the schedulerNames of its profiles.
        taken: the SchedulingProfiles in the configuration.
        selected: number of selected SchedulingProfiles.
        restart: a digest that changes if a running daemon cannot reload the file, or if a wheel
            changes; empty by default.
        is_elected: whether the replicas elect a leader; otherwise the only one schedules at once.
        is_applied: whether the spec is applied to the other objects of the instance; otherwise they
            do not change.
    """

    text: str | None
    problems: tuple[Problem, ...] = ()
    names: tuple[str, ...] = ()
    taken: tuple[Key, ...] = ()
    selected: int = 0
    restart: str = ""
    is_elected: bool = True
    is_applied: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a SchedulingProfile.

    Attributes:
        reason: `InForce`, or the reason why the profile is not: `NotSelected`, `Invalid`,
            `NotPermitted`, `Conflict`, `Full`, `SchedulerInvalid`, `NotApplied`.
        message: the message of the condition.
        scheduler: the instance that selects it, or None.
        in_force: the version in force: the present one or an earlier one.
        problems: problems, with paths in the SchedulingProfile.
    """

    reason: str
    message: str
    scheduler: Key | None = None
    in_force: Json | None = None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigurationPlan:
    """The configuration of each Scheduler, and the verdict about each SchedulingProfile."""

    configurations: Mapping[Key, Configuration]
    verdicts: Mapping[Key, Verdict]
