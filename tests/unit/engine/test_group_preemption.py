"""Preemption for a whole pod group: victims leave only if it then fits; groups leave whole."""

from typing import Any

import pytest

from scheduler.api.objects import ObjectMeta
from scheduler.api.pod_groups import MODE_POD_GROUP, PodGroup
from scheduler.api.pods import PodInfo
from scheduler.config.args import DefaultPreemptionArgs, VolumeBindingArgs
from scheduler.kernel.engine.events import Evicted, EvictFailed, ObjectGone, ObjectSet
from scheduler.kernel.engine.instructions import Evict, RecordEvent
from scheduler.kernel.engine.preemption_executor import UNSEEN_SECONDS
from scheduler.kernel.framework.events import POD_GROUP_KIND, POD_KIND
from scheduler.kernel.framework.interface import Plugin
from scheduler.kernel.plugins.default_preemption import BUDGETS, DefaultPreemptionForGroups
from scheduler.kernel.plugins.gang_scheduling import GangScheduling
from scheduler.kernel.plugins.volume_binding import VolumeBinding
from scheduler.kernel.volumes.catalog import VolumeCatalog
from tests.support.builders import make_pod_info
from tests.support.storage import claims_of, make_claim, make_class
from tests.unit.engine.driven import DrivenEngine
from tests.unit.engine.gangs import Gangs, Places

GROUP_FAILS = "pod group is unschedulable"
HELD = "waiting for the preemption for this pod group to be finished"


class Preempting(Gangs):
    """An engine with the gate on; its nodes have room for so many pods each."""

    def __init__(self, room: int, *plugins: Plugin, nodes: Any = ("n",)) -> None:
        DrivenEngine.__init__(
            self,
            lambda handle: GangScheduling(None, handle),
            lambda handle: DefaultPreemptionForGroups(DefaultPreemptionArgs(100, 100), handle),
            lambda handle: VolumeBinding(VolumeBindingArgs(), handle),
            Places(room),
            *plugins,
            nodes=nodes,
            kinds=(POD_KIND, POD_GROUP_KIND, BUDGETS, *VolumeCatalog.WATCHES),
        )

    def runs(self, name: str, node: str = "n", **fields: Any) -> PodInfo:
        """A pod runs."""
        pod = make_pod_info(name, node_name=node, uid=name, **fields)
        self.set(pod)
        return pod

    def evicted(self) -> list[str]:
        """The pods whose eviction was asked for, in order."""
        return [each.name for each in self.all(Evict)]

    def leaves(self, pod: PodInfo) -> None:
        """A pod is gone."""
        self.handle(ObjectGone("pods", pod.namespace, pod.name, pod.uid))


def test_a_group_that_is_gone_fails_with_an_error() -> None:
    """As with kube-scheduler: its priority is not known, so nothing can be said of victims."""
    driven = Preempting(1)
    driven.runs("old")
    driven.group(priority=10)
    pods = driven.members(3)
    driven.handle(ObjectGone("podgroups", "default", "g", "uid-of-g"))

    driven.run()

    gone = 'failed to get pod group object: podgroup.scheduling.k8s.io "g" not found'
    assert driven.evicted() == []
    assert [driven.message(pod) for pod in pods] == [gone] * 3


def test_the_victims_of_all_members_leave() -> None:
    """Three members need three places, and two are free: one pod leaves, the least important."""
    driven = Preempting(4)
    driven.runs("old", priority=2)
    driven.runs("less", priority=1)
    driven.group(priority=10)
    driven.members(3)

    driven.run()

    assert driven.evicted() == ["less"]
    assert driven.conditions() == [("False", "Unschedulable", GROUP_FAILS)]
    assert driven.bound() == []


def test_the_group_is_bound_once_its_victims_are_gone() -> None:
    """Until the watch shows them leaving its members are held."""
    driven = Preempting(3)
    victims = [driven.runs(f"v{i}") for i in range(2)]
    driven.group(priority=10)
    pods = driven.members(3)
    driven.run()

    driven.leaves(victims[0])
    held = {driven.held(pod) for pod in pods}
    driven.leaves(victims[1])
    driven.tick(15.0)
    driven.run()

    assert held == {HELD}
    assert driven.bound() == ["g0", "g1", "g2"]
    assert driven.conditions()[-1][0] == "True"


