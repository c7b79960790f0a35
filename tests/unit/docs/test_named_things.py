"""What the pages and the alert rules name exists: flags, fields, metrics, messages, files."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from scheduler.config.flags import BY_NAME
from scheduler.config.load import default_configuration
from scheduler.config.write import to_object
from scheduler.daemon.driver.lanes import MAX_OWED
from scheduler.observability.metrics import SchedulerMetrics

CHECKOUT = Path(__file__).parents[3]
PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
OPERATORS_PAGES = [CHECKOUT / "docs" / name for name in ("configuration.md", "operations.md")]
CONFIGURATION = (CHECKOUT / "docs" / "configuration.md").read_text()
RULES = yaml.safe_load((CHECKOUT / "deploy" / "monitoring" / "prometheusrule.yaml").read_text())

OF_HELM = {"--reset-then-reuse-values", "--reuse-values"}
OF_OTHER_COMMANDS = {"--at", "--explain", "--seed", "--keep", "--config", "--kubeconfig", "--help"}
"""Flags that are not those of `stowage run`, and are shown with the command they belong to."""

_METRIC = re.compile(
    r"\b(?:scheduler|stowage|rest_client|workqueue|process|leader_election)_[a-z_]+[a-z]\b"
)
_FOLDERS = "deploy|docs|e2e|scheduler|tests|bench"


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


@pytest.mark.parametrize("path", OPERATORS_PAGES, ids=page)
def test_flags_exist(path: Path) -> None:
    """Under the name they are given here."""
    for flag in re.findall(r"`(--[a-z][a-z0-9-]*)", path.read_text()):
        assert flag in OF_OTHER_COMMANDS | OF_HELM or flag.removeprefix("--") in BY_NAME, flag


def test_every_flag_with_an_effect_is_described() -> None:
    """In the table of flags."""
    effective = {f"--{flag.name}" for flag in BY_NAME.values() if not flag.no_effect} - {"--v"}

    assert {flag for flag in effective if f"`{flag}`" not in CONFIGURATION} == set()


def test_every_field_is_described() -> None:
    """Of the file and of the arguments of plugins."""
    written = set(re.findall(r"\w+", CONFIGURATION))

    assert set(fields(to_object(default_configuration()))) - written == set()


@pytest.mark.parametrize("path", OPERATORS_PAGES, ids=page)
def test_metrics_exist(path: Path) -> None:
    """Names of metrics are those that are served."""
    served = set(metric_names())
    for name in re.findall(r"`([a-z_]+)`", path.read_text()):
        if _METRIC.fullmatch(name):
            assert name in served, name


def test_messages_exist() -> None:
    """What operators are told to look for in the log is logged."""
    source = "".join(file.read_text() for file in (CHECKOUT / "scheduler").rglob("*.py"))
    told = {
        message
        for group in RULES["spec"]["groups"]
        for rule in group["rules"]
        for message in re.findall(r'"([A-Z][^"]+)"', rule["annotations"]["runbook"])
    }
    handbook = (CHECKOUT / "docs" / "operations.md").read_text()
    told |= {
        text
        for text in re.findall(r"`([A-Z][a-z]+ [a-z][^`]*)`", handbook)
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
    for family in registry.collect():
        yield family.name
        yield f"{family.name}_total"


def test_every_picture_is_shown() -> None:
    """A picture that no page shows is drawn in vain, and a page shows no other."""
    there = {path.name for path in (CHECKOUT / "docs" / "pictures").iterdir()}
    shown = {
        name
        for path in PAGES
        for name in re.findall(r"!\[[^\]]+\]\([a-z/]*pictures/([^)]+)\)", path.read_text())
    }

    assert shown == there
