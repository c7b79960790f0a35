"""What is worth telling people about a pod's answer: groups of nodes, and how close they came."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from scheduler.offline.answers import FeasibleNode, PodAnswer, RejectedNode, Rejection
from scheduler.snapshot import Snapshot

_INSUFFICIENT: Final = "Insufficient "
"""How NodeResourcesFit's reasons begin; the resource follows."""
_BYTES: Final = frozenset({MEMORY, EPHEMERAL_STORAGE})
_HUGEPAGES: Final = "hugepages-"

Shortages: TypeAlias = Mapping[str, Mapping[str, float]]
"""By resource and node, how much is missing. Units: as in the node table."""


class Miss(msgspec.Struct, frozen=True):
    """How much of one resource is missing.

    Attributes:
        resource: its name.
        amount: the smallest amount missing on any of the nodes, as people write it.
        nodes: on how many nodes it is missing.
        nearest: a node on which no more than that is missing.
    """

    resource: str
    amount: str
    nodes: int
    nearest: str


class Group(msgspec.Struct, frozen=True):
    """Nodes that are rejected for the same reasons.

    Attributes:
        rejections: the plugins and their reasons.
        nodes: names, sorted.
        misses: what is missing there, by resource.
    """

    rejections: tuple[Rejection, ...]
    nodes: tuple[str, ...]
    misses: tuple[Miss, ...]


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


def groups_of(answer: PodAnswer, shortages: Shortages) -> list[Group]:
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
            tuple(_misses(rejections_of(nodes[0]), nodes, shortages)),
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
    rejections: Sequence[Rejection], nodes: Sequence[RejectedNode], shortages: Shortages
) -> list[Miss]:
    reasons = {reason for rejection in rejections for reason in rejection.reasons}
    found = []
    for resource, missing in shortages.items():
        if f"{_INSUFFICIENT}{resource}" not in reasons:
            continue
        here = {node.node: missing[node.node] for node in nodes if node.node in missing}
        if here:
            nearest = min(here, key=lambda name: (here[name], name))
            amount = amount_for_people(resource, here[nearest])
            found.append(Miss(resource, amount, len(here), nearest))
    return found


def _bytes_for_people(amount: float) -> str:
    for power, suffix in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if amount >= 2**power:
            # To the next tenth: what is asked for must not look as if it were there.
            tenths = -(-int(amount) * 10 // 2**power)
            return f"{tenths / 10:g}{suffix}"
    return f"{amount:.0f}"
