"""Drafts the configuration of one instance, and judges each profile that it selects. Pure."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from scheduler.api.objects import LabelSelector
from scheduler.api.selectors import (
    NOTHING,
    Selector,
    SelectorError,
    check_label_selector,
    selector_from_label_selector,
)
from scheduler.config.flags import FlagError, options_from_flags
from scheduler.config.options import RunOptions
from scheduler.config.problems import Path, Problem
from scheduler.config.types import API_VERSION, KIND
from scheduler.config.write import dump
from scheduler.daemon.bootstrap.reloading import FIXED
from scheduler.operator import extra_args
from scheduler.operator.checking import CheckRules, check_document
from scheduler.operator.mounts import mounted_in
from scheduler.operator.packages import Packages
from scheduler.operator.permissions import SCORING, not_permitted
from scheduler.operator.plans import Configuration, Verdict
from scheduler.operator.reading import MAX_PROFILE_BYTES
from scheduler.operator.resources import Json, Key, Scheduler, SchedulingProfile

MAX_BYTES: Final = 768 * 1024
"""Bytes at most of a configuration: a ConfigMap holds 1 MiB, and many teams write profiles."""
MAX_PROFILE_YAML_BYTES: Final = 2 * MAX_PROFILE_BYTES
"""Bytes at most of a profile as YAML, whose indentation could take all room."""

NEEDS_RESTART: Final = (*FIXED, "extenders")
"""Fields that a running daemon cannot reload."""
_DEFAULTS: Final[tuple[object, ...]] = (None, True, {}, [])
"""Values of these fields that mean the same as none; True is that of `enableProfiling`."""

_NEVER: Final = {"default-scheduler": "kube-scheduler"}
"""A name that no SchedulingProfile may have, and its owner."""


class Refused:
    """An instance whose spec is refused: its objects, names and profiles stay as they are.

    Attributes:
        scheduler: the instance.
    """

    def __init__(self, scheduler: Scheduler, problem: Problem) -> None:
        self.scheduler = scheduler
        self._problem = problem
        self._served = served_by(scheduler)

    def kept(self) -> tuple[str, ...]:
        """Return the names that the instance serves."""
        return self._served

    def asked(self) -> tuple[str, ...]:
        """Return no names: the spec is refused."""
        return ()

    def is_stopped_by(self, _: Mapping[str, str]) -> bool:
        """Return False: the instance keeps its names in any case."""
        return False

    def selects(self, profile: SchedulingProfile, _: Mapping[str, Mapping[str, str]]) -> bool:
        """Return whether the profile was in force in this instance."""
        return profile.status.get("scheduler") == str(self.scheduler.key)

    def judge(
        self, profile: SchedulingProfile, _: Mapping[str, str], __: Mapping[str, str]
    ) -> Verdict:
        """Refuse the profile."""
        return _scheduler_invalid(self.scheduler, profile)

    def finished(self) -> Configuration:
        """Return a configuration that will not be applied."""
        return Configuration(None, (self._problem,), self._served, is_applied=False)


class Draft:
    """The configuration of an instance, to which selected profiles are added.

    Attributes:
        scheduler: the instance.
    """

    def __init__(self, scheduler: Scheduler, packages: Packages) -> None:
        """Begin with the instance's own part."""
        self.scheduler = scheduler
        self._own_problems = list(packages.problems)
        self._conflicts: list[Problem] = []
        self._taken: list[Key] = []
        self._selected = 0
        self._document = _document_of(scheduler)
        self._size = _yaml_bytes(json.dumps(self._document))
        options = self._options()
        self._rules = CheckRules(packages.names, options, mounted_in(scheduler))
        for problem in check_document(json.dumps(self._document), self._rules):
            self._note(_place(problem.path), problem.message)
        self._elects = self._is_elected(options)
        if scheduler.spec.replicas > 1 and not self._elects:
            message = "expected at most 1 without leader election: each would place the same pods"
            self._note(("spec", "replicas"), message)
        self._own = [profile.get("schedulerName") for profile in self._document["profiles"]]
        self._names = [name for name in self._own if isinstance(name, str) and name]
        self._restart = _restart(scheduler.spec.configuration, packages.digests)
        self._labels = self._selector("profileSelector", scheduler.spec.profile_selector)
        near = scheduler.spec.profile_namespace_selector
        self._namespaces = self._selector("profileNamespaceSelector", near) if near else None

    def kept(self) -> tuple[str, ...]:
        """Return the names that the instance serves and will serve."""
        served = served_by(self.scheduler)
        # With problems the instance keeps its present configuration, and so all its names.
        return tuple(name for name in served if self._problems or name in self._names)

    def asked(self) -> tuple[str, ...]:
        """Return the names of the instance's own profiles."""
        return tuple(self._names)

    def is_stopped_by(self, claimed: Mapping[str, str]) -> bool:
        """Note the names that others have; return whether the instance was usable without."""
        was_usable = not self._problems
        ours = f"Scheduler {self.scheduler.key}"
        self._conflicts = [
            Problem(
                ("spec", "profiles", i, "schedulerName"), f'"{name}" is served by {holder} already'
            )
            for i, name in enumerate(self._own)
            if isinstance(name, str) and (holder := claimed.get(name, ours)) != ours
        ]
        return was_usable and bool(self._conflicts)

    def selects(
        self, profile: SchedulingProfile, namespaces: Mapping[str, Mapping[str, str]]
    ) -> bool:
        """Return whether this instance selects the profile."""
        if self._problems and version_in(self.scheduler.key, profile) is not None:
            # Its configuration stays as it is, whatever the selectors say now.
            return True
        namespace = profile.metadata.namespace
        if self._namespaces is None:
            is_near = namespace == self.scheduler.metadata.namespace
        else:
            is_near = self._namespaces.matches(namespaces.get(namespace, {}))
        return is_near and self._labels.matches(profile.metadata.labels)

    def judge(
        self, profile: SchedulingProfile, claimed: dict[str, str], reserved: Mapping[str, str]
    ) -> Verdict:
        """Add a profile if possible; return the verdict.

        Args:
            profile: the profile.
            claimed: the owner of each schedulerName; a claim is added.
            reserved: schedulerNames of other schedulers.
        """
        self._selected += 1
        key = self.scheduler.key
        earlier = profile.status.get("inForce")
        # A profile keeps a name in force even if another scheduler serves it later.
        held = name_in_force(profile)
        reserved = {name: by for name, by in reserved.items() if name != held} | _NEVER
        ours = f"SchedulingProfile {profile.key}"

        def holder_of(name: str) -> str | None:
            by = claimed.get(name, ours)
            return reserved.get(name) if by == ours else by

        if self._problems:
            return _scheduler_invalid(self.scheduler, profile)
        if profile.unreadable:
            found = Problem(("spec",), profile.unreadable)
            refused: Verdict | None = Verdict("Invalid", str(found), problems=(found,))
        else:
            refused = self._refusal(profile.spec, holder_of)
        if refused is None:
            self._take(profile, profile.spec, claimed)
            return Verdict("InForce", f"Part of Scheduler {key}.", key, profile.spec)
        if earlier is None or self._refusal(earlier, holder_of) is not None:
            return replace(refused, scheduler=key)
        self._take(profile, earlier, claimed)
        message = f"{refused.message}; keeping the previous version"
        return replace(refused, message=message, scheduler=key, in_force=earlier)

    def finished(self) -> Configuration:
        """Return the finished configuration, or its problems."""
        return Configuration(
            text=None if self._problems else dump(self._document),
            problems=self._problems,
            names=served_by(self.scheduler) if self._problems else tuple(self._names),
            taken=tuple(self._taken),
            selected=self._selected,
            restart=self._restart,
            is_elected=self._elects,
        )

    @property
    def _problems(self) -> tuple[Problem, ...]:
        return (*self._own_problems, *self._conflicts)

    # --- steps ----------------------------------------------------------------------------------

    def _refusal(self, written: Json, holder_of: Callable[[str], str | None]) -> Verdict | None:
        """Return the verdict on a profile that cannot be added; None if it can be."""
        holder = holder_of(str(written.get("schedulerName")))
        if holder is not None:
            problem = Problem(("spec", "schedulerName"), f"{holder} has this name already")
            return Verdict("Conflict", str(problem), problems=(problem,))
        if self.scheduler.spec.profile_permissions == SCORING:
            forbidden = tuple(not_permitted(written))
            if forbidden:
                message = "; ".join(map(str, forbidden))
                return Verdict("NotPermitted", message, problems=forbidden)
        # Check it together with an existing profile: all must agree in some fields.
        beside = {**self._document, "profiles": [self._document["profiles"][0], written]}
        found = tuple(
            Problem(("spec", *path[2:]) if path[:2] == ("profiles", 1) else path, message)
            for path, message, _ in check_document(json.dumps(beside), self._rules)
        )
        if found:
            return Verdict("Invalid", "; ".join(map(str, found)), problems=found)
        size = _yaml_bytes(json.dumps([written]))
        if size > MAX_PROFILE_YAML_BYTES:
            message = f"expected at most {MAX_PROFILE_YAML_BYTES} bytes as YAML, got {size}"
            problem = Problem(("spec",), message)
            return Verdict("Invalid", str(problem), problems=(problem,))
        if self._size + size > MAX_BYTES:
            return Verdict("Full", f"Scheduler {self.scheduler.key} has no room for it.")
        return None

    def _take(self, profile: SchedulingProfile, written: Json, claimed: dict[str, str]) -> None:
        name = str(written["schedulerName"])
        claimed[name] = f"SchedulingProfile {profile.key}"
        self._document["profiles"].append(written)
        self._size += _yaml_bytes(json.dumps([written]))
        self._names.append(name)
        self._taken.append(profile.key)

    def _options(self) -> RunOptions:
        """Return the options from the flags of the daemon; note problems."""
        given, problems = extra_args.read(
            self.scheduler.spec.extra_args, mounted_in(self.scheduler)
        )
        for i, problem in problems:
            self._note(("spec", "extraArgs", i), problem)
        gates = feature_gates(self.scheduler)
        try:
            return options_from_flags([*((("feature-gates", gates),) if gates else ()), *given])
        except FlagError as error:
            place = "featureGates" if "feature-gates" in str(error) else "extraArgs"
            self._note(("spec", place), str(error))
            return RunOptions()

    def _is_elected(self, options: RunOptions) -> bool:
        """Return whether replicas elect a leader; the flag overrides the configuration."""
        if options.leader_elect is not None:
            return options.leader_elect
        election = self._document["leaderElection"]
        return not isinstance(election, dict) or election["leaderElect"] is not False

    def _selector(self, name: str, written: LabelSelector | None) -> Selector:
        try:
            if written is not None:
                check_label_selector(written)
            return selector_from_label_selector(written)
        except SelectorError as problem:
            self._note(("spec", name), str(problem))
            return NOTHING

    def _note(self, path: Path, message: str) -> None:
        self._own_problems.append(Problem(path, message))


