"""The plans for custom resources: configurations of instances, and verdicts about profiles."""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.config.problems import Problem
from scheduler.operator.resources import Json, Key


@dataclass(frozen=True, slots=True)
class Configuration:
    """The planned configuration of an instance.

    Attributes:
        text: the text of its file; None if the instance's own part is wrong.
        problems: problems, with paths into the Scheduler.
        names: the schedulerNames that are served.
        taken: the SchedulingProfiles in it.
        selected: number of selected SchedulingProfiles.
        restart: changes when a running daemon cannot reload the file, or when a wheel has other
            content; empty by default.
        is_applied: whether the spec is applied to the other objects of the instance; False leaves
            all of them as they are.
    """

    text: str | None
    problems: tuple[Problem, ...] = ()
    names: tuple[str, ...] = ()
    taken: tuple[Key, ...] = ()
    selected: int = 0
    restart: str = ""
    is_applied: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a SchedulingProfile.

    Attributes:
        reason: `InForce`, or why not: `NotSelected`, `Invalid`, `NotPermitted`, `Conflict`, `Full`,
            `SchedulerInvalid`.
        message: a message for people.
        scheduler: the instance that selects it, or None.
        in_force: the version in force: the present one or an earlier one.
        problems: problems, with paths into the SchedulingProfile.
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
