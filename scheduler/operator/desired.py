"""Builds the objects of an instance from those of deploy/base, with its names and its spec.

Pure. The manifests in the package are those of deploy/: there is one source.
"""

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

import yaml
from typing_extensions import override

from scheduler.operator.drafts import feature_gates
from scheduler.operator.mounts import PLUGINS, RECORDINGS, SERVING
from scheduler.operator.plans import Configuration
from scheduler.operator.resources import GROUP, VERSION, Json, Key, PluginPackage, Scheduler

MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "stowage-operator"}
"""A label of all objects that the operator creates."""
RESTART: Final = "stowage.dev/restarts-for"
"""An annotation of pods: a digest of the configuration and plugins that require a restart."""

_BASE: Final = (
    "rbac.yaml",
    "service.yaml",
    "poddisruptionbudget.yaml",
    "networkpolicy.yaml",
    "deployment.yaml",
)
_NAME: Final = "stowage"
_CONFIG_KEY: Final = "config.yaml"
"""The name of all objects in deploy/."""


class Reference(NamedTuple):
    """A reference to an object: API version, kind, namespace and name."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @override
    def __str__(self) -> str:
        return " ".join((self.kind, "/".join(filter(None, (self.namespace, self.name)))))


def reference(written: Json) -> Reference:
    """Return the reference of an object."""
    metadata = written["metadata"]
    return Reference(
        written["apiVersion"], written["kind"], metadata.get("namespace", ""), metadata["name"]
    )


def desired(scheduler: Scheduler, configuration: Configuration, image: str) -> list[Json]:
    """Build all objects of an instance, in the order of their creation.

    Args:
        scheduler: the instance.
        configuration: its planned configuration; without a text, the ConfigMap and the Deployment
            do not change and are not among the objects.
        image: the image for an instance without one in its spec.
    """
    made = [_named(each, scheduler) for name in _files(scheduler) for each in _manifests(name)]
    if configuration.text is not None:
        data = {_CONFIG_KEY: configuration.text}
        made.insert(0, {**_named(_config_map(), scheduler), "data": data})
    for each in made:
        if each["kind"] == "Deployment":
            _configure_deployment(each, scheduler, configuration, image)
        elif each["kind"] == "NetworkPolicy":
            _configure_policy(each, scheduler)
        elif each["kind"] == "ServiceMonitor":
            _configure_monitor(each, scheduler)
        elif each["kind"] == "PrometheusRule":
            _configure_rules(each, scheduler)
    return [each for each in made if each["kind"] != "Deployment" or configuration.text is not None]


def unwanted(scheduler: Scheduler) -> list[Reference]:
    """Return the objects to delete, which may exist because of an earlier spec."""
    names = {"servicemonitor.yaml", "prometheusrule.yaml"} - set(_files(scheduler))
    return [reference(_named(each, scheduler)) for name in names for each in _manifests(name)]


def without_owner(scheduler: Scheduler) -> list[Reference]:
    """Return the cluster-scoped objects, which only the finalizer can delete."""
    made = [reference(_named(each, scheduler)) for each in _manifests("rbac.yaml")]
    return [each for each in made if not each.namespace]


def deployment_of(scheduler: Scheduler) -> Reference:
    """Return the reference of the Scheduler's Deployment."""
    [written] = _manifests("deployment.yaml")
    return reference(_named(written, scheduler))


def config_map_of(scheduler: Scheduler) -> Reference:
    """Return the reference of the ConfigMap with the Scheduler's configuration."""
    return reference(_named(_config_map(), scheduler))


def has_configuration(config_map: Json | None, text: str) -> bool:
    """Return whether the ConfigMap of a Scheduler has this configuration."""
    return ((config_map or {}).get("data") or {}).get(_CONFIG_KEY) == text


# --- names --------------------------------------------------------------------------------------


def _files(scheduler: Scheduler) -> tuple[str, ...]:
    monitoring = scheduler.spec.monitoring
    return (
        *_BASE,
        *(("servicemonitor.yaml",) if monitoring.service_monitor else ()),
        *(("prometheusrule.yaml",) if monitoring.rules else ()),
    )


