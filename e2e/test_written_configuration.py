"""kube-scheduler takes the configuration that Stowage writes, and Stowage the one it writes."""

import subprocess
import sys
from pathlib import Path

import pytest

from e2e.support.go_programs import CONTROL_PLANE, build

NOBODY = "http://127.0.0.1:1"
"""kube-scheduler wants to know an API server before it writes, but asks it nothing."""

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
    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_kube_scheduler_starts_with_what_stowage_writes(name: str, tmp_path: Path) -> None:
    """`stowage run --write-config-to` writes a file that kube-scheduler reads, fills in and writes.

    Stowage finds nothing wrong with that one in turn.
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
