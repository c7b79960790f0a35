"""Room kept for gangs: in time, for those that wait, and used by pods that end before."""

from collections.abc import Collection
from copy import copy
from typing import Any, Final

import pytest
from hypothesis import given, settings, strategies as st
from typing_extensions import override

from scheduler.api.objects import ObjectMeta, OwnerReference
from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo
from scheduler.config.load import load
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.kernel.answers.estimate import estimate
from scheduler.kernel.ends.times import text_of
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.engine_state import EngineProfiles
from scheduler.kernel.engine.events import Answered, Configure, Decide, ObjectGone, ObjectSet, Tick
from scheduler.kernel.engine.instructions import Ask, Instruction, PatchGroupStatus, PatchStatus
from scheduler.kernel.extender import Filtered
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.steps import finished
from scheduler.kernel.preemption.kept_room import KeptRoom, RoomReservation
from scheduler.tools.offline.cluster import DEFAULT_PROFILE, Profiles
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.test_gang_histories import GATES, GroupedCluster, gang

AFTER: Final = 20
"""Seconds a group waits before room is kept for it."""
SLACK: Final = 25
"""Seconds of back-off, and of ticks."""
CONFIGURATION: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: KeepRoom}]}}
  pluginConfig: [{name: KeepRoom, args: {afterSeconds: %d}}]
