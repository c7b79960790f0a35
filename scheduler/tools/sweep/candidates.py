"""Reads the configurations of a sweep: the files of a directory, or the points of a grid."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from typing_extensions import override

from scheduler.api.nulls import without_nulls
from scheduler.config.problems import ConfigError, Problems
from scheduler.config.source import parse
from scheduler.config.walker import decode
from scheduler.config.write import dump
from scheduler.errors import os_reason
from scheduler.tools.offline.reading import InputError, documents_from_text

MAX_CANDIDATES: Final = 10_000
"""Points at most of a grid: a mistake in a file must not cause months of replays."""

_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_ALL: Final = "*"
"""All plugins, in a list of disabled ones."""
_API_VERSION: Final = "kubescheduler.config.k8s.io/v1"


class CandidateConfig(msgspec.Struct, frozen=True):
    """One configuration.

    Attributes:
        name: the name of the file, or the settings of a point of the grid.
        text: a KubeSchedulerConfiguration in YAML or JSON; the recorded one has none.
    """

    name: str
    text: str = ""


class _Grid(msgspec.Struct, rename="camel"):
    """A grid file.

    Attributes:
        configuration: the file with the configuration to vary, relative to this one; the recorded
            configuration if empty.
        weights: by score plugin, the weights to try; 0 switches its scores off.
        args: by plugin and path in its arguments (`scoringStrategy.type`), the values to try.
        profiles: the scheduler names of the profiles to change; all if empty.
    """

    configuration: str = ""
    weights: dict[str, list[Annotated[int, msgspec.Meta(ge=0)]]] = {}
    args: dict[str, dict[str, list[Any]]] = {}
    profiles: list[str] = []


RECORDED: Final = CandidateConfig("recorded")
"""The configuration that was in force."""


def from_directory(directory: Path) -> list[CandidateConfig]:
    """Return a candidate for each YAML or JSON file of a directory, by name.

    Raises:
        InputError: there is no such file, or one cannot be read.
    """
    try:
        paths = sorted(path for path in directory.iterdir() if path.suffix in _SUFFIXES)
        found = [CandidateConfig(_name_of(path), _text_of(path)) for path in paths]
    except OSError as problem:
        path = problem.filename or directory
        raise InputError(f"--configs {path}: cannot be read: {os_reason(problem)}") from problem
    if not found:
        raise InputError(f"--configs {directory}: expected files *.yaml or *.json, found none")
    return found


def _name_of(path: Path) -> str:
    try:
        path.stem.encode()
    except UnicodeEncodeError as problem:
        raise InputError(f"--configs {str(path)!r}: expected a name in UTF-8") from problem
    return path.stem


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as problem:
        raise InputError(f"--configs {path}: not a text in UTF-8") from problem


def from_grid(
    file: Path,
    recorded: Sequence[Mapping[str, Any]],
    note: Callable[[str], object] = lambda _: None,
) -> list[CandidateConfig]:
    """Return a candidate for each combination of the values in a grid file.

    If the file names no configuration, the first of `recorded`, those of the recordings, is varied.
    If others differ, `note` is called with a sentence.

    Raises:
        InputError: the file cannot be read, or has too many points.
        ConfigError: the file is no grid; it lists all problems.
    """
    about = f"--grid {file}"
    grid = _read_grid(file, about)
    base = _document(file.parent / grid.configuration, about) if grid.configuration else recorded[0]
    if not grid.configuration and any(each != base for each in recorded):
        note(
            f"{about}: it varies the configuration of the first recording; others had another one."
        )
    axes = [*_weights(grid, about), *_args(grid, about)]
    if not axes:
        raise InputError(f"{about}: expected weights or args with values to try, found none")
    count = prod(len(axis) for axis in axes)
    if count > MAX_CANDIDATES:
        raise InputError(f"{about}: {count} combinations; at most {MAX_CANDIDATES} are tried")
    return [_candidate(point, base, grid.profiles, about) for point in product(*axes)]


class _Entry(msgspec.Struct):
    name: str = ""


class _PluginSet(msgspec.Struct):
    enabled: list[_Entry] = []
    disabled: list[_Entry] = []


class _PluginArgs(msgspec.Struct):
    name: str = ""
    args: dict[str, Any] = {}


class _Profile(msgspec.Struct, rename="camel"):
    plugins: dict[str, _PluginSet] = {}
    plugin_config: list[_PluginArgs] = []


class _Base(msgspec.Struct):
    """The parts of a configuration that a grid changes; a run checks all of it."""

    profiles: list[_Profile] = []


# --- points of a grid -----------------------------------------------------------------------------


class _Setting(msgspec.Struct, frozen=True):
    """One value of one axis: a weight if the path is empty, else an argument."""

    plugin: str
    path: tuple[str, ...]
    value: Any

    @override
    def __str__(self) -> str:
        return f"{'.'.join((self.plugin, *self.path))}={self.value}"

    def put_into(self, profile: dict[str, Any]) -> None:
        if self.path:
            _set_argument(profile, self.plugin, self.path, self.value)
        else:
            _set_weight(profile, self.plugin, self.value)


def _read_grid(file: Path, about: str) -> _Grid:
    try:
        text = file.read_bytes()
    except OSError as problem:
        raise InputError(f"{about}: cannot be read: {os_reason(problem)}") from problem
    problems = Problems()
    written = parse(text, problems)
    grid = _Grid() if problems else decode(_Grid, written, (), problems)
    if problems:
        raise ConfigError(about, problems)
    return grid


def _document(file: Path, about: str) -> Mapping[str, Any]:
    try:
        documents = list(documents_from_text(file.read_text("utf-8"), str(file)))
    except OSError as problem:
        raise InputError(f"{about}: {file}: cannot be read: {os_reason(problem)}") from problem
    except UnicodeDecodeError as problem:
        raise InputError(f"{about}: {file}: not a text in UTF-8") from problem
    match documents:
        case [(_, dict(document))]:
            return document
        case _:
            raise InputError(f"{about}: expected one object in {file}")


def _weights(grid: _Grid, about: str) -> Iterator[Sequence[_Setting]]:
    for plugin, values in grid.weights.items():
        if not values:
            raise InputError(f"{about}: weights.{plugin}: expected numbers, found none")
        yield [_Setting(plugin, (), value) for value in values]


def _args(grid: _Grid, about: str) -> Iterator[Sequence[_Setting]]:
    for plugin, paths in grid.args.items():
        for path, values in paths.items():
            if not values:
                raise InputError(f"{about}: args.{plugin}.{path}: expected values, found none")
            yield [_Setting(plugin, tuple(path.split(".")), value) for value in values]


def _candidate(
    point: Sequence[_Setting], base: Mapping[str, Any], names: Sequence[str], about: str
) -> CandidateConfig:
    document = _checked(base, about)
    profiles = document["profiles"]
    known = [profile.get("schedulerName") for profile in profiles]
    if unknown := [name for name in names if name not in known]:
        raise InputError(f"{about}: profiles: no profile is called {' or '.join(unknown)}")
    chosen = [p for p in profiles if not names or p.get("schedulerName") in names]
    for profile in chosen:
        for setting in point:
            setting.put_into(profile)
    return CandidateConfig(",".join(map(str, point)), dump(document))


def _checked(base: Mapping[str, Any], about: str) -> dict[str, Any]:
    """Return a copy of a configuration to change, with a profile and without nulls.

    Raises:
        InputError: a part that may be changed has another form.
    """
    document: dict[str, Any] = without_nulls(msgspec.to_builtins(base))
    try:
        msgspec.convert(document, _Base)
    except msgspec.ValidationError as problem:
        raise InputError(f"{about}: the configuration to vary: {problem}") from problem
    document["profiles"] = document.get("profiles") or [{}]
    return document


def _set_weight(profile: dict[str, Any], plugin: str, weight: int) -> None:
    """Set a weight in `plugins`; for 0, which means the default there, disable the plugin."""
    plugins = profile.setdefault("plugins", {})
    score = plugins.setdefault("score", {})
    if weight == 0:
        score["enabled"] = _without(plugin, score.get("enabled", []))
        score.setdefault("disabled", []).append({"name": plugin})
        return
    score["disabled"] = _without(plugin, score.get("disabled", []))
    own = score.setdefault("enabled", [])
    many = plugins.setdefault("multiPoint", {}).setdefault("enabled", [])
    found = [entry for entry in (*own, *many) if entry.get("name") == plugin]
    for entry in found:
        entry["weight"] = weight
    are_off = any(entry.get("name") == _ALL for entry in score["disabled"])
    if are_off and not any(entry.get("name") == plugin for entry in own):
        own.append({"name": plugin, "weight": weight})
    elif not found:
        many.append({"name": plugin, "weight": weight})


def _without(plugin: str, entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry.get("name") != plugin]


def _set_argument(
    profile: dict[str, Any], plugin: str, path: tuple[str, ...], value: object
) -> None:
    configs = profile.setdefault("pluginConfig", [])
    config = next((each for each in configs if each.get("name") == plugin), None)
    if config is None:
        config = {"name": plugin, "args": {"apiVersion": _API_VERSION, "kind": f"{plugin}Args"}}
        configs.append(config)
    at = config.setdefault("args", {})
    for step in path[:-1]:
        if not isinstance(at.get(step), dict):
            at[step] = {}
        at = at[step]
    at[path[-1]] = value
