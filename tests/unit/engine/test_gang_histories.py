"""The law of pod groups: a gang is bound whole or not at all, whatever happens around it.

Every pod asks for one of a node's places, so what fits is counted. Checked are each step, and what
is left when everything has come to rest.
"""

from collections import Counter
from typing import Any, Final

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from scheduler.api.objects import ObjectMeta
from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo
from scheduler.config.load import default_configuration
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import (
    BindFailed,
    Bound,
    Decide,
    Event,
    ObjectGone,
    ObjectSet,
    PodRead,
    Tick,
)
from scheduler.kernel.engine.instructions import Bind, Instruction, LogError, ReadPod
from scheduler.kernel.framework.events import QueueingHint
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.groups import PodGroups
from scheduler.tools.offline.cluster import DEFAULT_PROFILE, Profiles
from scheduler.tools.offline.reading import ClusterObjects
from tests.support.builders import make_node, make_pod_info
from tests.support.storage import claims_of
from tests.unit.engine.answered import AnsweredCluster
from tests.unit.engine.test_directed_waiting import (
    EQUAL_PODS,
    PROMISED_SECONDS,
    WAYS,
    History,
)

GATES: Final = ("GenericWorkload", "GangScheduling")
GROUPS = ("a", "b", "c")
NODES = ("n0", "n1", "n2")
BACKOFF_SECONDS = 15
"""More than the longest back-off."""

REFUSED: Final = "Error scheduling pod; retrying"
"""All that an operator is told of a binding that fails."""
ANSWERS: Final = st.tuples(
    st.sampled_from((True, True, False)), st.sampled_from((True, True, False))
)
"""Whether a binding is carried out, and whether the answer is heard."""


def gang(name: str, min_count: int | None) -> PodGroup:
    return PodGroup(ObjectMeta(name=name, namespace="default", uid=f"group-{name}"), min_count)


