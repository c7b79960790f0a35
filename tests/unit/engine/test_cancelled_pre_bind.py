"""Directed histories of a cancelled PreBind: it may have a write under way until it ends."""

from typing import Any

import pytest

from scheduler.api.pods import PodInfo
from scheduler.kernel.cache import PodState
from scheduler.kernel.engine import AttemptState
from scheduler.kernel.engine.events import Activate, Decide, Event, ObjectGone, ObjectSet, PreBound
from scheduler.kernel.engine.instructions import Cancel
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.driven import DrivenEngine, Prepares, engine_at
from tests.unit.engine.test_preemption_executor import placed_low

ENDED = "2026-01-01T00:00:00Z"


def version(**fields: Any) -> ObjectSet:
    """The watch shows the pod in a new version."""
    return ObjectSet("pods", make_pod_info("p", scheduler_name="test", **fields))


GONE = ObjectGone("pods", "default", "p", make_pod_info("p").uid)
LEAVES = version(deletion_timestamp=ENDED)
BOUND_HERE = version(node_name="n")
BOUND_ELSEWHERE = version(node_name="m")
NODE_GONE = ObjectGone("nodes", "", "n", "uid-of-n")


def cancelled_by(event: Event) -> tuple[DrivenEngine, PodInfo, int]:
    """An engine with one place, taken by a pod whose PreBind an event cancels."""
    driven, pod = engine_at(AttemptState.PREBINDING)
    attempt = driven.attempt(pod).id
    told = driven.handle(event)
    assert told == [Cancel(attempt)]
    return driven, pod, attempt


@pytest.mark.parametrize("problem", ["", "cancelled"], ids=["it succeeds", "it is cancelled"])
@pytest.mark.parametrize(
    "event",
    [GONE, LEAVES, BOUND_ELSEWHERE],
    ids=["deleted", "being deleted", "bound elsewhere"],
)
def test_the_room_is_free_when_pre_bind_has_ended(event: Event, problem: str) -> None:
    """Not earlier, and whatever it answers: nothing is bound."""
    driven, pod, attempt = cancelled_by(event)
    other = driven.rejected("q")

    assert driven.stage(pod) == "cancelled"
    assert driven.engine.core.cache.state_of(pod.uid) is PodState.ASSUMED
    driven.handle(PreBound(attempt, problem))

    assert driven.binds == []
    assert driven.node_of(pod) == ("m" if event is BOUND_ELSEWHERE else "")
    assert not driven.is_asleep(other)


def test_it_never_ends() -> None:
    """A plugin ignores its cancellation: one place is kept, and others are decided about."""
    driven, pod, _ = cancelled_by(GONE)

    driven.tick(3600)
    driven.rejected("q")
    driven.handle(ObjectSet("nodes", make_node("other")))
    placed = driven.add("r")
    driven.run()

    assert driven.stage(pod) == "cancelled"
    assert (driven.stage(placed), driven.node_of(placed)) == ("prebinding", "other")


@pytest.mark.parametrize(
    ("events", "stage"),
    [
        ([LEAVES, GONE], "nowhere"),
        ([NODE_GONE, GONE], "nowhere"),
        ([NODE_GONE, version(labels={"a": "b"})], "backoff"),
        ([NODE_GONE, BOUND_ELSEWHERE], "cache"),
        ([LEAVES, BOUND_HERE], "cache"),
        ([BOUND_HERE, GONE], "nowhere"),
        ([GONE, version(labels={"a": "b"})], "backoff"),
        ([LEAVES, version()], "backoff"),
        ([BOUND_ELSEWHERE, version()], "backoff"),
    ],
    ids=[
        "being deleted, deleted",
        "node gone, deleted",
        "node gone, changed",
        "node gone, bound by another",
        "being deleted, bound by another",
        "bound by another, deleted",
        "deleted, restored from a backup",
        "being deleted, restored from a backup",
        "bound by another, restored from a backup",
    ],
)
def test_the_latest_version_counts_when_it_has_ended(events: list[Event], stage: str) -> None:
    """Cancelled once; the pod is neither lost nor in two places."""
    driven, pod, attempt = cancelled_by(events[0])

    for event in events[1:]:
        assert Cancel(attempt) not in driven.handle(event)
    driven.handle(PreBound(attempt, "cancelled"))

    assert driven.stage(pod) == stage
    last = events[-1]
    assert isinstance(last, ObjectGone | ObjectSet)
    if isinstance(last, ObjectSet):
        assert driven.node_of(pod) == last.object.node_name
    if stage == "backoff":
        known = driven.engine.core.queue.get(pod.uid)
        assert known is not None
        assert known.pod.metadata.labels == last.object.pod.metadata.labels


def test_a_preemptor_waits_for_the_room_of_a_victim_in_pre_bind() -> None:
    """Tried again meanwhile, it takes the victim back no second time."""
    driven, low = placed_low(Prepares())
    attempt = driven.attempt(low).id
    high = driven.add("high", priority=100, requests={"cpu": "3"})
    driven.handle(Decide())
    assert driven.all(Cancel) == [Cancel(attempt)]

    driven.handle(Activate((high.uid,)))
    driven.tick(5)
    driven.run()

    assert driven.stage(low) == "cancelled"
    assert driven.place(high) == "n"
    assert len(driven.preempted) == len(driven.all(Cancel)) == 1
    assert driven.evicts == []
    driven.handle(PreBound(attempt, "cancelled"))
    driven.run()
    assert driven.stage(high) == "prebinding"
    assert driven.places()[low.key] == "backoff"