def test_a_member_that_comes_while_victims_leave_is_held_no_longer_than_they_do() -> None:
    """The members that they leave for are gone by then; no event tells of the end."""
    driven = Preempting(1)
    victim = driven.runs("v")
    driven.group(least=1, priority=10)
    [first] = driven.members(1)
    driven.run()
    late = driven.add("late", group="g")
    assert driven.held(late) == HELD

    driven.gone(first)
    driven.handle(Evicted(victim.uid))
    driven.leaves(victim)
    driven.run()

    assert driven.bound() == ["late"]


def test_no_more_victims_leave_for_a_group_that_another_scheduler_has_bound() -> None:
    """As for a pod that needs no room any more; a gang that needs it for others goes on."""
    driven = Preempting(2)
    victims = {name: driven.runs(name, priority=i) for i, name in enumerate(("v", "w"))}
    driven.group(least=2, priority=10)
    pods = driven.members(2)
    driven.run()
    [name] = driven.evicted()

    for pod in pods:
        driven.set(pod.on_node("elsewhere"))
    driven.handle(Evicted(name))
    driven.leaves(victims[name])

    assert driven.evicted() == [name]


@pytest.mark.parametrize("least", [None, 3], ids=["its object goes", "more members are needed"])
def test_no_more_victims_leave_for_a_group_that_may_not_be_tried(least: int | None) -> None:
    """Its members are held for another reason by then, which may never end."""
    driven = Preempting(2)
    victims = {name: driven.runs(name, priority=i) for i, name in enumerate(("v", "w"))}
    driven.group(least=2, priority=10)
    pods = driven.members(2)
    driven.run()
    [name] = driven.evicted()

    if least is None:
        driven.handle(ObjectGone("podgroups", "default", "g", "uid-of-g"))
    else:
        driven.group(least=least, priority=10)
    driven.handle(Evicted(name))
    driven.leaves(victims[name])
    after = driven.evicted()
    driven.group(least=1, priority=10)
    driven.tick(2.0)
    driven.run()

    assert after == [name]
    assert not {driven.held(pod) for pod in pods} & {HELD}
    assert len(driven.bound()) == 1


def test_a_member_that_fits_nowhere_keeps_no_others_from_their_victims() -> None:
    """Its claim does not exist; the others are enough."""
    driven = Preempting(2)
    driven.runs("v")
    driven.group(least=2, priority=10)
    driven.add("lacks-claim", group="g", volumes=claims_of("gone"))
    driven.members(2)

    driven.run()

    assert driven.evicted() == ["v"]


def test_a_gang_that_fails_keeps_no_volumes_though_victims_were_searched_without_it() -> None:
    """What the first member has assumed is given back on the copy, and then in the cluster."""
    driven = Preempting(1)
    driven.handle(ObjectSet("storageclasses", make_class(provisioner="csi.example.com")))
    driven.group(least=2, priority=10)
    for name in ("a", "b"):
        driven.handle(ObjectSet("persistentvolumeclaims", make_claim(name)))
        driven.add(name, group="g", volumes=claims_of(name))

    driven.run()

    assert [each[0] for each in driven.conditions()] == ["False"]
    assert not driven.states.shared(VolumeCatalog, "").assumed_claims.assumptions


def test_an_eviction_that_no_watch_shows_is_asked_for_again() -> None:
    """The API server has said yes, and the victim never leaves: the group is not held for ever."""
    driven = Preempting(1)
    driven.runs("v")
    driven.group(least=1, priority=10)
    driven.members(1)
    driven.run()

    driven.handle(Evicted("v"))
    driven.tick(UNSEEN_SECONDS - 1)
    before = driven.evicted()
    driven.tick(1.0)

    assert before == ["v"]
    assert driven.evicted() == ["v", "v"]
    assert driven.bound() == []


def test_a_group_whose_victim_cannot_be_evicted_is_tried_again() -> None:
    """No event of the cluster comes; the group is let go and asks anew after its back-off."""
    driven = Preempting(1)
    driven.runs("v")
    driven.group(least=1, priority=10)
    driven.members(1)
    driven.run()
    before = driven.evicted()

    driven.handle(EvictFailed("v", "no"))
    driven.tick(310.0)
    driven.run()

    assert before == ["v"]
    assert driven.evicted() == ["v", "v"]


def test_no_pod_leaves_for_a_group_that_does_not_fit_all_the_same() -> None:
    """Two could leave; the gang needs one place more than there would be then."""
    driven = Preempting(2)
    driven.runs("a")
    driven.runs("b")
    driven.group(priority=10)
    driven.members(3)

    driven.run()

    assert driven.evicted() == []
    assert driven.conditions() == [("False", "Unschedulable", f"{GROUP_FAILS}, {GROUP_FAILS}")]


