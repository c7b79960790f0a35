"""Every way through the states of an attempt, driven by events, and what is told on it."""

from random import Random
from typing import NoReturn

import pytest
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.cache import PodState
from scheduler.kernel.engine import AttemptState
from scheduler.kernel.engine.algorithm import SchedulingAlgorithm
from scheduler.kernel.engine.binding_cycle import ASK_AGAIN_SECONDS, CONFIRM_SECONDS, MAX_QUESTIONS
from scheduler.kernel.engine.events import (
    Activate,
    BindFailed,
    Bound,
    Decide,
    Event,
    ObjectGone,
    ObjectSet,
    PodRead,
    PreBound,
    ReadFailed,
    Rejected,
    SlowDecision,
)
from scheduler.kernel.engine.instructions import (
    Bind,
    Cancel,
    LogError,
    PatchStatus,
    ReadPod,
    RunPreBind,
)
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import ASSIGNED_POD_ADD
from scheduler.kernel.framework.interface import PostBindPlugin
from scheduler.kernel.framework.status import error
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.driven import ENDED, DrivenEngine, Prepares, Room, Waits, engine_at
from tests.unit.engine.engine import EngineUnderTest, Everything, is_nomination

S = AttemptState

SENT = (S.BINDING, S.UNSURE, S.BOUND)
"""The binding has left: the pod may run whatever we think of it."""
OPEN = (S.HELD, S.PREBINDING, *SENT)
"""Every state in which an attempt can be found between two events."""

in_every_state = pytest.mark.parametrize("state", OPEN, ids=lambda s: s.value)
in_sent_states = pytest.mark.parametrize("state", SENT, ids=lambda s: s.value)

SCHEDULED = "Successfully assigned default/p to n"


def answers(attempt: int) -> list[Event]:
    """Everything that can be said about an attempt."""
    return [
        Bound(attempt),
        BindFailed(attempt, "refused"),
        BindFailed(attempt, "time-out", is_certain=False),
        PreBound(attempt),
        PreBound(attempt, "no disk"),
        PodRead(attempt, None),
        ReadFailed(attempt),
    ]


class HearsOfBinds(PostBindPlugin):
    """Remembers whom it heard of."""

    NAME = "HearsOfBinds"

    def __init__(self) -> None:
        self.pods: list[str] = []

    @override
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.pods.append(pod.name)


def patches_of(driven: DrivenEngine, pod: PodInfo) -> list[PatchStatus]:
    """Every change of a pod's status that was asked for, but where it is about to go."""
    patches = [patch for patch in driven.all(PatchStatus) if patch.uid == pod.uid]
    return [patch for patch in patches if not is_nomination(patch)]


def test_the_straight_way() -> None:
    """PreBind, Bind, the answer, the watch: one instruction each, and one event for people."""
    driven = DrivenEngine(Room(1), Prepares())
    pod = driven.add("p")

    nomination, pre_bind = driven.handle(Decide())
    attempt = driven.attempt(pod)
    assert nomination == PatchStatus("default", "p", pod.uid, nominated_node_name="n")
    assert pre_bind == RunPreBind(attempt.id)
    [bind] = driven.handle(PreBound(attempt.id))
    assert bind == Bind(attempt.id, "default", "p", pod.uid, "n")
    [scheduled] = driven.handle(Bound(attempt.id))
    confirmed = driven.set(pod.on_node("n"))

    assert driven.notes == [SCHEDULED]
    assert scheduled in driven.instructions
    assert confirmed == []
    assert driven.stage(pod) == "cache"
    states = [entry.what for entry in driven.engine.story(pod.uid)]
    assert states == ["assumed", "reserved", "prebinding", "binding", "bound", "confirmed"]


# --- answers --------------------------------------------------------------------------------------


def test_a_refused_binding_gives_everything_back() -> None:
    """The pod waits in back-off, says why, and its room wakes those that wait for room."""
    driven, pod = engine_at(S.BINDING)
    other = driven.add("q")
    driven.handle(Decide())
    assert driven.stage(other) == "unschedulable"

    driven.handle(BindFailed(driven.attempt(pod).id, "refused"))

    assert driven.stage(pod) == "backoff"
    assert driven.stage(other) != "unschedulable"
    assert driven.used == 0
    [patch] = patches_of(driven, pod)
    assert patch.condition is not None
    assert (patch.condition.reason, patch.condition.message) == ("SchedulerError", "refused")


