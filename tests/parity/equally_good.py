"""The nodes among which preemption chooses by chance: those that no criterion tells apart.

Written from the description of the rules, one candidate at a time, to judge a choice.
"""

from collections.abc import Sequence
from typing import Any

Object = dict[str, Any]


def equally_good(candidates: Sequence[Object], objects: Sequence[Object]) -> set[str]:
    """Return the names of the best candidates."""
    pods = {
        f"{o['metadata'].get('namespace', 'default')}/{o['metadata']['name']}": o
        for o in objects
        if o["kind"] == "Pod"
    }
    ranked = {c["node"]: _badness(c, [pods[name] for name in c["victims"]]) for c in candidates}
    best = min(ranked.values(), default=None)
    return {node for node, badness in ranked.items() if badness == best}


def _badness(candidate: Object, victims: list[Object]) -> tuple[Any, ...]:
    priorities = [pod["spec"].get("priority") or 0 for pod in victims]
    top = max(priorities)
    starts = [
        pod["status"].get("startTime") or "now"
        for pod, priority in zip(victims, priorities, strict=True)
        if priority == top
    ]
    return (
        candidate["pdbViolations"],
        # kube-scheduler takes the first for the most important; an extender may turn them round.
        priorities[0],
        sum(priority + 2**31 for priority in priorities),
        len(victims),
        # "now" is later than any date; a later time is better.
        [-ord(letter) for letter in min(starts)],
    )
