"""What the daemon imports: all of it before it decides.

An import takes as long as hundreds of decisions, and everybody waits for it.
"""

import subprocess
import sys

STORAGE = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: {path: /disk}
  nodeAffinity:
    required:
      nodeSelectorTerms:
        - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [a]}]
status: {phase: Available}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim, namespace: default}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
  storageClassName: local
"""

DECIDING = """
import sys

import scheduler.daemon.bootstrap.daemon
from scheduler.testing import Cluster
from scheduler.testing.objects import node, pod

cluster = Cluster()
cluster.add(node("a"), node("b", unschedulable=True), node("c", allocatable={"cpu": "1"}))
cluster.add(sys.argv[1], pod("weak", node="a", requests={"cpu": "3"}))
before = set(sys.modules)
volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]
for waiting in (
    pod("claims", volumes=volumes),
    pod("too-large", requests={"cpu": "9"}),
    pod("strong", requests={"cpu": "3500m"}, priority=9),
):
    decision = cluster.schedule(waiting)
    print(waiting["metadata"]["name"], decision.node, *decision.victims)
print("imported", *sorted(set(sys.modules) - before))
"""


def test_no_decision_imports_anything() -> None:
    """Not even parts of numpy, which imports some when they are first needed."""
    command = [sys.executable, "-c", DECIDING, STORAGE]
    output = subprocess.run(command, check=True, capture_output=True, text=True)

    assert output.stdout.splitlines() == [
        "claims a",
        "too-large ",
        "strong a default/weak",
        "imported",
    ]
