"""Reads files and standard input for the commands that need no cluster."""

import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from os.path import isdir, isfile
from pathlib import Path
from typing import Any, Final, NoReturn

import click
from typing_extensions import override

from scheduler.config.feature_gates import SWITCHES, turned_on
from scheduler.config.flags import FlagError, parse_feature_gates
from scheduler.config.load import default_configuration
from scheduler.config.notices import unsupported_settings
from scheduler.daemon.bootstrap import (
    out_of_tree_plugins,
)
from scheduler.errors import SchedulerError, os_reason
from scheduler.tools.cli.echo import echo
from scheduler.tools.offline.cluster import DEFAULT_PROFILE, Profiles
from scheduler.tools.offline.configured import profiles_from_text
from scheduler.tools.offline.reading import InputError, documents_from_text

BAD_INPUT: Final = 2
"""Exit status when a file, an option or the configuration is wrong."""
STANDARD_INPUT: Final = "-"
_SUFFIXES: Final = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")
"""Files of a directory that are read; a dump of `kubectl cluster-info` also has logs."""
_GZIP: Final = b"\x1f\x8b"

NO_FILES: Final = (
    "nothing to look at: name files with -f, for instance the output of\n"
    "  kubectl get nodes,pods,namespaces,services,replicasets,statefulsets,replicationcontrollers"
    " -A -o yaml\n"
    'or "-f -" for standard input'
)


def refuse(command: str, problem: SchedulerError | str) -> NoReturn:
    """Exit with `BAD_INPUT` and the problem on standard error."""
    echo(f"stowage {command}: {problem}", err=True)
    sys.exit(BAD_INPUT)


def read_documents(files: Iterable[str]) -> list[tuple[str, Any]]:
    """Return the documents of all files, each with its place; `-` is standard input.

    Of a directory, all JSON and YAML files in it and below are read, as those of
    `kubectl cluster-info dump --output-directory`. Any file may be compressed with gzip.

    Raises:
        InputError: there are no files, or one cannot be read.
    """
    files = list(files)
    if not files:
        raise InputError(NO_FILES)
    if files.count(STANDARD_INPUT) > 1:
        raise InputError("standard input can be read once only")
    documents: list[tuple[str, Any]] = []
    for name in _without_directories(files):
        documents.extend(documents_from_text(_text(name), _source(name)))
    return documents


class _FeatureGates(click.ParamType[tuple[str, ...]]):
    """Parses settings of feature gates, as in kube-scheduler's flag."""

    name = "NAME=BOOL,..."

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        try:
            return parse_feature_gates(str(value))
        except FlagError as error:
            self.fail(str(error), param, ctx)


feature_gates_option: Final = click.option(
    "--feature-gates",
    type=_FeatureGates(),
    default="",
    metavar="NAME=BOOL,...",
    help=f"Those of the scheduler in question; with an effect: {', '.join(sorted(SWITCHES))}.",
)
"""The option for feature gates, each as `Name=true` or `Name=false`."""


def read_profiles(
    file: str | None, *, feature_gates: Sequence[str] = (), tries_all_nodes: bool = False
) -> tuple[Profiles, tuple[str, ...]]:
    """Build the profiles of a configuration file; return them with notices about idle settings.

    None is the default profile; `feature_gates` are settings such as `Name=true`;
    `tries_all_nodes` is as for `Profiles`.

    Raises:
        SchedulerError: the configuration is wrong, cannot be read, or names missing plugins.
    """
    if file is not None:
        return profiles_from_text(
            _text(file), _source(file), feature_gates=feature_gates, tries_all_nodes=tries_all_nodes
        )
    default = default_configuration(DEFAULT_PROFILE, turned_on(feature_gates))
    profiles = Profiles(
        default, out_of_tree_plugins(), is_named=False, tries_all_nodes=tries_all_nodes
    )
    return profiles, tuple(map(str, unsupported_settings(feature_gates)))


def input_lines() -> Iterator[bytes]:
    """Yield the lines of standard input.

    Raises:
        InputError: it cannot be read.
    """
    try:
        yield from sys.stdin.buffer
    except OSError as problem:
        raise _unreadable(STANDARD_INPUT, problem) from problem


def _unreadable(name: str, problem: OSError) -> InputError:
    return InputError(f"{_source(name)}: cannot be read: {os_reason(problem)}")


def _source(name: str) -> str:
    return "standard input" if name == STANDARD_INPUT else name


def _without_directories(names: Iterable[str]) -> Iterator[str]:
    """Yield the names, with the files of a directory in its place, in the order of their paths."""
    for name in names:
        if name == STANDARD_INPUT or not isdir(name):  # noqa: PTH112 - `Path` raises for unreachable paths
            yield name
            continue
        found = [
            str(file)
            for file in sorted(Path(name).rglob("*"))
            if file.name.endswith(_SUFFIXES) and isfile(file)  # noqa: PTH113 - `Path` raises for unreachable paths
        ]
        if not found:
            raise InputError(f"{name}: no file in this directory ends in {', '.join(_SUFFIXES)}")
        yield from found


def _text(name: str) -> str:
    try:
        data = sys.stdin.buffer.read() if name == STANDARD_INPUT else Path(name).read_bytes()
        return (gzip.decompress(data) if data.startswith(_GZIP) else data).decode("utf-8")
    except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
        raise InputError(f"{_source(name)}: cannot be decompressed: {problem}") from problem
    except OSError as problem:
        raise _unreadable(name, problem) from problem
    except UnicodeDecodeError as problem:
        raise InputError(f"{_source(name)}: not a text in UTF-8") from problem
