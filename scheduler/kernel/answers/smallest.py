"""Finds the smallest changes of a pod that make it fit: lower requests, tolerations, fewer rules.

Every suggested change has been tried, and is minimal: with a larger amount, or only some of its
edits, the pod would not fit.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scheduler.api.objects import PodSpec, Taint, Toleration
from scheduler.api.resources import quantity
from scheduler.api.taints import Tolerations
from scheduler.kernel.answers.checks import EveryCheck, shortage
from scheduler.kernel.answers.edits import AddToleration, DropRule, Edit, LowerRequest
from scheduler.kernel.answers.model import SuggestedChange
from scheduler.kernel.answers.requests import amount_of, least, page_size, with_request
from scheduler.kernel.answers.rules import rules_of, without_rules
from scheduler.kernel.answers.trials import Trials
from scheduler.kernel.answers.violations import likely_sets
from scheduler.kernel.framework.obstacles import ResourceObstacle
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.plugins.inter_pod_affinity import InterPodAffinity
from scheduler.kernel.plugins.node_affinity import NodeAffinity
from scheduler.kernel.plugins.node_ports import NodePorts
from scheduler.kernel.plugins.node_resources_fit import NodeResourcesFit
from scheduler.kernel.plugins.pod_topology_spread import PodTopologySpread
from scheduler.kernel.plugins.taint_toleration import TaintToleration, untolerated
from scheduler.kernel.snapshot import Indices

RULED: Final = (NodeAffinity.NAME, InterPodAffinity.NAME, PodTopologySpread.NAME, NodePorts.NAME)
"""The plugins that check the rules of `rules_of`."""
ADJUSTABLE: Final = (NodeResourcesFit.NAME, TaintToleration.NAME, *RULED)
"""The plugins whose rejections a change of the pod can avoid."""
_MOST_RULES: Final = 32
"""Rules of a pod at most that are tried."""
_MOST_TAINT_SETS: Final = 16
_NODES_TRIED: Final = 4


def lower_requests(every: EveryCheck, trials: Trials) -> Iterator[SuggestedChange | None]:
    """Yield a lower request of each resource that helps; if none does, of several together."""
    rows = _with_place(every, every.rejected_by_none_but(NodeResourcesFit.NAME))
    if not len(rows):
        return
    found = False
    for resource in _wanting(every, rows):
        change = yield from _lower_one(every, trials, resource)
        found |= change is not None
        yield change
    if not found:
        yield from several(every, trials, (NodeResourcesFit.NAME,))


def add_tolerations(every: EveryCheck, trials: Trials) -> Iterator[SuggestedChange | None]:
    """Yield the fewest tolerations for a node that is rejected only for its taints."""
    table = every.snapshot.table
    spec = trials.pod.spec
    tolerations = Tolerations(spec.tolerations)
    nodes: dict[tuple[AddToleration, ...], int] = {}
    rows = every.rejected_by_none_but(TaintToleration.NAME)
    for number, count in enumerate(np.bincount(table.taint_set[rows]).tolist()):
        if count:
            missing = _missing(table.taint_sets.values[number], tolerations)
            nodes[missing] = nodes.get(missing, 0) + count
    size = 0
    for edits in sorted(nodes, key=lambda each: (len(each), -nodes[each]))[:_MOST_TAINT_SETS]:
        if size and len(edits) > size:
            return
        if len(trials.rows(applied(spec, edits))):
            needed = yield from trials.needed(
                edits, lambda some: len(trials.rows(applied(spec, some))) > 0
            )
            size = len(needed)
            yield trials.change(needed, trials.rows(applied(spec, needed)))
        yield None


def drop_rules(every: EveryCheck, trials: Trials) -> Iterator[SuggestedChange | None]:
    """Yield the fewest rules of the pod without which it would fit."""
    if not len(every.rejected_by_none_but(*RULED)):
        return
    spec = trials.pod.spec
    rules = [rule for rule in rules_of(trials.pod) if rule.plugin in every.names][:_MOST_RULES]
    for found in trials.smallest_sets(
        [rule.drop for rule in rules],
        lambda some: trials.rows(applied(spec, some)),
        lambda: likely_sets(rules, trials),
    ):
        yield None if found is None else trials.change(*found)


def several(
    every: EveryCheck, trials: Trials, plugins: Sequence[str] = ADJUSTABLE
) -> Iterator[SuggestedChange | None]:
    """Yield the necessary edits for one node that only these plugins reject."""
    spec = trials.pod.spec

    def try_edits(some: Sequence[Edit]) -> Indices:
        return trials.rows(applied(spec, some))

    rows = _with_place(every, every.rejected_by_none_but(*plugins))
    order = np.lexsort((shortage(every, rows), every.fails[rows]))
    for row in rows[order[:_NODES_TRIED]].tolist():
        yield None
        edits = _edits_for(every, trials, row)
        if not len(try_edits(edits)):
            continue
        needed = yield from trials.needed(edits, lambda some: len(try_edits(some)) > 0)
        for i, edit in enumerate(needed):
            if isinstance(edit, LowerRequest):
                others = [*needed[:i], *needed[i + 1 :]]
                lower = yield from highest(trials, edit.resource, others, amount_of(edit))
                needed[i] = lower or edit
        yield trials.change(needed, try_edits(needed))
        return


def applied(spec: PodSpec, edits: Sequence[Edit]) -> PodSpec:
    """Return the specification after edits; edits of nodes and of other pods do not change it."""
    for edit in edits:
        if isinstance(edit, LowerRequest):
            spec = with_request(spec, edit.resource, amount_of(edit))
    added = [
        Toleration(edit.key, "Equal", edit.value, edit.effect)
        for edit in edits
        if isinstance(edit, AddToleration)
    ]
    dropped = {edit.path for edit in edits if isinstance(edit, DropRule)}
    if added:
        spec = replace(spec, tolerations=(*spec.tolerations, *added))
    return without_rules(spec, dropped) if dropped else spec


# --- requests -----------------------------------------------------------------------------------


def _lower_one(every: EveryCheck, trials: Trials, resource: str) -> Steps[SuggestedChange | None]:
    """Return the change to the largest request of one resource that fits, or None."""
    spec = trials.pod.spec
    rows = trials.rows(with_request(spec, resource, least(spec, resource)))
    if not len(rows):
        return None
    lower = yield from highest(trials, resource, (), int(_free(every, resource, rows).max()))
    if lower is None:
        return None
    return trials.change([lower], trials.rows(applied(spec, [lower])))


def highest(
    trials: Trials, resource: str, others: Sequence[Edit], guess: int
) -> Steps[LowerRequest | None]:
    """Return the largest request of a resource that fits; None if no amount does.

    A step is a trial. The other edits `others` are applied too; `guess` is the likely amount, which
    saves trials.
    """
    spec, asked = trials.pod.spec, trials.pod.shape.requests[resource]
    first = least(spec, resource) - 1

    def lowered(amount: int) -> LowerRequest:
        return LowerRequest(resource, quantity(resource, asked), quantity(resource, amount))

    def fits(amount: int) -> bool:
        return len(trials.rows(applied(spec, [*others, lowered(amount)]))) > 0

    # Bisection: `high` does not fit; `low` fits, unless it is `first`.
    low, high = first, asked
    for amount in (guess, guess + 1, first + 1):
        if low < amount < high:
            yield
            low, high = (amount, high) if fits(amount) else (low, amount)
    while low > first and high - low > 1:
        yield
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    low -= low % page_size(resource)
    return lowered(low) if low > first else None


def _wanting(every: EveryCheck, rows: Indices) -> list[str]:
    """Return the requested resources of which some of the rows have too little."""
    asked = every.pod.shape.requests
    obstacles = every.obstacles(NodeResourcesFit.NAME, rows)
    return [
        o.resource for o in obstacles if isinstance(o, ResourceObstacle) and o.resource in asked
    ]


def _free(every: EveryCheck, resource: str, rows: Indices) -> NDArray[np.float64]:
    table = every.world.table
    column = table.resources.get(resource)
    if column is None:
        return np.zeros(len(rows))
    free: NDArray[np.float64] = table.allocatable[column, rows] - table.requested[column, rows]
    return free.clip(min=0)


def _with_place(every: EveryCheck, rows: Indices) -> Indices:
    """Return the rows below their limit of pods."""
    table = every.world.table
    return rows[table.pod_count[rows] < table.max_pods[rows]]


# --- one node -----------------------------------------------------------------------------------


def _edits_for(every: EveryCheck, trials: Trials, row: int) -> list[Edit]:
    """Return edits for every plugin that rejects a node, possibly more than necessary."""
    asked = trials.pod.shape.requests
    here = np.array([row])
    edits: list[Edit] = []
    against = {
        name for name, rejects in zip(every.names, every.rejects, strict=True) if rejects[row]
    }
    if NodeResourcesFit.NAME in against:
        for resource in _wanting(every, here):
            free = int(_free(every, resource, here)[0])
            amount = max(free - free % page_size(resource), least(trials.pod.spec, resource))
            quantities = quantity(resource, asked[resource]), quantity(resource, amount)
            edits.append(LowerRequest(resource, *quantities))
    if TaintToleration.NAME in against:
        table = every.snapshot.table
        taints = table.taint_sets.values[int(table.taint_set[row])]
        edits.extend(_missing(taints, Tolerations(trials.pod.spec.tolerations)))
    ruled = [rule.drop for rule in rules_of(trials.pod) if rule.plugin in against]
    return [*edits, *ruled[:_MOST_RULES]]


def _missing(taints: tuple[Taint, ...], tolerations: Tolerations) -> tuple[AddToleration, ...]:
    """Return the tolerations that a pod lacks for some taints."""
    found = {(t.key, t.value, t.effect) for t in untolerated(taints, tolerations)}
    return tuple(AddToleration(*each) for each in sorted(found))
