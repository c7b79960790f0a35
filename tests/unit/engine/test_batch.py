"""What ends a batch of equal pods; that it places them as one by one is a law, too."""

from typing import Any, ClassVar

import pytest

from scheduler.api.objects import (
    Affinity,
    LabelSelector,
    NodeAffinitySpec,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinitySpec,
    PodAffinityTerm,
)
from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.events import ObjectGone, ObjectSet
from scheduler.kernel.engine.instructions import Bind
from scheduler.kernel.engine.placing import MAX_BATCH
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import PermitPlugin, PreFilterPlugin, ReservePlugin
from scheduler.kernel.framework.results import PreFilterResult
from scheduler.kernel.framework.status import SUCCESS, Code, Status, unschedulable
from scheduler.kernel.snapshot import Snapshot
from tests.support.builders import HOSTNAME, make_node, make_pod_info
from tests.unit.engine.twins import PROFILE, Twins, configuration, nodes_of

FREE = [f"free{i}" for i in range(10)]
"""Nodes of ten cores; on all others eight of ten are taken."""
BUSY = [f"busy{i}" for i in range(60)]


def twins(plugins: Any = None, free: list[str] = FREE, busy: list[str] = BUSY) -> Twins:
    """Engines with nodes.

    Args:
        plugins: out-of-tree ones by extension point.
        free: names of nodes.
        busy: names of others.
    """
    plugins = plugins or {}
    found = Twins(
        configuration({plugin.NAME: point for point, plugin in plugins.items()}),
        {plugin.NAME: plugin for plugin in plugins.values()},
    )
    for name in (*free, *busy):
        found.tell(ObjectSet("nodes", make_node(name, allocatable={"cpu": 10})))
    found.add(*(make_pod_info(f"on-{n}", node_name=n, requests={"cpu": 8}) for n in busy))
    return found


def equal(name: str, **fields: Any) -> PodInfo:
    return make_pod_info(name, **{"requests": {"cpu": "500m"}, "scheduler_name": PROFILE, **fields})


def several(count: int, **fields: Any) -> list[PodInfo]:
    return [equal(f"p{i}", **fields) for i in range(count)]


def test_equal_pods_are_scheduled_in_one_step() -> None:
    """Each goes to another node, as each takes what made its node the best."""
    both = twins()
    both.add(*several(8))

    nodes = nodes_of(both.schedule(MAX_BATCH))

    assert len(set(nodes)) == 8
    assert set(nodes) < set(FREE)
    assert both.attempts("no_hint") == 1
    assert both.attempts("hint_used") == 7
    assert both.flushed("pod_incompatible") == 1


