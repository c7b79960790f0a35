"""Pod groups that need the room of others: victims leave only for a group that then fits."""

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.events import ObjectGone
from scheduler.kernel.engine.instructions import Evict, PatchStatus
from tests.support.builders import make_pod_info
from tests.unit.engine.gangs import LET_DOWN, TOO_FEW, Gangs


def low(driven: Gangs, count: int) -> list[PodInfo]:
    """So many unimportant pods run."""
    pods = [make_pod_info(f"low{i}", node_name="n", priority=-5) for i in range(count)]
    for pod in pods:
        driven.set(pod)
    return pods


def test_victims_make_room_for_a_gang_that_then_fits() -> None:
    """The gang waits for them, each member nominated to its place, and runs when they are gone."""
    driven = Gangs(3)
    driven.group()
    victims = low(driven, 2)
    pods = driven.members(3)

    driven.run()
    told = [driven.message(pod) for pod in pods]
    nominated = [driven.engine.core.queue.nominator.nodes.get(pod.uid) for pod in pods]
    evicted = [each.name for each in driven.all(Evict)]
    for victim in victims:
        driven.gone(victim)
        driven.run()
    for _ in range(12):
        driven.tick(1.0)
        driven.run()

    waits = "pod group is unschedulable, pod group is waiting for preemption to complete"
    assert told[0] == waits
    assert all(each.startswith("0/1 nodes are available: ") for each in told[1:])
    assert nominated == ["n"] * 3
    assert len(evicted) == 2
    assert driven.conditions()[0] == ("False", "Unschedulable", waits)
    assert driven.conditions()[-1] == ("True", "Scheduled", "")
    assert sorted(driven.bound()) == ["g0", "g1", "g2"]


def test_no_pod_is_evicted_for_a_gang_that_fails_all_the_same() -> None:
    """Two could have the room of others, the third fits nowhere. kube-scheduler 1.36 evicts."""
    driven = Gangs(2)
    driven.group()
    low(driven, 2)
    pods = driven.members(3)

    driven.run()

    assert driven.all(Evict) == []
    assert [driven.message(pod) for pod in pods[:2]] == [LET_DOWN] * 2
    assert driven.conditions() == [("False", "Unschedulable", "pod group is unschedulable")]
    assert driven.used == 2


def test_a_gang_that_is_whole_again_keeps_the_places_that_its_pods_name() -> None:
    """As after a restart between the evictions and the binding: the group may come last."""
    driven = Gangs(3)
    pods = driven.members(3, nominated_node_name="n")
    nominator = driven.engine.core.queue.nominator
    held = [nominator.nodes.get(pod.uid) for pod in pods]

    driven.group()
    kept = [nominator.nodes.get(pod.uid) for pod in pods]
    driven.add("single")
    driven.run()

    assert held == [None] * 3
    assert kept == ["n"] * 3
    assert sorted(driven.bound()) == ["g0", "g1", "g2"]


def touched(pod: PodInfo, version: str) -> PodInfo:
    """A pod to which a label is written; its status still names the node."""
    return make_pod_info(
        pod.name,
        scheduler_name="test",
        group="g",
        nominated_node_name="n",
        labels={"touched": version},
        resource_version=version,
    )


def test_a_held_member_keeps_no_room_whatever_is_written_to_it() -> None:
    """A write shows the node in its status again: the status is cleared, others use the room."""
    driven = Gangs(1)
    driven.group()
    [pod] = driven.members(1, nominated_node_name="n")

    driven.set(touched(pod, "2"))
    single = driven.add("single")
    driven.run()

    assert driven.held(pod) == TOO_FEW
    assert [each.nominated_node_name for each in driven.all(PatchStatus)] == [""]
    assert driven.node_of(single) == "n"


def test_a_status_that_could_not_be_cleared_is_cleared_at_the_next_write() -> None:
    """The group goes; the first write fails, of which the engine does not hear."""
    driven = Gangs(1)
    driven.set(make_pod_info("low", node_name="n", priority=-5))
    driven.group(least=1)
    [pod] = driven.members(1)
    driven.run()
    driven.set(touched(pod, "2"))
    driven.handle(ObjectGone("podgroups", "default", "g", "uid-of-g"))
    before = [each.nominated_node_name for each in driven.all(PatchStatus)]

    driven.set(touched(pod, "3"))

    assert before == ["n", ""]
    assert [each.nominated_node_name for each in driven.all(PatchStatus)] == ["n", "", ""]
    assert driven.engine.core.queue.nominator.nodes.get(pod.uid) is None


def test_a_member_that_preempts_takes_no_turn_to_ask_where_there_are_no_extenders() -> None:
    """Turns would never be given back."""
    driven = Gangs(1)
    driven.set(make_pod_info("low", node_name="n", priority=-5))
    driven.group(least=1)
    driven.members(1)

    driven.run()

    assert driven.all(Evict)
    assert driven.engine.extender_calls.counts() == (0, 0)
