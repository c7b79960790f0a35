"""Every smallest change makes the pod fit, and no smaller one of its kind does."""

from collections import Counter
from itertools import combinations

from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from scheduler.api.resources import quantity
from scheduler.kernel.answers.edits import AddToleration, Edit, LowerRequest
from scheduler.kernel.answers.model import PodAnswer, SuggestedChange
from scheduler.kernel.answers.requests import amount_of
from scheduler.kernel.answers.rules import rules_of
from scheduler.kernel.answers.why import Depth, explained
from tests.unit.answers.worlds import FRAMEWORK, TAINTS, World, random_world


def told(world: World) -> PodAnswer | None:
    """What is told of the pod; None when it fits somewhere."""
    if world.fitting():
        return None
    snapshot, nominated, pod = world.built()
    epoch, pods = snapshot.epoch, snapshot.table.pod_count.tolist()
    answer = explained(Depth.CHANGES, FRAMEWORK, pod, snapshot, nominated)
    assert (snapshot.epoch, snapshot.table.pod_count.tolist()) == (epoch, pods)
    return answer


def changes_of(answer: PodAnswer) -> tuple[SuggestedChange, ...]:
    assert isinstance(answer.changes, tuple)
    return answer.changes


def check_that_it_helps(world: World, change: SuggestedChange) -> None:
    fitting = world.after(change.edits).fitting()
    renamed = {"new-0"} if change.kind == "addNodes" else set()
    assert len(fitting) == change.nodes, change
    assert change.node in fitting or renamed & fitting, change


def check_that_it_is_smallest(world: World, change: SuggestedChange) -> None:
    for i, edit in enumerate(change.edits):
        others = [*change.edits[:i], *change.edits[i + 1 :]]
        assert not world.after(others).fitting(), (change, edit)
        if isinstance(edit, LowerRequest):
            more = quantity(edit.resource, amount_of(edit) + 1)
            larger = [*others, replace(edit, at_most=more)]
            assert not world.after(larger).fitting(), (change, edit)


def check_that_no_fewer_do(world: World, change: SuggestedChange) -> None:
    """Of all tolerations that could be added, or of all rules that could go."""
    every: list[Edit] = []
    if change.kind == "addToleration":
        every = [AddToleration(t.key, t.value, t.effect) for t in TAINTS]
    elif change.kind == "dropRule":
        every = [rule.drop for rule in rules_of(world.built()[2])]
    for fewer in combinations(every, len(change.edits) - 1):
        assert not world.after(fewer).fitting(), (change, fewer)


def check(seed: int) -> Counter[str]:
    world = random_world(seed)
    answer = told(world)
    if answer is None:
        return Counter(fits=1)
    for change in changes_of(answer):
        check_that_it_helps(world, change)
        check_that_it_is_smallest(world, change)
        check_that_no_fewer_do(world, change)
    return Counter(change.kind for change in changes_of(answer))


def test_changes_of_every_kind_help_and_are_smallest() -> None:
    """Over random clusters, each change made on the plain objects and judged on a new engine."""
    kinds: Counter[str] = Counter()
    for seed in range(100):
        kinds += check(seed)

    assert min(kinds[kind] for kind in KINDS) >= 2, kinds


KINDS = (
    "lowerRequest",
    "addToleration",
    "dropRule",
    "setLabel",
    "uncordon",
    "evictPod",
    "addNodes",
    "several",
)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_any_change_helps_and_is_smallest(seed: int) -> None:
    """The same, wherever hypothesis looks."""
    check(seed)
