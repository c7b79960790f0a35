"""Starts a cluster with real nodes and a shell for manual use: `python -m e2e.nodes shell`."""

import os
import subprocess

from e2e.nodes.lab import Lab
from e2e.support.go_programs import CONTROL_PLANE, build

if __name__ == "__main__":
    with Lab() as lab:
        programs = build(CONTROL_PLANE).parent
        print(f"kubectl apply -k deploy/base   # logs are in {lab.directory}; exit ends everything")
        subprocess.run(
            ["/bin/bash", "--norc"],
            check=False,
            env={
                **os.environ,
                "KUBECONFIG": str(lab.control_plane.kubeconfig),
                "PATH": f"{programs}:{os.environ['PATH']}",
            },
        )
