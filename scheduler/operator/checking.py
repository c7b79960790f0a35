"""Checks the configuration of an instance, as its daemon would."""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from scheduler.config.feature_gates import turned_on
from scheduler.config.load import load_object
from scheduler.config.options import RunOptions, with_flags
from scheduler.config.plugin_sets import Implements
from scheduler.config.problems import ConfigError, Problem
from scheduler.config.types import ExtensionPoint
from scheduler.daemon.bootstrap.configuration import check_usable
from scheduler.daemon.bootstrap.installed import implemented_plugins, own_plugins

_ANY_POINT: Final = frozenset(ExtensionPoint) - {ExtensionPoint.QUEUE_SORT}
"""The possible extension points of an out-of-tree plugin, whose class is unknown here."""


@dataclass(frozen=True, slots=True)
class CheckRules:
    """The values besides the configuration on which its check depends."""

    plugins: frozenset[str]
    options: RunOptions
    mounted: tuple[str, ...]


@lru_cache(maxsize=1024)
def check_document(document: str, rules: CheckRules) -> tuple[Problem, ...]:
    """Check a configuration; cached, since few change between two reconciles."""
    declared: Implements = {**own_plugins({}), **dict.fromkeys(rules.plugins, _ANY_POINT)}
    options = rules.options
    try:
        config = load_object(
            json.loads(document),
            out_of_tree=declared,
            feature_gates=turned_on(options.feature_gates),
        )
        check_usable(
            with_flags(config, options, source="", out_of_tree=declared),
            implemented_plugins({}).keys() | rules.plugins,
            options.feature_gates,
            source="",
            allow_unsupported=options.allow_unsupported,
            has_file=lambda name: name.startswith(rules.mounted),
            pod_group_apis=options.pod_group_apis,
        )
    except ConfigError as problem:
        return problem.problems
    except Exception as problem:  # noqa: BLE001 - one team's profile must not stop the others
        return (Problem((), unexpected(problem)),)
    return ()


def unexpected(problem: Exception) -> str:
    """Describe an error that no check of a configuration should raise."""
    return f"cannot be read: {type(problem).__name__}: {problem}"
