"""Every alert fires for what it is about: judged by Prometheus' own promtool, where it is there."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
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


def test_promtool_agrees(tmp_path: Path) -> None:
    """Syntax, and each case; annotations are the operator's and may be reworded."""
    promtool = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool here (Debian: prometheus); PROMTOOL may name one")
    document = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())
    for rule in rules():
        assert rule["annotations"].keys() == {"summary", "runbook"}
    for group in document["spec"]["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(document["spec"]))
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(written_cases()))

    done = subprocess.run(
        [promtool, "test", "rules", "alerts.yaml"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
