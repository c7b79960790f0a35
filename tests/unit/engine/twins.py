"""Two engines that are told the same: one schedules in batches, the other pod by pod."""

from collections.abc import Callable, Mapping
from typing import Any

from scheduler.api.pods import PodInfo
from scheduler.config.load import load_object
from scheduler.daemon.bootstrap import FrameworkBuilder, build_engine
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import Decide, Event, ObjectSet
from scheduler.kernel.engine.instructions import Bind, Instruction
from scheduler.kernel.engine.placing import Lookahead
from scheduler.kernel.framework.interface import Plugin
from scheduler.testing.validation import validate_engine
from tests.unit.engine.cluster import encoded

PROFILE = "stowage"


def configuration(plugins: Mapping[str, str] = {}, **fields: Any) -> Any:
    """One profile with the default plugins and others.

    Args:
        plugins: out-of-tree ones, each with its extension point.
        fields: of the profile.
    """
    enabled = {point: {"enabled": [{"name": name}]} for name, point in plugins.items()}
    return load_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": PROFILE, "plugins": enabled, **fields}],
        },
        out_of_tree={name: frozenset({point}) for name, point in plugins.items()},
    )


def build(
    config: Any, out_of_tree: Mapping[str, Callable[..., Plugin]] | None = None, **settings: int
) -> Engine:
    """An engine without nodes, the same for the same arguments."""
    builder = FrameworkBuilder(lambda: 0.0, out_of_tree=out_of_tree, **settings)
    return build_engine(config, builder, builder.build(config), seed=7)


class Twins:
    """An engine that schedules in batches, and one that schedules pod by pod.

    Attributes:
        batching: the first.
        single: the second; it keeps nothing of pod classes.
        now: what time it is.
    """

    def __init__(
        self, config: Any, out_of_tree: Mapping[str, Callable[..., Plugin]] | None = None
    ) -> None:
        self.batching = build(config, out_of_tree)
        self.single = build(config, out_of_tree, class_cache_bytes=0)
        self.now = 0.0

    def tell(self, event: Event) -> list[Instruction]:
        """Tell both; what they answer is equal, to the last byte."""
        told = list(self.batching.handle(event, self.now))
        assert encoded(told) == encoded(list(self.single.handle(event, self.now)))
        return told

    def add(self, *pods: PodInfo) -> None:
        """Pods come."""
        for pod in pods:
            self.tell(ObjectSet("pods", pod))

    def schedule(self, limit: int) -> list[Instruction]:
        """One step of the first, and as many of the second as it had pods."""
        told = list(self.batching.handle(Decide(limit), self.now))
        expected: list[Instruction] = []
        for _ in range(max(1, self.batching.scheduler.scheduled)):
            expected += self.single.handle(Decide(), self.now)
        assert encoded(told) == encoded(expected)
        validate_engine(self.batching)
        assert self.batching.has_ready == self.single.has_ready
        return told

    def run(self, limit: int) -> list[int]:
        """Schedule until nothing is ready; gives how many pods each step was about."""
        steps = []
        while self.batching.has_ready:
            self.schedule(limit)
            steps.append(self.batching.scheduler.scheduled)
        return steps

    def attempts(self, result: str) -> int:
        """The metric of batches: pods by what the answers for others did for them."""
        return int(self.batching.core.metrics.batch_attempts[PROFILE, result].value)

    def flushed(self, reason: str) -> int:
        """The metric of batches: batches by why they ended."""
        return int(self.batching.core.metrics.batch_cache_flushed[PROFILE, reason].value)


def nodes_of(told: list[Instruction]) -> list[str]:
    """Where pods are bound to, in order."""
    return [each.node for each in told if isinstance(each, Bind)]


class Counted:
    """Counts the pods that were foreseen in their class, of all engines.

    Attributes:
        count: how many.
    """

    def __init__(self) -> None:
        self.count = 0

    def counting(self) -> Callable[..., bool]:
        """What is to be put in the place of `Lookahead.place`."""
        original = Lookahead.place

        def place(*args: Any) -> bool:
            is_foreseen = original(*args)
            self.count += is_foreseen
            return is_foreseen

        return place
