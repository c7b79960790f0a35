"""One rejection stands for all pods that are equal, and none of them is forgotten for it."""

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from scheduler.kernel.framework.types import Excess, Failure, QueuedPodInfo
from scheduler.kernel.queue.waking import KEPT, QUESTIONS_AT_ONCE
from tests.support.builders import make_node, make_pod_info
from tests.support.queueing import QueueUnderTest, registered

EVENTS = {
    "Fit": (
        registered(EventResource.POD, ActionType.DELETE),
        registered(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE),
    ),
    "Taint": (registered(EventResource.NODE, ActionType.UPDATE_NODE_TAINT),),
}
GONE = make_pod_info("gone", node_name="n")
NODE_TAINT = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)


class Equals(QueueUnderTest):
    """A queue whose profile judges equal pods alike."""

    def __init__(self, events: Mapping[str, tuple[ClusterEventWithHint, ...]] = EVENTS) -> None:
        super().__init__(events, shares_rejections=lambda _: True)
        self.version = 0

    def add(self, *names: str, **fields: Any) -> list[PodInfo]:
        pods = [make_pod_info(name, uid=name, **fields) for name in names]
        for pod in pods:
            self.queue.add(pod)
        return pods

    def reject(self, plugin: str = "Fit", excess: Excess | None = None) -> str:
        """Pop a pod and reject it; gives its name."""
        queued = self.pop()
        self.put_back(queued, plugin, excess)
        return queued.pod_info.name

    def pop(self) -> QueuedPodInfo:
        queued = self.queue.pop()
        assert queued is not None
        return queued

    def put_back(
        self, queued: QueuedPodInfo, plugin: str = "Fit", excess: Excess | None = None
    ) -> None:
        failure = self.known(queued) or Failure(
            "",
            is_rejection=True,
            unschedulable_plugins=frozenset({plugin}),
            fits_nowhere=True,
            excess=excess,
            version=(self.version,),
            since=self.clock.monotonic(),
        )
        self.queue.add_unschedulable_if_not_present(queued, failure)
        self.queue.validate()

    def put_back_alone(self, queued: QueuedPodInfo, *, is_rejection: bool = True) -> None:
        """Put back a pod for a reason that need not hold for equal pods."""
        plugins = frozenset({"Fit"}) if is_rejection else frozenset()
        failure = Failure("", is_rejection=is_rejection, unschedulable_plugins=plugins)
        self.queue.add_unschedulable_if_not_present(queued, failure)
        self.queue.validate()

    def known(self, queued: QueuedPodInfo) -> Failure | None:
        """The rejection that holds for the pod; none if it must be evaluated."""
        return self.queue.valid_rejection(queued, lambda: (self.version,))

    def change(self) -> None:
        """Something changes that no hint hears of."""
        self.version += 1

    def wake(
        self, event: Any = ASSIGNED_POD_DELETE, old: object = GONE, new: object = None
    ) -> None:
        self.change()
        self.queue.move_all_to_active_or_backoff_queue(event, old, new)
        self.clock.advance(20.0)
        self.queue.flush_backoff_completed()
        self.queue.validate()

    def active(self) -> list[str]:
        return sorted(name for name, place in self.places().items() if place == "active")


def test_the_second_of_two_equals_need_not_be_tried() -> None:
    """Nor one that comes later; but one that differs in its labels."""
    queue = Equals()
    queue.add("a", "b")
    queue.reject("Taint")
    second = queue.pop()
    known = queue.known(second)
    queue.put_back(second)
    queue.add("c")
    third = queue.known(queue.pop())
    queue.add("d", labels={"x": "y"})
    other = queue.known(queue.pop())

    assert known is not None
    assert known.unschedulable_plugins == {"Taint"}
    assert third is known
    assert other is None


