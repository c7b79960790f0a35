"""Validation of a completed configuration.

Source: pkg/scheduler/apis/config/validation validation.go; k8s.io/component-base/config/validation;
client-go leaderelection NewLeaderElector; pkg/scheduler/profile cfgValidator.
"""

from typing import Final

from scheduler.config.args_validation import check_least, check_range, validate_args
from scheduler.config.duration import format_duration
from scheduler.config.expansion import check_expansion
from scheduler.config.names import extended_resource_error
from scheduler.config.plugin_sets import Implements, named_in_vain
from scheduler.config.problems import Path, Problems
from scheduler.config.types import (
    Extender,
    ExtensionPoint,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
)
from scheduler.config.walker import did_you_mean

_PERCENT_MAX: Final = 100

_LEASES: Final = "leases"

_RETRY_JITTER: Final = 1.2
"""Source: client-go tools/leaderelection JitterFactor."""

_REMOVED: Final = frozenset(("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"))
"""Source: invalidPluginsByVersion."""

_ALMOST: Final = 0.85
"""Least similarity of a misspelt name to a plugin's: old plugins have similar names."""

_FIT: Final = "NodeResourcesFit"


def validate(
    config: KubeSchedulerConfiguration,
    known: Implements,
    problems: Problems,
    written: KubeSchedulerConfiguration | None = None,
) -> None:
    """Validate a completed configuration.

    `written` is the configuration before completion, for positions in its lists.
    """
    check_least(config.client_connection.burst, 0, ("clientConnection", "burst"), problems)
    _leader_election(config.leader_election, ("leaderElection",), problems)
    check_least(config.parallelism, 1, ("parallelism",), problems)
    percentage = config.percentage_of_nodes_to_score
    check_range(percentage, 0, _PERCENT_MAX, ("percentageOfNodesToScore",), problems)
    _backoff(config, problems)
    for i, profile in enumerate(config.profiles):
        path: Path = ("profiles", i)
        _profile(profile, path, problems)
        _misspelt_plugins(profile, known, path, problems)
        as_written = written.profiles[i].plugins if written and written.profiles else None
        check_expansion(profile.plugins, known, (*path, "plugins"), problems, as_written)
    _distinct_names(config, problems)
    _common_queue_sort(config, known, problems)
    _extenders(config, ("extenders",), problems)


def _leader_election(config: LeaderElectionConfiguration, path: Path, problems: Problems) -> None:
    if not config.leader_elect:
        return
    lease, renew = config.lease_duration_seconds, config.renew_deadline_seconds
    retry = config.retry_period_seconds
    for name, seconds in (
        ("leaseDuration", lease),
        ("renewDeadline", renew),
        ("retryPeriod", retry),
    ):
        if seconds <= 0:
            problems.add((*path, name), f"expected more than 0s, got {format_duration(seconds)}")
    _longer(("leaseDuration", lease), 1, ("renewDeadline", renew), path, problems)
    _longer(("renewDeadline", renew), _RETRY_JITTER, ("retryPeriod", retry), path, problems)
    names = (
        ("resourceName", config.resource_name),
        ("resourceNamespace", config.resource_namespace),
    )
    for field, value in names:
        if not value:
            problems.add((*path, field), "required: a name")
    if config.resource_lock != _LEASES:
        problems.add((*path, "resourceLock"), f'expected "{_LEASES}", got "{config.resource_lock}"')


def _longer(
    longer: tuple[str, float],
    factor: float,
    shorter: tuple[str, float],
    path: Path,
    problems: Problems,
) -> None:
    """Require one duration to exceed a multiple of another; report the one in the file."""
    if longer[1] > factor * shorter[1]:
        return
    times = f"{factor} times " if factor != 1 else ""
    names = f"{longer[0]} must be more than {times}{shorter[0]}"
    values = f"got {format_duration(longer[1])} and {format_duration(shorter[1])}"
    place = (*path, longer[0])
    place = place if problems.is_written(place) else (*path, shorter[0])
    problems.add(place, f"{names}, {values}")


def _backoff(config: KubeSchedulerConfiguration, problems: Problems) -> None:
    initial, longest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    check_least(initial, 1, ("podInitialBackoffSeconds",), problems)
    if longest < initial:
        place = ("podMaxBackoffSeconds",)
        problems.add(
            place if problems.is_written(place) else ("podInitialBackoffSeconds",),
            "podMaxBackoffSeconds must be podInitialBackoffSeconds or more, "
            f"got {longest} and {initial}",
        )


def _profile(profile: KubeSchedulerProfile, path: Path, problems: Problems) -> None:
    if not profile.scheduler_name:
        problems.add((*path, "schedulerName"), "required when there are several profiles")
    percentage = profile.percentage_of_nodes_to_score
    if percentage is not None:
        check_range(percentage, 0, _PERCENT_MAX, (*path, "percentageOfNodesToScore"), problems)
    _removed_plugins(profile, path, problems)
    _plugin_config(profile, path, problems)


def _removed_plugins(profile: KubeSchedulerProfile, path: Path, problems: Problems) -> None:
    sets = [(point.value, profile.plugins.at(point)) for point in ExtensionPoint]
    for name, plugin_set in (*sets, ("multiPoint", profile.plugins.multi_point)):
        for i, plugin in enumerate(plugin_set.enabled):
            if plugin.name in _REMOVED:
                place = (*path, "plugins", name, "enabled", i, "name")
                problems.add(place, _removed(plugin.name))
    for i, config in enumerate(profile.plugin_config):
        if config.name in _REMOVED:
            problems.add((*path, "pluginConfig", i, "name"), _removed(config.name))


