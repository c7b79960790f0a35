"""The outcomes of attempts as data: one row for each attempt, to count and compare later.

The engine builds rows only when a consumer is registered. Field names are part of the interface;
docs/decisions.md defines them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.kernel.engine.algorithm import Found, ScheduleResult
from scheduler.kernel.engine.attempt import Attempt
from scheduler.kernel.framework.types import Failure, QueuedPodInfo
from scheduler.kernel.snapshot import Snapshot

_NO_FAILURE: Final = Failure("")


class AttemptOutcome(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """The outcome of one attempt.

    Attributes:
        clock: the end, in seconds of the events' clock.
        pod: `namespace/name`.
        uid: the UID of the pod.
        profile: the profile that decided.
        priority: the priority of the pod.
        attempt: number of attempts for the pod, including this attempt.
        result: `scheduled`, `unschedulable`, `error`, or `gone` where the pod needed none any more.
        node: the node of its binding, successful or not; None where none was found.
        nominated_node: the node that the pod is nominated to.
        nodes: number of nodes that were evaluated.
        feasible: number of them that fit.
        score: the total score of the node; None where it was the only one.
        runner_up: the node with the second-best score.
        runner_up_score: its total score.
        reasons: number of nodes that each reason rejects.
        plugins: the plugins that rejected the pod.
        message: the reason for the failure, as in the pod's event.
        waited_seconds: time from the first readiness of the pod to the start of the attempt.
        attempt_seconds: time from that start to the end.
        deciding_seconds: the part of it spent on choosing a node; None where not measured.
    """

    clock: float
    pod: str
    uid: str
    profile: str
    priority: int
    attempt: int
    result: str
    node: str | None = None
    nominated_node: str | None = None
    nodes: int | None = None
    feasible: int | None = None
    score: int | None = None
    runner_up: str | None = None
    runner_up_score: int | None = None
    reasons: Mapping[str, int] = {}
    plugins: tuple[str, ...] = ()
    message: str = ""
    waited_seconds: float | None = None
    attempt_seconds: float = 0.0
    deciding_seconds: float | None = None


TakeOutcome: TypeAlias = Callable[[AttemptOutcome], None]
"""Takes each outcome at the end of its attempt; quick, and never raises."""


def choice_of(decision: Found, snapshot: Snapshot) -> dict[str, Any]:
    """The fields of an outcome about the basis of a decision, before the snapshot changes.

    Cost: O(nodes), in columns.
    """
    table = snapshot.table
    choice: dict[str, Any] = {"nodes": table.count, "feasible": 0}
    if not isinstance(decision, ScheduleResult):
        return choice
    best = decision.best
    totals, candidates = best.totals, best.candidates
    choice["feasible"] = best.feasible
    if totals is None:
        return choice
    row = decision.row
    own = row if candidates is None else int((candidates == row).argmax())
    same = sum([raw.constant for raw in best.left_out])
    score = choice["score"] = int(totals[own] + same)
    if best.feasible == 1:
        return choice
    # A tie: the first of the others that are as good.
    equal = next((int(each) for each in best.rows if each != row), None)
    if equal is not None:
        return {**choice, "runner_up": table.names[equal], "runner_up_score": score}
    # The best node on each side of the chosen row, without a copy of the totals.
    halves = ((0, totals[:own]), (own + 1, totals[own + 1 :]))
    others = [start + int(half.argmax()) for start, half in halves if len(half)]
    after = max(others, key=totals.__getitem__)
    name = table.names[after if candidates is None else int(candidates[after])]
    return {**choice, "runner_up": name, "runner_up_score": int(totals[after] + same)}


def outcome_of(
    queued: QueuedPodInfo,
    result: str,
    now: float,
    attempt: Attempt | None,
    failure: Failure | None,
) -> AttemptOutcome:
    """Build the outcome; `attempt` is None if an equal pod's rejection ended the cycle."""
    pod, ready = queued.pod_info, queued.initial_attempt_timestamp
    start = now if attempt is None else attempt.start
    failure = failure or _NO_FAILURE
    plugins = failure.unschedulable_plugins | failure.pending_plugins
    return AttemptOutcome(
        clock=now,
        pod=pod.key,
        uid=pod.uid,
        profile=pod.spec.scheduler_name,
        priority=pod.priority,
        attempt=queued.attempts,
        result=result,
        node=None if attempt is None else attempt.pod.node_name or None,
        nominated_node=failure.nominated_node_name or None,
        **((attempt and attempt.choice) or {}),
        reasons=failure.reasons,
        plugins=tuple(sorted(plugins)) if plugins else (),
        message=failure.message,
        waited_seconds=None if ready is None else start - ready,
        attempt_seconds=now - start,
        deciding_seconds=None if attempt is None else attempt.deciding_seconds or None,
    )