def test_an_event_sends_one_for_all() -> None:
    """The others stay, and stay when it is rejected again; the next event sends another one."""
    queue = Equals()
    queue.add("a", "b", "c")
    for _ in range(3):
        queue.reject()

    queue.wake()
    first = queue.active()
    queue.wake()
    still = queue.active()
    queue.reject()
    after = queue.active()
    queue.wake()

    assert (first, still, after, queue.active()) == (["a"], ["a"], [], ["b"])


def test_who_finds_a_place_brings_the_next_one() -> None:
    """One after the other, until somebody finds none."""
    queue = Equals()
    queue.add("a", "b", "c")
    for _ in range(3):
        queue.reject()

    queue.wake()
    first = queue.pop()
    queue.queue.found_place("a", "n")
    second = queue.active()
    queue.queue.done("a")
    queue.reject()

    assert (first.pod_info.name, second, queue.active()) == ("a", ["b"], [])


def test_a_probe_that_is_deleted_is_replaced() -> None:
    """While it waits for its turn, and while it is tried."""
    queue = Equals()
    pods = queue.add("a", "b", "c")
    for _ in range(3):
        queue.reject()

    queue.wake()
    queue.queue.delete(pods[0])
    second = queue.active()
    tried = queue.pop()
    queue.queue.delete(pods[1])
    queue.put_back(tried)

    assert (second, queue.active()) == (["b"], ["c"])


def test_other_reasons_are_told_to_all() -> None:
    """Whoever is rejected by somebody else than before brings the next one."""
    queue = Equals()
    queue.add("a", "b")
    queue.reject()
    queue.reject()

    queue.wake()
    queue.reject("Taint")
    following = queue.pop()
    known = queue.known(following)

    assert following.pod_info.name == "b"
    assert known is not None
    assert known.unschedulable_plugins == {"Taint"}


def test_many_events_wake_no_pod_whose_plugins_wait_for_others() -> None:
    """A pass is under way when they come; the next one reaches the pod for another event."""
    skip = lambda *_: QueueingHint.SKIP  # noqa: E731
    events = {
        "Slow": (registered(EventResource.NODE, ActionType.ADD, skip),),
        "Fit": (registered(EventResource.POD, ActionType.DELETE),),
        "Taint": (registered(EventResource.NODE, ActionType.UPDATE_NODE_TAINT, skip),),
    }
    queue = Equals(events)
    for number in range(2 * QUESTIONS_AT_ONCE):
        queue.add(f"slow-{number}", labels={"number": str(number)})
        queue.reject("Slow")
    queue.add("tainted")
    queue.reject("Taint")
    queue.add("other", labels={"number": "none"})
    queue.reject("Fit")

    node = make_node("n")
    queue.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node)
    queue.queue.move_all_to_active_or_backoff_queue(NODE_TAINT, node, node)
    for _ in range(KEPT + 1):
        queue.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, GONE, None)
    queue.clock.advance(20.0)
    for _ in range(20):
        queue.queue.flush_backoff_completed()

    assert queue.active() == ["other"]


def test_pods_that_were_rejected_for_themselves_are_woken_for_themselves() -> None:
    """An extender, Reserve or Permit rejects them: each is tried once for an event."""
    queue = Equals()
    queue.add("a", "b", "c")
    for _ in range(3):
        queue.put_back_alone(queue.pop())

    queue.wake()
    woken = queue.active()
    tried = [queue.pop() for _ in woken]
    for each in tried:
        queue.put_back_alone(each)

    assert (woken, queue.active()) == (["a", "b", "c"], [])
    assert queue.queue.pop() is None


@pytest.mark.parametrize("is_rejection", [True, False])
def test_a_chain_of_probes_ends_with_its_group(is_rejection: bool) -> None:
    """Each probe finds a place, and then fails: in Permit, or with an error."""
    queue = Equals()
    queue.add("a", "b", "c")
    for _ in range(3):
        queue.reject()

    queue.wake()
    tried = []
    while (queued := queue.queue.pop()) is not None and len(tried) < 10:
        tried.append(queued.pod_info.name)
        queue.put_back_alone(queued, is_rejection=is_rejection)

    assert tried == ["a", "b", "c"]


