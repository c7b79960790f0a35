"""Builds the plugins of every profile of a configuration from one registry.

Source: kubernetes pkg/scheduler/profile, pkg/scheduler/framework/runtime (NewFramework) v1.36.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from typing import Any

from scheduler.config.expansion import Expansion, expand
from scheduler.config.problems import ConfigError, Problems
from scheduler.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile
from scheduler.config.walker import decode_foreign
from scheduler.daemon.bootstrap.installed import PluginLoadError, implemented_plugins, own_plugins
from scheduler.errors import FOREIGN_ERRORS
from scheduler.kernel.framework.handle import Handle, watched_kinds
from scheduler.kernel.framework.interface import Plugin
from scheduler.kernel.framework.runtime import Framework, PluginError, ProfilePlugins
from scheduler.kernel.framework.runtime.framework import DEFAULT_CLASS_CACHE_BYTES
from scheduler.kernel.framework.runtime.plugin_calls import PluginCalls, TimeLimit
from scheduler.kernel.framework.runtime.plugin_set import extension_points
from scheduler.kernel.framework.runtime.shared_states import SharedStates
from scheduler.kernel.framework.services import PluginServices
from scheduler.kernel.plugins.registry import BEHIND_GATES, IN_TREE, stand_ins
from scheduler.observability.framework_metrics import FrameworkMetrics
from scheduler.observability.instruments import Instruments


class FrameworkBuilder:
    """Builds the frameworks of all profiles of a configuration.

    Attributes:
        states: the shared states of plugins; the engine passes all events to them.
        services: the services behind handles; the caller that composes the daemon fills them in.
        own_plugins: the extension points of the out-of-tree plugins, by plugin name.
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
        self.states = SharedStates(self._metrics, on_failed)
        self.services = PluginServices(self.states, instruments, now)
        self._now = now
        self._time_limit = time_limit
        self._on_failed = on_failed
        self._out_of_tree = out_of_tree or {}
        self.own_plugins = own_plugins(self._out_of_tree)
        self._class_cache_bytes = class_cache_bytes

    def build(self, config: KubeSchedulerConfiguration) -> dict[str, Framework]:
        """Build the framework of each profile; return them by scheduler name.

        Raises:
            ConfigError: a profile cannot be expanded.
            PluginSetError: a profile lacks a necessary plugin.
            PluginLoadError: a plugin cannot be imported or built.
        """
        implemented, own = implemented_plugins(self._out_of_tree), self._out_of_tree
        named = config.plugin_names()
        implements = {name: implemented[name] for name in implemented if name in named}
        registry = {
            **IN_TREE,
            **{name: own[name] for name in own if name in named},
            **_gated(config.feature_gates),
        }
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
                trusted=IN_TREE.keys(),
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
            plugin = plugin_type(_args(plugin_type, profile.raw_args(name)), handle)
        except ConfigError as problem:
            raise PluginLoadError(f'profile "{profile.scheduler_name}": {problem}') from problem
        except FOREIGN_ERRORS as problem:
            raise PluginLoadError(
                f'profile "{profile.scheduler_name}": plugin "{name}" cannot be built: '
                f"{type(problem).__name__}: {problem}"
            ) from problem
        patience: object = plugin.patience_seconds
        if not (isinstance(patience, int | float) and patience > 0):
            raise PluginLoadError(
                f'profile "{profile.scheduler_name}": plugin "{name}": patience_seconds: '
                f"expected a number above 0, got {patience!r}"
            )
        return plugin


def _gated(feature_gates: Collection[str]) -> dict[str, type[Plugin]]:
    """Return the replacements of in-tree plugins for feature gates."""
    behind = (plugin for gate in feature_gates for plugin in BEHIND_GATES.get(gate, ()))
    return {plugin.NAME: plugin for plugin in behind}


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
    """Return the arguments as the plugin's `ARGS` type; without one, as they were written.

    Raises:
        ConfigError: the arguments cannot be decoded as this type.
    """
    args_type = getattr(plugin_type, "ARGS", None)
    if args_type is None or isinstance(written, args_type):
        return written
    problems = Problems()
    args = decode_foreign(args_type, {} if written is None else written, ("args",), problems)
    if problems:
        raise ConfigError(f'plugin "{plugin_type.NAME}"', problems)
    return args