@pytest.mark.parametrize("state", [S.HELD, S.PREBINDING, S.BINDING], ids=lambda s: s.value)
def test_a_pod_without_a_bind_has_no_failure_before_its_time(state: AttemptState) -> None:
    """While the attempt goes on nothing is told, and the pod has its place."""
    driven, pod = engine_at(state)

    assert driven.told == []
    assert driven.used == 1
    assert driven.stage(pod) == state.value


def test_an_unclear_binding_keeps_its_place_until_it_is_read() -> None:
    """The API server is asked at once, nobody else gets the room, and nothing is told."""
    driven, pod = engine_at(S.BINDING)
    attempt = driven.attempt(pod)

    answer = driven.handle(BindFailed(attempt.id, "time-out", is_certain=False))

    assert answer == [ReadPod(attempt.id, "default", "p", pod.uid)]
    assert driven.used == 1
    assert driven.told == []
    other = driven.add("q")
    driven.handle(Decide())
    assert driven.stage(other) == "unschedulable"


in_doubt = pytest.mark.parametrize("state", [S.UNSURE, S.BOUND], ids=lambda s: s.value)


@in_doubt
def test_read_and_bound_to_our_node(state: AttemptState) -> None:
    """The attempt is over, told of once, and pods that wait for the new one are woken."""
    driven, pod = engine_at(state, Waits("friend", ASSIGNED_POD_ADD))
    friend = driven.rejected("friend")

    driven.handle(PodRead(driven.attempt(pod).id, pod.on_node("n")))

    assert driven.stage(pod) == "cache"
    assert driven.used == 1
    assert driven.notes.count(SCHEDULED) == 1
    assert patches_of(driven, pod) == []
    assert not driven.is_asleep(friend)


@in_doubt
def test_read_and_bound_to_another_node(state: AttemptState) -> None:
    """Somebody else was faster: the room is free for others, and the pod counts where it runs."""
    driven, pod = engine_at(state)
    other = driven.rejected("q")
    driven.handle(ObjectSet("nodes", make_node("m")))

    driven.handle(PodRead(driven.attempt(pod).id, pod.on_node("m")))

    assert driven.stage(pod) == "cache"
    assert driven.node_of(pod) == "m"
    assert not driven.is_asleep(other)
    assert patches_of(driven, pod) == []


@in_doubt
def test_read_and_gone(state: AttemptState) -> None:
    """The room is free for others; nobody is told of a pod that does not exist."""
    driven, pod = engine_at(state)
    other = driven.rejected("q")
    told = len(driven.told)

    driven.handle(PodRead(driven.attempt(pod).id, None))

    assert driven.stage(pod) == "nowhere"
    assert driven.used == 0
    assert not driven.is_asleep(other)
    assert len(driven.told) == told


def test_unsure_read_and_not_bound() -> None:
    """The binding has failed after all: the pod waits in back-off for another try."""
    driven, pod = engine_at(S.UNSURE)
    other = driven.rejected("q")

    driven.handle(PodRead(driven.attempt(pod).id, pod))

    assert driven.stage(pod) == "backoff"
    assert driven.used == 0
    assert not driven.is_asleep(other)
    [patch] = patches_of(driven, pod)
    assert patch.condition is not None
    assert patch.condition.message == "time-out"


def test_bound_read_and_not_bound() -> None:
    """The API server took its word back: the pod is tried again at once, as it is now."""
    driven, pod = engine_at(S.BOUND)
    other = driven.rejected("q")
    newer = make_pod_info("p", scheduler_name="test", labels={"a": "1"})

    driven.handle(PodRead(driven.attempt(pod).id, newer))

    assert driven.stage(pod) == "active"
    assert driven.engine.core.queue.get(pod.uid) is newer
    assert driven.used == 0
    assert not driven.is_asleep(other)
    assert patches_of(driven, pod) == []


def test_accepted_after_all() -> None:
    """A late answer ends the doubt; the API server is not asked any more."""
    driven, pod = engine_at(S.UNSURE)
    attempt = driven.attempt(pod)

    driven.handle(Bound(attempt.id))

    assert driven.stage(pod) == "bound"
    assert driven.notes == [SCHEDULED]
    assert driven.tick(ASK_AGAIN_SECONDS) == []