def test_pods_with_a_nomination_are_not_equal_to_others() -> None:
    """A place is kept for them, so they are woken for themselves."""
    queue = Equals()
    a, _, _ = queue.add("a", "b", "c")
    for _ in range(3):
        queue.reject()
    queue.queue.add_nominated_pod(a, "n")

    queue.wake()

    assert queue.active() == ["a", "b"]


def test_a_rejection_holds_for_the_version_of_the_cluster_only() -> None:
    """Whether or not a hint takes the change; and so does the one that follows."""
    queue = Equals()
    queue.add("a", "b", "c", "d")
    queue.reject()

    queue.change()
    second = queue.pop()
    before = queue.known(second)
    queue.put_back(second)

    assert before is None
    assert queue.known(queue.pop()) is not None


def test_a_rejection_holds_for_five_minutes_only() -> None:
    """However many pods share it, and though nothing changes."""
    queue = Equals()
    queue.add("a")
    queue.reject()

    queue.clock.advance(299.0)
    queue.add("b")
    queue.reject()
    queue.clock.advance(2.0)
    queue.add("c")

    assert queue.known(queue.pop()) is None


def test_a_pod_that_is_activated_is_evaluated() -> None:
    """A plugin may know more than what is counted."""
    queue = Equals()
    queue.add("a", "b")
    queue.reject()
    queue.reject()

    queue.queue.activate(["b"])

    assert queue.known(queue.pop()) is None


def test_a_nomination_that_is_no_change_leaves_the_rejection() -> None:
    """Each failed attempt withdraws a nomination, which hardly any pod has."""
    queue = Equals()
    a, _ = queue.add("a", "b")
    queue.reject()
    queue.queue.add_nominated_pod(a, "")

    assert queue.known(queue.pop()) is not None


def test_a_change_of_a_pod_leaves_its_deadline() -> None:
    """Or one that changes all the time would never be tried again."""
    queue = Equals()
    queue.add("a")
    queue.reject()
    for i in range(10):
        queue.clock.advance(30.5)
        old = queue.queue.get("a")
        assert old is not None
        queue.queue.update(old, make_pod_info("a", uid="a", labels={"n": str(i)}))

    queue.queue.flush_unschedulable_leftover()

    assert queue.active() == ["a"]


def test_after_five_minutes_each_is_told_anew_how_things_are() -> None:
    """One after the other; only the first has to be tried."""
    queue = Equals()
    queue.add("a", "b", "c")
    for _ in range(3):
        queue.reject()

    queue.clock.advance(301.0)
    queue.queue.flush_unschedulable_leftover()
    told = []
    while queue.active():
        queued = queue.pop()
        told.append((queued.pod_info.name, queue.known(queued) is not None))
        queue.put_back(queued)

    assert [name for name, _ in told] == ["a", "b", "c"]
    assert [known for _, known in told] == [False, True, True]


def test_pods_that_no_node_could_hold_wait_for_nodes() -> None:
    """Neither an end of a pod nor time wakes them, nor a node that is too small as well."""
    queue = Equals()
    queue.add("a")
    queue.reject(excess=Excess("cpu", 8000))

    queue.wake()
    queue.clock.advance(301.0)
    queue.queue.flush_unschedulable_leftover()
    asleep = queue.active()
    queue.wake(NODE_ADD, None, make_node("small", allocatable={"cpu": "4"}))
    small = queue.active()
    queue.wake(NODE_ADD, None, make_node("large", allocatable={"cpu": "8"}))

    assert (asleep, small, queue.active()) == ([], [], ["a"])