"""
KEEPS: Final = CONFIGURATION % AFTER
PLAIN: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""


def configured(text: str, gates: Collection[str] = GATES) -> KubeSchedulerConfiguration:
    return load(text, default_scheduler_name=DEFAULT_PROFILE, feature_gates=gates)


class TimedCluster(GroupedCluster):
    """Pods run for a while, each on one of its node's places; statuses come back.

    Attributes:
        seconds: by UID, how long each pod runs; the others run on.
        conditions: what was written last of each group.
    """

    def __init__(
        self, *places: int, configuration: str = KEEPS, gates: Collection[str] = GATES
    ) -> None:
        self.configuration, self.gates = configuration, gates
        self.seconds: dict[str, int] = {}
        self.conditions: dict[str, str] = {}
        super().__init__()
        for number, count in enumerate(places):
            self.set_node(f"n{number}", count)

    @override
    def _new_engine(self) -> Engine:
        self.profiles = Profiles(configured(self.configuration, self.gates))
        return self.profiles.engine(self.serial, epoch=0.0)

    def built(self, configuration: str) -> dict[str, Framework]:
        """The profiles of another configuration, for the same engine."""
        return self.profiles._builder.build(configured(configuration))

    @override
    def handle(self, event: Any) -> list[Instruction]:
        told = super().handle(event)
        for each in told:
            if isinstance(each, PatchGroupStatus):
                self.conditions[each.name] = each.condition.message
            elif isinstance(each, PatchStatus) and each.nominated_node_name is not None:
                self._show(each.uid, nominated_node_name=each.nominated_node_name)
        return told

    def run(self, seconds: int | None, *, states: bool = True, **fields: Any) -> PodInfo:
        """A pod that will run for so long, and says so."""
        duration = f"{seconds}s" if states and seconds is not None else ""
        pod = self.add(preemption_policy="Never", expected_duration=duration, **fields)
        if seconds is not None:
            self.seconds[pod.uid] = seconds
        return pod

    def start_gang(
        self, name: str, count: int, min_count: int | None = None, **fields: Any
    ) -> None:
        self.groups[name] = gang(name, min_count or count)
        self.handle(ObjectSet("podgroups", self.groups[name]))
        for _ in range(count):
            self.add(name, preemption_policy="Never", **fields)

    def drop_gang(self, name: str) -> None:
        group = self.groups.pop(name)
        self.handle(ObjectGone("podgroups", group.namespace, group.name, group.uid))

    def pass_seconds(self, seconds: int = 1) -> None:
        """Pods end, and all that is ready is decided and bound; statuses are shown at the end."""
        for _ in range(seconds):
            self.now += 1.0
            for uid in [uid for uid, pod in self.pods.items() if self._is_over(pod)]:
                self.end(uid)
            self.handle(Tick())
            while self.engine.has_ready or self.under_way:
                if self.engine.has_ready:
                    self.handle(Decide())
                else:
                    self.answer(is_bound=True)
            for uid, pod in list(self.pods.items()):
                if pod.node_name and pod.pod.start_time is None:
                    self._show(uid, start_time=text_of(self.now))

    def pass_until_ready(self) -> None:
        """Time passes until something may be decided."""
        while not self.engine.has_ready:
            self.now += 1.0
            self.handle(Tick())

    def is_running(self, pod: PodInfo) -> bool:
        return pod.uid in self.pods and bool(self.pods[pod.uid].node_name)

    @property
    def room(self) -> RoomReservation | None:
        """What is kept."""
        kept = self.engine.core.states.known(KeptRoom)
        rooms = [] if kept is None else kept.rooms()
        assert len(rooms) <= 1
        return rooms[0] if rooms else None

    @property
    def nominated(self) -> set[str]:
        """The pods that have a nomination."""
        nominator = self.engine.core.queue.nominator
        return {pod.uid for node in nominator for pod in nominator.nominated_pods_for_node(node)}

    def _is_over(self, pod: PodInfo) -> bool:
        start = pod.pod.start_time
        seconds = self.seconds.get(pod.uid)
        return start is not None and seconds is not None and start <= text_of(self.now - seconds)

    def _show(self, uid: str, **status: Any) -> None:
        """The status of a pod changes."""
        known = self.pods.get(uid)
        if known is None:
            return
        annotations = known.pod.metadata.annotations
        request = known.spec.containers[0].resources
        assert request is not None
        self.pods[uid] = pod = make_pod_info(
            known.name,
            uid=uid,
            group=known.group_name,
            node_name=known.node_name,
            scheduler_name=known.spec.scheduler_name,
            requests=request.requests,
            priority=known.spec.priority,
            preemption_policy=known.spec.preemption_policy,
            expected_duration=annotations.expected_duration,
            owner_references=known.pod.metadata.owner_references,
            claims=[each.name for each in known.resource_claims],
            **{
                "nominated_node_name": known.pod.status.nominated_node_name,
                "start_time": known.pod.start_time,
                **status,
            },
        )
        self.handle(ObjectSet("pods", pod))


def waiting_gang(*running: int | None, places: int = 4, after: int = AFTER) -> TimedCluster:
    """Pods that run so long on all places of two nodes, and a gang for which room is kept."""
    half = places // 2
    cluster = TimedCluster(half, places - half)
    for seconds in running:
        cluster.run(seconds)
    cluster.pass_seconds(2)
    cluster.start_gang("a", places)
    cluster.pass_seconds(after + 2)
    return cluster


@pytest.mark.parametrize(("configuration", "is_started"), [(PLAIN, False), (KEEPS, True)])
def test_a_stream_of_small_pods_does_not_keep_a_gang_from_its_room(
    configuration: str, *, is_started: bool
) -> None:
    """It does without the plugin, for ever: there are never two free places."""
    cluster = TimedCluster(2, 2, configuration=configuration)
    for second in range(AFTER + 12 + SLACK):
        cluster.run(12)
        cluster.run(12)
        if second == 3:
            cluster.start_gang("a", 3)
        cluster.pass_seconds()

    assert (cluster.placed("a") == 3) is is_started


def test_the_condition_says_when_and_members_say_where() -> None:
    """Of the pods in the way the last one ends after 60 seconds."""
    cluster = waiting_gang(60, 60, 50, 40)
    room = cluster.room
    assert room is not None

    when = text_of(room.until)
    assert room.until == pytest.approx(1001 + 60, abs=2)
    assert cluster.conditions["a"] == (
        "pod group is unschedulable, room is kept on 2 nodes for 4 pods, expected start " + when
    )
    assert cluster.nominated == {uid for uid in cluster.pods if uid.startswith("a-")}
    told = [cluster.engine.core.queue.place_of(uid) for uid in cluster.nominated]
    assert all(each and f", expected start {when}" in each.queued.last_failure for each in told)


def test_the_estimate_of_a_gang_counts_the_room_that_is_kept_for_it() -> None:
    """It is the time that its condition tells."""
    cluster = waiting_gang(90, 90, 90)
    core, room = cluster.engine.core, cluster.room
    assert room is not None
    pod = cluster.pods[next(iter(room.places))]

    found = finished(estimate(cluster.engine, core.frameworks[DEFAULT_PROFILE], pod, cluster.now))

    assert found is not None
    assert found.time == text_of(room.until)


def test_a_pod_that_says_nothing_is_let_through_if_runs_before_it_were_short() -> None:
    """All pods of its Job that ran until now took five seconds."""
    job = OwnerReference(kind="Job", name="brief", uid="j", controller=True)
    cluster = TimedCluster(2, 2)
    for _ in range(3):
        pod = cluster.run(5, states=False, owner_references=(job,))
    cluster.pass_seconds(8)
    assert pod.uid not in cluster.pods
    for _ in range(3):
        cluster.run(90)
    cluster.start_gang("a", 4)
    cluster.pass_seconds(AFTER + 2)
    assert cluster.room is not None

    learned = cluster.run(5, states=False, owner_references=(job,))
    other = cluster.run(5, states=False)
    cluster.pass_seconds(2)

    assert (cluster.is_running(learned), cluster.is_running(other)) == (True, False)


@pytest.mark.parametrize(
    ("seconds", "states", "is_let"), [(10, True, True), (200, True, False), (10, False, False)]
)
def test_only_pods_that_end_before_may_use_the_room(
    seconds: int, *, states: bool, is_let: bool
) -> None:
    """One place is free for 60 seconds; the gang needs it then."""
    cluster = waiting_gang(90, 90, 90)
    assert cluster.room is not None

    small = cluster.run(seconds, states=states)
    cluster.pass_seconds(2)

    assert cluster.is_running(small) is is_let
    cluster.pass_seconds(80)
    assert cluster.placed("a") == 4


def test_a_gang_that_ends_before_may_use_the_room_too() -> None:
    """Two places are free: a small gang runs there, one that says nothing does not."""
    cluster = waiting_gang(90, 90)

    cluster.start_gang("b", 2)
    cluster.pass_seconds(2)
    before = cluster.placed("b")
    cluster.start_gang("c", 2, expected_duration="20s")
    cluster.pass_seconds(2)

    assert (before, cluster.placed("b"), cluster.placed("c")) == (0, 0, 2)


@pytest.mark.parametrize("how", ["group", "pods"])
def test_those_that_waited_for_kept_room_are_woken_when_it_is_given_up(how: str) -> None:
    """Within seconds, though no pod ends."""
    cluster = waiting_gang(900, 900, 900)
    small = cluster.run(None)
    cluster.pass_seconds(2)
    assert not cluster.is_running(small)

    if how == "group":
        cluster.drop_gang("a")
    else:
        for uid in [uid for uid in cluster.pods if uid.startswith("a-")]:
            cluster.end(uid)
    cluster.pass_seconds(12)

    assert cluster.is_running(small)
    assert (cluster.room, cluster.nominated) == (None, set())


@pytest.mark.parametrize("how", ["group", "pod"])
@pytest.mark.parametrize("steps", [3, 16, 22, 25])
def test_a_gang_that_may_not_be_tried_when_room_was_found_keeps_none(how: str, steps: int) -> None:
    """It has lost its object or a member meanwhile, and nothing would try it until it is whole."""
    cluster = TimedCluster(2, 2)
    cycle = cluster.engine.scheduler.group_cycle
    cycle.step.units = 1
    for _ in range(3):
        cluster.run(900)
    cluster.pass_seconds(2)
    cluster.start_gang("a", 4)
    cluster.pass_seconds(AFTER - 3)
    small = cluster.run(None)
    while not cycle.members or cluster.now < 1000 + AFTER:
        cluster.pass_until_ready()
        cluster.handle(Decide())
    for _ in range(steps):
        assert cycle.members
        cluster.handle(Decide())

    if how == "group":
        cluster.drop_gang("a")
    else:
        cluster.end("a-4")
    cluster.pass_seconds(12)

    assert cluster.is_running(small)
    assert (cluster.room, cluster.nominated) == (None, set())


def test_a_pod_whose_labels_change_keeps_its_room() -> None:
    """It is of another kind then; its room is chosen anew when it is needed, as ever."""
    cluster = TimedCluster(2)
    cluster.run(30)
    cluster.pass_seconds(2)
    big = cluster.add(preemption_policy="Never", requests={"cpu": "2"})
    cluster.pass_seconds(AFTER + 2)
    before = cluster.room
    assert before is not None
    cluster.seconds.clear()

    cluster.pods[big.uid] = newer = labelled(big, before.places[big.uid])
    cluster.handle(ObjectSet("pods", newer))
    cluster.pass_seconds(60)

    after = cluster.room
    assert after is not None
    assert (after.until, after.unknown, after.since) == (0.0, 1, before.since)


def labelled(pod: PodInfo, nominated_node_name: str) -> PodInfo:
    """A pod after a change of its labels."""
    request = pod.spec.containers[0].resources
    assert request is not None
    return make_pod_info(
        pod.name,
        uid=pod.uid,
        labels={"new": "yes"},
        scheduler_name=pod.spec.scheduler_name,
        requests=request.requests,
        preemption_policy=pod.spec.preemption_policy,
        nominated_node_name=nominated_node_name,
    )


def test_a_gang_is_tried_when_it_has_waited_long_enough_though_nothing_happens() -> None:
    """A free place would be lost otherwise to the next pod that comes."""
    cluster = waiting_gang(900, 900, 900, after=AFTER - 5)
    before = cluster.room
    cluster.pass_seconds(9)
    small = cluster.run(None)
    cluster.pass_seconds(1)

    assert before is None
    assert cluster.room is not None
    assert not cluster.is_running(small)


def test_no_room_is_kept_for_a_gang_that_no_empty_cluster_holds() -> None:
    """The place stays free for others."""
    cluster = TimedCluster(2, 2)
    for _ in range(3):
        cluster.run(900)
    cluster.start_gang("a", 5)
    cluster.pass_seconds(3 * AFTER)
    small = cluster.run(None)
    cluster.pass_seconds(2)

    assert cluster.room is None
    assert cluster.is_running(small)


def test_room_for_a_gang_with_a_topology_is_in_one_domain() -> None:
    """The first four places that come free are in two racks; in one there are four later."""
    gates = (*GATES, "TopologyAwareWorkloadScheduling")
    cluster = TimedCluster(2, 2, 4, gates=gates)
    for number, (rack, places) in enumerate((("a", "2"), ("b", "2"), ("c", "4"))):
        labels, cpu = {"rack": rack}, {"cpu": places}
        node = make_node(f"n{number}", labels=labels, allocatable=cpu)
        cluster.handle(ObjectSet("nodes", node))
    for seconds in (60, 60, 60, 60, 300, 300, 300, 300):
        cluster.run(seconds)
    cluster.pass_seconds(2)
    cluster.groups["a"] = PodGroup(
        ObjectMeta(name="a", namespace="default", uid="group-a"), 4, topology_key="rack"
    )
    cluster.handle(ObjectSet("podgroups", cluster.groups["a"]))
    for _ in range(4):
        cluster.add("a", preemption_policy="Never")
    cluster.pass_seconds(AFTER + 2)
    room = cluster.room

    assert room is not None
    assert set(room.places.values()) == {"n2"}
    cluster.pass_seconds(330)
    assert cluster.placed("a") == 4


def test_the_places_of_a_failed_attempt_tie_room_to_no_domain() -> None:
    """Five of six members find a place in one rack; in the other there are eight later."""
    gates = (*GATES, "TopologyAwareWorkloadScheduling")
    cluster = TimedCluster(8, gates=gates)
    busy = make_node("n0", allocatable={"cpu": "8"}, labels={"rack": "r2"})
    free = make_node("n1", allocatable={"cpu": "5"}, labels={"rack": "r1"})
    cluster.handle(ObjectSet("nodes", busy))
    for _ in range(8):
        cluster.run(600)
    cluster.pass_seconds(2)
    cluster.handle(ObjectSet("nodes", free))
    cluster.groups["a"] = PodGroup(
        ObjectMeta(name="a", namespace="default", uid="group-a"), 6, topology_key="rack"
    )
    cluster.handle(ObjectSet("podgroups", cluster.groups["a"]))
    for _ in range(6):
        cluster.add("a", preemption_policy="Never")
    cluster.pass_seconds(AFTER + 2)
    room = cluster.room

    assert room is not None
    assert set(room.places.values()) == {"n0"}


def test_room_is_kept_where_no_end_is_known() -> None:
    """Pods end some time; until then nothing takes their places."""
    cluster = waiting_gang(None, None, None)
    room = cluster.room
    assert room is not None
    small = cluster.run(1)
    cluster.pass_seconds(2)
    assert not cluster.is_running(small)
    assert cluster.conditions["a"].endswith("until 3 pods there end")

    for uid in [uid for uid in cluster.pods if cluster.is_running(cluster.pods[uid])]:
        cluster.end(uid)
        cluster.pass_seconds(15)

    assert cluster.placed("a") == 4


def test_two_gangs_have_their_turns_one_after_the_other() -> None:
    """Each needs the whole cluster, while small pods keep coming."""
    cluster = TimedCluster(2, 2)
    cluster.start_gang("x", 1)
    for second in range(2 * (AFTER + 10 + SLACK)):
        cluster.run(8)
        if second == 2:
            cluster.start_gang("a", 4)
            cluster.start_gang("b", 4)
        if cluster.placed("a") == 4:
            for uid in [uid for uid in cluster.pods if uid.startswith("a-")]:
                cluster.seconds[uid] = 5
        if cluster.placed("x"):
            cluster.seconds["x-1"] = 5
        cluster.pass_seconds()
        if cluster.placed("b") == 4:
            return

    pytest.fail("the second gang has not started")


def test_a_more_important_gang_takes_over() -> None:
    """Room that is kept for a less important one is given up for it."""
    cluster = waiting_gang(900, 900, 900)
    cluster.start_gang("b", 4, priority=5)
    cluster.pass_seconds(AFTER + SLACK)

    room = cluster.room
    assert room is not None
    assert room.name == "pod group default/b"
    assert all(uid.startswith("b-") for uid in cluster.nominated)


def test_room_is_chosen_anew_when_pods_run_longer_than_they_said() -> None:
    """It is known no more when it is needed, and no pod is let through any more."""
    cluster = waiting_gang(30, 30, 30)
    for uid in cluster.seconds:
        cluster.seconds[uid] = 900
    cluster.pass_seconds(60)
    room = cluster.room
    small = cluster.run(1)
    cluster.pass_seconds(2)

    assert room is not None
    assert (room.until, room.unknown) == (0.0, 3)
    assert not cluster.is_running(small)


def test_room_is_chosen_anew_when_one_of_its_nodes_is_gone() -> None:
    """Two others are left."""
    cluster = TimedCluster(2, 2, 2)
    for _ in range(6):
        cluster.run(300)
    cluster.pass_seconds(2)
    cluster.start_gang("a", 4)
    cluster.pass_seconds(AFTER + 2)
    before = cluster.room
    assert before is not None
    name = next(iter(before.nodes))

    cluster.handle(ObjectGone("nodes", "", name, ""))
    cluster.pass_seconds(2)

    after = cluster.room
    assert after is not None
    assert after.nodes.keys() == {"n0", "n1", "n2"} - {name}


def test_a_heartbeat_of_its_nodes_leaves_room_as_it_is() -> None:
    """A node is new then, and takes the same pods."""
    cluster = waiting_gang(900, 900, 900)
    before = cluster.room
    assert before is not None

    for node in before.nodes.values():
        cluster.handle(ObjectSet("nodes", copy(node)))
    cluster.pass_seconds(2)

    assert cluster.room is before


def test_room_is_taken_over_after_a_restart() -> None:
    """By the nominations that the pods' statuses tell of."""
    cluster = waiting_gang(90, 90, 90)
    cluster.restart(0)
    small = cluster.run(None)
    cluster.pass_seconds(3)

    assert cluster.room is not None
    assert not cluster.is_running(small)


