"""Attempts that ask extenders: what is asked, what goes on meanwhile, what is judged again."""

from typing import Any

import pytest
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.config.args import DefaultPreemptionArgs
from scheduler.config.types import Extender
from scheduler.kernel.engine.events import (
    Answered,
    BindFailed,
    Bound,
    Decide,
    Event,
    ObjectGone,
    ObjectSet,
)
from scheduler.kernel.engine.instructions import Ask, Bind, Cancel, Evict, Instruction
from scheduler.kernel.engine.pending_extender_calls import MAX_ASKING
from scheduler.kernel.extender import (
    Answer,
    Filtered,
    MetaVictims,
    NoAnswer,
    Preempted,
    Prioritized,
    Verb,
)
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import QueueSortPlugin
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.plugins.default_preemption import BUDGETS, DefaultPreemption
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.driven import DrivenEngine, Room
from tests.unit.engine.extenders import BINDS, EVICTS, FILTERS, SCORES, extender

NODES = ("a", "b", "c")


class ByName(QueueSortPlugin):
    """The first in the alphabet comes first."""

    NAME = "Sort"

    @override
    def sort_key(self, queued: QueuedPodInfo) -> Any:
        return queued.pod_info.name


class Asking(DrivenEngine):
    """An engine with extenders, whose answers a test gives."""

    def __init__(self, *extenders: Extender, room: int = 1, nodes: tuple[str, ...] = NODES) -> None:
        super().__init__(
            ByName(),
            Room(room),
            preemption,
            nodes=nodes,
            kinds=(BUDGETS,),
            extenders=extenders,
        )

    @property
    def asks(self) -> list[Ask]:
        return self.all(Ask)

    def nodes_asked(self) -> tuple[str, ...]:
        """What the last question was about."""
        found = self.engine.extender_calls.question(self.asks[-1].question)
        assert found is not None
        return tuple(sorted(found[0].nodes))

    def say(self, answer: Answer, ask: Ask | None = None) -> list[Instruction]:
        return self.handle(Answered((ask or self.asks[-1]).question, answer))

    @override
    def add(self, name: str = "p", **fields: Any) -> PodInfo:
        pod = super().add(name, **fields)
        self.handle(Decide())
        return pod

    def on(self, node: str, name: str = "x", **fields: Any) -> PodInfo:
        """A pod that somebody else has placed."""
        pod = make_pod_info(name, node_name=node, **fields)
        self.set(pod)
        return pod


def preemption(handle: Handle) -> DefaultPreemption:
    return DefaultPreemption(DefaultPreemptionArgs(100, 100), handle)


def test_a_filter_decides() -> None:
    """The attempt waits, takes no room, and goes on with what passed."""
    engine = Asking(FILTERS)
    pod = engine.add()

    assert engine.stage(pod) == "asking"
    assert engine.asks == [Ask(1, 1, 0, Verb.FILTER, 3)]
    assert engine.nodes_asked() == NODES
    assert engine.used == 0
    engine.say(Filtered(("b",)))

    assert [bind.node for bind in engine.all(Bind)] == ["b"]
    story = [(entry.what, entry.detail) for entry in engine.engine.story(pod.uid)]
    assert story[0] == ("asking", "filter http://e")
    assert story[1] == ("assumed", "b")


def test_scores_are_added_and_the_best_is_taken() -> None:
    """Of all extenders together; a failure counts as nothing."""
    engine = Asking(SCORES, SCORES, SCORES)
    engine.add()
    first, second, third = engine.asks
    engine.say(Prioritized((("a", 3), ("b", 5))), second)
    engine.say(NoAnswer("down"), third)
    assert not engine.all(Bind)
    engine.say(Prioritized((("a", 3), ("c", 5))), first)

    assert [bind.node for bind in engine.all(Bind)] == ["a"]


def test_who_is_rejected_by_an_extender_waits_for_anything() -> None:
    """The message has its reasons; those it leaves out without a word have none."""
    engine = Asking(FILTERS)
    pod = engine.add()
    engine.say(Filtered((), {"a": "too warm"}, {"b": "too far"}))

    message = "0/3 nodes are available: 1 too far, 1 too warm."
    assert engine.told[-1][3].startswith(message)
    assert engine.stage(pod) == "unschedulable"
    engine.handle(node_event("d"))
    engine.tick(1.5)
    assert not engine.is_asleep(pod)


def node_event(name: str) -> Event:

    return ObjectSet("nodes", make_node(name))


