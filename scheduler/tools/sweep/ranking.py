"""Ranks candidates by the Pareto front of waiting and nodes in use."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from scheduler.tools.sweep.run import ALL_PODS, Row

_NONE_PLACED: Final = "none placed"
NONE_PLACED_MEANS: Final = f"{_NONE_PLACED}: in a recording, no pod found a node"


class Standing(msgspec.Struct, frozen=True, rename="camel"):
    """One candidate under one what-if, over all recordings.

    Shares and waits of several recordings are means, weighted by the number of their pods.

    Attributes:
        config: the name of the candidate.
        what_if: the simulated change, or empty.
        pending: number of pods that were not placed.
        moves: number of pods on another node than the recorded one.
        victims: number of pods that were evicted for others.
        wait_p50, wait_p99: seconds; None if in any recording no pod was placed.
        nodes: number of nodes with a pod, on average over time.
        cpu: the share of all CPU that pods request, on average over time.
        free_cpu_unusable: the share of the free CPU at the end that no kind of pod can use.
        is_on_front: whether it places pods, and no other candidate of the same what-if places as
            many pods with less waiting (p99) and fewer nodes.
    """

    config: str
    what_if: str
    pending: int
    moves: int
    victims: int
    wait_p50: float | None
    wait_p99: float | None
    nodes: float
    cpu: float
    free_cpu_unusable: float
    is_on_front: bool = False

    @property
    def costs(self) -> tuple[int, float, float]:
        """The values to minimize."""
        wait = float("inf") if self.wait_p99 is None else self.wait_p99
        return self.pending, wait, self.nodes


def wait_text(seconds: float | None) -> str:
    """Format a waiting time; `NONE_PLACED_MEANS` explains the text for None."""
    return _NONE_PLACED if seconds is None else f"{seconds:.3f} s"


def ranked(rows: Iterable[Row]) -> list[Standing]:
    """Rank candidates by what-if: the front first, then by costs; those without a wait last."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.workload == ALL_PODS:
            found[row.what_if, row.config].append(row)
    standings = [_standing(group) for group in found.values()]
    marked = [_marked(standing, standings) for standing in standings]
    return sorted(
        marked,
        key=lambda s: (s.what_if, s.wait_p99 is None, not s.is_on_front, s.costs, s.config),
    )


def _standing(rows: Sequence[Row]) -> Standing:
    pods = sum(row.pods for row in rows)

    def mean(values: Iterable[float | None]) -> float:
        weighted = [(value or 0.0) * row.pods for value, row in zip(values, rows, strict=True)]
        return round(sum(weighted) / pods, 6) if pods else 0.0

    has_waits = pods > 0 and all(row.placed for row in rows if row.pods)

    return Standing(
        rows[0].config,
        rows[0].what_if,
        sum(row.pods - row.placed for row in rows),
        sum(row.moves for row in rows),
        sum(row.victims for row in rows),
        mean(row.wait_p50 for row in rows) if has_waits else None,
        mean(row.wait_p99 for row in rows) if has_waits else None,
        mean(row.nodes for row in rows),
        mean(row.cpu for row in rows),
        mean(row.free_cpu_unusable for row in rows),
    )


def _marked(one: Standing, standings: Iterable[Standing]) -> Standing:
    rivals = (other for other in standings if other.what_if == one.what_if)
    is_beaten = any(
        other.costs != one.costs
        and all(theirs <= ours for theirs, ours in zip(other.costs, one.costs, strict=True))
        for other in rivals
    )
    is_on_front = one.wait_p99 is not None and not is_beaten
    return msgspec.structs.replace(one, is_on_front=is_on_front)
