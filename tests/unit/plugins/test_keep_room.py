"""KeepRoom: a big pod that has waited long gets a node for itself at last."""

from datetime import datetime
from typing import Any

import pytest

from scheduler.api.objects import OwnerReference
from scheduler.api.pods import PodInfo
from scheduler.config.args import DefaultPreemptionArgs, KeepRoomArgs, NodeResourcesFitArgs
from scheduler.kernel.engine.instructions import PatchStatus
from scheduler.kernel.plugins.default_preemption import BUDGETS, DefaultPreemption
from scheduler.kernel.plugins.keep_room import KeepRoom
from scheduler.kernel.plugins.node_resources_fit import NodeResourcesFit
from scheduler.kernel.preemption.estimate import NEVER, UNKNOWN, end_of
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.driven import DrivenEngine

START = "2026-01-01T00:00:00Z"


class Busy(DrivenEngine):
    """Nodes of three cores on which pods of one core run."""

    def __init__(self, *nodes: str, after_seconds: int | None = 60) -> None:
        keeping = [] if after_seconds is None else [self.keep_room(after_seconds)]
        super().__init__(
            lambda handle: NodeResourcesFit(NodeResourcesFitArgs(), handle),
            lambda handle: DefaultPreemption(DefaultPreemptionArgs(100, 100), handle),
            *keeping,
            nodes=tuple(make_node(name, allocatable={"cpu": "3"}) for name in nodes or "n"),
            kinds=(BUDGETS,),
        )

    @staticmethod
    def keep_room(after_seconds: int) -> Any:
        return lambda handle: KeepRoom(KeepRoomArgs(after_seconds), handle)

    def running(self, name: str, node: str = "n", **fields: Any) -> PodInfo:
        pod = make_pod_info(
            name, scheduler_name="test", node_name=node, requests={"cpu": "1"}, **fields
        )
        self.set(pod)
        return pod

    def nominated(self, pod: PodInfo) -> str:
        return self.engine.core.queue.nominator.nodes.get(pod.uid) or ""

    def replace(self, old: PodInfo, name: str) -> str:
        """A pod ends, and another one comes at once; gives where that one stands."""
        new = make_pod_info(name, scheduler_name="test", requests={"cpu": "1"})
        self.set(new)
        self.gone(old)
        self.tick(11.0)
        self.run()
        self.tick(11.0)
        return self.stage(new)


@pytest.mark.parametrize(("after", "stage"), [(None, "unschedulable"), (60, "binding")])
def test_small_pods_do_not_overtake_a_big_one_for_ever(after: int | None, stage: str) -> None:
    """They do without the plugin: one always comes when one ends."""
    busy = Busy(after_seconds=after)
    small = [busy.running(f"small-{i}") for i in range(3)]
    big = busy.add("big", requests={"cpu": "3"})
    busy.run()
    for i in range(12):
        busy.tick(11.0)
        busy.replace(small.pop(0), f"next-{i}")
        core = busy.engine.core
        known = core.cache.pods.get(f"default/next-{i}")
        if known is not None:
            busy.set(known)
            small.append(known)
        if not small:
            break
    busy.tick(11.0)
    busy.run()

    assert busy.stage(big).startswith(stage)


def test_the_node_is_that_on_which_it_can_start_first() -> None:
    """Known ends come before unknown ones, and the message says when."""
    busy = Busy("a", "b", after_seconds=0)
    for i in range(3):
        busy.running(f"a-{i}", "a")
        busy.running(f"b-{i}", "b", deletion_timestamp=f"2026-01-01T00:0{i}:00Z")
    big = busy.add("big", requests={"cpu": "2"})
    busy.run()
    [patch] = [p for p in busy.all(PatchStatus) if p.uid == big.uid]

    assert busy.nominated(big) == "b"
    assert patch.nominated_node_name == "b"
    assert patch.condition is not None
    assert patch.condition.message.endswith(
        ' room is kept on node "b", expected start 2026-01-01T00:01:00Z'
    )


def test_room_is_kept_for_one_pod_at_a_time() -> None:
    """For the one that has waited longest, until it has its place."""
    busy = Busy("a", "b", after_seconds=0)
    small = [busy.running(f"{node}-{i}", node) for node in "ab" for i in range(3)]
    first = busy.add("first", requests={"cpu": "3"})
    busy.run()
    second = busy.add("second", requests={"cpu": "2"})
    busy.run()
    before = (bool(busy.nominated(first)), busy.nominated(second))
    for pod in small:
        if pod.node_name == busy.nominated(first):
            busy.gone(pod)
    busy.tick(11.0)
    busy.run()
    busy.gone(next(pod for pod in small if busy.node_of(pod)))
    busy.tick(11.0)
    busy.run()

    assert before == (True, "")
    assert busy.stage(first).startswith("bind")
    assert busy.nominated(second)


def test_nothing_is_kept_where_nobody_ends() -> None:
    """DaemonSets stay for ever, so a node full of them is of no use."""
    owner = OwnerReference(kind="DaemonSet", name="d", uid="d", controller=True)
    busy = Busy(after_seconds=0)
    for i in range(3):
        busy.running(f"d-{i}", owner_references=(owner,))
    big = busy.add("big", requests={"cpu": "3"})
    busy.run()

    assert busy.nominated(big) == ""


def test_ends_are_known_by_deletion_and_deadline() -> None:
    """And not at all otherwise."""
    owner = OwnerReference(kind="DaemonSet", name="d", uid="d", controller=True)

    start = datetime.fromisoformat(START).timestamp()
    assert end_of(make_pod_info(deletion_timestamp=START), start) == start
    assert end_of(make_pod_info(owner_references=(owner,)), start) == NEVER
    assert end_of(make_pod_info(start_time=START), start) == UNKNOWN
    limited = make_pod_info(start_time=START, active_deadline_seconds=90)
    assert end_of(limited, start) == start + 90
