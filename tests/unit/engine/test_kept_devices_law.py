"""The law of kept devices: they are for something that waits, and go to nothing else meanwhile.

As in the law of kept room, pods and gangs come and go in any order. They have claims here, devices
go and come, and the controller that frees claims may be slow. Each second is looked at.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Final

from hypothesis import given, settings, strategies as st
from hypothesis.stateful import initialize, precondition, rule
from typing_extensions import override

from scheduler.kernel.preemption.kept_room import RoomReservation
from tests.unit.engine.device_cluster import Device, DeviceCluster, claims_of
from tests.unit.engine.test_kept_room import SLACK, arrivals_within
from tests.unit.engine.test_kept_room_law import AFTER, GANGS, NODES, KeptRoomMachine

WOKEN_SECONDS: Final = 13
"""The longest back-off, and ticks: no pod that fits waits longer."""
REVIEWED_SECONDS: Final = 35
"""What is kept and is gone is given up within these."""


class KeptDevicesMachine(KeptRoomMachine):
    """What can happen while room and devices are kept."""

    cluster: DeviceCluster  # type: ignore[mutable-override] # it is made here

    @initialize(
        places=st.lists(st.integers(1, 3), min_size=len(NODES), max_size=len(NODES)),
        devices=st.lists(st.integers(0, 3), min_size=len(NODES), max_size=len(NODES)),
    )
    @override
    def start(self, places: list[int], devices: Sequence[int] = ()) -> None:
        self.cluster = cluster = DeviceCluster(*places, devices=tuple(devices), after=AFTER)
        self.dropped: list[str] = []
        self.fitting: Counter[str] = Counter()
        self.lacking: Counter[str] = Counter()
        self.before: tuple[set[str], RoomReservation | None] = set(), None
        for seconds in (40, 40, None, 10, None, 40)[: sum(places)]:
            cluster.run(seconds, devices=1)
        cluster.pass_seconds()
        cluster.start_gang("a", 2, devices=1)

    @rule(
        seconds=st.sampled_from((2, 10, 40, None)),
        count=st.sampled_from((1, 1, 2, 3)),
        times=st.integers(1, 3),
        priority=st.sampled_from((0, 0, 0, 5)),
        states=st.sampled_from((True, True, False)),
    )
    def add_claiming_pods(
        self, seconds: int | None, count: int, times: int, priority: int, *, states: bool
    ) -> None:
        for _ in range(times):
            self.cluster.run(seconds, states=states, devices=count, priority=priority)
        self.pass_time(2)

    @rule(
        name=st.sampled_from(GANGS),
        min_count=st.sampled_from((2, 2, 3, 4)),
        more=st.sampled_from((0, 0, 1)),
        count=st.sampled_from((1, 1, 2)),
        priority=st.sampled_from((0, 0, 5)),
    )
    def start_claiming_gang(
        self, name: str, min_count: int, more: int, count: int, priority: int
    ) -> None:
        if name not in self.cluster.groups:
            total = min_count + more
            self.cluster.start_gang(name, total, min_count, priority=priority, devices=count)
            self.pass_time(3)

    @rule(node=st.sampled_from(NODES), count=st.integers(0, 3))
    def set_devices(self, node: str, count: int) -> None:
        self.cluster.set_devices(node, count)
        self.pass_time(1)

    @rule(data=st.data())
    def drop_claim(self, data: st.DataObject) -> None:
        """Of a pod that waits: its finalizer keeps one that is allocated."""
        claims = self.cluster.claims
        free = sorted(name for name, each in claims.items() if each.status.allocation is None)
        if free:
            self.dropped.append(data.draw(st.sampled_from(free)))
            self.cluster.drop(self.dropped[-1])
            self.pass_time(1)

    @rule()
    def make_claims(self) -> None:
        """Those that were deleted come again."""
        cluster = self.cluster
        for name in self.dropped:
            if any(uid in cluster.pods for uid in cluster.owners.get(name, ())):
                cluster.make(name)
        self.dropped.clear()

    @rule()
    def stall(self) -> None:
        """The controller of claims stops, or goes on."""
        self.cluster.is_stalled = not self.cluster.is_stalled

    @precondition(lambda self: self.cluster.room is not None)
    @rule(count=st.integers(0, 2))
    def backfill(self, count: int) -> None:
        """A pod comes that ends soon."""
        self.cluster.run(2, devices=count)
        self.pass_time(2)

    @override
    def check(self) -> None:
        super().check()
        cluster = self.cluster
        room, kept = cluster.room, cluster.kept()
        held = cluster.held()
        assert len(held) == len(set(held)), "a device is in two claims"
        assert not kept or (room is not None and kept.keys() <= room.places.keys())
        assert all(uid in cluster.pods and not cluster.pods[uid].node_name for uid in kept)
        for uid in cluster.nominated:
            assert cluster.claims.keys() >= {*claims_of(cluster.pods[uid])}, "it must not run"
        self._check_that_others_leave_it_free()
        self._check_that_all_kept_is_there(kept)
        self._check_that_what_fits_runs()

    def _check_that_others_leave_it_free(self) -> None:
        """What is kept as a second ago went to no pod that need care."""
        cluster, running, kept = self.cluster, self.cluster.running(), self.cluster.kept()
        before, room = self.before
        if room is not None and room is cluster.room:
            for uid in running - before:
                taken = {*cluster.held_by(uid)} & {*chain.from_iterable(kept.values())}
                assert not taken or cluster.may_use(cluster.pods[uid], room, 0), "it was kept"
        self.before = running, cluster.room

    def _check_that_all_kept_is_there(self, kept: dict[str, list[Device]]) -> None:
        cluster = self.cluster
        published = {
            (n, f"d{each}") for n, count in cluster.devices.items() for each in range(count)
        }
        lacking = {uid for uid, devices in kept.items() if not published.issuperset(devices)}
        self.lacking = Counter({uid: self.lacking[uid] + 1 for uid in lacking})
        assert max(self.lacking.values(), default=0) <= REVIEWED_SECONDS, "kept for nothing"

    def _check_that_what_fits_runs(self) -> None:
        cluster = self.cluster
        waiting = [p for p in cluster.pods.values() if not p.node_name and not p.group_name]
        fitting = [
            pod.uid
            for pod in waiting
            if cluster.claims.keys() >= {*claims_of(pod)} and cluster.fits_now(pod)
        ]
        self.fitting = Counter({uid: self.fitting[uid] + 1 for uid in fitting})
        assert max(self.fitting.values(), default=0) <= WOKEN_SECONDS, "a pod that fits waits"

    @override
    def teardown(self) -> None:
        """All that runs ends in the end: what an empty cluster holds has its turn."""
        if not hasattr(self, "cluster"):
            return
        cluster = self.cluster
        self.make_claims()
        cluster.is_stalled = False
        starved = self._starved()
        for _ in range(len(cluster.needed()) + len(GANGS)):
            if not starved:
                break
            for pod in [pod for pod in cluster.pods.values() if pod.node_name]:
                cluster.end(pod.uid)
            self.pass_time(AFTER + SLACK)
            starved = self._starved()
        assert starved == []

    def _starved(self) -> list[str]:
        needed, starts = self.cluster.needed(), self.cluster.starts_alone
        return [name for name, needs in needed.items() if starts(name, needs)]


TestKeptDevicesLaw = KeptDevicesMachine.TestCase
TestKeptDevicesLaw.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, derandomize=True
)


LONGEST: Final = 12


@given(
    arrivals=arrivals_within(AFTER + LONGEST + SLACK, LONGEST, 2),
    size=st.integers(1, 3),
    is_gang=st.booleans(),
)
@settings(max_examples=8, deadline=None, derandomize=True)
def test_nothing_starves_for_devices_while_pods_come_that_say_when_they_end(
    arrivals: list[list[int]], size: int, *, is_gang: bool
) -> None:
    """A gang whose pods want one each, or a pod that wants as many, starts within the bound."""
    cluster = DeviceCluster(4, 4, devices=(3, 0), after=AFTER)
    for _ in range(3):
        cluster.run(LONGEST, devices=1)
    cluster.pass_seconds()
    wanted = {"devices": 1 if is_gang else size}
    cluster.start_gang("a", size if is_gang else 1, **wanted)
    for coming in arrivals:
        for seconds in coming:
            cluster.run(seconds, devices=1)
        cluster.pass_seconds()

    assert cluster.placed("a") == (size if is_gang else 1)