@cache
def _parsed(name: str) -> tuple[Json, ...]:
    text = (files("scheduler.operator") / "manifests" / name).read_text("utf-8")
    return tuple(yaml.safe_load_all(text))


def _manifests(name: str) -> list[Json]:
    return deepcopy(list(_parsed(name)))


def _config_map() -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{_NAME}-config"}}


def _labels(scheduler: Scheduler) -> dict[str, str]:
    """Return the labels that select the instance's pods, as kustomize adds them."""
    return {
        "app.kubernetes.io/name": scheduler.metadata.name,
        "app.kubernetes.io/component": "scheduler",
    }


def _named(written: Json, scheduler: Scheduler) -> Json:
    """Rename an object for an instance: its owner, its selectors and its references."""
    namespace, name = scheduler.key
    labels = _labels(scheduler)
    metadata = written["metadata"]
    metadata["labels"] = {**metadata.get("labels", {}), **labels, **MANAGED_BY}
    if written["kind"].startswith("Cluster"):
        metadata["name"] = _global_name(scheduler.key, metadata["name"])
    else:
        metadata["name"] = metadata["name"].replace(_NAME, name, 1)
        metadata["namespace"] = namespace
        metadata["ownerReferences"] = [_owner(scheduler)]
    _select(written.get("spec"), labels)
    if written["kind"] == "Service":
        written["spec"]["selector"] = labels
    if "roleRef" in written:
        role = written["roleRef"]
        is_global = role["kind"] == "ClusterRole"
        role["name"] = (
            _global_name(scheduler.key, role["name"])
            if is_global
            else role["name"].replace(_NAME, name, 1)
        )
        for subject in written["subjects"]:
            subject.update(name=name, namespace=namespace)
    for rule in written.get("rules", ()):
        if "resourceNames" in rule:
            rule["resourceNames"] = [name]
    return written


def _global_name(key: Key, name: str) -> str:
    """Return a name unique among instances: names of namespaces and Schedulers have no colon."""
    suffix = name.removeprefix(_NAME).removeprefix("-")
    return ":".join(filter(None, (_NAME, *key, suffix)))


def _owner(scheduler: Scheduler) -> Json:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Scheduler",
        "name": scheduler.metadata.name,
        "uid": scheduler.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _select(value: Any, labels: dict[str, str]) -> None:
    """Make every selector of pods select the instance's pods."""
    if isinstance(value, list):
        for item in value:
            _select(item, labels)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name == "matchLabels" and item.get("app.kubernetes.io/name") == _NAME:
                value[name] = labels
            else:
                _select(item, labels)


# --- values from the spec -----------------------------------------------------------------------


def _configure_deployment(
    written: Json, scheduler: Scheduler, configuration: Configuration, image: str
) -> None:
    spec, labels = scheduler.spec, _labels(scheduler)
    template = written["spec"]["template"]
    template["metadata"] = {"labels": labels}
    if configuration.restart:
        template["metadata"]["annotations"] = {RESTART: configuration.restart}
    written["spec"].update(replicas=spec.replicas, selector={"matchLabels": labels})
    if not configuration.is_elected:
        # A new pod would schedule beside the old one.
        written["spec"]["strategy"]["rollingUpdate"] = {"maxUnavailable": 1, "maxSurge": 0}
    pod = template["spec"]
    pod["serviceAccountName"] = scheduler.metadata.name
    [volume] = pod["volumes"]
    volume["configMap"]["name"] = f"{scheduler.metadata.name}-config"
    given = {
        "priorityClassName": spec.priority_class_name,
        "tolerations": None if spec.tolerations is None else list(spec.tolerations),
        "nodeSelector": spec.node_selector or None,
        "imagePullSecrets": list(spec.image_pull_secrets) or None,
    }
    pod.update({name: value for name, value in given.items() if value is not None})
    [container] = pod["containers"]
    container["image"] = image_of(scheduler, image)
    if spec.resources is not None:
        container["resources"] = spec.resources
    container["args"] += _arguments(scheduler)
    if spec.plugins:
        _add_plugins(pod, spec.plugins)
    if spec.serving.secret_name:
        _add_certificate(pod, spec.serving.secret_name)
    if spec.recordings.volume:
        _add_recordings(pod, spec.recordings.volume)