class GroupedCluster:
    """An API server whose answers come when they are asked for, and an engine that can be lost.

    Attributes:
        pods: by UID, as the API server has them.
        nodes: places by name.
        groups: by name.
        under_way: bindings that are not answered yet.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self.pods: dict[str, PodInfo] = {}
        self.nodes: dict[str, int] = {}
        self.groups: dict[str, PodGroup] = {}
        self.under_way: list[Bind] = []
        self.serial = 0
        self.engine = self._new_engine()

    def _new_engine(self) -> Engine:
        profiles = Profiles(default_configuration(DEFAULT_PROFILE, GATES))
        return profiles.load(ClusterObjects(), seed=self.serial).engine

    def handle(self, event: Event) -> list[Instruction]:
        """Tell the engine; no member may be asked to be bound into a gang that is not whole."""
        told = list(self.engine.handle(event, self.now))
        binds = [each for each in told if isinstance(each, Bind)]
        self.under_way += binds
        for each in told:
            assert not isinstance(each, LogError) or each.message == REFUSED, each
            if isinstance(each, ReadPod):
                told += self.handle(PodRead(each.attempt, self.pods.get(each.uid)))
        for name in {self.pods[each.uid].group_name for each in binds} - {""}:
            least = self.groups[name].min_count or 1
            assert self.placed(name) >= least, f"{name} is bound by {self.placed(name)}"
        return told

    def placed(self, group: str) -> int:
        """How many members are bound, or about to be."""
        bound = {uid for uid, pod in self.pods.items() if pod.node_name}
        both = bound | {bind.uid for bind in self.under_way}
        return sum(uid in self.pods and self.pods[uid].group_name == group for uid in both)

    def add(self, group: str = "", **fields: Any) -> PodInfo:
        self.serial += 1
        name = f"{group or 'single'}-{self.serial}"
        fields = {"requests": {"cpu": "1"}, "scheduler_name": DEFAULT_PROFILE, **fields}
        pod = make_pod_info(name, uid=name, group=group, **fields)
        self.pods[pod.uid] = pod
        self.handle(ObjectSet("pods", pod))
        return pod

    def end(self, uid: str) -> None:
        pod = self.pods.pop(uid)
        self.handle(ObjectGone("pods", pod.namespace, pod.name, uid))

    def set_node(self, name: str, places: int) -> None:
        self.nodes[name] = places
        self.handle(ObjectSet("nodes", make_node(name, allocatable={"cpu": str(places)})))

    def answer(self, *, is_bound: bool, is_heard: bool = True) -> None:
        """The oldest binding is carried out or not, and the answer is heard or lost."""
        bind = self.under_way.pop(0)
        pod = self.pods.get(bind.uid)
        if pod is None or not is_bound or pod.node_name:
            self.handle(BindFailed(bind.attempt, "refused", is_certain=is_heard))
            return
        self.pods[bind.uid] = bound = pod.on_node(bind.node)
        self.handle(
            Bound(bind.attempt)
            if is_heard
            else BindFailed(bind.attempt, "no answer", is_certain=False)
        )
        self.handle(ObjectSet("pods", bound))

    def restart(self, carried_out: int) -> None:
        """The engine is lost; some of the bindings under way were carried out."""
        for bind in self.under_way[:carried_out]:
            if bind.uid in self.pods and not self.pods[bind.uid].node_name:
                self.pods[bind.uid] = self.pods[bind.uid].on_node(bind.node)
        self.under_way.clear()
        self.engine = self._new_engine()
        self.tell_all()

    def tell_all(self) -> None:
        """A new engine hears of all that is there."""
        for name, places in self.nodes.items():
            self.set_node(name, places)
        for group in self.groups.values():
            self.handle(ObjectSet("podgroups", group))
        for pod in self.pods.values():
            self.handle(ObjectSet("pods", pod))

    def rest(self) -> None:
        """All bindings are carried out, and time passes until nothing more comes of it."""
        quiet = 0
        while quiet < BACKOFF_SECONDS:
            self.now += 1.0
            quiet = 0 if self.under_way or self.engine.has_ready else quiet + 1
            self.handle(Tick())
            while self.engine.has_ready or self.under_way:
                if self.engine.has_ready:
                    self.handle(Decide())
                else:
                    self.answer(is_bound=True)

    def free(self) -> int:
        """How many places are left."""
        taken = Counter(pod.node_name for pod in self.pods.values() if pod.node_name)
        return sum(max(0, places - taken[name]) for name, places in self.nodes.items())

    def needed(self) -> dict[str, int]:
        """How many places each waiting pod or gang needs, of those that can start."""
        wanted: dict[str, int] = {}
        for uid, pod in self.pods.items():
            group = self.groups.get(pod.group_name)
            if pod.node_name or (pod.group_name and group is None):
                continue
            if group is None or group.min_count is None:
                wanted[uid] = 1
                continue
            members = [p for p in self.pods.values() if p.group_name == group.name]
            if len(members) >= group.min_count:
                bound = sum(bool(p.node_name) for p in members)
                wanted[group.name] = max(1, group.min_count - bound)
        return wanted


class GroupsMachine(RuleBasedStateMachine):
    """Everything that can happen to gangs, in any order."""

    @initialize(places=st.lists(st.integers(1, 3), min_size=len(NODES), max_size=len(NODES)))
    def start(self, places: list[int]) -> None:
        self.cluster = GroupedCluster()
        for name, count in zip(NODES, places, strict=False):
            self.cluster.set_node(name, count)

    @rule(
        name=st.sampled_from(GROUPS),
        min_count=st.integers(2, 4),
        more=st.sampled_from((0, 0, 1)),
        is_group_first=st.booleans(),
    )
    def start_gang(self, name: str, min_count: int, more: int, *, is_group_first: bool) -> None:
        """As controllers do: a group and its pods, in either order."""
        if is_group_first:
            self.create_group(name, min_count)
        self.add_pods(name, min_count + more, 0)
        self.create_group(name, min_count)

    @rule(name=st.sampled_from(GROUPS), min_count=st.sampled_from((None, 1, 2, 3, 3, 4, 4)))
    def create_group(self, name: str, min_count: int | None) -> None:
        if name not in self.cluster.groups:
            self.cluster.groups[name] = gang(name, min_count)
            self.cluster.handle(ObjectSet("podgroups", self.cluster.groups[name]))

    @rule(name=st.sampled_from(GROUPS), min_count=st.integers(1, 4))
    def change_min_count(self, name: str, min_count: int) -> None:
        if name in self.cluster.groups:
            self.cluster.groups[name] = gang(name, min_count)
            self.cluster.handle(ObjectSet("podgroups", self.cluster.groups[name]))

    @rule(
        name=st.sampled_from((*GROUPS, *GROUPS, "")),
        count=st.sampled_from((1, 2, 3, 4, 4)),
        priority=st.sampled_from((0, 0, 5)),
    )
    def add_pods(self, name: str, count: int, priority: int) -> None:
        for _ in range(count):
            self.cluster.add(name, priority=priority, preemption_policy="Never")

    @rule(name=st.sampled_from(GROUPS), node=st.sampled_from(NODES))
    def bind_by_another_scheduler(self, name: str, node: str) -> None:
        self.cluster.add(name, node_name=node, scheduler_name="another")

    @precondition(lambda self: self.cluster.pods)
    @rule(data=st.data())
    def end_pod(self, data: st.DataObject) -> None:
        self.cluster.end(data.draw(st.sampled_from(sorted(self.cluster.pods))))

    @rule(name=st.sampled_from(NODES), places=st.integers(0, 4))
    def set_node(self, name: str, places: int) -> None:
        self.cluster.set_node(name, places)

    @rule(times=st.integers(1, 4), answers=st.lists(ANSWERS, max_size=5))
    def decide(self, times: int, answers: list[tuple[bool, bool]]) -> None:
        """Some of the bindings that come of it are answered at once, others later."""
        for _ in range(times):
            self.cluster.handle(Decide())
        for is_bound, is_heard in answers:
            if self.cluster.under_way:
                self.cluster.answer(is_bound=is_bound, is_heard=is_heard)

    @rule(times=st.integers(1, 4), carried_out=st.integers(0, 4))
    def crash(self, times: int, carried_out: int) -> None:
        """In the middle of bindings, if there are any."""
        for _ in range(times):
            self.cluster.handle(Decide())
        self.cluster.restart(carried_out)

    @rule(seconds=st.sampled_from((1.0, 3.0, 11.0)))
    def pass_time(self, seconds: float) -> None:
        self.cluster.now += seconds
        self.cluster.handle(Tick())

    @precondition(lambda self: self.cluster.pods)
    @rule()
    def come_to_rest(self) -> None:
        """Who fits has started, no gang keeps another from its places, and nothing is kept."""
        cluster = self.cluster
        cluster.rest()

        free = cluster.free()
        assert {name for name, needs in cluster.needed().items() if needs <= free} == set()
        groups = cluster.engine.core.states.shared(PodGroups, "")
        for name in GROUPS:
            known = groups.of("default", name)
            assert known is None or not known.assumed
        assert not list(cluster.engine.attempts)


TestPodGroupsLaw = GroupsMachine.TestCase
TestPodGroupsLaw.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def waiting_gang() -> GroupedCluster:
    """A gang of 3 that waits: there is room for 2."""
    cluster = GroupedCluster()
    cluster.set_node("n0", 2)
    cluster.groups["a"] = gang("a", 3)
    cluster.handle(ObjectSet("podgroups", cluster.groups["a"]))
    for _ in range(3):
        cluster.add("a")
    cluster.rest()
    assert cluster.placed("a") == 0
    return cluster


def test_a_gang_that_waits_costs_nothing_between_events() -> None:
    """For four minutes nothing happens: nothing is decided, and nothing is told."""
    cluster = waiting_gang()

    for _ in range(240):
        cluster.now += 1.0
        assert cluster.handle(Tick()) == []
        assert not cluster.engine.has_ready


def test_a_gang_that_waits_starts_when_room_comes() -> None:
    """Without a wait, once its back-off is over."""
    cluster = waiting_gang()

    cluster.set_node("n1", 1)
    cluster.rest()

    assert cluster.placed("a") == 3


class WaitingGang(AnsweredCluster):
    """The equal pods of a directed history, as a gang."""

    def __init__(self, history: History) -> None:
        super().__init__(feature_gates=GATES)
        self.tell(history.before)
        self.handle(ObjectSet("podgroups", gang("a", EQUAL_PODS)))
        for number in range(EQUAL_PODS):
            fields = dict(history.pods)
            if history.has_own_claims:
                fields["volumes"] = claims_of(f"c{number}")
            self.add(f"w{number}", group="a", **fields)
        self.run()
        self.pass_time(30)


@pytest.mark.parametrize("history", WAYS.values(), ids=WAYS)
def test_a_gang_waits_five_minutes_at_most_for_an_event_that_never_comes(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No hint takes any event: the flush tries the gang against the cluster as it is."""
    monkeypatch.setattr(Framework, "run_queueing_hint", lambda *_: QueueingHint.SKIP)
    cluster = WaitingGang(history)
    assert len(cluster.waiting()) == EQUAL_PODS

    cluster.tell(history.change)
    cluster.pass_time(PROMISED_SECONDS)

    assert cluster.waiting() == []