@pytest.mark.parametrize("sure", [True, False], ids=["sure", "unsure"])
def test_a_second_failure_says_nothing_new(sure: bool) -> None:
    """Only the first answer to a binding counts."""
    driven, pod = engine_at(S.UNSURE)

    assert driven.handle(BindFailed(driven.attempt(pod).id, "again", is_certain=sure)) == []
    assert driven.stage(pod) == "unsure"


def test_asking_again() -> None:
    """A question without an answer is asked again after a while, not before."""
    driven, pod = engine_at(S.UNSURE)
    question = ReadPod(driven.attempt(pod).id, "default", "p", pod.uid)
    driven.handle(ReadFailed(question.attempt))

    assert driven.tick(ASK_AGAIN_SECONDS - 0.1) == []
    assert driven.tick(0.1) == [question]
    assert driven.tick(1) == []
    assert driven.tick(ASK_AGAIN_SECONDS - 1) == [question]


def test_a_bound_pod_that_nobody_confirms_is_read() -> None:
    """Not before its time; then again and again, and no longer when the watch has told."""
    driven, pod = engine_at(S.BOUND)
    question = ReadPod(driven.attempt(pod).id, "default", "p", pod.uid)

    assert driven.tick(CONFIRM_SECONDS - 0.1) == []
    assert driven.tick(0.1) == [question]
    assert driven.tick(ASK_AGAIN_SECONDS) == [question]
    driven.set(pod.on_node("n"))
    assert driven.tick(ASK_AGAIN_SECONDS) == []


def test_questions_are_asked_a_few_at_a_time_and_of_all_in_turn() -> None:
    """A pod that cannot be read does not keep the others from being read."""
    driven = DrivenEngine()
    pods = [driven.add(f"p{i}") for i in range(3 * MAX_QUESTIONS)]
    for pod in pods:
        driven.handle(Decide())
        driven.handle(Bound(driven.attempt(pod).id))

    asked = [driven.tick(CONFIRM_SECONDS), driven.tick(1), driven.tick(1), driven.tick(1)]

    assert [len(questions) for questions in asked] == [MAX_QUESTIONS] * 3 + [0]
    names = [i.name for questions in asked for i in questions if isinstance(i, ReadPod)]
    assert names == [pod.name for pod in pods]


@pytest.mark.parametrize("end", ["confirmed", "failed", "gone"])
def test_answers_after_the_end_are_nothing(end: str) -> None:
    """Nothing moves and nothing is said, whatever comes late."""
    driven, pod = engine_at(S.BINDING)
    attempt = driven.attempt(pod).id
    if end == "confirmed":
        driven.set(pod.on_node("n"))
    elif end == "failed":
        driven.handle(BindFailed(attempt, "refused"))
    else:
        driven.gone(pod)
    before = (driven.stage(pod), driven.used)

    for answer in [*answers(attempt), PodRead(attempt, pod), PodRead(attempt, pod.on_node("n"))]:
        assert driven.handle(answer) == []

    assert (driven.stage(pod), driven.used) == before


@pytest.mark.parametrize("state", [S.HELD, S.PREBINDING], ids=lambda s: s.value)
def test_answers_before_their_time_are_nothing(state: AttemptState) -> None:
    """An answer that does not belong to the state is for something that is over."""
    driven, pod = engine_at(state)
    attempt = driven.attempt(pod).id

    for answer in answers(attempt):
        if not (isinstance(answer, PreBound) and state is S.PREBINDING):
            assert driven.handle(answer) == []

    assert driven.stage(pod) == state.value


def test_preparation_that_fails() -> None:
    """No binding leaves; the pod waits in back-off and says why."""
    driven, pod = engine_at(S.PREBINDING)
    other = driven.rejected("q")

    driven.handle(PreBound(driven.attempt(pod).id, "no disk"))

    assert driven.stage(pod) == "backoff"
    assert driven.binds == []
    assert "no disk" in driven.notes[-1]
    assert not driven.is_asleep(other)
    assert driven.used == 0


