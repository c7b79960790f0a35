"""The queue against a simple model, over random histories.

The model keeps one record per pod and looks at every pod for every event: no heaps, no groups, no
shared list of events. What an event does to a pod in flight it decides when the event happens and
the attempt has ended, by asking what the event would have done to the pod had it been waiting.
"""

from collections import Counter
from math import floor, inf

from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import (
    NODE_ADD,
    NODE_DELETE,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from scheduler.kernel.framework.property_changes import pod_scheduling_properties_change
from scheduler.kernel.framework.status import SUCCESS, Status, unschedulable
from scheduler.kernel.framework.types import Failure, QueuedPodInfo
from scheduler.kernel.queue.active import FAIR_AFTER_SECONDS
from tests.support.builders import make_pod_info
from tests.support.queueing import QueueUnderTest

PLUGINS = ("Team", "Name", "Own", "NoHint", "Deaf")
TEAMS = ("red", "blue")


class Help:
    """The object of an event: whom it helps."""

    def __init__(self, team: str, name: str) -> None:
        self.team = team
        self.name = name


def helps(plugin: str, pod: PodInfo, event: ClusterEvent, new: object) -> bool:
    """Whether a plugin that rejected the pod would say Queue; the one rule of both sides."""
    if event.resource is EventResource.UNSCHEDULED_POD:
        is_label = bool(event.action & ActionType.UPDATE_POD_LABEL)
        own = isinstance(new, PodInfo) and new.uid == pod.uid
        return plugin == "Own" and is_label and own and event.action != ActionType.UPDATE
    if not isinstance(new, Help) or event.action is not ActionType.ADD:
        return False
    return {
        "Team": pod.labels.get("team") == new.team,
        "Name": pod.name == new.name,
        "NoHint": True,
    }.get(plugin, False)


def hint_of(plugin: str, event: ClusterEvent) -> ClusterEventWithHint:
    def hint(pod: PodInfo, old: object, new: object) -> QueueingHint:
        happened = event if event.resource is EventResource.NODE else OWN_LABEL
        is_helped = helps(plugin, pod, happened, new)
        return QueueingHint.QUEUE if is_helped else QueueingHint.SKIP

    return ClusterEventWithHint(event, hint, reads_pod_shape_only=plugin != "Name")


HAPPENING = st.tuples(
    st.sampled_from([NODE_ADD, NODE_ADD, NODE_ADD, NODE_DELETE]),
    st.builds(Help, st.sampled_from(TEAMS), st.integers(1, 9).map("p{}".format)),
    st.sampled_from([None, None, 0, 1]),
)
REJECTORS = st.sets(st.sampled_from(PLUGINS), max_size=2)
PENDING = st.sets(st.sampled_from(PLUGINS), max_size=1)

OWN_LABEL = ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.UPDATE_POD_LABEL)
GATES_GONE = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
EVENTS = {
    "Team": (hint_of("Team", NODE_ADD),),
    "Name": (hint_of("Name", NODE_ADD),),
    "Own": (hint_of("Own", ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL)),),
    "NoHint": (ClusterEventWithHint(NODE_ADD),),
    "Deaf": (),
    "Gate": (ClusterEventWithHint(GATES_GONE),),
}


def gate(pod: PodInfo) -> Status:
    return unschedulable("gated") if pod.spec.scheduling_gates else SUCCESS


class Record:
    """What the model knows of one pod."""

    def __init__(self, pod: PodInfo, now: float) -> None:
        self.pod = pod
        self.place = "active"
        self.timestamp = now
        self.rejectors: set[str] = set()
        self.pending: set[str] = set()
        self.is_gated = False
        self.rejections = 0
        self.errors = 0
        self.seen: list[tuple[ClusterEvent, object]] = []
        self.collects = False
        self.deleted = False
        self.activated = False

    @property
    def release(self) -> float:
        """When back-off is over: at the end of the second in which the time is up."""
        count = self.errors or self.rejections
        if not count:
            return 0.0
        return floor(self.timestamp + min(2.0 ** (count - 1), 10.0)) + 1.0

    def admit(self, place: str) -> None:
        """Go where the pod may go, unless it is gated."""
        self.is_gated = bool(self.pod.spec.scheduling_gates)
        if self.is_gated:
            self.rejectors.add("Gate")
            place = "gated"
        self.place = place

    def verdict(self, event: ClusterEvent, new: object) -> str:
        """What an event means to the pod: skip, backoff or active."""
        if self.is_gated and event.resource is EventResource.NODE:
            return "skip"
        if any(helps(plugin, self.pod, event, new) for plugin in self.pending):
            return "active"
        if any(helps(plugin, self.pod, event, new) for plugin in self.rejectors):
            return "backoff"
        gates_gone = GATES_GONE.covers(event) and "Gate" in self.rejectors
        return "backoff" if gates_gone and isinstance(new, PodInfo) else "skip"

    def wake(self, verdict: str, now: float) -> None:
        if verdict == "backoff" and self.release > now:
            self.admit("backoff")
        elif verdict != "skip":
            self.admit("active")


