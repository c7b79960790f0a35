"""The part of a pod's answer worth showing: groups of nodes, and how close they came."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from scheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from scheduler.api.taints import taint_text
from scheduler.kernel.answers.model import FeasibleNode, PluginRejection, PodAnswer, RejectedNode
from scheduler.kernel.framework.interface import Reason, Shortage, Untolerated

_BYTES: Final = frozenset({MEMORY, EPHEMERAL_STORAGE})
_HUGEPAGES: Final = "hugepages-"

Reasons: TypeAlias = Mapping[str, Sequence[Reason]]
"""By node, why it is rejected; see `Explainer.reasons`."""


class Miss(msgspec.Struct, frozen=True):
    """The missing amount of one resource.

    Attributes:
        resource: its name.
        amount: the smallest amount missing on any of the nodes, as people write it.
        nodes: number of nodes on which it is missing.
        nearest: a node on which no more than that is missing.
        hopeless: number of the nodes that would lack it even without any pod.
    """

    resource: str
    amount: str
    nodes: int
    nearest: str
    hopeless: int = 0


class TaintCount(msgspec.Struct, frozen=True):
    """A taint that keeps the pod away, as kubectl writes it, and the number of nodes with it."""

    taint: str
    nodes: int


class Group(msgspec.Struct, frozen=True):
    """Nodes that are rejected for the same reasons.

    Attributes:
        rejections: the plugins and their reasons.
        nodes: names, sorted.
        misses: the missing amounts, by resource.
        taints: their taints, the most frequent first.
    """

    rejections: tuple[PluginRejection, ...]
    nodes: tuple[str, ...]
    misses: tuple[Miss, ...]
    taints: tuple[TaintCount, ...] = ()


def groups_of(answer: PodAnswer, reasons: Reasons) -> list[Group]:
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
            tuple(_misses(nodes, reasons)),
            _taints(nodes, reasons),
        )
        for nodes in nodes_by_reasons.values()
    ]
    return sorted(groups, key=lambda group: (-len(group.nodes), group.nodes))


def rejections_of(node: RejectedNode) -> tuple[PluginRejection, ...]:
    """All that is known to speak against a node."""
    if isinstance(node.rejections, tuple):
        return node.rejections
    return (PluginRejection(node.plugin, node.code, node.reasons),)


def best_nodes(answer: PodAnswer) -> list[FeasibleNode]:
    """The nodes that fit, those with the highest total first."""
    fitting = [node for node in answer.nodes if isinstance(node, FeasibleNode)]
    return sorted(fitting, key=lambda node: (-node.total, node.node))


def amount_for_people(resource: str, amount: float, *, rounds_down: bool = False) -> str:
    """Format an amount as in a pod, a long one rounded to a tenth.

    Rounded up, so that a request never looks satisfiable when it is not. `rounds_down` is for
    amounts that fit, so that they never look larger than they are.
    """
    if resource == CPU:
        return f"{amount / 1000:g}" if amount % 1000 == 0 else f"{amount:.0f}m"
    if resource in _BYTES or resource.startswith(_HUGEPAGES):
        for power, suffix in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
            if amount >= 2**power:
                tenths = int(amount) * 10
                tenths = tenths // 2**power if rounds_down else -(-tenths // 2**power)
                return f"{tenths / 10:g}{suffix}"
    return f"{amount:.0f}"


def _misses(nodes: Sequence[RejectedNode], reasons: Reasons) -> Iterator[Miss]:
    short: dict[str, dict[str, Shortage]] = {}
    for node, data in _data(nodes, reasons):
        if isinstance(data, Shortage):
            short.setdefault(data.resource, {})[node] = data
    for resource, here in short.items():
        missing = {node: found.requested - found.free for node, found in here.items()}
        nearest = min(missing, key=lambda name: (missing[name], name))
        amount = amount_for_people(resource, missing[nearest])
        hopeless = sum(found.requested > found.allocatable for found in here.values())
        yield Miss(resource, amount, len(here), nearest, hopeless)


def _taints(nodes: Sequence[RejectedNode], reasons: Reasons) -> tuple[TaintCount, ...]:
    counts = Counter(
        taint_text(taint)
        for _, data in _data(nodes, reasons)
        if isinstance(data, Untolerated)
        for taint in data.taints
    )
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(TaintCount(taint, count) for taint, count in ordered)


def _data(nodes: Sequence[RejectedNode], reasons: Reasons) -> Iterator[tuple[str, object]]:
    for node in nodes:
        for reason in reasons.get(node.node, ()):
            yield node.node, reason.data
