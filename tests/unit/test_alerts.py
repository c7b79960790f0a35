"""Every alert has a case that `e2e/test_prometheus.py` has promtool judge."""

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
