"""Finds the out-of-tree plugins of an instance, and the problems of its packages. Pure.

The contents of an image are not checked. A wheel is read as the daemon reads it: it is a zip
archive from which Python imports directly, without installation.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PathDistribution
from io import BytesIO
from typing import Final, NamedTuple
from zipfile import Path as PathInside, ZipFile

from scheduler.config.problems import Path, Problem
from scheduler.daemon.bootstrap.installed import ENTRY_POINT_GROUP
from scheduler.operator.resources import Json, Scheduler, WheelKey

MAX_ENTRY_POINTS_BYTES: Final = 64 * 1024
"""Bytes at most of the file that announces plugins: a small archive may contain a huge file."""

_ANNOUNCES: Final = ".dist-info/entry_points.txt"
_NATIVE: Final = (".so", ".pyd", ".dylib")


class WheelPlace(NamedTuple):
    """The place of a wheel: a key of a ConfigMap."""

    namespace: str
    config_map: str
    key: str


@dataclass(frozen=True, slots=True)
class Wheel:
    """The contents of a wheel.

    Attributes:
        provides: the names of the plugins that it announces.
        digest: the digest of its bytes.
    """

    provides: tuple[str, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class Packages:
    """The plugins of an instance that are not in its image.

    Attributes:
        names: the names of the plugins.
        digests: the digests of the wheels.
        problems: problems, with paths into the Scheduler.
    """

    names: frozenset[str]
    digests: tuple[str, ...]
    problems: tuple[Problem, ...]


Wheels = Mapping[WheelPlace, Wheel | Problem]
"""All wheels that instances name, or their problems."""


def packages_of(scheduler: Scheduler, wheels: Wheels) -> Packages:
    """Collect the plugins, digests and problems of an instance's packages."""
    holders: dict[str, str] = {}
    digests, problems = [], []
    for i, package in enumerate(scheduler.spec.plugins):
        path: Path = ("spec", "plugins", i)
        provides = package.provides
        if package.wheel is not None:
            wheel = wheels[_place(scheduler, package.wheel)]
            if isinstance(wheel, Problem):
                problems.append(Problem((*path, "wheel", *wheel.path), wheel.message))
                continue
            provides = wheel.provides
            digests.append(wheel.digest)
        for name in provides:
            holder = holders.setdefault(name, package.name)
            if holder != package.name:
                problems.append(Problem(path, f'"{name}" is in {holder} already'))
    return Packages(frozenset(holders), tuple(digests), tuple(problems))


def wheels_wanted(scheduler: Scheduler) -> Iterator[WheelPlace]:
    """Yield the wheels that an instance names."""
    for each in scheduler.spec.plugins:
        if each.wheel is not None:
            yield _place(scheduler, each.wheel)


def wheel_in(config_map: Json | None, place: WheelPlace) -> Wheel | Problem:
    """Return the wheel in a ConfigMap, or a problem with a path below `wheel` of the spec."""
    if config_map is None:
        where = f'"{place.config_map}" in namespace {place.namespace}'
        return Problem(("configMap",), f"there is no ConfigMap {where}")
    binary = config_map.get("binaryData") or {}
    if place.key not in binary:
        there = ", ".join(sorted(binary)) or "nothing"
        message = f'ConfigMap "{place.config_map}" has no "{place.key}" in binaryData, but {there}'
        return Problem(("key",), message)
    content = base64.b64decode(binary[place.key])
    try:
        provides = _announced(content)
    except Exception as problem:  # noqa: BLE001 - a user's bytes: any fault is the user's
        return Problem(("key",), f"expected a wheel of Python code alone: {problem}")
    return Wheel(provides, hashlib.sha256(content).hexdigest())


def _place(scheduler: Scheduler, wheel: WheelKey) -> WheelPlace:
    return WheelPlace(scheduler.metadata.namespace, wheel.config_map, wheel.key)


def _announced(content: bytes) -> tuple[str, ...]:
    """Return the names of the plugins that a wheel announces.

    Raises:
        ValueError: it announces none, or has modules that cannot be imported from an archive.
        Exception: the archive cannot be read.
    """
    with ZipFile(BytesIO(content)) as archive:
        names = archive.namelist()
        native = next((name for name in names if name.endswith(_NATIVE)), None)
        if native is not None:
            raise ValueError(f"{native} cannot be imported out of an archive")
        announcing = [name for name in names if name.endswith(_ANNOUNCES)]
        if not announcing:
            raise ValueError(f'it announces no plugin (entry points "{ENTRY_POINT_GROUP}")')
        if archive.getinfo(announcing[0]).file_size > MAX_ENTRY_POINTS_BYTES:
            raise ValueError(f"{announcing[0]} has more than {MAX_ENTRY_POINTS_BYTES} bytes")
        folder = announcing[0].removesuffix("entry_points.txt")
        entries = PathDistribution(PathInside(archive, folder)).entry_points
        found = entries.select(group=ENTRY_POINT_GROUP)
        if not found:
            raise ValueError(f'it announces no plugin (entry points "{ENTRY_POINT_GROUP}")')
        return tuple(sorted(entry.name for entry in found))