def _misspelt_plugins(
    profile: KubeSchedulerProfile, known: Implements, path: Path, problems: Problems
) -> None:
    """Refuse names similar to a plugin's in lists where kube-scheduler accepts any name.

    With a misspelt name a disabled plugin would run, and a configured one would have its defaults.
    """
    for place, name in named_in_vain(profile, known, path):
        guess = did_you_mean(name, known, _ALMOST, found=problems)
        if guess and name not in _REMOVED:
            problems.add(place, f'there is no plugin "{name}"{guess}')


def _removed(name: str) -> str:
    return f'"{name}" was removed from Kubernetes; NodeVolumeLimits does its work'


def _plugin_config(profile: KubeSchedulerProfile, path: Path, problems: Problems) -> None:
    enabled = profile.plugins.names()
    first: dict[str, int] = {}
    for i, config in enumerate(profile.plugin_config):
        place = (*path, "pluginConfig", i)
        if config.name in first:
            message = f'"{config.name}" is configured already at pluginConfig[{first[config.name]}]'
            problems.add((*place, "name"), message)
        first.setdefault(config.name, i)
        # kube-scheduler checks these arguments only when it builds the plugin.
        if config.name != _FIT or _FIT in enabled:
            validate_args(config.args, (*place, "args"), problems)


def _distinct_names(config: KubeSchedulerConfiguration, problems: Problems) -> None:
    first: dict[str, int] = {}
    for i, profile in enumerate(config.profiles):
        name = profile.scheduler_name
        if name in first:
            problems.add(
                ("profiles", i, "schedulerName"),
                f'"{name}" is already the name of profiles[{first[name]}]',
            )
        first.setdefault(name, i)


def _common_queue_sort(
    config: KubeSchedulerConfiguration, known: Implements, problems: Problems
) -> None:
    """Check that all profiles sort the queue the same way: there is only one queue."""
    if not config.profiles:
        return
    leading = config.profiles[0]
    length = len(leading.plugins.queue_sort.enabled)
    if length > 1:
        place = ("profiles", 0, "plugins", "queueSort", "enabled")
        problems.add(place, f"expected one plugin at most, got {length}")
    sorters = _queue_sorters(leading, known)
    for i, profile in enumerate(config.profiles[1:], start=1):
        path = ("profiles", i)
        same_set = profile.plugins.queue_sort == leading.plugins.queue_sort
        if not same_set or _queue_sorters(profile, known) != sorters:
            problems.add((*path, "plugins", "queueSort"), "expected the same as in profiles[0]")
        for name in sorters:
            if profile.raw_args(name) != leading.raw_args(name):
                position = [c.name for c in profile.plugin_config]
                at = (*path, "pluginConfig", position.index(name)) if name in position else path
                problems.add(at, f'expected the same arguments for "{name}" as in profiles[0]')


def _queue_sorters(profile: KubeSchedulerProfile, known: Implements) -> tuple[str, ...]:
    expansion = check_expansion(profile.plugins, known, (), Problems())
    return tuple(name for name, _ in expansion[ExtensionPoint.QUEUE_SORT])


def _extenders(config: KubeSchedulerConfiguration, path: Path, problems: Problems) -> None:
    managed: dict[str, Path] = {}
    binders: list[int] = []
    for i, extender in enumerate(config.extenders):
        place = (*path, i)
        if extender.prioritize_verb and extender.weight <= 0:
            problems.add(
                (*place, "weight"),
                f"expected 1 or more because prioritizeVerb is set, got {extender.weight}",
            )
        if extender.http_timeout_seconds < 0:
            # Differs: in Go's http.Client it means no limit, and an attempt could hang for ever.
            got = format_duration(extender.http_timeout_seconds)
            message = f"expected more than 0s, or 0s for the default, got {got}"
            problems.add((*place, "httpTimeout"), message)
        if extender.bind_verb:
            binders.append(i)
            if len(binders) > 1:
                message = f"only one extender may bind, extenders[{binders[0]}] does already"
                problems.add((*place, "bindVerb"), message)
        _managed_resources(extender, place, managed, problems)
    _ignored_resources(config, path, problems)


def _managed_resources(
    extender: Extender, path: Path, managed: dict[str, Path], problems: Problems
) -> None:
    for i, resource in enumerate(extender.managed_resources):
        place = (*path, "managedResources", i, "name")
        error = extended_resource_error(resource.name)
        if error is not None:
            problems.add(place, error)
        if resource.name in managed:
            problems.add(place, f'"{resource.name}" is managed already by another entry')
        managed.setdefault(resource.name, place)


def _ignored_resources(config: KubeSchedulerConfiguration, path: Path, problems: Problems) -> None:
    """Require that NodeResourcesFit ignores an ignored resource in every profile."""
    ignored = [
        (*path, i, "managedResources", j, "ignoredByScheduler")
        for i, extender in enumerate(config.extenders)
        for j, resource in enumerate(extender.managed_resources)
        if resource.ignored_by_scheduler
    ]
    for profile in config.profiles:
        if ignored and all(c.name != _FIT for c in profile.plugin_config):
            problems.add(
                ignored[0],
                f"needs {_FIT}, which profile {profile.scheduler_name} neither enables nor "
                "configures",
            )
