"""Finds the plugins of installed packages, and imports a plugin when it is looked up.

So a broken package stops only the commands that use it, and an unused one costs nothing.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeVar

import msgspec
from typing_extensions import override

from scheduler.config.load import ArgsTypes
from scheduler.config.plugin_sets import IN_TREE as KNOWN_PLUGINS, Implements
from scheduler.config.types import ExtensionPoint
from scheduler.config.walker import unreadable
from scheduler.daemon.informers.kinds import watched_kind
from scheduler.errors import SchedulerError
from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.interface import FilterPlugin, Plugin, Reads, ScorePlugin
from scheduler.kernel.framework.runtime.plugin_set import extension_points
from scheduler.kernel.plugins.registry import IN_TREE

ENTRY_POINT_GROUP: Final = "stowage.plugins"
"""The entry point group of out-of-tree plugins in installed packages: plugin name -> class."""

ValueT = TypeVar("ValueT")


class PluginLoadError(SchedulerError):
    """A plugin cannot be imported or built."""


class _Found(Mapping[str, ValueT]):
    """A mapping of known keys that makes a value at each look-up."""

    def __init__(self, names: Collection[str], find: Callable[[str], ValueT]) -> None:
        self._names = dict.fromkeys(names)
        self._find = find

    @override
    def __getitem__(self, name: str) -> ValueT:
        if name not in self._names:
            raise KeyError(name)
        return self._find(name)

    @override
    def __contains__(self, name: object) -> bool:
        # `Mapping.__contains__` looks the value up, which would import the plugin.
        return name in self._names

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    @override
    def __len__(self) -> int:
        return len(self._names)


def announced_plugins() -> dict[str, list[EntryPoint]]:
    """Return the entry points of plugins in installed packages, by plugin name."""
    announced: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        announced.setdefault(entry.name, []).append(entry)
    return announced


def package_of(entry: EntryPoint) -> str:
    """Return the name and the version of the package that announces a plugin."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "-"


def out_of_tree_plugins(
    added: Mapping[str, type[Plugin]] | None = None,
) -> Mapping[str, type[Plugin]]:
    """Return the plugin classes of installed packages by name; those in `added` have precedence.

    A look-up imports the plugin, and raises PluginLoadError if that fails, or if kube-scheduler has
    a plugin of this name. Source: pkg/scheduler/framework/runtime registry.go (Register) v1.36.
    """
    announced, classes = announced_plugins(), dict(added or {})

    def plugin_called(name: str) -> type[Plugin]:
        if name in KNOWN_PLUGINS:
            packages = " and ".join(map(package_of, announced.get(name, ())))
            place = classes[name].__qualname__ if name in classes else packages
            raise PluginLoadError(
                f'plugin "{name}" ({place}): expected another name: kube-scheduler or Stowage '
                "itself has a plugin of this name"
            )
        return classes[name] if name in classes else _imported(*announced[name])

    return _Found((*announced, *classes), plugin_called)


def _imported(entry: EntryPoint, *others: EntryPoint) -> type[Plugin]:
    if others:
        packages = " and ".join(sorted(map(package_of, (entry, *others))))
        raise PluginLoadError(
            f'plugin "{entry.name}" is in more than one package: {packages}; uninstall all but one'
        )
    try:
        found: type[Plugin] = entry.load()
    except (Exception, SystemExit) as problem:
        raise PluginLoadError(
            f'plugin "{entry.name}" ({entry.value}) cannot be imported: '
            f"{type(problem).__name__}: {problem}"
        ) from problem
    return found


def implemented_plugins(out_of_tree: Mapping[str, type[Plugin]]) -> Implements:
    """Return the extension points of all in-tree and out-of-tree plugins, by name.

    A look-up of an out-of-tree plugin raises PluginLoadError if the plugin has none, or if a
    declaration of its class is wrong.
    """

    def points_of(name: str) -> frozenset[ExtensionPoint]:
        if name not in out_of_tree:
            return _points_of(IN_TREE[name])
        plugin: object = out_of_tree[name]
        points = _points_of(plugin) if isinstance(plugin, type) else frozenset()
        if not points:
            told = getattr(plugin, "__qualname__", repr(plugin))
            raise PluginLoadError(
                f'plugin "{name}" ({told}): it runs at no extension point; expected a '
                "class derived from NodeFilterPlugin, NodeScorePlugin, PermitPlugin, ..."
            )
        problem = _wrong_declaration(name, plugin)
        if problem:
            raise PluginLoadError(f'plugin "{name}": {problem}')
        return points

    return _Found((*IN_TREE, *out_of_tree), points_of)


def _wrong_declaration(name: str, plugin: object) -> str:
    """Describe the first wrong class attribute of a plugin; empty if all are right."""
    declared: object = getattr(plugin, "NAME", None)
    if declared != name:
        return f"NAME: expected {name!r}, as in its entry point, got {declared!r}"
    watches: object = getattr(plugin, "WATCHES", ())
    if not isinstance(watches, tuple) or not all(isinstance(each, ObjectKind) for each in watches):
        return f"WATCHES: expected a tuple of ObjectKind, got {watches!r}"
    try:
        for kind in watches:
            watched_kind(kind)
    except ValueError as problem:
        return f"WATCHES: {problem}"
    bases = set(getattr(plugin, "__mro__", ()))
    if bases & {FilterPlugin, ScorePlugin} and not isinstance(
        getattr(plugin, "READS", None), Reads
    ):
        return "READS: expected what its columns depend on, such as Reads.CLUSTER"
    return ""


@cache
def _points_of(plugin_type: type[Plugin]) -> frozenset[ExtensionPoint]:
    return frozenset(map(ExtensionPoint, extension_points(plugin_type)))


def args_types_of(out_of_tree: Mapping[str, type[Plugin]]) -> ArgsTypes:
    """Return the types that plugins declare for their arguments, by plugin name; None if none.

    A look-up raises PluginLoadError if arguments cannot be decoded as the declared type.
    """
    return _Found(out_of_tree, lambda name: _args_type(name, out_of_tree[name]))


def _args_type(name: str, plugin: type[Plugin]) -> type[msgspec.Struct] | None:
    kind: object = getattr(plugin, "ARGS", None)
    if kind is None:
        return None
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        raise PluginLoadError(f'plugin "{name}": ARGS: expected a msgspec.Struct, got {kind!r}')
    try:
        field = unreadable(kind)
    except Exception as problem:
        told = f"of a type that arguments cannot have: {type(problem).__name__}: {problem}"
        raise PluginLoadError(f'plugin "{name}": ARGS: {told}') from problem
    if field is not None:
        raise PluginLoadError(
            f'plugin "{name}": ARGS: {field} is of a type that arguments cannot have; expected '
            "bool, int, float, str, bytes, an Enum, a Struct, lists and dicts of these"
        )
    return kind


def own_plugins(out_of_tree: Mapping[str, type[Plugin]]) -> Implements:
    """Return the extension points of the plugins that kube-scheduler does not have, by name."""
    implemented = implemented_plugins(out_of_tree)
    own = [name for name in implemented if name not in KNOWN_PLUGINS]
    return _Found(own, implemented.__getitem__)
