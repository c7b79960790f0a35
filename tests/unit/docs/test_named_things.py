"""What pages and alert rules name exists: flags, fields, metrics, alerts, rights, gates, files."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from prometheus_client import CollectorRegistry

from scheduler.config.feature_gates import DEFAULTS, SWITCHES
from scheduler.config.flags import BY_NAME
from scheduler.config.load import default_configuration, load_object
from scheduler.config.types import API_VERSION, KIND, ExtensionPoint
from scheduler.config.write import to_object
from scheduler.daemon.driver.lanes import MAX_OWED
from scheduler.daemon.serving.endpoints import Endpoints
from scheduler.daemon.serving.health import scheduler_checks
from scheduler.observability.instruments import Instruments
from scheduler.observability.metrics import SchedulerMetrics
from scheduler.observability.shadow_metrics import ShadowMetrics
from scheduler.tools.cli.main import main
from tests.support.pages import blocks
from tests.unit.docs.not_here import ENDPOINTS as NOT_THERE, METRICS as NOT_SERVED

CHECKOUT = Path(__file__).parents[3]
PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
CONFIGURATION = (CHECKOUT / "docs" / "configuration.md").read_text()
OPERATIONS = (CHECKOUT / "docs" / "operations.md").read_text()
INSIDE = ("architecture", "parity", "performance", "releasing", "reliability", "testing")
"""Pages for developers of Stowage; they also name flags of tests and benchmarks."""
RULES = yaml.safe_load((CHECKOUT / "deploy" / "monitoring" / "prometheusrule.yaml").read_text())

OF_OTHER_PROGRAMS = {
    "--reset-then-reuse-values",
    "--reuse-values",
    "--set",
    "--runtime-config",
    "--server-side",
}
"""Flags of helm, kubectl and kube-apiserver."""

OF_READERS = {"stowage.dev/profiles"}
"""Labels that pages only suggest."""

_METRIC = re.compile(
    r"\b(?:scheduler|stowage|rest_client|workqueue|process|leader_election)_[a-z_]+[a-z]\b"
)
_FOLDERS = "deploy|docs|e2e|scheduler|tests|bench|examples|apistub"


def page(path: Path) -> str:
    return path.relative_to(CHECKOUT).as_posix()


@pytest.mark.parametrize("path", [*PAGES, CHECKOUT / "CHANGELOG.md"], ids=page)
def test_pages_agree_on_how_many_events_may_be_owed(path: Path) -> None:
    """The number is that of the outbox."""
    numbers = re.findall(
        r"(?:at most|no more than) (\d+)(?: events)? (?:are |may be )?owed|events owed \((\d+)\)"
        r"|the (\d+) that may be owed",
        path.read_text(),
        re.IGNORECASE,
    )
    assert {int("".join(found)) for found in numbers} <= {MAX_OWED}


@pytest.mark.parametrize("path", PAGES, ids=page)
def test_links_lead_somewhere(path: Path) -> None:
    """To a file of the repository, and to a heading in it."""
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        found = path.parent / file if file else path
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found.read_text()), target


@pytest.mark.parametrize("path", PAGES, ids=page)
def test_files_exist(path: Path) -> None:
    """Those written as code."""
    for name in re.findall(rf"`((?:{_FOLDERS})/[\w./-]*)`", path.read_text()):
        assert (CHECKOUT / name).exists(), name


@pytest.mark.parametrize("path", PAGES, ids=page)
def test_flags_exist(path: Path) -> None:
    """They are options of `stowage`, or of the program that the page is about."""
    known = options() | OF_OTHER_PROGRAMS | (developers_options() if path.stem in INSIDE else set())

    assert set(re.findall(r"`(--[a-z][a-z0-9-]*)", path.read_text())) - known == set()


def options() -> set[str]:
    """Return the options of all commands of `stowage`."""
    found = {"--help", *(f"--{name}" for name in BY_NAME)}
    context = click.Context(main)
    waiting = [main.get_command(context, name) for name in main.list_commands(context)]
    while waiting:
        command = waiting.pop()
        assert command is not None
        waiting += command.commands.values() if isinstance(command, click.Group) else ()
        found.update(o for each in command.params for o in (*each.opts, *each.secondary_opts))
    return found


def developers_options() -> set[str]:
    """Return what looks like an option in the sources of tests and benchmarks."""
    files = [file for name in ("tests", "e2e", "bench") for file in (CHECKOUT / name).rglob("*.py")]
    text = "".join(file.read_text() for file in files if file.parent != Path(__file__).parent)
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))


def test_every_flag_with_an_effect_is_described() -> None:
    """In the table of flags."""
    effective = {f"--{flag.name}" for flag in BY_NAME.values() if not flag.no_effect} - {"--v"}

    assert {flag for flag in effective if f"`{flag}`" not in CONFIGURATION} == set()


def test_every_field_is_described() -> None:
    """Of the file and of the arguments of plugins."""
    written = set(re.findall(r"\w+", CONFIGURATION))

    assert set(fields(to_object(default_configuration()))) - written == set()


@pytest.mark.parametrize("path", PAGES, ids=page)
def test_metrics_exist(path: Path) -> None:
    """Names of metrics are those that are served, or are listed as missing."""
    named = re.findall(r"`([a-z_]+)(?:\{[^`]*\})?`", path.read_text())

    assert set(filter(_METRIC.fullmatch, named)) - {*metric_names(), *NOT_SERVED} == set()


def test_every_alert_is_described() -> None:
    """The handbook has each alert, and pages name no other."""
    alerts = {rule["alert"] for group in RULES["spec"]["groups"] for rule in group["rules"]}
    pages = "".join(path.read_text() for path in PAGES)

    assert set(re.findall(r"^\| `(Stowage\w+)` \|", OPERATIONS, re.MULTILINE)) == alerts
    assert set(re.findall(r"`(Stowage[A-Z]\w+)`", pages)) == alerts


def test_every_feature_gate_is_described() -> None:
    """The table has the gates that can be turned on, and pages set only gates that exist."""
    [table] = re.findall(r"^\| feature gate \|.*?\n\n", CONFIGURATION, re.MULTILINE | re.DOTALL)
    named = {
        gate
        for path in PAGES
        for gate in re.findall(r"\b([A-Z]\w*[a-z]\w*)=(?:true|false)\b", path.read_text())
    }

    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == SWITCHES
    assert named - DEFAULTS.keys() == set()


def test_every_right_is_described() -> None:
    """The table of rights has what the manifest grants to the scheduler, and nothing else."""
    manifest = yaml.safe_load_all((CHECKOUT / "deploy" / "base" / "rbac.yaml").read_text())
    granted = {
        (resource, verb)
        for role in manifest
        if role["metadata"]["name"] in ("stowage", "stowage-leader-election")
        for rule in role.get("rules", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    [table] = re.findall(r"^\| on \| verbs \|.*?\n\n", OPERATIONS, re.MULTILINE | re.DOTALL)
    described = set()
    for row in table.strip().splitlines()[2:]:
        _, resources, verbs, *_ = row.replace(" (its own)", "").split("|")
        # A list of verbs for each list of resources, or one resource with several such lists.
        lists = [resources.split(";"), verbs.split(";")]
        if len(lists[0]) == 1:
            lists[0] *= len(lists[1])
        for several, allowed in zip(*lists, strict=True):
            described |= {
                (resource.strip(), verb.strip())
                for resource in several.split(",")
                for verb in allowed.split(",")
            }

    assert described == granted


def test_names_in_manifests_exist() -> None:
    """Roles that a reader binds, and labels and annotations of Stowage."""
    pages = "".join(path.read_text() for path in PAGES)
    roles = set(re.findall(r"\bstowage-[a-z]+-reader\b", pages))
    labels = set(re.findall(r"\bstowage\.dev/[a-z][a-z-]+\b", pages))
    deployed = "".join(
        path.read_text() for path in (CHECKOUT / "deploy").rglob("*.yaml")
    ) + "".join(path.read_text() for path in (CHECKOUT / "scheduler").rglob("*.py"))

    assert {role for role in roles if f"name: {role}\n" not in deployed} == set()
    assert {label for label in labels if label not in deployed} <= OF_READERS


@pytest.mark.parametrize("path", PAGES, ids=page)
def test_configurations_are_valid(path: Path) -> None:
    """Each block that is a KubeSchedulerConfiguration, or a part of one."""
    for text in blocks(path, "yaml"):
        for document in yaml.safe_load_all(text):
            found = document if isinstance(document, dict) else {}
            if found.get("kind", KIND if "profiles" in found else "") == KIND:
                load_object({"apiVersion": API_VERSION, "kind": KIND, **found})


@pytest.mark.parametrize("path", PAGES, ids=page)
def test_values_of_the_chart_exist(path: Path) -> None:
    """Those that a page sets with helm."""
    values = yaml.safe_load((CHECKOUT / "deploy/helm/stowage/values.yaml").read_text())
    values["configuration"] = to_object(default_configuration())
    for setting in re.findall(r"--set ['\"]?([\w.,=\[\]-]+)", path.read_text()):
        for name in re.findall(r"(?:^|,)([\w.\[\]]+)=", setting):
            place = values
            for part in re.split(r"[.\[]", name):
                if not isinstance(place, dict) or not place:
                    # Any content is allowed here; the chart's schema has the details.
                    break
                assert part in place, name
                place = place[part]


def test_every_page_is_found() -> None:
    """From the README and from the site's navigation."""
    pages = {path.name for path in PAGES} - {"README.md", "index.md"}
    readme = (CHECKOUT / "README.md").read_text()
    navigation = (CHECKOUT / "mkdocs.yml").read_text()

    assert pages - set(re.findall(r"docs/([\w-]+\.md)", readme)) == set()
    assert pages - set(re.findall(r": ([\w-]+\.md)$", navigation, re.MULTILINE)) == set()


