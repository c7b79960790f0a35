"""Directed histories of a victim that was taken back in PreBind or Permit, and of its preemptor.

The preemptor waits for the end of the victim's attempt. Another client may bind or delete the
victim meanwhile; in each history the preemptor must be tried when its backoff is over.
"""

from typing import Any

import pytest

from scheduler.api.pod_groups import MODE_POD_GROUP
from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.events import (
    Decide,
    Evicted,
    EvictFailed,
    ObjectSet,
    PreBound,
)
from scheduler.kernel.engine.instructions import Cancel
from scheduler.kernel.engine.preemption_executor import UNSEEN_SECONDS
from tests.support.builders import make_node, make_pod_info
from tests.support.storage import (
    claims_of,
    make_claim as make_volume_claim,
    make_class,
    make_volume,
)
from tests.unit.engine.driven import ENDED, DrivenEngine, Holds, Prepares
from tests.unit.engine.test_events_that_never_come import BACK_OFF, Cluster
from tests.unit.engine.test_group_preemption import Preempting as GroupsPreempting
from tests.unit.engine.test_preemption_executor import Preempting, placed_low
from tests.unit.plugins.test_dynamic_resources import device_class, make_claim, pod_of

LOW: dict[str, Any] = {"priority": 1, "requests": {"cpu": "3"}}


def later(driven: DrivenEngine) -> None:
    """Backoff ends, and all pods that were woken are tried."""
    driven.tick(BACK_OFF)
    driven.run()


def taken_back() -> tuple[Preempting, PodInfo, int, PodInfo]:
    """A victim whose PreBind was cancelled for a preemptor, and has not ended."""
    driven, low = placed_low(Prepares())
    attempt = driven.attempt(low).id
    high = driven.preemptor()
    assert (driven.stage(low), driven.evicts) == ("cancelled", [])
    assert (driven.is_asleep(high), driven.place(high)) == (True, "n")
    return driven, low, attempt, high


def other_client_binds(driven: Preempting, low: PodInfo, node: str = "n", **fields: Any) -> None:
    """Another client binds the victim, and nothing cancels PreBind a second time."""
    bound = make_pod_info(low.name, scheduler_name="test", node_name=node, **LOW, **fields)
    assert driven.all(Cancel)
    assert not [i for i in driven.handle(ObjectSet("pods", bound)) if isinstance(i, Cancel)]


def bound_meanwhile(problem: str = "cancelled") -> tuple[Preempting, PodInfo, PodInfo]:
    """A victim that was bound to its node before its cancelled PreBind ended."""
    driven, low, attempt, high = taken_back()
    other_client_binds(driven, low)
    later(driven)
    assert (driven.evicts, driven.is_asleep(high)) == ([], True)
    driven.handle(PreBound(attempt, problem))
    assert driven.stage(low) == "cache"
    return driven, low, high


@pytest.mark.parametrize("problem", ["", "cancelled"], ids=["it succeeds", "it is cancelled"])
def test_a_victim_that_was_bound_to_its_node_is_evicted(problem: str) -> None:
    """No other event wakes the preemptor: the victim is neither deleted nor forgotten."""
    driven, low, high = bound_meanwhile(problem)

    later(driven)

    assert driven.evicts == [low.name]
    assert driven.is_held(high)
    driven.handle(Evicted(low.uid))
    driven.gone(low)
    later(driven)
    assert driven.stage(high) == "prebinding"


def test_a_victim_that_was_bound_before_the_preemption_is_evicted() -> None:
    """The binding by another client cancelled its PreBind; the preemptor comes after that."""
    driven, low = placed_low(Prepares())
    attempt = driven.attempt(low).id
    bound = make_pod_info(low.name, scheduler_name="test", node_name="n", **LOW)
    assert Cancel(attempt) in driven.handle(ObjectSet("pods", bound))
    high = driven.preemptor()
    assert (driven.evicts, driven.is_asleep(high)) == ([], True)

    driven.handle(PreBound(attempt, "cancelled"))
    later(driven)

    assert driven.evicts == [low.name]
    assert driven.is_held(high)


@pytest.mark.parametrize("problem", ["", "timeout"], ids=["it succeeds", "it fails"])
@pytest.mark.parametrize("history", ["nothing", "deleted", "deleted later", "bound elsewhere"])
def test_the_preemptor_gets_the_room_of_a_victim_that_is_not_there(
    history: str, problem: str
) -> None:
    """The victim backs off, is gone, or runs on another node."""
    driven, low, attempt, high = taken_back()
    if history == "bound elsewhere":
        other_client_binds(driven, low, "m")
    elif history == "deleted":
        driven.gone(low)
    driven.handle(PreBound(attempt, problem))
    if history == "deleted later":
        driven.gone(low)

    later(driven)

    assert (driven.stage(high), driven.attempt(high).pod.node_name) == ("prebinding", "n")
    assert driven.evicts == []


@pytest.mark.parametrize("seconds", [0.0, BACK_OFF], ids=["at once", "later"])
def test_a_victim_that_permit_held_is_bound_to_its_node(seconds: float) -> None:
    """Its attempt has ended: the preemptor is tried whether or not the victim is bound by then."""
    driven, low = placed_low(Holds())
    high = driven.add("high", priority=100, requests={"cpu": "3"})
    driven.handle(Decide())
    assert driven.stage(low) == "backoff"

    driven.tick(seconds)
    driven.running(low.name, **LOW)
    later(driven)

    assert driven.evicts == [low.name]
    assert driven.is_held(high)


