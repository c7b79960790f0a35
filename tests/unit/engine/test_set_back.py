"""The API server was set back: pods on their way to a node were decided about in a lost state."""

import pytest

from scheduler.config.types import ExtenderManagedResource
from scheduler.kernel.engine import AttemptState
from scheduler.kernel.engine.engine import SETTLED_AT_ONCE
from scheduler.kernel.engine.events import (
    Allowed,
    Answered,
    BindFailed,
    Bound,
    Decide,
    ObjectGone,
    ObjectSet,
    PodRead,
    PreBound,
    ReadFailed,
    SetBack,
)
from scheduler.kernel.engine.instructions import Bind, Cancel, Evict, LogError
from scheduler.kernel.engine.pending_extender_calls import MAX_ASKING
from scheduler.kernel.engine.scheduling_failure import SCHEDULING_FAILED
from scheduler.kernel.extender import Filtered, MetaVictims, Preempted
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.driven import engine_at
from tests.unit.engine.extenders import EVICTS, FILTERS, extender
from tests.unit.engine.test_asking import NODES, Asking
from tests.unit.engine.test_groups_asking import AskingGangs
from tests.unit.engine.test_holding import tied
from tests.unit.engine.test_pod_group_steps import under_way

S = AttemptState
SET_BACK = SetBack("set back")
RESTORED = make_pod_info("restored", node_name="n")


@pytest.mark.parametrize("state", [S.HELD, S.PREBINDING], ids=lambda state: state.value)
def test_a_pod_gives_its_place_back(state: AttemptState) -> None:
    """A late answer of its plugin binds it no more; it is tried again, and a restored pod stays."""
    driven, pod = engine_at(state)
    other, attempt = driven.rejected("q"), driven.attempt(pod).id

    told = driven.and_end_pre_bind(SET_BACK)
    driven.set(RESTORED)
    driven.handle(Allowed(pod.uid, "Holds"))
    driven.handle(PreBound(attempt))

    assert LogError(SCHEDULING_FAILED, pod.key, "set back") in told
    assert driven.notes[-1] == "set back"
    assert driven.stage(pod) == "backoff"
    assert not driven.is_asleep(other)
    assert (driven.used, len(driven.engine.core.waiting)) == (1, 0)
    driven.tick(2.0)
    driven.run()
    assert driven.is_asleep(pod)
    assert driven.binds == []


def test_a_place_is_kept_until_pre_bind_has_ended() -> None:
    """Its write may have no answer yet. It is cancelled once, however often the server is found."""
    driven, pod = engine_at(S.PREBINDING)
    attempt = driven.attempt(pod).id

    assert driven.handle(SET_BACK) == [Cancel(attempt)]
    assert driven.handle(SET_BACK) == []
    driven.tick(3600)

    assert (driven.stage(pod), driven.used) == ("cancelled", 1)
    driven.handle(PreBound(attempt, "cancelled"))
    assert (driven.stage(pod), driven.used) == ("backoff", 0)
    assert driven.notes == ["set back"]


@pytest.mark.parametrize("state", [S.UNSURE, S.BOUND], ids=lambda state: state.value)
@pytest.mark.parametrize("node", ["n", "m", ""], ids=["bound", "elsewhere", "gone"])
def test_what_a_read_showed_is_forgotten(state: AttemptState, node: str) -> None:
    """The watch never shows it, and the list is as the watch showed the pod last."""
    driven, pod = engine_at(state)
    driven.handle(ObjectSet("nodes", make_node("m")))
    newer = make_pod_info("p", scheduler_name="test", node_name=node, resource_version="9")
    driven.handle(PodRead(driven.attempt(pod).id, newer if node else None))

    driven.handle(SET_BACK)
    assert driven.stage(pod) == "active"
    assert driven.used == 0
    driven.run()
    assert [bind.uid for bind in driven.binds] == [pod.uid] * 2
    driven.handle(ObjectGone("pods", pod.namespace, pod.name, pod.uid))
    assert driven.stage(pod) == "nowhere"


def test_pods_that_were_allowed_and_wait_for_their_turn() -> None:
    """They were decided about in the lost state as well."""
    driven, _, pods = tied(SETTLED_AT_ONCE + 4)
    for pod in pods:
        driven.engine.core.waiting.allow(pod.uid, "Tied")
    driven.handle(ReadFailed(0))
    before = [driven.stage(pod) for pod in pods]

    driven.handle(SET_BACK)
    driven.settle()

    sent = ["binding"] * SETTLED_AT_ONCE
    assert before == sent + ["held"] * 4
    assert [driven.stage(pod) for pod in pods] == sent + ["backoff"] * 4


@pytest.mark.parametrize("state", [S.BINDING, S.UNSURE, S.BOUND], ids=lambda state: state.value)
def test_a_binding_that_was_sent_is_answered(state: AttemptState) -> None:
    """By the API server as it is now."""
    driven, pod = engine_at(state)

    assert driven.handle(SET_BACK) == []
    driven.handle(Bound(driven.attempt(pod).id))

    assert driven.stage(pod) == "bound"


