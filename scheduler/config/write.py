"""Writes the effective configuration as YAML, for `--write-config-to` and `stowage config`.

kube-scheduler 1.36 accepts this output, and `load` reads the same configuration from it.
"""

import base64
from enum import Enum
from typing import Any, cast

import msgspec
import msgspec.inspect as mi
import yaml

from scheduler.config.args import PluginArgs
from scheduler.config.duration import format_duration
from scheduler.config.source import is_plain_text
from scheduler.config.types import (
    API_VERSION,
    KubeSchedulerConfiguration,
    PluginConfig,
    PluginEntry,
    Plugins,
    PluginSet,
)
from scheduler.config.walker import DURATION, is_written

_EMPTY: tuple[object, ...] = (None, "", (), {}, b"")


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Quotes every string that kube-scheduler would not parse as a string."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if is_plain_text(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def to_yaml(config: KubeSchedulerConfiguration) -> str:
    """Return a configuration as YAML, with fields in alphabetical order as in upstream."""
    return dump(to_object(config))


def dump(value: object, *, sort_keys: bool = True) -> str:
    """Return plain values as YAML from which `load` and kube-scheduler read the same values."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=sort_keys, allow_unicode=True, width=1 << 20)


def to_object(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """Return a configuration as plain values, for JSON (`/configz`)."""
    return cast("dict[str, Any]", _plain(config))


def _plain(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return _struct(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return str(value) if isinstance(value, str) else value


def _foreign(value: Any, described: mi.Type) -> object:  # noqa: PLR0911 - one line per kind of type
    """Return arguments of an out-of-tree plugin, with empty values: these may not be defaults."""
    match described:
        case mi.UnionType(types=types):
            return _foreign(value, next(t for t in types if not isinstance(t, mi.NoneType)))
        case mi.Metadata(extra=extra) if extra == DURATION.extra:
            return format_duration(value)
        case mi.Metadata(type=inner):
            return _foreign(value, inner)
        case mi.VarTupleType(item_type=inner) | mi.ListType(item_type=inner):
            return [_foreign(item, inner) for item in value]
        case mi.DictType(value_type=inner):
            return {key: _foreign(item, inner) for key, item in value.items()}
        case mi.StructType(fields=fields):
            found = ((field, getattr(value, field.name)) for field in fields)
            return {f.encode_name: _foreign(item, f.type) for f, item in found if item is not None}
        case _:
            return _plain(value)


def _struct(value: msgspec.Struct) -> dict[str, object]:
    described = cast("mi.StructType", mi.type_info(type(value)))
    result: dict[str, object] = {}
    if isinstance(value, PluginArgs):
        result["apiVersion"] = API_VERSION
        result["kind"] = type(value).__name__
    for field in filter(is_written, described.fields):
        item = getattr(value, field.name)
        if isinstance(value, PluginConfig) and _is_foreign(item):
            result[field.encode_name] = _foreign(item, mi.type_info(type(item)))
            continue
        unset_weight = isinstance(value, PluginEntry) and item == 0
        if item in _EMPTY or unset_weight:
            continue
        plain = format_duration(item) if _is_duration(field.type) else _plain(item)
        if not (isinstance(item, PluginSet | Plugins) and not plain):
            result[field.encode_name] = plain
    return result


def _is_foreign(args: object) -> bool:
    return isinstance(args, msgspec.Struct) and not isinstance(args, PluginArgs)


def _is_duration(described: mi.Type) -> bool:
    match described:
        case mi.Metadata(extra=extra):
            return extra == DURATION.extra
        case mi.UnionType(types=types):
            return any(_is_duration(inner) for inner in types)
        case _:
            return False
