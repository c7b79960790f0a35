"""What decides, put together from a configuration: plugins, cache, queue and cycles.

Source: kubernetes pkg/scheduler/scheduler.go (New), pkg/scheduler/profile v1.36.
"""

from collections.abc import Callable, Mapping
from random import Random

import msgspec

from scheduler.cache import Cache
from scheduler.clock import Clock
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.cycle.algorithm import SchedulingAlgorithm
from scheduler.cycle.binding_cycle import BindingCycles
from scheduler.cycle.engine import Engine
from scheduler.cycle.failure import FailureHandler
from scheduler.cycle.recorder import CycleRecorder
from scheduler.cycle.scheduling_cycle import Scheduler
from scheduler.cycle.status_writer import StatusWriter
from scheduler.framework.handle import Backing
from scheduler.framework.runtime import Framework, WaitingPods
from scheduler.queue import (
    BackoffSettings,
    QueueProfile,
    QueueRecorder,
    QueueSettings,
    SchedulingQueue,
)
from scheduler.snapshot import Snapshot


class Recorders(msgspec.Struct, frozen=True):
    """Who listens to the rooms."""

    cycle: CycleRecorder
    queue: QueueRecorder


class Surroundings(msgspec.Struct, frozen=True):
    """What the engine gets from outside.

    Attributes:
        clock: the time.
        random: breaks ties.
        writer: tells the API server what came of attempts.
        recorders: metrics.
        on_ready: called when the queue may have a pod.
        max_in_unschedulable_seconds: after this time a rejected pod is tried again anyway.
    """

    clock: Clock
    random: Random
    writer: StatusWriter
    recorders: Recorders
    on_ready: Callable[[], None]
    max_in_unschedulable_seconds: float = 300.0


class Core(msgspec.Struct, frozen=True):
    """Everything that decides, without any I/O of its own.

    Attributes:
        engine: the shared state.
        scheduler: runs scheduling cycles.
        binding: runs binding cycles.
        algorithm: chooses nodes.
    """

    engine: Engine
    scheduler: Scheduler
    binding: BindingCycles
    algorithm: SchedulingAlgorithm


def build_core(
    config: KubeSchedulerConfiguration,
    frameworks: Mapping[str, Framework],
    outside: Surroundings,
    backing: Backing,
) -> Core:
    """Put cache, queue and cycles together, and behind the handles of the plugins."""
    now = outside.clock.monotonic
    engine = Engine(
        frameworks=frameworks,
        cache=Cache(now),
        snapshot=Snapshot(),
        queue=build_queue(
            config,
            frameworks,
            clock=outside.clock,
            recorder=outside.recorders.queue,
            on_ready=outside.on_ready,
            max_in_unschedulable_seconds=outside.max_in_unschedulable_seconds,
        ),
        waiting=WaitingPods(),
        writer=outside.writer,
        recorder=outside.recorders.cycle,
        now=now,
    )
    backing.snapshot, backing.random = engine.snapshot, outside.random
    backing.nominator, backing.waiting = engine.queue.nominator, engine.waiting
    backing.activate = engine.queue.activate
    algorithm = SchedulingAlgorithm(outside.random, config.percentage_of_nodes_to_score)
    failures = FailureHandler(engine)
    binding = BindingCycles(engine, failures, on_room=outside.on_ready)
    scheduler = Scheduler(engine, algorithm, binding, failures, outside.random)
    return Core(engine, scheduler, binding, algorithm)


def build_queue(
    config: KubeSchedulerConfiguration,
    frameworks: Mapping[str, Framework],
    *,
    clock: Clock,
    recorder: QueueRecorder | None = None,
    on_ready: Callable[[], None] = lambda: None,
    max_in_unschedulable_seconds: float = 300.0,
) -> SchedulingQueue:
    """The queue of a configuration; all profiles sort alike, as validation demands."""
    first = next(iter(frameworks.values()))
    return SchedulingQueue(
        first.sort_key,
        {
            name: QueueProfile(
                f.events_to_register(), f.run_pre_enqueue_plugins, f.run_queueing_hint
            )
            for name, f in frameworks.items()
        },
        clock,
        on_ready=on_ready,
        settings=QueueSettings(
            BackoffSettings(config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds),
            max_in_unschedulable_seconds,
        ),
        recorder=recorder,
    )
