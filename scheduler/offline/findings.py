"""What is worth telling people about a pod's answer: groups of nodes, and how close they came."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from scheduler.api.objects import Taint
from scheduler.api.pods import PodInfo
from scheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from scheduler.api.taints import Tolerations
from scheduler.offline.answers import FeasibleNode, PodAnswer, RejectedNode, Rejection
from scheduler.snapshot import Snapshot

_INSUFFICIENT: Final = "Insufficient "
"""How NodeResourcesFit's reasons begin; the resource follows."""
_BYTES: Final = frozenset({MEMORY, EPHEMERAL_STORAGE})
_HUGEPAGES: Final = "hugepages-"

Shortages: TypeAlias = Mapping[str, Mapping[str, float]]
"""By resource and node, how much is missing. Units: as in the node table."""
_TAINTED: Final = "node(s) had untolerated taint(s)"
_DO_NOT_SCHEDULE: Final = frozenset({"NoSchedule", "NoExecute"})


class Obstacles(msgspec.Struct, frozen=True):
    """What stands in a pod's way, beyond the reasons that plugins give.

    Attributes:
        shortages: how much is missing where.
        too_small: by resource, the nodes that would lack it even without any pod.
        taints: by node, the taints that the pod does not tolerate.
    """

    shortages: Shortages
    too_small: Mapping[str, frozenset[str]] = {}
    taints: Mapping[str, tuple[str, ...]] = {}


class Miss(msgspec.Struct, frozen=True):
    """How much of one resource is missing.

    Attributes:
        resource: its name.
        amount: the smallest amount missing on any of the nodes, as people write it.
        nodes: on how many nodes it is missing.
        nearest: a node on which no more than that is missing.
        hopeless: how many of the nodes would lack it even without any pod.
    """

    resource: str
    amount: str
    nodes: int
    nearest: str
    hopeless: int = 0


class TaintCount(msgspec.Struct, frozen=True):
    """A taint that keeps the pod away, as kubectl writes it, and how many nodes have it."""

    taint: str
    nodes: int


class Group(msgspec.Struct, frozen=True):
    """Nodes that are rejected for the same reasons.

    Attributes:
        rejections: the plugins and their reasons.
        nodes: names, sorted.
        misses: what is missing there, by resource.
        taints: which taints they have, the most frequent first.
    """

    rejections: tuple[Rejection, ...]
    nodes: tuple[str, ...]
    misses: tuple[Miss, ...]
    taints: tuple[TaintCount, ...] = ()


def obstacles_of(
    pod: PodInfo, snapshot: Snapshot, nominated: Mapping[str, Sequence[PodInfo]]
) -> Obstacles:
    """What every node lacks for the pod or holds against it."""
    table = snapshot.table
    too_small = {}
    for resource, asked in pod.shape.requests.items():
        column = table.resources.get(resource)
        if asked and column is not None:
            lacking = (asked > table.allocatable[column]).tolist()
            too_small[resource] = frozenset(n for n, row in table.row_of.items() if lacking[row])
        elif asked:
            too_small[resource] = frozenset(table.row_of)
    tolerations = Tolerations(pod.spec.tolerations)
    taints = [_untolerated(taint_set, tolerations) for taint_set in table.taint_sets.values]
    by_node = {name: taints[table.taint_set[row]] for name, row in table.row_of.items()}
    return Obstacles(shortages_of(pod, snapshot, nominated), too_small, by_node)


def _untolerated(taints: tuple[Taint, ...], tolerations: Tolerations) -> tuple[str, ...]:
    return tuple(
        f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}"
        for taint in taints
        if taint.effect in _DO_NOT_SCHEDULE and not tolerations.tolerate(taint)
    )


