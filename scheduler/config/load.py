"""Text to effective configuration: the way in.

config = load(path.read_bytes(), source=str(path))      # raises ConfigError with every problem
config = default_configuration()                        # when no file is given
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from scheduler.config import defaults
from scheduler.config.args import ARGS_TYPES
from scheduler.config.plugin_sets import IN_TREE, Implements
from scheduler.config.problems import ConfigError, Path, Problems
from scheduler.config.source import Value, parse
from scheduler.config.types import (
    API_VERSION,
    DEFAULT_SCHEDULER_NAME,
    KIND,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
    Plugins,
)
from scheduler.config.validation import validate
from scheduler.config.walker import decode, nearest, shown

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
"""Fields of earlier versions, with what to do instead."""


def load(
    text: str | bytes,
    *,
    source: str = "configuration",
    out_of_tree: Implements | None = None,
    default_scheduler_name: str = DEFAULT_SCHEDULER_NAME,
) -> KubeSchedulerConfiguration:
    """Read, complete and check a configuration.

    Args:
        text: YAML or JSON.
        source: what messages call it, usually the file's name.
        out_of_tree: plugins beside the in-tree ones that may be named.
        default_scheduler_name: the name of a single profile that has none.

    Raises:
        ConfigError: with everything that is wrong.
    """
    problems = Problems()
    value = parse(text, problems)
    return _load(value, problems, source, out_of_tree or {}, default_scheduler_name)


def load_object(
    value: Value,
    *,
    source: str = "configuration",
    out_of_tree: Implements | None = None,
    default_scheduler_name: str = DEFAULT_SCHEDULER_NAME,
) -> KubeSchedulerConfiguration:
    """Like `load`, for a configuration that is decoded already.

    Raises:
        ConfigError: with everything that is wrong.
    """
    return _load(value, Problems(), source, out_of_tree or {}, default_scheduler_name)


def default_configuration(
    default_scheduler_name: str = DEFAULT_SCHEDULER_NAME,
) -> KubeSchedulerConfiguration:
    """Give the configuration that holds when there is no file."""
    return defaults.complete(KubeSchedulerConfiguration(), default_scheduler_name)


def check(
    config: KubeSchedulerConfiguration,
    *,
    source: str = "configuration",
    out_of_tree: Implements | None = None,
) -> None:
    """Check a completed configuration again, after flags have changed it.

    Raises:
        ConfigError: with everything that is wrong.
    """
    problems = Problems()
    validate(config, {**IN_TREE, **(out_of_tree or {})}, problems)
    if problems:
        raise ConfigError(source, problems)


def _load(
    value: Value,
    problems: Problems,
    source: str,
    out_of_tree: Implements,
    default_scheduler_name: str,
) -> KubeSchedulerConfiguration:
    document = _document(value, problems)
    if document is None:
        raise ConfigError(source, problems)
    written = decode(KubeSchedulerConfiguration, document, (), problems, _hint)
    written = replace(
        written,
        profiles=tuple(
            _decode_args(profile, ("profiles", i), problems)
            for i, profile in enumerate(written.profiles)
        ),
    )
    config = defaults.complete(written, default_scheduler_name)
    validate(config, {**IN_TREE, **out_of_tree}, problems, written)
    if problems:
        raise ConfigError(source, problems)
    return config


def _document(value: Value, problems: Problems) -> dict[str, Value] | None:
    """Check that this is a configuration of ours at all; None when reading on makes no sense."""
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


def _check_type(
    value: Mapping[str, Value], kind: str, path: Path, problems: Problems, *, required: bool
) -> None:
    """Check apiVersion and kind of a document, or of arguments, which may leave them out."""
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
    profile: KubeSchedulerProfile, path: Path, problems: Problems
) -> KubeSchedulerProfile:
    """Turn the arguments of in-tree plugins into their types; those of others stay as they are."""
    return replace(
        profile,
        plugin_config=tuple(
            _decode_plugin_config(config, (*path, "pluginConfig", i), problems)
            for i, config in enumerate(profile.plugin_config)
        ),
    )


def _decode_plugin_config(config: PluginConfig, path: Path, problems: Problems) -> PluginConfig:
    kind = ARGS_TYPES.get(config.name)
    if kind is None:
        return config
    place = (*path, "args")
    value = config.args
    if isinstance(value, dict):
        _check_type(value, kind.__name__, place, problems, required=False)
        value = {key: item for key, item in value.items() if key not in ("apiVersion", "kind")}
    return replace(config, args=decode(kind, value, place, problems))


def _hint(path: Path, name: str) -> str | None:
    """Say where a field belongs that is not known where it stands."""
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
