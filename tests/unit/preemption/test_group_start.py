"""The search for room for a gang: which pods have to end, and in how short steps that is found."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from scheduler.api.devices import AllocationResult
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.status import SUCCESS, Status, unschedulable
from scheduler.kernel.framework.steps import Steps, Walk, finished
from scheduler.kernel.preemption.group_start import GroupStart, soonest_group_start
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.snapshot.changes import NodeSet
from tests.support.builders import make_node, make_node_info, make_pod_info

HOUR = 3600.0
MEMBERS = [make_pod_info(f"gang-{number}", group="gang") for number in range(3)]


class Places:
    """Each node has one place for each pod that runs there; a member needs one."""

    def __init__(self) -> None:
        self.gone: dict[str, PodInfo] = {}
        self.places: Mapping[str, str] = {}
        self.devices: Mapping[str, Sequence[AllocationResult]] = {}
        self.reads: list[int] = []

    @property
    def looks(self) -> int:
        return len(MEMBERS)

    def read(self, pods: int) -> None:
        self.reads.append(pods)

    def remove(self, pods: Sequence[PodInfo]) -> None:
        self.gone |= {pod.uid: pod for pod in pods}

    def add(self, pods: Sequence[PodInfo]) -> None:
        for pod in pods:
            del self.gone[pod.uid]

    def run(self) -> Steps[Status]:
        yield
        if len(self.gone) < len(MEMBERS):
            return unschedulable()
        left = self.gone.values()
        self.places = {m.uid: p.node_name for m, p in zip(MEMBERS, left, strict=False)}
        return SUCCESS


def snapshot_of(pods: Mapping[str, Sequence[PodInfo]]) -> Snapshot:
    """Nodes with the pods that run there."""
    snapshot = Snapshot()
    nodes = [make_node(name) for name in pods]
    snapshot.update(NodeSet(make_node_info(node, pods[node.metadata.name]), node) for node in nodes)
    return snapshot


def running(node: str, *hours: int | None) -> list[PodInfo]:
    """Pods of a node that end at an hour of the first of January 1970, or say nothing."""
    return [
        make_pod_info(
            f"{node}-{number}",
            node_name=node,
            start_time="1970-01-01T00:00:00Z",
            expected_end="" if hour is None else f"1970-01-01T{hour:02}:00:00Z",
        )
        for number, hour in enumerate(hours)
    ]


def test_the_pods_that_end_first_have_to_end() -> None:
    """As many as there are members; those whose end is not known come last."""
    world = Places()
    snapshot = snapshot_of({"a": running("a", 9, None), "b": running("b", 2, 5, 7)})

    found = finished(soonest_group_start(MEMBERS, snapshot, world, 0.0, None))

    assert found == GroupStart({m.uid: "b" for m in MEMBERS}, 7 * HOUR, 0)


def test_the_gang_itself_does_not_end_for_its_room() -> None:
    """Of five pods two are members that run."""
    world = Places()
    mine = [make_pod_info(f"m-{n}", group="gang", node_name="a") for n in range(2)]
    snapshot = snapshot_of({"a": [*mine, *running("a", 1)], "b": running("b", None, None)})

    found = finished(soonest_group_start(MEMBERS, snapshot, world, 0.0, None))

    assert found is not None
    assert (found.time, found.unknown) == (0.0, 2)


def test_ends_are_read_node_by_node_as_pods_were_at_the_beginning() -> None:
    """Each node counts for its step. What comes and goes between the steps changes nothing."""
    pods = {f"n{n}": running(f"n{n}", *range(n % 3, 20, 4)) for n in range(40)}
    world, snapshot = Places(), snapshot_of(pods)
    whole = finished(soonest_group_start(MEMBERS, snapshot, Places(), 0.0, None))

    walk, reads = Walk(soonest_group_start(MEMBERS, snapshot, world, 0.0, None)), [0]
    for _ in walk:
        reads.append(len(world.reads))
        for row in snapshot.table.live_rows().tolist():
            snapshot.info(row).pods.clear()

    assert max(after - before for before, after in pairwise(reads)) == 1
    assert world.reads == [len(each) for each in pods.values()]
    assert walk.answer == whole is not None
