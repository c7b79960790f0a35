"""Builds the API objects of a workload."""

from collections.abc import Iterable, Iterator, Mapping
from random import Random
from string import Template
from typing import Final

import msgspec

from bench.workload import ACCESS, MEASURED, NodeTemplate, PodTemplate, Workload
from e2e.support.objects import Json, make_nodes, make_pod

SCHEDULER_NAME = "bench"
"""Scheduler name that every contestant uses, so that all start from the same pods."""

_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_TOKEN_FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path

_ZONE = "topology.kubernetes.io/zone"


class PodFactory:
    """Builds the pods of one template.

    Args:
        template: the pod template.
        nodes: node names, for templates that name one.
        prefix: prefix of all pod names.
    """

    def __init__(self, template: PodTemplate, nodes: list[str], prefix: str) -> None:
        self._numbers = template.numbers
        self._nodes = nodes
        self._name = f"{prefix}-$index"
        pod = make_pod(
            self._name,
            namespace="$namespace",
            scheduler_name=SCHEDULER_NAME,
            requests=template.requests,
            labels=template.labels,
            **template.spec,
        )
        pod = admitted(pod)
        self._waiting = _text(pod)
        self._running = _text({**pod, "spec": {**pod["spec"], "nodeName": "$here"}})

    def waiting(self, index: int, namespace: str = MEASURED) -> msgspec.Raw:
        """Return unbound pod ``index``."""
        return self._body(self._waiting, index, namespace, "")

    def running(self, index: int, namespace: str, node: str) -> msgspec.Raw:
        """Return pod ``index`` bound to ``node``."""
        return self._body(self._running, index, namespace, node)

    def _body(self, text: Template, index: int, namespace: str, here: str) -> msgspec.Raw:
        count = len(self._nodes)
        numbers = {name: number.at(index, count) for name, number in self._numbers.items()}
        filled = text.substitute(
            numbers,
            index=f"{index:06}",
            namespace=namespace,
            here=here,
            suffix=_suffix(index),
            node=self._nodes[index % count],
        )
        return msgspec.Raw(filled.encode())


def admitted(pod: Json) -> Json:
    """Return a pod as ServiceAccount, DefaultTolerationSeconds and Priority admission modify it.

    ``$suffix`` stands for the random letters in the token volume's name.
    """
    spec = pod["spec"]
    volume = "kube-api-access-$suffix"
    mount = {"name": volume, "readOnly": True, "mountPath": _TOKEN_FOLDER}
    containers = [
        {**each, "volumeMounts": [*each.get("volumeMounts", ()), mount]}
        for each in spec["containers"]
    ]
    own = spec.get("tolerations", [])
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in _TOLERATED
        if not any(each.get("key") == key for each in own)
    ]
    return {
        **pod,
        "spec": {
            **spec,
            "containers": containers,
            "volumes": [*spec.get("volumes", ()), _token_volume(volume)],
            "tolerations": [*own, *added],
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "priority": spec.get("priority", 0),
            "preemptionPolicy": "PreemptLowerPriority",
        },
    }


def _token_volume(name: str) -> Json:
    root = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": root},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
    ]
    return {"name": name, "projected": {"defaultMode": 420, "sources": sources}}


def _suffix(index: int) -> str:
    return "".join(Random(index).choices(_SUFFIX_LETTERS, k=5))


def nodes_of(template: NodeTemplate, count: int, prefix: str = "node") -> list[Json]:
    """Return ``count`` nodes."""
    return make_nodes(
        count,
        zones=template.zones,
        prefix=prefix,
        allocatable=template.allocatable,
        labels=template.labels,
        unschedulable=template.unschedulable,
    )


def namespaces_of(workload: Workload) -> Iterator[Json]:
    """Yield the namespaces that a workload needs, without the predefined ones."""
    plain: dict[str, dict[str, str]] = {ACCESS: {}, MEASURED: {}, "churn": {}, "waiting": {}}
    named = {
        name: dict(each.labels)
        for group, each in workload.namespaces.items()
        for name in namespace_names(workload, group)
    }
    for name, labels in {**plain, **named}.items():
        yield {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": labels},
        }


def namespace_names(workload: Workload, group: str) -> list[str]:
    """Return the names of one set of namespaces."""
    found = workload.namespaces.get(group)
    if found is None or found.count == 1:
        return [group]
    return [f"{group}-{number:03}" for number in range(found.count)]


def services_of(workload: Workload) -> Iterator[Json]:
    """Yield the services of a workload."""
    for number, selector in enumerate(workload.services):
        yield make_service(f"service-{number}", MEASURED, selector)


def priority_classes_of(workload: Workload) -> Iterator[Json]:
    """Yield the priority classes of a workload."""
    for name, value in workload.priority_classes.items():
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }


def make_service(name: str, namespace: str, selector: Mapping[str, str]) -> Json:
    """Return a headless service."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": "None", "selector": dict(selector), "ports": [{"port": 80}]},
    }


def running_pods(
    workload: Workload, factory: PodFactory, nodes: Iterable[Json], count: int
) -> Iterator[tuple[str, msgspec.Raw]]:
    """Yield the initially running pods with their namespaces."""
    places = [
        node["metadata"]["name"]
        for node in nodes
        if not workload.running_zones or node["metadata"]["labels"][_ZONE] in workload.running_zones
    ]
    namespaces = namespace_names(workload, workload.running_namespace)
    for index in range(count):
        namespace = namespaces[index % len(namespaces)]
        place = places[index // workload.running_block % len(places)]
        yield namespace, factory.running(index, namespace, place)


def _text(body: Json) -> Template:
    return Template(msgspec.json.encode(body).decode())
