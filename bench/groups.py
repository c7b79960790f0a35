"""Pod groups of a workload, and the feature gates that they need."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from bench.workload import MEASURED, GroupTemplate, Workload
from e2e.support.api import Api, Call
from e2e.support.objects import Json

_VERSION: Final = "scheduling.k8s.io/v1alpha2"
_SHOWN: Final = 3
_SCHEDULED: Final[Json] = {
    "type": "PodGroupScheduled",
    "status": "True",
    "reason": "Scheduled",
    "message": "",
    "lastTransitionTime": "2020-01-01T00:00:00Z",
}


def api_server_arguments(workload: Workload) -> list[str]:
    """Return the API server flags for the workload's pod groups."""
    if workload.groups is None:
        return []
    gates = ["GenericWorkload=true"]
    if workload.groups.topology_key:
        gates.append("TopologyAwareWorkloadScheduling=true")
    return [f"--feature-gates={','.join(gates)}", f"--runtime-config={_VERSION}=true"]


def scheduler_arguments(workload: Workload) -> list[str]:
    """Return the scheduler flags for the workload's pod groups."""
    if workload.groups is None:
        return []
    gates = ["GenericWorkload=true", "GangScheduling=true"]
    if workload.groups.topology_key:
        gates.append("TopologyAwareWorkloadScheduling=true")
    return [f"--feature-gates={','.join(gates)}"]


async def create_groups(api: Api, workload: Workload, first: int, count: int) -> None:
    """Create the groups of the measured pods ``first`` to ``first + count``."""
    if workload.groups is None:
        return
    path = f"/apis/{_VERSION}/namespaces/{MEASURED}/podgroups"
    await api.create_all(path, groups_of(workload.groups, first, count))


def groups_of(template: GroupTemplate, first: int, count: int) -> Iterator[Json]:
    """Yield one group for each ``members`` pods."""
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": template.members}}}
    if template.topology_key:
        spec["schedulingConstraints"] = {"topology": [{"key": template.topology_key}]}
    last = first + count - 1
    for number in range(first // template.members, last // template.members + 1):
        yield {
            "apiVersion": _VERSION,
            "kind": "PodGroup",
            "metadata": {"name": f"group-{number}", "namespace": MEASURED},
            "spec": spec,
        }


class GroupConditions:
    """Writes each group's condition; for the wall, which only writes."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def calls(self, pod: Json) -> Iterator[Call]:
        """Yield the condition of the pod's group at the group's first pod."""
        group = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
        if group is None or group in self._told:
            return
        self._told.add(group)
        path = f"/apis/{_VERSION}/namespaces/{MEASURED}/podgroups/{group}/status"
        body = {"status": {"conditions": [_SCHEDULED]}}
        yield Call("PATCH", path, body, "application/strategic-merge-patch+json")


async def group_violations(api: Api, workload: Workload) -> tuple[str, ...]:
    """Return some groups that are bound partly, or in more than one domain."""
    if workload.groups is None:
        return ()
    pods = await api.list_items(f"/api/v1/namespaces/{MEASURED}/pods")
    nodes = await api.list_items("/api/v1/nodes")
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes}
    return tuple(islice(violations_of(workload.groups, pods, labels), _SHOWN))


def violations_of(
    template: GroupTemplate, pods: Iterable[Json], labels: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    """Yield a sentence for each group that is bound partly, or in more than one domain.

    Args:
        template: the groups.
        pods: all pods of the namespace.
        labels: node labels by node name.
    """
    places: dict[str, list[str]] = defaultdict(list)
    for pod in pods:
        group = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
        if group and (node := pod["spec"].get("nodeName")):
            places[group].append(node)
    for group, nodes in places.items():
        if len(nodes) < template.members:
            yield f"{len(nodes)} of {template.members} members of {group} are bound"
        elif template.topology_key:
            domains = {labels[node].get(template.topology_key) for node in nodes}
            if len(domains) > 1:
                yield f"{group} is in {len(domains)} domains of {template.topology_key}"
