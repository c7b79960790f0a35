"""The law of kept room: it is for something that waits, and keeps nothing from starting for ever.

Gangs and pods come and go, nodes change and engines are lost in any order. Each second is looked
at, and what has started once all that runs has ended.
"""

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from typing_extensions import override

from tests.unit.engine.test_kept_room import CONFIGURATION, SLACK, TimedCluster

AFTER = 5
"""Seconds until room is kept."""

GANGS = ("a", "b", "c")
NODES = ("n0", "n1", "n2")


class KeptRoomMachine(RuleBasedStateMachine):
    """What can happen while room is kept."""

    @initialize(places=st.lists(st.integers(1, 3), min_size=len(NODES), max_size=len(NODES)))
    def start(self, places: list[int]) -> None:
        self.cluster = cluster = TimedCluster(*places, configuration=CONFIGURATION % AFTER)
        for seconds in (40, 40, None, 10, None, 40)[: sum(places)]:
            cluster.run(seconds)
        cluster.pass_seconds()
        cluster.start_gang("a", 3)

    @rule(
        seconds=st.sampled_from((2, 10, 40, None)),
        count=st.integers(1, 4),
        states=st.sampled_from((True, True, False)),
    )
    def add_pods(self, seconds: int | None, count: int, *, states: bool) -> None:
        for _ in range(count):
            self.cluster.run(seconds, states=states)
        self.pass_time(2)

    @rule(
        name=st.sampled_from(GANGS),
        min_count=st.sampled_from((2, 3, 4, 5, 8)),
        more=st.sampled_from((0, 0, 1)),
        priority=st.sampled_from((0, 0, 5)),
        duration=st.sampled_from(("", "5s")),
    )
    def start_gang(
        self, name: str, min_count: int, more: int, priority: int, duration: str
    ) -> None:
        if name not in self.cluster.groups:
            self.cluster.start_gang(
                name, min_count + more, min_count, priority=priority, expected_duration=duration
            )
            self.pass_time(3)

    @rule(name=st.sampled_from(GANGS))
    def drop_gang(self, name: str) -> None:
        if name in self.cluster.groups:
            self.cluster.drop_gang(name)
            self.pass_time(1)

    @precondition(lambda self: self.cluster.pods)
    @rule(data=st.data())
    def end_pod(self, data: st.DataObject) -> None:
        self.cluster.end(data.draw(st.sampled_from(sorted(self.cluster.pods))))
        self.pass_time(2)

    @rule(name=st.sampled_from(NODES), places=st.integers(0, 4))
    def set_node(self, name: str, places: int) -> None:
        self.cluster.set_node(name, places)
        self.pass_time(1)

    @rule()
    def crash(self) -> None:
        self.cluster.restart(0)
        self.pass_time(1)

    @rule(seconds=st.sampled_from((3, AFTER, 2 * AFTER)))
    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.cluster.pass_seconds()
            self.check()

    def check(self) -> None:
        """What is kept is kept for something that waits, and is all that is nominated."""
        cluster, room = self.cluster, self.cluster.room
        if room is None:
            assert cluster.nominated == set()
            return
        waiting = {uid for uid in room.places if uid in cluster.pods}
        assert cluster.nominated <= waiting
        assert cluster.nominated or room.is_ending
        assert room.is_ending or not any(cluster.is_running(cluster.pods[uid]) for uid in waiting)

    @override
    def teardown(self) -> None:
        """All that runs ends in the end: each gang that an empty cluster holds has its turn."""
        cluster = self.cluster
        places = sum(cluster.nodes.values())
        for _ in range(len(GANGS) + 3):
            for pod in list(cluster.pods.values()):
                if pod.node_name:
                    cluster.end(pod.uid)
            cluster.pass_seconds(AFTER + SLACK)
            self.check()

        assert {name for name, needs in cluster.needed().items() if needs <= places} == set()


TestKeptRoomLaw = KeptRoomMachine.TestCase
TestKeptRoomLaw.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, derandomize=True
)