class QueueMachine(RuleBasedStateMachine):
    """Everything that can happen to the queue, in any order."""

    uids = Bundle("uids")

    @initialize()
    def start(self) -> None:
        self.under_test = QueueUnderTest(EVENTS, {"Gate": gate}, now=1000.25)
        self.queue = self.under_test.queue
        self.model: dict[str, Record] = {}
        self.flying: list[QueuedPodInfo] = []
        self.count = 0
        self.in_vain_since = inf
        """When a pod was rejected first since none was active."""

        for team in (*TEAMS, *TEAMS):
            self.add(priority=0, team=team, gated=False)

    @property
    def now(self) -> float:
        return self.under_test.clock.now

    def waiting(self) -> list[Record]:
        return [r for r in self.model.values() if r.place in ("unschedulable", "gated")]

    # --- what happens -----------------------------------------------------------------------------

    @rule(
        target=uids,
        priority=st.integers(0, 2),
        team=st.sampled_from(TEAMS),
        gated=st.sampled_from([False, False, True]),
    )
    def add(self, priority: int, team: str, *, gated: bool) -> str:
        self.count += 1
        gates = ["g"] if gated else []
        pod = make_pod_info(f"p{self.count}", priority=priority, labels={"team": team}, gates=gates)
        self.queue.add(pod)
        record = Record(pod, self.now)
        record.admit("active")
        self.model[pod.uid] = record
        return pod.uid

    @rule()
    def pop(self) -> None:
        queued = self.queue.pop()
        active = [r for r in self.model.values() if r.place == "active"]
        early = [
            r for r in self.model.values() if r.place == "backoff" and (r.rejectors or r.pending)
        ]
        if not active:
            self.in_vain_since = inf
        if queued is None:
            assert not active
            assert not early
            return
        record = self.model[queued.pod_info.uid]
        if active:
            best = min((-r.pod.priority, r.timestamp) for r in active)
            fair = min((r.rejections + r.errors, -r.timestamp) for r in active)
            assert record.place == "active"
            is_best = (-record.pod.priority, record.timestamp) == best
            is_fair = (record.rejections + record.errors, -record.timestamp) == fair
            assert is_best or (is_fair and self.now - self.in_vain_since >= FAIR_AFTER_SECONDS)
        else:
            first = min((r.release, -r.pod.priority, r.timestamp) for r in early)
            assert record.place == "backoff"
            assert (record.release, -record.pod.priority, record.timestamp) == first
        assert queued.pod_info is record.pod
        record.place = "inFlight"
        record.seen = []
        record.collects = True
        record.activated = False
        self.flying.append(queued)

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), rejectors=REJECTORS, pending=PENDING)
    def fail(self, data: st.DataObject, rejectors: set[str], pending: set[str]) -> None:
        queued = data.draw(st.sampled_from(self.flying))
        self.flying.remove(queued)
        self.end_attempt(queued, rejectors, pending)

    @rule(
        rejectors=REJECTORS,
        pending=PENDING,
        happenings=st.lists(HAPPENING, max_size=2),
        activated=st.sampled_from([False, False, True]),
        team=st.sampled_from([None, *TEAMS]),
    )
    def attempt(
        self,
        rejectors: set[str],
        pending: set[str],
        happenings: list[tuple[ClusterEvent, Help, int | None]],
        team: str | None,
        *,
        activated: bool,
    ) -> None:
        """A whole attempt, so that histories hold many of them."""
        self.pop()
        if not self.flying:
            return
        queued = self.flying.pop()
        for happening in happenings:
            self.happen(happening)
        if activated:
            self.activate(queued.pod_info.uid)
        if team is not None:
            self.update(queued.pod_info.uid, team, 0, ungate=False)
        self.end_attempt(queued, rejectors, pending)

    @rule(rejectors=REJECTORS, pending=PENDING)
    def reject_everybody(self, rejectors: set[str], pending: set[str]) -> None:
        """The cluster is full: pods of all kinds wait for the same plugins."""
        kept, self.flying = self.flying, []
        for _ in self.model:
            self.pop()
        for queued in self.flying:
            self.end_attempt(queued, rejectors, pending)
        self.flying = kept

    def end_attempt(self, queued: QueuedPodInfo, rejectors: set[str], pending: set[str]) -> None:
        record = self.model[queued.pod_info.uid]
        failure = Failure(
            "", unschedulable_plugins=frozenset(rejectors), pending_plugins=frozenset(pending)
        )
        put_back = self.queue.add_unschedulable_if_not_present(queued, failure)

        assert put_back is not record.deleted
        if record.deleted:
            del self.model[record.pod.uid]
            return
        record.rejectors, record.pending = set(rejectors), set(pending)
        record.timestamp = self.now
        if rejectors or pending:
            record.rejections, record.errors = record.rejections + 1, 0
            self.in_vain_since = min(self.in_vain_since, self.now)
        else:
            record.errors += 1
        self.put_back(record)

    def put_back(self, record: Record) -> None:
        """An attempt that failed: as if the pod waited first, and the events came then."""
        verdicts = {record.verdict(event, new) for event, new in record.seen}
        if record.activated:
            verdicts.add("backoff")
        if not record.collects or not (record.rejectors or record.pending):
            verdicts = {"backoff"}
        record.place = "unschedulable"
        record.wake("active" if "active" in verdicts else min(verdicts, default="skip"), self.now)

    @precondition(lambda self: self.flying)
    @rule()
    def bind(self) -> None:
        uid = self.flying.pop(0).pod_info.uid
        self.queue.done(uid)
        del self.model[uid]

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def end_scheduling_cycle(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(self.flying)).pod_info.uid
        self.queue.in_flight.stop_collecting(uid)
        self.model[uid].collects = False

    @rule(happening=HAPPENING)
    def happen(self, happening: tuple[ClusterEvent, Help, int | None]) -> None:
        event, new, max_priority = happening
        self.queue.move_all_to_active_or_backoff_queue(event, None, new, max_priority=max_priority)
        for record in self.waiting():
            if max_priority is None or record.pod.priority <= max_priority:
                record.wake(record.verdict(event, new), self.now)
        for record in self.model.values():
            if record.place == "inFlight":
                record.seen.append((event, new))

    @rule(
        uid=uids,
        team=st.sampled_from(TEAMS),
        priority=st.integers(0, 2),
        ungate=st.booleans(),
    )
    def update(self, uid: str, team: str, priority: int, *, ungate: bool) -> None:
        record = self.model.get(uid)
        if record is None or record.deleted:
            return
        old = record.pod
        gates = [] if ungate else [g.name for g in old.spec.scheduling_gates]
        new = make_pod_info(old.name, priority=priority, labels={"team": team}, gates=gates)
        self.queue.update(old, new)
        record.pod = new
        events = pod_scheduling_properties_change(old, new)
        if record.place == "inFlight":
            record.seen.extend((event, new) for event in events)
            for other in self.model.values():
                if other.place == "inFlight" and other is not record:
                    other.seen.extend((event, new) for event in events)
        elif record in self.waiting():
            verdicts = {record.verdict(event, new) for event in events}
            record.wake("active" if "active" in verdicts else min(verdicts), self.now)

    @rule(uid=uids)
    def delete(self, uid: str) -> None:
        record = self.model.get(uid)
        self.queue.delete(record.pod if record else make_pod_info(uid=uid))
        if record is None:
            return
        if record.place == "inFlight":
            record.deleted = True
        else:
            del self.model[uid]

    @rule(uid=uids)
    def activate(self, uid: str) -> None:
        record = self.model.get(uid)
        self.queue.activate([uid])
        if record is None:
            return
        if record.place == "backoff":
            record.place = "active"
        elif record.place == "inFlight":
            record.activated = True
        elif record in self.waiting():
            record.wake("active", self.now)

    @rule(seconds=st.sampled_from([0.0, 0.25, 0.75, 1.0, 3.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.under_test.clock.advance(seconds)
        self.queue.flush_backoff_completed()
        for record in self.model.values():
            if record.place == "backoff" and record.release <= self.now:
                record.place = "active"

    @rule()
    def wait_long(self) -> None:
        self.wait(290.0)
        self.queue.flush_unschedulable_leftover()
        for record in self.waiting():
            if not record.is_gated and self.now - record.timestamp > 300:
                record.wake("backoff", self.now)

    # --- what is always true ----------------------------------------------------------------------

    @invariant()
    def no_pod_is_lost_and_each_is_in_its_place(self) -> None:
        expected = {r.pod.name: r.place for r in self.model.values()}
        assert self.under_test.places() == expected

    @invariant()
    def the_newest_version_is_known(self) -> None:
        for uid, record in self.model.items():
            assert self.queue.get(uid) is (None if record.deleted else record.pod)

    @invariant()
    def rejectors_are_counted(self) -> None:
        waiting = [r for r in self.model.values() if r.place != "inFlight"]
        expected = Counter(
            (plugin, "stowage") for r in waiting for plugin in r.rejectors | r.pending
        )
        assert self.under_test.rejected_by == expected

    @invariant()
    def events_are_kept_only_for_attempts(self) -> None:
        counts = self.queue.in_flight.event_counts()
        if not any(r.place == "inFlight" and r.collects for r in self.model.values()):
            assert counts.total() == 0


TestQueueLaws = QueueMachine.TestCase
TestQueueLaws.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
