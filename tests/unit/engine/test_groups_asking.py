"""Pod groups with extenders: when they are asked, what goes on meanwhile, what never comes."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from scheduler.config.types import Extender, ExtenderManagedResource
from scheduler.kernel.engine.events import Answered, Decide, ObjectGone, ObjectSet
from scheduler.kernel.engine.instructions import Ask, Bind, Cancel, Evict
from scheduler.kernel.engine.pending_extender_calls import MAX_ASKING
from scheduler.kernel.extender import (
    Answer,
    Filtered,
    MetaVictims,
    NoAnswer,
    Preempted,
    Prioritized,
    Question,
    Verb,
)
from scheduler.tools.offline.cases import load_case
from tests.parity.generator.draw import Object
from tests.parity.generator.groups import make_groups_case, make_topology_case
from tests.parity.groups import GATES, WITH_TOPOLOGY, Trial, answer_groups
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.extenders import BINDS, EVICTS, FILTERS, SCORES, extender
from tests.unit.engine.gangs import LET_DOWN, Beside, Breaks, Gangs

NODES = ("a", "b", "c")


class AskingGangs(Gangs):
    """Gangs of an engine with extenders, whose answers a test gives."""

    def __init__(
        self, *extenders: Extender, room: int = 1, nodes: Any = NODES, plugins: Any = ()
    ) -> None:
        super().__init__(room, *plugins, nodes=nodes, extenders=extenders)

    @property
    def asks(self) -> list[Ask]:
        return self.all(Ask)

    def question(self, ask: Ask) -> Question:
        found = self.engine.extender_calls.question(ask.question)
        assert found is not None
        return found[0]

    def asked_about(self, ask: Ask) -> str:
        """The name of the pod that a question is about."""
        found = self.engine.extender_calls.question(ask.question)
        assert found is not None
        return found[1].name

    def say(self, answer: Answer, ask: Ask | None = None) -> None:
        self.handle(Answered((ask or self.asks[-1]).question, answer))

    def agree(self) -> None:
        """Have every question answered with all it is about, and all decided that is ready."""
        self.run()
        for number in count():
            if number == len(self.asks):
                return
            ask = self.asks[number]
            if self.engine.extender_calls.question(ask.question) is not None:
                self.say(agreed(self.question(ask)), ask)
                self.run()

    def hosts(self) -> dict[str, str]:
        return {bind.name: bind.node for bind in self.all(Bind)}


def agreed(question: Question) -> Answer:
    if question.verb is Verb.FILTER:
        return Filtered(question.nodes)
    return Prioritized(tuple((node, 5) for node in question.nodes))


def test_all_members_are_asked_about_before_any_has_a_place() -> None:
    """They hold nothing meanwhile; the group goes on with what passed."""
    driven = AskingGangs(FILTERS)
    driven.group(least=2)
    pods = driven.members(2)
    driven.run()
    first, second = driven.asks
    before = [driven.stage(pod) for pod in pods], driven.used, driven.engine.has_ready

    driven.say(Filtered(("b",)), first)
    between = driven.engine.has_ready
    driven.say(Filtered(("b", "c")), second)
    driven.run()

    assert before == (["asking", "asking"], 0, False)
    assert not between
    assert driven.hosts() == {"g0": "b", "g1": "c"}
    assert driven.conditions() == [("True", "Scheduled", "")]


def test_a_member_that_moves_to_another_group_while_extenders_are_asked_leaves() -> None:
    """Whether it is asked about or waits in line; each group is bound without the other."""
    driven = AskingGangs(FILTERS, room=MAX_ASKING + 9)
    driven.group(least=MAX_ASKING)
    driven.group("other", least=2)
    pods = driven.members(MAX_ASKING + 2)
    driven.run()
    for pod in (pods[0], pods[-1]):
        driven.set(make_pod_info(pod.name, scheduler_name="test", group="other"))
    driven.agree()

    assert sorted(driven.hosts()) == sorted(pod.name for pod in pods)
    assert driven.conditions() == [("True", "Scheduled", "")] * 2


def test_scores_decide_among_nodes() -> None:
    """All extenders together, as for single pods."""
    driven = AskingGangs(FILTERS, SCORES)
    driven.group(least=1)
    driven.members(1)
    driven.run()
    driven.say(Filtered(("a", "b", "c")))
    driven.say(Prioritized((("a", 1), ("c", 9))))
    driven.run()

    assert driven.hosts() == {"g0": "c"}


def test_a_group_whose_member_is_refused_everywhere_is_not_bound() -> None:
    """The others are let down; any event has it tried again."""
    driven = AskingGangs(FILTERS)
    driven.group(least=2)
    pods = driven.members(2)
    driven.run()
    driven.say(Filtered((), {"a": "too warm", "b": "too warm", "c": "too warm"}), driven.asks[1])
    driven.say(Filtered(NODES), driven.asks[0])
    driven.run()
    told = [driven.message(pod) for pod in pods]

    driven.handle(ObjectSet("nodes", make_node("d")))
    driven.tick(2.0)
    driven.agree()

    assert told[0] == LET_DOWN
    assert told[1].startswith("0/3 nodes are available: 1 full, 2 too warm.")
    assert driven.conditions() == [
        ("False", "Unschedulable", "pod group is unschedulable"),
        ("True", "Scheduled", ""),
    ]
    assert driven.used == 2


def test_an_extender_that_fails_is_an_error_of_all() -> None:
    """The members are tried again after back-off."""
    driven = AskingGangs(FILTERS)
    driven.group(least=2)
    pods = driven.members(2)
    driven.run()
    driven.say(NoAnswer("down"), driven.asks[0])
    driven.say(Filtered(NODES), driven.asks[1])
    driven.run()

    other = "failed to schedule other pod from a pod group: down"
    assert [driven.message(pod) for pod in pods] == ["down", other]
    assert driven.conditions() == [("False", "SchedulerError", other)]
    assert [driven.stage(pod) for pod in pods] == ["backoff", "backoff"]


def test_a_member_about_which_no_extender_can_be_asked_is_an_error_of_all() -> None:
    """None is placed, and the group says why."""
    driven = AskingGangs(FILTERS, plugins=(Breaks(),))
    driven.group(least=1)
    (other,) = driven.members(1)
    driven.add("broken", group="g")

    driven.agree()

    ((status, reason, message),) = driven.conditions()
    assert (status, reason) == ("False", "SchedulerError")
    assert message.startswith("failed to schedule other pod from a pod group: ")
    assert driven.message(other) == message
    assert driven.hosts() == {}


def test_an_extender_that_fails_about_a_member_without_a_node_matters_not() -> None:
    """The other has taken the only place: upstream asks about nodes that fit, and there is none."""
    driven = AskingGangs(FILTERS, nodes=("a",))
    driven.group(least=1)
    pods = driven.members(2)
    driven.run()
    driven.say(NoAnswer("down"), driven.asks[1])
    driven.say(Filtered(("a",)), driven.asks[0])
    driven.run()

    assert driven.used == 1
    assert driven.message(pods[1]).startswith("0/1 nodes are available: 1 full.")
    assert driven.conditions() == [("True", "Scheduled", "")]


def test_victims_are_searched_for_a_member_about_which_an_extender_failed() -> None:
    """It fits nowhere by its turn; what the extender says of victims counts."""
    both = extender(filter_verb="f", preempt_verb="v")
    driven = AskingGangs(both, nodes=("a", "b"))
    driven.group(least=2)
    driven.members(2, priority=9)
    driven.set(victim := make_pod_info("v", node_name="b"))
    driven.run()
    driven.say(NoAnswer("down"), driven.asks[1])
    driven.say(Filtered(("a",)), driven.asks[0])
    driven.run()
    driven.say(Preempted({"b": MetaVictims((victim.uid,))}))
    driven.run()

    assert [each.uid for each in driven.all(Evict)] == [victim.uid]


def test_one_that_may_be_ignored_is() -> None:
    """The group goes by without it."""
    driven = AskingGangs(extender(filter_verb="f", ignorable=True))
    driven.group(least=2)
    driven.members(2)
    driven.run()
    for ask in driven.asks:
        driven.say(NoAnswer("late", is_late=True), ask)
    driven.run()

    assert driven.used == 2


def test_others_are_decided_while_a_group_asks() -> None:
    """Single pods and other groups; none of them is held up."""
    needs = extender(filter_verb="f", managed_resources=())
    driven = AskingGangs(needs, room=4)
    for name in ("g", "h"):
        driven.group(name, least=2)
        driven.members(2, name)
    driven.run()
    asked = [driven.asked_about(ask) for ask in driven.asks]
    for ask in driven.asks[2:]:
        driven.say(Filtered(NODES), ask)
    driven.run()

    assert asked == ["g0", "g1", "h0", "h1"]
    assert driven.bound() == ["h0", "h1"]
    assert driven.known().scheduled == 0


def test_a_pod_that_is_refused_the_places_of_a_group_is_woken_when_they_are_given_back() -> None:
    """Its extender answers between two steps of the group, which does not fit in the end."""
    managed = (ExtenderManagedResource("x.io/x"),)
    driven = AskingGangs(extender(filter_verb="f", managed_resources=managed), room=2, nodes=("a",))
    driven.engine.scheduler.group_cycle.step.units = 1
    single = driven.add("single", requests={"x.io/x": 1})
    driven.run()
    driven.group(least=3)
    driven.members(3)
    while driven.used < 2:
        driven.handle(Decide())

    driven.say(Filtered(("a",)))
    refused = driven.stage(single)
    driven.run()
    driven.tick(2.0)
    driven.agree()

    assert refused == "unschedulable"
    assert driven.bound() == ["single"]


def test_a_member_that_comes_meanwhile_belongs_to_the_group() -> None:
    """It is asked about as well, and all go on in one step."""
    driven = AskingGangs(FILTERS)
    driven.group(least=2)
    driven.members(2)
    driven.run()
    driven.say(Filtered(("a",)), driven.asks[0])
    driven.add("late", group="g", priority=7)
    driven.run()
    driven.say(Filtered(("b",)), driven.asks[1])
    before = driven.engine.has_ready
    driven.say(Filtered(NODES), driven.asks[2])
    driven.handle(Decide())

    assert not before
    assert driven.bound()[0] == "late"
    assert driven.known().scheduled == (3 if driven.hosts()["late"] == "c" else 2)


def test_a_gang_larger_than_the_line_is_asked_about_to_its_end() -> None:
    """Members that have their answers leave their turn to others, though they wait."""
    driven = AskingGangs(FILTERS, room=200)
    driven.group(least=MAX_ASKING + 6)
    driven.members(MAX_ASKING + 6)
    driven.run()
    first = len(driven.asks)

    driven.agree()

    assert first == MAX_ASKING
    assert driven.used == MAX_ASKING + 6


# --- what never comes -----------------------------------------------------------------------------


def test_a_member_that_is_deleted_while_it_asks_drops_out() -> None:
    """Its question is taken back, the answer is ignored, and the others go on."""
    driven = AskingGangs(FILTERS)
    driven.group(least=2)
    pods = driven.members(3)
    driven.run()
    for ask in driven.asks[1:]:
        driven.say(Filtered(NODES), ask)
    out = driven.gone(pods[0])
    driven.run()
    late = driven.handle(Answered(driven.asks[0].question, Filtered(NODES)))

    assert [told for told in out if isinstance(told, Cancel)]
    assert late == []
    assert sorted(driven.bound()) == ["g1", "g2"]


def test_a_gang_that_is_deleted_while_it_asks_leaves_nothing() -> None:
    """Neither members nor questions."""
    driven = AskingGangs(FILTERS)
    group = driven.group(least=2)
    pods = driven.members(2)
    driven.run()
    for pod in pods:
        driven.gone(pod)
    driven.handle(ObjectGone("podgroups", "default", "g", group.uid))
    driven.run()

    assert driven.engine.extender_calls.counts() == (0, 0)
    cycle = driven.engine.scheduler.group_cycle
    assert not cycle.members
    assert not cycle.asking.members()
    assert driven.bound() == []


def test_a_node_that_is_gone_when_the_answers_come_is_not_taken() -> None:
    """The next best is; where none is left the extenders are asked about what has come since."""
    driven = AskingGangs(FILTERS, nodes=("a", "b"))
    driven.group(least=1)
    [pod] = driven.members(1)
    driven.run()
    driven.handle(ObjectGone("nodes", "", "a", ""))
    driven.say(Filtered(("a",)))
    driven.run()

    assert driven.bound() == []
    assert driven.message(pod).startswith("0/1 nodes are available")


def test_nodes_that_were_not_asked_about_are_when_no_other_fits() -> None:
    """Nothing else is taken off the queue then; members keep the places they have."""
    driven = AskingGangs(FILTERS, nodes=("a",))
    driven.group(least=2)
    driven.members(2)
    driven.run()
    for ask in driven.asks[:2]:
        driven.say(Filtered(("a",)), ask)
    driven.handle(ObjectSet("nodes", make_node("b")))
    driven.add("single")
    driven.run()
    held = driven.used, driven.engine.has_ready, driven.asked_about(driven.asks[-1])
    nodes = driven.question(driven.asks[-1]).nodes
    driven.say(Filtered(nodes))
    driven.run()

    assert held == (1, False, "g1")
    assert nodes == ("b",)
    assert driven.hosts() == {"g0": "a", "g1": "b"}


def test_a_member_may_fit_only_beside_another() -> None:
    """No node fits before the other has its place; then it is asked about."""
    driven = AskingGangs(FILTERS, room=2, nodes=("a",), plugins=(Beside(),))
    driven.group(least=2)
    driven.add("anchor", group="g", priority=9)
    driven.add("follower", group="g", priority=1)

    driven.agree()

    assert driven.bound() == ["anchor", "follower"]


@pytest.mark.parametrize("is_placed", [False, True], ids=["the one it asks about", "another"])
def test_a_member_that_is_deleted_under_way(is_placed: bool) -> None:
    """The group goes on at once; the answer is ignored."""
    driven = AskingGangs(FILTERS, room=2, nodes=("a",), plugins=(Beside(),))
    driven.group(least=1)
    anchor = driven.add("anchor", group="g", priority=9)
    follower = driven.add("follower", group="g", priority=1)
    driven.run()
    driven.say(Filtered(("a",)))
    driven.run()
    asked = driven.asked_about(driven.asks[-1])
    driven.gone(anchor if is_placed else follower)
    if is_placed:
        driven.say(Filtered(("a",)))
    driven.run()

    assert asked == "follower"
    assert driven.bound() == ([] if is_placed else ["anchor"])
    assert driven.engine.extender_calls.counts() == (0, 0)


def test_an_answer_that_fails_under_way_gives_all_places_back() -> None:
    """An error of one is one of all."""
    driven = AskingGangs(FILTERS, room=2, nodes=("a",), plugins=(Beside(),))
    driven.group(least=1)
    driven.add("anchor", group="g", priority=9)
    driven.add("follower", group="g", priority=1)
    driven.run()
    driven.say(Filtered(("a",)))
    driven.run()
    driven.say(NoAnswer("down"))
    driven.run()

    assert driven.used == 0
    told = "failed to schedule other pod from a pod group: down"
    assert driven.conditions() == [("False", "SchedulerError", told)]


# --- preemption and binding -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "leave"),
    [
        (lambda victim: Preempted({"a": MetaVictims((victim,))}), 1),
        (lambda _: Preempted({}), 0),
        (lambda _: NoAnswer("down"), 0),
    ],
    ids=["agreed", "nothing", "no answer"],
)
def test_extenders_are_asked_about_the_victims_of_a_member(
    answer: Callable[[str], Answer], leave: int
) -> None:
    """They leave only if the group then fits."""
    driven = AskingGangs(EVICTS, nodes=("a", "b"))
    driven.set(victim := make_pod_info("v", node_name="a"))
    driven.group(least=2)
    pods = driven.members(2, priority=9)
    driven.run()
    before = [driven.stage(pod) for pod in pods], driven.engine.has_ready
    driven.say(answer(victim.uid))
    driven.run()

    assert (before[0][0], before[1]) == ("reserved", False)
    assert before[0][1] == "asking"
    assert len(driven.all(Evict)) == leave
    assert driven.bound() == []


def test_the_extender_binds_that_is_to() -> None:
    """Each member by itself."""
    driven = AskingGangs(BINDS)
    driven.group(least=2)
    driven.members(2)
    driven.run()

    assert [bind.extender for bind in driven.all(Bind)] == [0, 0]


# --- the law --------------------------------------------------------------------------------------


class Agreeing:
    """Asks no extender: the answer is yes."""

    def ask(self, question: Question, uid: str) -> Answer:
        del uid
        return agreed(question)


def answer_with_extenders(case: Object, gates: tuple[str, ...]) -> Object:
    config = dict(case.get("config") or {"apiVersion": "kubescheduler.config.k8s.io/v1"})
    config |= {"kind": "KubeSchedulerConfiguration"}
    config["extenders"] = [
        {"urlPrefix": "http://e", "filterVerb": "f", "prioritizeVerb": "p", "weight": 1}
    ]
    _, cluster = load_case({**case, "config": config}, gates)
    return Trial(cluster, Agreeing()).run()


@pytest.mark.parametrize(
    ("make", "gates"),
    [
        pytest.param(make_groups_case, GATES, id="groups"),
        pytest.param(make_topology_case, WITH_TOPOLOGY, id="in racks"),
    ],
)
def test_an_extender_that_always_says_yes_changes_nothing(
    make: Callable[[int], Object], gates: tuple[str, ...]
) -> None:
    """Random clusters: the same members, hosts, texts and conditions of groups."""
    for seed in range(40):
        case = make(seed)
        assert answer_with_extenders(case, gates) == answer_groups(case, gates), seed
