"""Promise: every alert and every panel queries metrics that exist.

The test needs no Prometheus: it looks up the metrics and labels of each query in a scrape of an
instance after some work.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.support.cluster import Cluster
from e2e.support.go_programs import CHECKOUT
from e2e.support.rights import scheduler_kubeconfig
from e2e.support.scraping import Family, create_workload_nodes, families, fetch, run_workload
from e2e.support.stowage import start_stowage

MONITORING = CHECKOUT / "deploy" / "monitoring"
FROM_SCRAPING = {"job", "pod", "instance", "namespace", "le"}
"""Labels added by Prometheus, and the label of bucket bounds."""

_METRIC = re.compile(
    r"\b((?:scheduler|stowage|leader_election|rest_client|workqueue|process)_[a-z0-9_]+)\s*(?:\{([^}]*)\})?"
)
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPING = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")


def alerts() -> Iterator[tuple[str, str]]:
    """Yield name and query of each alert rule."""
    document = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())
    for group in document["spec"]["groups"]:
        for rule in group["rules"]:
            assert rule["annotations"]["summary"]
            assert rule["annotations"]["runbook"]
            yield rule["alert"], rule["expr"]


def panels() -> Iterator[tuple[str, str]]:
    """Yield title and query of each panel."""
    for panel in json.loads((MONITORING / "dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield f"{panel['title']}: {target['legendFormat']}", target["expr"]


QUERIES = [*alerts(), *panels()]


@pytest.fixture(scope="module")
def scrape(shared_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scrape of an instance after some work."""
    directory: Path = tmp_path_factory.mktemp("monitoring")
    program = start_stowage(
        scheduler_kubeconfig(shared_cluster),
        directory,
        leader_elect=True,
        arguments=["--serve-without-authorization"],
    )
    with program:
        create_workload_nodes(shared_cluster)
        run_workload(shared_cluster, "monitored", "stowage")
        yield fetch(f"{program.url}/metrics")
    shared_cluster.reset()


@pytest.fixture(scope="module")
def served(scrape: str) -> dict[str, Family]:
    """The metric families by the names of their samples."""
    return {
        sample: family for family in families(scrape).values() for sample in sorted(family.samples)
    }


@pytest.mark.parametrize(("name", "query"), QUERIES, ids=[name for name, _ in QUERIES])
def test_query_finds_what_it_asks_for(served: dict[str, Family], name: str, query: str) -> None:
    """Each metric exists, with every label in a matcher or grouping."""
    metrics = _METRIC.findall(query)
    assert metrics, query
    known = set(FROM_SCRAPING)
    for metric, matchers in metrics:
        assert metric in served, metric
        labels = served[metric].labels | FROM_SCRAPING
        assert {label for label, _, _ in _MATCHER.findall(matchers)} <= labels, metric
        known |= labels
    for grouping in _GROUPING.findall(query):
        assert {label.strip() for label in grouping.split(",")} <= known, grouping


def test_values_asked_for_exist(served: dict[str, Family]) -> None:
    """Each value in a matcher exists; `error` is exempt, since it needs a failure."""
    asked = {
        (metric, label, value)
        for _, query in QUERIES
        for metric, matchers in _METRIC.findall(query)
        for label, operator, value in _MATCHER.findall(matchers)
        if operator in ("=", "!=") and label not in FROM_SCRAPING
    }
    absent = {each for each in asked if each[2] not in served[each[0]].values[each[1]]}

    assert absent == {("scheduler_schedule_attempts_total", "result", "error")}


def test_every_alert_is_explained() -> None:
    """The operations handbook explains every alert."""
    handbook = (CHECKOUT / "docs" / "operations.md").read_text()

    assert [name for name, _ in alerts() if f"`{name}`" not in handbook] == []
