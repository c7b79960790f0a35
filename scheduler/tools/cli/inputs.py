"""Files and standard input of the commands that need no cluster."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import click
from typing_extensions import override

from scheduler.config.feature_gates import SWITCHES, turned_on
from scheduler.config.flags import FlagError, parse_feature_gates
from scheduler.config.load import default_configuration, load
from scheduler.config.notices import not_in_effect, unsupported, unsupported_settings
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.daemon.bootstrap import (
    args_types_of,
    implemented_plugins,
    out_of_tree_plugins,
    own_plugins,
)
from scheduler.errors import SchedulerError
from scheduler.tools.offline.admission import Admission
from scheduler.tools.offline.cluster import DEFAULT_PROFILE, OWN_PROFILE, Profiles
from scheduler.tools.offline.reading import (
    ClusterObjects,
    InputError,
    documents_from_text,
    objects_from_documents,
)

BAD_INPUT: Final = 2
"""Exit status when a file, an option or the configuration is wrong."""
NOT_ASKED: Final = "Extenders are not asked: pods are placed as if there were none."
STANDARD_INPUT: Final = "-"

NO_FILES: Final = (
    "nothing to look at: name files with -f, for instance the output of\n"
    "  kubectl get nodes,pods,namespaces,services,replicasets,statefulsets,replicationcontrollers"
    " -A -o yaml\n"
    'or "-f -" for standard input'
)


def refuse(command: str, problem: SchedulerError | str) -> NoReturn:
    """End a command that cannot use what it was given."""
    click.echo(f"stowage {command}: {problem}", err=True)
    sys.exit(BAD_INPUT)


def read_files(files: Iterable[str]) -> ClusterObjects:
    """The whole cluster that files describe together; `-` is standard input.

    Raises:
        InputError: there are no files, or one cannot be read.
    """
    return objects_from_documents(read_documents(files), admission=Admission())


def read_documents(files: Iterable[str]) -> list[tuple[str, Any]]:
    """The documents of all files, each with its place; `-` is standard input.

    Raises:
        InputError: there are no files, or one cannot be read.
    """
    files = list(files)
    if not files:
        raise InputError(NO_FILES)
    if files.count(STANDARD_INPUT) > 1:
        raise InputError("standard input can be read once only")
    documents: list[tuple[str, Any]] = []
    for name in files:
        documents.extend(documents_from_text(_text(name), _source(name)))
    return documents


class _FeatureGates(click.ParamType[tuple[str, ...]]):
    """Settings of feature gates, as in kube-scheduler's flag."""

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
    help=f"As of the scheduler that is meant; {', '.join(sorted(SWITCHES))} has an effect.",
)
"""Gives a command the settings of feature gates, each as `Name=true` or `Name=false`."""


def read_profiles(
    file: str | None, *, feature_gates: Sequence[str] = (), tries_all_nodes: bool = False
) -> tuple[Profiles, tuple[str, ...]]:
    """The profiles of a configuration file, and what of it and of the gates has no effect.

    None is the default profile; `feature_gates` are settings such as `Name=true`;
    `tries_all_nodes` is as for `Profiles`.

    Raises:
        SchedulerError: the configuration is wrong, cannot be read, or names what does not exist.
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


def profiles_from_text(
    text: str,
    source: str,
    *,
    feature_gates: Sequence[str] = (),
    tries_all_nodes: bool = False,
) -> tuple[Profiles, tuple[str, ...]]:
    """The same as `read_profiles` of a configuration that has been read from `source`.

    Raises:
        SchedulerError: the configuration is wrong, or names what does not exist.
    """
    out_of_tree = out_of_tree_plugins()
    gates, settings = turned_on(feature_gates), map(str, unsupported_settings(feature_gates))
    implemented = implemented_plugins(out_of_tree)
    own = own_plugins(out_of_tree)
    args_types = args_types_of(out_of_tree)

    def config_called(name: str) -> KubeSchedulerConfiguration:
        return load(
            text,
            source=source,
            out_of_tree=own,
            args_types=args_types,
            default_scheduler_name=name,
            feature_gates=gates,
        )

    config = config_called(DEFAULT_PROFILE)
    # A name that was written does not depend on what we would have called the profile.
    is_named = config.profiles == config_called(OWN_PROFILE).profiles
    profiles = Profiles(config, out_of_tree, is_named=is_named, tries_all_nodes=tries_all_nodes)
    lacking = map(str, unsupported(config, implemented.keys()))
    return profiles, (*settings, *lacking, *not_in_effect(config, implemented.keys()))


def _source(name: str) -> str:
    return "standard input" if name == STANDARD_INPUT else name


def _text(name: str) -> str:
    try:
        if name == STANDARD_INPUT:
            return sys.stdin.read()
        return Path(name).read_text(encoding="utf-8")
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise InputError(f"{name}: cannot be read: {reason}") from problem
    except UnicodeDecodeError as problem:
        raise InputError(f"{_source(name)}: not a text in UTF-8") from problem