def test_a_cancelled_pre_bind_keeps_its_first_failure() -> None:
    """As for any other reason to cancel it twice."""
    driven, pod = engine_at(S.PREBINDING)
    attempt = driven.attempt(pod).id
    driven.handle(ObjectGone("nodes", "", "n", "uid-of-n"))

    assert driven.handle(SET_BACK) == []
    driven.handle(PreBound(attempt, "cancelled"))

    assert driven.notes == ['node "n" not found']


def test_where_nothing_is_under_way_nothing_happens() -> None:
    """As in a replica that does not lead."""
    driven, pod = engine_at(S.HELD)
    driven.gone(pod)
    waits = driven.add("waits")

    assert driven.handle(SET_BACK) == []
    assert driven.stage(waits) == "active"


# --- pod groups -----------------------------------------------------------------------------------


def test_pods_that_are_held_together_fail_for_this_reason() -> None:
    """Not since another was rejected: so they are tried again, and their plugin rejects none."""
    driven, plugin, pods = tied(SETTLED_AT_ONCE + 4)

    driven.handle(SET_BACK)
    turns = sum(driven.stage(pod) == "held" for pod in pods)
    driven.settle()

    assert turns == 4
    assert driven.notes == ["set back"] * len(pods)
    assert {driven.stage(pod) for pod in pods} == {"backoff"}
    assert plugin.turned_away == 0


def test_a_gang_that_has_only_some_of_its_places() -> None:
    """It gives them back. None is bound before all are placed again, and no pod waits in vain."""
    driven = under_way(room=4, members=4, least=4, steps=2)
    before = driven.used

    driven.handle(SET_BACK)
    after = driven.used
    restored = [make_pod_info(f"r{number}", node_name="n") for number in range(2)]
    for pod in restored:
        driven.set(pod)
    driven.run()
    bound = driven.bound()
    for pod in restored:
        driven.gone(pod)
    for _ in range(12):
        driven.tick(1.0)
        driven.run()

    assert (before, after) == (2, 0)
    assert bound == []
    assert sorted(driven.bound()) == ["g0", "g1", "g2", "g3"]


# --- extenders ------------------------------------------------------------------------------------


def test_a_late_answer_of_an_extender_decides_nothing() -> None:
    """The pod would be assumed before all objects are listed again."""
    engine = Asking(FILTERS)
    pod = engine.add()
    [ask] = engine.asks

    assert Cancel(ask.attempt) in engine.handle(SET_BACK)
    assert engine.say(Filtered(("b",)), ask) == []

    assert (engine.stage(pod), engine.used) == ("backoff", 0)
    engine.tick(2.0)
    engine.handle(Decide())
    engine.say(Filtered(("c",)))
    assert [bind.node for bind in engine.all(Bind)] == ["c"]


def test_a_late_answer_about_victims_evicts_none() -> None:
    """They were chosen in the lost state."""
    engine = Asking(EVICTS, nodes=("a",))
    victim = engine.on("a", "low")
    high = engine.add("high", priority=10)
    assert engine.stage(high) == "asking"

    engine.handle(SET_BACK)
    engine.say(Preempted({"a": MetaVictims((victim.uid,))}))

    assert not engine.all(Evict)
    assert engine.stage(high) == "backoff"


def test_pods_that_wait_for_their_turn_to_ask_stay_in_line() -> None:
    """They begin anew at their turn."""
    engine = Asking(FILTERS)
    pods = [engine.add(f"p{number:03}") for number in range(MAX_ASKING + 3)]

    engine.handle(SET_BACK)

    stages = [engine.stage(pod) for pod in pods]
    assert stages == ["backoff"] * MAX_ASKING + ["asking"] * 3


def test_a_gang_that_waits_for_extenders_is_tried_anew() -> None:
    """A late answer is nothing, and the members that had theirs are asked about again."""
    driven = AskingGangs(FILTERS)
    driven.group(least=2)
    pods = driven.members(2)
    driven.run()
    first, second = driven.asks
    driven.say(Filtered(NODES), first)

    driven.handle(SET_BACK)
    failed = [driven.stage(pod) for pod in pods]
    driven.handle(Answered(second.question, Filtered(NODES)))
    driven.run()
    between = driven.hosts()
    driven.tick(2.0)
    driven.agree()

    assert failed == ["backoff"] * 2
    assert between == {}
    assert sorted(driven.hosts()) == ["g0", "g1"]


@pytest.mark.parametrize("is_certain", [True, False])
def test_a_refused_extender_is_not_replaced(is_certain: bool) -> None:
    """Though it can be ignored: the profile's plugins would bind the pod there."""
    engine = Asking(extender(bind_verb="b", ignorable=True))
    pod = engine.add()

    engine.handle(SET_BACK)
    engine.handle(BindFailed(engine.attempt(pod).id, "set back", is_certain=is_certain))

    assert [bind.extender for bind in engine.all(Bind)] == [0]
    assert engine.stage(pod) == ("backoff" if is_certain else "unsure")


def test_room_that_a_gang_under_way_gives_back_is_told_of() -> None:
    """To a pod whose extender had answered before: it was refused the places of the members."""
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

    driven.handle(SET_BACK)

    assert refused == "unschedulable"
    assert not driven.is_asleep(single)
