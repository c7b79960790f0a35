"""What the cluster says reaches the counts, the queue and the pods that wait for it."""

from collections.abc import Callable
from typing import Any

import pytest
from typing_extensions import override

from scheduler.api.objects import ContainerImage, Namespace, NodeCondition, ObjectMeta, Taint
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import Selector, selector_from_labels
from scheduler.api.storage import StorageClass
from scheduler.api.workloads import Service, ServiceSpec
from scheduler.kernel.engine.events import (
    Allowed,
    BindFailed,
    Bound,
    Decide,
    Event,
    ObjectGone,
    ObjectSet,
    Rejected,
)
from scheduler.kernel.engine.instructions import Bind
from scheduler.kernel.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NAMESPACE_ADD,
    NAMESPACE_UPDATE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_DELETE,
    UNSCHEDULED_POD_UPDATE,
    ActionType,
    ClusterEvent,
    EventResource,
    ObjectKind,
)
from scheduler.kernel.framework.handle import SharedState
from scheduler.kernel.framework.runtime import PluginError
from scheduler.kernel.framework.status import error, unschedulable
from scheduler.kernel.snapshot.pod_selectors import PodSelector
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.driven import ENDED, DrivenEngine, Holds, Room, Waits
from tests.unit.engine.engine import Everything

SERVICE = ObjectKind("Service")
STORAGE_CLASS = ObjectKind("StorageClass", "storage.k8s.io/v1")
WEB = selector_from_labels({"app": "web"})


def node_event(action: ActionType) -> ClusterEvent:
    return ClusterEvent(EventResource.NODE, action)


def pod_event(action: ActionType) -> ClusterEvent:
    return ClusterEvent(EventResource.ASSIGNED_POD, action)


def node_gone(name: str) -> ObjectGone:
    return ObjectGone("nodes", "", name, f"uid-of-{name}")


def sleeper_for(
    *wanted: ClusterEvent, kinds: tuple[ObjectKind, ...] = ()
) -> tuple[DrivenEngine, PodInfo]:
    """An engine without nodes, and a pod in it that waits for these events only."""
    driven = DrivenEngine(Waits("w", *wanted), nodes=("first",), kinds=kinds)
    return driven, driven.rejected("w")


# --- counts ---------------------------------------------------------------------------------------


def running(driven: DrivenEngine, **fields: object) -> PodInfo:
    """A pod that runs on the node `n` from the start."""
    pod = make_pod_info("r", node_name="n", **fields)
    driven.set(pod)
    return pod


def counted(driven: DrivenEngine, selector: Selector = WEB, *, living: bool = False) -> float:
    """How many pods of the namespace a selector finds, by the columns."""
    core = driven.engine.core
    core.cache.update_snapshot(core.snapshot)
    pods = PodSelector(frozenset({"default"}), selector, skip_terminating=living)
    return float(core.snapshot.pod_counts(pods).total)


def test_relabelling_a_running_pod_changes_the_counts() -> None:
    """It counts for what it is now, not for what it was."""
    driven = DrivenEngine()
    running(driven, labels={"app": "web"})
    assert counted(driven) == 1

    running(driven, labels={"app": "db"})

    assert counted(driven) == 0
    assert counted(driven, selector_from_labels({"app": "db"})) == 1


def test_a_pod_that_begins_to_end_no_longer_counts_among_the_living() -> None:
    """It still takes its room."""
    driven = DrivenEngine()
    running(driven, labels={"app": "web"})
    assert counted(driven, living=True) == 1

    running(driven, labels={"app": "web"}, deletion_timestamp=ENDED)

    assert counted(driven, living=True) == 0
    assert counted(driven) == 1
    assert driven.used == 1


def test_a_pod_that_ends_gives_its_room_back() -> None:
    """And is counted no more."""
    driven = DrivenEngine()
    pod = running(driven, labels={"app": "web"})

    driven.gone(pod)

    assert counted(driven) == 0
    assert driven.used == 0


