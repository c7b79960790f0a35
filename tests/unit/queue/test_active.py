"""Whose turn it is: the most important pod's, unless those do nothing but waste it."""

from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue.active import FAIR_AFTER_SECONDS, ActiveQueue
from tests.support.builders import make_pod_info
from tests.support.clock import FakeClock
from tests.support.queueing import by_priority


class Turns:
    """An active queue of pods of many priorities."""

    def __init__(self) -> None:
        self.clock = FakeClock(1000.0)
        self.active = ActiveQueue(self.clock)

    def push(self, name: str, priority: int, failures: int = 0, errors: int = 0) -> None:
        self.clock.advance(0.001)
        queued = QueuedPodInfo(make_pod_info(name, priority=priority), self.clock.now)
        queued.unschedulable_count, queued.consecutive_errors_count = failures, errors
        queued.initial_attempt_timestamp = queued.timestamp
        self.active.push(queued.pod_info.uid, queued, by_priority(queued))
        assert not list(self.active.validate())

    def pop(self, *, rejected: bool) -> str:
        queued = self.active.pop()
        assert queued is not None
        assert not list(self.active.validate())
        if rejected:
            self.active.note_rejection()
        return queued.pod_info.name


def test_the_order_is_by_importance_while_turns_are_of_use() -> None:
    """However long the queue does not get empty, and whatever waits."""
    turns = Turns()
    for i in range(500):
        turns.push(f"p{i}", priority=-i)
    popped = []
    for i in range(500):
        popped.append(turns.pop(rejected=i % 5 > 2))
        turns.clock.advance(1.0)

    assert popped == [f"p{i}" for i in range(500)]


def test_a_new_pod_has_its_turn_within_the_time_promised() -> None:
    """However many more important ones are rejected again and again."""
    turns = Turns()
    for i in range(500):
        turns.push(f"hopeless-{i}", priority=10, failures=1)
    turns.push("fits", priority=0)
    start = turns.clock.now
    while turns.pop(rejected=True) != "fits":
        turns.clock.advance(0.01)

    assert turns.clock.now - start <= FAIR_AFTER_SECONDS + 0.02


def test_the_next_pod_is_known_while_turns_are_of_use() -> None:
    """While they are not, it may be another's turn."""
    turns = Turns()
    assert turns.active.first() is None
    for i in range(4):
        turns.push(f"p{i}", priority=i)
    seen = []
    for is_rejected in (False, False, True, True):
        first = turns.active.first()
        seen.append(first is not None and first.pod_info.name)
        turns.pop(rejected=is_rejected)

    assert seen == ["p3", "p2", "p1", "p0"]
    turns.push("p", priority=0)
    assert turns.active.first() is None


def test_every_other_turn_is_still_by_importance() -> None:
    """Of the others the newest of those that were rejected least often goes first."""
    turns = Turns()
    for i in range(4):
        turns.push(f"important-{i}", priority=10, failures=3)
    for i in range(3):
        turns.push(f"new-{i}", priority=0)
    first = turns.pop(rejected=True)
    turns.clock.advance(FAIR_AFTER_SECONDS)
    order = [turns.pop(rejected=True) for _ in range(5)]

    assert first == "important-0"
    assert order == ["new-2", "important-1", "new-1", "important-2", "new-0"]


def test_turns_stay_fair_while_most_are_of_no_use() -> None:
    """However many there are."""
    turns = Turns()
    for i in range(500):
        turns.push(f"p{i}", priority=-i)
    popped = []
    for i in range(500):
        popped.append(turns.pop(rejected=i % 5 < 3))
        turns.clock.advance(1.0)

    assert popped[::2] == [f"p{i}" for i in range(250)]
    assert popped[1::2] == [f"p{i}" for i in reversed(range(250, 500))]


def test_errors_count_as_rejections_do() -> None:
    """A pod that has met both is behind one that was only rejected, though it came later."""
    turns = Turns()
    for i in range(4):
        turns.push(f"important-{i}", priority=10, failures=3)
    turns.push("rejected", priority=0, failures=1)
    turns.push("both", priority=0, failures=1, errors=1)
    turns.pop(rejected=True)
    turns.clock.advance(FAIR_AFTER_SECONDS)
    order = [turns.pop(rejected=True) for _ in range(4)]

    assert order == ["rejected", "important-1", "both", "important-2"]
