"""Workloads: what a benchmark creates, as data files in the manner of scheduler_perf.

Each YAML file in ``workloads/`` holds a list of workloads; the fields are those of ``Workload``.
Text in templates may name ``$index`` (the pod's number), ``$node`` (a node, each in turn) and the
workload's own ``numbers``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec
import yaml

FOLDER = Path(__file__).parent / "workloads"

SHORT = "short"
"""Name of the size that is for trying out, not for figures."""

MEASURED = "measured"
"""The namespace whose bindings count."""

ACCESS = "contestants"
"""The namespace of the service account that contestants are."""

StorageKind = Literal["local", "made"]

Positive = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class WorkloadError(ValueError):
    """A workload file cannot be read, or a workload that is asked for does not exist."""


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Common settings of everything in a workload file."""


class Size(Form, frozen=True):
    """How much of everything.

    Attributes:
        nodes: nodes of the cluster.
        pods: pods whose binding is measured.
        running: pods like the measured ones that have a node from the start.
        waiting: pods of the ``waiting`` template that no scheduler can place.
        bound: claims with their volumes that no measured pod uses.
    """

    nodes: Positive
    pods: Positive
    running: Count = 0
    waiting: Count = 0
    bound: Count = 0


class Number(Form, frozen=True):
    """A number that varies from pod to pod: ``start + step * ((index // every) % cycle)``.

    Attributes:
        every: how many pods in a row share it; ``nodes`` is as many as there are nodes.
        cycle: after how many values it starts again; 0 is never.
    """

    start: int = 0
    step: int = 1
    every: Positive | Literal["nodes"] = 1
    cycle: Count = 0

    def at(self, index: int, nodes: int) -> int:
        """Gives the value for pod ``index`` in a cluster of ``nodes``."""
        turn = index // (nodes if self.every == "nodes" else self.every)
        return self.start + self.step * (turn % self.cycle if self.cycle else turn)


class PodTemplate(Form, frozen=True):
    """Pods with one container that pauses.

    Attributes:
        labels: of the pods.
        requests: of the container.
        spec: further fields of the specification, in the API's spelling.
        numbers: what varies from pod to pod, by the name templates call it.
    """

    labels: Mapping[str, str] = {}
    requests: Mapping[str, str] = {}
    spec: Mapping[str, Any] = {}
    numbers: Mapping[str, Number] = {}


class NodeTemplate(Form, frozen=True):
    """Nodes of 4 CPUs, 32 GiB and 110 pods, zones in turn.

    Attributes:
        zones: how many zones there are.
        allocatable: further or other resources.
        labels: further labels.
        unschedulable: whether they are cordoned.
    """

    zones: Positive = 3
    allocatable: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    unschedulable: bool = False


class NamespaceSet(Form, frozen=True):
    """Namespaces with equal labels."""

    count: Positive = 1
    labels: Mapping[str, str] = {}


class Churn(Form, frozen=True):
    """What happens beside the scheduling of the measured pods, at each tick.

    Attributes:
        every_seconds: time between ticks.
        recreate: whether a tick deletes what the one before created.
        pod: create one such pod.
        node: create one such node.
        service: create a service.
        delete_waiting: delete one of the waiting pods.
    """

    every_seconds: Seconds
    recreate: bool = False
    pod: PodTemplate | None = None
    node: NodeTemplate | None = None
    service: bool = False
    delete_waiting: bool = False


class OfferedLoad(Form, frozen=True):
    """Pods created at a fixed rate, to measure the time from creation to bind.

    Attributes:
        pods_per_second: the rate, the same for every scheduler.
        half: whether to measure each scheduler at half of its own throughput too.
    """

    pods_per_second: Annotated[float, msgspec.Meta(gt=0)]
    half: bool = False


class DeviceTemplate(Form, frozen=True):
    """Devices of every node, and what each measured pod claims of them.

    Attributes:
        claim: what a claim says of devices, in the API's spelling.
        each: devices a node.
        partitions: whether they are a card and the parts of it, of which either may be had.
    """

    claim: Mapping[str, Any]
    each: Positive = 8
    partitions: bool = False


class GroupTemplate(Form, frozen=True):
    """Pod groups of the measured pods, which name theirs ``group-$group``.

    Attributes:
        members: pods of a group, all of which it takes.
        topology_key: a label of nodes whose values each group keeps to one of.
    """

    members: Positive
    topology_key: str = ""


