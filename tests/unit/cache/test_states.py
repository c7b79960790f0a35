"""Every pair of state and event, those that must not happen included."""

import pytest

from scheduler.kernel.cache import Cache, CacheInvariantError, PodEvent, PodState
from scheduler.kernel.cache.states import TRANSITIONS
from tests.support.builders import make_node, make_pod_info

POD = make_pod_info("p", node_name="n")

ALLOWED = {
    PodState.ABSENT: {
        PodEvent.ASSUME: PodState.ASSUMED,
        PodEvent.FORGET: PodState.ABSENT,
        PodEvent.ADD: PodState.ADDED,
        PodEvent.UPDATE: PodState.ADDED,
        PodEvent.REMOVE: PodState.ABSENT,
    },
    PodState.ASSUMED: {
        PodEvent.FORGET: PodState.ABSENT,
        PodEvent.ADD: PodState.ADDED,
        PodEvent.UPDATE: PodState.ADDED,
        PodEvent.REMOVE: PodState.ABSENT,
    },
    PodState.ADDED: {
        PodEvent.FORGET: PodState.ADDED,
        PodEvent.ADD: PodState.ADDED,
        PodEvent.UPDATE: PodState.ADDED,
        PodEvent.REMOVE: PodState.ABSENT,
    },
}


def cache_with(state: PodState) -> Cache:
    """A cache that got the pod there in the usual way."""
    cache = Cache()
    cache.set_node(make_node("n"))
    if state is PodState.ADDED:
        cache.add_pod(POD)
    elif state is not PodState.ABSENT:
        cache.assume_pod(POD)
    return cache


def apply(cache: Cache, event: PodEvent) -> None:
    match event:
        case PodEvent.ASSUME:
            cache.assume_pod(POD)
        case PodEvent.FORGET:
            cache.forget_pod(POD)
        case PodEvent.ADD:
            cache.add_pod(POD)
        case PodEvent.UPDATE:
            cache.update_pod(POD)
        case PodEvent.REMOVE:
            cache.remove_pod(POD)


def test_the_table_is_the_one_agreed_on() -> None:
    """Written down twice, so that nobody changes it by accident."""
    expected = {
        (state, event): following
        for state, events in ALLOWED.items()
        for event, following in events.items()
    }

    assert expected == TRANSITIONS


@pytest.mark.parametrize("event", PodEvent, ids=lambda e: e.value)
@pytest.mark.parametrize("state", PodState, ids=lambda s: s.value)
def test_what_an_event_does_to_a_pod(state: PodState, event: PodEvent) -> None:
    """The state follows the table; the node has the pod exactly when the cache knows it."""
    cache = cache_with(state)
    assert cache.state_of(POD.uid) is state
    expected = ALLOWED[state].get(event)

    if expected is None:
        with pytest.raises(CacheInvariantError, match=r"pod default/p is \w+: cannot assume it"):
            apply(cache, event)
        expected = state
    else:
        apply(cache, event)
        assert expected is not None

    assert cache.state_of(POD.uid) is expected
    is_known = expected is not PodState.ABSENT
    assert (POD.uid in cache.nodes["n"].pods) is is_known
    assert len(cache.pods) == is_known
    is_assumed = expected is PodState.ASSUMED
    assert len(cache.assumed_pods()) == is_assumed
    assert (cache.pods.get(POD.uid) is POD) is is_known
