"""Ranks candidates by the Pareto front of waiting and nodes in use."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from scheduler.tools.sweep.run import ALL_PODS, Row

_NONE_PLACED: Final = "none placed"
_FEWER_PODS: Final = "fewer pods"
_MEANINGS: Final = {
    _NONE_PLACED: "in a recording, no pod found a node",
    _FEWER_PODS: "no profile serves the others, or a run failed",
}


class Standing(msgspec.Struct, frozen=True, rename="camel"):
    """One candidate under one what-if, over all recordings.

    Shares and waits of several recordings are means, weighted by the number of their pods.

    Attributes:
        config: the name of the candidate.
        what_if: the simulated change, or empty.
        pods: number of pods to place.
        placed: number of placed pods.
        pending: number of pods that were not placed.
        moves: number of pods on another node than the recorded one.
        victims: number of pods that were evicted for others.
        wait_p50, wait_p99: seconds; None if in any recording no pod was placed.
        nodes: number of nodes with a pod, on average over time.
        cpu: the share of all CPU that pods request, on average over time.
        free_cpu_unusable: the share of the free CPU at the end that no kind of pod can use.
        left_out: why it cannot be compared with others, or empty.
        is_on_front: whether it can be compared, and no other candidate of the same what-if places
            as many pods with less waiting (p99) and fewer nodes. A victim counts as not placed.
    """

    config: str
    what_if: str
    pods: int
    placed: int
    pending: int
    moves: int
    victims: int
    wait_p50: float | None
    wait_p99: float | None
    nodes: float
    cpu: float
    free_cpu_unusable: float
    left_out: str = ""
    is_on_front: bool = False

    @property
    def costs(self) -> tuple[int, float, float]:
        """The values to minimize. No replacements of victims are in a recording."""
        wait = float("inf") if self.wait_p99 is None else self.wait_p99
        return self.victims - self.placed, wait, self.nodes

    @property
    def wait_texts(self) -> tuple[str, str]:
        """Both waits, or twice why it is left out; `meanings` explains that."""
        p50, p99 = self.wait_p50, self.wait_p99
        if self.left_out or p50 is None or p99 is None:
            return self.left_out, self.left_out
        return f"{p50:.3f} s", f"{p99:.3f} s"


def meanings(standings: Iterable[Standing]) -> list[str]:
    """Explain why candidates are left out."""
    found = {standing.left_out for standing in standings}
    return [f"{why}: {meaning}" for why, meaning in _MEANINGS.items() if why in found]


def ranked(rows: Iterable[Row]) -> list[Standing]:
    """Rank candidates by what-if: the front first, then by costs; those that are left out last."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.workload == ALL_PODS:
            found[row.what_if, row.config].append(row)
    standings = [_standing(group) for group in found.values()]
    marked = [_marked(standing, standings) for standing in standings]
    return sorted(
        marked,
        key=lambda s: (s.what_if, bool(s.left_out), not s.is_on_front, s.costs, s.config),
    )


def _standing(rows: Sequence[Row]) -> Standing:
    pods, placed = sum(row.pods for row in rows), sum(row.placed for row in rows)

    def mean(values: Iterable[float | None]) -> float:
        weighted = [(value or 0.0) * row.pods for value, row in zip(values, rows, strict=True)]
        return round(sum(weighted) / pods, 6) if pods else 0.0

    has_waits = pods > 0 and all(row.placed for row in rows if row.pods)

    return Standing(
        rows[0].config,
        rows[0].what_if,
        pods,
        placed,
        pods - placed,
        sum(row.moves for row in rows),
        sum(row.victims for row in rows),
        mean(row.wait_p50 for row in rows) if has_waits else None,
        mean(row.wait_p99 for row in rows) if has_waits else None,
        mean(row.nodes for row in rows),
        mean(row.cpu for row in rows),
        mean(row.free_cpu_unusable for row in rows),
        "" if has_waits else _NONE_PLACED,
    )


def _marked(one: Standing, standings: Iterable[Standing]) -> Standing:
    rivals = [s for s in standings if s.what_if == one.what_if and not s.left_out]
    most = max((rival.pods for rival in rivals), default=0)
    left_out = one.left_out or (_FEWER_PODS if one.pods < most else "")
    is_beaten = any(
        other.costs != one.costs
        and all(theirs <= ours for theirs, ours in zip(other.costs, one.costs, strict=True))
        for other in rivals
        if other.pods == most
    )
    is_on_front = not left_out and not is_beaten
    return msgspec.structs.replace(one, left_out=left_out, is_on_front=is_on_front)
