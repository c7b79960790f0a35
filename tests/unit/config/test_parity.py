"""Configurations mean to Stowage what they mean to kube-scheduler 1.36.3 (see record.py)."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.config.expansion import expand
from scheduler.config.load import load
from scheduler.config.plugin_sets import IN_TREE
from scheduler.config.problems import ConfigError
from scheduler.config.types import ExtensionPoint
from scheduler.config.write import to_object, to_yaml

HERE = Path(__file__).parent
RECORDED: dict[str, Any] = json.loads((HERE / "kube-scheduler.json").read_text())
ACCEPTED = sorted((HERE / "accepted").glob("*.yaml"))
if not yaml.__with_libyaml__:
    ACCEPTED.remove(HERE / "accepted" / "json.yaml")  # PyYAML itself takes no tabs in JSON
BROKEN = sorted((HERE / "broken").glob("*.yaml"))

OUR_DEFAULTS = {
    ("leaderElection", "resourceName"): ("kube-scheduler", "stowage"),
    ("clientConnection", "qps"): (50, -1),
    ("clientConnection", "contentType"): (
        "application/vnd.kubernetes.protobuf",
        "application/json",
    ),
}
"""Where Stowage chooses another default, with upstream's and ours."""

STRICTER = {
    "extender-negative-timeout": "kube-scheduler waits for such an extender without a limit",
    "retry-longer-than-renewal": "kube-scheduler writes it, and stops when it starts to elect",
    "two-documents": "kube-scheduler silently ignores all but the first",
}
"""What only Stowage refuses, and why."""

pytestmark = pytest.mark.parity


def _comparable(config: dict[str, Any]) -> dict[str, Any]:
    """Drop what says nothing: zero values, arguments of plugins that are enabled nowhere."""
    result: dict[str, Any] = _without_zeros(config)
    for profile in result["profiles"]:
        enabled = {
            plugin["name"]
            for plugin_set in profile["plugins"].values()
            for plugin in plugin_set.get("enabled", ())
        }
        configs = [c for c in profile.get("pluginConfig", ()) if c["name"] in enabled]
        profile["pluginConfig"] = sorted(configs, key=lambda c: str(c["name"]))
    return result


def _without_zeros(value: Any) -> Any:
    """Drop fields that Go may or may not write: false, 0, empty. List items all stay."""
    if isinstance(value, dict):
        pairs = ((key, _without_zeros(item)) for key, item in value.items())
        return {key: item for key, item in pairs if item}
    return [_without_zeros(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_effective_configuration_equals_kube_schedulers(path: Path) -> None:
    """Everything kube-scheduler fills in is filled in alike, but for our own defaults."""
    recorded = RECORDED[f"accepted/{path.name}"]
    expected = _comparable(recorded["config"])

    config = load(path.read_bytes(), default_scheduler_name="default-scheduler")

    actual = _comparable(to_object(config))
    for (section, field), (theirs, ours) in OUR_DEFAULTS.items():
        if actual[section][field] == ours and expected[section][field] == theirs:
            actual[section][field] = theirs
    assert actual == expected


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_plugins_run_where_they_run_in_kube_scheduler(path: Path) -> None:
    """Each profile expands to the same plugins in the same order with the same weights."""
    recorded = RECORDED[f"accepted/{path.name}"]["expansions"]

    config = load(path.read_bytes(), default_scheduler_name="default-scheduler")
    expansions = [expand(profile, IN_TREE) for profile in config.profiles]

    # Weights are recorded for scores; elsewhere kube-scheduler logs 0.
    actual = [
        {point.value: [list(p) for p in plugins] for point, plugins in e.items() if plugins}
        for e in expansions
    ]
    assert actual == recorded


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_refuses_what_kube_scheduler_refuses(path: Path) -> None:
    """A broken file is refused by both; the few that only Stowage refuses are listed."""
    kube_scheduler_accepts = RECORDED[f"broken/{path.name}"] is not None

    with pytest.raises(ConfigError):
        load(path.read_bytes())

    assert kube_scheduler_accepts == (path.stem in STRICTER)


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_what_is_written_reads_back_the_same(path: Path) -> None:
    """`to_yaml` loses nothing; record.py lets kube-scheduler start with it, too."""
    config = load(path.read_bytes())

    assert load(to_yaml(config)) == config


def test_recordings_cover_every_file() -> None:
    """A file that was added without recording fails here instead of being skipped."""
    paths = {path.relative_to(HERE).as_posix() for path in (*ACCEPTED, *BROKEN)}

    assert paths == set(RECORDED)
    assert set(ExtensionPoint) >= {
        ExtensionPoint(point)
        for answer in RECORDED.values()
        if answer is not None
        for expansion in answer["expansions"]
        for point in expansion
    }