@pytest.mark.parametrize("state", [S.PREBINDING, S.BINDING], ids=["PreBind", "Bind"])
def test_a_plugin_that_rejects_before_the_binding(state: AttemptState) -> None:
    """The pod waits in back-off, as after an error, and its condition says Unschedulable.

    Source: schedule_one.go handleSchedulingFailure v1.36.3.
    """
    driven, pod = engine_at(state)
    attempt = driven.attempt(pod).id

    if state is S.PREBINDING:
        driven.handle(PreBound(attempt, "no disk", is_rejection=True))
    else:
        driven.handle(BindFailed(attempt, "no disk", is_certain=False, is_rejection=True))
        driven.handle(PodRead(attempt, pod))

    assert driven.stage(pod) == "backoff"
    [condition] = [patch.condition for patch in driven.all(PatchStatus) if patch.condition]
    assert (condition.reason, condition.message) == ("Unschedulable", "no disk")
    assert [*driven.metrics.schedule_attempts] == [("unschedulable", "test")]


def test_post_bind_that_raises_undoes_nothing() -> None:
    """The failure is told to the operator; the pod is bound, and nobody else is to know."""
    plugin = Everything(post_bind=RuntimeError("webhook down"))
    under_test = EngineUnderTest(plugin)
    pod = under_test.add()

    under_test.run()

    assert under_test.told == [("scheduled", "p", SCHEDULED)]
    [report] = under_test.reports
    assert (report.message, report.pod) == ("PostBind failed", "default/p")
    assert "webhook down" in report.problem
    assert "P.unreserve" not in plugin.diary
    assert under_test.engine.core.cache.state_of(pod.uid) is PodState.ASSUMED
    assert under_test.places() == {}


# --- the watch ------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [S.BINDING, S.UNSURE], ids=lambda s: s.value)
def test_the_watch_is_faster_than_the_answer(state: AttemptState) -> None:
    """The pod is bound and told of once, PostBind plugins hear of it, and the answer is nothing."""
    hears = HearsOfBinds()
    driven, pod = engine_at(state, hears)
    attempt = driven.attempt(pod).id

    driven.set(pod.on_node("n"))
    late = driven.handle(Bound(attempt))

    assert late == []
    assert hears.pods == ["p"]
    assert driven.stage(pod) == "cache"
    assert driven.notes == [SCHEDULED]
    assert driven.engine.core.cache.state_of(pod.uid) is not PodState.ASSUMED


@in_every_state
def test_deleted(state: AttemptState) -> None:
    """Everything is given back, whoever waits for room is woken, and nobody is told anything."""
    driven, pod = engine_at(state)
    told = len(driven.told)
    other = driven.add("q") if state is S.HELD else driven.rejected("q")
    driven.run()

    driven.gone(pod)

    assert driven.stage(pod) == "nowhere"
    assert not driven.is_asleep(other)
    assert driven.used == 0
    assert not [note for note in driven.told[told:] if note[1] == "p"]
    assert driven.engine.story(pod.uid)[-1].what == "gone"


@pytest.mark.parametrize("state", [S.PREBINDING, S.BINDING], ids=lambda s: s.value)
def test_work_under_way_for_a_pod_that_is_gone_is_called_off(state: AttemptState) -> None:
    """The driver need not go on."""
    driven, pod = engine_at(state)
    attempt = driven.attempt(pod).id

    assert Cancel(attempt) in driven.gone(pod)


@in_every_state
def test_being_deleted(state: AttemptState) -> None:
    """Before its binding has left, the pod gives its place away; afterwards it may well run."""
    driven, pod = engine_at(state)
    other = driven.rejected("q")
    ending = make_pod_info("p", scheduler_name="test", deletion_timestamp=ENDED)

    driven.set(ending)

    if state in SENT:
        assert driven.stage(pod) == state.value
        assert driven.used == 1
    else:
        assert driven.stage(pod) == "nowhere"
        assert driven.used == 0
        assert not driven.is_asleep(other)
    assert patches_of(driven, pod) == []


@in_every_state
def test_bound_by_somebody_else_to_another_node(state: AttemptState) -> None:
    """The pod counts where it runs, and its place with us is free for those that wait."""
    driven, pod = engine_at(state)
    other = driven.rejected("q")
    driven.handle(ObjectSet("nodes", make_node("m")))

    driven.set(pod.on_node("m"))

    assert driven.stage(pod) == "cache"
    assert driven.node_of(pod) == "m"
    assert not driven.is_asleep(other)
    assert patches_of(driven, pod) == []