def test_very_many_pods_are_taken_over_while_they_come() -> None:
    """At a start they come faster than ticks, of which none must do the work for thousands."""
    driven = DrivenEngine()

    for i in range(5000):
        driven.engine.handle(ObjectSet("pods", make_pod_info(f"p{i}", node_name="n")), 0.0)

    table = driven.engine.core.snapshot.table
    assert 2500 < table.pod_count[table.row_of["n"]] <= 5000


def test_a_tick_takes_over_what_changed() -> None:
    """So the next attempt need not."""
    driven = DrivenEngine(nodes=())
    driven.handle(ObjectSet("nodes", make_node("n")))
    snapshot = driven.engine.core.snapshot
    assert snapshot.table.count == 0

    driven.tick()

    assert snapshot.table.count == 1


# --- pods wake pods -------------------------------------------------------------------------------


def comes(driven: DrivenEngine) -> None:
    running(driven)


def goes(driven: DrivenEngine) -> None:
    driven.gone(make_pod_info("r", node_name="n"))


def is_relabelled(driven: DrivenEngine) -> None:
    running(driven, labels={"app": "web"})


def shrinks(driven: DrivenEngine) -> None:
    running(driven, requests={"cpu": "1"})


@pytest.mark.parametrize(
    ("change", "event"),
    [
        (goes, ASSIGNED_POD_DELETE),
        (is_relabelled, pod_event(ActionType.UPDATE_POD_LABEL)),
        (shrinks, pod_event(ActionType.UPDATE_POD_SCALE_DOWN)),
    ],
)
def test_a_change_of_a_running_pod_wakes_who_waits_for_it(
    change: Callable[[DrivenEngine], None], event: ClusterEvent
) -> None:
    """And nobody who waits for something else."""
    driven = DrivenEngine(Waits("w", event), Waits("other", NODE_DELETE))
    running(driven, requests={"cpu": "2"})
    waits, other = driven.rejected("w"), driven.rejected("other")

    change(driven)

    assert not driven.is_asleep(waits)
    assert driven.is_asleep(other)


def test_a_new_running_pod_wakes_who_waits_for_it() -> None:
    """Whoever bound it; hearing the same again wakes nobody."""
    driven, waits = sleeper_for(ASSIGNED_POD_ADD)
    running(driven)
    assert not driven.is_asleep(waits)

    driven.run()
    assert driven.is_asleep(waits)
    running(driven)

    assert driven.is_asleep(waits)


def test_our_own_pod_wakes_who_waits_for_it_when_the_watch_tells() -> None:
    """An assumed pod may still fail."""
    driven = DrivenEngine(Waits("w", ASSIGNED_POD_ADD))
    waits = driven.rejected("w")
    pod = driven.add("p")
    driven.handle(Decide())
    assert driven.is_asleep(waits)

    driven.set(pod.on_node("n"))

    assert not driven.is_asleep(waits)


# --- waiting pods ---------------------------------------------------------------------------------


def test_pods_of_others_are_nothing_until_they_run() -> None:
    """They are neither queued nor told of; running, they take room."""
    driven = DrivenEngine(Room(1))
    foreign = make_pod_info("f", scheduler_name="somebody-else")

    assert driven.set(foreign) == []
    assert driven.stage(foreign) == "nowhere"
    driven.set(foreign.on_node("n"))
    driven.rejected("p")

    assert driven.used == 1


def test_a_waiting_pod_that_somebody_else_binds_leaves_the_queue() -> None:
    """Its nomination ends as well."""
    driven, waits = sleeper_for()
    driven.engine.core.queue.add_nominated_pod(waits, "first")

    driven.set(waits.on_node("first"))

    assert driven.stage(waits) == "cache"
    assert len(driven.engine.core.queue.nominator) == 0


def test_a_waiting_pod_that_goes_leaves_the_queue() -> None:
    """Whatever part of it."""
    driven, waits = sleeper_for()

    driven.gone(waits)

    assert driven.stage(waits) == "nowhere"
    assert driven.engine.core.queue.get(waits.uid) is None


def test_a_waiting_pod_is_known_by_its_newest_version() -> None:
    """A change of its own labels is an event for itself."""
    driven = DrivenEngine(
        Waits("w", ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.UPDATE_POD_LABEL))
    )
    waits = driven.rejected("w")
    newer = make_pod_info("w", scheduler_name="test", labels={"a": "1"})

    driven.set(newer)

    assert driven.engine.core.queue.get(waits.uid) is newer
    assert not driven.is_asleep(waits)


