"""Workloads: the objects that a benchmark creates, in YAML files like scheduler_perf's.

Each YAML file in ``workloads/`` contains a list of workloads; the fields are those of ``Workload``.
Templates may contain ``$index`` (the pod's number), ``$node`` (each node in turn) and the
workload's own ``numbers``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec
import yaml

FOLDER = Path(__file__).parent / "workloads"

SHORT = "short"
"""Name of the size for trial runs, whose figures are not published."""

MEASURED = "measured"
"""Namespace of the measured pods."""

ACCESS = "contestants"
"""Namespace of the contestants' service account."""

StorageKind = Literal["local", "made"]

Positive = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class WorkloadError(ValueError):
    """A workload file cannot be read, or a requested workload does not exist."""


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Common settings of everything in a workload file."""


class Size(Form, frozen=True):
    """Numbers of objects.

    Attributes:
        nodes: nodes of the cluster.
        pods: measured pods.
        running: pods that are bound from the start.
        waiting: unschedulable pods of the ``waiting`` template.
        bound: claims with volumes that no measured pod uses.
    """

    nodes: Positive
    pods: Positive
    running: Count = 0
    waiting: Count = 0
    bound: Count = 0


class Number(Form, frozen=True):
    """A number that varies from pod to pod: ``start + step * ((index // every) % cycle)``.

    Attributes:
        every: number of consecutive pods with the same value; ``nodes`` is the node count.
        cycle: number of values until they repeat; 0 for no repetition.
    """

    start: int = 0
    step: int = 1
    every: Positive | Literal["nodes"] = 1
    cycle: Count = 0

    def at(self, index: int, nodes: int) -> int:
        """Return the value for pod ``index`` in a cluster of ``nodes``."""
        turn = index // (nodes if self.every == "nodes" else self.every)
        return self.start + self.step * (turn % self.cycle if self.cycle else turn)


class PodTemplate(Form, frozen=True):
    """Pods with one pause container.

    Attributes:
        labels: labels of the pods.
        requests: resource requests of the container.
        spec: additional fields of the pod spec, as in the API.
        numbers: numbers that vary from pod to pod, by their name in templates.
    """

    labels: Mapping[str, str] = {}
    requests: Mapping[str, str] = {}
    spec: Mapping[str, Any] = {}
    numbers: Mapping[str, Number] = {}


class NodeTemplate(Form, frozen=True):
    """Nodes of 4 CPUs, 32 GiB and 110 pods, distributed over the zones.

    Attributes:
        zones: number of zones.
        allocatable: additional or changed resources.
        labels: additional labels.
        unschedulable: whether the nodes are cordoned.
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
    """Changes to the cluster at each tick during the measurement.

    Attributes:
        every_seconds: time between ticks.
        recreate: whether a tick deletes the objects of the previous tick.
        pod: template of a pod to create.
        node: template of a node to create.
        service: whether to create a service.
        delete_waiting: whether to delete one of the waiting pods.
    """

    every_seconds: Seconds
    recreate: bool = False
    pod: PodTemplate | None = None
    node: NodeTemplate | None = None
    service: bool = False
    delete_waiting: bool = False


class OfferedLoad(Form, frozen=True):
    """Pods created at a fixed rate, to measure the time from creation to binding.

    Attributes:
        pods_per_second: the rate, the same for every scheduler.
        half: whether to measure also at half of each scheduler's own throughput.
    """

    pods_per_second: Annotated[float, msgspec.Meta(gt=0)]
    half: bool = False


class DeviceTemplate(Form, frozen=True):
    """Devices of every node, and the claims of the measured pods.

    Attributes:
        claim: the claim's `devices` field, as in the API.
        each: devices per node.
        partitions: whether they are a card and its parts, of which either may be allocated.
    """

    claim: Mapping[str, Any]
    each: Positive = 8
    partitions: bool = False


class GroupTemplate(Form, frozen=True):
    """Pod groups of the measured pods, which refer to ``group-$group``.

    Attributes:
        members: number of pods in a group, all of which it requires.
        topology_key: node label; all members of a group run in one of its domains.
    """

    members: Positive
    topology_key: str = ""


class Workload(Form, frozen=True):
    """A workload: one line of the results table.

    Attributes:
        name: name on the command line.
        title: name in tables.
        family: selects the target.
        sizes: numbers of objects, by name of the size.
        pods: template of the measured pods, and by default of the running ones.
        nodes: the cluster's nodes.
        namespaces: namespaces to create; ``measured`` always exists.
        running_pods: template of the running pods, if it differs.
        priority_classes: values by name.
        running_namespace: set of namespaces over which the running pods are distributed.
        running_block: number of consecutive running pods on the same node.
        running_zones: zones of the running pods; empty for all.
        services: selectors of services in the namespace ``measured``.
        waiting: template of the unschedulable pods.
        storage: origin of the measured pods' volumes: existing ``local`` ones, or ``made`` for the
            selected node. Running pods have no claims.
        devices: devices of the nodes, and claims of the measured pods; running pods have none.
        groups: pod groups of the measured pods; running pods have none.
        churn: concurrent changes to the cluster.
        patience_seconds: time limit; the figures are those up to then.
        latency: the offered load; None to measure no latency.
        wall: whether to measure the walls too.
        short: whether ``--short`` includes it.
        decisions: number of decisions that ``bench.decisions`` measures; 0 for none.
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
        """Template of the running pods."""
        if self.running_pods is not None:
            return self.running_pods
        if self.storage is None and self.devices is None and self.groups is None:
            return self.pods
        return msgspec.structs.replace(self.pods, spec={})

    def at_most(self, pods: int | None) -> Self:
        """Return the workload with at most this many measured pods in every size."""
        if pods is None:
            return self
        sizes = {
            name: msgspec.structs.replace(size, pods=min(pods, size.pods))
            for name, size in self.sizes.items()
        }
        return msgspec.structs.replace(self, sizes=sizes)


def load_workloads(folder: Path = FOLDER) -> dict[str, Workload]:
    """Load every workload file of ``folder``, in the order of file names.

    Raises:
        WorkloadError: a file is not a valid list of workloads, or a name is used twice.
    """
    workloads: dict[str, Workload] = {}
    for path in sorted(folder.glob("*.yaml")):
        for workload in _read(path):
            if workload.name in workloads:
                raise WorkloadError(f"{path.name}: there are two workloads {workload.name!r}")
            workloads[workload.name] = workload
    return workloads


def chosen(workloads: Mapping[str, Workload], names: tuple[str, ...]) -> list[Workload]:
    """Return the named workloads; all if no names are given.

    Raises:
        WorkloadError: a workload does not exist.
    """
    unknown = [name for name in names if name not in workloads]
    if unknown:
        raise WorkloadError(
            f"there is no workload {unknown[0]!r}; there are {', '.join(workloads)}"
        )
    return [workloads[name] for name in names] if names else list(workloads.values())


def _read(path: Path) -> list[Workload]:
    try:
        document = yaml.load(path.read_text(), yaml.SafeLoader)
        return msgspec.convert(document, list[Workload])
    except (yaml.YAMLError, msgspec.ValidationError) as problem:
        raise WorkloadError(f"{path.name}: {problem}") from problem
