"""Sums up a pod's answer for a terminal: groups of nodes, and what they lack."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from scheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from scheduler.api.taints import taint_text
from scheduler.kernel.answers.model import FeasibleNode, PluginRejection, PodAnswer, RejectedNode
from scheduler.kernel.framework.results import Reason, Shortage, Untolerated

_BYTES: Final = frozenset({MEMORY, EPHEMERAL_STORAGE})
_HUGEPAGES: Final = "hugepages-"

Reasons: TypeAlias = Mapping[str, Sequence[Reason]]
"""By node, the reasons of its rejection; see `Explainer.reasons`."""


class Miss(msgspec.Struct, frozen=True):
    """The missing amount of one resource.

    Attributes:
        resource: the name of the resource.
        amount: the smallest amount missing on any of the nodes, as a quantity.
        nodes: number of nodes on which the resource is missing.
        nearest: the node on which this smallest amount is missing.
        hopeless: number of the nodes that would lack the resource even without pods.
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
        nodes: the names of the nodes, sorted.
        misses: the missing amounts, by resource.
        taints: the taints that the pod does not tolerate, the most frequent first.
    """

    rejections: tuple[PluginRejection, ...]
    nodes: tuple[str, ...]
    misses: tuple[Miss, ...]
    taints: tuple[TaintCount, ...] = ()


def groups_of(answer: PodAnswer, reasons: Reasons) -> list[Group]:
    """Group the rejected nodes by their reasons, the largest group first."""
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
    """Return all known rejections of a node."""
    if isinstance(node.rejections, tuple):
        return node.rejections
    return (PluginRejection(node.plugin, node.code, node.reasons),)


def best_nodes(answer: PodAnswer) -> list[FeasibleNode]:
    """Return the feasible nodes, those with the highest total first, equal ones by name."""
    fitting = [node for node in answer.nodes if isinstance(node, FeasibleNode)]
    return sorted(fitting, key=lambda node: (-node.total, node.node))


def amount_for_people(resource: str, amount: float, *, rounds_down: bool = False) -> str:
    """Format an amount as a quantity, rounded up to a tenth of its unit.

    Rounding up keeps a missing amount from looking smaller. `rounds_down` is for amounts that fit,
    which must not look larger.
    """
    if resource == CPU:
        return f"{amount / 1000:.0f}" if amount % 1000 == 0 else f"{amount:.0f}m"
    if resource in _BYTES or resource.startswith(_HUGEPAGES):
        for power, suffix in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
            if amount >= 2**power:
                tenths = int(amount) * 10
                tenths = tenths // 2**power if rounds_down else -(-tenths // 2**power)
                return f"{tenths / 10:.1f}".removesuffix(".0") + suffix
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
