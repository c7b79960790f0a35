"""Promise: kube-scheduler and Stowage accept the configuration files that the other one writes."""

import subprocess
import sys
from pathlib import Path

import pytest

from e2e.support.go_programs import CONTROL_PLANE, build

NOBODY = "http://127.0.0.1:1"
"""Address without a server; kube-scheduler requires one for writing, but sends no request."""

CONFIGURATIONS = {
    "default": None,
    "weights": """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: packing
    plugins:
      score: {disabled: [{name: ImageLocality}], enabled: [{name: TaintToleration, weight: 7}]}
    pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 3}]}}
""",
}


def run(*command: str | Path) -> None:
    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=180)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_kube_scheduler_starts_with_what_stowage_writes(name: str, tmp_path: Path) -> None:
    """kube-scheduler loads the file of `stowage run --write-config-to` and writes it again.

    Stowage accepts the written file without a problem.
    """
    given, written, again = (tmp_path / f"{step}.yaml" for step in ("given", "written", "again"))
    stowage = (sys.executable, "-m", "scheduler")
    arguments: tuple[str | Path, ...] = ()
    if (text := CONFIGURATIONS[name]) is not None:
        given.write_text(text)
        arguments = ("--config", given)
    kube_scheduler = build(CONTROL_PLANE).parent / "kube-scheduler"

    run(*stowage, "run", *arguments, "--write-config-to", written)
    run(kube_scheduler, "--master", NOBODY, "--config", written, "--write-config-to", again)
    run(*stowage, "config", again)

    assert "KubeSchedulerConfiguration" in again.read_text()
