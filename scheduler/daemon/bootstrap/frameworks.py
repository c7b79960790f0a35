"""The plugins of every profile of a configuration, built from one registry.

Source: kubernetes pkg/scheduler/profile, pkg/scheduler/framework/runtime (NewFramework) v1.36.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final

import msgspec

from scheduler.config.expansion import Expansion, expand
from scheduler.config.plugin_sets import IN_TREE as KNOWN_PLUGINS, Implements
from scheduler.config.problems import ConfigError, Problems
from scheduler.config.types import ExtensionPoint, KubeSchedulerConfiguration, KubeSchedulerProfile
from scheduler.config.walker import decode_foreign, unreadable
from scheduler.errors import SchedulerError
from scheduler.kernel.framework.handle import Handle, PluginServices, watched_kinds
from scheduler.kernel.framework.interface import Plugin
from scheduler.kernel.framework.runtime import Framework, PluginError, ProfilePlugins
from scheduler.kernel.framework.runtime.framework import DEFAULT_CLASS_CACHE_BYTES
from scheduler.kernel.framework.runtime.plugin_calls import PluginCalls, TimeLimit
from scheduler.kernel.framework.runtime.plugin_set import extension_points
from scheduler.kernel.framework.runtime.shared_states import SharedStates
from scheduler.kernel.plugins.registry import BEHIND_GATES, IN_TREE, stand_ins
from scheduler.observability.framework_metrics import FrameworkMetrics
from scheduler.observability.instruments import Instruments

ENTRY_POINT_GROUP: Final = "stowage.plugins"
"""The entry point group of out-of-tree plugins in installed packages: plugin name -> class."""


class PluginLoadError(SchedulerError):
    """A plugin that cannot be imported or built."""


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
    """The extension points of every plugin that exists here, by name.

    Raises:
        PluginLoadError: an out-of-tree plugin has none.
    """
    for name, cls in out_of_tree.items():
        if not extension_points(cls):
            raise PluginLoadError(
                f'plugin "{name}" ({cls.__qualname__}): it runs at no extension point; expected a '
                "class derived from NodeFilterPlugin, NodeScorePlugin, PermitPlugin, ..."
            )
    return {name: _points_of(cls) for name, cls in {**IN_TREE, **out_of_tree}.items()}


@cache
def _points_of(plugin_type: type[Plugin]) -> frozenset[ExtensionPoint]:
    return frozenset(map(ExtensionPoint, extension_points(plugin_type)))


def args_types_of(out_of_tree: Mapping[str, type[Plugin]]) -> dict[str, type[msgspec.Struct]]:
    """Collect the types that plugins declare for their arguments, by plugin name.

    Raises:
        PluginLoadError: a plugin declares a type that arguments cannot be read as.
    """
    declared: dict[str, type[msgspec.Struct]] = {}
    for name, plugin in out_of_tree.items():
        kind: object = getattr(plugin, "ARGS", None)
        if kind is None:
            continue
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            raise PluginLoadError(f'plugin "{name}": ARGS: expected a msgspec.Struct, got {kind!r}')
        field = unreadable(kind)
        if field is not None:
            raise PluginLoadError(
                f'plugin "{name}": ARGS: {field} is of a type that arguments cannot have; expected '
                "bool, int, float, str, bytes, an Enum, a Struct, lists and dicts of these"
            )
        declared[name] = kind
    return declared


def own_plugins(out_of_tree: Mapping[str, type[Plugin]]) -> Implements:
    """The extension points of the plugins that kube-scheduler does not know."""
    implemented = implemented_plugins(out_of_tree)
    return {name: points for name, points in implemented.items() if name not in KNOWN_PLUGINS}


class FrameworkBuilder:
    """Builds the frameworks of all profiles of a configuration.

    Attributes:
        states: the shared states of plugins; the caller passes them all events.
        services: the services behind handles; filled in by the caller that composes the daemon.
        own_plugins: the extension points of the out-of-tree plugins.
    """

    def __init__(
        self,
        now: Callable[[], float],
        *,
        instruments: Instruments | None = None,
        time_limit: TimeLimit = nullcontext,
        on_failed: Callable[[PluginError], object] = lambda _: None,
        out_of_tree: Mapping[str, type[Plugin]] | None = None,
        class_cache_bytes: int = DEFAULT_CLASS_CACHE_BYTES,
    ) -> None:
        instruments = instruments or Instruments()
        self._metrics = FrameworkMetrics(instruments)
        self.states = SharedStates(self._metrics)
        self.services = PluginServices(self.states, instruments, now)
        self._now = now
        self._time_limit = time_limit
        self._on_failed = on_failed
        self._registry = {**IN_TREE, **(out_of_tree or {})}
        self._out_of_tree = frozenset(out_of_tree or {})
        self.own_plugins = own_plugins(out_of_tree or {})
        self._trusted = frozenset(IN_TREE) - frozenset(out_of_tree or {})
        self._class_cache_bytes = class_cache_bytes

    def build(self, config: KubeSchedulerConfiguration) -> dict[str, Framework]:
        """The framework of each profile, by scheduler name.

        Raises:
            ConfigError: a profile cannot be expanded.
            PluginSetError: a profile lacks a plugin it cannot do without.
            PluginLoadError: a plugin cannot be built.
        """
        implements = implemented_plugins(self._registry)
        registry = {**self._registry, **self._gated(config.feature_gates)}
        return {
            profile.scheduler_name: self._framework(
                profile,
                expand(profile, implements),
                registry,
                stand_ins(config.feature_gates),
                has_extenders=bool(config.extenders),
            )
            for profile in config.profiles
        }

    def _gated(self, feature_gates: Collection[str]) -> dict[str, type[Plugin]]:
        """The plugins that replace in-tree ones because of feature gates; a user's own stay."""
        behind = (plugin for gate in feature_gates for plugin in BEHIND_GATES.get(gate, ()))
        return {plugin.NAME: plugin for plugin in behind if plugin.NAME not in self._out_of_tree}

    def _framework(
        self,
        profile: KubeSchedulerProfile,
        enabled: Expansion,
        registry: Mapping[str, type[Plugin]],
        standing_by: Collection[type[Plugin]],
        *,
        has_extenders: bool,
    ) -> Framework:
        named = {name for plugins in enabled.values() for name, _ in plugins}
        standing_in = {each.NAME: each for each in standing_by if each.NAME not in named}
        registry = {**registry, **standing_in}
        calls = PluginCalls(
            profile.scheduler_name,
            self._metrics,
            self._now,
            time_limit=self._time_limit,
            on_failed=self._on_failed,
        )
        return Framework(
            ProfilePlugins(
                _with_stand_ins(enabled, standing_in.values()),
                lambda name: self._plugin(registry[name], name, profile),
                calls,
                trusted=self._trusted,
            ),
            percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
            class_cache_bytes=self._class_cache_bytes,
            has_extenders=has_extenders,
        )

    def _plugin(
        self, plugin_type: type[Plugin], name: str, profile: KubeSchedulerProfile
    ) -> Plugin:
        watches = watched_kinds(plugin_type)
        handle = Handle(self.services, name, profile.scheduler_name, watches)
        try:
            self.states.watch(watches)
            return plugin_type(_args(plugin_type, profile.raw_args(name)), handle)
        except ConfigError as problem:
            raise PluginLoadError(f'profile "{profile.scheduler_name}": {problem}') from problem
        except Exception as problem:
            raise PluginLoadError(
                f'profile "{profile.scheduler_name}": plugin "{name}" cannot be built: '
                f"{type(problem).__name__}: {problem}"
            ) from problem


def _with_stand_ins(enabled: Expansion, stand_ins: Collection[type[Plugin]]) -> Expansion:
    """Put stand-ins before the other plugins, at their own extension points."""
    return {
        point: (
            *((plugin.NAME, 0) for plugin in stand_ins if point.value in extension_points(plugin)),
            *plugins,
        )
        for point, plugins in enabled.items()
    }


def _args(plugin_type: type[Plugin], written: Any) -> Any:
    """The arguments as the plugin's `ARGS` type, or as they were written.

    Raises:
        ConfigError: they were not read when the configuration was, and cannot be.
    """
    args_type = getattr(plugin_type, "ARGS", None)
    if args_type is None or isinstance(written, args_type):
        return written
    problems = Problems()
    args = decode_foreign(args_type, {} if written is None else written, ("args",), problems)
    if problems:
        raise ConfigError(f'plugin "{plugin_type.NAME}"', problems)
    return args