@lru_cache(maxsize=1024)
def _yaml_bytes(document: str) -> int:
    """Return the size of JSON when written as YAML; cached, as `check_document` is."""
    return len(dump(json.loads(document)).encode())


def served_by(scheduler: Scheduler) -> tuple[str, ...]:
    """Return the schedulerNames of an instance according to its status."""
    names = scheduler.status.get("schedulerNames")
    return tuple(map(str, names)) if isinstance(names, list) else ()


def name_in_force(profile: SchedulingProfile) -> str:
    """Return the schedulerName of the version in force according to the status; or empty."""
    earlier = profile.status.get("inForce")
    return str(earlier.get("schedulerName", "")) if isinstance(earlier, dict) else ""


def version_in(scheduler: Key, profile: SchedulingProfile) -> Json | None:
    """Return the version in force in an instance according to the profile's status, or None."""
    if profile.status.get("scheduler") != str(scheduler):
        return None
    found: Json | None = profile.status.get("inForce")
    return found


def _scheduler_invalid(scheduler: Scheduler, profile: SchedulingProfile) -> Verdict:
    message = f"The configuration of Scheduler {scheduler.key} itself is not valid."
    in_force = version_in(scheduler.key, profile)
    return Verdict("SchedulerInvalid", message, scheduler.key, in_force)


