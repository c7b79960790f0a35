"""What a pod gets that its author left out.

Source: pkg/apis/core/v1/defaults.go (SetDefaults_Pod, SetDefaults_PodSpec, SetDefaults_Container,
SetDefaults_Probe, SetDefaults_Volume) and zz_generated.defaults.go.
"""

from collections.abc import Iterator
from typing import Final

from scheduler.sandbox.schema.codec import Object

CONTAINER_LISTS: Final = ("containers", "initContainers")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS: Final = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
_FILE_MODE: Final = 0o644
_MODE_SOURCES: Final = ("secret", "configMap", "downwardAPI", "projected")


def default_pod(pod: Object) -> None:
    """Fills in a pod, its containers and volumes."""
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in containers_of(spec):
        resources = container["resources"]
        if "limits" in resources:
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
        if spec.get("hostNetwork"):
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port.get("containerPort", 0))
    if spec.get("resources", {}).get("limits"):
        _default_pod_level_requests(spec)


def _default_pod_level_requests(spec: Object) -> None:
    resources = spec["resources"]
    if any(container["resources"].get("requests") for container in containers_of(spec)):
        # The real server takes the effective requests of the containers here. That arithmetic is
        # what the scheduler under test does itself; a second copy could only agree by accident.
        return
    resources["requests"] = {**resources["limits"], **resources.get("requests", {})}


def default_pod_spec(spec: Object) -> None:
    """Fills in what a pod template gets as well."""
    spec.setdefault("restartPolicy", "Always")
    if spec.setdefault("terminationGracePeriodSeconds", 30) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    _default_service_account(spec)
    for container in containers_of(spec):
        _default_container(container)
    for volume in spec.get("volumes", ()):
        _default_volume(volume)


def _default_service_account(spec: Object) -> None:
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def containers_of(spec: Object) -> Iterator[Object]:
    """The init containers and containers of a pod."""
    for name in CONTAINER_LISTS:
        yield from spec.get(name) or ()


def _default_container(container: Object) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for probe in (container[name] for name in _PROBES if name in container):
        for name, value in _PROBE_DEFAULTS.items():
            probe[name] = probe.get(name) or value
        if "httpGet" in probe:
            probe["httpGet"].setdefault("path", "/")
            probe["httpGet"].setdefault("scheme", "HTTP")
    for variable in container.get("env", ()):
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")


def pull_policy(image: str) -> str:
    """Always for `latest` or no tag, else IfNotPresent."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if (tag == "latest" or not tag) and not digest else "IfNotPresent"


def _default_volume(volume: Object) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for source in _MODE_SOURCES:
        if source in volume:
            volume[source].setdefault("defaultMode", _FILE_MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
