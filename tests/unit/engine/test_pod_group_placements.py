"""Groups that must run in one domain: the best of all that can hold them, or none and a reason."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.objects import ObjectMeta
from scheduler.api.pod_groups import PodGroup
from scheduler.config.load import default_configuration
from scheduler.config.types import Extender
from scheduler.kernel.answers.scheduling_state import group_standing
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import Answered, Decide, ObjectGone, ObjectSet
from scheduler.kernel.engine.instructions import (
    Ask,
    Bind,
    Evict,
    Instruction,
    PatchGroupStatus,
    PatchStatus,
)
from scheduler.kernel.engine.pod_group_placements import PodGroupPlacements
from scheduler.kernel.extender import Filtered
from scheduler.kernel.framework.runtime.pod_class import PodClass
from scheduler.kernel.groups import GroupMembers
from scheduler.kernel.plugins.topology_aware import TopologyPlacementGenerator
from scheduler.testing.validation import validate_engine
from scheduler.tools.offline.cluster import Profiles
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.extenders import FILTERS

GATES = ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling")
RACK = "rack"
NONE_OF_TWO = "0/2 placements are available, first placement status: pod group is unschedulable"


class Racks:
    """An engine with every plugin, and nodes of four CPUs in racks."""

    def __init__(
        self, *racks: str, gates: Sequence[str] = GATES, extenders: tuple[Extender, ...] = ()
    ) -> None:
        config = replace(default_configuration("s", gates), extenders=extenders)
        self.engine: Engine = Profiles(config).engine(0)
        self.told: list[Instruction] = []
        for i, rack in enumerate(racks):
            self.node(f"n{i}", rack)

    def handle(self, event: Any) -> None:
        """Something happens."""
        self.told += self.engine.handle(event, 0.0)

    def node(self, name: str, rack: str = "", cpu: str = "4") -> None:
        """A node comes, or changes; without a rack it has no label."""
        labels = {RACK: rack} if rack else {}
        self.handle(ObjectSet("nodes", make_node(name, labels=labels, allocatable={"cpu": cpu})))

    def gang(self, name: str, count: int, least: int | None = None, **fields: Any) -> None:
        """A group of pods of one CPU each that must run in one rack, and all of its pods."""
        least = count if least is None else least
        meta = ObjectMeta(name=name, namespace="default", uid=f"group-{name}")
        self.handle(ObjectSet("podgroups", PodGroup(meta, least, RACK)))
        for i in range(count):
            self.pod(f"{name}-{i}", group=name, **fields)

    def pod(self, name: str, cpu: str = "1", **fields: Any) -> None:
        """A pod comes."""
        pod = make_pod_info(name, requests={"cpu": cpu}, scheduler_name="s", **fields)
        self.handle(ObjectSet("pods", pod))

    def run(self) -> None:
        """Decide until nothing is ready; bindings stay under way."""
        for _ in range(100):
            if not self.engine.has_ready:
                break
            self.handle(Decide())
        validate_engine(self.engine)

    def answer(self, allowed: Mapping[str, str]) -> None:
        """Extenders let each pod pass on one node."""
        calls = self.engine.extender_calls
        for ask in [each for each in self.told if isinstance(each, Ask)]:
            found = calls.question(ask.question)
            assert found is not None
            self.handle(Answered(ask.question, Filtered((allowed[found[1].name],))))

    def racks(self, group: str) -> set[str]:
        """The racks in which pods are to be bound."""
        core = self.engine.core
        binds = [each for each in self.told if isinstance(each, Bind)]
        nodes = [each.node for each in binds if each.name.startswith(f"{group}-")]
        rows = [core.snapshot.table.row_of[name] for name in nodes]
        return {core.snapshot.node(row).metadata.labels[RACK] for row in rows}

    def bound(self, group: str) -> int:
        """How many members are to be bound."""
        binds = [each for each in self.told if isinstance(each, Bind)]
        return sum(each.name.startswith(f"{group}-") for each in binds)

    def condition(self) -> tuple[str, str]:
        """The last condition of a group: reason and message."""
        last = [each.condition for each in self.told if isinstance(each, PatchGroupStatus)][-1]
        return last.reason, last.message

    def first_condition(self) -> tuple[str, str]:
        """That of the group that was tried first."""
        first = next(each.condition for each in self.told if isinstance(each, PatchGroupStatus))
        return first.reason, first.message

    def messages(self) -> set[str]:
        """What conditions of pods say."""
        patches = [each for each in self.told if isinstance(each, PatchStatus)]
        return {each.condition.message for each in patches if each.condition is not None}

    def known(self, name: str) -> GroupMembers:
        """What the engine knows of a group."""
        groups = self.engine.core.groups
        known = None if groups is None else groups.of("default", name)
        assert known is not None
        return known


def test_what_extenders_say_of_equal_members_differs() -> None:
    """One of three may go to the small rack alone, and both of the others to the large one."""
    racks = Racks("small", "large", extenders=(FILTERS,))

    racks.gang("g", 3, least=1)
    racks.run()
    racks.answer({"g-0": "n0", "g-1": "n1", "g-2": "n1"})
    racks.run()

    assert (racks.bound("g"), racks.racks("g")) == (2, {"large"})


def test_room_is_looked_for_where_a_rack_has_too_few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rack with a node for each member holds the gang, whatever else its nodes can take."""
    looked_at: list[list[int]] = []
    original = PodClass.fits_with_more

    def spied(self: PodClass, *args: Any) -> Any:
        looked_at.append(args[2].tolist())
        return original(self, *args)

    monkeypatch.setattr(PodClass, "fits_with_more", spied)
    racks = Racks("small", "large", "large", "large")

    racks.gang("three", 3)
    racks.run()
    assert racks.bound("three") == 3
    assert looked_at == [[0]]

    racks.node("n4", "small")
    racks.node("n5", "small")
    racks.gang("more", 3)
    racks.run()
    assert racks.bound("more") == 3
    assert looked_at == [[0]]