@in_every_state
def test_bound_to_the_node_that_we_chose(state: AttemptState) -> None:
    """By somebody else as long as we have sent nothing: then it is not for us to tell."""
    driven, pod = engine_at(state)

    driven.set(pod.on_node("n"))

    assert driven.stage(pod) == "cache"
    assert driven.used == 1
    assert driven.notes == ([SCHEDULED] if state in SENT else [])
    assert len(driven.engine.core.waiting) == 0


@in_every_state
def test_updated(state: AttemptState) -> None:
    """The attempt goes on; should the pod come back, it comes back as it is by then."""
    driven, pod = engine_at(state)
    newer = make_pod_info("p", scheduler_name="test", labels={"a": "1"}, resource_version="2")

    assert driven.set(newer) == []

    assert driven.stage(pod) == state.value
    if state is not S.BOUND:
        assert driven.engine.core.queue.get(pod.uid) is newer


@in_sent_states
def test_no_status_for_a_pod_whose_binding_was_sent(state: AttemptState) -> None:
    """Whatever comes while its outcome is open: the API server may have set the condition."""
    driven, pod = engine_at(state)
    attempt = driven.attempt(pod).id

    driven.set(make_pod_info("p", scheduler_name="test", labels={"a": "1"}))
    driven.handle(SlowDecision(pod.uid, 3.0))
    driven.handle(ReadFailed(attempt))
    driven.handle(PreBound(attempt, "no disk"))
    driven.handle(Rejected(pod.uid, "Holds", "too late"))
    driven.handle(Activate((pod.uid,)))
    driven.tick(CONFIRM_SECONDS)
    driven.handle(ObjectGone("nodes", "", "n", "uid-of-n"))

    assert driven.all(PatchStatus) == []
    assert driven.stage(pod) == state.value


@in_sent_states
def test_the_node_goes_away_under_an_attempt(state: AttemptState) -> None:
    """The attempt ends as it would; a node that comes back has its pods."""
    driven, pod = engine_at(state)

    driven.handle(ObjectGone("nodes", "", "n", "uid-of-n"))
    assert driven.stage(pod) == state.value
    driven.handle(ObjectSet("nodes", make_node("n")))

    assert driven.used == 1
    driven.gone(pod)
    assert driven.used == 0


def test_the_node_goes_away_while_plugins_prepare_it() -> None:
    """Nobody waits for what will not be needed: the work is ended and the pod tried again."""
    driven, pod = engine_at(S.PREBINDING)
    attempt = driven.attempt(pod).id

    told = driven.and_end_pre_bind(ObjectGone("nodes", "", "n", "uid-of-n"))

    assert Cancel(attempt) in told
    assert driven.stage(pod) == "backoff"
    assert 'node "n" not found' in driven.notes[-1]
    assert driven.engine.core.cache.nodes == {}


def test_the_node_goes_away_and_the_binding_fails() -> None:
    """Nothing is left of the node."""
    driven, pod = engine_at(S.BINDING)

    driven.handle(ObjectGone("nodes", "", "n", "uid-of-n"))
    driven.handle(BindFailed(driven.attempt(pod).id, "refused"))

    assert driven.engine.core.cache.nodes == {}
    assert driven.stage(pod) == "backoff"


@in_doubt
def test_what_the_watch_brings_late_does_not_undo_what_was_read(state: AttemptState) -> None:
    """A version older than the one that was read; a newer one is right again."""
    driven, pod = engine_at(state)
    read = make_pod_info("p", scheduler_name="test", node_name="n", resource_version="10")
    driven.handle(PodRead(driven.attempt(pod).id, read))
    told = len(driven.told)

    driven.set(make_pod_info("p", scheduler_name="test", resource_version="9"))
    assert driven.stage(pod) == "cache"
    driven.set(read)
    driven.set(make_pod_info("p", scheduler_name="test", node_name="n", resource_version="11"))
    assert driven.stage(pod) == "cache"
    assert len(driven.told) == told

    driven.set(make_pod_info("p", scheduler_name="test", resource_version="12"))

    assert driven.stage(pod) == "active"