@pytest.mark.parametrize("was_there", [True, False], ids=["accepted", "not found"])
def test_the_eviction_of_the_bound_victim_is_lost(was_there: bool) -> None:
    """The API server answers, and no watch shows that the victim leaves: it is asked again."""
    driven, low, high = bound_meanwhile()
    later(driven)
    driven.handle(Evicted(low.uid, was_there=was_there))

    driven.tick(UNSEEN_SECONDS)

    assert driven.evicts == [low.name] * 2
    assert driven.is_held(high)


def test_the_eviction_of_the_bound_victim_fails() -> None:
    """By a conflict, say: it is requested again after each backoff."""
    driven, low, high = bound_meanwhile()
    for times in range(1, 4):
        later(driven)
        assert driven.evicts == [low.name] * times
        driven.handle(EvictFailed(low.uid, "conflict"))
        assert driven.stage(high) == "backoff"


def test_the_cancelled_pre_bind_never_ends() -> None:
    """It may have a write under way, so no pod gets the room; the preemptor takes other room."""
    driven, low, _, high = taken_back()
    other_client_binds(driven, low)
    driven.tick(3600)
    driven.run()
    assert (driven.evicts, driven.is_asleep(high)) == ([], True)

    driven.handle(ObjectSet("nodes", make_node("m", allocatable={"cpu": "3"})))
    later(driven)

    assert driven.attempt(high).pod.node_name == "m"


def test_the_victim_leaves_while_its_eviction_has_no_answer() -> None:
    """Another client deletes it: the watch is enough."""
    driven, low, high = bound_meanwhile()
    later(driven)

    driven.gone(low)
    later(driven)

    assert driven.stage(high) == "prebinding"


def test_the_preemptor_is_deleted_meanwhile() -> None:
    """No pod is evicted for it; the next preemptor is served."""
    driven, low, attempt, high = taken_back()
    other_client_binds(driven, low)
    driven.gone(high)
    driven.handle(PreBound(attempt, "cancelled"))
    later(driven)
    assert driven.evicts == []

    second = driven.preemptor("second")

    assert driven.evicts == [low.name]
    assert driven.is_held(second)


# --- pod groups -----------------------------------------------------------------------------------


def gang_in_pre_bind(driven: GroupsPreempting, **fields: Any) -> list[PodInfo]:
    """Two members of the group `v` are in PreBind."""
    driven.group("v", least=2, **fields)
    pods = driven.members(2, "v")
    driven.run()
    assert {driven.stage(pod) for pod in pods} == {"prebinding"}
    return pods


@pytest.mark.parametrize("mode", ["Pod", MODE_POD_GROUP])
@pytest.mark.parametrize("is_gang", [False, True], ids=["for a pod", "for a gang"])
def test_members_of_a_gang_that_were_bound_are_evicted(is_gang: bool, mode: str) -> None:
    """Members of a gang that preempts are nominated to no node, and are woken all the same."""
    driven = GroupsPreempting(2, Prepares())
    victims = gang_in_pre_bind(driven, disruption_mode=mode)
    if is_gang:
        driven.group(least=2, priority=10)
        driven.members(2)
    else:
        driven.add("important", priority=10)
    driven.run()
    cancelled = [pod for pod in victims if driven.stage(pod) == "cancelled"]
    assert len(cancelled) == (2 if is_gang or mode == MODE_POD_GROUP else 1)

    for pod in cancelled:
        driven.handle(ObjectSet("pods", pod.on_node("n")))
    for pod in cancelled:
        driven.handle(PreBound(driven.attempt(pod).id, "cancelled"))
    later(driven)
    for name in driven.evicted():
        # The last victim is evicted when the others are gone.
        driven.gone(next(pod for pod in cancelled if pod.name == name))

    assert sorted(driven.evicted()) == sorted(pod.name for pod in cancelled)


def test_a_backup_brings_back_the_victim_of_a_gang() -> None:
    """The watch showed it leaving; no member is nominated to its node."""
    driven = GroupsPreempting(1)
    victim = driven.runs("v")
    driven.group(least=1, priority=10)
    driven.members(1)
    driven.run()
    driven.handle(Evicted("v"))
    driven.runs("v", deletion_timestamp=ENDED, resource_version="2")
    later(driven)
    assert driven.evicted() == ["v"]

    driven.set(victim)
    later(driven)

    assert driven.evicted() == ["v", "v"]


# --- reservations ---------------------------------------------------------------------------------


def test_devices_reserved_for_a_pod_that_another_client_bound_are_free() -> None:
    """Permit held it; its claim never shows the devices, and the pod stays on the node."""
    cluster = Cluster()
    cluster.show("deviceclasses", device_class())
    for name in ("c", "d"):
        cluster.show("resourceclaims", make_claim(name))
    first = cluster.comes(pod_of("c", name="first", schedulerName="test"))
    second = cluster.comes(pod_of("d", name="second", schedulerName="test"))
    assert (cluster.stage(first), cluster.stage(second)) == ("held", "unschedulable")

    cluster.set(first.on_node("a"))
    cluster.later()

    assert (cluster.stage(first), cluster.stage(second)) == ("cache", "held")


def test_a_volume_reserved_for_a_pod_that_another_client_bound_is_free() -> None:
    """As for devices: its claim is not bound to the volume."""
    cluster = Cluster()
    cluster.show("storageclasses", make_class())
    cluster.show("persistentvolumes", make_volume("only"))
    for name in ("c", "d"):
        cluster.show("persistentvolumeclaims", make_volume_claim(name))
    first = cluster.add("first", volumes=claims_of("c"))
    cluster.run()
    second = cluster.rejected("second", volumes=claims_of("d"))

    cluster.set(first.on_node("a"))
    cluster.later()

    assert (cluster.stage(first), cluster.stage(second)) == ("cache", "held")
