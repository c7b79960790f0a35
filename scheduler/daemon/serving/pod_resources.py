"""Writes requests and limits of every pod of the cluster as metrics: /metrics/resources.

Source: pkg/scheduler/metrics/resources/resources.go v1.36 (names, labels, units). Differs: amounts
are those that scheduling counts, so CPU is rounded up to a thousandth of a core.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.api.pods import PodInfo
from scheduler.api.resources import CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY

LIMIT: Final = "kube_pod_resource_limit"
REQUEST: Final = "kube_pod_resource_request"
_FAMILIES: Final = ((LIMIT, "may use at most"), (REQUEST, "requests"))
"""Names of the metrics, and the verb in their help texts."""
_SLICE_BYTES: Final = 2**15
"""Size of a slice of text, which takes about a millisecond."""
_POD_BYTES: Final = 16
"""Size added for each pod: a pod without series takes time too."""

_MILLI: Final = 1000


def pod_resource_slices(pods: Mapping[str, PodInfo]) -> Iterator[bytes]:
    """Yield the metrics of all pods as text, in slices; `pods` may change between them.

    `pods` has all non-terminal pods of the cluster, by any key.
    """
    for name, what in _FAMILIES:
        header = (
            f"# HELP {name} What a pod {what}, by resource, with the unit if there is one.\n"
            f"# TYPE {name} gauge\n"
        )
        slice_, size = [header], 0
        for key in list(pods):
            pod = pods.get(key)
            if pod is None:
                continue
            size += _POD_BYTES
            for line in _lines(name, pod):
                slice_.append(line)
                size += len(line)
            if size >= _SLICE_BYTES:
                yield "".join(slice_).encode()
                slice_, size = [], 0
        yield "".join(slice_).encode()


def _lines(name: str, pod: PodInfo) -> Iterator[str]:
    shape = pod.shape
    amounts = shape.limits if name == LIMIT else shape.requests
    priority = pod.spec.priority
    labels = (
        f'namespace="{_escaped(pod.namespace)}",node="{_escaped(pod.node_name)}",'
        f'pod="{_escaped(pod.name)}",priority="{"" if priority is None else priority}"'
    )
    scheduler = _escaped(pod.spec.scheduler_name)
    for resource, amount in amounts.items():
        if amount:
            value = amount / _MILLI if resource == CPU else float(amount)
            yield (
                f'{name}{{{labels},resource="{_escaped(resource)}",scheduler="{scheduler}",'
                f'unit="{_unit(resource)}"}} {value!r}\n'
            )


def _unit(resource: str) -> str:
    if resource == CPU:
        return "cores"
    if resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith(HUGEPAGES_PREFIX):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