def feature_gates(scheduler: Scheduler) -> str:
    """Return the value of --feature-gates; empty if no gate is set."""
    gates = sorted(scheduler.spec.feature_gates.items())
    return ",".join(f"{name}={str(is_on).lower()}" for name, is_on in gates)


def _document_of(scheduler: Scheduler) -> Json:
    """Return the configuration of an instance without any SchedulingProfile."""
    spec, (namespace, name) = scheduler.spec, scheduler.key
    written = {k: v for k, v in spec.configuration.items() if k != "profiles"}
    election = written.get("leaderElection")
    if election is None or isinstance(election, dict):
        own = {"leaderElect": True, **(election or {})}
        written["leaderElection"] = {**own, "resourceName": name, "resourceNamespace": namespace}
    profiles: Sequence[Any] = spec.profiles or ({},)
    if len(profiles) == 1 and not profiles[0].get("schedulerName"):
        profiles = ({**profiles[0], "schedulerName": name},)
    head = {"apiVersion": API_VERSION, "kind": KIND}
    return {**written, **head, "profiles": [dict(profile) for profile in profiles]}


def _place(path: Path) -> Path:
    """Translate a path in the configuration into a path in the Scheduler."""
    if path[:1] == ("podGroupApis",):
        return ("spec", "extraArgs")
    return (
        ("spec", *path)
        if path[:1] in (("profiles",), ("featureGates",))
        else ("spec", "configuration", *path)
    )


def _restart(configuration: Json, wheels: Sequence[str]) -> str:
    """Compute a digest of the settings that require a restart; empty if all have defaults."""
    given = {name: configuration.get(name) for name in NEEDS_RESTART}
    fixed: Json = {name: value for name, value in given.items() if value not in _DEFAULTS}
    if wheels:
        fixed["wheels"] = wheels
    if not fixed:
        return ""
    return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()