def test_a_gang_runs_in_the_rack_that_can_hold_it() -> None:
    """One rack has room for four, the other for eight."""
    racks = Racks("small", "large", "large")

    racks.gang("g", 6)
    racks.run()

    assert (racks.bound("g"), racks.racks("g")) == (6, {"large"})
    assert racks.condition() == ("Scheduled", "")


def test_a_gang_that_fits_no_rack_waits_and_says_why() -> None:
    """There is room for eight in two racks; the rack that holds most is reported."""
    racks = Racks("a", "b", "b")
    racks.pod("x", cpu="1", node_name="n0")

    racks.gang("g", 9)
    racks.run()

    assert racks.bound("g") == 0
    assert racks.condition() == ("Unschedulable", NONE_OF_TWO)
    lacks = "0/2 nodes are available: 2 Insufficient cpu"
    assert any(message.startswith(lacks) for message in racks.messages())
    last = racks.known("g").last
    assert last is not None
    assert (last.placed, last.tried, last.domain, last.domains) == (8, 9, "b", 2)
    standing = group_standing(make_pod_info("g-0", group="g"), racks.engine)
    assert standing is not None
    best = "8 of 9 fit where rack is b, the best of 2 domains; the first of the others: "
    assert standing.text.startswith(best + lacks)


def test_members_beyond_the_least_wait_for_an_event() -> None:
    """Their rack holds as many as it was chosen for: without a change there is no more room."""
    racks = Racks("small", "large", "large")

    racks.gang("g", 10, least=6)
    racks.run()

    places = [entry["queue"] for entry in racks.engine.core.queue.dump()]
    assert places == ["inFlight"] * 8 + ["unschedulable"] * 2


def test_a_node_that_completes_a_rack_wakes_the_gang() -> None:
    """A node without the label does not help; one with it does."""
    racks = Racks("a", "b")
    racks.gang("g", 6)
    racks.run()
    racks.node("other")
    racks.run()
    before = racks.bound("g")

    racks.node("more", "b")
    racks.run()

    assert before == 0
    assert (racks.bound("g"), racks.racks("g")) == (6, {"b"})


