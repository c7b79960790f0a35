"""The composition root: the only room that knows every other and names concrete plugins."""

from scheduler.bootstrap.engine import Core, Recorders, Surroundings, build_core, build_queue
from scheduler.bootstrap.frameworks import (
    FrameworkBuilder,
    PluginLoadError,
    implemented_plugins,
    out_of_tree_plugins,
)

__all__ = [
    "Core",
    "FrameworkBuilder",
    "PluginLoadError",
    "Recorders",
    "Surroundings",
    "build_core",
    "build_queue",
    "implemented_plugins",
    "out_of_tree_plugins",
]