def test_an_assumed_pod_is_no_longer_nominated() -> None:
    """Or its place would be kept twice."""
    driven = DrivenEngine()
    pod = driven.add("p")
    driven.engine.core.queue.nominator.nominate(pod, "n")

    driven.handle(Decide())

    assert driven.stage(pod) == "binding"
    assert len(driven.engine.core.queue.nominator) == 0


def withdraw(driven: DrivenEngine, pod: PodInfo) -> None:
    driven.set(make_pod_info(pod.name, scheduler_name="test", priority=10))


def renominate(driven: DrivenEngine, pod: PodInfo) -> None:
    driven.set(make_pod_info(pod.name, scheduler_name="test", priority=10, nominated_node_name="m"))


def delete(driven: DrivenEngine, pod: PodInfo) -> None:
    driven.gone(pod)


@pytest.mark.parametrize("change", [withdraw, renominate, delete])
@pytest.mark.parametrize(("priority", "wakes"), [(10, True), (11, False)])
def test_the_end_of_a_nomination_wakes_who_is_not_more_important(
    change: Callable[[DrivenEngine, PodInfo], None], priority: int, wakes: bool
) -> None:
    """Those who are more important could have had the place all the time."""
    driven = DrivenEngine(Waits("w", ASSIGNED_POD_DELETE), Waits("v"))
    nominated = driven.rejected("v", priority=10, nominated_node_name="n")
    waits = driven.rejected("w", priority=priority)

    change(driven, nominated)

    assert driven.is_asleep(waits) is not wakes


def test_an_update_that_keeps_the_nomination_wakes_nobody() -> None:
    """Nothing has become free."""
    driven = DrivenEngine(Waits("w", ASSIGNED_POD_DELETE), Waits("v"))
    driven.rejected("v", nominated_node_name="n")
    waits = driven.rejected("w")

    driven.add("v", nominated_node_name="n", resource_version="2")

    assert driven.is_asleep(waits)


def test_a_pod_that_is_being_deleted_loses_its_nomination_when_its_turn_comes() -> None:
    """A finalizer keeps it, and no event comes; a later version of it is nominated until its turn.

    Its room is free without an event, so the pods that may use it are woken.
    """
    driven = DrivenEngine(Waits("w", ASSIGNED_POD_DELETE))
    nominator = driven.engine.core.queue.nominator
    waits = driven.rejected("w")

    def turn(number: str) -> tuple[int, int, bool]:
        leaving = {"deletion_timestamp": ENDED, "resource_version": number}
        driven.add("v", nominated_node_name="n", **leaving)
        before = len(nominator), driven.is_asleep(waits)
        driven.handle(Decide())
        assert before[1]
        return before[0], len(nominator), driven.is_asleep(waits)

    assert turn("2") == (1, 0, False)
    driven.run()
    assert turn("3") == (1, 0, False)


@pytest.mark.parametrize("nominated", ["n", "m"], ids=["the node it gets", "another node"])
def test_a_pod_that_finds_another_place_than_its_nomination_frees_that(nominated: str) -> None:
    """No watch shows that others may have the place now."""
    driven = DrivenEngine(Waits("w", ASSIGNED_POD_DELETE), Room(1))
    waits = driven.rejected("w")

    driven.add("v", nominated_node_name=nominated)
    driven.handle(Decide())

    assert [bind.node for bind in driven.all(Bind)] == ["n"]
    assert driven.is_asleep(waits) is (nominated == "n")


def test_a_nomination_that_a_pod_gives_up_does_not_move_the_pod_itself() -> None:
    """Reserve rejects it, by a plugin that waits for any event: the pod is tried once."""
    refuses = Everything("w", reserve=unschedulable("no"))
    driven = DrivenEngine(refuses, Room(1))

    pod = driven.add("v", nominated_node_name="m")
    driven.run()

    assert (driven.is_asleep(pod), refuses.diary.count("w.reserve")) == (True, 1)


# --- nodes ----------------------------------------------------------------------------------------