def image_of(scheduler: Scheduler, default: str) -> str:
    """Return the image of an instance; `version` replaces the tag of the default image."""
    spec = scheduler.spec
    if spec.image or not spec.version:
        return spec.image or default
    repository, colon, tag = default.partition("@")[0].rpartition(":")
    # A colon before a slash precedes the port of a registry, not a tag.
    bare = repository if colon and "/" not in tag else default.partition("@")[0]
    return f"{bare}:{spec.version}"


def _arguments(scheduler: Scheduler) -> list[str]:
    spec = scheduler.spec
    gates, audiences = feature_gates(scheduler), ",".join(spec.serving.token_audiences)
    return [
        *([f"--feature-gates={gates}"] if gates else ()),
        *(
            [f"--tls-cert-file={SERVING}/tls.crt", f"--tls-private-key-file={SERVING}/tls.key"]
            if spec.serving.secret_name
            else ()
        ),
        *([f"--authentication-token-audiences={audiences}"] if audiences else ()),
        *([f"--record={RECORDINGS}"] if spec.recordings.volume else ()),
        *spec.extra_args,
    ]


def _add_plugins(pod: Json, packages: Sequence[PluginPackage]) -> None:
    """Mount packages of plugins and add them to Python's path; the image has no shell for pip."""
    [container] = pod["containers"]
    found_in = []
    for each in packages:
        volume = f"plugins-{each.name}"
        mount: Json = {"name": volume, "readOnly": True}
        if each.wheel is None:
            place = f"{PLUGINS}/{each.name}"
            pod["volumes"].append({"name": volume, "image": {"reference": each.image}})
            found_in.append(f"{place}{PLUGINS}")
        else:
            place = f"{PLUGINS}/{each.name}.whl"
            pod["volumes"].append({"name": volume, "configMap": {"name": each.wheel.config_map}})
            # With a subPath the file does not change while the process imports from it.
            mount["subPath"] = each.wheel.key
            found_in.append(place)
        container["volumeMounts"].append({**mount, "mountPath": place})
    container["env"] = [{"name": "PYTHONPATH", "value": ":".join(found_in)}]


def _add_certificate(pod: Json, secret: str) -> None:
    _share(pod)
    pod["volumes"].append(
        {"name": "serving", "secret": {"secretName": secret, "defaultMode": 0o440}}
    )
    [container] = pod["containers"]
    container["volumeMounts"].append({"name": "serving", "mountPath": SERVING, "readOnly": True})


def _add_recordings(pod: Json, volume: Json) -> None:
    _share(pod)
    pod["volumes"].append({"name": "recordings", **volume})
    [container] = pod["containers"]
    container["volumeMounts"].append({"name": "recordings", "mountPath": RECORDINGS})


def _share(pod: Json) -> None:
    """Give volumes to the group of the process."""
    pod["securityContext"]["fsGroup"] = pod["securityContext"]["runAsGroup"]


def _configure_policy(written: Json, scheduler: Scheduler) -> None:
    _, reached = written["spec"]["egress"]
    ports = scheduler.spec.network_policy.ports
    reached["ports"] = [{"protocol": "TCP", "port": port} for port in ports]


def _configure_monitor(written: Json, scheduler: Scheduler) -> None:
    namespace, name = scheduler.key
    written["metadata"]["labels"].update(scheduler.spec.monitoring.labels)
    for endpoint in written["spec"]["endpoints"]:
        tls = endpoint["tlsConfig"]
        tls["ca"]["secret"]["name"] = scheduler.spec.serving.secret_name
        tls["serverName"] = f"{name}-metrics.{namespace}.svc"


def _configure_rules(written: Json, scheduler: Scheduler) -> None:
    written["metadata"]["labels"].update(scheduler.spec.monitoring.labels)
    namespace, name = scheduler.key
    for group in written["spec"]["groups"]:
        for rule in group["rules"]:
            # Instances of one name in two namespaces have the same job.
            own = f'job="{name}", namespace="{namespace}"'
            rule["expr"] = rule["expr"].replace(f'job="{_NAME}"', own)
            told = rule["annotations"]
            told["runbook"] = told["runbook"].replace(f"-n {_NAME} ", f"-n {namespace} ")
