"""Composes the daemon: only this package imports all others and the plugins' registry."""

from scheduler.daemon.bootstrap.engine import build_engine
from scheduler.daemon.bootstrap.frameworks import FrameworkBuilder
from scheduler.daemon.bootstrap.installed import (
    PluginLoadError,
    announced_plugins,
    args_types_of,
    implemented_plugins,
    out_of_tree_plugins,
    own_plugins,
    package_of,
)

__all__ = [
    "FrameworkBuilder",
    "PluginLoadError",
    "announced_plugins",
    "args_types_of",
    "build_engine",
    "implemented_plugins",
    "out_of_tree_plugins",
    "own_plugins",
    "package_of",
]
