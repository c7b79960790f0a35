"""Every pair of state and event of equivalent pods, those that must not happen included."""

import pytest

from scheduler.kernel.queue.equivalent_pods import (
    EquivalentPods,
    Following,
    ProbeEvent,
    ProbeState,
    Wake,
    key_of,
)
from scheduler.kernel.queue.hints import QueueingStrategy
from tests.support.builders import make_queued_pod_info

S, E, F = ProbeState, ProbeEvent, Following

ALLOWED: dict[tuple[ProbeState, ProbeEvent], tuple[ProbeState, Following]] = {
    (S.RESTING, E.WAKE): (S.PROBING, F.NONE),
    (S.RESTING, E.EXPIRE): (S.EXPIRING, F.NONE),
    (S.PROBING, E.REJECT): (S.RESTING, F.NONE),
    (S.PROBING, E.LEAVE): (S.RESTING, F.ANY),
    (S.EXPIRING, E.REJECT): (S.RESTING, F.LATE),
    (S.EXPIRING, E.LEAVE): (S.RESTING, F.ANY),
}
WAKES = {
    E.WAKE: Wake(QueueingStrategy.AFTER_BACKOFF, "AssignedPodDelete"),
    E.EXPIRE: Wake(QueueingStrategy.AFTER_BACKOFF, "UnschedulableTimeout", 1300.0),
}


def pods_in(state: ProbeState) -> EquivalentPods:
    pods = EquivalentPods(key_of(make_queued_pod_info("p"), shares=True))
    if state is not S.RESTING:
        pods.send("p", WAKES[E.WAKE if state is S.PROBING else E.EXPIRE])
    assert pods.state is state
    return pods


@pytest.mark.parametrize("event", ProbeEvent)
@pytest.mark.parametrize("state", ProbeState)
def test_what_follows(state: ProbeState, event: ProbeEvent) -> None:
    pods = pods_in(state)

    def happen() -> Following:
        if event in WAKES:
            pods.send("q", WAKES[event])
            return F.NONE
        return pods.end_probe(event)

    if (state, event) not in ALLOWED:
        with pytest.raises(KeyError):
            happen()
        return
    following = happen()

    assert (pods.state, following) == ALLOWED[state, event]
    assert pods.probe == ("q" if event in WAKES else "")