BEFORE = {"annotations": {"a": "1"}, "unschedulable": True}


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        pytest.param(ObjectSet("nodes", make_node("m")), NODE_ADD, id="new"),
        pytest.param(node_gone("n"), NODE_DELETE, id="gone"),
        pytest.param({"labels": {"a": "1"}}, ActionType.UPDATE_NODE_LABEL, id="labels"),
        pytest.param({"annotations": {}}, ActionType.UPDATE_NODE_ANNOTATION, id="annotations"),
        pytest.param(
            {"allocatable": {"cpu": "8"}}, ActionType.UPDATE_NODE_ALLOCATABLE, id="allocatable"
        ),
        pytest.param(
            {"taints": (Taint("a", "b", "NoSchedule"),)}, ActionType.UPDATE_NODE_TAINT, id="taints"
        ),
        pytest.param({"unschedulable": False}, ActionType.UPDATE_NODE_TAINT, id="uncordoned"),
        pytest.param(
            {"conditions": (NodeCondition("Ready", "True"),)},
            ActionType.UPDATE_NODE_CONDITION,
            id="conditions",
        ),
        pytest.param(
            {"declared_features": ("F",)}, ActionType.UPDATE_NODE_DECLARED_FEATURE, id="features"
        ),
    ],
)
def test_a_change_of_a_node_wakes_who_waits_for_it(
    event: Event | dict[str, object], wanted: ClusterEvent | ActionType
) -> None:
    """And nobody who waits for something else."""
    if isinstance(event, dict):
        event = ObjectSet("nodes", make_node("n", **{**BEFORE, **event}))
    if isinstance(wanted, ActionType):
        wanted = node_event(wanted)
    driven = DrivenEngine(
        Waits("w", wanted), Waits("other", ASSIGNED_POD_ADD), nodes=(make_node("n", **BEFORE),)
    )
    waits, other = driven.rejected("w"), driven.rejected("other")

    driven.handle(event)

    assert not driven.is_asleep(waits)
    assert driven.is_asleep(other)


def test_a_changed_node_is_what_the_next_decision_sees() -> None:
    """Also when nobody waits for the change, as for images."""
    driven = DrivenEngine()
    newer = make_node("n", images=(ContainerImage(("example.com/app:1",), 900),))

    driven.handle(ObjectSet("nodes", newer))
    driven.tick()

    snapshot = driven.engine.core.snapshot
    assert snapshot.images.find("example.com/app:1") is not None
    assert snapshot.node(snapshot.table.row_of["n"]) is newer


def test_a_heartbeat_is_nothing() -> None:
    """A version that changes nothing we read makes no work for the snapshot."""
    driven = DrivenEngine()
    driven.tick()
    before = driven.engine.core.snapshot.epoch

    driven.handle(ObjectSet("nodes", make_node("n", resource_version="2")))
    driven.tick()

    assert driven.engine.core.snapshot.epoch == before


def test_a_node_that_was_never_there_goes_unnoticed() -> None:
    """Nobody is woken."""
    driven, waits = sleeper_for(NODE_DELETE)

    assert driven.handle(node_gone("nowhere")) == []
    assert driven.is_asleep(waits)


def test_a_ghost_goes_once() -> None:
    """A node that is gone already, of which only pods are left."""
    driven = DrivenEngine(Waits("w", NODE_DELETE))
    running(driven)
    driven.handle(node_gone("n"))
    driven.handle(ObjectSet("nodes", make_node("m")))
    waits = driven.rejected("w")

    driven.handle(node_gone("n"))

    assert driven.is_asleep(waits)


# --- namespaces -----------------------------------------------------------------------------------


def namespace(**labels: str) -> ObjectSet:
    return ObjectSet("namespaces", Namespace(ObjectMeta(name="default", labels=labels)))


def in_teams(driven: DrivenEngine) -> float:
    """How many pods run in namespaces of team A."""
    core = driven.engine.core
    core.cache.update_snapshot(core.snapshot)
    team = selector_from_labels({"team": "a"})
    return float(core.snapshot.pod_counts(PodSelector(frozenset(), Selector(), team)).total)