def test_a_node_with_what_pods_lacked_wakes_them_without_a_question() -> None:
    """Whatever their plugin would answer."""
    asked: list[str] = []

    def never(pod: PodInfo, old: None, new: Node) -> QueueingHint:
        asked.append(pod.name)
        return QueueingHint.SKIP

    queue = Equals({"Fit": (registered(EventResource.NODE, ActionType.ADD, never),)})
    queue.add("a")
    queue.reject(excess=Excess("cpu", 8000))

    queue.wake(NODE_ADD, None, make_node("large", allocatable={"cpu": "8"}))

    assert (queue.active(), asked) == (["a"], [])


def test_very_many_groups_are_woken_bit_by_bit() -> None:
    """No event makes one long step of it, and nobody is left out."""
    queue = Equals()
    for i in range(300):
        queue.add(f"p{i}", labels={"n": str(i)})
    for _ in range(300):
        queue.reject()

    queue.clock.advance(20.0)
    queue.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, GONE, None)
    at_once = len(queue.active())
    for _ in range(5):
        queue.queue.flush_backoff_completed()

    assert 0 < at_once < 300
    assert len(queue.active()) == 300


def test_events_cost_no_more_than_a_note_while_many_are_asked() -> None:
    """Each group is asked about a few events of a round at most, however many there were."""
    asked: list[str] = []

    def never(pod: PodInfo, old: PodInfo, new: None) -> QueueingHint:
        asked.append(pod.name)
        return QueueingHint.SKIP

    queue = QueueUnderTest({"Fit": (registered(EventResource.POD, ActionType.DELETE, never),)})
    for i in range(1000):
        queue.queue.add(make_pod_info(f"p{i}", labels={"n": str(i)}))
    for _ in range(1000):
        queue.fail(queue.pop(), "Fit")
    for _ in range(50):
        queue.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, GONE, None)
    at_the_events = len(asked)

    while queue.queue.has_ready and len(asked) < 1_000_000:
        if queue.queue.pop() is not None:
            break

    assert at_the_events < 1000
    # One round about the first event; in the next all others are too many to be told apart.
    assert len(asked) == 1000
    assert queue.queue.counts().unschedulable < 1000


def test_nodes_that_come_in_a_row_cost_a_note_each() -> None:
    """However many groups wait for such a node; whom the largest of them holds is woken."""
    queue = Equals()
    for i in range(300):
        queue.add(f"p{i}", labels={"n": str(i)})
    for i in range(300):
        queue.reject(excess=Excess("cpu", 4000 if i % 2 else 8000))
    queue.clock.advance(20.0)

    queue.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node("n"))
    for cpu in ("4", "8", "4") * 20:
        node = make_node("n", allocatable={"cpu": cpu})
        queue.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node)
    noted = queue.queue._waking.pending
    at_once = len(queue.active())
    for _ in range(10):
        queue.queue.flush_backoff_completed()

    assert noted.offered == {"cpu": (8000, NODE_ADD.label)}
    assert sum(map(len, noted.sorts.values())) <= KEPT + 1
    assert at_once < 300
    assert len(queue.active()) == 300


@pytest.mark.parametrize("alone", [False, True])
def test_very_many_pods_of_a_group_are_woken_bit_by_bit(*, alone: bool) -> None:
    """Where each is asked about for itself, or woken for itself."""
    asked: list[str] = []

    def hint(pod: PodInfo, old: PodInfo, new: None) -> QueueingHint:
        asked.append(pod.name)
        return QueueingHint.QUEUE

    deleted = ClusterEvent(EventResource.POD, ActionType.DELETE)
    wanted = ClusterEventWithHint(deleted, hint, reads_pod_shape_only=not alone)
    queue = QueueUnderTest({"Fit": (wanted,)})
    for i in range(1000):
        queue.add_rejected(make_pod_info(f"p{i}", uid=f"p{i}"), "Fit")
    queue.clock.advance(20.0)

    queue.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, GONE, None)
    at_once = queue.queue.counts().active
    asked_at_once = len(asked)
    for _ in range(10):
        queue.queue.flush_backoff_completed()

    assert 0 < at_once <= 256
    assert asked_at_once <= 256
    assert len(asked) == (1000 if alone else 1)
    assert queue.queue.counts().active == 1000


