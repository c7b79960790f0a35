"""Every alert has a case that `e2e/test_prometheus.py` has promtool judge; queries keep apart."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())
    return [rule for group in document["spec"]["groups"] for rule in group["rules"]]


def written_cases() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((MONITORING / "tests" / "alerts.yaml").read_text())
    return found


def test_every_alert_is_seen_firing() -> None:
    """With the labels it is routed by."""
    firing = {
        case["alertname"]: case["exp_alerts"][0]["exp_labels"]["severity"]
        for test in written_cases()["tests"]
        for case in test["alert_rule_test"]
        if case.get("exp_alerts")
    }

    assert firing == {rule["alert"]: rule["labels"]["severity"] for rule in rules()}


def queries() -> list[str]:
    """Those of the alerts and of the dashboard."""
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    return [*(rule["expr"] for rule in rules()), *shown]


def test_every_query_selects_the_job() -> None:
    """Of each metric: the chart and the operator put their installation in its place."""
    rooms = "scheduler|stowage|leader_election|rest_client|workqueue|process"

    for query in queries():
        selectors = re.findall(rf"\b(?:{rooms})_\w+(\{{[^}}]*\}})?", query)
        assert selectors
        assert all(each.startswith('{job="stowage"') for each in selectors), query


def test_every_alert_names_the_namespace() -> None:
    """Installations of one name in two namespaces have the same job, and are not added up."""
    for rule in rules():
        for grouping in re.findall(r"\bby \(([^)]*)\)", rule["expr"]):
            assert "namespace" in grouping.split(", "), rule["alert"]
        assert "sum(" not in rule["expr"], rule["alert"]
