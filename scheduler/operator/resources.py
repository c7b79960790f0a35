"""The custom resources `Scheduler` and `SchedulingProfile`, with the default of every field.

Their schemas are in deploy/operator; a test compares both.
"""

from typing import Any, Final, NamedTuple

import msgspec
from typing_extensions import override

from scheduler.api.objects import LabelSelector

Json = dict[str, Any]
"""An object as plain JSON values."""

GROUP: Final = "stowage.dev"
VERSION: Final = "v1alpha1"
FINALIZER: Final = "stowage.dev/operator"
"""Keeps a Scheduler until its cluster-scoped objects, which have no owner, are deleted."""
ADOPT: Final = "stowage.dev/adopt"
"""An annotation of a Scheduler: with `true` it may adopt existing objects with its names."""


class Key(NamedTuple):
    """The namespace and name of an object."""

    namespace: str
    name: str

    @override
    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class _Written(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of custom resources; unknown fields, of a newer version, are ignored."""


class WheelKey(_Written, frozen=True):
    """A wheel in a ConfigMap of the Scheduler's namespace."""

    config_map: str
    key: str
    """The key in its binaryData."""


class PluginPackage(_Written, frozen=True):
    """Out-of-tree plugins: in an image, under /plugins, or in a wheel."""

    name: str
    image: str = ""
    provides: tuple[str, ...] = ()
    """The names of the plugins in the image; a wheel announces its plugins itself."""
    wheel: WheelKey | None = None


class Serving(_Written, frozen=True):
    """The certificate of the secure port, and the audiences of tokens, one of which is required."""

    secret_name: str = ""
    token_audiences: tuple[str, ...] = ()


class Monitoring(_Written, frozen=True):
    """Objects for the Prometheus operator."""

    service_monitor: bool = False
    rules: bool = False
    labels: dict[str, str] = msgspec.field(
        default_factory=lambda: {"release": "kube-prometheus-stack"}
    )


class NetworkPolicy(_Written, frozen=True):
    """The ports that the daemon may reach."""

    ports: tuple[int, ...] = (443, 6443)
    """TCP ports at any address."""


class Recordings(_Written, frozen=True):
    """The volume for recordings; without a volume no recordings are written."""

    volume: Json | None = None
    """The source of the volume, as in a pod."""


class SchedulerSpec(_Written, frozen=True):
    """The spec of an instance; None leaves the value in deploy/base."""

    replicas: int = 2
    image: str = ""
    version: str = ""
    image_pull_secrets: tuple[Json, ...] = ()
    profiles: tuple[Json, ...] = ()
    profile_selector: LabelSelector | None = None
    profile_namespace_selector: LabelSelector | None = None
    profile_permissions: str = "Scoring"
    configuration: Json = {}
    feature_gates: dict[str, bool] = {}
    plugins: tuple[PluginPackage, ...] = ()
    extra_args: tuple[str, ...] = ()
    resources: Json | None = None
    node_selector: dict[str, str] = {}
    tolerations: tuple[Json, ...] | None = None
    priority_class_name: str | None = None
    serving: Serving = Serving()
    network_policy: NetworkPolicy = NetworkPolicy()
    recordings: Recordings = Recordings()
    monitoring: Monitoring = Monitoring()


class Metadata(_Written, frozen=True):
    """The metadata of an object that the operator reads."""

    name: str
    namespace: str
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()


class Resource(_Written, frozen=True):
    """The common fields of both kinds.

    Attributes:
        metadata: the metadata of the object.
        status: the present status.
        unreadable: the reason why `spec` cannot be read and has its defaults; empty if it is read.
    """

    metadata: Metadata
    status: Json = {}
    unreadable: str = ""

    @property
    def key(self) -> Key:
        """The namespace and name of the object."""
        return Key(self.metadata.namespace, self.metadata.name)

    @property
    def age(self) -> tuple[str, Key]:
        """A sort key that puts the oldest object first: the oldest one has precedence."""
        return (self.metadata.creation_timestamp, self.key)


class Scheduler(Resource, frozen=True):
    """One instance of Stowage."""

    spec: SchedulerSpec = SchedulerSpec()

    @property
    def adopts(self) -> bool:
        """Whether the instance may adopt objects with its names that have no controller."""
        return self.metadata.annotations.get(ADOPT) == "true"

    @property
    def is_leaving(self) -> bool:
        """Whether the instance is being deleted."""
        return self.metadata.deletion_timestamp is not None


class SchedulingProfile(Resource, frozen=True):
    """One profile that a team may own; its spec is a KubeSchedulerProfile."""

    spec: Json = {}