def test_a_failure_is_an_error() -> None:
    """Tried again after back-off; nobody else is asked."""
    engine = Asking(FILTERS, FILTERS, SCORES)
    pod = engine.add()
    engine.say(NoAnswer("down"))

    assert engine.told[-1] == ("failed", "p", "SchedulerError", "down", None)
    assert engine.stage(pod) == "backoff"
    assert len(engine.asks) == 1


def test_what_became_full_meanwhile_is_not_taken() -> None:
    """The next best is; nobody is asked again."""
    engine = Asking(FILTERS, SCORES)
    engine.add()
    engine.say(Filtered(NODES))
    engine.on("a")
    engine.say(Prioritized((("a", 9), ("b", 5), ("c", 1))))

    assert [bind.node for bind in engine.all(Bind)] == ["b"]
    assert len(engine.asks) == 2


def test_nodes_that_came_meanwhile_are_asked_about_when_no_other_fits() -> None:
    """A few times; then the pod backs off."""
    engine = Asking(FILTERS, nodes=("a",))
    pod = engine.add()
    for number in range(3):
        engine.handle(node_event(f"n{number}"))
        engine.on(engine.nodes_asked()[0], f"x{number}")
        engine.say(Filtered(engine.nodes_asked()))
        assert engine.nodes_asked() == (f"n{number}",)
    engine.handle(node_event("last"))
    engine.on("n2", "x3")
    engine.say(Filtered(engine.nodes_asked()))

    assert engine.stage(pod) == "backoff"
    assert engine.told[-1][3] == (
        "the nodes that fit have changed each time extenders were asked about them"
    )
    assert len(engine.asks) == 4


def test_nodes_left_out_of_a_sample_are_not_asked_about_afterwards() -> None:
    """As upstream: an extender that refuses the sample has refused the pod."""
    engine = Asking(FILTERS, nodes=tuple(f"n{number}" for number in range(120)))
    engine.engine.core.algorithm.percentage_of_nodes_to_score = 10
    pod = engine.add()
    sample = engine.nodes_asked()
    engine.say(Filtered(()))

    assert len(sample) == 100
    assert engine.stage(pod) == "unschedulable"
    assert len(engine.asks) == 1


def test_all_nodes_are_gone_meanwhile() -> None:
    """As if there had been none."""
    engine = Asking(FILTERS, nodes=("a",))
    engine.add()
    engine.handle(gone_node("a"))
    engine.say(Filtered(("a",)))

    assert engine.told[-1][3] == "no nodes available to schedule pods"


def gone_node(name: str) -> Event:

    return ObjectGone("nodes", "", name, "")


def test_the_nominated_node_is_tried_alone() -> None:
    """If it does not pass, or its extender fails, all the others are asked about."""
    for answer, asked in ((Filtered(("b",)), 1), (Filtered(()), 2), (NoAnswer("down"), 2)):
        engine = Asking(FILTERS, SCORES)
        engine.add(nominated_node_name="b")
        assert engine.nodes_asked() == ("b",)
        engine.say(answer)
        assert len(engine.asks) == asked
        if asked > 1:
            assert engine.nodes_asked() == NODES
        else:
            assert [bind.node for bind in engine.all(Bind)] == ["b"]


@pytest.mark.parametrize(("reasons", "start"), [({}, 100), ({"n1": "full"}, 101)])
def test_a_nominated_node_with_a_reason_counts_once_more(
    reasons: dict[str, str], start: int
) -> None:
    """For the start of the next sample, as upstream counts the nodes that have a reason."""
    engine = Asking(FILTERS, nodes=tuple(f"n{number}" for number in range(120)))
    algorithm = engine.engine.core.algorithm
    algorithm.percentage_of_nodes_to_score = 10
    engine.add(nominated_node_name="n1")

    engine.say(Filtered((), reasons))

    assert len(engine.nodes_asked()) == 100
    assert algorithm.next_start_node_index == start


def test_a_nominated_node_that_is_the_only_one_is_asked_about_twice() -> None:
    """Among all nodes it is one of them: if it does not pass again, the attempt is over."""
    engine = Asking(FILTERS, nodes=("b",))
    engine.add(nominated_node_name="b")
    for _ in range(2):
        engine.say(Filtered(()))

    assert len(engine.asks) == 2
    assert engine.engine.extender_calls.counts() == (0, 0)


@pytest.mark.parametrize("is_bound", [True, False], ids=["bound by others", "deleted"])
def test_a_pod_that_needs_nothing_any_more(is_bound: bool) -> None:
    """Its questions are taken back; a late answer is nobody's."""
    engine = Asking(SCORES, SCORES)
    pod = engine.add()
    if is_bound:
        out = engine.set(make_pod_info("p", scheduler_name="test", node_name="c"))
    else:
        out = engine.gone(pod)
    late = engine.say(Prioritized(()), engine.asks[0])

    assert Cancel(1) in out
    assert late == []
    assert engine.engine.extender_calls.counts() == (0, 0)