def test_nothing_is_kept_by_a_configuration_without_the_plugin() -> None:
    """What was kept is given up, and others may use it."""
    cluster = waiting_gang(900, 900, 900)
    small = cluster.run(None)
    cluster.pass_seconds(2)
    keeper = cluster.engine.scheduler.room_keeper
    before = keeper.rooms()
    cluster.engine._rules_of = lambda _: EngineProfiles(cluster.built(PLAIN))
    cluster.handle(Configure({}))
    cluster.pass_seconds(12)

    assert cluster.nominated == set()
    assert cluster.is_running(small)
    assert [*before] == [DEFAULT_PROFILE]
    assert before[DEFAULT_PROFILE] is not None
    assert keeper.rooms() == {}


def test_the_time_until_room_is_kept_is_that_of_the_newest_configuration() -> None:
    """Also if an attempt that began before is the first to ask for it."""
    cluster = TimedCluster(2, 2)
    cycle = cluster.engine.scheduler.group_cycle
    cycle.step.units = 1
    for _ in range(3):
        cluster.run(900)
    cluster.pass_seconds(2)
    cluster.start_gang("a", 4)
    cluster.pass_until_ready()
    cluster.handle(Decide())
    assert cycle.members

    cluster.engine._rules_of = lambda _: EngineProfiles(cluster.built(CONFIGURATION % (9 * AFTER)))
    cluster.handle(Configure({}))
    cluster.pass_seconds(8 * AFTER)
    before = cluster.room
    cluster.pass_seconds(20 * AFTER)

    assert before is None
    assert cluster.room is not None


