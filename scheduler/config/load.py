"""Turns a text into the effective configuration.

config = load(path.read_bytes(), source=str(path))      # raises ConfigError with every problem
config = default_configuration()                        # when no file is given
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.config import defaults
from scheduler.config.args import ARGS_TYPES, VolumeBindingArgs
from scheduler.config.feature_gates import STORAGE_CAPACITY_SCORING
from scheduler.config.plugin_sets import IN_TREE, Implements, named_plugins
from scheduler.config.problems import ConfigError, Path, Problems
from scheduler.config.source import Value, parse
from scheduler.config.types import (
    API_VERSION,
    DEFAULT_SCHEDULER_NAME,
    KIND,
    ExtensionPoint,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
    Plugins,
)
from scheduler.config.validation import validate
from scheduler.config.walker import decode, decode_foreign, nearest, shown
from scheduler.errors import SchedulerError

ArgsTypes = Mapping[str, type[msgspec.Struct] | None]
"""The argument types of out-of-tree plugins, by plugin name; None: left as written."""
_Types = Mapping[str, type[msgspec.Struct]]

_GROUP: Final = API_VERSION.partition("/")[0]

_REMOVED_FIELDS: Final = {
    "algorithmSource": "it was removed; name plugins under profiles[].plugins",
    "bindTimeoutSeconds": "it moved to profiles[].pluginConfig, arguments of VolumeBinding",
    "disablePreemption": "it was removed; disable the plugin DefaultPreemption at postFilter",
    "hardPodAffinitySymmetricWeight": (
        "it moved to profiles[].pluginConfig, hardPodAffinityWeight of InterPodAffinity"
    ),
    "healthzBindAddress": "it was removed; use the flags --bind-address and --secure-port",
    "metricsBindAddress": "it was removed; use the flags --bind-address and --secure-port",
    "featureGates": "it is not part of this file; use the flag --feature-gates",
}
"""Fields of earlier versions, each with its replacement."""


def load(
    text: str | bytes,
    *,
    source: str = "configuration",
    out_of_tree: Implements | None = None,
    args_types: ArgsTypes | None = None,
    default_scheduler_name: str = DEFAULT_SCHEDULER_NAME,
    feature_gates: Collection[str] = (),
) -> KubeSchedulerConfiguration:
    """Read, complete and check a configuration.

    Args:
        text: YAML or JSON.
        source: its name in messages, usually the file's name.
        out_of_tree: the out-of-tree plugins that may be named. Only named ones are looked up, here
            and in `args_types`; a look-up may raise SchedulerError.
        args_types: the types of these plugins' arguments; others stay as they are written.
        default_scheduler_name: the name of a single profile that has none.
        feature_gates: the gates that are on, of `feature_gates.KNOWN`.

    Raises:
        ConfigError: the configuration is invalid; it lists all problems.
    """
    problems = Problems()
    return load_object(
        parse(text, problems),
        source=source,
        out_of_tree=out_of_tree,
        args_types=args_types,
        default_scheduler_name=default_scheduler_name,
        feature_gates=feature_gates,
        problems=problems,
    )


def load_object(  # noqa: PLR0913 - all but the value by name
    value: Value,
    *,
    source: str = "configuration",
    out_of_tree: Implements | None = None,
    args_types: ArgsTypes | None = None,
    default_scheduler_name: str = DEFAULT_SCHEDULER_NAME,
    feature_gates: Collection[str] = (),
    problems: Problems | None = None,
) -> KubeSchedulerConfiguration:
    """Load a configuration from plain values; see `load`.

    Raises:
        ConfigError: the configuration is invalid; it lists all problems, also those of decoding.
    """
    problems = Problems() if problems is None else problems
    document = _document(value, problems)
    if document is None:
        raise ConfigError(source, problems)
    _refuse_empty_name(document, problems)
    written = decode(KubeSchedulerConfiguration, document, (), problems, _hint)
    known, types = _of_named_plugins(written, out_of_tree or {}, args_types or {}, problems)
    written = replace(
        written,
        profiles=tuple(
            _decode_args(profile, types, ("profiles", i), problems)
            for i, profile in enumerate(written.profiles)
        ),
    )
    if STORAGE_CAPACITY_SCORING not in feature_gates:
        _refuse_shapes(written, problems)
    config = defaults.complete(written, default_scheduler_name, feature_gates)
    config = replace(
        config,
        profiles=tuple(
            _with_default_args(profile, types, ("profiles", i), problems)
            for i, profile in enumerate(config.profiles)
        ),
    )
    validate(config, known, problems, written)
    if problems:
        raise ConfigError(source, problems)
    return config


def default_configuration(
    default_scheduler_name: str = DEFAULT_SCHEDULER_NAME, feature_gates: Collection[str] = ()
) -> KubeSchedulerConfiguration:
    """Return the configuration for a command line without a file."""
    return defaults.complete(KubeSchedulerConfiguration(), default_scheduler_name, feature_gates)


def check(
    config: KubeSchedulerConfiguration,
    *,
    source: str = "configuration",
    out_of_tree: Implements | None = None,
) -> None:
    """Check a completed configuration again, after flags have changed it.

    Raises:
        ConfigError: the configuration is invalid; it lists all problems.
    """
    problems = Problems()
    own, named = out_of_tree or {}, config.plugin_names()
    points = {name: own[name] for name in own if name in named}
    validate(config, _with_out_of_tree(own, points), problems)
    if problems:
        raise ConfigError(source, problems)


def _of_named_plugins(
    written: KubeSchedulerConfiguration,
    out_of_tree: Implements,
    args_types: ArgsTypes,
    problems: Problems,
) -> tuple[Implements, _Types]:
    """Look up extension points and argument types, but only of the plugins that are named.

    A plugin that cannot be used is a problem at the first place where it is named.
    """
    points: dict[str, frozenset[ExtensionPoint]] = {}
    types: dict[str, type[msgspec.Struct]] = {}
    named: dict[str, Path] = {}
    for i, profile in enumerate(written.profiles):
        for place, name in named_plugins(profile, ("profiles", i)):
            named.setdefault(name, place)
    # An out-of-tree plugin with the name of an in-tree one is refused, even if no profile names it.
    for name in args_types.keys() & IN_TREE.keys():
        named.setdefault(name, ("profiles",))
    for name, place in named.items():
        try:
            if name in out_of_tree:
                points[name] = out_of_tree[name]
            kind = args_types.get(name)
        except SchedulerError as problem:
            problems.add(place, str(problem))
            continue
        if kind is not None:
            types[name] = kind
    return _with_out_of_tree(out_of_tree, points), types


def _with_out_of_tree(names: Iterable[str], points: Implements) -> Implements:
    """Return the extension points of all plugins; those not in `points` were not looked up."""
    return {**dict.fromkeys(names, frozenset[ExtensionPoint]()), **IN_TREE, **points}


def _document(value: Value, problems: Problems) -> dict[str, Value] | None:
    """Return the mapping of a KubeSchedulerConfiguration; None if it cannot be checked further."""
    if value is None and not problems:
        problems.add((), f"empty; expected apiVersion: {API_VERSION} and kind: {KIND}")
    if not isinstance(value, dict):
        if not problems:
            problems.add((), f"expected a mapping with apiVersion and kind, got {shown(value)}")
        return None
    kind = value.get("kind")
    if isinstance(kind, str) and kind != KIND and nearest(kind, [KIND]) is None:
        problems.add(("kind",), f'expected "{KIND}", got {shown(kind)}')
        return None
    _check_type(value, KIND, (), problems, required=True)
    return value


def _refuse_empty_name(document: Mapping[str, Value], problems: Problems) -> None:
    """Refuse a single profile with an empty name; only a missing one has a default."""
    profiles = document.get("profiles")
    only = profiles[0] if isinstance(profiles, list) and len(profiles) == 1 else None
    if isinstance(only, dict) and only.get("schedulerName") == "":
        place = ("profiles", 0, "schedulerName")
        problems.add(place, "expected a name; without the field the profile has the default one")


def _check_type(
    value: Mapping[str, Value], kind: str, path: Path, problems: Problems, *, required: bool
) -> None:
    """Check apiVersion and kind of a document, or of plugin arguments, where they are optional."""
    for name, expected in (("apiVersion", API_VERSION), ("kind", kind)):
        found = value.get(name)
        if found is None or found == "":
            if required:
                problems.add((*path, name), f'required: "{expected}"')
        elif found != expected:
            older = isinstance(found, str) and found.startswith(f"{_GROUP}/")
            why = " (`stowage config --migrate` rewrites older files)" if older else ""
            problems.add((*path, name), f'expected "{expected}"{why}, got {shown(found)}')


def _decode_args(
    profile: KubeSchedulerProfile, args_types: _Types, path: Path, problems: Problems
) -> KubeSchedulerProfile:
    """Decode plugin arguments to their types; those of unknown plugins stay plain values."""
    return replace(
        profile,
        plugin_config=tuple(
            _decode_plugin_config(config, args_types, (*path, "pluginConfig", i), problems)
            for i, config in enumerate(profile.plugin_config)
        ),
    )


def _decode_plugin_config(
    config: PluginConfig, args_types: _Types, path: Path, problems: Problems
) -> PluginConfig:
    place = (*path, "args")
    value = config.args
    if config.name in args_types:
        kind_of_others = args_types[config.name]
        return replace(config, args=decode_foreign(kind_of_others, value, place, problems))
    kind = ARGS_TYPES.get(config.name)
    if kind is None:
        return config
    if isinstance(value, dict):
        _check_type(value, kind.__name__, place, problems, required=False)
        value = {key: item for key, item in value.items() if key not in ("apiVersion", "kind")}
    return replace(config, args=decode(kind, value, place, problems))


def _with_default_args(
    profile: KubeSchedulerProfile, args_types: _Types, path: Path, problems: Problems
) -> KubeSchedulerProfile:
    """Add default arguments for enabled out-of-tree plugins that are not configured."""
    given = {config.name for config in profile.plugin_config}
    added = []
    for name in sorted(profile.plugins.names() & args_types.keys() - given):
        missing = Problems()
        args = decode_foreign(args_types[name], {}, ("args",), missing)
        added.append(PluginConfig(name=name, args=args))
        if missing:
            told = "; ".join(map(str, missing))
            place = (*path, "pluginConfig")
            problems.add(place, f'plugin "{name}" has to be told something: {told}')
    return replace(profile, plugin_config=(*profile.plugin_config, *added))


def _refuse_shapes(config: KubeSchedulerConfiguration, problems: Problems) -> None:
    """Refuse the scores of VolumeBinding without their feature gate."""
    for i, profile in enumerate(config.profiles):
        for j, plugin_config in enumerate(profile.plugin_config):
            args = plugin_config.args
            if isinstance(args, VolumeBindingArgs) and args.shape is not None:
                problems.add(
                    ("profiles", i, "pluginConfig", j, "args", "shape"),
                    f"not allowed: it needs the feature gate {STORAGE_CAPACITY_SCORING}, "
                    "which is off",
                )


def _hint(path: Path, name: str) -> str | None:
    """Return a hint that names the right place of a field that is unknown at this place."""
    if path == () and name in _REMOVED_FIELDS:
        return f"unknown field: {_REMOVED_FIELDS[name]}"
    if path == ():
        for kind, place in ((KubeSchedulerProfile, "profiles[]"), (Plugins, "profiles[].plugins")):
            if name in kind.__struct_encode_fields__:
                return f"unknown field here; it belongs to {place}"
    if (
        len(path) == 2  # noqa: PLR2004  ("profiles", index)
        and path[0] == "profiles"
        and name in Plugins.__struct_encode_fields__
    ):
        return "unknown field here; it belongs into plugins"
    return None
