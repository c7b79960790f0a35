"""Runs kwok in place of kubelets: pods become Running, and are deleted after their grace period."""

import textwrap
from pathlib import Path

from e2e.support.controlplane import ControlPlane
from e2e.support.go_programs import KWOK, build
from e2e.support.probing import status_of
from e2e.support.processes import Program
from tests.support.ports import free_port

_STAGES = textwrap.dedent(
    """\
    # Without a stage for nodes kwok looks after no pods either.
    apiVersion: kwok.x-k8s.io/v1alpha1
    kind: Stage
    metadata:
      name: node-starts
    spec:
      resourceRef: {apiGroup: v1, kind: Node}
      selector:
        matchExpressions:
          - {key: .status.phase, operator: NotIn, values: [Running]}
      next:
        statusTemplate: |
          phase: Running
    ---
    apiVersion: kwok.x-k8s.io/v1alpha1
    kind: Stage
    metadata:
      name: pod-starts
    spec:
      resourceRef: {apiGroup: v1, kind: Pod}
      selector:
        matchExpressions:
          - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
          - {key: .status.phase, operator: In, values: [Pending]}
      next:
        statusTemplate: |
          phase: Running
          startTime: {{ Now | Quote }}
          conditions:
            - {type: Initialized, status: "True"}
            - {type: ContainersReady, status: "True"}
            - {type: Ready, status: "True"}
    ---
    apiVersion: kwok.x-k8s.io/v1alpha1
    kind: Stage
    metadata:
      name: pod-ends
    spec:
      resourceRef: {apiGroup: v1, kind: Pod}
      selector:
        matchExpressions:
          - {key: .metadata.deletionTimestamp, operator: Exists}
      delay:
        durationFrom: {expressionFrom: .metadata.deletionTimestamp}
      next:
        delete: true
    """
)


def start_kwok(control_plane: ControlPlane, directory: Path) -> Program:
    """Start kwok for all nodes of a control plane; the caller stops the program."""
    config = directory / "kwok.yaml"
    config.write_text(_STAGES)
    port = free_port()
    program = Program(
        "kwok",
        [
            str(build(KWOK)),
            f"--kubeconfig={control_plane.kubeconfig}",
            f"--config={config}",
            "--manage-all-nodes=true",
            f"--server-address=127.0.0.1:{port}",
        ],
        directory / "kwok.log",
    )
    program.wait_ready(lambda: status_of(f"http://127.0.0.1:{port}/healthz") == 200)
    return program
