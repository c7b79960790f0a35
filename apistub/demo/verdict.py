"""What the demo promised, and whether it came true."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import quantiles

from apistub.demo.cluster import Cluster
from apistub.demo.load import EVICTABLE, FOREIGN, GIANT, URGENT, Load


@dataclass(frozen=True, slots=True)
class Promise:
    """One statement about the run."""

    text: str
    is_kept: bool
    detail: str = ""


def judge(cluster: Cluster, load: Load, cordoned: Mapping[str, frozenset[str]]) -> list[Promise]:
    """The promises of the demo.

    Args:
        cluster: as it ended.
        load: what was created.
        cordoned: cordoned nodes with the pods that existed then.
    """
    pods = cluster.pods
    unbound = cluster.without_node(load.expected)
    foreign, giant, urgent = pods.get(FOREIGN), pods.get(GIANT), pods.get(URGENT)
    evicted = cluster.evicted
    made_room = len(evicted) == 1 and evicted[0].startswith(f"{EVICTABLE}-")
    late = [
        f"{pod.name} on {pod.node}"
        for pod in pods.values()
        if pod.node in cordoned and pod.name not in cordoned[pod.node]
    ]
    return [
        Promise(
            f"all {len(load.expected)} pods that fit got a node",
            not unbound,
            f"without: {', '.join(unbound[:8])}",
        ),
        Promise(
            "the urgent pod took the place of one less important pod, and of no other",
            urgent is not None and bool(urgent.node) and made_room,
            f"evicted: {', '.join(evicted[:8]) or 'nobody'}",
        ),
        Promise(
            "the pod that fits nowhere waits and says why",
            giant is not None and not giant.node and bool(giant.message),
            giant.message if giant is not None and giant.node == "" else "it has a node",
        ),
        Promise(
            "the pod of another scheduler was left alone",
            foreign is not None and not foreign.node and not foreign.message,
            "it was touched",
        ),
        Promise("no new pod went to a cordoned node", not late, ", ".join(late[:8])),
        Promise(
            "every pod was bound once, and no node was promised more than it has",
            not cluster.broken,
            "; ".join(cluster.broken[:3]),
        ),
    ]


def speed(cluster: Cluster) -> str:
    """How fast it went, in a sentence.

    The waiting times are those of pods that only waited for a decision: not for the daemon to
    start, nor for a gate or for room.
    """
    bound = [pod for pod in cluster.pods.values() if pod.node and pod.is_ours]
    first = cluster.first_bound_at or 0.0
    seconds = cluster.last_bound_at - first
    if len(bound) < 2 or seconds <= 0:  # noqa: PLR2004 - a rate needs two points
        return f"{len(bound)} pods bound"
    sentence = (
        f"{len(bound)} pods bound within {seconds:.1f}s, {len(bound) / seconds:.0f} pods/s "
        "at the pace of the demo"
    )
    waited = [
        pod.bound_at - pod.created_at
        for pod in bound
        if pod.created_at >= first and not pod.was_held
    ]
    if len(waited) < 2:  # noqa: PLR2004 - quantiles need two points
        return sentence
    cuts = quantiles(waited, n=100)
    return (
        f"{sentence}; {len(waited)} pods that fit at once had a node after "
        f"{cuts[49]:.2f}s (median), 95 of 100 within {cuts[94]:.2f}s"
    )
