"""The cluster a case is about, while it is being put together."""

from dataclasses import dataclass, field

from tests.parity.generator.draw import (
    HOSTNAME,
    NAMESPACE_LABELS,
    NAMESPACES,
    POD_LABELS,
    Draw,
    Object,
)

PLUGIN_ARGS = "kubescheduler.config.k8s.io/v1"


@dataclass
class Cluster:
    """Objects in the form their creators would send them, and the configuration to judge with."""

    nodes: list[Object] = field(default_factory=list)
    running: list[Object] = field(default_factory=list)
    pending: list[Object] = field(default_factory=list)
    others: list[Object] = field(default_factory=list)
    plugin_args: dict[str, Object] = field(default_factory=dict)
    """Arguments by plugin name; any entry makes the case bring a configuration."""
    profiles: list[Object] = field(default_factory=list)
    """Profiles of the configuration; empty means one default profile."""
    extenders: list[Object] = field(default_factory=list)

    def case(self) -> Object:
        """Return the case as the oracle and `stowage explain --jsonl` read it."""
        objects = [*self.others, *self.nodes, *self.running, *self.pending]
        case: Object = {"objects": objects}
        if self.plugin_args or self.profiles or self.extenders:
            case = {"config": self._config(), **case}
        return case

    def _config(self) -> Object:
        profiles = self.profiles or [{"schedulerName": "default-scheduler"}]
        shared = [
            {"name": name, "args": {"apiVersion": PLUGIN_ARGS, "kind": f"{name}Args", **args}}
            for name, args in self.plugin_args.items()
        ]
        for profile in profiles:
            own = {entry["name"] for entry in profile.get("pluginConfig", ())}
            added = [entry for entry in shared if entry["name"] not in own]
            if added:
                profile["pluginConfig"] = [*profile.get("pluginConfig", ()), *added]
        config: Object = {
            "apiVersion": PLUGIN_ARGS,
            "kind": "KubeSchedulerConfiguration",
            "profiles": profiles,
        }
        if self.extenders:
            config["extenders"] = self.extenders
        return config


def new_node(draw: Draw, name: str) -> Object:
    """Make a node that has room for a few pods."""
    labels = {HOSTNAME: name}
    if draw.maybe(0.03):
        del labels[HOSTNAME]
    elif draw.maybe(0.03):
        labels[HOSTNAME] = "shared-host"
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "50Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"allocatable": allocatable, "capacity": dict(allocatable)},
    }


def new_pod(draw: Draw, name: str) -> Object:
    """Make a pod that asks for nothing."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": draw.pick(NAMESPACES) if draw.maybe(0.4) else "default",
            "labels": draw.labels(POD_LABELS, 0.7),
        },
        "spec": {"containers": [{"name": "main", "image": "registry.example/main:1"}]},
        "status": {"phase": "Pending"},
    }


def new_namespaces(draw: Draw) -> list[Object]:
    """Make the Namespace objects; now and then one is missing, as when it is just being deleted."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": draw.labels(NAMESPACE_LABELS, 0.6)},
        }
        for name in NAMESPACES
        if not draw.maybe(0.05)
    ]


def bind(draw: Draw, pod: Object, nodes: list[Object]) -> None:
    """Put a pod on a node; a few are finished, being deleted, or on a node nobody knows."""
    names = [node["metadata"]["name"] for node in nodes]
    pod["spec"]["nodeName"] = draw.pick(names) if names and draw.maybe(0.96) else "node-gone"
    pod["status"]["phase"] = "Running"
    if draw.maybe(0.06):
        pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
        pod["metadata"]["deletionGracePeriodSeconds"] = 30
    if draw.maybe(0.04):
        pod["status"]["phase"] = draw.pick(("Succeeded", "Failed"))