@pytest.mark.parametrize("change", ["status", "labels", "nomination"])
def test_a_change_of_a_pod_does_not_hide_it_from_the_round(change: str) -> None:
    """Who is to be asked about what happened before is asked, wherever it waits by then."""
    queue = Equals()
    pods = [queue.add(f"p{i}", labels={"n": str(i)})[0] for i in range(300)]
    for _ in pods:
        queue.reject()
    queue.clock.advance(20.0)

    queue.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, GONE, None)
    last = pods[-1]
    if change == "nomination":
        queue.queue.add_nominated_pod(last, "n")
    else:
        labels = {"n": "other"} if change == "labels" else last.labels
        queue.queue.update(last, make_pod_info(last.name, uid=last.uid, labels=labels))
    before = queue.places()[last.name]
    for _ in range(10):
        queue.queue.flush_backoff_completed()

    assert before == "unschedulable"
    assert len(queue.active()) == 300


@pytest.mark.parametrize("change", ["labels", "nomination"])
def test_a_pod_that_changes_while_a_probe_stands_for_it_is_tried_itself(change: str) -> None:
    """The probe is rejected, and tells nothing about a pod that is not like it any more."""
    queue = Equals()
    a, b, _ = queue.add("a", "b", "c")
    for _ in range(3):
        queue.reject()
    queue.wake()
    before = queue.active()

    other = {"labels": {"x": "y"}} if change == "labels" else {"nominated_node_name": "n"}
    queue.queue.update(b, make_pod_info("b", uid="b", **other))
    queue.queue.validate()

    assert before == [a.name]
    assert queue.active() == ["a", "b"]


@pytest.mark.parametrize("cpu", [9, 8], ids=["as large", "smaller"])
def test_a_pod_that_asks_for_less_than_no_node_had_is_tried(cpu: int) -> None:
    """Whichever plugin rejected it: the events of nodes that were too small are over."""
    queue = Equals()
    (pod,) = queue.add("a", requests={"cpu": 9})
    queue.reject("Taint", Excess("cpu", 9000))
    queue.clock.advance(20.0)

    queue.queue.update(pod, make_pod_info("a", uid="a", requests={"cpu": cpu, "memory": 1}))
    queue.queue.validate()

    assert queue.active() == (["a"] if cpu < 9 else [])


def test_an_event_in_the_middle_of_a_round_is_for_all() -> None:
    """Also for those that the round has been at."""
    queue = Equals()
    for i in range(300):
        queue.add(f"p{i}", labels={"n": str(i)})
    for _ in range(300):
        queue.reject("Taint")
    queue.clock.advance(20.0)

    queue.wake(NODE_TAINT, make_node("n"), make_node("n"))
    at_once = len(queue.active())
    for _ in range(at_once):
        queue.reject("Taint")
    queue.wake(NODE_TAINT, make_node("n"), make_node("n"))
    for _ in range(5):
        queue.clock.advance(20.0)
        queue.queue.flush_backoff_completed()

    assert len(queue.active()) == 300


def test_the_end_of_very_many_back_offs_is_no_long_step() -> None:
    """Some become active with the flush, the others with the pops that follow."""
    queue = Equals()
    for i in range(1200):
        queue.add(f"p{i}", labels={"n": str(i)})
    for _ in range(1200):
        queued = queue.queue.pop()
        assert queued is not None
        queue.queue.add_unschedulable_if_not_present(queued, Failure(""))
    queue.clock.advance(20.0)

    queue.queue.flush_backoff_completed()
    at_once = len(queue.active())
    popped = [queue.queue.pop() for _ in range(1200)]

    assert 0 < at_once < 1200
    assert None not in popped
    assert not queue.queue.has_ready