def test_labels_of_a_namespace_count_and_wake() -> None:
    """Its coming, its changes; what changes nothing wakes nobody; its end is the end of labels."""
    driven = DrivenEngine(Waits("new", NAMESPACE_ADD), Waits("changed", NAMESPACE_UPDATE))
    running(driven)
    new, changed = driven.rejected("new"), driven.rejected("changed")

    driven.handle(namespace())
    assert not driven.is_asleep(new)
    assert driven.is_asleep(changed)
    driven.handle(namespace())
    assert driven.is_asleep(changed)
    driven.handle(namespace(team="a"))
    assert not driven.is_asleep(changed)
    assert in_teams(driven) == 1

    driven.handle(ObjectGone("namespaces", "", "default", ""))

    assert in_teams(driven) == 0


# --- what only plugins read -----------------------------------------------------------------------


def service(**selector: str) -> Service:
    return Service(ObjectMeta(name="s", namespace="default"), ServiceSpec(selector))


SERVICE_GONE = ObjectGone("services", "default", "s", "")


@pytest.mark.parametrize(
    ("action", "events"),
    [
        (ActionType.ADD, [ObjectSet("services", service())]),
        (ActionType.UPDATE, [ObjectSet("services", service(a="1"))]),
        (ActionType.DELETE, [SERVICE_GONE]),
    ],
    ids=["new", "changed", "gone"],
)
def test_a_change_of_a_service_wakes_who_waits_for_it(
    action: ActionType, events: list[Event]
) -> None:
    """Each kind of change those who ask for it."""
    driven = DrivenEngine(Waits("w", ClusterEvent(EventResource.SERVICE, action)), kinds=(SERVICE,))
    if action is not ActionType.ADD:
        driven.handle(ObjectSet("services", service()))
    waits = driven.rejected("w")

    for event in events:
        driven.handle(event)

    assert not driven.is_asleep(waits)


class Diary(SharedState):
    """Writes down what it hears; breaks down at a name."""

    WATCHES = (SERVICE,)

    def __init__(self) -> None:
        self.heard: list[tuple[object, object]] = []
        self.places: list[str] = []

    @override
    def on_event(self, kind: ObjectKind, old: Any, new: Any) -> None:
        self.heard.append((old, new))
        if new is not None and "broken" in new.spec.selector:
            raise RuntimeError("cannot read this")

    @override
    def reserve(self, pod: PodInfo, node_name: str) -> None:
        self.places.append(f"+{node_name}")

    @override
    def unreserve(self, pod: PodInfo, node_name: str) -> None:
        self.places.append(f"-{node_name}")

    @override
    def fork(self) -> "Diary":
        return self


def test_what_plugins_share_hears_of_everything_in_order() -> None:
    """Coming, changing and going, each with the object before."""
    driven = DrivenEngine(kinds=(SERVICE,))
    diary = driven.states.shared(Diary, "P")
    first, second = service(), service(a="1")

    for event in (ObjectSet("services", first), ObjectSet("services", second), SERVICE_GONE):
        assert driven.handle(event) == []
    driven.handle(SERVICE_GONE)

    assert diary.heard == [(None, first), (first, second), (second, None)]


def test_what_plugins_share_may_fail_without_harm() -> None:
    """The failure is reported; the others hear, and pods that wait are woken."""
    driven = DrivenEngine(
        Waits("w", ClusterEvent(EventResource.SERVICE, ActionType.ADD)), kinds=(SERVICE,)
    )
    driven.states.shared(Diary, "P")
    waits = driven.rejected("w")
    failed: list[PluginError] = []
    driven.states.on_failed = failed.append

    driven.handle(ObjectSet("services", service(broken="yes")))

    assert [str(each) for each in failed] == [
        'running SharedState plugin "P": RuntimeError: cannot read this'
    ]
    assert not driven.is_asleep(waits)
    assert driven.states.lister(SERVICE).get("s", "default") is not None


@pytest.mark.parametrize("fails", [True, False], ids=["fails", "is bound"])
def test_what_plugins_share_hears_of_every_place(fails: bool) -> None:
    """Given back exactly when the pod does not get it."""
    driven = DrivenEngine()
    diary = driven.states.shared(Diary, "P")
    pod = driven.add("p")
    driven.handle(Decide())

    answer = BindFailed if fails else lambda attempt, _: Bound(attempt)
    driven.handle(answer(driven.attempt(pod).id, "refused"))
    if not fails:
        driven.set(pod.on_node("n"))

    assert diary.places == (["+n", "-n"] if fails else ["+n"])