def test_a_group_without_a_priority_preempts_nothing_of_priority_zero() -> None:
    """The priorities of its members do not count."""
    driven = Preempting(3)
    driven.runs("a")
    driven.group()
    driven.members(3, priority=100)

    driven.run()

    why = "No preemption victims found for incoming preemptor"
    assert driven.evicted() == []
    assert driven.conditions() == [("False", "Unschedulable", f"{GROUP_FAILS}, {why}")]


def test_a_member_that_never_preempts_speaks_for_all() -> None:
    """One is enough."""
    driven = Preempting(3)
    driven.runs("a")
    driven.group(priority=10)
    driven.members(2)
    driven.add("g2", group="g", preemption_policy="Never")

    driven.run()

    why = "not eligible due to preemptionPolicy=Never."
    assert driven.evicted() == []
    assert driven.conditions() == [("False", "Unschedulable", f"{GROUP_FAILS}, {why}")]


def test_constraints_keep_a_group_from_preempting() -> None:
    """As upstream."""
    driven = Preempting(3)
    driven.runs("a")
    driven.group(priority=10, topology_key="rack")
    driven.members(3)

    driven.run()

    why = "workload aware preemption is not supported for pod groups with scheduling constraints"
    assert driven.conditions() == [("False", "Unschedulable", f"{GROUP_FAILS}, {why}")]


def victims_in_a_group(driven: Preempting, mode: str, **fields: Any) -> list[PodInfo]:
    """Three pods of the group `v` run, two on the node `n` and one on `m`."""
    meta = ObjectMeta(name="v", namespace="default", uid="uid-of-v")
    driven.handle(ObjectSet("podgroups", PodGroup(meta, 1, disruption_mode=mode, **fields)))
    return [driven.runs(f"v{i}", node, group="v") for i, node in enumerate(("n", "n", "m"))]


def test_a_group_leaves_whole() -> None:
    """One place is needed; two of its three pods are of no use, and leave all the same."""
    driven = Preempting(2, nodes=("n", "m"))
    victims_in_a_group(driven, MODE_POD_GROUP)
    driven.group(least=2, priority=10)
    driven.members(2)

    driven.run()

    assert sorted(driven.evicted()) == ["v0", "v1"]
    driven.handle(ObjectGone("pods", "default", "v0", "v0"))
    driven.handle(ObjectGone("pods", "default", "v1", "v1"))
    driven.run()
    assert sorted(driven.evicted()) == ["v0", "v1", "v2"]


def test_pods_of_a_group_leave_one_by_one_where_it_lets_them() -> None:
    """Mode Pod: one of three is enough."""
    driven = Preempting(2, nodes=("n", "m"))
    victims_in_a_group(driven, "Pod")
    driven.group(least=2, priority=10)
    driven.members(2)

    driven.run()

    assert len(driven.evicted()) == 1


def test_a_single_pod_takes_a_group_whole() -> None:
    """All three leave for one pod, wherever they run."""
    driven = Preempting(2, nodes=("n", "m"))
    victims_in_a_group(driven, MODE_POD_GROUP)
    driven.runs("other", "m", priority=50)
    driven.add("important", priority=10)

    driven.run()

    first = driven.evicted()
    for name in first:
        driven.handle(ObjectGone("pods", "default", name, name))
    driven.run()
    assert sorted({*first, *driven.evicted()}) == ["v0", "v1", "v2"]


def test_a_single_pod_spares_a_more_important_group() -> None:
    """The group's own priority counts, not that of its pods."""
    driven = Preempting(2, nodes=("n", "m"))
    victims_in_a_group(driven, MODE_POD_GROUP, priority=20)
    driven.runs("other", "m", priority=5)
    driven.add("important", priority=10)

    driven.run()

    assert driven.evicted() == ["other"]


def test_victims_are_told_which_group_needs_their_room() -> None:
    """The event and the condition have upstream's words."""
    driven = Preempting(1)
    driven.runs("a")
    driven.group(least=1, priority=10)
    driven.members(1)
    driven.run()

    [evict] = driven.all(Evict)
    driven.handle(Evicted("a"))

    [event] = [each for each in driven.all(RecordEvent) if each.reason == "Preempted"]
    assert evict.condition is not None
    assert evict.condition.message == "test: preempting to accommodate a higher priority podgroup"
    assert event.note == "Preempted by podgroup uid-of-g on node cluster"
    assert event.related is not None
    assert (event.related.kind, event.related.name) == ("PodGroup", "g")