def test_a_node_may_be_the_best_again_and_again() -> None:
    """Also more often than was foreseen at first."""
    both = twins(free=["large"], busy=[])
    both.add(*several(20))

    assert nodes_of(both.schedule(MAX_BATCH)) == ["large"] * 20
    assert both.attempts("hint_used") == 19


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_step_is_about_no_more_pods_than_it_may(limit: int) -> None:
    """The others keep their order."""
    both = twins()
    both.add(*several(7))

    assert sum(steps := both.run(limit)) == 7
    assert max(steps) == limit
    assert both.flushed("expired") == (0 if limit == 1 else 7 // limit)


def test_a_step_is_about_no_more_pods_than_make_a_batch() -> None:
    """Whatever the event says: a recording must not stop the others."""
    both = twins(free=[f"n{i}" for i in range(20)], busy=[])
    both.add(*several(MAX_BATCH + 9))

    assert both.run(10 * MAX_BATCH) == [MAX_BATCH, 9]


def test_another_pod_ends_a_batch() -> None:
    """And stays the next one, with all that is known of it."""
    both = twins()
    both.add(*several(3), equal("other", requests={"cpu": "1"}), equal("p4"))

    assert both.run(MAX_BATCH) == [3, 1, 1]
    assert both.flushed("pod_incompatible") == 3


def test_a_more_important_pod_goes_first() -> None:
    """Equal pods have the same priority; one that came later does not push in."""
    both = twins()
    both.add(*several(3), equal("first", priority=5))

    told = both.schedule(MAX_BATCH)

    assert [each.name for each in told if isinstance(each, Bind)] == ["first"]
    assert both.run(MAX_BATCH) == [3]


def test_the_first_that_fits_nowhere_ends_a_batch() -> None:
    """Those after it wait as they did: never tried, at the head of the queue."""
    both = twins(free=["small"], busy=[])
    both.add(*several(23, requests={"cpu": "3"}))

    told = both.schedule(MAX_BATCH)

    assert nodes_of(told) == ["small"] * 3
    assert both.batching.scheduler.scheduled == 4
    assert both.attempts("hint_not_used") == 1
    assert both.flushed("empty_list") == 1
    waiting = [row for row in both.batching.core.queue.dump() if row["queue"] == "active"]
    assert [row["pod"] for row in waiting] == [f"default/p{i}" for i in range(4, 23)]
    assert {row["attempts"] for row in waiting} == {0}


def test_room_that_is_kept_is_not_given_away() -> None:
    """There is room beside the nominated pods for the first ones, and none for the next."""
    both = twins()
    both.add(equal("p"))
    [first] = nodes_of(both.schedule(1))
    for node in set(FREE) - {first}:
        large = equal(f"for-{node}", requests={"cpu": "9200m"}, nominated_node_name=node)
        both.add(make_pod_info(large.name, scheduler_name="x"))
        both.batching.core.queue.nominator.nominate(large, node)
        both.single.core.queue.nominator.nominate(large, node)
    both.add(*several(11))

    nodes = nodes_of(both.schedule(MAX_BATCH))

    assert set(nodes[:9]) == set(FREE) - {first}
    assert set(nodes[9:]) <= {first, *BUSY}
    assert both.attempts("hint_used") == 0


def test_a_pod_that_says_where_it_goes_is_looked_at_itself() -> None:
    """Also if the nominator does not know it."""
    both = twins()
    nominated = equal("said", nominated_node_name="busy7")
    both.add(*several(4), nominated)
    for engine in (both.batching, both.single):
        engine.core.queue.nominator.delete_nominated_pod_if_exists(nominated.uid)

    told = both.schedule(MAX_BATCH)

    assert nodes_of(told)[4] == "busy7"


def test_pods_that_name_their_nodes_are_looked_at_themselves() -> None:
    """Two of them exclude each other, so that the second depends on where the first went."""
    both = twins()
    named = tuple(
        NodeSelectorTerm(match_fields=(NodeSelectorRequirement("metadata.name", "In", (name,)),))
        for name in FREE[:3]
    )
    apart = PodAffinitySpec((PodAffinityTerm(HOSTNAME, LabelSelector({"app": "x"})),))
    affinity = Affinity(NodeAffinitySpec(NodeSelector(named)), pod_anti_affinity=apart)
    both.add(*several(3, labels={"app": "x"}, affinity=affinity))

    told = both.schedule(MAX_BATCH)

    assert sorted(nodes_of(told)) == FREE[:3]


class Moody(PreFilterPlugin):
    """Looks at single pods, whatever they are like."""

    NAME: ClassVar[str] = "Moody"

    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        del state, snapshot
        return None, unschedulable("not this one") if pod.name == "p4" else SUCCESS


def test_out_of_tree_plugins_are_asked_about_each_pod() -> None:
    """They may look at anything."""
    both = twins({"preFilter": Moody})
    both.add(*several(7))

    assert both.run(MAX_BATCH) == [5, 2]
    assert both.attempts("hint_used") == 0


class Keeps(ReservePlugin):
    """Has nothing for one of the pods."""

    NAME: ClassVar[str] = "Keeps"

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        del state, node_name
        return unschedulable("nothing left") if pod.name == "p2" else SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        del state, pod, node_name


class Lets(PermitPlugin):
    """Lets all pods go but one, and holds another."""

    NAME: ClassVar[str] = "Lets"

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        del state, node_name
        if pod.name == "p2":
            return unschedulable("not this one"), 0.0
        return (Status(Code.WAIT), 60.0) if pod.name == "p5" else (SUCCESS, 0.0)


@pytest.mark.parametrize(
    "plugins", [{"reserve": Keeps}, {"permit": Lets}], ids=["reserve", "permit"]
)
def test_a_rejection_after_a_node_was_found_ends_a_batch(plugins: Any) -> None:
    """Its room is free for the next pod, which is looked at by itself."""
    both = twins(plugins)
    both.add(*several(10))

    assert both.run(MAX_BATCH) == [3, 7]
    assert both.flushed("pod_failed") == 1
    assert sum(row["queue"] == "unschedulable" for row in both.batching.core.queue.dump()) == 1


class Calls(ReservePlugin):
    """Wants something else to be done before the next pod."""

    NAME: ClassVar[str] = "Calls"

    def __init__(self, args: object, handle: Handle) -> None:
        del args
        self._handle = handle

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        del state, node_name
        if pod.name == "p2":
            self._handle.activate([equal("sleeps")])
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        del state, pod, node_name


def test_what_a_plugin_posts_comes_before_the_next_pod() -> None:
    """As it does when each pod has a step of its own: a pod it wakes may be more important."""
    both = twins({"reserve": Calls})
    large = {"requests": {"cpu": "11"}, "priority": 9}
    both.add(equal("sleeps", **large), *(equal(f"before{i}") for i in range(4)))
    both.run(1)
    both.add(*several(6))

    assert both.run(MAX_BATCH) == [3, 1, 3]


def test_a_pod_that_is_gone_is_not_in_the_next_batch() -> None:
    """Between two steps anything may happen."""
    both = twins()
    pods = several(6)
    both.add(*pods)
    both.schedule(3)
    both.tell(ObjectGone("pods", "default", pods[4].name, pods[4].uid))

    assert both.run(MAX_BATCH) == [2]


def test_the_snapshot_has_a_batch_when_the_step_is_over() -> None:
    """Then no later step has very much to take over."""
    both = twins()
    both.add(*several(9))
    both.schedule(MAX_BATCH)

    core = both.batching.core
    assert core.cache.changes == []
    assert core.snapshot.table.pod_count.sum() == len(BUSY) + 9
