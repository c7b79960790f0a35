"""The plugin in docs/configuration.md works as it stands there, found through its entry point."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[3]
TEXT = (CHECKOUT / "docs" / "configuration.md").read_text()


def block(language: str, first_line: str) -> str:
    """The code block that begins with a line."""
    blocks = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    return next(found for found in blocks if found.startswith(first_line))


def node(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {k.replace("_", "/"): v for k, v in labels.items()}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The example as an installed package, without an installer."""
    (tmp_path / "acme_stowage.py").write_text(block("python", "# acme_stowage.py"))
    project = tomllib.loads(block("toml", "# pyproject.toml"))["project"]
    info = tmp_path / "acme_stowage-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [f"[{group}]" for group in project["entry-points"]]
    for entries in project["entry-points"].values():
        lines += [f"{name} = {place}" for name, place in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    (tmp_path / "config.yaml").write_text(block("yaml", "# config.yaml"))
    return tmp_path


def stowage(installed: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "scheduler", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=CHECKOUT,
        env={"PYTHONPATH": str(installed), "PATH": "/usr/bin"},
    )
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_the_example_filters_and_scores(installed: Path) -> None:
    """Through the entry point, with its arguments and its weight."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"schedulerName": "stowage", "containers": [{"name": "c", "image": "i"}]},
    }
    label = "acme.com_maintenance"
    items = [node("now", **{label: "now"}), node("soon", **{label: "soon"}), node("fine"), pod]
    cluster = installed / "cluster.json"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    config = f"--config={installed / 'config.yaml'}"
    answer = json.loads(stowage(installed, "explain", config, "-f", str(cluster), "-o", "json"))

    nodes = {found["node"]: found for found in answer["pods"][0]["nodes"]}
    assert nodes["now"]["reasons"] == ["node(s) were under maintenance"]
    assert nodes["fine"]["scores"]["Maintenance"] == {"normalized": 100, "weighted": 500}
    assert nodes["soon"]["scores"]["Maintenance"] == {"normalized": 0, "weighted": 0}


def test_config_knows_the_example(installed: Path) -> None:
    """It is checked, and written back."""
    assert "Maintenance" in stowage(installed, "config", str(installed / "config.yaml"))