@pytest.mark.parametrize("was_ours", [True, False], ids=["bound by us", "found running"])
def test_a_pod_unbound_by_a_restored_api_server(was_ours: bool) -> None:
    """It is right all the same: the pod waits again, and its room is free."""
    driven, pod = engine_at(S.BINDING)
    if was_ours:
        driven.handle(Bound(driven.attempt(pod).id))
    driven.set(pod.on_node("n"))
    other = driven.rejected("q")

    driven.set(make_pod_info("p", scheduler_name="test"))

    assert driven.used == 0
    assert driven.stage(pod) == "active"
    assert not driven.is_asleep(other)
    driven.handle(Decide())
    driven.handle(Decide())
    assert len(driven.binds) == 2


# --- when a decision takes long -------------------------------------------------------------------


def try_again(driven: DrivenEngine, pod: PodInfo) -> None:
    """The pod is decided about once more."""
    driven.handle(Activate((pod.uid,)))
    driven.handle(Decide())


def test_a_pod_that_took_long_twice_in_a_row_is_tried_last_and_says_so() -> None:
    """Its condition keeps the reason and gets a sentence more."""
    driven = DrivenEngine(Waits("slow", ASSIGNED_POD_ADD))
    slow = driven.rejected("slow")

    assert driven.handle(SlowDecision(slow.uid, 2.34)) == []
    try_again(driven, slow)
    [patch] = driven.handle(SlowDecision(slow.uid, 2.34))

    assert isinstance(patch, PatchStatus)
    assert patch.condition is not None
    assert patch.condition.reason == "Unschedulable"
    assert patch.condition.message == (
        "0/1 nodes are available: not yet. Tried last for 5 minutes: "
        "deciding took 2.3 s of processor time, for the second time in a row."
    )
    driven.handle(Activate((slow.uid,)))
    driven.add("quick")
    driven.handle(Decide())
    assert driven.binds[-1].name == "quick"


def test_a_quick_decision_between_two_that_take_long_is_forgiving() -> None:
    """A pod that took long now and then keeps its turn."""
    driven = DrivenEngine(Waits("slow", ASSIGNED_POD_ADD))
    slow = driven.rejected("slow")

    for _ in range(3):
        assert driven.handle(SlowDecision(slow.uid, 2.0)) == []
        try_again(driven, slow)
        try_again(driven, slow)


def test_an_error_that_took_long_stays_an_error() -> None:
    """The reason of the condition is the one of the failure."""
    driven = DrivenEngine(Everything(pre_filter=error("out of order")))
    pod = driven.add("p")
    driven.run()

    assert driven.handle(SlowDecision(pod.uid, 2)) == []
    try_again(driven, pod)
    [patch] = driven.handle(SlowDecision(pod.uid, 2))

    assert isinstance(patch, PatchStatus)
    assert patch.condition is not None
    assert patch.condition.reason == "SchedulerError"


def test_a_pod_that_fits_may_take_long() -> None:
    """It does not wait any more, so there is nothing to put off."""
    driven, pod = engine_at(S.BINDING)

    assert driven.handle(SlowDecision(pod.uid, 2)) == []


# --- what nobody expects --------------------------------------------------------------------------


def test_an_object_that_breaks_its_handler_is_reported_and_stops_nobody() -> None:
    """The report names the event and the kind; the next event is handled as ever."""
    driven = DrivenEngine()

    [report] = driven.handle(ObjectSet("nodes", object()))

    assert isinstance(report, LogError)
    assert (report.message, report.pod) == ("Error handling ObjectSet", "nodes")
    assert report.trace
    pod = driven.add()
    driven.handle(Decide())
    assert driven.stage(pod) == "binding"


def test_an_unexpected_error_does_not_lose_the_pod(unexpected_errors: list[Exception]) -> None:
    """It waits in back-off, says what happened, and the operator gets the trace."""
    driven = DrivenEngine()
    broken = SchedulingAlgorithm(Random(1))

    def break_down(*_: object, **__: object) -> NoReturn:
        raise ZeroDivisionError("bug")

    broken.schedule_pod = break_down
    driven.engine.core.algorithm = broken
    pod = driven.add()

    driven.run()

    assert driven.stage(pod) == "backoff"
    report, retrying = driven.reports
    assert (report.message, report.pod) == ("Unexpected error", "default/p")
    assert retrying.message == "Error scheduling pod; retrying"
    assert report.problem == "ZeroDivisionError: bug"
    assert "break_down" in report.trace
    assert driven.notes == ["ZeroDivisionError: bug"]
    unexpected_errors.clear()
