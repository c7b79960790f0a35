"""The pods of hand-written workloads, as their controllers would create them.

Source: kubernetes pkg/controller (deployment, replicaset, statefulset, job, cronjob, daemon) and
pkg/controller/daemon/util/daemonset_util.go (AddOrUpdateDaemonPodTolerations,
ReplaceDaemonSetPodNodeNameNodeAffinity) v1.36.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.api.objects import Node, PodSpec
from scheduler.api.taints import Tolerations
from scheduler.errors import SchedulerError
from scheduler.kernel.plugins.node_predicates import (
    has_untolerated_taint,
    required_node_affinity_of,
)

Object: TypeAlias = dict[str, Any]

MAX_PODS: Final = 100_000
"""Most pods of one workload."""

_DAEMON_TOLERATIONS: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
WORKLOAD_APIS: Final = {
    "CronJob": "batch/v1",
    "DaemonSet": "apps/v1",
    "Deployment": "apps/v1",
    "Job": "batch/v1",
}
"""The API of each workload that scheduling itself does not read."""

_HOST_NETWORK_TOLERATION: Final = ("node.kubernetes.io/network-unavailable", "NoSchedule")


class WorkloadError(SchedulerError):
    """A workload whose pods cannot be built; the message names the field."""


def is_workload(raw: Mapping[str, Any]) -> bool:
    """Whether an object stands for pods that do not exist yet.

    An object from an API server does not: its controllers have created the pods.
    """
    metadata = raw.get("metadata")
    is_written = isinstance(metadata, Mapping) and bool(metadata.get("uid"))
    return raw.get("kind") in _MAKERS and not is_written


def pods_of(raw: Mapping[str, Any], nodes: Iterable[Node]) -> Iterator[Object]:
    """Yield the objects that a workload's controller creates: pods, and objects they depend on.

    A DaemonSet has a pod on each of the nodes that it may use.

    Raises:
        WorkloadError: a field that pods are made from is missing or wrong.
        ValidationError: the template of a DaemonSet is no specification of a pod.
    """
    if raw["kind"] == "DaemonSet":
        yield from _daemon_pods(raw, nodes)
    else:
        yield from _MAKERS[raw["kind"]](raw)


def _daemon_template(raw: Mapping[str, Any]) -> Object:
    """Build a pod of a DaemonSet without a node, by which nodes are checked."""
    pod = _pod(raw, raw, raw["metadata"]["name"])
    spec = pod["spec"]
    added = list(_DAEMON_TOLERATIONS)
    if spec.get("hostNetwork"):
        added.append(_HOST_NETWORK_TOLERATION)
    tolerations = [
        *_items(spec, "tolerations"),
        *({"key": key, "operator": "Exists", "effect": effect} for key, effect in added),
    ]
    return {**pod, "spec": {**spec, "tolerations": tolerations}}


# --- controllers ----------------------------------------------------------------------------------


def _deployment(raw: Mapping[str, Any]) -> Iterator[Object]:
    """Yield a ReplicaSet and its pods: default spread constraints use its selector."""
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {**_meta(raw), "uid": _uid(raw)},
        "spec": {"selector": _spec(raw).get("selector")},
    }
    yield replica_set
    yield from _replicas(raw, replica_set)


def _replica_set(raw: Mapping[str, Any]) -> Iterator[Object]:
    yield from _replicas(raw, raw)


def _stateful_set(raw: Mapping[str, Any]) -> Iterator[Object]:
    spec, name = _spec(raw), raw["metadata"]["name"]
    start = _number(_mapping(spec, "ordinals"), "start", 0, "spec.ordinals.")
    for index in range(start, start + _number(spec, "replicas", 1)):
        pod = _pod(raw, raw, f"{name}-{index}")
        pod["metadata"]["labels"] |= {
            "apps.kubernetes.io/pod-index": str(index),
            "statefulset.kubernetes.io/pod-name": pod["metadata"]["name"],
        }
        volumes = []
        for template in _items(spec, "volumeClaimTemplates"):
            volume = _mapping(template, "metadata").get("name", "")
            claim = f"{volume}-{pod['metadata']['name']}"
            meta = {"name": claim, "namespace": raw["metadata"].get("namespace", "")}
            yield {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": meta,
                "spec": template.get("spec"),
            }
            volumes.append({"name": volume, "persistentVolumeClaim": {"claimName": claim}})
        taken = {volume["name"] for volume in volumes}
        kept = [v for v in _items(pod["spec"], "volumes") if v.get("name") not in taken]
        if volumes:
            pod["spec"] = {**pod["spec"], "volumes": [*kept, *volumes]}
        yield pod


def _job(raw: Mapping[str, Any]) -> Iterator[Object]:
    spec, name = _spec(raw), raw["metadata"]["name"]
    if spec.get("suspend"):
        return
    parallelism = _number(spec, "parallelism", 1)
    count = min(parallelism, _number(spec, "completions", parallelism))
    for index in range(count):
        pod = _pod(raw, raw, f"{name}-{index}")
        labels = pod["metadata"]["labels"]
        labels |= {"batch.kubernetes.io/job-name": name, "job-name": name}
        if spec.get("completionMode") == "Indexed":
            labels["batch.kubernetes.io/job-completion-index"] = str(index)
        yield pod


def _cron_job(raw: Mapping[str, Any]) -> Iterator[Object]:
    """Yield the pods of one run of a CronJob."""
    if _spec(raw).get("suspend"):
        return
    template = _mapping(_spec(raw), "jobTemplate")
    meta = {**_mapping(template, "metadata"), **_meta(raw)}
    yield from _job({"kind": "Job", "metadata": meta, "spec": template.get("spec")})


def _daemon_pods(raw: Mapping[str, Any], nodes: Iterable[Node]) -> Iterator[Object]:
    template = _daemon_template(raw)
    for node in _nodes_for(template, nodes):
        name = node.metadata.name
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        affinity = _mapping(template["spec"], "affinity")
        pinned = {
            **affinity,
            "nodeAffinity": {
                **_mapping(affinity, "nodeAffinity"),
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            },
        }
        metadata = {**template["metadata"], "name": f"{raw['metadata']['name']}-{name}"}
        yield {**template, "metadata": metadata, "spec": {**template["spec"], "affinity": pinned}}


def _nodes_for(template: Object, nodes: Iterable[Node]) -> Iterator[Node]:
    spec = msgspec.convert(template["spec"], PodSpec)
    affinity = required_node_affinity_of(spec)
    tolerations = Tolerations(spec.tolerations)
    for node in nodes:
        is_tolerated = not has_untolerated_taint(node.spec.taints, tolerations)
        if is_tolerated and affinity.matches_node(node):
            yield node


_MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Iterator[Object]]]] = {
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "ReplicationController": _replica_set,
    "StatefulSet": _stateful_set,
    "Job": _job,
    "CronJob": _cron_job,
    "DaemonSet": lambda raw: _daemon_pods(raw, ()),
}


# --- parts ----------------------------------------------------------------------------------------


def _replicas(raw: Mapping[str, Any], owner: Mapping[str, Any]) -> Iterator[Object]:
    name = raw["metadata"]["name"]
    for index in range(_number(_spec(raw), "replicas", 1)):
        yield _pod(raw, owner, f"{name}-{index}")


def _pod(raw: Mapping[str, Any], owner: Mapping[str, Any], name: str) -> Object:
    template = _spec(raw).get("template")
    if not isinstance(template, Mapping) or not isinstance(template.get("spec"), Mapping):
        raise WorkloadError("spec.template.spec: required")
    metadata = _mapping(template, "metadata")
    reference = {
        "apiVersion": owner.get("apiVersion", "v1"),
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": _uid(owner),
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "name": name,
            "namespace": raw["metadata"].get("namespace", ""),
            "labels": {**_mapping(metadata, "labels")},
            "ownerReferences": [reference],
        },
        "spec": dict(template["spec"]),
    }


def _meta(raw: Mapping[str, Any]) -> Object:
    metadata = raw["metadata"]
    return {key: metadata[key] for key in ("name", "namespace", "labels") if key in metadata}


def _uid(raw: Mapping[str, Any]) -> str:
    metadata = raw["metadata"]
    return str(metadata.get("uid") or f"{metadata.get('namespace', '')}/{metadata['name']}")


def _spec(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(raw, "spec")


def _mapping(raw: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    found = raw.get(field)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise WorkloadError(f"{field}: expected a mapping, got {found!r}")
    return found


def _items(raw: Mapping[str, Any], field: str) -> list[Any]:
    found = raw.get(field) or []
    if not isinstance(found, list) or not all(isinstance(item, Mapping) for item in found):
        raise WorkloadError(f"{field}: expected a list of mappings, got {found!r}")
    return found


def _number(raw: Mapping[str, Any], field: str, default: int, path: str = "spec.") -> int:
    found = raw.get(field)
    if found is None:
        return default
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= MAX_PODS:
        expected = f"expected a whole number from 0 to {MAX_PODS}"
        raise WorkloadError(f"{path}{field}: {expected}, got {found!r}")
    return found
