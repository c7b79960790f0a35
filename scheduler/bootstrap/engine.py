"""What decides, put together from a configuration: plugins, cache, queue and cycles.

Source: kubernetes pkg/scheduler/scheduler.go (New), pkg/scheduler/profile v1.36.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from random import Random
from typing import Any, Final

import msgspec

from scheduler.cache import Cache
from scheduler.clock import Clock
from scheduler.config.expansion import expand
from scheduler.config.types import (
    ExtensionPoint,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
)
from scheduler.cycle.algorithm import SchedulingAlgorithm
from scheduler.cycle.binding_cycle import BindingCycles
from scheduler.cycle.engine import Engine
from scheduler.cycle.failure import FailureHandler
from scheduler.cycle.recorder import CycleRecorder
from scheduler.cycle.scheduling_cycle import Scheduler
from scheduler.cycle.status_writer import StatusWriter
from scheduler.errors import SchedulerError
from scheduler.framework.events import ClusterEventWithHint
from scheduler.framework.interface import Plugin
from scheduler.framework.runtime import Framework, PluginObserver, PluginSet, WaitingPods
from scheduler.framework.runtime.framework import DEFAULT_CLASS_CACHE_BYTES
from scheduler.framework.runtime.plugin_set import extension_points
from scheduler.plugins.default_binder import Binder, DefaultBinder
from scheduler.plugins.default_selector import Workloads
from scheduler.plugins.pod_topology_spread import PodTopologySpread
from scheduler.plugins.registry import IN_TREE
from scheduler.queue import (
    BackoffSettings,
    QueueProfile,
    QueueRecorder,
    QueueSettings,
    SchedulingQueue,
    events_of,
)
from scheduler.snapshot import Snapshot

ENTRY_POINT_GROUP: Final = "stowage.plugins"
"""Where installed packages announce out-of-tree plugins: plugin name -> class."""


class PluginLoadError(SchedulerError):
    """An out-of-tree plugin that cannot be imported or built."""


def out_of_tree_plugins() -> dict[str, type[Plugin]]:
    """The plugin classes that installed packages announce, by name.

    Raises:
        PluginLoadError: a plugin cannot be imported.
    """
    found: dict[str, type[Plugin]] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        try:
            found[entry.name] = entry.load()
        except Exception as problem:
            raise PluginLoadError(
                f'plugin "{entry.name}" ({entry.value}) cannot be imported: '
                f"{type(problem).__name__}: {problem}"
            ) from problem
    return found


def implemented_plugins(
    out_of_tree: Mapping[str, type[Plugin]],
) -> dict[str, frozenset[ExtensionPoint]]:
    """The extension points of every plugin that exists here, by name."""
    in_tree: tuple[type[Plugin], ...] = (*IN_TREE, PodTopologySpread, DefaultBinder)
    classes = {cls.NAME: cls for cls in in_tree} | dict(out_of_tree)
    return {
        name: frozenset(ExtensionPoint(point) for point in extension_points(cls))
        for name, cls in classes.items()
    }


class FrameworkBuilder:
    """Makes the frameworks of all profiles of a configuration.

    Attributes:
        workloads: selectors of Services and controllers, for default spread constraints.
    """

    def __init__(
        self,
        binder: Binder,
        now: Callable[[], float],
        *,
        observer: Callable[[str], PluginObserver] | None = None,
        out_of_tree: Mapping[str, type[Plugin]] | None = None,
        class_cache_bytes: int = DEFAULT_CLASS_CACHE_BYTES,
    ) -> None:
        self.workloads = Workloads()
        self._binder = binder
        self._now = now
        self._observer = observer
        self._out_of_tree = out_of_tree or {}
        self._class_cache_bytes = class_cache_bytes

    def build(self, config: KubeSchedulerConfiguration) -> dict[str, Framework]:
        """The framework of each profile, by scheduler name.

        Raises:
            ConfigError: a profile cannot be expanded.
            PluginSetError: a profile lacks a plugin it cannot do without.
            PluginLoadError: an out-of-tree plugin cannot be built.
        """
        implements = implemented_plugins(self._out_of_tree)
        return {
            profile.scheduler_name: self._framework(profile, expand(profile, implements))
            for profile in config.profiles
        }

    def _framework(
        self,
        profile: KubeSchedulerProfile,
        enabled: Mapping[ExtensionPoint, tuple[tuple[str, int], ...]],
    ) -> Framework:
        plugins = PluginSet(
            enabled,
            lambda name: self._plugin(name, profile),
            trusted=frozenset(implemented_plugins({})) - set(self._out_of_tree),
        )
        return Framework(
            profile.scheduler_name,
            plugins,
            now=self._now,
            observer=None if self._observer is None else self._observer(profile.scheduler_name),
            percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
            class_cache_bytes=self._class_cache_bytes,
        )

    def _plugin(self, name: str, profile: KubeSchedulerProfile) -> Plugin:
        if name in self._out_of_tree:
            return self._out_of_tree_plugin(name, profile)
        if name == DefaultBinder.NAME:
            return DefaultBinder(self._binder)
        if name == PodTopologySpread.NAME:
            return PodTopologySpread(profile.args(PodTopologySpread.ARGS), self.workloads)
        in_tree: Any = next(cls for cls in IN_TREE if name == cls.NAME)
        args_type = getattr(in_tree, "ARGS", None)
        plugin: Plugin = in_tree() if args_type is None else in_tree(profile.args(args_type))
        return plugin

    def _out_of_tree_plugin(self, name: str, profile: KubeSchedulerProfile) -> Plugin:
        """An out-of-tree plugin gets its arguments as its ARGS type, or as they were written."""
        cls: Any = self._out_of_tree[name]
        raw = profile.raw_args(name)
        args_type = getattr(cls, "ARGS", None)
        try:
            if args_type is not None:
                args = msgspec.convert(raw or {}, args_type)
                plugin: Plugin = cls(args)
            else:
                plugin = cls() if raw is None else cls(raw)
        except Exception as problem:
            raise PluginLoadError(
                f'profile "{profile.scheduler_name}": plugin "{name}" cannot be built: '
                f"{type(problem).__name__}: {problem}"
            ) from problem
        return plugin


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
) -> Core:
    """Put cache, queue and cycles together."""
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
        first.plugins.queue_sort.sort_key,
        {
            name: QueueProfile(
                _events(f),
                {plugin.NAME: plugin.pre_enqueue for plugin in f.plugins.pre_enqueue},
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


def _events(framework: Framework) -> dict[str, tuple[ClusterEventWithHint, ...]]:
    """What each plugin that can reject pods wants to be woken by.

    Hints of out-of-tree plugins are asked for every pod, whatever they declare: an author who has
    not read about `reads_pod_shape_only` must not get another pod's answer.
    """
    events = events_of(_rejecting(framework))
    for name, wanted in events.items():
        if not _is_in_tree(framework.plugins.by_name[name]):
            events[name] = tuple(
                msgspec.structs.replace(event, reads_pod_shape_only=False) for event in wanted
            )
    return events


def _is_in_tree(plugin: Plugin) -> bool:
    return type(plugin).__module__.startswith("scheduler.plugins.")


def _rejecting(framework: Framework) -> Iterable[Plugin]:
    """The plugins that can reject pods; the others need no events."""
    plugins = framework.plugins
    points = (
        plugins.pre_enqueue,
        plugins.pre_filter,
        plugins.filter,
        plugins.reserve,
        plugins.permit,
    )
    names = dict.fromkeys(plugin.NAME for point in points for plugin in point)
    return [plugins.by_name[name] for name in names]
