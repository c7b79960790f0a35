"""Each invariant of the engine: `validate_engine` notices when it is broken, and says which."""

from collections.abc import Callable

import pytest

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine import AttemptState
from scheduler.kernel.engine.engine_state import EngineProfiles
from scheduler.kernel.engine.events import Configure, Decide
from scheduler.kernel.framework.runtime import Framework
from scheduler.testing.validation import EngineInvariantError, validate_engine
from tests.support.builders import make_pod_info
from tests.support.fake_plugins import make_plugin_set
from tests.unit.engine.driven import DrivenEngine, Room, engine_at
from tests.unit.engine.extenders import FILTERS
from tests.unit.engine.gangs import Gangs
from tests.unit.engine.test_asking import Asking
from tests.unit.engine.test_preemption_executor import Preempting

S = AttemptState

Breaking = Callable[[DrivenEngine, PodInfo], object]


def message_after(driven: DrivenEngine, pod: PodInfo, breaking: Breaking) -> str:
    """What is said when something was broken, which was whole before."""
    validate_engine(driven.engine)

    breaking(driven, pod)
    with pytest.raises(EngineInvariantError) as raised:
        validate_engine(driven.engine)
    return str(raised.value)


def put(state: AttemptState) -> Breaking:
    """An attempt comes to a state that nothing led to."""

    def breaking(driven: DrivenEngine, pod: PodInfo) -> None:
        driven.attempt(pod).state = state

    return breaking


def lose_its_place(driven: DrivenEngine, pod: PodInfo) -> None:
    driven.engine.core.cache.forget_pod(pod.on_node("n"))


def assume_another(driven: DrivenEngine, pod: PodInfo) -> None:
    driven.engine.core.cache.assume_pod(make_pod_info("q", node_name="n"))


def pop_another(driven: DrivenEngine, pod: PodInfo) -> None:
    driven.engine.core.queue.add(make_pod_info("q", scheduler_name="test"))
    driven.engine.core.queue.pop()


def add_one_of_no_profile(driven: DrivenEngine, pod: PodInfo) -> None:
    driven.engine.core.queue.add(make_pod_info("q", scheduler_name="other"))


def hold_no_longer(driven: DrivenEngine, pod: PodInfo) -> None:
    driven.engine.core.waiting.remove(pod.uid)


@pytest.mark.parametrize(
    ("state", "breaking", "expected"),
    [
        (S.PREBINDING, put(S.RESERVED), "attempt 1 of default/p was left in reserved"),
        (S.PREBINDING, put(S.CONFIRMED), "attempt 1 of default/p was left in confirmed"),
        (S.BINDING, lose_its_place, "default/p is binding and has no place in the cache"),
        (S.BINDING, put(S.BOUND), "default/p is bound, and in flight: True"),
        (S.BOUND, put(S.BINDING), "default/p is binding, and in flight: False"),
        (S.BINDING, assume_another, "pod default/q is assumed without an attempt"),
        (S.BINDING, pop_another, "pods are in flight that no attempt is about"),
        (S.BINDING, add_one_of_no_profile, "default/q waits for other, which is no profile"),
        (
            S.HELD,
            hold_no_longer,
            "held pods [] are not those of held attempts ['default/p']",
        ),
    ],
)
def test_a_broken_invariant_is_noticed(
    state: AttemptState, breaking: Breaking, expected: str
) -> None:
    """It is named, and nothing else is."""
    assert message_after(*engine_at(state), breaking) == expected


def have_a_node(driven: DrivenEngine, pod: PodInfo) -> None:
    driven.attempt(pod).placed = pod.on_node("a")


def have_a_place(driven: DrivenEngine, pod: PodInfo) -> None:
    driven.engine.core.cache.add_pod(pod.on_node("a"))


def leave_the_queue(driven: DrivenEngine, pod: PodInfo) -> None:
    driven.engine.core.queue.done(pod.uid)


def have_no_questions(driven: DrivenEngine, pod: PodInfo) -> None:
    calls = driven.attempt(pod).extender_calls
    assert calls is not None
    calls.open.clear()


def have_no_calls(driven: DrivenEngine, pod: PodInfo) -> None:
    driven.attempt(pod).extender_calls = None


