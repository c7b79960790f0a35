"""KubeSchedulerConfiguration v1 as frozen structs, with the default of every field beside it.

The written and the effective configuration have the same types: `load` returns it completed
(`defaults.py`) and checked (`validation.py`). Field names are upstream's in Python spelling; names
in files are upstream's. A duration is a float in seconds; its name ends in `seconds`.

Source: k8s.io/kube-scheduler/config/v1 types.go, k8s.io/component-base/config/v1alpha1 types.go.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec

from scheduler.config.walker import DURATION, NOT_WRITTEN

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Seconds = Annotated[float, DURATION]

DEFAULT_SCHEDULER_NAME: Final = "stowage"
"""Differs from upstream's `default-scheduler`: a profile without a name must not schedule the pods
of kube-scheduler."""

DEFAULT_LEASE_NAME: Final = "stowage"
"""Differs from upstream's `kube-scheduler`: a running kube-scheduler holds that Lease, and a second
scheduler would wait for it for ever."""

MAX_IN_UNSCHEDULABLE_SECONDS: Final = 300.0
"""Time after which an unschedulable pod is requeued without an event.

Source: pkg/scheduler/backend/queue (DefaultPodMaxInUnschedulablePodsDuration) v1.36.
"""

UNLIMITED_QPS: Final = -1.0
"""Differs from upstream's 50: the API server limits the rate by priority and fairness. In client-go
too, a negative number disables client-side rate limiting."""


class ConfigStruct(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Common settings of every configuration type."""


class ExtensionPoint(StrEnum):
    """An extension point for plugins; the value is the field name in a configuration.

    The order is upstream's order of expansion, which decides which error comes first.
    """

    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    RESERVE = "reserve"
    PRE_SCORE = "preScore"
    SCORE = "score"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PERMIT = "permit"
    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"


class LeaderElectionConfiguration(ConfigStruct, frozen=True):
    """The settings of leader election among replicas."""

    leader_elect: bool = True
    lease_duration_seconds: Seconds = msgspec.field(name="leaseDuration", default=15.0)
    renew_deadline_seconds: Seconds = msgspec.field(name="renewDeadline", default=10.0)
    retry_period_seconds: Seconds = msgspec.field(name="retryPeriod", default=2.0)
    resource_lock: str = "leases"
    resource_name: str = DEFAULT_LEASE_NAME
    resource_namespace: str = "kube-system"


class ClientConnectionConfiguration(ConfigStruct, frozen=True):
    """The settings of the connection to the API server."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/json"
    """Accepted and kept for kube-scheduler; Stowage always uses JSON."""
    qps: float = UNLIMITED_QPS
    burst: Int32 = 100


class PluginEntry(ConfigStruct, frozen=True):
    """A plugin by name, with its weight at Score; weight 0 counts as 1."""

    name: str
    weight: Int32 = 0


class PluginSet(ConfigStruct, frozen=True):
    """The plugins enabled and disabled at one extension point."""

    enabled: tuple[PluginEntry, ...] = ()
    disabled: tuple[PluginEntry, ...] = ()


class Plugins(ConfigStruct, frozen=True):
    """The plugin set of every extension point."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    def at(self, point: ExtensionPoint) -> PluginSet:
        """Return the set of one extension point, without the plugins of MultiPoint."""
        return cast("PluginSet", getattr(self, point.name.lower()))

    def names(self) -> frozenset[str]:
        """Return the names of all plugins that are enabled at any extension point."""
        sets = [self.multi_point, *(self.at(point) for point in ExtensionPoint)]
        return frozenset(plugin.name for plugin_set in sets for plugin in plugin_set.enabled)


class PluginConfig(ConfigStruct, frozen=True):
    """The arguments of one plugin."""

    name: str
    args: Any = None
    """After `load`: a value of the type that the plugin declares, else the plain value."""


ArgsT = TypeVar("ArgsT", bound=msgspec.Struct)


class KubeSchedulerProfile(ConfigStruct, frozen=True):
    """One set of plugins, and the `schedulerName` of its pods."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: Int32 | None = None
    """None: the value of the configuration applies."""
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()

    def args(self, kind: type[ArgsT]) -> ArgsT:
        """Return the arguments of a plugin by their type; its defaults if none are given."""
        name = kind.__name__.removesuffix("Args")
        for plugin_config in self.plugin_config:
            if plugin_config.name == name and isinstance(plugin_config.args, kind):
                return plugin_config.args
        return kind()

    def raw_args(self, name: str) -> Any:
        """Return the arguments of an out-of-tree plugin; None if it has none."""
        return next((c.args for c in self.plugin_config if c.name == name), None)


class ExtenderManagedResource(ConfigStruct, frozen=True):
    """An extended resource that an extender manages."""

    name: str
    ignored_by_scheduler: bool = False


class ExtenderTlsConfig(ConfigStruct, frozen=True):
    """The TLS settings of an extender; data has precedence over files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(ConfigStruct, frozen=True):
    """A webhook that filters, scores, preempts or binds. An empty verb is not called."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(name="enableHTTPS", default=False)
    tls_config: ExtenderTlsConfig | None = None
    http_timeout_seconds: Seconds = msgspec.field(name="httpTimeout", default=5.0)
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class KubeSchedulerConfiguration(ConfigStruct, frozen=True):
    """The whole configuration."""

    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: Int32 = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    """None only during `load`; the default is that of `enable_profiling`."""
    percentage_of_nodes_to_score: Int32 = 0
    """0: every node is scored."""
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
    feature_gates: Annotated[frozenset[str], NOT_WRITTEN] = frozenset()
    """The gates that are on. They are not part of the file, and plugins depend on them."""

    def plugin_names(self) -> frozenset[str]:
        """Return the names of all plugins that are enabled in any profile."""
        return frozenset().union(*(profile.plugins.names() for profile in self.profiles))
