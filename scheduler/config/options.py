"""The options of the command line of `stowage run`, and their effect on a configuration.

Field names are kube-scheduler's flag names with underscores; only this module has their defaults.
A field of None is a flag that was not given: it does not change the configuration.

Source: cmd/kube-scheduler/app/options options.go (ApplyDeprecated, ApplyLeaderElectionTo, ApplyTo),
deprecated.go; k8s.io/apiserver/pkg/server/options serving.go, authentication.go, authorization.go.
"""

from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.config.feature_gates import turned_on
from scheduler.config.load import ArgsTypes, check, default_configuration, load
from scheduler.config.plugin_sets import Implements
from scheduler.config.problems import ConfigError, Problem
from scheduler.config.source import read_file
from scheduler.config.types import MAX_IN_UNSCHEDULABLE_SECONDS, KubeSchedulerConfiguration

StructT = TypeVar("StructT", bound=msgspec.Struct)


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The values of all flags that have an effect here."""

    # Which configuration
    config: str = ""
    allow_unsupported: bool = False
    """Not in kube-scheduler: start although the configuration has unsupported features."""
    write_config_to: str = ""
    master: str = ""
    kubeconfig: str | None = None
    kube_api_qps: float | None = None
    kube_api_burst: int | None = None
    profiling: bool | None = None

    # Leader election; the rest of it is in the configuration
    leader_elect: bool | None = None
    leader_elect_lease_duration: float | None = None
    leader_elect_renew_deadline: float | None = None
    leader_elect_retry_period: float | None = None
    leader_elect_resource_lock: str | None = None
    leader_elect_resource_name: str | None = None
    leader_elect_resource_namespace: str | None = None

    # Serving
    secure_port: int = 10259
    """0: do not serve."""
    bind_address: str = "0.0.0.0"  # noqa: S104  upstream's default; probes and scrapes come from outside
    permit_port_sharing: bool = False
    cert_dir: str = ""
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls_min_version: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    serve_without_authorization: bool = False
    """Stowage only: every endpoint is served without authorization."""

    # Authentication and authorization
    client_ca_file: str = ""
    authentication_token_audiences: tuple[str, ...] = ()
    """Stowage only: accepted audiences of a client's token; empty for the API server's."""
    authentication_token_webhook_cache_ttl: float = 10.0
    requestheader_client_ca_file: str = ""
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = ("x-remote-user",)
    requestheader_group_headers: tuple[str, ...] = ("x-remote-group",)
    authorization_always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    authorization_webhook_cache_authorized_ttl: float = 10.0
    authorization_webhook_cache_unauthorized_ttl: float = 10.0

    # Queue, features, logs
    pod_max_in_unschedulable_pods_duration: float = MAX_IN_UNSCHEDULABLE_SECONDS
    feature_gates: tuple[str, ...] = ()
    """Settings as they were written."""
    pod_group_apis: tuple[str, ...] = ()
    """Not in kube-scheduler: foreign API groups whose PodGroups are read."""
    v: int = 0
    logging_format: str = "text"
    record: str = ""
    """Not in kube-scheduler: the directory for recordings of the engine's events."""
    decisions: str = ""
    """Not in kube-scheduler: the file for a line per attempt; - for standard output."""

    given: tuple[tuple[str, str], ...] = ()
    """Flags as they were written, those without effect included (`/flagz`)."""
    notices: tuple[str, ...] = ()
    """Notices about flags that have no effect, to be logged once."""


_DEPRECATED: Final = ("kube_api_qps", "kube_api_burst", "profiling")
"""Ignored when a file is given."""


def effective_configuration(
    options: RunOptions,
    out_of_tree: Implements | None = None,
    args_types: ArgsTypes | None = None,
) -> tuple[KubeSchedulerConfiguration, tuple[str, ...]]:
    """Read the configuration file of the flags, and apply the flags that may override it.

    Returns:
        The configuration, and notices about flags without effect, to be logged once.

    Raises:
        ConfigError: the file cannot be read or used.
    """
    gates = turned_on(options.feature_gates)
    if not options.config:
        default = default_configuration(feature_gates=gates)
        config = _with_leader_election(_with_deprecated(default, options), options)
        check(config, source="command line", out_of_tree=out_of_tree)
        return config, options.notices
    written = load(
        read_file(options.config),
        source=options.config,
        out_of_tree=out_of_tree,
        args_types=args_types,
        feature_gates=gates,
    )
    _check_kubeconfig(options, written)
    source = f"{options.config} and command line"
    config = with_flags(written, options, source=source, out_of_tree=out_of_tree)
    return config, (*options.notices, *_ignored(options))


def with_flags(
    written: KubeSchedulerConfiguration,
    options: RunOptions,
    *,
    source: str,
    out_of_tree: Implements | None = None,
) -> KubeSchedulerConfiguration:
    """Apply the flags that override a file, and check the result.

    Raises:
        ConfigError: the file and the flags contradict each other.
    """
    config = _with_leader_election(written, options)
    check(config, source=source, out_of_tree=out_of_tree)
    return config


def _check_kubeconfig(options: RunOptions, written: KubeSchedulerConfiguration) -> None:
    """Check that the flag and the file name the same kubeconfig.

    Differs: kube-scheduler ignores the flag, and then uses another cluster, or fails.

    Raises:
        ConfigError: the flag and the file differ.
    """
    in_file = written.client_connection.kubeconfig
    if options.kubeconfig and options.kubeconfig != in_file:
        actual = f'got "{in_file}"' if in_file else "got nothing"
        raise ConfigError(
            options.config,
            [
                Problem(
                    ("clientConnection", "kubeconfig"),
                    f'expected "{options.kubeconfig}" as in --kubeconfig, {actual}; with --config '
                    "the file says which cluster: write it there, or leave the flag out",
                )
            ],
        )


def _ignored(options: RunOptions) -> Iterator[str]:
    names = [name for name in _DEPRECATED if getattr(options, name) is not None]
    if names:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in names)
        yield f"{flags}: ignored because --config is given; the file says it"


def _with_deprecated(
    config: KubeSchedulerConfiguration, options: RunOptions
) -> KubeSchedulerConfiguration:
    connection = _replace_given(
        config.client_connection,
        kubeconfig=options.kubeconfig,
        qps=options.kube_api_qps,
        burst=options.kube_api_burst,
    )
    config = replace(config, client_connection=connection)
    return _replace_given(config, enable_profiling=options.profiling)


def _with_leader_election(
    config: KubeSchedulerConfiguration, options: RunOptions
) -> KubeSchedulerConfiguration:
    election = _replace_given(
        config.leader_election,
        leader_elect=options.leader_elect,
        lease_duration_seconds=options.leader_elect_lease_duration,
        renew_deadline_seconds=options.leader_elect_renew_deadline,
        retry_period_seconds=options.leader_elect_retry_period,
        resource_lock=options.leader_elect_resource_lock,
        resource_name=options.leader_elect_resource_name,
        resource_namespace=options.leader_elect_resource_namespace,
    )
    return replace(config, leader_election=election)


def _replace_given(value: StructT, **changes: object) -> StructT:
    """Replace the fields whose options were given, and leave the others."""
    return replace(value, **{name: item for name, item in changes.items() if item is not None})
