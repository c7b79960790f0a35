"""The law of preemption for groups: no pod leaves in vain, and no group leaves by half.

Random clusters are decided upon step by step. Each group asks for places only, so what fits is
counted.
"""

from random import Random

from typing_extensions import override

from scheduler.api.objects import ObjectMeta
from scheduler.api.pod_groups import MODE_POD, MODE_POD_GROUP, PodGroup
from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.events import Decide, Event, ObjectSet, Tick
from scheduler.kernel.engine.instructions import Evict, LogError
from scheduler.testing.validation import validate_engine
from tests.support.builders import make_node
from tests.unit.engine.answered import AnsweredCluster

GATES = ("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption")
HISTORIES = 15
STEPS = 12


class Watched(AnsweredCluster):
    """Victims are gone once a decision has ended: what it chose is seen as a whole."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, GATES)
        self.random = Random(seed)
        self.places = {f"n{i}": self.random.randint(1, 4) for i in range(self.random.randint(1, 4))}
        for name, places in self.places.items():
            self.handle(ObjectSet("nodes", make_node(name, allocatable={"cpu": str(places)})))
        self.groups: dict[str, PodGroup] = {}
        self.preemptors: set[str] = set()
        self.preempted = self.whole = 0

    @override
    def handle(self, event: Event) -> None:
        for told in self.engine.handle(event, self.now):
            assert not isinstance(told, LogError), told
            if isinstance(told, Evict):
                self.preemptors.add(told.preemptor)
            self.carry_out(told)

    def add_group(self, number: int) -> None:
        """A group comes with its pods."""
        name, count = f"g{number}", self.random.randint(1, 4)
        group = PodGroup(
            ObjectMeta(name=name, namespace="default", uid=f"group-{name}"),
            self.random.choice((None, count, count, max(1, count - 1))),
            disruption_mode=self.random.choice((MODE_POD, MODE_POD_GROUP, MODE_POD_GROUP)),
            priority=self.random.choice((None, 0, 1, 5, 10)),
        )
        self.groups[name] = group
        self.handle(ObjectSet("podgroups", group))
        for i in range(count):
            self.add(
                f"{name}-{i}",
                group=name,
                requests={"cpu": "1"},
                priority=self.random.choice((0, 5)),
            )

    def add_pod(self, number: int) -> None:
        """A single pod comes."""
        priority = self.random.choice((-1, 0, 1, 5, 10))
        self.add(f"s{number}", requests={"cpu": "1"}, priority=priority)

    def free(self) -> int:
        """How many places are left."""
        return sum(self.places.values()) - sum(bool(pod.node_name) for pod in self.pods.values())

    def lacks(self, group: PodGroup) -> int:
        """How many places a group needs before it runs."""
        placed = sum(pod.group_name == group.name and bool(pod.node_name) for pod in self.all_pods)
        return max(1, (group.min_count or 1) - placed)

    @property
    def all_pods(self) -> list[PodInfo]:
        return list(self.pods.values())

    def decide(self) -> None:
        """One decision; whatever leaves for it does so at once, and the law is checked."""
        before = dict(self.pods)
        self.handle(Decide())
        gone = [pod for uid, pod in before.items() if uid not in self.pods]
        for name, group in self.groups.items():
            left = [pod.name for pod in gone if pod.group_name == name]
            stayed = [pod.name for pod in self.all_pods if pod.group_name == name and pod.node_name]
            if left and group.disruption_mode == MODE_POD_GROUP:
                assert stayed == [], f"{left} left and {stayed} did not"
        for group in self.groups.values():
            if group.uid in self.preemptors:
                assert self.free() >= self.lacks(group), f"in vain for {group.name}"
        self.preempted += bool(self.preemptors)
        self.whole += any(
            self.groups[pod.group_name].disruption_mode == MODE_POD_GROUP
            for pod in gone
            if pod.group_name
        )
        self.preemptors.clear()


def test_no_pod_leaves_in_vain_and_no_group_by_half() -> None:
    """Gangs and single pods of all priorities come; all is decided; time passes."""
    preempted = whole = 0
    for seed in range(HISTORIES):
        cluster = Watched(seed)
        for number in range(STEPS):
            if cluster.random.random() < 0.6:
                cluster.add_group(number)
            else:
                cluster.add_pod(number)
            while cluster.engine.has_ready:
                cluster.decide()
            for _ in range(cluster.random.choice((0, 1, 12))):
                cluster.now += 1.0
                cluster.handle(Tick())
                while cluster.engine.has_ready:
                    cluster.decide()
        validate_engine(cluster.engine)
        preempted += cluster.preempted
        whole += cluster.whole

    assert preempted > HISTORIES
    assert whole > 0