def test_a_node_that_moves_to_another_rack_wakes_the_gang() -> None:
    """It gets another value of the label."""
    racks = Racks("a", "b")
    racks.gang("g", 6)
    racks.run()

    racks.node("n0", "b")
    racks.run()

    assert (racks.bound("g"), racks.racks("g")) == (6, {"b"})


def test_members_that_run_tie_the_others_to_their_rack() -> None:
    """It is full, whatever room there is elsewhere, until something ends there."""
    racks = Racks("a", "b")
    racks.pod("x", cpu="3", node_name="n0")
    racks.pod("g-first", group="g", node_name="n0")
    racks.gang("g", 2, least=3)
    racks.run()
    before = racks.bound("g"), racks.condition()

    racks.handle(ObjectGone("pods", "default", "x", make_pod_info("x").uid))
    racks.run()

    one = "0/1 placements are available, first placement status: pod group is unschedulable"
    assert before == (0, ("Unschedulable", one))
    assert racks.racks("g") == {"a"}


def test_members_that_run_in_two_racks_are_an_error() -> None:
    """Another scheduler has bound them."""
    racks = Racks("a", "b")
    racks.pod("g-x", group="g", node_name="n0")
    racks.pod("g-y", group="g", node_name="n1")

    racks.gang("g", 1, least=3)
    racks.run()

    reason, message = racks.condition()
    assert reason == "SchedulerError"
    why = "cannot determine domain for already scheduled pods: more than 1 domain found"
    assert message.startswith(why)


def test_a_plugin_that_fails_fails_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """All members are told the same; others are decided."""

    def fails(*_: object) -> None:
        raise ValueError("boom")

    monkeypatch.setattr(TopologyPlacementGenerator, "generate_placements", fails)
    racks = Racks("a")
    racks.gang("g", 2)
    racks.pod("single")
    racks.run()

    plugin = "TopologyPlacementGenerator"
    message = f'running PlacementGenerate plugin "{plugin}": ValueError: boom'
    assert racks.condition() == ("SchedulerError", message)
    assert racks.messages() == {message}
    assert racks.bound("g") == 0
    assert [each.name for each in racks.told if isinstance(each, Bind)] == ["single"]


def test_no_node_has_the_label() -> None:
    """There is nothing to choose from, until a node has it."""
    racks = Racks("", "")
    racks.gang("g", 2)
    racks.run()
    before = racks.condition()

    racks.node("n0", "a")
    racks.run()

    assert before == ("Unschedulable", "no feasible placements found")
    assert racks.racks("g") == {"a"}


def test_gangs_leave_empty_racks_alone() -> None:
    """The fullest rack that can hold the gang is the best."""
    racks = Racks("a", "a", "b", "b", "c", "c")
    racks.pod("x", node_name="n2")

    racks.gang("g", 4)
    racks.run()

    assert racks.racks("g") == {"b"}


def test_a_rack_that_holds_more_of_a_group_is_better() -> None:
    """All that is needed are two; the larger rack has room for all, and is emptier."""
    racks = Racks("small", "large", "large")
    racks.pod("x", cpu="1", node_name="n0")

    racks.gang("g", 6, least=2)
    racks.run()

    assert (racks.bound("g"), racks.racks("g")) == (6, {"large"})


def test_room_that_is_kept_for_a_nominated_pod_does_not_count() -> None:
    """Columns do not show it: without it the larger rack would hold one member more."""
    racks = Racks("a", "b")
    racks.pod("x", cpu="2", node_name="n0")
    kept = make_pod_info("kept", requests={"cpu": "2"})
    racks.engine.core.queue.nominator.nominate(kept, "n1")

    racks.gang("g", 3, least=1)
    racks.run()

    assert (racks.bound("g"), racks.racks("g")) == (2, {"a"})