# --- time -----------------------------------------------------------------------------------------


def test_a_pod_that_nothing_wakes_is_tried_after_five_minutes() -> None:
    """With the tick that follows."""
    driven, waits = sleeper_for()
    driven.tick()

    for _ in range(10):
        driven.tick(30)
    assert driven.is_asleep(waits)
    driven.tick(1)

    assert not driven.is_asleep(waits)


def test_back_off_ends_by_itself() -> None:
    """One second after the first error, with the tick that comes then."""
    driven = DrivenEngine(Everything(reserve=error("no")))
    pod = driven.add("p")
    driven.handle(Decide())
    assert driven.stage(pod) == "backoff"
    assert not driven.engine.has_ready

    driven.tick(0.5)
    assert driven.stage(pod) == "backoff"
    driven.tick(1.5)

    assert driven.stage(pod) == "active"
    assert driven.engine.has_ready


# --- measuring ------------------------------------------------------------------------------------


def test_changes_are_measured_by_their_events() -> None:
    """Each under its label; not those of services, of which kube-scheduler handles no event."""
    driven = DrivenEngine(Waits("w"), kinds=(SERVICE, STORAGE_CLASS))
    pod = driven.rejected("w")

    driven.set(make_pod_info("w", scheduler_name="test", labels={"a": "1"}))
    driven.gone(pod)
    running(driven)
    goes(driven)
    for event in (
        ObjectSet("services", service()),
        ObjectSet("services", service(a="1")),
        SERVICE_GONE,
        ObjectSet("storageclasses", StorageClass(ObjectMeta(name="fast"), "csi.example.com")),
    ):
        driven.handle(event)

    assert [*driven.metrics.event_handling_duration] == [
        NODE_ADD.label,
        UNSCHEDULED_POD_ADD.label,
        UNSCHEDULED_POD_UPDATE.label,
        ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.UPDATE_POD_LABEL).label,
        UNSCHEDULED_POD_DELETE.label,
        ASSIGNED_POD_ADD.label,
        ASSIGNED_POD_DELETE.label,
        "storage.k8s.io/StorageClassAdd",
    ]


def test_outcomes_are_measured_in_the_time_of_the_events() -> None:
    """A rejection, an error, the time held by Permit, and a binding."""
    driven = DrivenEngine(Holds(), Waits("w"), Room(1))
    driven.rejected("w")
    pod = driven.add("p")
    driven.handle(Decide())
    driven.clock.advance(3)
    driven.handle(Allowed(pod.uid, "Holds"))
    driven.clock.advance(2)
    attempt = driven.attempt(pod).id

    driven.handle(Bound(attempt))

    took = driven.metrics.scheduling_attempt_duration
    assert {result: took[result, "test"].sum for result, _ in took} == {
        "unschedulable": 0.0,
        "scheduled": 5.0,
    }
    assert driven.metrics.permit_wait_duration["Success"].sum == 3.0
    assert driven.metrics.pod_scheduling_attempts.sum == 1
    assert driven.metrics.pod_scheduling_sli_duration["1"].sum == 5.0


@pytest.mark.parametrize(
    ("end", "result"),
    [
        (lambda driven, pod: driven.handle(Rejected(pod.uid, "Holds", "no")), "Unschedulable"),
        (lambda driven, pod: driven.gone(pod), "Unschedulable"),
        (lambda driven, _: driven.handle(node_gone("n")), "Error"),
    ],
    ids=["rejected", "deleted", "failed"],
)
def test_a_wait_in_permit_is_measured_by_its_end(
    end: Callable[[DrivenEngine, PodInfo], object], result: str
) -> None:
    """Source: runtime/framework.go WaitOnPermit v1.36.3."""
    driven = DrivenEngine(Holds())
    pod = driven.add("p")
    driven.handle(Decide())

    end(driven, pod)

    assert [*driven.metrics.permit_wait_duration] == [result]
