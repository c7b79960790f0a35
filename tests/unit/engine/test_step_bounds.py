"""A step does no more than it may, whatever a group is like: others have their turns between them.

What takes long is counted, while a group whose members differ is tried in racks, is given its place
and is bound. A real step has room for more.
"""

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.api.objects import ObjectMeta
from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.events import Decide, ObjectSet
from scheduler.kernel.engine.group_members import LOOKED
from scheduler.kernel.engine.group_trial import GroupTrial
from scheduler.kernel.framework.placements import Placements
from scheduler.kernel.framework.runtime import Feasibility, Framework
from scheduler.kernel.framework.runtime.filtering import Filtering
from scheduler.testing.validation import validate_engine
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.test_kept_room import TimedCluster
from tests.unit.engine.test_pod_group_placements import RACK, Racks

RESOURCES = ("cpu", "memory", "a.b/c", "a.b/d", "a.b/e")
UNITS = 5 * LOOKED


def calls_by_step(
    patch: pytest.MonkeyPatch, of: type, name: str, members: int, demands: int = 1
) -> list[int]:
    """How often a method is called in each step of a gang's attempt. Both racks hold the gang."""
    racks = Racks()
    room = dict.fromkeys((*RESOURCES, "pods"), 10**6)
    for rack in ("a", "b"):
        node = make_node(rack, labels={RACK: rack}, allocatable=room)
        racks.handle(ObjectSet("nodes", node))
    meta = ObjectMeta(name="g", namespace="default", uid="group-g")
    racks.handle(ObjectSet("podgroups", PodGroup(meta, members, RACK)))
    for i in range(members):
        requests = dict.fromkeys(RESOURCES[:demands], 1 + i)
        pod = make_pod_info(f"g-{i}", group="g", requests=requests, scheduler_name="s")
        racks.handle(ObjectSet("pods", pod))
    original: Callable[..., object] = getattr(of, name)
    calls = [0]

    def counted(*args: Any, **kwargs: Any) -> object:
        calls[-1] += 1
        return original(*args, **kwargs)

    patch.setattr(of, name, counted)
    racks.engine.scheduler.group_cycle.step.units = UNITS
    while racks.engine.has_ready:
        racks.handle(Decide())
        calls.append(0)
    validate_engine(racks.engine)
    assert (racks.bound("g"), len(racks.racks("g"))) == (members, 1)
    return calls


@pytest.mark.parametrize(("demands", "most"), [(1, 3), (5, 1)])
def test_few_nodes_are_looked_for(monkeypatch: pytest.MonkeyPatch, demands: int, most: int) -> None:
    """The fewer, the more a pod demands."""
    members = 12

    first, *others = calls_by_step(monkeypatch, Filtering, "find_nodes_that_fit", members, demands)

    # Two are enough to see that members differ.
    assert first <= most + 2
    assert max(others) == most
    # What holds each at all; then one rack, the other one, and for good.
    assert sum(others) >= 3 * members


def test_one_of_equal_members_that_fit_nowhere_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many there are."""
    looks: list[str] = []
    original = Filtering.find_nodes_that_fit

    def counted(self: Filtering, pod: PodInfo, *args: Any, **kwargs: Any) -> Feasibility:
        looks.append(pod.name)
        return original(self, pod, *args, **kwargs)

    monkeypatch.setattr(Filtering, "find_nodes_that_fit", counted)
    racks = Racks("a", gates=("GenericWorkload", "GangScheduling"))

    racks.gang("g", 50, cpu="8")
    racks.run()

    assert racks.condition()[0] == "Unschedulable"
    assert len(looks) <= 2


def test_the_room_of_few_kinds_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As each kind takes a sum over all nodes."""
    members = 12

    sums = calls_by_step(monkeypatch, Placements, "sums", members)

    assert sum(sums) >= members
    assert max(sums) <= 10


def test_few_places_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a rack that was tried."""
    members = 100

    unreserved = calls_by_step(monkeypatch, Framework, "run_unreserve_plugins", members)

    assert sum(unreserved) == 2 * members
    assert max(unreserved) <= 64


def test_the_ends_of_pods_are_read_on_few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each unit, while room is looked for that is to be kept for a gang."""
    nodes, read = 40, [0]
    original = GroupTrial.read

    def counted(self: GroupTrial, pods: int) -> None:
        read[-1] += 1
        original(self, pods)

    monkeypatch.setattr(GroupTrial, "read", counted)
    cluster = TimedCluster(*[1] * nodes)
    for _ in range(nodes):
        cluster.run(900)
    cluster.pass_seconds(2)
    cluster.start_gang("a", nodes)
    cluster.engine.scheduler.group_cycle.step.units = 10
    while sum(read) < nodes:
        cluster.pass_until_ready()
        cluster.handle(Decide())
        read.append(0)

    assert max(read) == 10
