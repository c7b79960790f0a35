"""Another scheduler at work on a busy cluster, as a server and two watches would tell of it."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from scheduler.answers.shadow import Shadow
from scheduler.api.objects import (
    Affinity,
    LabelSelector,
    PodAffinitySpec,
    PodAffinityTerm,
    PodCondition,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from scheduler.engine import Engine
from scheduler.engine.events import (
    BindFailed,
    Bound,
    Decide,
    Event,
    Evicted,
    ObjectGone,
    ObjectSet,
    PodRead,
    Tick,
)
from scheduler.engine.instructions import Bind, Evict, Instruction, PatchStatus, ReadPod
from scheduler.observability.instruments import Instruments
from scheduler.observability.shadow_metrics import ShadowMetrics
from scheduler.offline.cluster import Profiles
from tests.support.builders import HOSTNAME, ZONE, make_node, make_pod_info

THEIRS = "default-scheduler"
APPS = ("web", "db", "cache")


class Burst:
    """Pods come and go, a scheduler decides as we do, each request takes its time.

    What is decided counts for the scheduler at once; the server hears of it later, in any order.
    Both watches tell of what the server has, in the server's order, each a little late.

    Attributes:
        shadow: hears of all this, and decides nothing.
        wrong: the pods that were put where they should not be.
    """

    def __init__(
        self,
        seed: int,
        *,
        pods: int = 120,
        nodes: int = 12,
        cores: tuple[str, ...] = ("4", "8", "16"),
        seconds: float = 0.4,
        decision: float = 0.003,
        binding: float = 0.3,
        failing: float = 0.0,
        leaving: float = 0.2,
        misplaced: float = 0.0,
    ) -> None:
        """Prepare a cluster and what happens in it.

        Args:
            seed: of all that is drawn.
            pods: how many come.
            nodes: they come to.
            cores: of a node.
            seconds: in which pods come.
            decision: seconds that a decision takes, on average.
            binding: seconds that a request takes, at most.
            failing: the share of bindings that fail and are tried again.
            leaving: the share of pods that go soon after they were bound.
            misplaced: the share of bindings that go to any other node.
        """
        self._draw = draw = Random(seed)
        self._decision, self._binding = decision, binding
        self._failing, self._leaving, self._misplaced = failing, leaving, misplaced
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()
        self._now = 0.0
        self._pods: dict[str, dict[str, Any]] = {}
        self._heard = {True: 0.0, False: 0.0}
        self._theirs = Profiles(None).engine(seed)
        profiles = Profiles(None)
        profiles.frameworks = {THEIRS: profiles.frameworks[THEIRS]}
        self._own = profiles.engine(0)
        self.shadow = Shadow(
            self._own, ShadowMetrics(Instruments()), lambda t: f"t{t:.3f}", examples=1000
        )
        self.wrong: set[str] = set()
        self.bound = 0
        self._is_deciding = False
        self._nodes = [f"n{number:02}" for number in range(nodes)]
        for number, name in enumerate(self._nodes):
            node = make_node(name, zone=f"z{number % 3}", allocatable={"cpu": draw.choice(cores)})
            self._tell(ObjectSet("nodes", node))
        self.shadow.begin(0.0)
        for number in range(pods):
            self._at(1.0 + draw.random() * seconds, lambda name=f"p{number:03}": self._come(name))
        self._at(1.0, self._tick)
        self._end = 1.0 + seconds + 30.0

    def run(self) -> dict[str, int]:
        """Until all is over; what is thought of the bindings."""
        while self._due:
            self._now, _, do = heappop(self._due)
            do()
        while self.shadow.look_again(self._now + 60.0):
            pass
        summary = self.shadow.summary(self._now)
        assert summary.open == 0
        return {name: number for name, number in summary.results.items() if number}

    # --- time and watches -------------------------------------------------------------------------

    def _at(self, when: float, do: Callable[[], None]) -> None:
        heappush(self._due, (when, next(self._number), do))

    def _later(self, do: Callable[[], None]) -> None:
        """When a request has come to the server."""
        self._at(self._now + self._draw.random() ** 2 * self._binding, do)

    def _tick(self) -> None:
        self._handle(self._theirs, Tick())
        self._own.handle(Tick(), self._now)
        while self.shadow.look_again(self._now):
            pass
        if self._now < self._end:
            self._at(self._now + 1.0, self._tick)

    def _tell(self, event: Event) -> None:
        """Both watches tell of it, a little later."""
        for is_ours in (True, False):
            lag = self._now + self._draw.random() ** 3 * 0.02
            self._heard[is_ours] = when = max(self._heard[is_ours] + 1e-6, lag)
            self._at(when, lambda is_ours=is_ours: self._hear(event, is_ours=is_ours))

    def _hear(self, event: Event, *, is_ours: bool) -> None:
        if is_ours:
            self.shadow.note(event, self._now)
            self._own.handle(event, self._now)
        else:
            self._handle(self._theirs, event)

    # --- the server -------------------------------------------------------------------------------

    def _come(self, name: str) -> None:
        self._pods[name] = self._wishes()
        self._set(name)

    def _set(self, name: str, **fields: Any) -> None:
        if name in self._pods:
            self._pods[name].update(fields, resource_version=str(next(self._number)))
            self._tell(ObjectSet("pods", make_pod_info(name, **self._pods[name])))

    def _go(self, name: str) -> None:
        if name in self._pods:
            pod = make_pod_info(name, **self._pods.pop(name))
            self._tell(ObjectGone("pods", pod.namespace, pod.name, pod.uid))

    def _wishes(self) -> dict[str, Any]:
        draw, app = self._draw, self._draw.choice(APPS)
        selector = LabelSelector(match_labels={"app": app})
        spread, affinity = [], Affinity()
        if draw.random() < 0.4:
            unless = draw.choice(("DoNotSchedule", "ScheduleAnyway", "ScheduleAnyway"))
            key = draw.choice((ZONE, HOSTNAME))
            spread = [TopologySpreadConstraint(draw.choice((1, 2, 5)), key, unless, selector)]
        if draw.random() < 0.4:
            term = PodAffinityTerm(draw.choice((ZONE, HOSTNAME)), selector)
            weighted = WeightedPodAffinityTerm(draw.randint(1, 100), term)
            terms = PodAffinitySpec(
                preferred_during_scheduling_ignored_during_execution=(weighted,)
            )
            if draw.random() < 0.5:
                affinity = Affinity(pod_affinity=terms)
            else:
                affinity = Affinity(pod_anti_affinity=terms)
        return {
            "scheduler_name": THEIRS,
            "labels": {"app": app},
            "requests": {"cpu": draw.choice(("100m", "250m", "900m"))},
            "priority": draw.choice((0, 0, 0, 10, 1000)),
            "topology_spread_constraints": spread,
            "affinity": affinity,
        }

    # --- the other scheduler ----------------------------------------------------------------------

    def _handle(self, engine: Engine, event: Event) -> None:
        for instruction in engine.handle(event, self._now):
            self._carry_out(instruction)
        if engine.has_ready and not self._is_deciding:
            self._is_deciding = True
            self._at(self._now + self._draw.expovariate(1 / self._decision), self._decide)

    def _decide(self) -> None:
        self._is_deciding = False
        self._handle(self._theirs, Decide())

    def _carry_out(self, told: Instruction) -> None:
        if isinstance(told, Bind):
            self._later(lambda: self._bind(told))
        elif isinstance(told, PatchStatus):
            self._later(lambda: self._patch(told))
        elif isinstance(told, Evict):
            self._later(lambda: self._evict(told))
        elif isinstance(told, ReadPod):
            read = self._pods.get(told.name)
            pod = None if read is None else make_pod_info(told.name, **read)
            self._later(lambda: self._handle(self._theirs, PodRead(told.attempt, pod)))

    def _bind(self, bind: Bind) -> None:
        if bind.name not in self._pods or self._draw.random() < self._failing:
            self._handle(self._theirs, BindFailed(bind.attempt, "no"))
            return
        node = bind.node
        if self._draw.random() < self._misplaced:
            node = self._draw.choice([each for each in self._nodes if each != node])
            self.wrong.add(f"default/{bind.name}")
        self.bound += 1
        self._set(bind.name, node_name=node)
        self._handle(self._theirs, Bound(bind.attempt))
        if self._draw.random() < self._leaving:
            self._at(self._now + self._draw.random() * 2, lambda: self._go(bind.name))

    def _patch(self, patch: PatchStatus) -> None:
        fields: dict[str, Any] = {}
        if patch.condition is not None:
            told = patch.condition
            fields["conditions"] = (
                PodCondition(told.type, told.status, told.reason, told.message),
            )
        if patch.nominated_node_name is not None:
            fields["nominated_node_name"] = patch.nominated_node_name
        self._set(patch.name, **fields)

    def _evict(self, evict: Evict) -> None:
        was_there = evict.name in self._pods
        self._go(evict.name)
        self._handle(self._theirs, Evicted(evict.uid, was_there=was_there))