@pytest.mark.parametrize("path", PAGES, ids=page)
def test_paths_exist(path: Path) -> None:
    """Those of the secure port are served, by the daemon or by a shadow."""
    constants = filter(None, Endpoints.routes.__code__.co_consts)
    served = {each for each in constants if isinstance(each, str) and each.startswith("/")}
    for file in ("daemon/bootstrap/daemon.py", "tools/cli/shadow_watch.py"):
        [dumps] = re.findall(r"debug=\{(.*)\}", (CHECKOUT / "scheduler" / file).read_text())
        served |= {f"/debug/{name}" for name in re.findall(r'"(\w+)":', dumps)}
    for kind, checks in scheduler_checks(lambda: None, bool, bool, port=lambda: None).items():
        served |= {f"/{kind}", *(f"/{kind}/{check}" for check in checks)}
    kinds = "debug|metrics|configz|statusz|flagz|livez|readyz|healthz"
    named = re.findall(
        rf"`(?:GET |PUT |DELETE )?(/(?:{kinds})(?:/[\w-]+)*)\b(?!/?\*)", path.read_text()
    )

    assert set(named) - served - NOT_THERE.keys() == set()


def test_every_extension_point_is_described() -> None:
    """As the names of fields."""
    [line] = re.findall(r"^Extension points: `([^`]+)`", CONFIGURATION, re.MULTILINE)

    assert set(line.split()) == {point.value for point in ExtensionPoint}