def shortages_of(
    pod: PodInfo, snapshot: Snapshot, nominated: Mapping[str, Sequence[PodInfo]]
) -> Shortages:
    """What every node lacks for the pod, with room left for pods nominated to it."""
    row_of = snapshot.table.row_of
    present = [name for name in nominated if name in row_of]
    if present:
        snapshot = snapshot.fork(p.on_node(name) for name in present for p in nominated[name])
    table = snapshot.table
    found: dict[str, dict[str, float]] = {}
    for resource, asked in pod.shape.requests.items():
        column = table.resources.get(resource)
        if not asked:
            continue
        if column is None:
            found[resource] = dict.fromkeys(table.row_of, float(asked))
            continue
        missing = (asked - table.allocatable[column] + table.requested[column]).tolist()
        found[resource] = {n: missing[r] for n, r in table.row_of.items() if missing[r] > 0}
    return found


def groups_of(answer: PodAnswer, obstacles: Obstacles) -> list[Group]:
    """The rejected nodes by their reasons, the largest group first."""
    nodes_by_reasons: dict[tuple[tuple[str, frozenset[str]], ...], list[RejectedNode]] = {}
    for node in answer.nodes:
        if isinstance(node, RejectedNode):
            key = tuple((r.plugin, frozenset(r.reasons)) for r in rejections_of(node))
            nodes_by_reasons.setdefault(key, []).append(node)
    groups = [
        Group(
            rejections_of(nodes[0]),
            tuple(node.node for node in nodes),
            tuple(_misses(rejections_of(nodes[0]), nodes, obstacles)),
            _taints(rejections_of(nodes[0]), nodes, obstacles.taints),
        )
        for nodes in nodes_by_reasons.values()
    ]
    return sorted(groups, key=lambda group: (-len(group.nodes), group.nodes))


def rejections_of(node: RejectedNode) -> tuple[Rejection, ...]:
    """All that is known to speak against a node."""
    if isinstance(node.rejections, tuple):
        return node.rejections
    return (Rejection(node.plugin, node.code, node.reasons),)


def best_nodes(answer: PodAnswer) -> list[FeasibleNode]:
    """The nodes that fit, those with the highest total first."""
    fitting = [node for node in answer.nodes if isinstance(node, FeasibleNode)]
    return sorted(fitting, key=lambda node: (-node.total, node.node))


def amount_for_people(resource: str, amount: float) -> str:
    """An amount as it would be written in a pod, rounded up where it is long."""
    if resource == CPU:
        return f"{amount / 1000:g}" if amount % 1000 == 0 else f"{amount:.0f}m"
    if resource in _BYTES or resource.startswith(_HUGEPAGES):
        return _bytes_for_people(amount)
    return f"{amount:.0f}"


def _misses(
    rejections: Sequence[Rejection], nodes: Sequence[RejectedNode], obstacles: Obstacles
) -> list[Miss]:
    reasons = {reason for rejection in rejections for reason in rejection.reasons}
    found = []
    for resource, missing in obstacles.shortages.items():
        if f"{_INSUFFICIENT}{resource}" not in reasons:
            continue
        here = {node.node: missing[node.node] for node in nodes if node.node in missing}
        if here:
            nearest = min(here, key=lambda name: (here[name], name))
            amount = amount_for_people(resource, here[nearest])
            hopeless = len(here.keys() & obstacles.too_small.get(resource, frozenset()))
            found.append(Miss(resource, amount, len(here), nearest, hopeless))
    return found


def _taints(
    rejections: Sequence[Rejection],
    nodes: Sequence[RejectedNode],
    taints: Mapping[str, tuple[str, ...]],
) -> tuple[TaintCount, ...]:
    if not any(_TAINTED in rejection.reasons for rejection in rejections):
        return ()
    counts = Counter(taint for node in nodes for taint in taints.get(node.node, ()))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(TaintCount(taint, count) for taint, count in ordered)


def _bytes_for_people(amount: float) -> str:
    for power, suffix in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if amount >= 2**power:
            # To the next tenth: what is asked for must not look as if it were there.
            tenths = -(-int(amount) * 10 // 2**power)
            return f"{tenths / 10:g}{suffix}"
    return f"{amount:.0f}"