def test_so_many_ask_at_a_time_and_the_most_important_comes_next() -> None:
    """The others wait in line, hold nothing, and keep nobody from going by."""
    engine = Asking(extender(filter_verb="f", managed_resources=()), room=1000)
    for number in range(MAX_ASKING):
        engine.add(f"p{number}")
    low, high, gone = (engine.add(name) for name in ("z-later", "b-first", "a-gone"))
    engine.gone(gone)

    assert engine.engine.extender_calls.counts() == (MAX_ASKING, 2)
    assert not engine.engine.has_ready
    assert len(engine.asks) == MAX_ASKING
    engine.say(Filtered(("a",)), engine.asks[5])
    assert engine.engine.has_ready
    engine.run()
    assert engine.attempt(high).extender_calls is not None
    assert engine.attempt(low).extender_calls is None
    engine.say(NoAnswer("down"), engine.asks[6])
    engine.run()
    assert engine.attempt(low).extender_calls is not None


def test_a_pod_in_line_is_tried_as_it_is_at_its_turn() -> None:
    """It changed while it waited in line, where it learns of no event."""
    engine = Asking(extender(filter_verb="f", managed_resources=()), room=1000)
    for number in range(MAX_ASKING):
        engine.add(f"p{number}")
    last = engine.add("z-last", labels={"version": "old"})

    engine.set(make_pod_info("z-last", scheduler_name="test", labels={"version": "new"}))
    engine.say(Filtered(("a",)), engine.asks[5])
    engine.run()

    assert engine.stage(last) == "asking"
    asked = engine.engine.extender_calls.question(engine.asks[-1].question)
    assert asked is not None
    assert (asked[1].name, asked[1].labels) == ("z-last", {"version": "new"})


def test_one_that_is_left_alone_is_not_asked() -> None:
    """The pod goes by without it, until the time is over."""
    engine = Asking(extender(filter_verb="f", ignorable=True), room=99)
    for number in range(3):
        engine.add(f"p{number}")
        engine.say(NoAnswer("late", is_late=True))
    later = engine.add("later")
    assert engine.stage(later) == "binding"
    engine.tick(31)
    last = engine.add("last")

    assert engine.stage(last) == "asking"
    assert [report.message for report in engine.reports].count(
        "Extender keeps being late; it is not asked for a while"
    ) == 1


# --- preemption -----------------------------------------------------------------------------------


def crowded(*extenders: Extender) -> tuple[Asking, list[PodInfo], PodInfo]:
    """Two full nodes, and a pod that may evict."""
    engine = Asking(*extenders, nodes=("a", "b"))
    low = [engine.on("a", "va"), engine.on("b", "vb")]
    return engine, low, engine.add("high", priority=9)


def test_whom_to_evict_is_asked() -> None:
    """And done as far as it helps still."""
    engine, (_, vb), high = crowded(EVICTS)
    found = engine.engine.extender_calls.question(engine.asks[0].question)
    assert found is not None
    assert {c.node_name for c in found[0].candidates} == {"a", "b"}
    assert not engine.all(Evict)
    engine.say(Preempted({"b": MetaVictims((vb.uid,))}))

    assert [evict.uid for evict in engine.all(Evict)] == [vb.uid]
    assert engine.told[-1][-1] == "b"
    assert engine.stage(high) == "unschedulable"


@pytest.mark.parametrize(
    ("answer", "tail"),
    [
        (Preempted({}), "preemption: no candidate node for preemption"),
        (NoAnswer("down"), "preemption: down"),
        (
            Preempted({"a": MetaVictims(())}),
            'preemption: expected at least one victim pod on node "a"',
        ),
    ],
)
def test_nobody_is_evicted(answer: Answer, tail: str) -> None:
    """And the message says why."""
    engine, _, _ = crowded(EVICTS)
    engine.say(answer)

    assert not engine.all(Evict)
    assert engine.told[-1][3] == f"0/2 nodes are available: 2 full. {tail}"


def test_victims_that_are_gone_meanwhile() -> None:
    """There is room now: nobody is evicted."""
    engine, (va, vb), high = crowded(EVICTS)
    engine.gone(va)
    engine.say(Preempted({"b": MetaVictims((vb.uid,))}))

    assert not engine.all(Evict)
    assert [bind.node for bind in engine.all(Bind)] == ["a"]
    assert engine.stage(high) == "binding"