class ExtendedCluster(TimedCluster):
    """An extender filters nodes for pods that ask for `x.io/x`; it refuses none."""

    @override
    def handle(self, event: Any) -> list[Instruction]:
        told = super().handle(event)
        for each in [each for each in told if isinstance(each, Ask)]:
            told += self.handle(Answered(each.question, Filtered(tuple(self.nodes))))
        return told


EXTENDED: Final = """
extenders:
- urlPrefix: http://e
  filterVerb: f
  managedResources: [{name: x.io/x, ignoredByScheduler: true}]
"""


def test_what_extenders_filter_nodes_for_has_no_turn_and_says_so() -> None:
    """Others have theirs, though it has waited longer; it starts once there is room."""
    cluster = ExtendedCluster(2, 2, configuration=KEEPS + EXTENDED)
    for _ in range(3):
        cluster.run(900)
    cluster.pass_seconds(2)
    asking = {"cpu": "1", "x.io/x": "1"}
    cluster.start_gang("a", 3, requests=asking)
    alone = cluster.run(None, requests={**asking, "cpu": "2"})
    cluster.pass_seconds(5)
    cluster.start_gang("b", 4)
    cluster.pass_seconds(AFTER + SLACK)
    room, place = cluster.room, cluster.engine.core.queue.place_of(alone.uid)

    assert room is not None
    assert room.name == "pod group default/b"
    told = "no room is kept for pods that extenders filter nodes for"
    assert cluster.conditions["a"] == f"pod group is unschedulable, {told}"
    assert place is not None
    assert place.queued.last_failure.endswith(f" {told}")
    cluster.drop_gang("b")
    for uid in [uid for uid, pod in cluster.pods.items() if pod.node_name or uid == alone.uid]:
        cluster.end(uid)
    cluster.pass_seconds(SLACK)
    assert cluster.placed("a") == 3


LONGEST: Final = 15


def arrivals_within(bound: int, longest: int, most: int) -> st.SearchStrategy[list[list[int]]]:
    """By second up to a bound, for how long the pods run that come then, so many at most."""
    coming = st.lists(st.sampled_from((1, 3, 8, longest)), max_size=most)
    return st.lists(coming, min_size=bound, max_size=bound)


@given(
    arrivals=arrivals_within(AFTER + LONGEST + SLACK, LONGEST, 3),
    size=st.integers(2, 5),
)
@settings(max_examples=12, deadline=None, derandomize=True)
def test_no_gang_starves_while_pods_come_that_say_when_they_end(
    arrivals: list[list[int]], size: int
) -> None:
    """It starts within the bound and the longest run, whatever comes meanwhile."""
    cluster = TimedCluster(2, 3)
    for _ in range(5):
        cluster.run(LONGEST)
    cluster.pass_seconds(1)
    cluster.start_gang("a", size)
    for coming in arrivals:
        for seconds in coming:
            cluster.run(seconds)
        cluster.pass_seconds()

    assert cluster.placed("a") == size