class Workload(Form, frozen=True):
    """One line of the benchmark's table.

    Attributes:
        name: how the command line calls it.
        title: how tables call it.
        family: which target applies.
        sizes: amounts, by the name of the size.
        pods: the measured pods, and those that run from the start.
        nodes: the cluster's nodes.
        namespaces: namespaces to create; ``measured`` always exists.
        running_pods: the pods that run from the start, where they are unlike the measured ones.
        priority_classes: values by name.
        running_namespace: where the running pods are, each namespace of the set in turn.
        running_block: how many running pods in a row share a node.
        running_zones: the zones the running pods are in; all when empty.
        services: selectors of services in the namespace ``measured``.
        waiting: pods that wait and cannot be placed.
        storage: where the volumes of the claims come from that the measured pods name: ``local``
            ones are there, on a node each, others are ``made`` for the node that is selected; what
            runs from the start has no claims.
        devices: the devices of the nodes, and the claims that the measured pods name; what runs
            from the start has none.
        groups: the pod groups of the measured pods; what runs from the start has none.
        churn: what goes on beside.
        patience_seconds: after how long a contestant is stopped; its figures are of what it did.
        latency: the offered load; none measures no latency.
        wall: whether to measure raw binding too.
        short: whether the short form of the benchmark includes it.
        decisions: how many the benchmark of decisions times; with 0 it leaves the workload out.
    """

    name: str
    title: str
    family: str
    sizes: Mapping[str, Size]
    pods: PodTemplate
    nodes: NodeTemplate = NodeTemplate()
    namespaces: Mapping[str, NamespaceSet] = {}
    running_pods: PodTemplate | None = None
    priority_classes: Mapping[str, int] = {}
    running_namespace: str = MEASURED
    running_block: Positive = 1
    running_zones: tuple[str, ...] = ()
    services: tuple[Mapping[str, str], ...] = ()
    waiting: PodTemplate | None = None
    storage: StorageKind | None = None
    devices: DeviceTemplate | None = None
    groups: GroupTemplate | None = None
    churn: tuple[Churn, ...] = ()
    patience_seconds: Seconds = 1200
    latency: OfferedLoad | None = None
    wall: bool = False
    short: bool = False
    decisions: Count = 2000

    @property
    def running_template(self) -> PodTemplate:
        """What runs from the start."""
        if self.running_pods is not None:
            return self.running_pods
        if self.storage is None and self.devices is None and self.groups is None:
            return self.pods
        return msgspec.structs.replace(self.pods, spec={})

    def at_most(self, pods: int | None) -> Self:
        """Gives the workload with at most so many measured pods in every size."""
        if pods is None:
            return self
        sizes = {
            name: msgspec.structs.replace(size, pods=min(pods, size.pods))
            for name, size in self.sizes.items()
        }
        return msgspec.structs.replace(self, sizes=sizes)


def load_workloads(folder: Path = FOLDER) -> dict[str, Workload]:
    """Reads every workload file of ``folder``; the order is that of files and of their lists.

    Raises:
        WorkloadError: a file does not say what a workload is, or a name comes twice.
    """
    workloads: dict[str, Workload] = {}
    for path in sorted(folder.glob("*.yaml")):
        for workload in _read(path):
            if workload.name in workloads:
                raise WorkloadError(f"{path.name}: there are two workloads {workload.name!r}")
            workloads[workload.name] = workload
    return workloads


def chosen(workloads: Mapping[str, Workload], names: tuple[str, ...]) -> list[Workload]:
    """Gives the named workloads; all when none is named.

    Raises:
        WorkloadError: there is no workload of that name.
    """
    unknown = [name for name in names if name not in workloads]
    if unknown:
        raise WorkloadError(
            f"there is no workload {unknown[0]!r}; there are {', '.join(workloads)}"
        )
    return [workloads[name] for name in names] if names else list(workloads.values())


def _read(path: Path) -> list[Workload]:
    try:
        document = yaml.load(path.read_text(), yaml.CSafeLoader)
        return msgspec.convert(document, list[Workload])
    except (yaml.YAMLError, msgspec.ValidationError) as problem:
        raise WorkloadError(f"{path.name}: {problem}") from problem