def test_room_that_is_there_meanwhile_is_asked_about() -> None:
    """Whoever was only asked whom to evict has not said that the pod may go there."""
    engine, (va, vb), high = crowded(FILTERS, EVICTS)
    assert engine.asks[-1].verb is Verb.PREEMPT
    engine.gone(va)
    engine.say(Preempted({"b": MetaVictims((vb.uid,))}))

    assert engine.asks[-1].verb is Verb.FILTER
    assert engine.nodes_asked() == ("a",)
    assert engine.stage(high) == "asking"
    engine.say(Filtered(()))
    assert [evict.uid for evict in engine.all(Evict)] == [vb.uid]


def test_what_does_not_help_any_more_is_not_done() -> None:
    """Somebody more important came there."""
    engine, (va, _), _ = crowded(EVICTS)
    engine.gone(va)
    engine.on("a", "higher", priority=99)
    engine.on("b", "another", priority=99)
    engine.say(Preempted({"a": MetaVictims((va.uid,))}))

    assert not engine.all(Evict)


@pytest.mark.parametrize("is_dropped", [True, False])
def test_no_pod_dies_for_one_whose_profile_was_removed(is_dropped: bool) -> None:
    """The configuration changed while extenders were asked; the attempt still ends."""
    engine = Asking(FILTERS, nodes=("a", "b"))
    victim = engine.on("b", "vb")
    high = engine.add("high", priority=9)
    assert engine.stage(high) == "asking"

    if is_dropped:
        engine.engine.core.queue.delete(high)
    engine.say(Filtered(()))

    assert [evict.uid for evict in engine.all(Evict)] == ([] if is_dropped else [victim.uid])


# --- binding --------------------------------------------------------------------------------------


def test_an_extender_binds() -> None:
    """The instruction names it."""
    engine = Asking(BINDS)
    pod = engine.add()

    [bind] = engine.all(Bind)
    assert bind.extender == 0
    engine.handle(Bound(bind.attempt))
    assert engine.stage(pod) == "bound"


@pytest.mark.parametrize("is_certain", [True, False])
def test_one_that_cannot_bind_and_can_be_ignored(is_certain: bool) -> None:
    """The profile's plugins do it instead, once."""
    engine = Asking(extender(bind_verb="b", ignorable=True))
    pod = engine.add()
    engine.handle(BindFailed(1, "down", is_certain=is_certain))

    assert [bind.extender for bind in engine.all(Bind)] == [0, None]
    engine.handle(BindFailed(1, "down"))
    assert engine.stage(pod) == "backoff"


def test_one_that_cannot_bind_and_matters() -> None:
    """Is a failure like any other."""
    engine = Asking(BINDS)
    pod = engine.add()
    engine.handle(BindFailed(1, "no", is_certain=False))

    assert engine.stage(pod) == "unsure"


@pytest.mark.parametrize("is_bound", [False, True])
def test_a_nominated_pod_that_needs_no_answer_any_more_keeps_no_room(is_bound: bool) -> None:
    """It is gone, or another scheduler has bound it elsewhere."""
    engine = Asking(FILTERS, nodes=("a",))
    first = engine.add("a", priority=10, nominated_node_name="a")
    waits = engine.add("b", priority=1)
    assert (engine.stage(first), engine.stage(waits)) == ("asking", "unschedulable")

    if is_bound:
        engine.on("elsewhere", "a", priority=10, resource_version="2")
    else:
        engine.gone(first)
    engine.handle(Decide())

    assert engine.engine.core.queue.nominator.nodes.get(first.uid) is None
    assert engine.stage(waits) == "asking"


@pytest.mark.parametrize("now", ["", "b"], ids=["withdrawn", "moved"])
def test_a_nomination_that_others_change_meanwhile_is_the_one_that_counts(now: str) -> None:
    """An autoscaler changes it while the pod's extender is asked, and the extender refuses."""
    engine = Asking(FILTERS)
    never = {"uid": "p", "preemption_policy": "Never"}
    pod = engine.add("p", nominated_node_name="a", **never)

    engine.set(make_pod_info("p", scheduler_name="test", nominated_node_name=now, **never))
    while engine.stage(pod) == "asking":
        engine.say(Filtered(()))
    engine.add("q")

    assert engine.nodes_asked() == tuple(node for node in NODES if node != now)


def test_a_nomination_withdrawn_meanwhile_wakes_who_waits_for_the_place() -> None:
    """No end of a pod will tell them."""
    engine = Asking(FILTERS, nodes=("a",))
    engine.add("p", uid="p", nominated_node_name="a")
    waiting = engine.add("q")
    before = engine.stage(waiting)

    engine.set(make_pod_info("p", uid="p", scheduler_name="test"))

    assert before == "unschedulable"
    assert not engine.is_asleep(waiting)