def test_without_the_gate_the_label_has_no_effect() -> None:
    """As in kube-scheduler, the gang runs wherever it fits."""
    racks = Racks("a", "b", gates=GATES[:2])

    racks.gang("g", 8)
    racks.run()

    assert racks.racks("g") == {"a", "b"}


def world(seed: int) -> Racks:
    """Racks with some room, and gangs of several sizes that wait."""
    random = Random(seed)
    racks = Racks(*(f"r{random.randrange(3)}" for _ in range(random.randint(2, 7))))
    for i in range(random.randrange(4)):
        racks.pod(f"x{i}", cpu=random.choice(("1", "2")), node_name=f"n{random.randrange(2)}")
    for i in range(random.randint(1, 3)):
        count = random.randint(1, 7)
        racks.gang(f"g{i}", count, least=random.randint(1, count), cpu=random.choice(("1", "2")))
    return racks


@pytest.mark.parametrize("seed", range(25))
def test_columns_choose_as_trials_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same members in the same racks, and nothing that trials took is left behind."""
    racks, tried = world(seed), world(seed)
    racks.run()
    monkeypatch.setattr(PodGroupPlacements, "_exact", lambda *_: None)
    tried.run()

    for name in ("g0", "g1", "g2"):
        assert len(racks.racks(name)) <= 1
        assert len(tried.racks(name)) <= 1
    # Which of several equal racks it is, chance decides.
    assert racks.bound("g0") == tried.bound("g0")
    assert racks.first_condition() == tried.first_condition()


NOT_SUPPORTED = (
    "workload aware preemption is not supported for pod groups with scheduling constraints"
)


def test_a_gang_that_fits_no_rack_says_that_it_does_not_preempt_either() -> None:
    """With both gates; a node of the other rack wakes it all the same."""
    racks = Racks("a", "b", gates=(*GATES, "WorkloadAwarePreemption"))
    racks.gang("g", 6)
    racks.run()
    first = racks.condition()
    racks.node("more", "a")
    racks.node("most", "b")
    racks.run()

    assert first == ("Unschedulable", f"{NONE_OF_TWO}, {NOT_SUPPORTED}")
    assert racks.bound("g") == 6


def test_members_in_a_rack_say_that_racks_are_why_they_do_not_preempt() -> None:
    """As without preemption for whole groups, which is no reason for such a group."""
    racks = Racks("a", gates=(*GATES, "WorkloadAwarePreemption"))
    racks.gang("g", 5)

    racks.run()

    limit = "preemption: not eligible due to placement-based pod group scheduling limitation"
    assert any(message.endswith(limit) for message in racks.messages())


@pytest.mark.parametrize(
    ("gates", "topology_key", "evicted"),
    [
        pytest.param(GATES, None, 1, id="no constraints"),
        pytest.param(GATES, "", 0, id="constraints without a label"),
        pytest.param(GATES[:-1], "", 1, id="without the gate"),
    ],
)
def test_members_of_a_group_with_constraints_do_not_preempt(
    gates: Sequence[str], topology_key: str | None, evicted: int
) -> None:
    """The field counts, not its content, as in kube-scheduler; without the gate it is ignored."""
    racks = Racks("a", gates=gates)
    racks.pod("low", cpu="4", node_name="n0", priority=1)
    meta = ObjectMeta(name="g", namespace="default", uid="group-g")
    racks.handle(ObjectSet("podgroups", PodGroup(meta, 1, topology_key)))
    racks.pod("g-0", group="g", priority=5)

    racks.run()

    assert sum(isinstance(each, Evict) for each in racks.told) == evicted


def test_a_gang_without_any_rack_says_so_too() -> None:
    """No node has the label: the group and all members are told the same."""
    racks = Racks("", gates=(*GATES, "WorkloadAwarePreemption"))
    racks.gang("g", 2)
    racks.run()

    told = f"no feasible placements found, {NOT_SUPPORTED}"
    assert racks.condition() == ("Unschedulable", told)
    assert racks.messages() == {told}