def be_forgotten(driven: DrivenEngine, pod: PodInfo) -> None:
    driven.engine.extender_calls._open.clear()


@pytest.mark.parametrize(
    ("breaking", "expected"),
    [
        (have_a_node, "default/p is asking, and has a place in the cache"),
        (have_a_place, "default/p is asking, and has a place in the cache"),
        (leave_the_queue, "default/p is asking, and not in flight"),
        (have_no_questions, "default/p is asking nothing, and waits for no turn"),
        (have_no_calls, "default/p is asking nothing, and waits for no turn"),
        (be_forgotten, "default/p has an open question that is not known"),
    ],
)
def test_an_attempt_that_asks_has_a_question_and_no_place(
    breaking: Breaking, expected: str
) -> None:
    """Whatever is amiss is named, and nothing else is."""
    asking = Asking(FILTERS)

    assert message_after(asking, asking.add(), breaking) == expected


def count_as_assumed(driven: DrivenEngine, pod: PodInfo) -> None:
    assert driven.engine.core.groups is not None
    driven.engine.core.groups.reserve(pod, "n")


def count_as_assigned(driven: DrivenEngine, pod: PodInfo) -> None:
    assert isinstance(driven, Gangs)
    driven.known().assigned[pod.uid] = pod


def have_a_node_unseen(driven: DrivenEngine, pod: PodInfo) -> None:
    driven.engine.core.cache.add_pod(pod.on_node("n"))


@pytest.mark.parametrize(
    ("breaking", "expected"),
    [
        (count_as_assumed, "member default/g0 is PodState.ABSENT, and assumed: True"),
        (count_as_assigned, "member default/g0 is PodState.ABSENT, and assigned: True"),
        (have_a_node_unseen, "member default/g0 is PodState.ADDED, and assigned: False"),
    ],
)
def test_a_group_knows_which_members_have_a_place(breaking: Breaking, expected: str) -> None:
    """As the cache knows it."""
    gangs = Gangs(3)
    gangs.group(least=2)
    [pod] = gangs.members(1)

    assert message_after(gangs, pod, breaking) == expected


def let_go(driven: DrivenEngine, pod: PodInfo) -> None:
    executor = driven.engine.preemption_executor
    executor._evictions().under_way.discard(pod.uid)


def wait_no_more(driven: DrivenEngine, pod: PodInfo) -> None:
    driven.engine.core.queue.delete(pod)


def evict_nothing(driven: DrivenEngine, pod: PodInfo) -> None:
    driven.engine.preemption_executor._asked.clear()


def want_another(driven: DrivenEngine, pod: PodInfo) -> None:
    driven.engine.preemption_executor._wanted["default/low-9"] = [pod.uid]


@pytest.mark.parametrize(
    ("breaking", "expected"),
    [
        (let_go, "the preemptors that are held back are not those whose victims are to leave"),
        (wait_no_more, "victims are evicted for high, which does not wait"),
        (evict_nothing, "high waits for default/low-0, which is not evicted"),
        (want_another, "who waits for which victim is noted twice, and differs"),
    ],
)
def test_evictions_are_for_those_that_wait(breaking: Breaking, expected: str) -> None:
    """And all that they wait for is under way."""
    driven = Preempting(low=1)

    assert message_after(driven, driven.preemptor(), breaking) == expected


def test_all_that_is_broken_is_named() -> None:
    """One after the other."""
    driven, pod = engine_at(S.BINDING)
    driven.handle(Decide())

    def breaking(driven: DrivenEngine, pod: PodInfo) -> None:
        add_one_of_no_profile(driven, pod)
        put(S.RESERVED)(driven, pod)

    assert message_after(driven, pod, breaking) == (
        "attempt 1 of default/p was left in reserved; "
        "default/q waits for other, which is no profile"
    )


def test_pods_of_a_removed_profile_are_forgotten_before_they_are_readmitted() -> None:
    """The queue drops them later, in portions: that is no fault."""
    profiles = EngineProfiles({"other": Framework(make_plugin_set([Room(1)], profile="other"))})
    driven = DrivenEngine(Room(1), rules_of=lambda _: profiles)
    pod = driven.add("p")

    driven.handle(Configure({}))

    assert pod in driven.engine.core.queue.pending_pods()
    validate_engine(driven.engine)