def test_messages_exist() -> None:
    """What operators are told to look for in the log is logged."""
    source = "".join(file.read_text() for file in (CHECKOUT / "scheduler").rglob("*.py"))
    told = {
        message
        for group in RULES["spec"]["groups"]
        for rule in group["rules"]
        for message in re.findall(r'"([A-Z][^"]+)"', rule["annotations"]["runbook"])
    }
    told |= {
        text
        for text in re.findall(r"`([A-Z][a-z]+ [a-z][^`]*)`", OPERATIONS)
        if not text.startswith("PUT")
    }

    assert len(told) >= 4
    assert {message for message in told if f'"{message}' not in source} == set()


def anchors(text: str) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def fields(value: Any) -> Iterator[str]:
    """The names of all fields, however deep."""
    if isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from fields(item)
    elif isinstance(value, list):
        for item in value:
            yield from fields(item)


def metric_names() -> Iterator[str]:
    """With the endings their samples have."""
    registry = CollectorRegistry()
    SchedulerMetrics(registry)
    ShadowMetrics(Instruments(registry))
    for family in registry.collect():
        yield family.name
        yield f"{family.name}_total"
    for file in (CHECKOUT / "scheduler" / "kernel" / "plugins").glob("*.py"):
        yield from re.findall(r'"(stowage_\w+)"', file.read_text())


def test_every_picture_is_shown() -> None:
    """A picture that no page shows is drawn in vain, and a page shows no other."""
    there = {path.name for path in (CHECKOUT / "docs" / "pictures").iterdir()}
    shown = {
        name
        for path in PAGES
        for name in re.findall(r"!\[[^\]]+\]\([a-z/]*pictures/([^)]+)\)", path.read_text())
    }

    assert shown == there
